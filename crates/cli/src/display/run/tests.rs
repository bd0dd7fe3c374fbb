use super::*;

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

#[test]
fn a_list_has_a_line_for_each_run() {
    let shown = list(&[run(vec![failed("a", "X")])], 65_000, Paint::OFF);
    let expected = "\
RUN   NAME     STATUS  TASKS  STARTED  TOOK  LABELS
0199  nightly  failed  1/1    1m ago   5.2s";
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
    let shown = show(&run, 10_000, Paint::OFF);
    for expected in [
        "Run      0199\nName     nightly\nStatus   failed\nTasks    1 of 1 settled\nStarted  1970-01-01 00:00:00Z\n",
        "Wave 1 of 1: wave-1 (quorum)\n",
        "a     agent-of-a  FAILED  1/3      1s    BUILD_FAILED: broke\n",
        "question q1: Go on?\n  answer with `capataz runs resolve 0199 q1 retry|abort`\nquestion q2",
        "0199 q2 succeeded`\n  its value has to pass the JSON Schema that `capataz runs show 0199 --json` shows",
        "|  ERROR: BUILD_FAILED ",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

#[test]
fn several_critical_errors_are_shown_together() {
    let run = run(vec![failed("a", "STATE_CORRUPTED"), failed("b", "GIT_CONFLICTS")]);
    let shown = failures(&run, Paint::OFF);
    assert!(shown.contains("MULTIPLE CRITICAL ERRORS"), "{shown}");
    assert!(shown.contains("1. STATE_CORRUPTED: a") && shown.contains("2. GIT_CONFLICTS: b"), "{shown}");
}

#[test]
fn beyond_a_few_failures_a_line_is_enough() {
    let run = run((0..30).map(|number| failed(&format!("t{number}"), "LINT_WARNINGS")).collect());
    let shown = failures(&run, Paint::OFF);
    assert_eq!(shown.matches("WARNING: LINT_WARNINGS").count(), MOST_BOXES, "{shown}");
    assert!(shown.contains("  t3: LINT_WARNINGS: broke\n    next: Look at the warnings"), "{shown}");
    assert!(shown.contains("… and 7 more"), "{shown}");
    assert!(!shown.contains("t23:"), "{shown}");
}
