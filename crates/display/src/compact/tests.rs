use super::*;
use crate::frame::within;
use crate::model::tests::{accepted, attempt_failed, fold, leased, settled, started};
use crate::report::Report;
use crate::words::Language;

fn task(name: &str, status: v1::ResultStatus, took_ms: i64) -> v1::TaskView {
    v1::TaskView {
        name: name.to_owned(),
        agent: format!("agent-{name}"),
        status: Some(status.into()),
        attempt: 1,
        started_at_ms: Some(1_000),
        settled_at_ms: Some(1_000 + took_ms),
        ..v1::TaskView::default()
    }
}

fn with_output(task: v1::TaskView, media_type: &str, text: &str) -> v1::TaskView {
    let data = Some(v1::payload::Data::Inline(text.as_bytes().to_vec().into()));
    v1::TaskView { output: Some(v1::Payload { media_type: media_type.to_owned(), data }), ..task }
}

fn wave(name: &str, tasks: Vec<v1::TaskView>, reason: &str, continues: bool) -> v1::WaveView {
    let evaluation =
        v1::Evaluation { should_continue: continues, reason: reason.to_owned(), ..v1::Evaluation::default() };
    v1::WaveView { name: name.to_owned(), tasks, evaluation: Some(evaluation), ..v1::WaveView::default() }
}

fn run(waves: Vec<v1::WaveView>) -> v1::Run {
    v1::Run {
        run_id: "0199".to_owned(),
        status: v1::RunStatus::Finished.into(),
        outcome: Some(v1::RunOutcome::Succeeded.into()),
        finished_at_ms: Some(9_000),
        waves,
        ..v1::Run::default()
    }
}

fn error(code: &str, severity: v1::Severity, message: &str) -> v1::Error {
    v1::Error {
        code: code.to_owned(),
        severity: severity.into(),
        message: message.to_owned(),
        ..v1::Error::default()
    }
}

/// Three tasks of one wave and one of another: a success, a success after a failed attempt, a failure, and an answer.
fn two_waves() -> v1::Run {
    use v1::ResultStatus::{Error, Success};
    let broke = v1::Error {
        suggested_action: Some("Mend the schema.".to_owned()),
        options: vec!["debug".to_owned()],
        ..error("E_SCHEMA", v1::Severity::High, "the schema has no version")
    };
    let looked = vec![
        with_output(task("measure", Success, 14), "application/json", "{\"size\": 11, \"unit\": \"B\"}"),
        v1::TaskView { attempt: 2, ..task("review", Success, 6_900) },
        v1::TaskView { error: Some(broke), ..task("checks-the-schema", Error, 300) },
    ];
    let told = with_output(task("report", Success, 6), "text/plain", "two findings\n");
    run(vec![
        wave("look", looked, "quorum met: 2/3 (66%)", true),
        wave("conclude", vec![told], "quorum met: 1/1 (100%)", true),
    ])
}

fn events() -> model::Run {
    let failed = |task| settled(task, v1::ResultStatus::Error, 1);
    fold([
        accepted(&["measure", "review", "checks-the-schema", "report"]),
        started(),
        leased(1, 1),
        attempt_failed(1, 1, 1_000),
        leased(1, 2),
        settled(1, v1::ResultStatus::Success, 2),
        failed(2),
    ])
}

fn reported(run: &v1::Run) -> String {
    let events = events();
    let report = Report { run, events: &events, answer: None, verbose: false, form: Form::Compact };
    report.parts(Paint::OFF).join("\n")
}

#[test]
fn eighty_columns_have_a_line_for_each_task_and_one_for_a_wave_of_several() {
    let expected = "\
✓ measure            succeeded  14ms              {\"size\":11,\"unit\":\"B\"}
✓ review             succeeded  6.9s  2 attempts
  attempt 1 failed (exit code 75)
✗ checks-the-schema  failed     0.3s              E_SCHEMA
  look: quorum met: 2/3 (66%)
✓ report             succeeded  6ms               two findings
✗ E_SCHEMA (HIGH): checks-the-schema: the schema has no version
  -> Mend the schema.";
    assert_eq!(within(80, || reported(&two_waves())), expected);
    // Where nothing bounds the lines, they are the same.
    assert_eq!(reported(&two_waves()), expected);
}

