//! A run as a whole: its line in a list, its page, and what is said at its end.

use std::collections::BTreeMap;

use capataz_contracts::v1;

use super::error::{self, Context, advice, one_line, severity};
use super::format;
use super::frame::{truncated, visible};
use super::paint::{Paint, Tone};
use super::table::Table;
use super::{report, special};
use crate::text::{counted, fill, words};

/// Failed tasks that get a box of their own at the end of a run; further ones get a line.
const MOST_BOXES: usize = 3;
/// Failed tasks that get a line.
const MOST_FAILURES: usize = 20;
/// Columns of what a table says about a failure.
const DETAIL_WIDTH: usize = 72;

/// The outcome as the contract spells it.
pub fn outcome_name(outcome: v1::RunOutcome) -> &'static str {
    match outcome {
        v1::RunOutcome::Unspecified => "",
        v1::RunOutcome::Succeeded => "succeeded",
        v1::RunOutcome::SucceededWithFailures => "succeeded_with_failures",
        v1::RunOutcome::Failed => "failed",
        v1::RunOutcome::Cancelled => "cancelled",
        v1::RunOutcome::Blocked => "blocked",
    }
}

/// The outcome of a run that has ended, else its status.
pub fn status_name(run: &v1::Run) -> &'static str {
    match run.status() {
        v1::RunStatus::Unspecified => "",
        v1::RunStatus::Running => "running",
        v1::RunStatus::Paused => "paused",
        v1::RunStatus::Waiting => "waiting",
        v1::RunStatus::Cancelling => "cancelling",
        v1::RunStatus::Finished => outcome_name(run.outcome()),
    }
}

pub fn outcome_tone(outcome: v1::RunOutcome) -> Tone {
    match outcome {
        v1::RunOutcome::Succeeded => Tone::Good,
        v1::RunOutcome::SucceededWithFailures => Tone::Warning,
        v1::RunOutcome::Failed | v1::RunOutcome::Cancelled | v1::RunOutcome::Blocked => Tone::Bad,
        v1::RunOutcome::Unspecified => Tone::Plain,
    }
}

fn status_tone(run: &v1::Run) -> Tone {
    match run.status() {
        v1::RunStatus::Finished => outcome_tone(run.outcome()),
        v1::RunStatus::Waiting | v1::RunStatus::Paused | v1::RunStatus::Cancelling => Tone::Warning,
        _ => Tone::Plain,
    }
}

pub fn state_name(state: v1::TaskState) -> &'static str {
    match state {
        v1::TaskState::Unspecified => "",
        v1::TaskState::Init => "INIT",
        v1::TaskState::Active => "ACTIVE",
        v1::TaskState::Complete => "COMPLETE",
        v1::TaskState::Failed => "FAILED",
        v1::TaskState::RolledBack => "ROLLED_BACK",
        v1::TaskState::Deleted => "DELETED",
    }
}

fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn duration_ms(run: &v1::Run, now_ms: i64) -> i64 {
    run.finished_at_ms.unwrap_or(now_ms) - run.created_at_ms
}

/// A table of runs.
pub fn list(runs: &[v1::Run], now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().runs.head);
    for run in runs {
        table.row([
            (run.run_id.clone(), Tone::Plain),
            (run.name.clone(), Tone::Strong),
            (status_name(run).to_owned(), status_tone(run)),
            (format!("{}/{}", run.tasks_settled, run.tasks_total), Tone::Plain),
            (fill(words().agents.ago, &[&format::age(now_ms - run.created_at_ms)]), Tone::Plain),
            (format::took(duration_ms(run, now_ms)), Tone::Plain),
            (labels(&run.labels), Tone::Faint),
        ]);
    }
    table.render(paint)
}

/// The page of one run.
pub fn show(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let texts = &words().runs;
    let mut parts = vec![heading(run, now_ms, paint)];
    for (index, wave) in run.waves.iter().enumerate() {
        let number = (index + 1).to_string();
        let of = run.waves.len().to_string();
        let title =
            fill(texts.wave, &[&number, &of, &visible(&wave.name), report::policy_name(wave.policy())]);
        let mut table = Table::new(texts.task_head);
        for task in &wave.tasks {
            table.row(task_row(task, now_ms));
        }
        let mut part = paint.text(Tone::Strong, &title);
        if let Some(evaluation) = &wave.evaluation {
            part.push_str(&format!("\n{}", visible(&evaluation.reason)));
        }
        parts.push(format!("{part}\n{}", table.render(paint)));
    }
    let open = questions(run, paint);
    if !open.is_empty() {
        parts.push(open);
    }
    let failures = failures(run, paint);
    if !failures.is_empty() {
        parts.push(failures);
    }
    parts.join("\n\n")
}

