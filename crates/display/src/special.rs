//! Boxes for individual codes.

use capataz_contracts::v1;
use capataz_policy::codes::{self, Code};

use crate::error::{
    Context, Ways, advice, common_option, details_of, heading, one_line, options, titled, ways,
};
use crate::frame::Frame;
use crate::paint::{Paint, Tone};
use crate::words::messages::message;
use crate::words::{fill, words};
use crate::{format, payload};

/// The box for the error's code; `None` if the severity decides the form.
pub fn error(error: &v1::Error, context: &Context<'_>, paint: Paint) -> Option<String> {
    Some(match Code::named(&error.code)? {
        codes::AGENT_NOT_FOUND | codes::COMMAND_NOT_FOUND | codes::RESOURCE_NOT_FOUND
            if error.details.is_empty() =>
        {
            not_found(error, paint)
        }
        codes::INVALID_STATE_TRANSITION => invalid_transition(error, context, paint),
        codes::TASK_TIMEOUT => task_timeout(error, context, paint),
        codes::RETRY_EXHAUSTED => retry_exhausted(error, context, paint),
        codes::SESSION_CORRUPTED
        | codes::SESSION_VALIDATION_FAILED
        | codes::SESSION_INVALID
        | codes::REPAIR_FAILED => session(error, context, paint),
        _ => return None,
    })
}

/// What was not found.
pub(crate) fn missing(error: &v1::Error) -> String {
    match quoted(&error.message) {
        Some(name) if error.code == codes::AGENT_NOT_FOUND => fill(words().errors.agent_missing, &[name]),
        _ => message(&error.message).into_owned(),
    }
}

fn not_found(error: &v1::Error, paint: Paint) -> String {
    let texts = &words().errors;
    let agent = error.code == codes::AGENT_NOT_FOUND;
    let text = missing(error);
    let frame = heading(error, paint).blank().text(&text).blank();
    let frame = if error.suggestions.is_empty() {
        frame.text(if agent { texts.no_similar_agents } else { texts.no_similar_names })
    } else {
        frame
            .text(if agent { texts.similar_agents } else { texts.similar_names })
            .items("- ", error.suggestions.iter().map(String::as_str))
    };
    let action = if agent { texts.correct_agent } else { texts.correct_name };
    frame.blank().rule().text(texts.required_action).item("-> ", action).finish()
}

/// The text between the outermost double quotes.
fn quoted(message: &str) -> Option<&str> {
    let (_, after) = message.split_once('"')?;
    after.rsplit_once('"').map(|(inside, _)| inside)
}

const ARROW: &str = " -> ";

/// A step that was refused.
pub(crate) struct Refused<'e> {
    /// The step, with the states that it leaves out.
    pub told: String,
    /// The steps that are right; empty where the lifecycle allows the step and another rule does not.
    pub steps: &'e str,
    /// The other valid steps from the same state.
    pub or: Option<String>,
    pub ways: Ways,
}

pub(crate) fn refused<'e>(error: &'e v1::Error, context: &Context<'_>) -> Refused<'e> {
    let texts = &words().errors;
    // Where the lifecycle allows the step and another rule does not, the message says why.
    let is_step = |text: &str| text.contains(ARROW);
    let wanted = error.message.rsplit_once(": ").map(|(_, wanted)| wanted).filter(|wanted| is_step(wanted));
    let wanted = wanted.map_or_else(|| message(&error.message), Into::into);
    // Of a refusal without steps, its code's advice is told in their place.
    let steps = error.suggested_action.as_deref().filter(|steps| is_step(steps)).unwrap_or_default();
    let mut refused = wanted.into_owned();
    let states: Vec<&str> = steps.split(ARROW).collect();
    if let [_, skipped @ .., _] = states.as_slice()
        && !skipped.is_empty()
    {
        refused = format!("{refused} {}", fill(texts.skipping, &[&skipped.join(", ")]));
    }
    let ways = correcting(&states, error, context).into_iter().chain(cascading(error, context)).chain(ways(
        error,
        context,
        common_option,
    ));
    // A task that may complete may also fail, which is the other valid step from the same state.
    let or = steps.strip_suffix("COMPLETE").map(|before| format!("{before}FAILED"));
    Refused { told: refused, steps, or, ways: ways.collect() }
}

