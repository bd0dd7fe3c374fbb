//! Errors and warnings by severity (seed 000, contract 6).

use std::borrow::Cow;

use capataz_contracts::v1;
use capataz_policy::severity::{Flags, Severity};
use capataz_policy::{codes, retry};

use crate::compact::{self, Form};
use crate::frame::{Frame, visible};
use crate::paint::{Paint, Tone};
use crate::words::messages::message;
use crate::words::{self, fill, words};
use crate::{log, special};

/// Facts that the display knows in addition to the error itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    pub task: Option<&'a str>,
    pub agent: Option<&'a str>,
    /// The task's state.
    pub phase: Option<&'a str>,
    pub max_attempts: Option<u32>,
    /// Time of the error, in Unix milliseconds.
    pub at_ms: Option<i64>,
    /// The run went on in spite of it.
    pub continues: bool,
    /// The id of the run that it is an error of.
    pub run: Option<&'a str>,
    /// That run goes on, so that it can be cancelled.
    pub goes_on: bool,
    /// The run has ended, and another one may go on with what is left of it.
    pub may_be_continued: bool,
    /// The open question about it.
    pub question: Option<&'a v1::Question>,
    /// The ways to recover from a session's error that can be gone from here, each with the mark in front of it; the
    /// usual ones where it is empty.
    pub recovery: &'a [(&'static str, String)],
    /// How a session has been recovered already, so that nobody has to.
    pub recovered: Option<&'a str>,
    /// The last lines that the task has logged.
    pub log: &'a [String],
    pub form: Form,
}

/// Tells the error in the form that is wanted; a box is drawn by the error's code, or by its severity if the code has no box of
/// its own. Below it is what its task has logged last.
pub fn error(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let shown = match context.form {
        Form::Boxes => drawn(error, context, paint),
        Form::Compact => compact::error(error, context, paint),
    };
    match (context.run, context.task, context.log) {
        (Some(run), Some(task), log @ [_, ..]) => format!("{shown}\n{}", log::block(run, task, log, paint)),
        _ => shown,
    }
}

fn drawn(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    if let Some(shown) = special::error(error, context, paint) {
        return shown;
    }
    match severity(error) {
        v1::Severity::Critical => critical(error, context, paint),
        v1::Severity::High | v1::Severity::Unspecified => high(error, context, paint),
        v1::Severity::Medium => warning(error, context, paint),
        v1::Severity::Low => info(error, paint),
    }
}

/// Returns whether a person is told of the error while the run goes on; what is milder is listed at the end (seed 000,
/// contract 6).
#[must_use]
pub fn is_told_at_once(error: &v1::Error) -> bool {
    flags(error).notify_immediately
}

/// The flags of the error's severity.
#[must_use]
pub fn flags(error: &v1::Error) -> Flags {
    Severity::from_proto(severity(error).into()).unwrap_or(Severity::UNKNOWN).flags()
}

/// The declared severity, else that of the code, else HIGH.
pub fn severity(error: &v1::Error) -> v1::Severity {
    match error.severity() {
        v1::Severity::Unspecified => {
            codes::lookup(&error.code).map_or(v1::Severity::High, |entry| entry.severity.to_proto())
        }
        declared => declared,
    }
}

/// The next step for a person, in one line.
pub fn advice(error: &v1::Error) -> Option<String> {
    match error.suggested_action.as_deref() {
        None | Some("") => words::advice::advice(&error.code).map(str::to_owned),
        Some(action) => Some(
            words::advice::translated(&error.code, action)
                .map_or_else(|| message(action).into_owned(), str::to_owned),
        ),
    }
}

/// A success: `[OK] …`.
pub fn ok(message: &str, paint: Paint) -> String {
    paint.text(Tone::Good, &fill(words().errors.ok, &[&visible(message)]))
}

pub(crate) fn info(error: &v1::Error, paint: Paint) -> String {
    paint.text(Tone::Faint, &fill(words().errors.info, &[&visible(&message_or_code(error))]))
}

fn critical(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let action = advice(error).unwrap_or_else(|| words().errors.resolve_first.to_owned());
    body(heading(error, paint), error, context)
        .blank()
        .text(words().errors.required_action)
        .item("-> ", &action)
        .finish()
}

fn high(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let frame = body(heading(error, paint), error, context);
    let frame = match advice(error) {
        Some(advice) => frame.blank().item("-> ", &advice),
        None => frame,
    };
    let ways = ways(error, context, generic_option);
    if ways.is_empty() {
        return frame.finish();
    }
    options(frame.blank(), &ways).finish()
}

