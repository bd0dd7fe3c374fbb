//! Inputs, verdicts and summaries of phases.

mod modes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use capataz_contracts::v1::{self, payload::Data};
use capataz_engine::{
    Composition, Computed, Judgement, KnownPhase, Purpose, Query, ResolvedInput, Resolving, Rule, Summing,
    TaskRef,
};
use serde_json::{Value, json};

use super::{Contents, Unavailable, Unread, compute, payload_of, verdict};

/// Blobs by made-up hashes.
#[derive(Default)]
struct Blobs {
    kept: RefCell<BTreeMap<String, Vec<u8>>>,
    is_away: bool,
    /// How many of them were read.
    reads: Cell<usize>,
}

impl Blobs {
    fn blob(&self, contents: &[u8]) -> v1::Payload {
        let blob = self.keep(contents).unwrap();
        v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Blob(blob)) }
    }
}

impl Contents for Blobs {
    fn read(&self, blob: &v1::BlobRef, most: usize) -> Result<Vec<u8>, Unread> {
        if self.is_away {
            return Err(Unread::Unavailable);
        }
        let kept = self.kept.borrow();
        let contents = kept.get(&blob.blake3).ok_or(Unread::Missing)?;
        match contents.len() <= most {
            true => {
                self.reads.set(self.reads.get() + 1);
                Ok(contents.clone())
            }
            false => Err(Unread::TooLarge { size: contents.len() as u64 }),
        }
    }

    fn keep(&self, contents: &[u8]) -> Result<v1::BlobRef, Unread> {
        let hash = format!("blob-{}", self.kept.borrow().len());
        self.kept.borrow_mut().insert(hash.clone(), contents.to_vec());
        Ok(v1::BlobRef { blake3: hash, size: contents.len() as u64, answer: None })
    }

    fn recall(&self, _: &capataz_engine::Wanted) -> Result<Vec<super::Entry>, Unread> {
        Ok(Vec::new())
    }

    fn tokens(&self, _: &str) -> u32 {
        panic!("a phase counts no tokens")
    }

    fn now(&self) -> u64 {
        panic!("a phase measures nothing")
    }
}

fn payload(value: &Value) -> v1::Payload {
    text(&value.to_string())
}

fn text(text: &str) -> v1::Payload {
    let data = Some(Data::Inline(text.to_owned().into()));
    v1::Payload { media_type: "application/json".to_owned(), data }
}

/// The value of a payload, wherever it is.
fn value(payload: &v1::Payload, blobs: &Blobs) -> Value {
    match payload.data.as_ref().unwrap() {
        Data::Inline(text) => serde_json::from_slice(text).unwrap(),
        Data::Blob(blob) => serde_json::from_slice(&blobs.kept.borrow()[&blob.blake3]).unwrap(),
    }
}

fn composition(template: &Value, input: &Value) -> Composition {
    Composition {
        template: template.to_string(),
        for_each: None,
        items: None,
        given: None,
        overrides: BTreeMap::new(),
        input: payload(input),
        phases: BTreeMap::new(),
    }
}

