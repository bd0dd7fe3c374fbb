//! References from a task's input to the outputs of earlier waves.

use super::*;
use crate::input::{Computed, QueryAnswer, ResolvedInput};
use crate::query::{Query, QueryId, Resolving};

/// The first task's output and the second one's input; what the second one's worker gets.
#[track_caller]
fn given(output: &str, input: &str) -> Bench {
    with_payload(json(output), json(input))
}

#[track_caller]
fn with_payload(output: v1::Payload, input: v1::Payload) -> Bench {
    let bench = Bench::with("a | b", |plan| plan.waves[1].tasks[0].input = Some(input));
    bench.lease("a", "w1").report("a", Report::Completed(output))
}

#[track_caller]
fn check(output: &str, input: &str, expected: &str) {
    let bench = given(output, input);
    let assignment = bench.state.assignment(bench.at("b")).expect("b has begun");
    assert_eq!(assignment.input, Some(&json(expected)));
}

#[track_caller]
fn check_unresolved(bench: &Bench) {
    let error = bench.error("b");
    assert_eq!((error.code.as_str(), error.severity), ("INPUT_UNRESOLVED", v1::Severity::High as i32));
}

#[test]
fn a_reference_alone_is_the_whole_value() {
    check(r#"{"n":[1,{"x":null}]}"#, r#""${tasks.a.output}""#, r#"{"n":[1,{"x":null}]}"#);
    check(r#"{"n":[1,{"x":null}]}"#, r#"{"v":"${tasks.a.output.n.1}"}"#, r#"{"v":{"x":null}}"#);
}

#[test]
fn a_reference_within_a_text_becomes_text() {
    check(r#"{"n":7,"s":"x"}"#, r#"["${tasks.a.output.s}-${tasks.a.output.n}"]"#, r#"["x-7"]"#);
}

#[test]
fn an_input_without_references_is_passed_on_as_it_is() {
    let bench = given("1", r#"{ "a" : 1.0e1 }"#);
    assert_eq!(bench.count("task_input_resolved"), 0);
    check("1", r#"{ "a" : 1.0e1 }"#, r#"{ "a" : 1.0e1 }"#);
}

#[test]
fn an_escaped_reference_stands_for_itself_in_every_wave() {
    check("1", r#""$${tasks.a.output}""#, r#""${tasks.a.output}""#);
    let bench = Bench::with("a", |plan| plan.waves[0].tasks[0].input = Some(json(r#""$${x}""#)));
    assert_eq!(bench.state.assignment(bench.at("a")).unwrap().input, Some(&json(r#""${x}""#)));
}

#[test]
fn a_reference_may_be_written_with_json_escapes() {
    check("7", r#""\u0024{tasks.a.output}""#, "7");
}

#[test]
fn json_with_parameters_is_json() {
    let input = v1::Payload {
        media_type: "application/json; charset=utf-8".to_owned(),
        ..json(r#"["${tasks.a.output}"]"#)
    };
    let bench = with_payload(json("7"), input);
    assert_eq!(bench.count("task_input_resolved"), 1);
}

#[test]
fn what_is_not_json_is_not_looked_into() {
    let input = v1::Payload { media_type: "text/plain".to_owned(), ..json("${tasks.a.output}") };
    let bench = with_payload(json("7"), input);
    assert_eq!(bench.count("task_input_resolved"), 0);
}

#[test]
fn a_text_output_is_a_text_and_as_a_whole_itself() {
    let text = v1::Payload { media_type: "text/plain".to_owned(), ..json("hello") };
    let bench = with_payload(text.clone(), json(r#""${tasks.a.output}""#));
    assert_eq!(bench.state.assignment(bench.at("b")).unwrap().input, Some(&text));
    let bench = with_payload(text, json(r#"{"t":"${tasks.a.output}"}"#));
    assert_eq!(bench.state.assignment(bench.at("b")).unwrap().input, Some(&json(r#"{"t":"hello"}"#)));
}

#[test]
fn a_large_output_is_passed_on_by_its_hash() {
    let blob = v1::BlobRef::new("0".repeat(64), 1 << 20);
    let output =
        v1::Payload { media_type: "video/mp4".to_owned(), data: Some(v1::payload::Data::Blob(blob)) };
    let bench = with_payload(output.clone(), json(r#""${tasks.a.output}""#));
    assert_eq!(bench.state.assignment(bench.at("b")).unwrap().input, Some(&output));
}

/// A JSON output of 1 MiB.
fn blob(letter: &str) -> v1::Payload {
    let blob = v1::BlobRef::new(letter.repeat(64), 1 << 20);
    v1::Payload { data: Some(v1::payload::Data::Blob(blob)), ..json("null") }
}

impl Bench {
    #[track_caller]
    fn resolving(&self) -> (QueryId, Resolving) {
        match self.state.open_query() {
            Some((query, Query::Resolve(asked))) => (query, *asked),
            other => panic!("{other:?}"),
        }
    }

    /// The answer for tasks of the next wave: an input, or why there is none.
    fn resolved(self, query: QueryId, inputs: &[(u32, Result<&str, &str>)]) -> Self {
        let resolved = inputs.iter().map(|(task, input)| ResolvedInput {
            task: *task,
            input: input.ok().map(json),
            reason: input.err().unwrap_or_default().to_owned(),
        });
        let answer = QueryAnswer::Computed(Computed::Resolved(resolved.collect()));
        self.input(Input::Answered { query, answer })
    }
}

#[test]
fn what_refers_into_a_blob_is_resolved_outside_before_its_wave_begins() {
    let inside = r#"["${tasks.a.output.n}"]"#;
    let bench = with_payload(blob("a"), json(inside));
    let (query, asked) = bench.resolving();
    assert_eq!(asked.inputs, [(0, inside.into())]);
    assert_eq!(asked.outputs.into_iter().collect::<Vec<_>>(), [("a".to_owned(), blob("a"))]);
    assert_eq!((bench.state.current_wave(), bench.count("wave_finished")), (0, 0));
    let given = bench.clone_run().resolved(query, &[(0, Ok("[7]"))]).expect_kinds(&[
        "wave_finished",
        "wave_started",
        "task_input_resolved",
    ]);
    assert_eq!(given.state.assignment(given.at("b")).unwrap().input, Some(&json("[7]")));
    assert_eq!(given.state.open_query(), None);
    let refused = bench.clone_run().resolved(query, &[(0, Err("there is no n"))]);
    check_unresolved(&refused);
    assert_eq!(refused.error("b").message, "there is no n");
    let failed = Computed::Failed(failure("INPUT_UNRESOLVED"));
    let failed = bench.input(Input::Answered { query, answer: QueryAnswer::Computed(failed) });
    check_unresolved(&failed);
}

#[test]
fn what_does_not_fit_an_inline_input_is_resolved_outside_and_the_rest_is_not() {
    // 20 KiB twice are more than 32 KiB; once they are not.
    let large = format!("\"{}\"", "x".repeat(20 * 1024));
    let twice = r#""${tasks.a.output}${tasks.a.output}""#;
    let bench = Bench::with("a | b c d", |plan| {
        for (task, input) in plan.waves[1].tasks.iter_mut().zip([twice, r#"["${tasks.a.output}"]"#, "1"]) {
            task.input = Some(json(input));
        }
    });
    let bench = bench.lease("a", "w1").completes_with("a", &large);
    let (query, asked) = bench.resolving();
    assert_eq!(asked.inputs, [(0, twice.into())]);
    let bench = bench.resolved(query, &[(0, Ok("\"as one\""))]);
    let input = |name: &str| bench.state.assignment(bench.at(name)).unwrap().input.cloned();
    assert_eq!(input("b"), Some(json("\"as one\"")));
    assert_eq!(input("c"), Some(json(&format!("[{large}]"))));
    assert_eq!(input("d"), Some(json("1")));
}

#[test]
fn until_the_answer_comes_tasks_may_run_again_and_an_answer_to_what_was_is_none() {
    let begin = || {
        Bench::with("continue_all: a c | b", |plan| {
            plan.waves[1].tasks[0].input = Some(json(r#"["${tasks.a.output.n}"]"#));
        })
        .lease_all()
        .report("a", Report::Completed(blob("a")))
        .fails("c", "BAD")
    };
    // What is asked has nothing to do with the task that runs again: it is asked again when that has ended.
    let bench = begin();
    let (query, _) = bench.resolving();
    let bench = bench.retry("c");
    assert_eq!(bench.state.open_query(), None);
    assert_eq!(bench.clone_run().resolved(query, &[(0, Ok("[7]"))]).expect_refusal(), Refusal::Outdated);
    let bench = bench.lease("c", "w").completes("c");
    assert_eq!(bench.resolving().0, query);
    bench.resolved(query, &[(0, Ok("[7]"))]).expect_unsettled("b");
    // Another output is another question.
    let bench = begin();
    let (query, _) = bench.resolving();
    let bench = bench.roll_back("a").lease("a", "w").report("a", Report::Completed(blob("b")));
    assert_ne!(bench.resolving().0, query);
    assert_eq!(bench.resolved(query, &[(0, Ok("[7]"))]).expect_refusal(), Refusal::Outdated);
    // A wave begins while the run is paused, as any other does, and none of it is offered before the run goes on.
    let bench = begin().pause();
    let (query, _) = bench.resolving();
    let bench = bench.resolved(query, &[(0, Ok("[7]"))]);
    assert_eq!((bench.state.current_wave(), bench.count("task_input_resolved")), (1, 1));
    bench.resume().lease("b", "w").completes("b").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_missing_path_fails_the_task_that_needs_it() {
    let bench = given(r#"{"n":1}"#, r#""${tasks.a.output.m}""#);
    check_unresolved(&bench);
    assert_eq!(bench.notices("INCOMPLETE_LIFECYCLE").len(), 1, "it failed and never was ACTIVE");
    bench.expect_outcome(v1::RunOutcome::Failed).expect_run_error("QUORUM_NOT_MET");
}

#[test]
fn a_failed_or_cancelled_task_has_no_output() {
    let input = |plan: &mut v1::Plan| plan.waves[1].tasks[0].input = Some(json(r#""${tasks.a.output}""#));
    let bench = Bench::with("a c | b", input).lease_all().completes("c").fails("a", "BAD");
    check_unresolved(&bench);
    let bench = Bench::with("quorum early: a c | b", input)
        .lease_all()
        .completes("c")
        .completes_with("a", "\"late\"");
    assert_eq!(bench.task("a").output, Some(json("\"late\"")), "it is kept, for people");
    check_unresolved(&bench);
}

#[test]
fn all_inputs_that_cannot_be_resolved_fail_before_the_policy_decides() {
    let bench = Bench::with("fail_fast: a | b c d", |plan| {
        for task in plan.waves[1].tasks.iter_mut().take(2) {
            task.input = Some(json(r#""${tasks.a.output.missing}""#));
        }
    });
    let bench = bench.lease("a", "w1").completes("a").expect_outcome(v1::RunOutcome::Failed);
    bench.expect_failed("b", "INPUT_UNRESOLVED").expect_failed("c", "INPUT_UNRESOLVED").expect_task(
        "d",
        v1::TaskState::Deleted,
        v1::ResultStatus::Cancelled,
    );
}

#[test]
fn the_rest_of_the_wave_goes_on_without_the_unresolved() {
    let bench = Bench::with("continue_all: a | b c", |plan| {
        plan.waves[1].tasks[0].input = Some(json(r#""${tasks.a.output.missing}""#));
    });
    let bench = bench.lease("a", "w1").completes("a");
    assert_eq!(bench.effects().last(), Some(&Effect::Enqueue { task: bench.at("c") }));
    bench.lease_all().completes("c").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_template_never_reaches_a_worker_even_when_a_user_retries() {
    let bench = Bench::with("continue_all: a | b c", |plan| {
        plan.waves[1].tasks[0].input = Some(json(r#""${tasks.a.output.missing}""#));
    });
    let bench = bench.lease("a", "w1").completes("a").retry("b");
    check_unresolved(&bench);
    assert_eq!(bench.kinds(), ["task_reactivated", "task_settled"]);
    bench.lease_all().completes("c").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_resolved_input_serves_every_attempt_and_activation() {
    let bench =
        given("7", r#"["${tasks.a.output}"]"#).lease("b", "w1").fails("b", "NETWORK_ERROR").after(SECOND);
    let input = |bench: &Bench| bench.state.assignment(bench.at("b")).unwrap().input.cloned();
    let bench = bench.lease("b", "w1");
    assert_eq!(input(&bench), Some(json("[7]")));
    let bench = Bench::with("continue_all: a | b c", |plan| {
        plan.waves[1].tasks[0].input = Some(json(r#"["${tasks.a.output}"]"#));
    });
    let bench = bench
        .lease("a", "w1")
        .completes_with("a", "7")
        .lease_all()
        .fails("b", "BAD")
        .retry("b")
        .lease("b", "w1");
    assert_eq!(input(&bench), Some(json("[7]")));
    assert_eq!(bench.count("task_input_resolved"), 1);
}

#[test]
fn the_resolved_inputs_of_a_wave_have_a_limit_together() {
    let large = format!("\"{}\"", "x".repeat(20 * 1024));
    // A thousand whole outputs of 20 KiB are more than a wave may hold; those that fit are kept.
    let names: Vec<String> = (0..1_000).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("continue_all: a | {}", names.join(" ")));
    for task in &mut plan.waves[1].tasks {
        task.input = Some(json(r#""${tasks.a.output}""#));
    }
    let bench = Bench::start(plan, false).lease("a", "w1").completes_with("a", &large);
    let waiting = bench.state.queued().count();
    assert_eq!(waiting, 8 * 1024 * 1024 / large.len());
    assert_eq!(bench.count("task_input_resolved"), waiting);
}

/// An output of so many KiB, with a little part `n` and a large one.
fn large_with_a_part(kib: usize) -> String {
    let output = format!(r#"{{"n":1,"rest":"{}"}}"#, "x".repeat(kib * 1024 - 17));
    assert_eq!(output.len(), kib * 1024);
    output
}

#[test]
fn an_output_to_which_many_refer_is_read_once() {
    // Together they refer to more bytes than a wave reads.
    let names: Vec<String> = (0..600).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("continue_all: a | {}", names.join(" ")));
    for task in &mut plan.waves[1].tasks {
        task.input = Some(json(r#"["${tasks.a.output.n}", "${tasks.a.output.n}"]"#));
    }
    let bench = Bench::start(plan, false).lease("a", "w1").completes_with("a", &large_with_a_part(15));
    assert_eq!(bench.state.queued().count(), 600);
    assert_eq!(bench.state.assignment(bench.at("t599")).unwrap().input, Some(&json("[1,1]")));
}

#[test]
fn what_a_wave_reads_of_outputs_has_a_limit_and_what_was_read_serves_everybody() {
    // 8 MiB are 264 outputs of 31 KiB, and some more.
    let sources: Vec<String> = (0..265).map(|index| format!("s{index}")).collect();
    let readers: Vec<String> = (0..266).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("continue_all: {} | {}", sources.join(" "), readers.join(" ")));
    for (task, name) in plan.waves[1].tasks.iter_mut().zip(sources.iter().chain(&sources[100..101])) {
        task.input = Some(json(&format!("[\"${{tasks.{name}.output.n}}\"]")));
    }
    let mut bench = Bench::start(plan, false).lease_all();
    for name in &sources {
        bench = bench.completes_with(name, &large_with_a_part(31));
    }
    let bench = bench.expect_failed("t264", "INPUT_UNRESOLVED");
    for read in ["t263", "t265"] {
        assert_eq!(bench.state.assignment(bench.at(read)).unwrap().input, Some(&json("[1]")));
    }
}

/// 16,001 values in 32,001 bytes.
fn many_values() -> String {
    format!("[{}]", vec!["0"; 16_000].join(","))
}

#[test]
fn what_a_wave_does_with_values_has_a_limit() {
    // Each input takes 2 values of its own, 16,001 of the output that is read for it, and as many that are put in.
    let names = |letter: &str| (0..20).map(|index| format!("{letter}{index}")).collect::<Vec<_>>().join(" ");
    let mut plan = plan(&format!("continue_all: {} | {} last", names("s"), names("t")));
    for (index, task) in plan.waves[1].tasks.iter_mut().take(20).enumerate() {
        task.input = Some(json(&format!("[\"${{tasks.s{index}.output}}\"]")));
    }
    let mut bench = Bench::start(plan, false).lease_all();
    for index in 0..20 {
        bench = bench.completes_with(&format!("s{index}"), &many_values());
    }
    let resolved = 250_000_usize.div_ceil(2 + 2 * 16_001);
    assert_eq!(bench.count("task_input_resolved"), resolved);
    assert_eq!(bench.state.queued().count(), resolved + 1, "a task without references is not concerned");
    bench.expect_failed(&format!("t{resolved}"), "INPUT_UNRESOLVED").expect_failed("t19", "INPUT_UNRESOLVED");
}

#[test]
fn what_is_put_into_the_inputs_of_a_wave_counts_as_well() {
    let names: Vec<String> = (0..1_000).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("continue_all: a | {} small", names.join(" ")));
    for task in &mut plan.waves[1].tasks {
        task.input = Some(json(r#"["${tasks.a.output.rest}"]"#));
    }
    plan.waves[1].tasks[1_000].input = Some(json(r#"["${tasks.a.output.n}"]"#));
    let bench = Bench::start(plan, false).lease("a", "w1").completes_with("a", &large_with_a_part(20));
    // What it took to find that they are too much is as much as a wave may take: nothing is left for the last one.
    let bench = bench.expect_unsettled("t0");
    bench.expect_failed("t999", "INPUT_UNRESOLVED").expect_failed("small", "INPUT_UNRESOLVED");
}

#[test]
fn ten_thousand_references_are_found_by_name() {
    let names: Vec<String> = (0..10_000).map(|index| format!("t{index}")).collect();
    let consumers: Vec<String> = names.iter().map(|name| format!("use-{name}")).collect();
    let mut plan = plan(&format!("{} | {}", names.join(" "), consumers.join(" ")));
    for (task, name) in plan.waves[1].tasks.iter_mut().zip(&names) {
        task.input = Some(json(&format!("[\"${{tasks.{name}.output}}\"]")));
    }
    let mut bench = Bench::start(plan, false);
    bench.ledger = Ledger::default();
    let queued: Vec<TaskRef> = bench.state.queued().collect();
    for task in queued {
        let worker = "w1".to_owned();
        let now = bench.moment();
        decide(
            &mut bench.state,
            Input::Lease {
                output_schema: None,
                cancel_is_final: false,
                mark: 0,
                task,
                worker: worker.clone(),
            },
            now,
        )
        .unwrap();
        let (lease, _) = bench.state.lease_of(task).unwrap();
        let report = Report::Completed(json("1"));
        bench.last = decide(&mut bench.state, reported(task, lease, &worker, report), now);
    }
    assert_eq!(bench.kinds().iter().filter(|kind| **kind == "task_input_resolved").count(), 10_000);
}