fn warning(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    // The failure itself, not that there is no other attempt.
    let error = retry::original(error);
    let frame = Frame::light(paint)
        .toned(&fill(words().errors.warning, &[&error.code]), Tone::Warning)
        .under_title()
        .text(&subject(error, context));
    let frame = if context.continues { frame.text(words().errors.continuing) } else { frame };
    frame.finish()
}

/// The head of a box: `ERROR: CODE`, `Severity: …` and the line under them.
pub fn heading(error: &v1::Error, paint: Paint) -> Frame {
    titled(words().errors.error, error, Tone::Bad, paint)
}

pub fn titled(template: &str, error: &v1::Error, tone: Tone, paint: Paint) -> Frame {
    Frame::heavy(paint)
        .toned(&fill(template, &[&error.code]), tone)
        .text(&severity_line(severity(error)))
        .under_title()
}

pub fn severity_line(severity: v1::Severity) -> String {
    fill(words().errors.severity, &[severity_name(severity)])
}

pub(crate) fn severity_name(severity: v1::Severity) -> &'static str {
    match severity {
        v1::Severity::Critical => "CRITICAL",
        v1::Severity::High | v1::Severity::Unspecified => "HIGH",
        v1::Severity::Medium => "MEDIUM",
        v1::Severity::Low => "LOW",
    }
}

fn body(frame: Frame, error: &v1::Error, context: &Context<'_>) -> Frame {
    let texts = &words().errors;
    let mut frame = frame.blank().text(&subject(error, context));
    if let Some(cause) = &error.cause {
        frame = frame.blank().text(&fill(texts.original, &[&one_line(cause)]));
    }
    if let Some(reason) = error.reason.as_deref().filter(|reason| !reason.is_empty()) {
        frame = frame.text(&fill(texts.reason, &[&message(reason)]));
    }
    if !error.details.is_empty() {
        let details: Vec<String> = error.details.iter().map(one_line).collect();
        frame = details_of(frame.blank(), &details);
    }
    frame
}

/// The message with the task's name in front, unless the message names the task itself.
pub(crate) fn subject(error: &v1::Error, context: &Context<'_>) -> String {
    let message = message_or_code(error);
    match context.task {
        Some(task) if !message.contains(&format!("{task:?}")) => format!("{task}: {message}"),
        _ => message.into_owned(),
    }
}

fn message_or_code(error: &v1::Error) -> Cow<'_, str> {
    if error.message.is_empty() { Cow::Borrowed(&error.code) } else { message(&error.message) }
}

/// The error in one line: `CODE: message`.
pub fn one_line(error: &v1::Error) -> String {
    match (error.code.as_str(), error.message.as_str()) {
        ("", text) => message(text).into_owned(),
        (code, "") => code.to_owned(),
        (code, text) => format!("{code}: {}", message(text)),
    }
}

/// Like [`one_line`]. A wrapping error shows the message of its cause, because its own message only says that it wraps
/// one.
pub fn with_cause(error: &v1::Error) -> String {
    match &error.cause {
        Some(cause) => format!("{}: {}", error.code, one_line(cause)),
        None => one_line(error),
    }
}

/// How many details a box lists; the others are only counted.
pub(crate) const MOST_DETAILS: usize = 5;

/// How many details are only counted: those that are not listed, and those that the last one counts already.
pub(crate) fn not_listed(details: &[String]) -> usize {
    let beyond = details.len().saturating_sub(MOST_DETAILS);
    let counted = details.last().filter(|_| beyond > 0).and_then(|last| {
        let (_, rest) = last.strip_suffix("(truncated)")?.rsplit_once("… ")?;
        rest.split_whitespace().nth(1)?.parse::<usize>().ok()
    });
    beyond.saturating_add(counted.map_or(0, |counted| counted.saturating_sub(1)))
}

pub fn details_of(frame: Frame, details: &[String]) -> Frame {
    let texts = &words().errors;
    let listed = details.iter().take(MOST_DETAILS).map(String::as_str);
    let frame = frame.text(texts.details).items("- ", listed);
    match not_listed(details) {
        0 => frame,
        more => frame.text(&fill(texts.more_details, &[&more.to_string()])),
    }
}

/// What a person can do about an error: a mark, and what it does.
pub type Ways = Vec<(String, String)>;

