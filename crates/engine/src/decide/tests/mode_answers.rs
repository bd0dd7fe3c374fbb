//! What planners of executions may answer, and what becomes of an answer that they may not give (seed 004).

use capataz_contracts::v1::payload::Data;
use capataz_policy::mode::{browser, contract};
use serde_json::{Value, json as value};

use super::modes::{act, approved, begin, begin_with, goes_on, plans, step};
use super::*;
use crate::input::{Computed, QueryAnswer};
use crate::query::{Judgement, Query, Verdict};
use v1::ExecutionMode::{Planner, Simple, Supervised};

/// An answer that nobody could read, as a host tells it.
const UNREAD: &str = "expected value at line 1 column 1";

/// Delays before the planner is asked again, where nobody says others. Milliseconds.
const DELAYS: [i64; 3] = [500, 1_500, 3_000];

impl Bench {
    /// The planner gives back this, which is judged by the contract that it was told.
    #[track_caller]
    fn says_judged(self, answer: &Value) -> Self {
        let violations = self.violations(answer);
        let name = self.newest();
        let task = self.at(&name);
        let (lease, worker) = self.state.lease_of(task).expect("the planner is asked");
        let output = json(&answer.to_string());
        let judged = self.state.output_to_judge(task, lease, worker, &output).expect("it is judged");
        let report = Report::Judged(output, Box::new(Verdict::on(judged, violations)));
        let input = reported(task, lease, worker, report);
        self.does(input)
    }

    /// What is wrong with this by the contract of the answer that is waited for.
    #[track_caller]
    fn violations(&self, answer: &Value) -> Vec<v1::SchemaViolation> {
        let task = self.at(&self.newest());
        let schema = self.state.assignment(task).expect("it is at work").output_schema.expect("a contract");
        capataz_judge::judge(schema, "application/json", answer.to_string().as_bytes())
    }

    /// What the planner gives back is no JSON.
    #[track_caller]
    fn babbles(self) -> Self {
        let task = self.newest();
        let error = v1::Error { message: UNREAD.to_owned(), ..failure("INVALID_OUTPUT") };
        self.report(&task, Report::Failed(error))
    }

    /// The planner is asked again after this time, and has what it was asked.
    #[track_caller]
    fn asked_again(self, delay: i64) -> (Self, Value) {
        let bench = self.after(delay);
        let task = bench.newest();
        let bench = bench.lease(&task, "w");
        let assignment = bench.state.assignment(bench.at(&task)).expect("it is at work");
        let Some(Data::Inline(text)) = assignment.input.unwrap().data.clone() else { panic!() };
        let given = serde_json::from_slice(&text).expect("a prompt is JSON");
        (bench, given)
    }

    #[track_caller]
    fn rejection(&self) -> Vec<(String, String)> {
        let Body::OutputRejected(rejected) = self.newest_event("output_rejected") else { panic!() };
        rejected.violations.into_iter().map(|violation| (violation.path, violation.rule)).collect()
    }
}

/// The answer with one key more in the object at this place.
fn with_more(answer: &Value, place: &str) -> Value {
    let mut answer = answer.clone();
    let object = answer.pointer_mut(place).and_then(Value::as_object_mut).expect("there is an object");
    object.insert("more".to_owned(), value!(1));
    answer
}

fn a_plan() -> Value {
    plans(&[step("a", "read", &[])], 0, "read")
}

/// What a planner in the mode `supervised` answers where it asks.
fn escalates() -> Value {
    value!({
        "decision": "escalate",
        "escalation": { "reason": "two files", "userQuestion": "Which one?", "suggestedOptions": [] },
        "planAdherence": 1, "reasoning": "", "confidence": 1,
    })
}

