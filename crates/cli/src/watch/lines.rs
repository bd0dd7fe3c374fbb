//! One line for each event, for logs and for the part of the screen above the running tasks.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

use super::{mode_lines, pipeline_lines, script_lines};
use capataz_display::answer::{self, call_reason};
use capataz_display::error::{is_told_at_once, one_line, severity, with_cause};
use capataz_display::format::{exactly, offset, share, took};
use capataz_display::frame::{visible, visible_block};
use capataz_display::model::Run;
use capataz_display::paint::{Paint, Tone};
use capataz_display::run::{how_to_answer, outcome_name, outcome_tone, size_of};
use capataz_display::wave::policy_name;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, routing, words};
use capataz_policy::retry;

/// The amount of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Important events, for a reader who also sees the running tasks.
    Results,
    /// Every step.
    Steps,
    /// Every event, and all fields of errors.
    Everything,
}

/// The text of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The task's name; `None` if the line is about the run.
    pub task: Option<String>,
    pub text: String,
    pub tone: Tone,
    pub(super) needed: Detail,
}

/// Maximum width of the column of task names.
const MOST_NAME_WIDTH: usize = 28;
/// Width of the column of the events' numbers; few runs have more events.
const NUMBER_WIDTH: usize = 4;
/// Tasks that a line names beside its own.
const MOST_NAMED: usize = 5;
/// The engine's own answer to a question that nobody has to answer any more.
const WITHDRAWN: &str = "withdrawn";
/// The placeholder for a task's name where a line is about the run.
const NO_TASK: &str = "-";

/// The event as text, with further lines indented; `None` if `detail` excludes the event. The event was already applied
/// to `run`.
pub fn render(run: &Run, run_id: &str, event: &v1::Event, detail: Detail, paint: Paint) -> Option<String> {
    let line = line(run, run_id, event, detail)?;
    if detail < line.needed {
        return None;
    }
    let mut below = Vec::new();
    if detail == Detail::Everything {
        below.extend(error_of(event).map(extras).unwrap_or_default());
        below.extend(script_lines::extras(event).into_iter().map(|line| visible(&line)));
        below.extend(log_of(event).lines().map(|line| format!("| {}", visible_block(line))));
    }
    // Who reads every event looks for the number by which another command takes one.
    let number = (detail == Detail::Everything).then_some(event.seq);
    Some(laid_out(run, number, event.at_ms, &line, &below, paint))
}

/// What a task says of its progress as text, with the end of its output indented below; `None` where nothing is known of it.
pub fn progress(run: &Run, frame: &v1::ProgressFrame, paint: Paint) -> Option<String> {
    let texts = &words().watch;
    let share = frame.fraction.map(|fraction| format!("{:.0}%", fraction.clamp(0.0, 1.0) * 100.0));
    let message = frame.message.as_deref().filter(|message| !message.is_empty()).map(str::to_owned);
    let said: Vec<String> = share.into_iter().chain(message).collect();
    let tail = frame.partial_tail.as_deref().unwrap_or_default().trim_end();
    let text = match (said.is_empty(), tail.is_empty()) {
        (true, true) => return None,
        (true, false) => texts.progress_bare.to_owned(),
        (false, _) => fill(texts.progress, &[&said.join(", ")]),
    };
    let task = Some(name_of(run, frame.wave, frame.task));
    let line = Line { task, text, tone: Tone::Faint, needed: Detail::Steps };
    let below: Vec<String> = tail.lines().map(|line| format!("| {}", visible_block(line))).collect();
    Some(laid_out(run, None, frame.at_ms, &line, &below, paint))
}

/// The number of the event where it is wanted, the time, the task and the text of a line, with further lines indented below.
fn laid_out(
    run: &Run,
    number: Option<u64>,
    at_ms: i64,
    line: &Line,
    below: &[String],
    paint: Paint,
) -> String {
    let longest = names(run).map(|name| name.chars().count()).max().unwrap_or(1);
    let width = longest.min(MOST_NAME_WIDTH);
    let task = visible(line.task.as_deref().unwrap_or(NO_TASK));
    let at = paint.text(Tone::Faint, &offset(at_ms.saturating_sub(run.accepted_at_ms)));
    let number = number.map(|number| format!("{number:>NUMBER_WIDTH$}  ")).unwrap_or_default();
    let indent = number.len() + 11 + width;
    let number = paint.text(Tone::Faint, &number);
    let mut text = format!("{number}{at}  {task:<width$}  {}", paint.text(line.tone, &visible(&line.text)));
    for line in below {
        text.push_str(&format!("\n{:indent$}  {}", "", paint.text(Tone::Faint, line)));
    }
    text
}

