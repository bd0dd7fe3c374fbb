//! Prompts and results of executions (CONTRACTS §5). A token is a word here, and a microsecond passes with each look at the
//! clock.

use std::cell::Cell;

use capataz_contracts::v1::{self, ExecutionMode, payload::Data};
use capataz_engine::{Computed, Observation, Observing, Prompting, Query, Wanted};
use capataz_judge::JUDGED_MAX;
use serde_json::{Value, json};

use crate::phases::{Contents, Entry, Unavailable, Unread, compute};

#[derive(Default)]
struct Known {
    entries: Vec<Entry>,
    /// What every blob holds.
    blob: Option<Vec<u8>>,
    is_away: bool,
    at: Cell<u64>,
}

impl Contents for Known {
    fn read(&self, blob: &v1::BlobRef, most: usize) -> Result<Vec<u8>, Unread> {
        let content = self.blob.clone().ok_or(Unread::Missing)?;
        if content.len() > most { Err(Unread::TooLarge { size: blob.size }) } else { Ok(content) }
    }

    fn keep(&self, _: &[u8]) -> Result<v1::BlobRef, Unread> {
        Err(Unread::Unavailable)
    }

    fn recall(&self, wanted: &Wanted) -> Result<Vec<Entry>, Unread> {
        assert_eq!((&*wanted.session, wanted.entries), ("shop", 10));
        if self.is_away { Err(Unread::Unavailable) } else { Ok(self.entries.clone()) }
    }

    fn tokens(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap()
    }

    fn now(&self) -> u64 {
        self.at.set(self.at.get() + 1);
        self.at.get()
    }
}

fn text(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(Data::Inline(text.to_owned().into())),
    }
}

fn entry(id: &str, content: &str, digest: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        told: json!({ "id": id }),
        content: content.to_owned(),
        digest: digest.to_owned(),
    }
}

fn prompting(tokens: u32) -> Prompting {
    Prompting {
        prompt: json!({ "query": "q", "memory": [], "lastResult": { "output": null } }).to_string(),
        results: vec![("/lastResult/output".to_owned(), text("{\"n\":1}"))],
        recall: Wanted {
            session: "shop".to_owned(),
            mode: ExecutionMode::Simple,
            since_ms: 0,
            entries: 10,
            tokens,
        },
        tools: Vec::new(),
    }
}