#[track_caller]
fn inputs(composition: Composition, blobs: &Blobs) -> Vec<Value> {
    match compute(&Query::Compose(Box::new(composition)), blobs).unwrap().unwrap() {
        Computed::Inputs(inputs) => inputs.iter().map(|input| value(input, blobs)).collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(query: Query) -> v1::Error {
    match compute(&query, &Blobs::default()).unwrap().unwrap() {
        Computed::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_input_is_made_of_what_the_run_was_given_and_of_what_goes_on() {
    let template = json!({
        "all": "${input}",
        "name": "of ${input.name}, ${phases.count.summary.total} files",
        "first": "${phases.list.output.0.file}",
        "one": "${phases.count.output.kind}",
        "literally": "$${input}",
    });
    let input = json!({ "name": "a repo" });
    let count = KnownPhase {
        summary: Some(payload(&json!({ "total": 3 }))),
        outputs: vec![payload(&json!({ "kind": "docs", "total": 3 }))],
        has_items: false,
    };
    let list = KnownPhase { summary: None, outputs: vec![payload(&json!({ "file": "x" }))], has_items: true };
    let phases = BTreeMap::from([("count".to_owned(), count), ("list".to_owned(), list)]);
    let composed = inputs(Composition { phases, ..composition(&template, &input) }, &Blobs::default());
    let expected = json!({
        "all": { "name": "a repo" },
        "name": "of a repo, 3 files",
        "first": "x",
        "one": "docs",
        "literally": "${input}",
    });
    assert_eq!(composed, [expected]);
}

#[test]
fn a_phase_with_a_list_has_an_input_for_each_item_or_for_those_that_are_wanted() {
    let of = |items: Option<Vec<u32>>| Composition {
        for_each: Some("${input.list}".to_owned()),
        items,
        ..composition(
            &json!({ "item": "${item.n}" }),
            &json!({ "list": [{ "n": 1 }, { "n": 2 }, { "n": 3 }] }),
        )
    };
    let blobs = Blobs::default();
    let all = [json!({ "item": 1 }), json!({ "item": 2 }), json!({ "item": 3 })];
    assert_eq!(inputs(of(None), &blobs), all);
    assert_eq!(inputs(of(Some(vec![2, 0])), &blobs), [all[2].clone(), all[0].clone()]);
    // Single items may have been given something else.
    let overrides = BTreeMap::from([(1, text("\"b\""))]);
    let mixed = inputs(Composition { overrides, ..of(None) }, &blobs);
    assert_eq!(mixed, [all[0].clone(), json!("b"), all[2].clone()]);
    // Where the items are not known, what a person gives is a list of them.
    let listed = inputs(Composition { given: Some(text("[7,8]")), ..of(None) }, &blobs);
    assert_eq!(listed, [json!(7), json!(8)]);
    let error = refused(Query::Compose(Box::new(Composition { given: Some(text("7")), ..of(None) })));
    assert!(error.message.contains("the items are not known yet"), "{}", error.message);
    // What a person gives is given to each of them.
    let given = Composition { given: Some(text("7")), ..of(Some(vec![1, 2])) };
    assert_eq!(inputs(given, &blobs), [json!(7), json!(7)]);
}

#[test]
fn what_is_large_comes_from_blobs_and_goes_into_them() {
    let blobs = Blobs::default();
    let long = "x".repeat(40_000);
    let input = blobs.blob(json!({ "long": long, "short": 1 }).to_string().as_bytes());
    let of = |template: Value| Composition { input: input.clone(), ..composition(&template, &json!(null)) };
    assert_eq!(inputs(of(json!("${input.long}")), &blobs), [json!(long)]);
    let query = Query::Compose(Box::new(of(json!("${input}"))));
    let Computed::Inputs(large) = compute(&query, &blobs).unwrap().unwrap() else { panic!() };
    assert!(matches!(large[0].data, Some(Data::Blob(_))), "more than 32 KiB");
    let query = Query::Compose(Box::new(of(json!("${input.short}"))));
    let Computed::Inputs(small) = compute(&query, &blobs).unwrap().unwrap() else { panic!() };
    assert_eq!(small[0].data, Some(Data::Inline("1".into())));
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason() {
    let list = |input: Value| Composition {
        for_each: Some("${input.list}".to_owned()),
        ..composition(&json!("${item}"), &input)
    };
    let cases = [
        (composition(&json!("${input.a.b}"), &json!({ "a": 1 })), "has no `b`"),
        (composition(&json!("${phases.x.summary}"), &json!(null)), "there is no `x.summary`"),
        (list(json!({ "list": { "a": 1 } })), "${input.list} is no list"),
        (list(json!({ "list": vec![0; 1_001] })), "has 1001 items; at most 1000 are allowed"),
        (
            Composition { input: text("{\"a\":1,\"a\":2}"), ..composition(&json!("${input}"), &json!(null)) },
            "no JSON",
        ),
        (Composition { items: Some(vec![5]), ..list(json!({ "list": [1] })) }, "there is no item 5"),
    ];
    for (composition, reason) in cases {
        let error = refused(Query::Compose(Box::new(composition)));
        assert_eq!(error.code, "INPUT_UNRESOLVED");
        assert!(error.message.contains(reason), "{} should say {reason}", error.message);
    }
}

#[test]
fn what_cannot_be_read_now_is_computed_later() {
    let blobs = Blobs::default();
    let input = blobs.blob(b"1");
    let away = Blobs { is_away: true, ..blobs };
    let query =
        Query::Compose(Box::new(Composition { input, ..composition(&json!("${input}"), &json!(null)) }));
    assert_eq!(compute(&query, &away), Err(Unavailable));
}

fn summing(outputs: &[Value], keys: &[&str], has_items: bool) -> Summing {
    Summing {
        rule: v1::SummaryRule::Unspecified,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        outputs: outputs.iter().map(payload).collect(),
        has_items,
        inputs: None,
    }
}

#[track_caller]
fn summary(summing: Summing) -> Value {
    let blobs = Blobs::default();
    match compute(&Query::Summarize(Box::new(summing)), &blobs).unwrap().unwrap() {
        Computed::Summary(summary) => value(&summary, &blobs),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_summary_has_the_declared_keys_and_nothing_else() {
    let output = json!({ "a": 1, "b": [2], "c": "secret" });
    assert_eq!(
        summary(summing(std::slice::from_ref(&output), &["a", "b", "z"], false)),
        json!({ "a": 1, "b": [2] })
    );
    assert_eq!(summary(summing(&[output.clone(), json!("text")], &["a"], true)), json!([{ "a": 1 }, {}]));
    assert_eq!(summary(summing(&[output], &[], false)), json!({}));
    assert_eq!(summary(summing(&[], &["a"], true)), json!([]));
}

#[test]
fn a_summary_that_is_no_checkpoint_is_refused_with_its_size_and_its_largest_keys() {
    // Values of 30,002, 4,002 and 1 bytes, keys with their colons of 6, 6 and 4, two commas, two braces.
    let output = json!({ "big": "x".repeat(30_000), "mid": "y".repeat(4_000), "n": 1 });
    let summing = summing(&[output], &["big", "mid", "n"], false);
    let error = refused(Query::Summarize(Box::new(summing)));
    assert_eq!(error.code, "CHECKPOINT_TOO_LARGE");
    let expected = "the summary of the phase has 34025 bytes, and a checkpoint at most 32768; its largest keys: \
                    \"big\" 30002, \"mid\" 4002, \"n\" 1";
    assert_eq!(error.message, expected);
}

#[test]
fn surfaces_are_summarized_of_inputs_and_outputs() {
    let inputs = Composition {
        for_each: Some("${input}".to_owned()),
        ..composition(
            &json!("${item}"),
            &json!([{ "sourceId": "Org/App", "paths": ["src/main.rs", "docs/a.md", "docs/b.md"] }]),
        )
    };
    let output = json!({
        "classification": "product_core", "notes": "x",
        "surfaceBuckets": [{ "surface": "docs", "pathPrefix": "docs" }],
    });
    let summing =
        Summing { rule: v1::SummaryRule::Surfaces, inputs: Some(inputs), ..summing(&[output], &[], true) };
    let summary = summary(summing);
    // Two paths lie in the bucket, and one counts for the classification.
    assert_eq!(summary.pointer("/surfaces/0/sourceId"), Some(&json!("org/app")));
    let counts: Vec<(&str, u64)> = summary["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["surface"].as_str().unwrap(), entry["signalCount"].as_u64().unwrap()))
        .collect();
    assert_eq!(counts, [("docs", 2), ("product_core", 1)]);
}

const GRADE: &str = r#"{"type":"object","required":["grade"],"additionalProperties":false,"properties":{
    "grade":{"enum":["a","b"],"x-lowercase":true},"note":{"type":"string"}}}"#;

fn judgement(output: v1::Payload, input: Option<v1::Payload>, checks: &[v1::OutputCheck]) -> Judgement {
    Judgement {
        purpose: Purpose::Output { task: TaskRef { wave: 0, task: 0 }, lease: 3 },
        schemas: vec![GRADE.to_owned()],
        rule: Some(Rule { checks: checks.iter().map(|check| *check as i32).collect(), input, attempt: 2 }),
        value: output,
        found: Vec::new(),
    }
}

#[test]
fn what_was_found_otherwise_goes_into_an_input_that_is_not_in_the_log() {
    let blobs = Blobs::default();
    let large = "x".repeat(40_000);
    let given = payload_of(json!({ "query": large }).to_string().as_bytes(), &blobs).ok().unwrap();
    let found = v1::SchemaViolation {
        path: "/nextAction/stepIndex".to_owned(),
        rule: "step".to_owned(),
        ..v1::SchemaViolation::default()
    };
    let of = |output: v1::Payload, given: v1::Payload| {
        let found = vec![found.clone()];
        verdict(Judgement { found, ..judgement(output, Some(given), &[]) }, &blobs)
    };
    // Its schema would have found something else: nothing is judged any more.
    let told = of(text("{\"grade\":\"z\"}"), given.clone()).unwrap();
    let corrected = value(&told.corrected.unwrap(), &blobs);
    assert_eq!(corrected["query"], large);
    let correction = &corrected["correction"];
    assert_eq!((&correction["attempt"], &correction["output"]["grade"]), (&json!(2), &json!("z")));
    assert_eq!(correction["violations"].as_array().unwrap().len(), 1);
    assert_eq!(correction["violations"][0]["path"], "/nextAction/stepIndex");
    // What nobody could read is not told.
    let unread = of(v1::Payload::default(), given).unwrap();
    let corrected = value(&unread.corrected.unwrap(), &blobs);
    assert_eq!(corrected["correction"].get("output"), None);
}

#[test]
fn an_output_that_passes_is_changed_only_where_its_schema_marks_it() {
    let blobs = Blobs::default();
    let passed =
        verdict(judgement(text(" { \"grade\" : \"A\", \"note\":\"Ä \\u0041\" } "), None, &[]), &blobs)
            .unwrap();
    assert_eq!((passed.violations, passed.corrected), (vec![], None));
    assert_eq!(passed.value, Some(text(" { \"grade\" : \"a\", \"note\":\"Ä \\u0041\" } ")));
    let unchanged = verdict(judgement(text("{\"grade\":\"b\"}"), None, &[]), &blobs).unwrap();
    assert_eq!(unchanged.value, None);
}

#[test]
fn a_rejected_output_comes_back_in_the_input_with_every_violation() {
    let blobs = Blobs::default();
    let given = payload(&json!({ "sourceId": "a" }));
    let output = text("{\"grade\":\"z\",\"extra\":1}");
    let rejected = verdict(judgement(output, Some(given), &[]), &blobs).unwrap();
    let rules: Vec<(&str, &str)> =
        rejected.violations.iter().map(|found| (found.path.as_str(), found.rule.as_str())).collect();
    assert_eq!(rules, [("/extra", "additionalProperties"), ("/grade", "enum")]);
    let corrected = value(&rejected.corrected.unwrap(), &blobs);
    assert_eq!(corrected["sourceId"], "a");
    let correction = &corrected["correction"];
    assert_eq!((&correction["attempt"], &correction["output"]["grade"]), (&json!(2), &json!("z")));
    assert_eq!(correction["violations"][1]["path"], "/grade");
    assert_eq!(correction["violations"][1]["rule"], "enum");
    assert_eq!(correction["violations"][1]["found"], "\"z\"");
    // An input that is no object keeps its place beside the correction.
    let rejected = verdict(judgement(text("7"), Some(text("[1]")), &[]), &blobs).unwrap();
    assert_eq!(value(&rejected.corrected.unwrap(), &blobs)["input"], json!([1]));
}

#[test]
fn what_no_schema_can_say_is_checked_after_the_schema() {
    let check = [v1::OutputCheck::SourceContext];
    let anything = |output: Value| Judgement {
        schemas: vec!["true".to_owned()],
        ..judgement(payload(&output), Some(payload(&json!({ "paths": [] }))), &check)
    };
    let mixed =
        verdict(anything(json!({ "classification": "mixed", "notes": "" })), &Blobs::default()).unwrap();
    assert_eq!(mixed.violations.first().map(|found| found.rule.as_str()), Some("mixed"));
    // Of the paths, one half counts for each of two surfaces.
    let given = payload(&json!({ "paths": ["src/main.rs", "docs/a.md"] }));
    let of = |output: Value| {
        let rule = Rule {
            checks: vec![v1::OutputCheck::SourceContext as i32],
            input: Some(given.clone()),
            attempt: 2,
        };
        let schemas = vec!["true".to_owned()];
        let judged = Judgement { schemas, rule: Some(rule), ..judgement(payload(&output), None, &[]) };
        verdict(judged, &Blobs::default()).unwrap()
    };
    let plain = of(json!({ "classification": "docs", "notes": "" }));
    let found: Vec<(&str, &str)> =
        plain.violations.iter().map(|found| (found.path.as_str(), found.rule.as_str())).collect();
    assert_eq!(found, [("/surfaceBuckets", "BUCKETS_REQUIRED")]);
    let buckets = json!([{ "surface": "docs", "pathPrefix": "docs" }]);
    let told_apart = of(json!({ "classification": "docs", "notes": "", "surfaceBuckets": buckets }));
    assert_eq!(told_apart.violations, []);
    let concrete =
        verdict(anything(json!({ "classification": "docs", "notes": "" })), &Blobs::default()).unwrap();
    assert_eq!(concrete.violations, []);
}

#[test]
fn outputs_that_cannot_be_judged_are_violations_of_their_own() {
    let blobs = Blobs::default();
    let large = blobs.blob(&vec![b' '; 1024 * 1024 + 1]);
    let rule_of = |output: v1::Payload| {
        let found = verdict(judgement(output, None, &[]), &blobs).unwrap().violations;
        found.first().map(|violation| violation.rule.clone()).unwrap()
    };
    assert_eq!(rule_of(large), "size");
    assert_eq!(blobs.reads.get(), 0, "what is too large is not read");
    let fits = blobs.blob(&[b"{\"grade\":\"z\"}", &*vec![b' '; 1024 * 1024 - 13]].concat());
    assert_eq!(rule_of(fits), "enum");
    assert_eq!(blobs.reads.get(), 1);
    assert_eq!(rule_of(text("{\"grade\":")), "syntax");
    assert_eq!(rule_of(text("{\"grade\":NaN}")), "syntax");
    assert_eq!(rule_of(text("{\"grade\":\"a\",\"grade\":\"a\"}")), "syntax");
    assert_eq!(rule_of(text(&"[".repeat(1_000))), "syntax");
    assert_eq!(rule_of(text(&format!("{}{}", "[".repeat(100), "]".repeat(100)))), "depth");
    let plain = v1::Payload { media_type: "text/plain".to_owned(), ..text("{\"grade\":\"a\"}") };
    assert_eq!(rule_of(plain), "media_type");
    let gone = v1::BlobRef { blake3: "gone".to_owned(), size: 1, answer: None };
    assert_eq!(rule_of(v1::Payload { data: Some(Data::Blob(gone)), ..text("1") }), "blob");
    let away = Blobs { is_away: true, ..Blobs::default() };
    let read_later = v1::BlobRef { blake3: "later".to_owned(), size: 1, answer: None };
    let output = v1::Payload { data: Some(Data::Blob(read_later)), ..text("1") };
    assert_eq!(verdict(judgement(output, None, &[]), &away), Err(Unavailable));
}

#[test]
fn many_inputs_do_not_make_one_large_event() {
    let blobs = Blobs::default();
    let item = "x".repeat(4_000);
    let list: Vec<Value> = (0..300).map(|_| json!(item)).collect();
    let input = blobs.blob(json!({ "list": list }).to_string().as_bytes());
    let composition = Composition {
        for_each: Some("${input.list}".to_owned()),
        input,
        ..composition(&json!("${item}"), &json!(null))
    };
    let Computed::Inputs(inputs) = compute(&Query::Compose(Box::new(composition)), &blobs).unwrap().unwrap()
    else {
        panic!()
    };
    let inline = |input: &v1::Payload| match &input.data {
        Some(Data::Inline(text)) => text.len(),
        _ => 0,
    };
    let all: usize = inputs.iter().map(inline).sum();
    assert_eq!(inputs.len(), 300);
    assert!(all <= 512 * 1024, "{all} bytes inline");
    // A few of the same size stay where they are.
    let few = Composition {
        for_each: Some("${input}".to_owned()),
        ..self::composition(&json!("${item}"), &json!([item, item]))
    };
    let Computed::Inputs(few) = compute(&Query::Compose(Box::new(few)), &blobs).unwrap().unwrap() else {
        panic!()
    };
    assert_eq!(few.iter().map(inline).collect::<Vec<_>>(), [4_002, 4_002]);
}

#[test]
fn a_query_reads_no_more_than_fits() {
    let blobs = Blobs::default();
    // Four outputs of 300,000 values each.
    let output = blobs.blob(format!("[{}0]", "0,".repeat(300_000)).as_bytes());
    let known = KnownPhase { summary: None, outputs: vec![output; 4], has_items: true };
    let phases = BTreeMap::from([("list".to_owned(), known)]);
    let composition = Composition { phases, ..composition(&json!("${phases.list.output}"), &json!(null)) };
    let query = Query::Compose(Box::new(composition));
    let Computed::Failed(error) = compute(&query, &blobs).unwrap().unwrap() else { panic!() };
    assert!(error.message.contains("more than 16777216 bytes or 1000000 values"), "{}", error.message);
}

/// What the inputs with these templates become, where the output of `a` is this; the reason where there is none.
fn resolved(blobs: &Blobs, output: v1::Payload, templates: &[&str]) -> Vec<Result<Value, String>> {
    let inputs = templates.iter().zip(0_u32..).map(|(template, task)| (task, template.to_string().into()));
    let outputs = BTreeMap::from([("a".to_owned(), output)]);
    let asked = Query::Resolve(Box::new(Resolving { inputs: inputs.collect(), outputs }));
    let Ok(Some(Computed::Resolved(resolved))) = compute(&asked, blobs) else { panic!() };
    assert!(resolved.iter().map(|resolved| resolved.task).eq((0_u32..).take(templates.len())));
    let one = |resolved: &ResolvedInput| match &resolved.input {
        Some(input) => Ok(value(input, blobs)),
        None => Err(resolved.reason.clone()),
    };
    resolved.iter().map(one).collect()
}

#[test]
fn inputs_are_made_of_what_blobs_hold_and_each_that_cannot_be_says_why() {
    let blobs = Blobs::default();
    let large = "x".repeat(200_000);
    let output = blobs.blob(json!({ "n": 7, "text": large }).to_string().as_bytes());
    let made = resolved(
        &blobs,
        output,
        &[
            r#"{"n":"${tasks.a.output.n}"}"#,
            r#""${tasks.a.output.text}${tasks.a.output.text}""#,
            r#"["${tasks.a.output.m}"]"#,
            r#"["${tasks.b.output}"]"#,
        ],
    );
    assert_eq!(made[0], Ok(json!({ "n": 7 })));
    assert_eq!(made[1], Ok(json!(large.repeat(2))));
    assert!(made[2].as_ref().unwrap_err().contains("missing_path"), "{:?}", made[2]);
    assert!(made[3].as_ref().unwrap_err().contains("unknown_task"), "{:?}", made[3]);
    // What is no JSON is a text.
    let text = v1::Payload { media_type: "text/plain".to_owned(), ..blobs.blob(b"{ no JSON") };
    assert_eq!(resolved(&blobs, text, &[r#"["${tasks.a.output}"]"#])[0], Ok(json!(["{ no JSON"])));
    let bytes = v1::Payload { media_type: "video/mp4".to_owned(), ..blobs.blob(&[0xff, 0xfe]) };
    assert!(resolved(&blobs, bytes, &[r#"["${tasks.a.output}"]"#])[0].is_err());
}

#[test]
fn what_inputs_are_made_of_is_bounded_and_a_disk_that_is_away_is_waited_for() {
    let blobs = Blobs::default();
    // 16 MiB together: the third input has no room any more, and the fourth needs none.
    let output = blobs.blob(json!({ "n": 7, "text": "x".repeat(6 << 20) }).to_string().as_bytes());
    let text = r#"["${tasks.a.output.text}"]"#;
    let made = resolved(&blobs, output.clone(), &[text, text, text]);
    assert!(made[0].is_ok() && made[1].is_ok());
    assert!(made[2].as_ref().unwrap_err().contains("size"), "{:?}", made[2]);
    let inputs = vec![(0, text.into())];
    let asked = |output: v1::Payload| {
        let outputs = BTreeMap::from([("a".to_owned(), output)]);
        Query::Resolve(Box::new(Resolving { inputs: inputs.clone(), outputs }))
    };
    let away = Blobs { is_away: true, ..Blobs::default() };
    assert!(matches!(compute(&asked(output), &away), Err(Unavailable)));
    let larger = blobs.blob(&vec![b'1'; (16 << 20) + 1]);
    let Ok(Some(Computed::Resolved(resolved))) = compute(&asked(larger), &blobs) else { panic!() };
    assert!(resolved[0].reason.contains("16777217 bytes"), "{}", resolved[0].reason);
}
