use super::*;
use crate::frame::{width, within};

fn failed(name: &str, code: &str) -> v1::TaskView {
    v1::TaskView {
        name: name.to_owned(),
        agent: format!("agent-of-{name}"),
        state: v1::TaskState::Failed as i32,
        status: Some(v1::ResultStatus::Error as i32),
        attempt: 1,
        max_attempts: 3,
        started_at_ms: Some(1_000),
        settled_at_ms: Some(2_000),
        error: Some(v1::Error { code: code.to_owned(), message: "broke".to_owned(), ..v1::Error::default() }),
        ..v1::TaskView::default()
    }
}

fn run(tasks: Vec<v1::TaskView>) -> v1::Run {
    v1::Run {
        run_id: "0199".to_owned(),
        name: "nightly".to_owned(),
        status: v1::RunStatus::Finished as i32,
        outcome: Some(v1::RunOutcome::Failed as i32),
        finished_at_ms: Some(5_200),
        tasks_total: tasks.len() as u32,
        tasks_settled: tasks.len() as u32,
        waves: vec![v1::WaveView {
            name: "wave-1".to_owned(),
            policy: v1::AggregationKind::Quorum as i32,
            tasks,
            evaluation: None,
        }],
        ..v1::Run::default()
    }
}

fn all_failures(run: &v1::Run, verbose: bool) -> String {
    failures(run, None, verbose, Form::Boxes, Paint::OFF)
}

#[test]
fn a_list_has_a_line_for_each_run() {
    let mut run = run(vec![failed("a", "X")]);
    run.kind = v1::RunKind::Pipeline.into();
    run.labels.insert("env".to_owned(), "ci".to_owned());
    let shown = list(&[run], 65_000, Paint::OFF);
    let expected = "\
RUN   NAME     STATUS  TASKS  STARTED  TOOK  KIND      LABELS
0199  nightly  failed  1/1    1m ago   5.2s  pipeline  env=ci";
    assert_eq!(shown, expected);
}

#[test]
fn a_run_in_quarantine_is_listed_as_damaged_whatever_its_row_says() {
    let mut run = run(Vec::new());
    run.quarantine = Some(v1::Quarantine::default());
    let shown = list(&[run], 65_000, Paint::OFF);
    assert_eq!(shown.lines().nth(1), Some("0199  nightly  damaged  0/0    1m ago   5.2s"));
}