#[test]
fn forty_columns_have_the_verdicts_and_twenty_the_names() {
    let forty = "\
✓ measure            succeeded  14ms
✓ review             succeeded  6.9s
  attempt 1 failed (exit code 75)
✗ checks-the-schema  failed     0.3s
  look: quorum met: 2/3 (66%)
✓ report             succeeded  6ms
✗ E_SCHEMA (HIGH): checks-the-schema:
  the schema has no version
  -> Mend the schema.
Output of report:
two findings";
    assert_eq!(within(40, || reported(&two_waves())), forty);
    let twenty = "\
✓ measure
✓ review
  attempt 1 failed …
✗ checks-the-schema
  look: quorum met:
  2/3 (66%)
✓ report
✗ E_SCHEMA (HIGH):
  checks-the-schema:
  the schema has no
  version
  -> Mend the
     schema.
Output of report:
two findings";
    assert_eq!(within(20, || reported(&two_waves())), twenty);
}

#[test]
fn the_same_in_spanish() {
    let expected = "\
✓ measure            con éxito  14ms              {\"size\":11,\"unit\":\"B\"}
✓ review             con éxito  6.9s  2 intentos
  falló el intento 1 (código de salida 75)
✗ checks-the-schema  con error  0.3s              E_SCHEMA
  look: quórum alcanzado: 2/3 (66%)
✓ report             con éxito  6ms               two findings
✗ E_SCHEMA (HIGH): checks-the-schema: the schema has no version
  -> Mend the schema.";
    let shown = Language::Spanish.within(|| within(80, || reported(&two_waves())));
    assert_eq!(shown, expected);
    let forty = Language::Spanish.within(|| within(40, || reported(&two_waves())));
    assert!(forty.ends_with("\nSalida de report:\ntwo findings"), "{forty}");
}

#[test]
fn one_task_of_one_wave_is_one_line() {
    let task = with_output(task("hello", v1::ResultStatus::Success, 1_200), "application/json", "\"hola\"");
    let run = run(vec![wave("wave-1", vec![task], "quorum met: 1/1 (100%)", true)]);
    assert_eq!(within(80, || reported(&run)), "✓ hello  succeeded  1.2s  hola");
}

#[test]
fn no_line_is_wider_than_the_terminal_whatever_the_names_are_written_in() {
    let mut run = two_waves();
    let names = ["日本語".repeat(20), "e\u{301}".repeat(50), "a".repeat(128), "ok".to_owned()];
    let tasks = run.waves.iter_mut().flat_map(|wave| &mut wave.tasks);
    for (task, name) in tasks.zip(names) {
        task.name = name;
    }
    for columns in 20..=200 {
        for line in within(columns, || reported(&run)).lines() {
            assert!(width(line) <= columns, "{columns}: {line}");
            assert!(!line.trim_start().starts_with('\u{301}'), "{columns}: {line}");
        }
    }
    let rows = within(60, || reported(&run));
    let first: Vec<&str> = rows.lines().take(1).collect();
    // An odd column is left where a wide character has no room.
    assert_eq!(first, [format!("✓ {}…  succeeded  14ms", "日本語".repeat(6) + "日本")]);
}

#[test]
fn what_is_painted_is_as_wide_as_what_is_not() {
    let plain = within(60, || reported(&two_waves()));
    let events = events();
    let run = two_waves();
    let report = Report { run: &run, events: &events, answer: None, verbose: false, form: Form::Compact };
    let painted = within(60, || report.parts(Paint::ON).join("\n"));
    assert!(painted.contains("\u{1b}[32m✓ measure            succeeded  14ms\u{1b}[0m"), "{painted:?}");
    assert_eq!(console::strip_ansi_codes(&painted), plain);
}

#[test]
fn of_many_tasks_the_failures_are_told_and_the_successes_counted() {
    let mut tasks: Vec<_> = (0..1_999).map(|_| task("many", v1::ResultStatus::Success, 1)).collect();
    tasks.push(task("broken", v1::ResultStatus::Timeout, 1));
    let run = run(vec![wave("wave-1", tasks, "quorum met: 1999/2000 (99%)", true)]);
    let expected = "\
✗ broken  timed out  1ms
  ... and 1,999 more: succeeded
  wave-1: quorum met: 1999/2000 (99%)";
    assert_eq!(reported(&run), expected);
    let all = (0..60).map(|_| task("many", v1::ResultStatus::Success, 1)).collect();
    let run = self::run(vec![wave("wave-1", all, "quorum met: 60/60 (100%)", true)]);
    assert_eq!(reported(&run), "  ... and 60 more: succeeded\n  wave-1: quorum met: 60/60 (100%)");
}

