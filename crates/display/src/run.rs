//! A run as a whole: its line in a list, its page, and its final messages.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_policy::{codes, retry};

use crate::compact::{self, Form};
use crate::error::{self, Context, advice, one_line, severity, to_copy, with_cause};
use crate::format;
use crate::frame::{fitted, truncated, visible};
use crate::model::{self, Task};
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::messages::message;
use crate::words::{counted, fill, words};
use crate::{log, special, wave};

/// Maximum number of failed tasks that get a box of their own at the end of a run; further ones get a line.
const MOST_BOXES: usize = 3;
/// Maximum number of failed tasks that get a line.
const MOST_FAILURES: usize = 20;
/// What stands in front of each line of a list.
const ENTRY: &str = "  ";
/// The answer to a blocked phase that goes back to the checkpoint before it.
const ROLLBACK: &str = "rollback";
/// Columns of a failure's description in a table.
const DETAIL_WIDTH: usize = 72;
/// Cells of a task's row. The last one says why it waits, and what it does: it is never cut.
const TASK_CELLS: usize = 6;
/// Cells of a run's row up to its status.
const STATUS_IN_LIST: usize = 3;

/// The outcome's name, in English spelled as in the contract.
pub fn outcome_name(outcome: v1::RunOutcome) -> &'static str {
    let texts = &words().statuses;
    match outcome {
        v1::RunOutcome::Unspecified => "",
        v1::RunOutcome::Succeeded => texts.succeeded,
        v1::RunOutcome::SucceededWithFailures => texts.with_failures,
        v1::RunOutcome::Failed => texts.failed,
        v1::RunOutcome::Cancelled => texts.cancelled,
        v1::RunOutcome::Blocked => texts.blocked,
    }
}

/// The outcome of a run that has ended, or the status of one that has not.
pub fn status_name(run: &v1::Run) -> &'static str {
    if run.quarantine.is_some() {
        return words().statuses.damaged;
    }
    match run.status() {
        v1::RunStatus::Finished => outcome_name(run.outcome()),
        status => unfinished_name(status),
    }
}

/// A status of runs that have not ended; nothing for others.
pub fn unfinished_name(status: v1::RunStatus) -> &'static str {
    let texts = &words().statuses;
    match status {
        v1::RunStatus::Unspecified | v1::RunStatus::Finished => "",
        v1::RunStatus::Running => texts.running,
        v1::RunStatus::Paused => texts.paused,
        v1::RunStatus::Waiting => texts.waiting,
        v1::RunStatus::Cancelling => texts.cancelling,
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
    if run.quarantine.is_some() {
        return Tone::Bad;
    }
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
    run.finished_at_ms.unwrap_or(now_ms).saturating_sub(run.created_at_ms)
}

/// What the run does, as `--kind` and JSON name it.
fn kind_name(run: &v1::Run) -> String {
    match run.kind() {
        v1::RunKind::Unspecified => String::new(),
        kind => kind.as_str_name().trim_start_matches("RUN_KIND_").to_ascii_lowercase(),
    }
}

/// A table of runs.
pub fn list(runs: &[v1::Run], now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().runs.head).yielding(1).whole(STATUS_IN_LIST);
    for run in runs {
        table.row([
            (run.run_id.clone(), Tone::Plain),
            (run.name.clone(), Tone::Strong),
            (status_name(run).to_owned(), status_tone(run)),
            (format!("{}/{}", run.tasks_settled, run.tasks_total), Tone::Plain),
            (
                fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(run.created_at_ms))]),
                Tone::Plain,
            ),
            (format::took(duration_ms(run, now_ms)), Tone::Plain),
            (kind_name(run), Tone::Plain),
            (labels(&run.labels), Tone::Faint),
        ]);
    }
    table.render(paint)
}

/// The page of one run.
pub fn show(run: &v1::Run, now_ms: i64, form: Form, paint: Paint) -> String {
    let texts = &words().runs;
    let mut parts = vec![heading(run, now_ms, paint)];
    let is_execution = run.kind() == v1::RunKind::Mode;
    if is_execution && !run.waves.is_empty() {
        parts.push(calls(run, now_ms, paint));
    }
    for (index, wave) in run.waves.iter().enumerate().filter(|_| !is_execution) {
        let number = (index + 1).to_string();
        let of = run.waves.len().to_string();
        let title = fill(texts.wave, &[&number, &of, &visible(&wave.name), wave::policy_name(wave.policy())]);
        let mut table = Table::new(texts.task_head).whole(TASK_CELLS);
        for task in &wave.tasks {
            table.row(task_row(task, now_ms));
        }
        let mut part = paint.text(Tone::Strong, &title);
        if let Some(evaluation) = &wave.evaluation {
            part.push_str(&format!("\n{}", visible(&message(&evaluation.reason))));
        }
        parts.push(format!("{part}\n{}", table.render(paint)));
    }
    let open = questions(run, paint);
    if !open.is_empty() {
        parts.push(open);
    }
    let failures = failures(run, None, true, form, paint);
    if !failures.is_empty() {
        parts.push(failures);
    }
    parts.join("\n\n")
}