/// The names that determine the column's width: of all tasks, or of all actions of a script.
fn names(run: &Run) -> Box<dyn Iterator<Item = &str> + '_> {
    match &run.script {
        Some(script) => Box::new(script.script.actions.iter().map(|action| action.id.as_str())),
        None => Box::new(run.tasks().map(|task| task.name.as_str())),
    }
}

fn line(run: &Run, run_id: &str, event: &v1::Event, detail: Detail) -> Option<Line> {
    if let Some(line) = run.script.as_ref().and_then(|script| script_lines::line(script, event)) {
        return Some(line);
    }
    if let Some(line) = event.body.as_ref().and_then(|body| pipeline_lines::line(run, body)) {
        return Some(line);
    }
    if let Some(line) = event.body.as_ref().and_then(|body| mode_lines::line(run, body)) {
        return Some(line);
    }
    let texts = &words().watch;
    let of_run = |text: String, tone, needed| Line { task: None, text, tone, needed };
    let of_task = |wave: u32, task: u32, text: String, tone, needed| Line {
        task: Some(name_of(run, wave, task)),
        text,
        tone,
        needed,
    };
    use Detail::{Everything, Results, Steps};
    let open_question = |question: &v1::Question| {
        let answer = how_to_answer(run_id, question);
        let text = fill(texts.question, &[&question.question_id, &message(&question.text)]);
        let task = question.task.clone();
        Line { task, text: format!("{text}; {answer}"), tone: Tone::Warning, needed: Results }
    };
    let Some(body) = &event.body else {
        return Some(of_run(fill(texts.unknown_event, &[&event.seq.to_string()]), Tone::Faint, Everything));
    };
    Some(match body {
        // The module `script_lines` has written these events' lines.
        Body::BrowserActivityStarted(_)
        | Body::BrowserOpened(_)
        | Body::ActionProposed(_)
        | Body::StageFinished(_)
        | Body::ActionFinished(_)
        | Body::ActionFailed(_)
        | Body::BrowserCloseRequested(_)
        | Body::BrowserClosed(_)
        | Body::BrowserLost(_) => return None,
        // And `pipeline_lines` those of these.
        Body::PhaseStarted(_)
        | Body::OutputRejected(_)
        | Body::PhaseCompleted(_)
        | Body::PhaseBlocked(_)
        | Body::PhaseChanged(_)
        | Body::PipelineRolledBack(_) => return None,
        // And `mode_lines` those of these.
        Body::ModeBegun(_)
        | Body::PlannerAsked(_)
        | Body::PlannerAnswered(_)
        | Body::PlanEdited(_)
        | Body::PlanApproved(_)
        | Body::PlanRejected(_)
        | Body::ToolsMissed(_)
        | Body::ToolApproved(_)
        | Body::ToolCalled(_)
        | Body::ToolObserved(_)
        | Body::EscalationAnswered(_)
        | Body::ModeCheckpointed(_)
        | Body::ModeRolledBack(_)
        | Body::ModeCompleted(_)
        | Body::SessionModeChosen(_)
        | Body::SessionMemoryForgotten(_) => return None,
        Body::PlanBegun(_) | Body::AskBegun(_) => of_run(texts.ask_begun.to_owned(), Tone::Faint, Everything),
        Body::AskRouted(routed) => {
            let confidence = routed.routing.as_ref().map_or(0.0, |routing| routing.confidence);
            let why = routed.routing.as_ref().map_or("".into(), |routing| routing::reason(&routing.reason));
            let values = [&routed.spec, call_reason(routed.reason()), &answer::sure(confidence), &why];
            of_run(fill(texts.ask_routed, &values), Tone::Strong, Results)
        }
        Body::TransitionConsidered(considered) => {
            let transition = considered.transition.clone().unwrap_or_default();
            of_run(answer::transition_line(&transition), Tone::Warning, Results)
        }
        Body::SessionOpened(opened) => {
            of_run(fill(texts.session_opened, &[&opened.session]), Tone::Plain, Results)
        }
        Body::SessionTurn(turn) => {
            let spec = turn.current_spec.as_deref().unwrap_or("-");
            let mut text = fill(texts.session_turn, &[&turn.request_id, spec]);
            let left_out = turn.left_out.as_ref().map(answer::keys);
            if let Some(keys) = &left_out {
                text = format!("{text}\n{}", fill(words().ask.left_out, &[keys]));
            }
            of_run(text, if left_out.is_some() { Tone::Warning } else { Tone::Plain }, Results)
        }
        Body::SessionTransitionAccepted(accepted) => {
            of_run(fill(texts.session_moved, &[&accepted.from, &accepted.to]), Tone::Good, Results)
        }
        Body::SessionStateWritten(written) => of_run(session_state(written), Tone::Plain, Steps),
        Body::RunAccepted(accepted) => {
            let text = match accepted.ask() {
                Some(ask) => fill(texts.ask_accepted, &[&visible(&ask.text)]),
                None if accepted.query().is_some() => {
                    fill(words().modes.accepted, &[&visible(accepted.query().unwrap_or_default())])
                }
                None if !run.phases.is_empty() => pipeline_lines::accepted(run),
                None => {
                    let (waves, tasks) = accepted.plan().map(size_of).unwrap_or_default();
                    fill(texts.accepted, &[&run.name, &waves, &tasks])
                }
            };
            of_run(text, Tone::Plain, Results)
        }
        Body::WaveStarted(started) => of_run(wave_started(run, started.wave), Tone::Strong, Results),
        Body::TaskInputResolved(resolved) => {
            of_task(resolved.wave, resolved.task, texts.input_resolved.to_owned(), Tone::Faint, Everything)
        }
        Body::TaskLeased(leased) => {
            let again = run.task(leased.wave, leased.task).is_some_and(|task| task.resumed);
            let template = if again { texts.leased_again } else { texts.leased };
            let text = fill(template, &[&leased.attempt.to_string(), &leased.worker]);
            of_task(leased.wave, leased.task, text, Tone::Plain, Steps)
        }
        Body::ChildNamed(named) => {
            let text = fill(texts.child_named, &[&named.attempt.to_string(), &named.run_id]);
            of_task(named.wave, named.task, text, Tone::Plain, Steps)
        }
        Body::ChildCancelRequested(cancel) => {
            let text = fill(texts.cancel_requested, &[cancel_reason(cancel.reason())]);
            of_task(cancel.wave, cancel.task, text, Tone::Warning, Steps)
        }
        Body::ChildEnded(ended) => {
            let outcome = ended.outcome.map_or("-", |_| outcome_name(ended.outcome()));
            let text = fill(texts.child_ended, &[&ended.run_id, outcome]);
            of_task(ended.wave, ended.task, text, Tone::Faint, Everything)
        }
        Body::TaskLeaseLost(lost) => {
            if lost.reason() == v1::LeaseLossReason::Forked {
                return Some(of_task(lost.wave, lost.task, texts.begun_anew.to_owned(), Tone::Plain, Steps));
            }
            let text = fill(texts.lease_lost, &[loss(lost.reason()), &(words().ordinal)(lost.losses.into())]);
            of_task(lost.wave, lost.task, text, Tone::Warning, Results)
        }
        Body::TaskAttemptFailed(failed) => {
            let error = failed.error.as_ref().map(one_line).unwrap_or_default();
            let text =
                fill(texts.attempt_failed, &[&failed.attempt.to_string(), &error, &exactly(failed.delay_ms)]);
            let needed = if failed.error.as_ref().is_none_or(is_told_at_once) { Results } else { Steps };
            of_task(failed.wave, failed.task, text, Tone::Warning, needed)
        }
        Body::TaskRetryDue(due) => {
            of_task(due.wave, due.task, texts.retry_due.to_owned(), Tone::Faint, Everything)
        }
        Body::TaskCancelRequested(cancel) => {
            let text = fill(texts.cancel_requested, &[cancel_reason(cancel.reason())]);
            of_task(cancel.wave, cancel.task, text, Tone::Warning, Steps)
        }
        Body::TaskExtended(extended) => {
            let mut text = fill(texts.extended, &[&took(after_start(run, event, extended))]);
            if extended.cancel_withdrawn {
                text.push_str(texts.cancel_withdrawn);
            }
            of_task(extended.wave, extended.task, text, Tone::Plain, Results)
        }
        Body::TaskSettled(settled) => {
            let (text, tone) = outcome(settled, detail);
            of_task(settled.wave, settled.task, text, tone, Results)
        }
        Body::TaskReactivated(again) => {
            let text = fill(texts.reactivated, &[&again.activation.to_string()]);
            of_task(again.wave, again.task, text, Tone::Plain, Results)
        }
        Body::TaskRolledBack(back) => {
            let is_first = |taken: &&v1::TaskTakenBack| (taken.wave, taken.task) == (back.wave, back.task);
            let first = back.taken_back.iter().find(is_first);
            let activation = first.map_or(0, |taken| taken.activation).to_string();
            let others = back.taken_back.iter().filter(|taken| !is_first(taken));
            let others = others.filter_map(|taken| run.task(taken.wave, taken.task));
            let others: Vec<&str> = others.map(|task| task.name.as_str()).collect();
            let text = match others.as_slice() {
                [] => fill(texts.rolled_back, &[&activation]),
                others => {
                    let named = others.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
                    let named = match others.len().saturating_sub(MOST_NAMED) {
                        0 => named,
                        more => format!("{named}, … (+{more})"),
                    };
                    fill(texts.rolled_back_with, &[&activation, &named])
                }
            };
            of_task(back.wave, back.task, text, Tone::Plain, Results)
        }
        Body::PartialOutputKept(kept) => {
            of_task(kept.wave, kept.task, texts.partial_kept.to_owned(), Tone::Plain, Results)
        }
        Body::ResultRefused(v1::ResultRefused { error: Some(error), worker, wave, task, .. }) => {
            let text = fill(texts.completion_refused, &[worker, &message(&error.message)]);
            of_task(*wave, *task, text, Tone::Warning, Results)
        }
        Body::ResultRefused(refused) => {
            let text = fill(texts.result_refused, &[&refused.worker]);
            of_task(refused.wave, refused.task, text, Tone::Warning, Steps)
        }
        Body::WaveDecided(decided) => {
            let text = fill(texts.wave_decided, &[&reason(decided.evaluation.as_ref())]);
            of_run(text, Tone::Plain, Results)
        }
        Body::WaveFinished(finished) => {
            let continues = finished.evaluation.as_ref().is_some_and(|evaluation| evaluation.should_continue);
            let text = fill(
                texts.wave_finished,
                &[&(finished.wave + 1).to_string(), &reason(finished.evaluation.as_ref())],
            );
            of_run(text, if continues { Tone::Good } else { Tone::Bad }, Results)
        }
        Body::QuestionAsked(asked) => open_question(asked.question.as_ref()?),
        Body::QuestionRevised(revised) => open_question(revised.question.as_ref()?),
        // What was asked needs no answer any more.
        Body::QuestionAnswered(answered) if is_withdrawn(answered) => {
            of_run(fill(texts.question_withdrawn, &[&answered.question_id]), Tone::Plain, Results)
        }
        Body::QuestionAnswered(answered) => {
            of_run(fill(texts.answered, &[&answered.question_id, &answered.answer]), Tone::Plain, Results)
        }
        Body::RunForked(forked) => {
            let text = fill(texts.forked, &[&forked.run_id, &forked.seq.to_string()]);
            of_run(text, Tone::Strong, Results)
        }
        Body::RunPaused(_) => of_run(texts.paused.to_owned(), Tone::Warning, Results),
        Body::RunResumed(_) => of_run(texts.resumed.to_owned(), Tone::Plain, Results),
        Body::RunCancelRequested(cancel) => of_run(run_cancelled(cancel), Tone::Bad, Results),
        Body::RunFinished(finished) => {
            let text = fill(texts.finished, &[outcome_name(finished.outcome())]);
            of_run(text, outcome_tone(finished.outcome()), Results)
        }
        Body::Notice(notice) => {
            let error = notice.notice.as_ref()?;
            let tone = match severity(error) {
                v1::Severity::Low => Tone::Faint,
                v1::Severity::Medium => Tone::Warning,
                _ => Tone::Bad,
            };
            // Of these a person hears as long as something can be done about them.
            let is_urgent =
                [v1::NoticeKind::AgentAbsent, v1::NoticeKind::TimeoutImminent].contains(&notice.kind());
            let needed = if is_urgent || is_told_at_once(error) { Results } else { Steps };
            match (notice.wave, notice.task) {
                (Some(wave), Some(task)) => of_task(wave, task, one_line(error), tone, needed),
                _ => of_run(one_line(error), tone, needed),
            }
        }
    })
}