#[test]
fn a_task_that_did_not_begin_or_was_cancelled_is_told_as_that() {
    let never = v1::TaskView { started_at_ms: None, ..task("b", v1::ResultStatus::Cancelled, 0) };
    let unfinished =
        v1::TaskView { status: None, settled_at_ms: None, ..task("c", v1::ResultStatus::Success, 0) };
    let cancelled = task("a", v1::ResultStatus::Cancelled, 2_000);
    let run = run(vec![wave("wave-1", vec![cancelled, never, unfinished], "stopped", false)]);
    let run = v1::Run { outcome: Some(v1::RunOutcome::Cancelled.into()), ..run };
    let expected = "\
✗ a  cancelled    2s
· b  not started
· c  unfinished
  wave-1: stopped";
    assert_eq!(reported(&run), expected);
}

#[track_caller]
fn check(shown: &v1::Error, context: &Context<'_>, expected: &str) {
    let context = Context { form: Form::Compact, ..*context };
    assert_eq!(within(80, || error::error(shown, &context, Paint::OFF)), expected);
}

#[test]
fn a_question_has_its_options_and_the_command_in_one_piece() {
    let question = v1::Question {
        question_id: "q1".to_owned(),
        options: ["retry", "skip", "abort"].map(str::to_owned).to_vec(),
        ..v1::Question::default()
    };
    let of_task =
        Context { run: Some("0199"), task: Some("lint"), question: Some(&question), ..Context::default() };
    let broke = v1::Error {
        suggested_action: Some("Mend it.".to_owned()),
        ..error("E_LINT", v1::Severity::High, "it broke")
    };
    let expected = "\
? E_LINT (HIGH): lint: it broke
  -> Mend it.
  [r] Retry from the start; [s] Skip (not recommended); [a] Abort
  -> `capataz runs resolve 0199 q1 retry`, or with skip, abort";
    check(&broke, &of_task, expected);
    // A command is copied, and never broken.
    let narrow = Context { form: Form::Compact, ..of_task };
    let shown = within(20, || error::error(&broke, &narrow, Paint::OFF));
    assert!(shown.ends_with("\n  -> `capataz runs resolve 0199 q1 retry`, or with skip, abort"), "{shown}");
}

#[test]
fn a_task_without_time_has_its_times_and_its_state() {
    let timeout = v1::TimeoutDetail {
        configured_timeout_ms: 60_000,
        elapsed_ms: 61_000,
        last_health_check_ms: Some(55_000),
        partial_output: None,
    };
    let over = v1::Error {
        timeout: Some(timeout),
        options: vec!["abort".to_owned()],
        ..error("TASK_TIMEOUT", v1::Severity::High, "the task \"lint\" has timed out")
    };
    let context = Context {
        run: Some("0199"),
        agent: Some("linter"),
        phase: Some("ACTIVE"),
        at_ms: Some(61_000),
        goes_on: true,
        ..Context::default()
    };
    let expected = "\
✗ TASK_TIMEOUT (HIGH): The task \"lint\" exceeded its timeout
  Configured time: 1 minute; Elapsed time: 1:01; Last health check: 6 seconds
  ago; Agent: linter; Phase: ACTIVE
  -> Give the task more time: `timeouts.timeout` in the plan
  [a] Abort the run: `capataz runs cancel 0199`";
    check(&over, &context, expected);
}

#[test]
fn exhausted_retries_have_their_numbers_the_last_error_and_the_next_step() {
    let attempt = |attempt| v1::AttemptRecord {
        attempt,
        duration_ms: 1_000,
        waited_ms: 500,
        ..v1::AttemptRecord::default()
    };
    let exhausted = v1::Error {
        attempts: vec![attempt(1), attempt(2), attempt(3)],
        cause: Some(Box::new(error("E_BUSY", v1::Severity::High, "busy"))),
        suggested_action: Some("Wait.".to_owned()),
        options: ["retry_manual", "debug"].map(str::to_owned).to_vec(),
        ..error("RETRY_EXHAUSTED", v1::Severity::High, "no attempt is left")
    };
    let context = Context {
        task: Some("lint"),
        run: Some("0199"),
        max_attempts: Some(3),
        may_be_continued: true,
        ..Context::default()
    };
    let expected = "\
✗ RETRY_EXHAUSTED (HIGH): lint: Attempts: 3/3 exhausted
  Total time: 4.5s; Last error: E_BUSY: busy
  -> Wait.
  [c] Go on with what is left: `capataz runs continue 0199`";
    check(&exhausted, &context, expected);
}