#[test]
fn the_page_shows_tasks_questions_and_errors() {
    let mut run = run(vec![failed("a", "BUILD_FAILED")]);
    run.questions.push(v1::Question {
        question_id: "q1".to_owned(),
        text: "Go on?".to_owned(),
        options: vec!["retry".to_owned(), "abort".to_owned()],
        ..v1::Question::default()
    });
    run.questions.push(v1::Question {
        question_id: "q2".to_owned(),
        text: "What came of it?".to_owned(),
        options: vec!["succeeded".to_owned()],
        value: Some(v1::AnswerType { schema: "true".to_owned(), ..v1::AnswerType::default() }),
        ..v1::Question::default()
    });
    let shown = show(&run, 10_000, Form::Boxes, Paint::OFF);
    for expected in [
        "Run      0199\nName     nightly\nStatus   failed\nTasks    1 of 1 settled\nStarted  1970-01-01 00:00:00Z\n",
        "Wave 1 of 1: wave-1 (quorum)\n",
        "a     agent-of-a  FAILED  1/3      1s    BUILD_FAILED: broke\n",
        "question q1: Go on?\n  answer with `capataz runs resolve 0199 q1 retry`, or with abort\nquestion q2",
        "0199 q2 succeeded`\n  its value has to pass the JSON Schema that `capataz runs show 0199 --json` shows",
        "|  ERROR: BUILD_FAILED ",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

// S000-C3-07
#[test]
fn a_task_at_work_has_its_health_checks() {
    let task = |last_at_ms| v1::TaskView {
        state: v1::TaskState::Active as i32,
        health_checks: Some(v1::HealthChecks {
            count: 7,
            last_at_ms,
            time_used: 0.123,
            ..Default::default()
        }),
        ..failed("a", "")
    };
    let mut heard = task(Some(8_000));
    heard.error = None;
    let mut unheard = task(None);
    unheard.error = None;
    let shown = show(&run(vec![heard, unheard]), 10_000, Form::Boxes, Paint::OFF);
    for expected in [
        "12 % of its time; health checks 7, heard 2s ago\n",
        "12 % of its time; health checks 7, not heard yet",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

#[test]
fn a_task_at_work_has_what_it_said_last_in_one_line_of_limited_width() {
    let shown = |message: &str| {
        let health = v1::HealthChecks {
            count: 7,
            last_at_ms: Some(8_000),
            message: Some(message.to_owned()),
            ..Default::default()
        };
        let task = v1::TaskView {
            state: v1::TaskState::Active as i32,
            health_checks: Some(health),
            error: None,
            ..failed("a", "")
        };
        show(&run(vec![task]), 10_000, Form::Boxes, Paint::OFF)
    };
    let told = "0 % of its time; health checks 7, heard 2s ago";
    let check = |message: &str, expected: &str| {
        let shown = shown(message);
        let row = shown.lines().find(|row| row.contains(told)).expect("the task has a row");
        assert!(row.ends_with(&format!("{told}{expected}")), "{row}");
    };
    check("compiling \u{1b}[31m214\u{1b}[0m\nfiles\u{7}", "; last said: compiling 214 files");
    check(" \n", "");
    check(&"界".repeat(100), &format!("; last said: {}…", "界".repeat(35)));
}

#[test]
fn lines_of_results_are_as_wide_as_the_terminal_and_keep_what_is_copied() {
    let mut named = run(Vec::new());
    named.name = "界".repeat(128);
    let line = || outcome_line(&named, 10_000, Paint::OFF);
    let whole = line();
    let cut = within(40, line);
    let (_, end) = whole.split_once(": ").unwrap();
    assert!(cut.ends_with(&format!("…: {end}")) && (39..=40).contains(&width(&cut)), "{cut}");
    // Four errors are a list: three of them have boxes.
    let error = |number: usize| {
        let mut task = failed(&format!("t{number}"), "BROKEN");
        task.error.as_mut().unwrap().message = "界 ".repeat(100);
        task
    };
    let failed = run((0..=MOST_BOXES).map(error).collect());
    let told = within(60, || failures(&failed, None, false, Form::Boxes, Paint::OFF));
    let row = told.lines().find(|row| row.starts_with("  t3: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(row.ends_with('…') && (58..=60).contains(&width(row)), "{row}");
    let whole = failures(&failed, None, false, Form::Boxes, Paint::OFF);
    assert!(whole.lines().any(|row| row.starts_with("  t3: ") && width(row) > 200), "{whole}");
}

/// What a task waits for and what it says is the answer to `runs show`.
#[test]
fn what_a_task_does_is_whole_on_every_terminal() {
    let health = v1::HealthChecks {
        count: 7,
        last_at_ms: Some(8_000),
        message: Some("compiling 214 files".to_owned()),
        ..Default::default()
    };
    let active = v1::TaskState::Active as i32;
    let at_work =
        v1::TaskView { state: active, health_checks: Some(health), error: None, ..failed("build", "") };
    let absent = v1::WaitForAgent { last_seen_ms: Some(8_000), ..v1::WaitForAgent::default() };
    let waits = v1::TaskView { waits_for: Some(absent), error: None, state: active, ..failed("lint", "") };
    let run = run(vec![at_work, waits]);
    for columns in [80, 40] {
        let shown = within(columns, || show(&run, 10_000, Form::Boxes, Paint::OFF));
        assert!(shown.lines().all(|line| width(line) <= columns), "{shown}");
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "ACTIVE 1/3 1s 0 % of its time; health checks 7, heard 2s ago; last said: compiling 214 files lint",
            "ACTIVE 1/3 1s waits: nobody serves its agent, last seen 2s ago",
        ] {
            assert!(words.contains(expected), "{columns}: {expected} in\n{shown}");
        }
    }
    let shown = within(80, || show(&run, 10_000, Form::Boxes, Paint::OFF));
    assert!(shown.contains("  1s\n    0 % of its time; "), "below its row:\n{shown}");
}

#[test]
fn one_long_name_leaves_the_status_of_every_run_in_sight() {
    let mut named = run(vec![failed("a", "X")]);
    named.run_id = "0199c0de-0000-7000-8000-000000000001".to_owned();
    let short = named.clone();
    named.name = "n".repeat(128);
    let shown = |columns| within(columns, || list(&[named.clone(), short.clone()], 65_000, Paint::OFF));
    let (id, cut) = (&named.run_id, format!("{}…", "n".repeat(23)));
    let wide = shown(80);
    assert!(wide.contains(&format!("\n{id}  {cut}  failed  1/1")), "{wide}");
    assert!(wide.contains(&format!("\n{id}  {:24}  failed  1/1", "nightly")), "{wide}");
    let narrow = shown(40);
    assert!(narrow.contains(&format!("\n{id}\n    {cut}  failed")), "{narrow}");
    assert!(narrow.contains(&format!("\n{id}\n    nightly  failed  1/1")), "{narrow}");
    for (columns, shown) in [(80, wide), (40, narrow)] {
        assert!(shown.lines().all(|line| width(line) <= columns), "{shown}");
    }
}

#[test]
fn a_task_that_waits_says_for_what() {
    let waits_for = |agent: v1::WaitForAgent| {
        let task = v1::TaskView {
            state: v1::TaskState::Init as i32,
            waits_for: Some(agent),
            error: None,
            ..failed("a", "")
        };
        show(&run(vec![task]), 10_000, Form::Boxes, Paint::OFF)
    };
    let agent = v1::WaitForAgent {
        workers: 2,
        running: 4,
        queued: 7,
        last_seen_ms: Some(8_000),
        held_for_ms: None,
        ahead: None,
    };
    for (agent, expected) in [
        (agent, "waits for a slot: at work 4, workers 2, waiting 7"),
        (v1::WaitForAgent { workers: 0, ..agent }, "waits: nobody serves its agent, last seen 2s ago"),
        (
            v1::WaitForAgent { workers: 0, last_seen_ms: None, ..agent },
            "waits: nobody has served its agent yet",
        ),
        (
            v1::WaitForAgent { ahead: Some(3), ..agent },
            "waits for a slot: at work 4, workers 2, waiting 7, before it 3",
        ),
        (
            v1::WaitForAgent { held_for_ms: Some(90_000), ..agent },
            "waits: a rate limit holds its agent for 1m 30s",
        ),
    ] {
        let shown = waits_for(agent);
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

#[test]
fn several_serious_errors_that_stopped_a_run_are_shown_together() {
    let run =
        run(vec![failed("a", "TESTS_FAILED"), failed("b", "GIT_CONFLICTS"), failed("c", "LINT_WARNINGS")]);
    let shown = all_failures(&run, false);
    assert!(shown.contains("MULTIPLE CRITICAL ERRORS"), "{shown}");
    assert!(shown.contains("1. TESTS_FAILED: a") && shown.contains("2. GIT_CONFLICTS: b"), "{shown}");
    assert!(!shown.contains("3. "), "{shown}");
    let went_on = v1::Run { outcome: Some(v1::RunOutcome::SucceededWithFailures as i32), ..run };
    assert!(!all_failures(&went_on, false).contains("MULTIPLE"), "the run was not stopped");
}

#[test]
fn a_critical_task_is_named_as_such_and_the_verdict_is_no_error_of_its_own() {
    let mut critical = failed("executor", "BUILD_FAILED");
    critical.error.iter_mut().for_each(|error| error.is_critical = true);
    let verdict = v1::Error { code: "CRITICAL_AGENT_FAILED".to_owned(), ..v1::Error::default() };
    let one = v1::Run { error: Some(verdict), ..run(vec![critical.clone()]) };
    let shown = all_failures(&one, false);
    assert!(!shown.contains("MULTIPLE") && shown.contains("ERROR: CRITICAL_AGENT_FAILED"), "{shown}");
    let two = v1::Run { waves: run(vec![critical, failed("explore", "TASK_TIMEOUT")]).waves, ..one };
    let shown = all_failures(&two, false);
    assert!(shown.contains("1. CRITICAL_AGENT_FAILED: executor"), "{shown}");
    assert!(shown.contains("2. TASK_TIMEOUT: explore"), "{shown}");
}

// S000-SC-09
#[test]
fn a_session_that_was_repaired_counts_among_the_errors_of_a_run_that_was_stopped() {
    let repaired = Some("SESSION_CORRUPTED".to_owned());
    let one = v1::Run { session_repaired: repaired, ..run(vec![failed("a", "TESTS_FAILED")]) };
    let shown = all_failures(&one, false);
    assert!(shown.contains("|  1. SESSION_CORRUPTED (repaired) "), "{shown}");
    assert!(shown.contains("|  2. TESTS_FAILED: a "), "{shown}");
    let went_on = v1::Run { outcome: Some(v1::RunOutcome::SucceededWithFailures as i32), ..one };
    assert!(!all_failures(&went_on, false).contains("SESSION_CORRUPTED"), "the run was not stopped");
}

#[test]
fn beyond_a_few_failures_a_line_is_enough() {
    let run = run((0..30).map(|number| failed(&format!("t{number}"), "BUILD_FAILED")).collect());
    let shown = all_failures(&run, false);
    assert_eq!(shown.matches("ERROR: BUILD_FAILED").count(), MOST_BOXES, "{shown}");
    assert!(shown.contains("  t3: BUILD_FAILED: broke\n    next: Look at the build"), "{shown}");
    assert!(shown.contains("… and 7 more"), "{shown}");
    assert!(!shown.contains("t23:"), "{shown}");
}

// S000-C6-12, S000-C6-13
#[test]
fn what_is_medium_is_listed_at_the_end_and_what_is_low_in_the_verbose_form() {
    let notice = |code: &str, severity: v1::Severity| v1::Notice {
        notice: Some(v1::Error {
            code: code.to_owned(),
            message: "noticed".to_owned(),
            severity: severity.into(),
            ..v1::Error::default()
        }),
        ..v1::Notice::default()
    };
    let run = v1::Run {
        notices: vec![
            notice("RETRY_SUCCESS", v1::Severity::Low),
            notice("TIMEOUT_IMMINENT", v1::Severity::Medium),
        ],
        ..run(vec![failed("a", "LINT_WARNINGS"), failed("b", "SUGGESTION")])
    };
    let warnings = "\
Warnings:
  a: LINT_WARNINGS: broke
    next: Look at the warnings when there is time.
  TIMEOUT_IMMINENT: noticed";
    let notes = "\
Notes:
  b: SUGGESTION: broke
    next: Consider the suggestion.
  RETRY_SUCCESS: noticed";
    assert_eq!(all_failures(&run, false), warnings);
    assert_eq!(all_failures(&run, true), format!("{warnings}\n\n{notes}"));
    let went_on = v1::Run { outcome: Some(v1::RunOutcome::SucceededWithFailures as i32), ..run };
    let shown = all_failures(&went_on, false);
    assert!(shown.contains("|  WARNING: LINT_WARNINGS"), "{shown}");
    assert!(shown.contains("Continuing automatically") && !shown.contains("ERROR"), "{shown}");
}

/// A plan declares that what an agent calls HIGH is MEDIUM.
#[test]
fn a_failure_that_is_declared_milder_is_a_warning_in_its_own_words() {
    let mut milder = failed("a", "NON_RETRYABLE_ERROR");
    if let Some(error) = &mut milder.error {
        error.severity = v1::Severity::Medium.into();
        error.cause = failed("a", "BUILD_FAILED").error.map(|mut cause| {
            cause.severity = v1::Severity::High.into();
            Box::new(cause)
        });
    }
    let outcome = Some(v1::RunOutcome::SucceededWithFailures as i32);
    let shown = all_failures(&v1::Run { outcome, ..run(vec![milder]) }, false);
    assert!(shown.contains("|  WARNING: BUILD_FAILED ") && !shown.contains("ERROR:"), "{shown}");
}

#[test]
fn the_failure_that_ended_the_run_is_shown_once() {
    let error = |message: &str| v1::Error {
        message: message.to_owned(),
        ..failed("a", "TASK_TIMEOUT").error.unwrap()
    };
    // The error of the question at the deadline, which was answered with `abort`; the task ends later, with its own.
    let asked = v1::Question {
        purpose: v1::QuestionPurpose::Timeout.into(),
        task: Some("a".to_owned()),
        answer: Some("abort".to_owned()),
        error: Some(error("it has taken 1s")),
        ..v1::Question::default()
    };
    let task = v1::TaskView { error: Some(error("it has taken 5s")), ..failed("a", "TASK_TIMEOUT") };
    let run_of =
        |questions| v1::Run { error: Some(error("it has taken 1s")), questions, ..run(vec![task.clone()]) };
    let shown = all_failures(&run_of(vec![asked]), false);
    assert_eq!(shown.matches("WARNING: TASK_TIMEOUT").count(), 1, "{shown}");
    assert!(!shown.contains("MULTIPLE"), "{shown}");
    let another = all_failures(&run_of(Vec::new()), false);
    assert!(another.contains("MULTIPLE"), "{another}");

    let medium = failed("a", "LINT_WARNINGS");
    let ended = v1::Run { error: medium.error.clone(), ..run(vec![medium]) };
    let shown = all_failures(&ended, false);
    assert_eq!(shown.matches("LINT_WARNINGS").count(), 1, "{shown}");
}

/// Whoever reads the report of a run that has ended cannot extend its tasks.
#[test]
fn a_task_of_a_run_that_has_ended_is_not_said_to_get_more_time() {
    let timeout = failed("a", "TASK_TIMEOUT");
    let mut events = crate::model::tests::fold([crate::model::tests::accepted(&["a"])]);
    events.tell(0, 0);
    let ended = failures(&run(vec![timeout.clone()]), Some(&events), false, Form::Boxes, Paint::OFF);
    assert!(ended.contains("next: Give the task more time: `timeouts.timeout` in the plan"), "{ended}");
    let running = v1::Run { status: v1::RunStatus::Running.into(), ..run(vec![timeout]) };
    let running = failures(&running, Some(&events), false, Form::Boxes, Paint::OFF);
    assert!(running.contains("next: Extend the timeout"), "{running}");
}

#[test]
fn notices_that_are_left_out_are_counted() {
    let run = v1::Run { notices_omitted: 7, ..run(Vec::new()) };
    assert!(all_failures(&run, false).starts_with("7 more notices are in the run's events"));
}

#[test]
fn a_box_is_followed_by_the_end_of_the_log_where_the_events_are_at_hand() {
    use crate::model::tests::{accepted, fold, leased, settled_with_log, started};
    let failed_run = run(vec![failed("a", "BUILD_FAILED"), failed("b", "LINT_WARNINGS")]);
    let logged = settled_with_log(0, v1::ResultStatus::Error, "one\ntwo\n");
    let events = fold([accepted(&["a", "b"]), started(), leased(0, 1), logged]);
    let shown = failures(&failed_run, Some(&events), false, Form::Boxes, Paint::OFF);
    assert!(shown.contains("=+\nIts log (`capataz logs 0199 a`):\n  | one\n  | two"), "{shown}");
    assert_eq!(shown.matches("Its log").count(), 1, "the other task has logged nothing");
    assert!(!failures(&failed_run, None, false, Form::Boxes, Paint::OFF).contains("Its log"));
}