/// The name of a task, or its place where the run has no such one.
pub(super) fn name_of(run: &Run, wave: u32, task: u32) -> String {
    run.task(wave, task).map_or_else(
        || fill(words().watch.unknown_task, &[&(wave + 1).to_string(), &(task + 1).to_string()]),
        |task| task.name.clone(),
    )
}

fn wave_started(run: &Run, index: u32) -> String {
    let texts = &words().watch;
    let (name, tasks, policy) = run
        .waves
        .get(index as usize)
        .map_or(("", 0, ""), |wave| (wave.name.as_str(), wave.tasks.len(), policy_name(wave.policy.kind())));
    let tasks = counted(tasks as u64, texts.tasks_one, texts.tasks_many);
    fill(texts.wave_started, &[&(index + 1).to_string(), &run.waves.len().to_string(), name, &tasks, policy])
}

fn outcome(settled: &v1::TaskSettled, detail: Detail) -> (String, Tone) {
    let texts = &words().watch;
    let after = took(settled.duration_ms);
    match settled.status() {
        v1::ResultStatus::Success if settled.taken_over => (texts.taken_over.to_owned(), Tone::Good),
        v1::ResultStatus::Success if settled.attempts > 1 => {
            (fill(texts.succeeded_after, &[&after, &settled.attempts.to_string()]), Tone::Good)
        }
        v1::ResultStatus::Success => (fill(texts.succeeded, &[&after]), Tone::Good),
        v1::ResultStatus::Timeout => (fill(texts.timed_out, &[&after]), Tone::Bad),
        v1::ResultStatus::Cancelled if settled.attempts == 0 => (texts.never_started.to_owned(), Tone::Faint),
        v1::ResultStatus::Cancelled => (fill(texts.cancelled, &[&after]), Tone::Warning),
        v1::ResultStatus::Error | v1::ResultStatus::Unspecified => {
            if let Some(error) = settled.error.as_ref().filter(|error| !is_told_at_once(error))
                && detail == Detail::Results
            {
                let code = &retry::original(error).code;
                return (fill(texts.failed_listed, &[&after, code]), Tone::Warning);
            }
            let error = settled.error.as_ref().map(with_cause).unwrap_or_default();
            (fill(texts.failed, &[&after, &error]), Tone::Bad)
        }
    }
}

