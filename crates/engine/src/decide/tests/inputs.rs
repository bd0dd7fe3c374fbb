//! References from a task's input to the outputs of earlier waves.

use super::*;

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
    let bench = with_payload(output, json(r#"["${tasks.a.output}"]"#));
    check_unresolved(&bench);
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
fn resolved_inputs_have_limits_for_a_task_and_for_a_wave() {
    let large = format!("\"{}\"", "x".repeat(20 * 1024));
    let bench = given(&large, r#""${tasks.a.output}${tasks.a.output}""#);
    check_unresolved(&bench);
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

/// An output of 32 KiB, and the reference to its little part.
fn large_with_a_part() -> String {
    let output = format!(r#"{{"n":1,"rest":"{}"}}"#, "x".repeat(32 * 1024 - 17));
    assert_eq!(output.len(), 32 * 1024);
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
    let bench = Bench::start(plan, false).lease("a", "w1").completes_with("a", &large_with_a_part());
    assert_eq!(bench.state.queued().count(), 600);
    assert_eq!(bench.state.assignment(bench.at("t599")).unwrap().input, Some(&json("[1,1]")));
}

#[test]
fn what_a_wave_reads_of_outputs_has_a_limit_and_what_was_read_serves_everybody() {
    let sources: Vec<String> = (0..257).map(|index| format!("s{index}")).collect();
    let mut plan = plan(&format!("continue_all: {} | t0 t1 t2", sources.join(" ")));
    let refer = |names: &[String]| {
        let references = names.iter().map(|name| format!("${{tasks.{name}.output.n}}"));
        Some(json(&serde_json::to_string(&references.collect::<Vec<_>>()).unwrap()))
    };
    plan.waves[1].tasks[0].input = refer(&sources[..256]);
    plan.waves[1].tasks[1].input = refer(&sources[256..]);
    plan.waves[1].tasks[2].input = refer(&sources[100..101]);
    let mut bench = Bench::start(plan, false).lease_all();
    for name in &sources {
        bench = bench.completes_with(name, &large_with_a_part());
    }
    let bench = bench.expect_failed("t1", "INPUT_UNRESOLVED");
    assert_eq!(bench.state.assignment(bench.at("t2")).unwrap().input, Some(&json("[1]")));
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
fn inputs_that_are_too_large_count_as_well() {
    // Each of them would have 100 KiB of text, and is refused for that.
    let names: Vec<String> = (0..1_000).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("continue_all: a | {} small", names.join(" ")));
    let large = "${tasks.a.output.rest}".repeat(3);
    for task in &mut plan.waves[1].tasks {
        task.input = Some(json(&format!("[{large:?}]")));
    }
    plan.waves[1].tasks[1_000].input = Some(json(r#"["${tasks.a.output.n}"]"#));
    let bench = Bench::start(plan, false).lease("a", "w1").completes_with("a", &large_with_a_part());
    // What it took to find that out is as much as a wave may take: nothing is left for the last one.
    bench.expect_failed("t0", "INPUT_UNRESOLVED").expect_failed("small", "INPUT_UNRESOLVED");
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