fn invalid_transition(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let texts = &words().errors;
    let Refused { told, steps, or, ways } = refused(error, context);
    let mut frame = heading(error, paint).blank().text(texts.invalid_transition).item("  ", &told).blank();
    if steps.is_empty() {
        if let Some(reason) = &error.reason {
            frame = frame.text(&message(reason)).blank();
        }
    } else {
        frame = frame.text(texts.correct_steps).item("  ", steps);
        if let Some(or) = or {
            frame = frame.item("  ", &or);
        }
        frame = frame.blank();
    }
    match ways {
        ways if ways.is_empty() => frame.finish(),
        ways => options(frame.rule(), &ways).finish(),
    }
}

/// The command that takes these steps, where there is one: a task that is done, or at work, is taken back and begins anew.
fn correcting(steps: &[&str], error: &v1::Error, context: &Context<'_>) -> Option<(String, String)> {
    let is_offered = error.options.iter().any(|option| option == "correct");
    let begins_anew =
        matches!(steps, ["ACTIVE" | "COMPLETE", "ROLLED_BACK", .., "INIT" | "ACTIVE"]) && is_offered;
    let (run, task) = context.run.zip(context.task).filter(|_| begins_anew && context.goes_on)?;
    Some(("[c] ".to_owned(), fill(words().options.correct, &[run, task])))
}

/// The command that takes back what was built on a task as well, where it was refused without that.
fn cascading(error: &v1::Error, context: &Context<'_>) -> Option<(String, String)> {
    let is_offered = context.goes_on && error.options.iter().any(|option| option == "cascade");
    let (run, task) = context.run.zip(context.task).filter(|_| is_offered)?;
    Some(("[c] ".to_owned(), fill(words().options.cascade, &[run, task])))
}

/// A task whose time is over.
pub(crate) struct TimedOut {
    pub told: String,
    /// How much time it had and has used, and when its worker was heard last; empty where nobody knows.
    pub times: Vec<String>,
    pub state: Vec<String>,
}

pub(crate) fn timed_out(error: &v1::Error, context: &Context<'_>) -> TimedOut {
    let texts = &words().errors;
    let task = context.task.or_else(|| quoted(&error.message));
    let told = task.map_or_else(|| error.message.clone(), |task| fill(texts.task_timed_out, &[task]));
    let (mut times, mut partial) = (Vec::new(), None);
    if let Some(timeout) = &error.timeout {
        let checked = match (timeout.last_health_check_ms, context.at_ms) {
            // Of more than a second, its parts do not matter.
            (Some(last), Some(at)) => {
                let ago = at.saturating_sub(last);
                let ago = if ago < 1_000 { ago } else { ago / 1_000 * 1_000 };
                fill(texts.last_health_check, &[&format::in_words(ago)])
            }
            (Some(last), None) => format::utc(last),
            (None, _) => texts.no_health_check.to_owned(),
        };
        times = vec![
            fill(texts.configured, &[&format::in_words(timeout.configured_timeout_ms)]),
            fill(texts.elapsed, &[&format::clock(timeout.elapsed_ms)]),
            checked,
        ];
        partial = timeout.partial_output.as_ref().map(partial_output);
    }
    let state = [
        context.agent.map(|agent| fill(texts.state_agent, &[agent])),
        context.phase.map(|phase| fill(texts.state_phase, &[phase])),
        partial,
    ];
    TimedOut { told, times, state: state.into_iter().flatten().collect() }
}

fn task_timeout(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let texts = &words().errors;
    let TimedOut { told, times, state } = timed_out(error, context);
    let mut frame = titled(texts.warning, error, Tone::Warning, paint).blank().text(&told);
    if !times.is_empty() {
        frame = frame.blank();
    }
    frame = times.iter().fold(frame, |frame, time| frame.text(time)).blank();
    if !state.is_empty() {
        frame = frame.rule().text(texts.current_state).items("- ", state.iter().map(String::as_str)).blank();
    }
    let ways = ways(error, context, timeout_option);
    match context.question {
        Some(_) if !ways.is_empty() => options(frame.rule(), &ways).finish(),
        _ if ways.is_empty() => frame.rule().item("-> ", texts.raise_timeout).finish(),
        _ => options(frame.rule().item("-> ", texts.raise_timeout).blank(), &ways).finish(),
    }
}