/// The run's heading.
pub fn heading(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let texts = &words().runs;
    let settled = fill(texts.settled, &[&run.tasks_settled.to_string(), &run.tasks_total.to_string()]);
    let states =
        run.state_counts.iter().map(|count| format!("{} {}", count.tasks, state_name(count.state())));
    let states: Vec<String> = states.collect();
    let settled = if states.is_empty() { settled } else { format!("{settled} ({})", states.join(", ")) };
    heading_with(run, (texts.tasks, &settled), now_ms, paint)
}

/// The heading of a script's run. Its tasks are left out, because they are an implementation detail of scripts.
pub fn script_heading(run: &v1::Run, browser: &str, now_ms: i64, paint: Paint) -> String {
    heading_with(run, (words().act.browser, browser), now_ms, paint)
}

fn heading_with(run: &v1::Run, own: (&'static str, &str), now_ms: i64, paint: Paint) -> String {
    let texts = &words().runs;
    let mut lines = vec![
        (texts.id, run.run_id.clone(), Tone::Plain),
        (texts.name, run.name.clone(), Tone::Strong),
        (texts.status, status_name(run).to_owned(), status_tone(run)),
        (own.0, own.1.to_owned(), Tone::Plain),
        (texts.created, format::utc(run.created_at_ms), Tone::Plain),
        (texts.took, format::took(duration_ms(run, now_ms)), Tone::Plain),
    ];
    if !run.labels.is_empty() {
        lines.push((texts.labels, labels(&run.labels), Tone::Plain));
    }
    if let Some(of) = &run.forked_from {
        let text = fill(texts.forked_at, &[&of.run_id, &of.seq.to_string()]);
        lines.push((texts.forked_from, text, Tone::Plain));
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

fn task_row(task: &v1::TaskView, now_ms: i64) -> [(String, Tone); TASK_CELLS] {
    let tone = match task.state() {
        v1::TaskState::Complete => Tone::Good,
        v1::TaskState::Failed => Tone::Bad,
        v1::TaskState::Active => Tone::Plain,
        _ => Tone::Faint,
    };
    let took = task.started_at_ms.map_or_else(String::new, |started| {
        format::took(task.settled_at_ms.unwrap_or(now_ms).saturating_sub(started))
    });
    let detail = match (&task.error, task.retry_at_ms, &task.health_checks) {
        (Some(error), ..) => truncated(&with_cause(error), DETAIL_WIDTH),
        (None, Some(at), _) => fill(words().watch.retry_in, &[&format::took(at.saturating_sub(now_ms))]),
        (None, None, Some(health)) => at_work(health, now_ms),
        (None, None, None) if task.waits_for.is_some() => {
            task.waits_for.as_ref().map_or_else(String::new, |agent| waits_for(agent, now_ms))
        }
        (None, None, None) if task.taken_over => words().watch.taken_over.to_owned(),
        (None, None, None) if task.critical => words().runs.critical.to_owned(),
        (None, None, None) => String::new(),
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

/// What keeps a task from its agent.
fn waits_for(agent: &v1::WaitForAgent, now_ms: i64) -> String {
    let texts = &words().runs;
    match (agent.held_for_ms, agent.workers, agent.last_seen_ms) {
        (Some(for_ms), ..) => fill(texts.held_back, &[&format::took(for_ms)]),
        (None, 0, Some(at)) => fill(texts.nobody_serves_since, &[&format::age(now_ms.saturating_sub(at))]),
        (None, 0, None) => texts.nobody_serves.to_owned(),
        (None, workers, _) => {
            let numbers = [agent.running, workers, agent.queued].map(|number| number.to_string());
            let waits = fill(texts.waits_for_slot, &numbers.each_ref().map(String::as_str));
            match agent.ahead {
                Some(ahead) => fill(texts.ahead, &[&waits, &ahead.to_string()]),
                None => waits,
            }
        }
    }
}

/// How far the task's time is used, when its worker was heard, and what it has said.
fn at_work(health: &v1::HealthChecks, now_ms: i64) -> String {
    let texts = &words().runs;
    let used = format!("{:.0}", health.time_used * 100.0);
    let heard = match health.last_at_ms {
        Some(at) => {
            fill(texts.at_work, &[&used, &health.count.to_string(), &format::age(now_ms.saturating_sub(at))])
        }
        None => fill(texts.at_work_unheard, &[&used, &health.count.to_string()]),
    };
    let lines: Vec<String> =
        health.message.iter().flat_map(|message| message.lines().map(log::plain)).collect();
    match lines.join(" ").trim() {
        "" => heard,
        said => fill(texts.last_said, &[&heard, &truncated(said, DETAIL_WIDTH)]),
    }
}

/// The open questions, each with the commands that answer it.
pub fn questions(run: &v1::Run, paint: Paint) -> String {
    let open = run.questions.iter().filter(|question| question.answer.is_none());
    let shown: Vec<String> = open.map(|open| question(&run.run_id, open, paint)).collect();
    if shown.is_empty() {
        return String::new();
    }
    format!("{}\n{}", paint.text(Tone::Warning, words().runs.open_questions), shown.join("\n"))
}

/// A question and the command that answers it.
pub fn question(run_id: &str, question: &v1::Question, paint: Paint) -> String {
    let texts = &words().watch;
    let mut text =
        fill(texts.question, &[&visible(&question.question_id), &visible(&message(&question.text))]);
    text = paint.text(Tone::Warning, &text);
    if let Some(error) = &question.error {
        text.push_str(&format!("\n  {}", visible(&one_line(error))));
    }
    text.push_str(&format!("\n  {}", how_to_answer(run_id, question)));
    let is_typed = question.value.as_ref().is_some_and(|value| !value.schema.is_empty());
    // The commands for a phase make the value themselves.
    let has_commands = [v1::QuestionPurpose::Phase, v1::QuestionPurpose::Plan].contains(&question.purpose());
    if is_typed && !has_commands {
        text.push_str(&format!("\n  {}", fill(texts.answer_typed, &[run_id])));
    }
    text
}

/// The commands that answer a question.
pub fn how_to_answer(run_id: &str, question: &v1::Question) -> String {
    let id = visible(&question.question_id);
    if question.purpose() == v1::QuestionPurpose::Phase {
        let texts = &words().pipelines;
        let goes_back = question.options.iter().any(|option| option == ROLLBACK);
        let template = if goes_back { texts.answer_or_go_back } else { texts.answer };
        return fill(template, &[run_id, &id]);
    }
    if question.purpose() == v1::QuestionPurpose::Plan {
        return fill(words().modes.approve_with, &[run_id, &id]);
    }
    let (first, others) = to_copy(&question.options);
    fill(words().watch.answer_with, &[run_id, &id, &first, &others])
}

/// The calls of an execution, in their order: each is a wave of one task.
pub fn calls(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().runs.task_head).whole(TASK_CELLS);
    for task in run.waves.iter().flat_map(|wave| &wave.tasks) {
        table.row(task_row(task, now_ms));
    }
    table.render(paint)
}

/// Whether all tasks of the wave have ended, or its run has.
pub(crate) fn is_over(run: &v1::Run, wave: &v1::WaveView) -> bool {
    let began = wave.tasks.iter().any(|task| task.started_at_ms.is_some());
    let has_ended = wave.tasks.iter().all(|task| task.status.is_some());
    wave.evaluation.is_some() && has_ended || began && run.finished_at_ms.is_some()
}

/// The boxes of all waves that are over.
pub fn wave_boxes(run: &v1::Run, paint: Paint) -> String {
    let of = run.waves.len();
    let shown: Vec<String> = run
        .waves
        .iter()
        .enumerate()
        .filter(|(_, wave)| is_over(run, wave))
        .map(|(index, wave)| {
            let shown = wave::wave_box(wave, paint);
            if of == 1 {
                return shown;
            }
            let title = fill(
                words().wave_box.wave,
                &[&(index + 1).to_string(), &of.to_string(), &visible(&wave.name)],
            );
            format!("{}\n{shown}", paint.text(Tone::Faint, &title))
        })
        .collect();
    shown.join("\n\n")
}

/// The errors of a run: boxes, or the lines in their place, for the few most important ones, a line and the next step for each of the others; then what
/// is MEDIUM, and in the verbose form what is LOW (seed 000, contract 6). The fold of the run's events, where it is at hand,
/// knows which failures had their boxes when they came about, and what was logged.
pub fn failures(
    run: &v1::Run,
    events: Option<&model::Run>,
    verbose: bool,
    form: Form,
    paint: Paint,
) -> String {
    let folded: BTreeMap<&str, &Task> =
        events.into_iter().flat_map(model::Run::tasks).map(|task| (task.name.as_str(), task)).collect();
    let log_of = |task: &v1::TaskView| folded.get(task.name.as_str()).map_or(&[][..], |task| &task.log);
    let failed = || {
        let tasks = run.waves.iter().flat_map(|wave| &wave.tasks);
        tasks
            // The person who cancelled a task knows; the wave's box lists cancelled tasks.
            .filter(|task| task.status() != v1::ResultStatus::Cancelled)
            .filter_map(|task| task.error.as_ref().map(|error| (task, error)))
    };
    let serious: Vec<(&v1::TaskView, &v1::Error)> =
        failed().filter(|(_, error)| error::is_told_at_once(error)).collect();
    let mut parts = Vec::new();
    let own =
        run.error.as_ref().filter(|own| serious.iter().all(|(task, error)| !ended_by(run, own, task, error)));
    let found = found(run, &serious);
    let is_finished = run.status() == v1::RunStatus::Finished;
    let went_on = !is_finished || outcome_tone(run.outcome()) != Tone::Bad;
    if !went_on && found.len() > 1 {
        let command = if run.may_be_continued { "continue" } else { "show" };
        let recovery = format!("capataz runs {command} {}", run.run_id);
        parts.push(match form {
            Form::Boxes => special::multiple_critical(&found, &recovery, paint),
            Form::Compact => compact::multiple_critical(&found, &recovery, paint),
        });
    } else if let Some(error) = own {
        let context = Context { run: Some(&run.run_id), goes_on: !is_finished, form, ..Context::default() };
        parts.push(error::error(error, &context, paint));
    }
    parts.extend(exceeded(run, form, paint));
    parts.extend(refused(run, &folded, form, paint));
    let is_told = |task: &v1::TaskView| folded.get(task.name.as_str()).is_some_and(|task| task.told);
    let untold = serious.iter().filter(|(task, _)| !is_told(task));
    for (task, error) in untold.clone().take(MOST_BOXES) {
        let context = Context { log: log_of(task), form, ..context_of(run, task) };
        parts.push(error::error(error, &context, paint));
    }
    let boxed: Vec<&str> = untold.take(MOST_BOXES).map(|(task, _)| task.name.as_str()).collect();
    // The lines of a failure that was told when it came about are still in sight.
    let is_seen = |task: &v1::TaskView| form == Form::Compact && is_told(task);
    let listed = serious.iter().filter(|(task, _)| !boxed.contains(&task.name.as_str()) && !is_seen(task));
    let lines = listed.map(|(task, error)| short_lines(run, task, error));
    parts.extend(titled_list(words().watch.failures_listed, lines.collect()));
    for (severity, title) in [
        (v1::Severity::Medium, words().watch.warnings_listed),
        (v1::Severity::Low, words().watch.notes_listed),
    ] {
        if severity == v1::Severity::Low && !verbose {
            continue;
        }
        // The failure that ended the run is told as the run's.
        let is_own = |task: &v1::TaskView, error| own.is_some_and(|own| ended_by(run, own, task, error));
        let of_tasks =
            failed().filter(|(task, error)| self::severity(error) == severity && !is_own(task, error));
        // The failure itself, which is as severe as its task's failure is.
        let own_words = |error: &v1::Error| v1::Error {
            severity: self::severity(error).into(),
            ..retry::original(error).clone()
        };
        let of_tasks: Vec<_> = of_tasks.map(|(task, error)| (task, own_words(error))).collect();
        // A warning says that the run went on, where it did.
        let boxes = if went_on && severity == v1::Severity::Medium { MOST_BOXES } else { 0 };
        for (task, error) in of_tasks.iter().take(boxes) {
            let context = Context { continues: true, log: log_of(task), form, ..context_of(run, task) };
            parts.push(error::error(error, &context, paint));
        }
        let listed = of_tasks.iter().skip(boxes);
        let mut lines: Vec<Vec<String>> = listed.map(|(task, error)| short_lines(run, task, error)).collect();
        let notices = run.notices.iter().filter_map(|notice| notice.notice.as_ref());
        let of_run = notices.filter(|notice| self::severity(notice) == severity);
        lines.extend(of_run.map(|notice| vec![fitted(&one_line(notice), ENTRY.len(), str::to_owned)]));
        parts.extend(titled_list(title, lines));
    }
    if run.notices_omitted > 0 {
        let omitted = run.notices_omitted.to_string();
        parts.push(fill(words().watch.notices_omitted, &[&omitted, &run.run_id]));
    }
    parts.join(form.between())
}

/// A failure of a task in a line as wide as the terminal at most, with the next step in another.
fn short_lines(run: &v1::Run, task: &v1::TaskView, error: &v1::Error) -> Vec<String> {
    let mut lines = failure_lines(run, error);
    let line = |told: &str| format!("{}: {told}", visible(&task.name));
    if let Some(first) = lines.first_mut() {
        *first = fitted(&with_cause(error), ENTRY.len(), line);
    }
    lines
}

/// A failure in a line, with the next step in another.
pub(crate) fn failure_lines(run: &v1::Run, error: &v1::Error) -> Vec<String> {
    let mut lines = vec![visible(&with_cause(error))];
    let is_over = run.status() == v1::RunStatus::Finished && error.code == codes::TASK_TIMEOUT.as_str();
    // Nobody can give a task of a run that has ended more time.
    let advice = if is_over { Some(words().errors.raise_timeout.to_owned()) } else { advice(error) };
    lines.extend(advice.map(|advice| format!("  {}", fill(words().errors.next, &[&visible(&advice)]))));
    lines
}

/// The failed attempts of tasks that were tried again, a line for each task; empty where there are none.
pub fn retried<'a>(tasks: impl Iterator<Item = &'a Task>) -> String {
    let of_task = |task: &Task| {
        let failed = task.attempts.iter().filter_map(|attempt| {
            let failure = attempt.failure.as_ref()?.told();
            Some(fill(words().retry.failed, &[&attempt.number.to_string(), &visible(&failure)]))
        });
        let failed: Vec<String> = failed.collect();
        let line = |told: &str| format!("{}: {told}", visible(&task.name));
        vec![fitted(&failed.join(", "), ENTRY.len(), line)]
    };
    titled_list(words().watch.retries_listed, tasks.map(of_task).collect()).unwrap_or_default()
}

/// The entries under their title, up to a number of them; `None` where there are none.
fn titled_list(title: &str, entries: Vec<Vec<String>>) -> Option<String> {
    let more = entries.len().saturating_sub(MOST_FAILURES);
    let mut lines = vec![title.to_owned()];
    lines.extend(entries.into_iter().take(MOST_FAILURES).flatten().map(|line| format!("{ENTRY}{line}")));
    if more > 0 {
        lines.push(format!("  {}", fill(words().watch.more_running, &[&more.to_string()])));
    }
    (lines.len() > 1).then(|| lines.join("\n"))
}

/// What is known of a task beside its error.
pub(crate) fn context_of<'a>(run: &'a v1::Run, task: &'a v1::TaskView) -> Context<'a> {
    Context {
        task: Some(&task.name),
        agent: Some(&task.agent),
        phase: Some(state_name(task.state())),
        max_attempts: Some(task.max_attempts),
        at_ms: task.settled_at_ms,
        run: Some(&run.run_id),
        goes_on: run.status() != v1::RunStatus::Finished,
        may_be_continued: run.may_be_continued && task.state() == v1::TaskState::Failed,
        question: open_questions(run).find(|question| question.task.as_deref() == Some(&task.name)),
        ..Context::default()
    }
}

/// The questions that can be answered.
fn open_questions(run: &v1::Run) -> impl Iterator<Item = &v1::Question> {
    let is_finished = run.status() == v1::RunStatus::Finished;
    run.questions.iter().filter(move |question| !is_finished && question.answer.is_none())
}

/// The boxes of tasks whose time is over while they may still get more: nothing has failed yet, and a person may answer.
fn exceeded(run: &v1::Run, form: Form, paint: Paint) -> Vec<String> {
    let asked = open_questions(run).filter(|open| open.purpose() == v1::QuestionPurpose::Timeout);
    let tasks = || run.waves.iter().flat_map(|wave| &wave.tasks);
    let boxes = asked.filter_map(|open| {
        let task = tasks().find(|task| open.task.as_deref() == Some(&task.name) && task.error.is_none())?;
        let error = open.error.as_ref()?;
        let at_ms = error
            .timeout
            .as_ref()
            .zip(task.started_at_ms)
            .map(|(timeout, started)| started.saturating_add(timeout.elapsed_ms));
        let context = Context { question: Some(open), at_ms, form, ..context_of(run, task) };
        Some(error::error(error, &context, paint))
    });
    boxes.take(MOST_BOXES).collect()
}

/// The completions that the lifecycle refused, where a person was not told before.
fn refused(run: &v1::Run, folded: &BTreeMap<&str, &Task>, form: Form, paint: Paint) -> Vec<String> {
    let tasks = run.waves.iter().flat_map(|wave| &wave.tasks);
    let untold = tasks.filter_map(|task| {
        let refused = folded.get(task.name.as_str())?.refused.as_ref().filter(|refused| !refused.told)?;
        let context = Context { form, question: None, may_be_continued: false, ..context_of(run, task) };
        Some(error::error(&refused.error, &context, paint))
    });
    untold.take(MOST_BOXES).collect()
}

/// The errors that stopped a run, each by its code and its task. A critical task's failure is told as what it is to the
/// policy that ended the run; a verdict over tasks is not another error beside theirs. What was repaired of the session before
/// is the first of them.
fn found(run: &v1::Run, serious: &[(&v1::TaskView, &v1::Error)]) -> Vec<String> {
    let verdicts = [codes::QUORUM_NOT_MET, codes::CRITICAL_AGENT_FAILED];
    let own =
        run.error.as_ref().filter(|own| serious.iter().all(|(task, error)| !ended_by(run, own, task, error)));
    let by_critical = own.is_some_and(|own| own.code == codes::CRITICAL_AGENT_FAILED);
    let of_run = own
        .filter(|own| !verdicts.iter().any(|verdict| own.code == *verdict) && error::is_told_at_once(own))
        .map(one_line);
    let of_tasks = serious.iter().take(MOST_FAILURES).map(|(task, error)| {
        let is_cause = by_critical && error.is_critical;
        let code = if is_cause {
            codes::CRITICAL_AGENT_FAILED.as_str()
        } else {
            retry::original(error).code.as_str()
        };
        format!("{code}: {}", task.name)
    });
    let repaired = run.session_repaired.as_ref().map(|code| fill(words().errors.repaired, &[code]));
    repaired.into_iter().chain(of_run).chain(of_tasks).collect()
}

/// What the run itself has failed with, where that is no failure of a task.
pub(crate) fn own_error(run: &v1::Run) -> Option<&v1::Error> {
    let own = run.error.as_ref()?;
    let tasks = run.waves.iter().flat_map(|wave| &wave.tasks);
    let mut failed = tasks.filter_map(|task| Some((task, task.error.as_ref()?)));
    failed.all(|(task, error)| !ended_by(run, own, task, error)).then_some(own)
}

/// Whether the run's error is this failure of a task: as it is, or as it was told to the person who ended the run when the
/// task's time was over.
fn ended_by(run: &v1::Run, own: &v1::Error, task: &v1::TaskView, error: &v1::Error) -> bool {
    let at_deadline = |question: &&v1::Question| {
        question.purpose() == v1::QuestionPurpose::Timeout
            && question.task.as_deref() == Some(&task.name)
            && question.error.as_ref().is_some_and(|asked| asked.message == own.message)
    };
    own == error || run.questions.iter().any(|question| at_deadline(&question))
}

/// The outcome of a run in one line: `nightly: succeeded in 5.2s`.
pub fn outcome_line(run: &v1::Run, now_ms: i64, paint: Paint) -> String {
    let took = format::took(duration_ms(run, now_ms));
    let line = |name: &str| fill(words().watch.outcome, &[name, status_name(run), &took]);
    paint.text(status_tone(run), &fitted(&run.name, 0, line))
}

/// The numbers of waves and tasks of a plan: `2 waves`, `7 tasks`.
pub fn size_of(plan: &v1::Plan) -> (String, String) {
    let texts = &words().watch;
    let tasks: usize = plan.waves.iter().map(|wave| wave.tasks.len()).sum();
    (
        counted(plan.waves.len() as u64, texts.waves_one, texts.waves_many),
        counted(tasks as u64, texts.tasks_one, texts.tasks_many),
    )
}

#[cfg(test)]
mod tests;