fn prompt(asked: Prompting, known: &Known) -> (Value, v1::Recalled) {
    match compute(&Query::Prompt(Box::new(asked)), known).unwrap().unwrap() {
        Computed::Prompt { prompt, recalled, .. } => match prompt.data.unwrap() {
            Data::Inline(text) => (serde_json::from_slice(&text).unwrap(), recalled),
            Data::Blob(blob) => panic!("{blob:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_told_by_its_digest_else_skipped_and_never_cut() {
    let entries = vec![
        entry("a", "one two three", "a"),
        entry("b", "one two three four five six seven", "in short"),
        entry("c", "one two three four five six seven", "this digest has too many words"),
        entry("d", "one", ""),
        entry("e", "one two", ""),
    ];
    let known = Known { entries, ..Known::default() };
    // 3 of 7, then the digest with 2 of 4 left, then nothing in 2, then 1 of 2, then nothing in 1.
    let (prompt, recalled) = prompt(prompting(7), &known);
    let told = json!([
        { "id": "a", "content": "one two three" }, { "id": "b", "content": "in short" }, { "id": "d", "content": "one" },
    ]);
    assert_eq!(prompt, json!({ "query": "q", "memory": told, "lastResult": { "output": { "n": 1 } } }));
    let expected = v1::Recalled {
        entries: ["a", "b", "d"].map(str::to_owned).to_vec(),
        digests: vec!["b".to_owned()],
        skipped: ["c", "e"].map(str::to_owned).to_vec(),
        tokens: 6,
        source_tokens: 11,
        took_us: 1,
        digest_tokens: 2,
        digest_source_tokens: 7,
    };
    assert_eq!(recalled, expected);
}

#[test]
fn a_prompt_tells_a_large_result_by_its_size_and_one_that_is_no_json_as_text() {
    let large = Prompting {
        results: vec![("/lastResult/output".to_owned(), text(&"x".repeat(16 * 1024 + 1)))],
        ..prompting(1)
    };
    let (told, _) = prompt(large, &Known::default());
    assert_eq!(told["lastResult"]["output"], json!({ "omitted": true, "bytes": 16_385 }));
    let plain =
        Prompting { results: vec![("/lastResult/output".to_owned(), text("no json"))], ..prompting(1) };
    assert_eq!(prompt(plain, &Known::default()).0["lastResult"]["output"], "no json");
}

#[test]
fn a_memory_that_cannot_be_read_is_waited_for() {
    let known = Known { is_away: true, ..Known::default() };
    assert_eq!(compute(&Query::Prompt(Box::new(prompting(1))), &known), Err(Unavailable));
}

fn seen(observation: Observation) -> Observing {
    match compute(&Query::Observe(Box::new(observation)), &Known::default()).unwrap().unwrap() {
        Computed::Observed(seen) => seen,
        other => panic!("{other:?}"),
    }
}

fn observation(expected: &Value, output: &str) -> Observation {
    Observation {
        tool: "read".to_owned(),
        parameters: r#"{"path":"a.txt","lines":[1]}"#.to_owned(),
        expected: Some(expected.to_string()),
        output: Some(text(output)),
        error: None,
        most_tokens: 40,
    }
}

#[test]
fn a_result_is_held_against_what_was_expected_of_it() {
    let cases = [
        (json!({ "success": true }), "1", true),
        (json!({ "success": false }), "1", false),
        (json!("prose means success"), "1", true),
        (json!({ "equals": { "n": 1 } }), "{\"n\": 1}", true),
        (json!({ "equals": { "n": 1 } }), "{\"n\":2}", false),
        (json!({ "contains": "ell" }), "\"hello\"", true),
        (json!({ "contains": "Ell" }), "\"hello\"", false),
        (json!({ "contains": "ell" }), "{\"a\":[\"hello\"]}", true),
        (json!({ "schema": { "type": "integer" } }), "7", true),
        (json!({ "schema": { "type": "integer" } }), "\"7\"", false),
        (json!({ "schema": { "type": "nonsense" } }), "7", false),
        (json!({ "contains": "plain" }), "plain text", true),
    ];
    for (expected, output, right) in cases {
        assert_eq!(seen(observation(&expected, output)).as_expected, right, "{expected} {output}");
    }
    let failed = |expected: &Value| Observation {
        output: None,
        error: Some(v1::Error { code: "FILE_NOT_FOUND".to_owned(), ..v1::Error::default() }),
        ..observation(expected, "")
    };
    // A step that is to fail is done by the tool's own word, and not by what the daemon says of a call (seed 004).
    for code in ["TASK_TIMEOUT", "WORKER_LOST", "TASK_CANCELLED", "BROWSER_LOST"] {
        let error = Some(v1::Error { code: code.to_owned(), ..v1::Error::default() });
        let seen = seen(Observation { error, ..failed(&json!({ "success": false })) });
        assert!(!seen.as_expected, "{code}");
    }
    for (expected, right) in [
        (json!("anything"), false),
        (json!({ "success": true }), false),
        (json!({ "success": false }), true),
        (json!({ "equals": null }), false),
        (json!({ "contains": "null" }), false),
        (json!({ "schema": true }), false),
    ] {
        let seen = seen(failed(&expected));
        assert_eq!(seen.as_expected, right, "{expected}");
        assert_eq!(seen.digest, "read failed: FILE_NOT_FOUND; path=a.txt");
    }
}

#[test]
fn nothing_contains_no_text_and_what_is_too_large_to_be_looked_at_is_nothing_that_is_expected() {
    let empty = |expected: &Value| seen(Observation { output: None, ..observation(expected, "") });
    assert!(!empty(&json!({ "contains": "ul" })).as_expected);
    assert!(empty(&json!({ "equals": null })).as_expected);
    assert!(empty(&json!({ "success": true })).as_expected);
    let blob = v1::BlobRef { size: JUDGED_MAX as u64 + 1, ..v1::BlobRef::default() };
    let output = Some(v1::Payload { media_type: "text/plain".to_owned(), data: Some(Data::Blob(blob)) });
    let large = |expected: &Value| {
        let known = Known { blob: Some(vec![b'1'; JUDGED_MAX + 1]), ..Known::default() };
        let observation = Observation { output: output.clone(), ..observation(expected, "") };
        match compute(&Query::Observe(Box::new(observation)), &known).unwrap().unwrap() {
            Computed::Observed(seen) => seen,
            other => panic!("{other:?}"),
        }
    };
    for expected in [json!({ "equals": null }), json!({ "contains": "1" }), json!({ "schema": true })] {
        assert!(!large(&expected).as_expected, "{expected}");
    }
    let seen = large(&json!({ "success": true }));
    assert!(seen.as_expected);
    assert_eq!(seen.content, r#"{"output":{"omitted":true},"tool":"read"}"#);
}

#[test]
fn a_text_that_is_a_blob_is_held_against_what_was_expected_as_a_short_one_is() {
    let blob = v1::BlobRef { size: 40_000, ..v1::BlobRef::default() };
    let output = v1::Payload { media_type: "text/plain".to_owned(), data: Some(Data::Blob(blob)) };
    let seen = |expected: &Value, content: &[u8]| {
        let known = Known { blob: Some(content.to_vec()), ..Known::default() };
        let observation = Observation { output: Some(output.clone()), ..observation(expected, "") };
        match compute(&Query::Observe(Box::new(observation)), &known).unwrap().unwrap() {
            Computed::Observed(seen) => seen.as_expected,
            other => panic!("{other:?}"),
        }
    };
    let long = format!("{} the end", "x".repeat(40_000));
    assert!(seen(&json!({ "contains": "the end" }), long.as_bytes()));
    assert!(!seen(&json!({ "contains": "null" }), long.as_bytes()));
    assert!(!seen(&json!({ "contains": "the end" }), b"\xff the end"), "it is no text");
}

#[test]
fn a_digest_has_whole_parts_within_its_tokens() {
    let output = r#"{"size":3,"name":"x y z","long":"0123456789012345678901234","deep":{"n":1}}"#;
    let of = |most_tokens| seen(Observation { most_tokens, ..observation(&json!("x"), output) }).digest;
    assert_eq!(of(40), "read: ok; path=a.txt; name=x y z; size=3");
    // Two words, then one more; `name=x y z` would be three more.
    assert_eq!(of(4), "read: ok; path=a.txt; size=3");
    assert_eq!(of(2), "read: ok");
    assert_eq!(of(1), "");
}

#[test]
fn the_content_of_an_entry_is_bounded_and_whole_characters() {
    let seen = seen(observation(&json!("x"), &json!("é".repeat(3_000)).to_string()));
    assert!(seen.content.len() <= 2_000, "{}", seen.content.len());
    assert!(seen.content.ends_with('…'));
}