#[test]
fn names_that_may_be_meant_steps_that_are_right_and_details_are_told() {
    let unknown = v1::Error {
        suggestions: ["reviewer", "viewer"].map(str::to_owned).to_vec(),
        ..error("AGENT_NOT_FOUND", v1::Severity::High, "no agent \"reviwer\"")
    };
    let expected = "\
✗ AGENT_NOT_FOUND (HIGH): The agent \"reviwer\" does not exist
  similar: reviewer, viewer
  -> Correct the agent's name in the plan";
    check(&unknown, &Context::default(), expected);

    let step = v1::Error {
        suggested_action: Some("INIT -> ACTIVE -> COMPLETE".to_owned()),
        ..error("INVALID_STATE_TRANSITION", v1::Severity::High, "invalid: INIT -> COMPLETE")
    };
    let expected = "\
✗ INVALID_STATE_TRANSITION (HIGH): INIT -> COMPLETE (skipping ACTIVE)
  correct steps: INIT -> ACTIVE -> COMPLETE; INIT -> ACTIVE -> FAILED";
    check(&step, &Context::default(), expected);

    let detail = |number: u32| error("DETAIL", v1::Severity::High, &number.to_string());
    let wrong = v1::Error {
        cause: Some(Box::new(error("NOT_HERE", v1::Severity::High, "no such file"))),
        reason: Some("the code is not retryable".to_owned()),
        details: (1..=7).map(detail).collect(),
        ..error("NON_RETRYABLE_ERROR", v1::Severity::Critical, "attempt 1 failed")
    };
    let shown = within(80, || {
        error::error(&wrong, &Context { form: Form::Compact, ..Context::default() }, Paint::OFF)
    });
    for line in [
        "✗ NON_RETRYABLE_ERROR (CRITICAL): NOT_HERE: no such file",
        "  Reason: the code is not retryable",
        "  - DETAIL: 5",
        "  - ... and 2 more errors",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in\n{shown}");
    }
    assert!(!shown.contains("DETAIL: 6"), "{shown}");
    // Of 7, the last one stands for 972: beside the 5 that are listed there are 973.
    let mut details = wrong.details.clone();
    details[6].message = "… and 972 more (truncated)".to_owned();
    let wrong = v1::Error { details, ..wrong };
    let shown = within(80, || {
        error::error(&wrong, &Context { form: Form::Compact, ..Context::default() }, Paint::OFF)
    });
    assert!(shown.lines().any(|line| line == "  - ... and 973 more errors"), "{shown}");
}

#[test]
fn a_warning_says_that_the_work_goes_on_and_a_note_is_what_it_is_in_a_report() {
    let warning = error("LINT_WARNINGS", v1::Severity::Medium, "5 lint warnings found");
    let went_on = Context { continues: true, ..Context::default() };
    let expected = "\
! LINT_WARNINGS (MEDIUM): 5 lint warnings found
  Continuing automatically...
  -> Look at the warnings when there is time.";
    check(&warning, &went_on, expected);
    check(&warning, &Context::default(), &expected.replace("  Continuing automatically...\n", ""));
    let low = error("RETRY_SUCCESS", v1::Severity::Low, "Retry succeeded");
    check(&low, &Context::default(), "[INFO] Retry succeeded");
}

#[test]
fn a_session_has_every_way_to_recover_unless_it_is_recovered() {
    let broken = error("SESSION_CORRUPTED", v1::Severity::Critical, "the state is no JSON");
    let expected = "\
✗ SESSION_CORRUPTED (CRITICAL): the state is no JSON
  [m] Edit by hand
  [b] Restore from backup: `capataz sessions restore`
  [r] Reinitialise the state (history is lost): `capataz sessions repair --reinitialise`";
    check(&broken, &Context::default(), expected);
    let recovered = Context { recovered: Some("restored from its backup"), ..Context::default() };
    let expected = "✗ SESSION_CORRUPTED (CRITICAL): the state is no JSON\n  -> restored from its backup";
    check(&broken, &recovered, expected);
}

#[test]
fn several_critical_errors_are_numbered_and_nothing_in_them_acts_on_the_terminal() {
    let errors = ["E_A: a".to_owned(), "E_B: \u{1b}[2Jb".to_owned()];
    let expected = "\
✗ MULTIPLE CRITICAL ERRORS (CRITICAL): The run was stopped by critical errors
  1. E_A: a
  2. E_B: \\u{1b}[2Jb
  -> `capataz runs continue 0199` to go on";
    let shown = within(80, || multiple_critical(&errors, "capataz runs continue 0199", Paint::OFF));
    assert_eq!(shown, expected);
}