/// The options that can be taken, and the command that takes them. What can only be done by another command is told as
/// that command, and what cannot be done is left out.
pub fn ways(error: &v1::Error, context: &Context<'_>, texts: fn(&str) -> Option<&'static str>) -> Ways {
    let mark = |option: &str| format!("[{}] ", option.chars().next().unwrap_or('?'));
    let mut ways = Ways::new();
    let answers = context.question.map_or(&[][..], |question| question.options.as_slice());
    if error.options.iter().any(|option| option == "debug")
        && let Some(run) = context.run
    {
        ways.push((mark("debug"), fill(words().options.debug, &[run])));
    }
    let is_tried_again = error.options.iter().any(|option| TRIES.contains(&option.as_str()));
    if let Some(run) =
        context.run.filter(|_| context.may_be_continued && is_tried_again && answers.is_empty())
    {
        ways.push((mark("continue"), fill(words().options.continue_with, &[run])));
    }
    for answer in answers {
        ways.push((mark(answer), texts(answer).unwrap_or(answer).to_owned()));
    }
    match (context.run, context.question) {
        (Some(run), Some(question)) if !answers.is_empty() => {
            let (first, others) = to_copy(answers);
            let command = format!("capataz runs resolve {run} {} {first}", question.question_id);
            ways.push(("-> ".to_owned(), format!("`{command}`{others}")));
        }
        (Some(run), _) if context.goes_on && error.options.iter().any(|option| option == "abort") => {
            ways.push((mark("abort"), fill(words().options.abort_with, &[run])));
        }
        _ => {}
    }
    ways
}

/// Answers that are all a new try: names of the seed for what people are told as one.
const TRIES: [&str; 3] = [RETRY, "retry_manual", "fix_manual"];
pub const RETRY: &str = "retry";

/// The name of an answer for people: whatever tries again is `retry`.
#[must_use]
pub fn name_of(answer: &str) -> &str {
    if TRIES.contains(&answer) { RETRY } else { answer }
}

/// The answer among these that somebody means who says so.
#[must_use]
pub fn meant<'o>(options: &'o [String], answer: &str) -> Option<&'o str> {
    let named = options.iter().find(|option| *option == answer);
    named.or_else(|| options.iter().find(|option| name_of(option) == answer)).map(String::as_str)
}

/// The first of these answers, for a command that can be copied, and a text that names the others.
#[must_use]
pub fn to_copy(options: &[String]) -> (String, String) {
    let mut names = options.iter().map(|option| visible(name_of(option)));
    let first = names.next().unwrap_or_default();
    let others: Vec<String> = names.collect();
    let text =
        if others.is_empty() { String::new() } else { fill(words().errors.or_with, &[&others.join(", ")]) };
    (first, text)
}

/// Adds the options under their title.
pub fn options(frame: Frame, ways: &Ways) -> Frame {
    let frame = frame.text(words().errors.options);
    ways.iter().fold(frame, |frame, (mark, way)| frame.item(mark, way))
}

pub(crate) fn generic_option(option: &str) -> Option<&'static str> {
    match option {
        "skip" => Some(words().options.skip_high),
        _ => common_option(option),
    }
}