#[test]
fn an_answer_that_is_no_json_goes_back_to_the_planner_with_what_is_wrong() {
    for (mode, key) in [(Simple, "workspace"), (Planner, "progress"), (Supervised, "progress")] {
        let bench = begin(mode).asks().babbles().expect_kinds(&["output_rejected", "task_attempt_failed"]);
        let (bench, given) = bench.asked_again(DELAYS[0]);
        let wrong = value!({ "path": "", "rule": "syntax", "expected": "JSON", "found": UNREAD });
        // Nothing that could be given back was read.
        assert_eq!(given["correction"], value!({ "attempt": 1, "violations": [wrong] }), "{mode:?}");
        assert_eq!(given["query"], "tidy up", "the prompt itself is the same");
        assert!(given.get(key).is_some(), "{mode:?}: {given}");
        assert_eq!(bench.count("planner_asked"), 1, "it is the same question");
    }
}

/// A planner that was asked with a prompt which is not in the log.
fn asked_at_length(mode: v1::ExecutionMode) -> Bench {
    let bench = begin(mode);
    let Some((query, Query::Prompt(_))) = bench.state.open_query() else { panic!() };
    let computed =
        Computed::Prompt { prompt: blob(40_000), recalled: v1::Recalled::default(), absent: Vec::new() };
    let bench = bench.does(Input::Answered { query, answer: QueryAnswer::Computed(computed) });
    let task = bench.newest();
    bench.lease(&task, "w")
}

fn blob(size: u64) -> v1::Payload {
    let blob = v1::BlobRef { blake3: "ab".repeat(32), size, answer: None };
    v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Blob(blob)) }
}

#[test]
fn what_is_wrong_with_an_answer_to_a_prompt_that_is_not_in_the_log_is_told_all_the_same() {
    let wrong = plans(&[step("a", "read", &["nobody"])], 0, "read");
    for (said, rule) in [(Some(&wrong), "step"), (None, "syntax")] {
        let bench = asked_at_length(Planner);
        let task = bench.at(&bench.newest());
        let (lease, worker) = bench.state.lease_of(task).expect("the planner is asked");
        let to_judge = |report: &Report| bench.state.report_to_judge(task, lease, worker, report);
        let report = match said {
            None => Report::Failed(v1::Error { message: UNREAD.to_owned(), ..failure("INVALID_OUTPUT") }),
            Some(said) => {
                let output = json(&said.to_string());
                let judged = to_judge(&Report::Completed(output.clone())).expect("it is judged");
                Report::Judged(output, Box::new(Verdict::on(judged, Vec::new())))
            }
        };
        let judged = to_judge(&report).expect("what the next attempt is given has to be made");
        assert_eq!(judged.rule.as_ref().unwrap().input, Some(blob(40_000)));
        assert_eq!(judged.found.iter().map(|found| found.rule.as_str()).next(), Some(rule));
        let of_another = Verdict {
            judged: Judgement { found: Vec::new(), ..judged.clone() },
            ..Verdict::on(judged.clone(), Vec::new())
        };
        let corrected = Verdict { corrected: Some(blob(40_100)), ..Verdict::on(judged, Vec::new()) };
        let with = |verdict: Verdict| match &report {
            Report::Judged(output, _) => Report::Judged(output.clone(), Box::new(verdict)),
            Report::Failed(error) => Report::Unread(error.clone(), Box::new(verdict)),
            _ => panic!(),
        };
        let report = with(corrected);
        assert_eq!(to_judge(&report), None, "once");
        if said.is_none() {
            let refused = bench.clone_run().input(reported(task, lease, "w", with(of_another)));
            assert!(matches!(refused.last, Err(Refusal::Unjudged)));
        }
        let bench = bench.does(reported(task, lease, "w", report));
        let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]).after(DELAYS[0]);
        assert_eq!(bench.rejection()[0].1, rule);
        let task = bench.newest();
        let bench = bench.lease(&task, "w");
        let given = bench.state.assignment(bench.at(&task)).expect("it is at work").input;
        assert_eq!(given, Some(&blob(40_100)));
    }
    // An answer that is right is read once, and a short prompt is in the log with its correction.
    for (bench, said) in [(asked_at_length(Planner), a_plan()), (begin(Planner).asks(), wrong)] {
        let task = bench.at(&bench.newest());
        let (lease, worker) = bench.state.lease_of(task).expect("the planner is asked");
        let output = json(&said.to_string());
        let report = Report::Completed(output.clone());
        let judged = bench.state.report_to_judge(task, lease, worker, &report).expect("it is judged");
        let report = Report::Judged(output, Box::new(Verdict::on(judged, Vec::new())));
        assert_eq!(bench.state.report_to_judge(task, lease, worker, &report), None);
    }
}