/// What the state of a session's work says from now on.
fn session_state(written: &v1::SessionStateWritten) -> String {
    use v1::SessionStateCause as Cause;
    let texts = &words().watch;
    let fields: serde_json::Value = serde_json::from_str(&written.fields).unwrap_or_default();
    let phase = |phase: &str| fill(texts.session_state, &[phase]);
    match written.cause() {
        Cause::Imported => texts.session_imported.to_owned(),
        Cause::Waiting => match fields["blocked_on"].as_str() {
            Some(reason) => fill(texts.session_waits, &[&visible(reason)]),
            None => texts.session_goes_on.to_owned(),
        },
        Cause::RunEnded => phase("done"),
        Cause::RunBegun | Cause::WaveBegun | Cause::Verifying | Cause::Unspecified => {
            phase(fields["current_flow"]["phase"].as_str().unwrap_or_default())
        }
    }
}

fn run_cancelled(cancel: &v1::RunCancelRequested) -> String {
    let texts = &words().watch;
    match (&cancel.error, cancel.reason.as_str()) {
        (Some(error), _) => fill(texts.aborting, &[&one_line(error)]),
        (None, "") => texts.cancel_run_bare.to_owned(),
        (None, reason) => fill(texts.cancel_run, &[reason]),
    }
}

fn reason(evaluation: Option<&v1::Evaluation>) -> String {
    evaluation.map_or_else(String::new, |evaluation| match evaluation.reason.as_str() {
        "" => share(u64::from(evaluation.successes), u64::from(evaluation.total)),
        reason => message(reason).into_owned(),
    })
}