/// How much there is of the output: a text in tokens, as it would be if they were of the usual length.
fn partial_output(output: &v1::Payload) -> String {
    let texts = &words().errors;
    let bytes = format::thousands(payload::size(output));
    match payload::about_tokens(output) {
        Some(tokens) => fill(texts.state_tokens, &[&format::thousands(tokens), &bytes]),
        None => fill(texts.state_output, &[&bytes]),
    }
}

pub(crate) fn timeout_option(option: &str) -> Option<&'static str> {
    match option {
        "abort" => Some(words().options.abort_all),
        _ => common_option(option),
    }
}

/// How many attempts were made, and how long they took: two texts, or the message where nobody knows.
pub(crate) fn exhausted(error: &v1::Error, context: &Context<'_>) -> Vec<String> {
    let texts = &words().errors;
    let made = error.attempts.len();
    if made == 0 {
        return vec![message(&error.message).into_owned()];
    }
    let most = context.max_attempts.map_or(made, |most| most as usize);
    let total: i64 =
        error.attempts.iter().map(|attempt| attempt.duration_ms.saturating_add(attempt.waited_ms)).sum();
    vec![fill(texts.attempts, &[&format!("{made}/{most}")]), fill(texts.total_time, &[&format::took(total)])]
}

fn retry_exhausted(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let texts = &words().errors;
    let mut frame = heading(error, paint).blank();
    if let Some(task) = context.task {
        frame = frame.toned(task, Tone::Strong);
    }
    frame = exhausted(error, context).iter().fold(frame, |frame, told| frame.text(told));
    if let Some(cause) = &error.cause {
        frame = frame.blank().text(texts.last_error);
        for line in one_line(cause).lines() {
            frame = frame.item("> ", line);
        }
    }
    frame = frame.blank().rule();
    if let Some(advice) = advice(error) {
        frame = frame.text(texts.problem).item("-> ", &advice);
    }
    let ways = ways(error, context, common_option);
    if !ways.is_empty() {
        frame = options(frame.blank(), &ways);
    }
    frame.finish()
}

fn session(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let texts = &words().errors;
    let mut frame = heading(error, paint).blank().text(&message(&error.message)).blank();
    if let Some(cause) = &error.cause {
        frame = frame.text(&fill(texts.original, &[&one_line(cause)])).blank();
    }
    if !error.details.is_empty() {
        let details: Vec<String> =
            error.details.iter().map(|detail| message(&detail.message).into_owned()).collect();
        frame = details_of(frame, &details).blank();
    }
    if let Some(recovered) = context.recovered {
        return frame.text(recovered).finish();
    }
    frame = frame.rule().text(texts.recovery);
    recovery(context).iter().fold(frame, |frame, (mark, way)| frame.item(mark, way)).finish()
}

/// The ways to recover a session.
pub(crate) fn recovery(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let options = &words().options;
    if !context.recovery.is_empty() {
        return context.recovery.to_vec();
    }
    vec![
        ("[b] ", fill(options.restore, &[""])),
        ("[r] ", fill(options.reinitialise, &[""])),
        ("[m] ", options.edit.to_owned()),
    ]
}

/// The box MULTIPLE CRITICAL ERRORS. Each error is given as `CODE: subject`; `recovery` is the command that goes on with
/// what the run has left.
pub fn multiple_critical(errors: &[String], recovery: &str, paint: Paint) -> String {
    let texts = &words().errors;
    let mut frame = Frame::heavy(paint)
        .toned(texts.multiple, Tone::Bad)
        .text(&super::error::severity_line(v1::Severity::Critical))
        .under_title()
        .blank()
        .text(texts.found);
    for (index, error) in errors.iter().enumerate() {
        frame = frame.item(&format!("{}. ", index + 1), error);
    }
    frame
        .blank()
        .text(texts.aborted)
        .blank()
        .rule()
        .text(texts.saved)
        .item("-> ", &fill(texts.go_on, &[recovery]))
        .finish()
}

#[cfg(test)]
mod tests;