#[test]
fn a_planner_whose_next_answer_is_right_is_not_held_to_the_one_that_nobody_could_read() {
    let (bench, _) = begin(Simple).asks().babbles().asked_again(DELAYS[0]);
    let bench = bench.says_judged(&act("read", false)).tool_gives("1", true);
    assert_eq!(bench.execution().error_count, 0, "an answer is no action");
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_planner_that_nobody_could_read_four_times_fails_the_modes_without_a_person() {
    for mode in [Simple, Planner] {
        let mut bench = begin(mode).asks();
        for delay in DELAYS {
            bench = bench.babbles().asked_again(delay).0;
        }
        let bench = bench.babbles();
        assert_eq!(bench.count("output_rejected"), 4, "{mode:?}");
        assert_eq!(bench.count("tool_called"), 0, "{mode:?}");
        let error = bench.run().error.expect("it has failed");
        assert_eq!((&*error.code, &*error.cause.expect("a cause").code), ("RETRY_EXHAUSTED", "PARSE_ERROR"));
        bench.expect_outcome(v1::RunOutcome::Failed);
    }
}

#[test]
fn a_planner_that_nobody_could_read_four_times_is_asked_about_in_the_mode_supervised() {
    // While the plan is made, and while it is worked on.
    for bench in [begin(Supervised).asks(), approved().asks()] {
        let mut bench = bench;
        for delay in DELAYS {
            bench = bench.babbles().asked_again(delay).0;
        }
        let bench = bench.babbles();
        assert_eq!(bench.count("output_rejected"), 4);
        assert_eq!(bench.execution().execution_state, "paused");
        let question = bench.run().questions.last().unwrap().clone();
        assert_eq!(question.purpose(), v1::QuestionPurpose::Escalation);
        assert!(question.text.starts_with("the planner has failed: "), "{}", question.text);
        assert_eq!(question.options, ["continue", "abort"]);
        // Whoever ends it has what the planner has failed with.
        let ended = bench.clone_run().answer("abort").run();
        let error = ended.error.expect("it has failed");
        assert_eq!((&*error.code, &*error.cause.unwrap().code), ("RETRY_EXHAUSTED", "PARSE_ERROR"));
        // Whoever lets it go on has it asked anew, and without what was wrong.
        let bench = bench.answer("continue");
        assert!(bench.prompt().get("correction").is_none());
        assert_eq!(bench.asks().count("output_rejected"), 4);
    }
}

#[test]
fn a_run_that_allows_no_correction_ends_with_the_first_answer_that_nobody_could_read() {
    let once = v1::RetryPolicy { max_attempts: Some(1), ..v1::RetryPolicy::default() };
    let bench = begin_with(Simple, |run| run.retry = Some(once)).asks().babbles();
    assert_eq!(bench.count("output_rejected"), 1);
    bench.expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn keys_that_the_contract_does_not_know_are_refused_wherever_they_stand() {
    let new = |bench: fn() -> Bench| bench;
    let cases: [(_, Value, &[&str]); 5] = [
        (new(|| begin(Simple).asks()), act("read", true), &["", "/action"]),
        (new(|| begin(Planner).asks()), a_plan(), &["", "/planUpdate", "/planUpdate/steps/0", "/nextAction"]),
        (
            new(|| begin(Supervised).asks()),
            a_plan(),
            &["", "/planUpdate", "/planUpdate/steps/0", "/nextAction"],
        ),
        (new(|| approved().asks()), goes_on("read", &value!({ "n": "a" })), &["", "/nextAction"]),
        (new(|| approved().asks()), escalates(), &["", "/escalation"]),
    ];
    for (begins, answer, objects) in cases {
        assert_eq!(begins().violations(&answer), [], "as it is, it passes: {answer}");
        for place in objects {
            let bench = begins().says_judged(&with_more(&answer, place));
            let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
            let expected = (format!("{place}/more"), "additionalProperties".to_owned());
            assert_eq!(bench.rejection(), [expected], "{answer}");
            assert_eq!(bench.count("tool_called"), 0);
        }
        // What a tool is given is the tool's own.
        if answer.pointer("/nextAction/parameters").is_some() {
            assert_eq!(begins().violations(&with_more(&answer, "/nextAction/parameters")), []);
        }
    }
}

#[test]
fn a_plan_has_fifty_steps_at_most_whoever_makes_it() {
    let plan = |steps: usize| {
        let steps: Vec<Value> = (0..steps).map(|n| step(&format!("s{n}"), "read", &[])).collect();
        plans(&steps, 0, "read")
    };
    for mode in [Planner, Supervised] {
        let bench = begin(mode).asks().says_judged(&plan(51));
        let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
        assert_eq!(bench.rejection(), [("/planUpdate/steps".to_owned(), "maxItems".to_owned())]);
        assert_eq!(bench.execution().plan, None);
        let (bench, _) = bench.asked_again(DELAYS[0]);
        let bench = bench.says_judged(&plan(50));
        assert_eq!(bench.execution().plan.unwrap().steps.len(), 50);
    }
    // A person is held to that too.
    let bench = begin(Supervised).asks().says_judged(&a_plan());
    let question = bench.run().questions[0].clone();
    let schema = question.value.expect("a value goes with the edit").schema;
    let wrong = |steps: usize| {
        let edited = value!({ "steps": plan(steps)["planUpdate"]["steps"] });
        capataz_judge::judge(&schema, "application/json", edited.to_string().as_bytes())
    };
    assert_eq!(wrong(50), []);
    assert_eq!((&*wrong(51)[0].path, &*wrong(51)[0].rule), ("/steps", "maxItems"));
}

#[test]
fn an_answer_larger_than_32_kib_is_rejected_for_its_size_in_every_mode() {
    let begins: [fn() -> Bench; 4] = [
        || begin(Simple).asks(),
        || begin(Planner).asks(),
        || begin(Supervised).asks(),
        || approved().asks(),
    ];
    for begins in begins {
        let bench = begins();
        let name = bench.newest();
        let task = bench.at(&name);
        let (lease, worker) = bench.state.lease_of(task).expect("the planner is asked");
        // What is larger than that comes as a blob.
        let blob = v1::BlobRef { size: 32 * 1024 + 1, ..v1::BlobRef::default() };
        let output = v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Blob(blob)),
        };
        let judged = bench.state.output_to_judge(task, lease, worker, &output).expect("it is judged");
        let report = Report::Judged(output, Box::new(Verdict::on(judged, Vec::new())));
        let input = reported(task, lease, worker, report);
        let bench = bench.does(input).expect_kinds(&["output_rejected", "task_attempt_failed"]);
        assert_eq!(bench.rejection(), [(String::new(), "size".to_owned())]);
        let (_, given) = bench.asked_again(DELAYS[0]);
        let wrong =
            value!({ "path": "", "rule": "size", "expected": "at most 32768 bytes", "found": "more" });
        assert_eq!(given["correction"], value!({ "attempt": 1, "violations": [wrong] }));
    }
}