/// Whether nobody has to answer the question any more. Where a person has answered so, as with an option of a planner's, the
/// answer is to a revision.
pub(crate) fn is_withdrawn(answered: &v1::QuestionAnswered) -> bool {
    answered.answer == WITHDRAWN && answered.revision == 0
}

pub(crate) fn loss(reason: v1::LeaseLossReason) -> &'static str {
    let texts = &words().losses;
    match reason {
        v1::LeaseLossReason::NotAcknowledged => texts.not_acknowledged,
        v1::LeaseLossReason::Silent => texts.silent,
        v1::LeaseLossReason::Disconnected => texts.disconnected,
        v1::LeaseLossReason::Restarted => texts.restarted,
        v1::LeaseLossReason::Returned => texts.returned,
        v1::LeaseLossReason::ReturnedTooOften => texts.returned_too_often,
        // Such a loss has a text of its own.
        v1::LeaseLossReason::Forked | v1::LeaseLossReason::Unspecified => "",
    }
}

pub(crate) fn cancel_reason(reason: v1::CancelReason) -> &'static str {
    let texts = &words().cancels;
    match reason {
        v1::CancelReason::Unspecified => "",
        v1::CancelReason::Timeout => texts.timeout,
        v1::CancelReason::AttemptTimeout => texts.attempt_timeout,
        v1::CancelReason::RunCancelled => texts.run_cancelled,
        v1::CancelReason::Policy => texts.policy,
        v1::CancelReason::Aborted => texts.aborted,
        v1::CancelReason::RolledBack => texts.rolled_back,
    }
}