fn heading(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let texts = &words().runs;
    let settled = fill(texts.settled, &[&run.tasks_settled.to_string(), &run.tasks_total.to_string()]);
    let mut lines = vec![
        (texts.id, run.run_id.clone(), Tone::Plain),
        (texts.name, run.name.clone(), Tone::Strong),
        (texts.status, status_name(run).to_owned(), status_tone(run)),
        (texts.tasks, settled, Tone::Plain),
        (texts.created, format::utc(run.created_at_ms), Tone::Plain),
        (texts.took, format::took(duration_ms(run, now_ms)), Tone::Plain),
    ];
    if !run.labels.is_empty() {
        lines.push((texts.labels, labels(&run.labels), Tone::Plain));
    }
    if let Some(parent) = &run.parent {
        lines.push((texts.parent, format!("{} ({})", parent.run_id, parent.task), Tone::Plain));
    }
    let width = lines.iter().map(|(title, ..)| title.chars().count()).max().unwrap_or(0);
    let shown: Vec<String> = lines
        .iter()
        .map(|(title, value, tone)| format!("{title:<width$}  {}", paint.text(*tone, &visible(value))))
        .collect();
    shown.join("\n")
}

fn task_row(task: &v1::TaskView, now_ms: i64) -> [(String, Tone); 6] {
    let tone = match task.state() {
        v1::TaskState::Complete => Tone::Good,
        v1::TaskState::Failed => Tone::Bad,
        v1::TaskState::Active => Tone::Plain,
        _ => Tone::Faint,
    };
    let took = task
        .started_at_ms
        .map_or_else(String::new, |started| format::took(task.settled_at_ms.unwrap_or(now_ms) - started));
    let detail = match (&task.error, task.retry_at_ms) {
        (Some(error), _) => truncated(&one_line(error), DETAIL_WIDTH),
        (None, Some(at)) => fill(words().watch.retry_in, &[&format::took(at - now_ms)]),
        (None, None) if task.critical => words().runs.critical.to_owned(),
        (None, None) => String::new(),
    };
    [
        (task.name.clone(), Tone::Plain),
        (task.agent.clone(), Tone::Plain),
        (state_name(task.state()).to_owned(), tone),
        (format!("{}/{}", task.attempt, task.max_attempts), Tone::Plain),
        (took, Tone::Plain),
        (detail, Tone::Faint),
    ]
}

/// Questions without an answer, each with the commands that answer it.
pub fn questions(run: &v1::Run, paint: Paint) -> String {
    let open = run.questions.iter().filter(|question| question.answer.is_none());
    let shown: Vec<String> = open.map(|question| ask(&run.run_id, question, paint)).collect();
    if shown.is_empty() {
        return String::new();
    }
    format!("{}\n{}", paint.text(Tone::Warning, words().runs.open_questions), shown.join("\n"))
}

/// A question and the command that answers it.
pub fn ask(run_id: &str, question: &v1::Question, paint: Paint) -> String {
    let texts = &words().watch;
    let mut text = fill(texts.question, &[&visible(&question.question_id), &visible(&question.text)]);
    text = paint.text(Tone::Warning, &text);
    let answers = question.options.join("|");
    let command = fill(texts.answer_with, &[run_id, &visible(&question.question_id), &visible(&answers)]);
    text.push_str(&format!("\n  {command}"));
    text
}

/// The reports of all waves that began.
pub fn reports(run: &v1::Run, paint: Paint) -> String {
    let began = |wave: &&v1::WaveView| {
        wave.evaluation.is_some() || wave.tasks.iter().any(|task| task.started_at_ms.is_some())
    };
    let of = run.waves.len();
    let shown: Vec<String> = run
        .waves
        .iter()
        .enumerate()
        .filter(|(_, wave)| began(wave))
        .map(|(index, wave)| {
            let report = report::report(wave, paint);
            if of == 1 {
                return report;
            }
            let title =
                fill(words().report.wave, &[&(index + 1).to_string(), &of.to_string(), &visible(&wave.name)]);
            format!("{}\n{report}", paint.text(Tone::Faint, &title))
        })
        .collect();
    shown.join("\n\n")
}