/// What is wrong with such parameters by the contract of a plan that is proposed, of the one tool `own`.
fn wrong_with(own: &Value, parameters: &Value) -> Vec<String> {
    let own = own.to_string();
    let tools = [contract::Tool { name: "own", input_schema: &own }];
    let mut step = step("a", "own", &[]);
    step["parameters"] = parameters.clone();
    let proposed = plans(&[step], 0, "own").to_string();
    let schema = contract::plan_schema(Supervised, &tools);
    let violations = capataz_judge::judge(&schema, "application/json", proposed.as_bytes());
    violations
        .into_iter()
        .filter(|found| found.path.starts_with("/planUpdate"))
        .map(|found| found.path)
        .collect()
}

/// A schema of a tool says within a contract what it says alone, in whichever dialect and by whatever names it says it.
#[test]
fn a_tool_takes_by_the_contract_what_its_own_schema_allows() {
    let at = |path: &str| vec![format!("/planUpdate/steps/0/parameters{path}")];
    let text = value!({ "type": "string" });
    let own = |key: &str, reference: &str| value!({ "$id": "urn:own", "properties": { key: { "$ref": reference } }, "$defs": { "text": text } });
    // Names of properties that are words of the language.
    for key in ["default", "enum", "const", "examples", "$ref", "properties", "n"] {
        for reference in ["#/$defs/text", "urn:own#/$defs/text"] {
            assert!(wrong_with(&own(key, reference), &value!({ key: "a" })).is_empty(), "{key} {reference}");
            assert_eq!(wrong_with(&own(key, reference), &value!({ key: 7 })), at(&format!("/{key}")));
        }
    }
    let anchored = value!({
        "properties": { "n": { "$ref": "#it" } }, "$defs": { "text": { "$anchor": "it", "type": "string" } },
    });
    let itself = |reference: &str| value!({ "$id": "urn:own", "type": ["object", "string"], "additionalProperties": { "$ref": reference } });
    let old = value!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": { "n": { "items": [{ "$ref": "#it" }], "additionalItems": false } },
        "definitions": { "text": { "$id": "#it", "type": "string" } },
    });
    let constant = value!({ "properties": { "n": { "const": { "$ref": "#/kept" } } } });
    for (own, good, bad, path) in [
        (&anchored, value!({ "n": "a" }), value!({ "n": 7 }), "/n"),
        (&itself("#"), value!({ "n": { "m": "a" } }), value!({ "n": { "m": 7 } }), "/n/m"),
        (&itself("urn:own"), value!({ "n": { "m": "a" } }), value!({ "n": { "m": 7 } }), "/n/m"),
        (&old, value!({ "n": ["a"] }), value!({ "n": [7] }), "/n/0"),
        (&old, value!({ "n": ["a"] }), value!({ "n": ["a", "b"] }), "/n/1"),
        (&constant, value!({ "n": { "$ref": "#/kept" } }), value!({ "n": { "$ref": "#/other" } }), "/n"),
    ] {
        assert!(wrong_with(own, &good).is_empty(), "{own} {good}: {:?}", wrong_with(own, &good));
        assert_eq!(wrong_with(own, &bad), at(path), "{own} {bad}");
    }
}