/// The usual description of an option.
pub fn common_option(option: &str) -> Option<&'static str> {
    let texts = &words().options;
    Some(match option {
        "extend" => texts.extend,
        "terminate" => texts.terminate,
        "retry" => texts.retry,
        "retry_manual" => texts.retry_manual,
        "skip" => texts.skip,
        "fix_manual" => texts.fix_manual,
        "succeeded" => texts.succeeded,
        "failed" => texts.failed,
        "abort" => texts.abort,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: &str, message: &str) -> v1::Error {
        v1::Error { code: code.to_owned(), message: message.to_owned(), ..v1::Error::default() }
    }

    #[track_caller]
    fn check(shown: &v1::Error, expected: &str) {
        assert_eq!(error(shown, &Context::default(), Paint::OFF), expected);
    }

    // S000-C6-14
    #[test]
    fn a_critical_error_requires_an_action() {
        check(
            &failure("STATE_CORRUPTED", "The state file is corrupted"),
            "\
+======================================================+
|  ERROR: STATE_CORRUPTED                              |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  The state file is corrupted                         |
|                                                      |
|  REQUIRED ACTION:                                    |
|  -> Restore the state from its backup or start       |
|     again from a clean one.                          |
+======================================================+",
        );
    }

    // S000-C6-15
    #[test]
    fn a_high_error_offers_what_can_be_answered() {
        let shown = v1::Error {
            options: ["debug", "skip", "abort", "force"].map(str::to_owned).to_vec(),
            suggested_action: Some("Look at the failed tests".to_owned()),
            ..failure("TESTS_FAILED", "3 tests failed")
        };
        let question = v1::Question {
            question_id: "q1".to_owned(),
            options: ["skip", "abort"].map(str::to_owned).to_vec(),
            ..v1::Question::default()
        };
        let asked =
            Context { run: Some("0199"), goes_on: true, question: Some(&question), ..Context::default() };
        assert_eq!(
            error(&shown, &asked, Paint::OFF),
            "\
+======================================================+
|  ERROR: TESTS_FAILED                                 |
|  Severity: HIGH                                      |
+======================================================+
|                                                      |
|  3 tests failed                                      |
|                                                      |
|  -> Look at the failed tests                         |
|                                                      |
|  Options:                                            |
|  [d] Investigate with `capataz runs logs 0199`       |
|  [s] Skip (not recommended)                          |
|  [a] Abort                                           |
|  -> `capataz runs resolve 0199 q1 skip`, or with     |
|     abort                                            |
+======================================================+",
        );
        // Without a question, only what a command does is offered; a run that has ended cannot be aborted.
        let goes_on = error(&shown, &Context { question: None, ..asked }, Paint::OFF);
        assert!(
            goes_on.ends_with(
                "\
|  Options:                                            |
|  [d] Investigate with `capataz runs logs 0199`       |
|  [a] Abort the run: `capataz runs cancel 0199`       |
+======================================================+"
            ),
            "{goes_on}"
        );
        let ended = error(&shown, &Context { question: None, goes_on: false, ..asked }, Paint::OFF);
        assert!(ended.contains("runs logs 0199") && !ended.contains("cancel"), "{ended}");
        // What was to be tried again is done by another run.
        let options = ["debug", "retry_manual", "skip"].map(str::to_owned).to_vec();
        let exhausted = v1::Error { options, ..failure("TESTS_FAILED", "3 tests failed") };
        let of_task = Context { task: Some("lint"), question: None, ..asked };
        let go_on = "\
|  [d] Investigate with `capataz runs logs 0199`       |
|  [c] Go on with what is left: `capataz runs          |
|      continue 0199`                                  |
+======================================================+";
        let look = "\
|  [d] Investigate with `capataz runs logs 0199`       |
+======================================================+";
        for (may_be_continued, expected) in [(true, go_on), (false, look)] {
            let shown = error(&exhausted, &Context { may_be_continued, ..of_task }, Paint::OFF);
            assert!(shown.ends_with(expected), "{shown}");
        }
        let of_no_run = error(&shown, &Context::default(), Paint::OFF);
        assert!(!of_no_run.contains("Options"), "{of_no_run}");
    }

    // S000-C6-16
    #[test]
    fn a_medium_one_is_a_warning() {
        let warning = failure("LINT_WARNINGS", "5 lint warnings found");
        let went_on = Context { continues: true, ..Context::default() };
        assert_eq!(
            error(&warning, &went_on, Paint::OFF),
            "\
+------------------------------------------------------+
|  WARNING: LINT_WARNINGS                              |
+------------------------------------------------------+
|  5 lint warnings found                               |
|  Continuing automatically...                         |
+------------------------------------------------------+",
        );
        // Nothing goes on after a call that was refused.
        assert!(!error(&warning, &Context::default(), Paint::OFF).contains("Continuing"));
    }

    // S000-C6-17
    #[test]
    fn a_low_one_is_a_line() {
        check(
            &failure("RETRY_SUCCESS", "Retry succeeded after 1 failed attempt"),
            "[INFO] Retry succeeded after 1 failed attempt",
        );
        assert_eq!(ok("The state is valid", Paint::OFF), "[OK] The state is valid");
    }

    #[test]
    fn the_original_error_and_five_details_are_shown() {
        let shown = v1::Error {
            cause: Some(Box::new(failure("NOT_HERE", "no such file"))),
            reason: Some("the code is not retryable".to_owned()),
            details: (1..=7).map(|number| failure("DETAIL", &number.to_string())).collect(),
            ..failure("NON_RETRYABLE_ERROR", "attempt 1 failed")
        };
        let shown = error(&shown, &Context { task: Some("lint"), ..Context::default() }, Paint::OFF);
        for expected in [
            "lint: attempt 1 failed ",
            "Original error: NOT_HERE: no such file ",
            "Reason: the code is not retryable ",
            "- DETAIL: 5 ",
            "... and 2 more errors ",
        ] {
            assert!(shown.contains(expected), "{expected} in\n{shown}");
        }
        assert!(!shown.contains("DETAIL: 6"), "{shown}");
    }
}