/// The errors of a run: boxes for the few that matter most, a line and the next step for the others.
pub fn failures(run: &v1::Run, paint: Paint) -> String {
    let failed: Vec<(&v1::TaskView, &v1::Error)> = run
        .waves
        .iter()
        .flat_map(|wave| &wave.tasks)
        .filter_map(|task| task.error.as_ref().map(|error| (task, error)))
        .collect();
    let mut parts = Vec::new();
    let all = run.error.iter().chain(failed.iter().map(|(_, error)| *error));
    if all.filter(|error| severity(error) == v1::Severity::Critical).count() > 1 {
        parts.push(multiple(run, &failed, paint));
    } else if let Some(error) = &run.error {
        parts.push(error::error(error, &Context::default(), paint));
    }
    let (boxed, listed): (Vec<_>, Vec<_>) =
        failed.into_iter().enumerate().partition(|(index, _)| *index < MOST_BOXES);
    for (_, (task, error)) in &boxed {
        parts.push(error::error(error, &context_of(task), paint));
    }
    if !listed.is_empty() {
        let mut lines = vec![words().watch.failures_listed.to_owned()];
        for (_, (task, error)) in listed.iter().take(MOST_FAILURES) {
            lines.push(format!("  {}: {}", visible(&task.name), visible(&one_line(error))));
            lines.extend(
                advice(error)
                    .map(|advice| format!("    {}", fill(words().errors.next, &[&visible(&advice)]))),
            );
        }
        if let Some(more) = listed.len().checked_sub(MOST_FAILURES).filter(|more| *more > 0) {
            lines.push(format!("  {}", fill(words().watch.more_running, &[&more.to_string()])));
        }
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

fn context_of(task: &v1::TaskView) -> Context<'_> {
    Context {
        task: Some(&task.name),
        agent: Some(&task.agent),
        phase: Some(state_name(task.state())),
        max_attempts: Some(task.max_attempts),
        at_ms: task.settled_at_ms,
    }
}

fn multiple(run: &v1::Run, failed: &[(&v1::TaskView, &v1::Error)], paint: Paint) -> String {
    let mut errors: Vec<String> = run.error.iter().map(one_line).collect();
    let serious = |error: &v1::Error| severity(error) >= v1::Severity::High;
    errors.extend(
        failed
            .iter()
            .filter(|(_, error)| serious(error))
            .take(MOST_FAILURES)
            .map(|(task, error)| format!("{}: {}", error.code, task.name)),
    );
    special::multiple_critical(&errors, &format!("capataz runs show {}", run.run_id), paint)
}

/// `nightly: succeeded in 5.2s`.
pub fn outcome_line(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let text = fill(
        words().watch.outcome,
        &[&visible(&run.name), status_name(run), &format::took(duration_ms(run, now_ms))],
    );
    paint.text(status_tone(run), &text)
}

/// `2 waves, 7 tasks`.
pub fn size_of(plan: &v1::Plan) -> (String, String) {
    let texts = &words().watch;
    let tasks: usize = plan.waves.iter().map(|wave| wave.tasks.len()).sum();
    (
        counted(plan.waves.len() as u64, texts.waves_one, texts.waves_many),
        counted(tasks as u64, texts.tasks_one, texts.tasks_many),
    )
}

#[cfg(test)]
mod tests {
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
            error: Some(v1::Error {
                code: code.to_owned(),
                message: "broke".to_owned(),
                ..v1::Error::default()
            }),
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
    fn the_page_shows_tasks_questions_and_errors() {
        let mut run = run(vec![failed("a", "BUILD_FAILED")]);
        run.questions.push(v1::Question {
            question_id: "q1".to_owned(),
            text: "Go on?".to_owned(),
            options: vec!["retry".to_owned(), "abort".to_owned()],
            ..v1::Question::default()
        });
        let shown = show(&run, 10_000, Paint::OFF);
        for expected in [
            "Run      0199\nName     nightly\nStatus   failed\nTasks    1 of 1 settled\nStarted  1970-01-01 00:00:00Z\n",
            "Wave 1 of 1: wave-1 (quorum)\n",
            "a     agent-of-a  FAILED  1/3      1s    BUILD_FAILED: broke\n",
            "question q1: Go on?\n  answer with `capataz runs resolve 0199 q1 retry|abort`",
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
}