/// What only an earlier step gives is judged when the step is done.
#[test]
fn a_step_that_names_what_an_earlier_one_gives_is_proposed_as_it_is() {
    let own = value!({ "type": "object", "additionalProperties": { "type": "integer" } });
    for later in [
        value!({ "n": "${last.count}" }),
        value!({ "n": ["no", { "m": "as ${last} says" }] }),
        value!("${last}"),
    ] {
        assert!(wrong_with(&own, &later).is_empty(), "{later}");
    }
    for wrong in [value!({ "n": "$last" }), value!({ "${last}": "a" }), value!({ "n": [{ "m": [] }] })] {
        assert!(!wrong_with(&own, &wrong).is_empty(), "{wrong}");
    }
    // So it is with tools of the daemon.
    let mut runs = step("b", "plan.run", &["a"]);
    runs["parameters"] = value!("${last}");
    let steps = [step("a", "read", &[]), runs];
    let bench = begin(Supervised).asks().says(&plans(&steps, 0, "read"));
    bench.expect_kinds(&["planner_answered", "task_settled", "question_asked"]);
}

/// All that a browser can do, and tools beside it, have room in a contract.
#[test]
fn the_contract_of_all_tools_of_a_browser_leaves_half_of_its_bytes_to_others() {
    let built_in: Vec<_> = browser::names().map(|name| (browser::tool(&name).unwrap(), name)).collect();
    let tools: Vec<_> = built_in
        .iter()
        .map(|(tool, name)| contract::Tool { name, input_schema: &tool.input_schema })
        .collect();
    for mode in [Simple, Planner, Supervised] {
        for schema in [contract::answer_schema(mode, &tools), contract::plan_schema(mode, &tools)] {
            assert!(schema.len() <= capataz_judge::SCHEMA_MAX / 2, "{mode:?}: {} bytes", schema.len());
        }
    }
}