/// Where a new deadline lies, in milliseconds from the run's start.
fn after_start(run: &Run, event: &v1::Event, extended: &v1::TaskExtended) -> i64 {
    if event.format < 3 {
        return extended.deadline_ms.saturating_sub(run.accepted_at_ms);
    }
    event.elapsed_ms.saturating_add(extended.deadline_in_ms).saturating_sub(run.began_at_ms)
}

fn error_of(event: &v1::Event) -> Option<&v1::Error> {
    match event.body.as_ref()? {
        Body::TaskAttemptFailed(failed) => failed.error.as_ref(),
        Body::TaskSettled(settled) => settled.error.as_ref(),
        Body::RunFinished(finished) => finished.error.as_ref(),
        Body::Notice(notice) => notice.notice.as_ref(),
        _ => None,
    }
}

/// The end of the agent's log.
fn log_of(event: &v1::Event) -> &str {
    match &event.body {
        Some(Body::TaskAttemptFailed(failed)) => &failed.log,
        Some(Body::TaskSettled(settled)) => &settled.log,
        _ => "",
    }
}

/// The fields of an error beyond its code and the first line of its message: the rest of the message, its cause,
/// reasons, details.
fn extras(error: &v1::Error) -> Vec<String> {
    let mut lines: Vec<String> = error.message.lines().skip(1).map(visible).collect();
    lines.extend(error.reason.iter().flat_map(|reason| reason.lines()).map(visible));
    if let Some(cause) = &error.cause {
        lines.extend(cause.message.lines().skip(1).map(visible));
        lines.extend(cause.reason.iter().flat_map(|reason| reason.lines()).map(visible));
    }
    lines.extend(error.details.iter().map(|detail| visible(&one_line(detail))));
    lines.extend(error.suggested_action.iter().map(|action| format!("-> {}", visible(action))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use capataz_display::model::tests::{accepted, attempt_failed, events, leased, settled};

    fn log(bodies: impl IntoIterator<Item = Body>, detail: Detail) -> String {
        let mut run = Run::default();
        let mut lines = Vec::new();
        for event in events(bodies) {
            run.apply(&event);
            lines.extend(render(&run, "0199", &event, detail, Paint::OFF));
        }
        lines.join("\n")
    }

    fn story() -> Vec<Body> {
        vec![
            accepted(&["fetch", "lint"]),
            Body::WaveStarted(v1::WaveStarted::default()),
            leased(0, 1),
            leased(1, 1),
            attempt_failed(0, 1, 1_000),
            Body::TaskRetryDue(v1::TaskRetryDue::default()),
            leased(0, 2),
            settled(0, v1::ResultStatus::Success, 2),
            settled(1, v1::ResultStatus::Timeout, 1),
            Body::WaveFinished(v1::WaveFinished {
                wave: 0,
                evaluation: Some(v1::Evaluation {
                    should_continue: true,
                    successes: 1,
                    total: 2,
                    ..v1::Evaluation::default()
                }),
            }),
            Body::RunFinished(v1::RunFinished {
                outcome: v1::RunOutcome::SucceededWithFailures as i32,
                ..v1::RunFinished::default()
            }),
        ]
    }

    #[test]
    fn an_option_that_is_called_as_a_withdrawal_is_an_answer() {
        let answered = |revision: u32| {
            Body::QuestionAnswered(v1::QuestionAnswered {
                question_id: "q1".to_owned(),
                answer: "withdrawn".to_owned(),
                revision,
                ..v1::QuestionAnswered::default()
            })
        };
        assert!(log([answered(0)], Detail::Steps).contains("question q1 needs no answer any more"));
        let told = log([answered(1)], Detail::Steps);
        assert!(told.contains("withdrawn") && !told.contains("needs no answer"), "{told}");
    }

    #[test]
    fn each_event_is_a_line() {
        let expected = "\
+  0.000s  -      run accepted: nightly, 1 wave, 2 tasks
+  1.000s  -      wave 1 of 1 (checks): 2 tasks under quorum
+  2.000s  fetch  attempt 1 began (process)
+  3.000s  lint   attempt 1 began (process)
+  4.000s  fetch  attempt 1 failed: SERVICE_UNAVAILABLE: exit code 75: busy; again in 1s
+  6.000s  fetch  attempt 2 began (process)
+  7.000s  fetch  succeeded in 1.5s, attempt 2
+  8.000s  lint   timed out after 1.5s
+  9.000s  -      wave 1 finished: 1/2 (50%)
+ 10.000s  -      run finished: succeeded_with_failures";
        assert_eq!(log(story(), Detail::Steps), expected);
    }

    #[test]
    fn who_sees_the_running_tasks_needs_only_results() {
        let shown = log(story(), Detail::Results);
        assert!(!shown.contains("began"), "{shown}");
        assert!(shown.contains("succeeded in 1.5s, attempt 2"), "{shown}");
    }

    /// The seed's table: MEDIUM and LOW are not notified immediately.
    // S000-C6-21
    #[test]
    fn what_is_milder_than_high_is_a_step_and_not_told_beside_the_running_tasks() {
        let failed = |task, code: &str| {
            Body::TaskSettled(Box::new(v1::TaskSettled {
                task,
                status: v1::ResultStatus::Error as i32,
                error: Some(v1::Error {
                    code: code.to_owned(),
                    message: "found".to_owned(),
                    ..Default::default()
                }),
                ..v1::TaskSettled::default()
            }))
        };
        let notice = |kind: v1::NoticeKind, code: &str| {
            let notice = Some(v1::Error { code: code.to_owned(), ..v1::Error::default() });
            Body::Notice(v1::Notice { kind: kind.into(), notice, ..v1::Notice::default() })
        };
        let Body::TaskAttemptFailed(mut attempt) = attempt_failed(0, 1, 1_000) else { panic!("an attempt") };
        attempt.error = Some(v1::Error {
            code: "NETWORK_ERROR".to_owned(),
            severity: v1::Severity::Medium.into(),
            ..v1::Error::default()
        });
        let story = || {
            [
                accepted(&["a", "b"]),
                Body::TaskAttemptFailed(attempt.clone()),
                notice(v1::NoticeKind::TimeoutImminent, "TIMEOUT_IMMINENT"),
                notice(v1::NoticeKind::RetrySuccess, "RETRY_SUCCESS"),
                notice(v1::NoticeKind::Unspecified, "QUORUM_NOT_MET"),
                failed(0, "LINT_WARNINGS"),
                failed(1, "TESTS_FAILED"),
            ]
        };
        let expected = "\
+  0.000s  -  run accepted: nightly, 1 wave, 2 tasks
+  2.000s  -  TIMEOUT_IMMINENT
+  4.000s  -  QUORUM_NOT_MET
+  5.000s  a  failed after 0s (LINT_WARNINGS; listed at the end)
+  6.000s  b  failed after 0s: TESTS_FAILED: found";
        assert_eq!(log(story(), Detail::Results), expected);
        let steps = log(story(), Detail::Steps);
        for step in [
            "attempt 1 failed: NETWORK_ERROR; again in 1s",
            "RETRY_SUCCESS",
            "failed after 0s: LINT_WARNINGS: found",
        ] {
            assert!(steps.contains(step), "{step} in\n{steps}");
        }
    }

    #[test]
    fn what_a_task_says_of_its_progress_is_a_line_with_the_end_of_its_output_below() {
        let run = capataz_display::model::tests::fold([accepted(&["fetch", "lint"]), leased(0, 1)]);
        let frame = v1::ProgressFrame {
            task: 1,
            at_ms: run.accepted_at_ms + 2_500,
            fraction: Some(0.4),
            message: Some("reading".to_owned()),
            partial_tail: Some("one\n  \u{1b}two".to_owned()),
            ..v1::ProgressFrame::default()
        };
        let shown = |frame: &v1::ProgressFrame| progress(&run, frame, Paint::OFF);
        let tail = "                  | one\n                  |   \\u{1b}two";
        let expected = format!("+  2.500s  lint   at work: 40%, reading\n{tail}");
        assert_eq!(shown(&frame), Some(expected));
        let silent = v1::ProgressFrame { fraction: None, message: None, ..frame };
        assert_eq!(shown(&silent), Some(format!("+  2.500s  lint   at work\n{tail}")));
        assert_eq!(shown(&v1::ProgressFrame { partial_tail: None, ..silent }), None);
    }

    #[test]
    fn a_lease_after_a_lost_one_goes_on_with_the_attempt() {
        let lost = Body::TaskLeaseLost(v1::TaskLeaseLost {
            reason: v1::LeaseLossReason::Disconnected as i32,
            losses: 1,
            ..v1::TaskLeaseLost::default()
        });
        let shown = log([accepted(&["a"]), leased(0, 1), lost, leased(0, 1)], Detail::Steps);
        assert!(shown.contains("worker lost: disconnected (1st time)"), "{shown}");
        assert!(shown.contains("+  3.000s  a  attempt 1 goes on (process)"), "{shown}");
    }

    #[test]
    fn a_question_says_how_to_answer_it() {
        let asked = Body::QuestionAsked(Box::new(v1::QuestionAsked {
            question: Some(v1::Question {
                question_id: "q1".to_owned(),
                text: "Did it happen?".to_owned(),
                options: vec!["retry".to_owned(), "skip".to_owned()],
                ..v1::Question::default()
            }),
            ..v1::QuestionAsked::default()
        }));
        let shown = log([accepted(&["a"]), asked], Detail::Results);
        assert!(
            shown.ends_with(
                "question q1: Did it happen?; answer with `capataz runs resolve 0199 q1 retry`, or with skip"
            ),
            "{shown}"
        );
    }

    #[test]
    fn a_question_that_was_withdrawn_was_answered_by_nobody() {
        let answered = |answer: &str| {
            Body::QuestionAnswered(v1::QuestionAnswered {
                question_id: "q1".to_owned(),
                answer: answer.to_owned(),
                ..v1::QuestionAnswered::default()
            })
        };
        let shown = log([accepted(&["a"]), answered("skip"), answered("withdrawn")], Detail::Results);
        assert!(
            shown.ends_with("question q1 answered: skip\n+  2.000s  -  question q1 needs no answer any more"),
            "{shown}"
        );
    }

    #[test]
    fn a_log_shows_the_numbers_of_the_events_in_a_column() {
        let mut run = Run::default();
        let mut lines = Vec::new();
        for (mut event, seq) in
            events([accepted(&["a"]), leased(0, 1), leased(0, 1)]).into_iter().zip([1, 23, 12_345])
        {
            event.seq = seq;
            run.apply(&event);
            lines.extend(render(&run, "0199", &event, Detail::Everything, Paint::OFF));
        }
        let numbers: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once("+ ")?.0)).collect();
        assert_eq!(numbers, ["   1  ", "  23  ", "12345  "]);
    }

    #[test]
    fn a_log_shows_all_that_an_error_carries() {
        let failed = Body::TaskSettled(Box::new(v1::TaskSettled {
            status: v1::ResultStatus::Error as i32,
            error: Some(v1::Error {
                code: "RETRY_EXHAUSTED".to_owned(),
                message: "all attempts failed".to_owned(),
                reason: Some("this kind of failure".to_owned()),
                cause: Some(Box::new(v1::Error {
                    code: "ETIMEDOUT".to_owned(),
                    message: "\nsecond line".to_owned(),
                    ..v1::Error::default()
                })),
                ..v1::Error::default()
            }),
            log: "no space left\n".to_owned(),
            ..v1::TaskSettled::default()
        }));
        let expected = "\
   2  +  1.000s  a  failed after 0s: RETRY_EXHAUSTED: ETIMEDOUT:  second line
                    this kind of failure
                    second line
                    | no space left";
        let shown = log([accepted(&["a"]), failed], Detail::Everything);
        assert!(shown.ends_with(expected), "{shown}");
    }
}