#[test]
fn a_plan_expects_by_a_schema_only_what_a_schema_can_say() {
    let expecting = |schema: Value| {
        let mut steps = [step("a", "read", &[]), step("b", "read", &["a"])];
        steps[1]["expected"] = value!({ "schema": schema });
        plans(&steps, 0, "read")
    };
    for mode in [Planner, Supervised] {
        let bench = begin(mode).asks().says_judged(&expecting(value!({ "type": "text" })));
        let place = "/planUpdate/steps/1/expected/schema".to_owned();
        assert!(
            bench.rejection().contains(&(place, "x-schema".to_owned())),
            "{mode:?}: {:?}",
            bench.rejection()
        );
        assert_eq!(bench.count("planner_answered"), 0, "{mode:?}");
        let bench = bench.asked_again(DELAYS[0]).0.says_judged(&expecting(value!({ "type": "string" })));
        assert_eq!(bench.count("planner_answered"), 1, "{mode:?}");
    }
}

// S004-PR-03
#[test]
fn null_says_the_same_as_no_key_and_a_place_is_an_integer_however_it_is_written() {
    let first = value!({
        "planUpdate": {
            "type": "create", "estimatedTime": 0, "checkpoints": [1.0],
            "steps": [
                { "id": "a", "description": "", "tool": "read", "parameters": {}, "expected": null, "dependsOn": null },
                { "id": "b", "description": "", "tool": "read", "parameters": null, "expected": { "equals": null } },
            ],
        },
        "nextAction": { "tool": "read", "parameters": {}, "stepIndex": 0.0 },
        "replanRequired": false, "reasoning": "", "confidence": 1,
    });
    let bench = begin(Planner).asks().says_judged(&first);
    let plan = bench.execution().plan.unwrap();
    assert_eq!(plan.steps[0].expected, r#"{"success":true}"#);
    assert_eq!((&*plan.steps[1].parameters, &*plan.steps[1].expected), ("null", r#"{"equals":null}"#));
    assert_eq!(plan.checkpoints, [1]);
    let mut next = first.clone();
    next["planUpdate"] = Value::Null;
    next["nextAction"]["stepIndex"] = value!(1);
    let bench = bench.tool_gives("1", true).asks().says_judged(&next);
    assert_eq!((bench.count("planner_answered"), bench.count("output_rejected")), (2, 0));
    // What is demanded has to be there.
    next["replanRequired"] = value!(true);
    let bench = begin(Planner).asks().says_judged(&next);
    assert_eq!(bench.count("planner_answered"), 0);
    let goes_on = value!({
        "decision": "continue", "escalation": null, "planAdherence": 1, "reasoning": "", "confidence": 1,
        "nextAction": { "tool": "read", "parameters": { "n": "a" }, "justification": "" },
    });
    let bench = approved().asks().says_judged(&goes_on);
    assert_eq!(bench.count("output_rejected"), 0);
    let mut nothing = goes_on;
    nothing["nextAction"] = Value::Null;
    assert_eq!(approved().asks().says_judged(&nothing).count("output_rejected"), 1);
}
