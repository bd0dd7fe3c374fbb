//! Reasons why a command did not do what it was asked, and their display.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use capataz_client::{ClientError, FieldViolation};
use capataz_contracts::{Violation, v1};
use capataz_daemon::{ConfigError, DaemonError, SpecsError};
use capataz_policy::codes;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::near::Near;
use crate::output::Output;
use crate::problem::Problem;
use capataz_display::compact::Form;
use capataz_display::error::{self, Context};
use capataz_display::frame::visible;
use capataz_display::paint::{Paint, Tone};
use capataz_display::refusal::{self, in_words};
use capataz_display::words::advice::advice;
use capataz_display::words::messages;
use capataz_display::words::{counted, fill, words};

#[derive(Debug)]
pub enum Failure {
    /// A problem of this machine or of the command line.
    Local { exit: Exit, message: String, hint: Option<String> },
    /// A name that nothing has, with what may be meant; told as a daemon tells of one that it does not know.
    Unknown { code: &'static str, message: String, hint: String, near: Vec<Near> },
    /// These files keep the command from doing anything.
    Files { message: String, files: Vec<String>, hint: String },
    /// Files that this program reads have all of these problems, each with its place.
    Problems { subject: String, problems: Vec<Problem> },
    /// A document breaks rules.
    Violations { subject: String, violations: Vec<Violation> },
    /// A script breaks rules.
    Script { file: String, violations: Vec<v1::ScriptViolation> },
    /// An error of a session's state that this program has found itself, and the ways to recover from it.
    State { error: Box<v1::Error>, recovery: Vec<(&'static str, String)> },
    /// The daemon's answer, or that the daemon gave none.
    Answer {
        error: ClientError,
        addr: String,
        about: Box<About>,
        /// Names that may be meant where it does not know one.
        near: Vec<Near>,
    },
}

/// What a call was about.
#[derive(Debug, Default)]
pub struct About {
    pub run: Option<String>,
    pub task: Option<String>,
    pub session: Option<String>,
}

impl Failure {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Local { exit: Exit::Invalid, message: message.into(), hint: None }
    }

    /// The daemon's configuration cannot be used.
    pub fn of_config(error: ConfigError) -> Self {
        match error {
            ConfigError::Invalid(problems) => {
                let problems = problems.into_iter().map(Problem::from).collect();
                Self::Problems { subject: words().errors.configuration.to_owned(), problems }
            }
            other => Self::invalid(messages::refusal(&chain(&other))),
        }
    }

    /// The spec files of a folder cannot be used.
    pub fn of_specs(folder: &Path, error: &SpecsError) -> Self {
        match error {
            SpecsError::Invalid(errors) => Self::Problems {
                subject: folder.display().to_string(),
                problems: errors.iter().map(Problem::from).collect(),
            },
            other => Self::invalid(chain(other)),
        }
    }

    /// A daemon of this process does not start; `specs` is the folder of its spec files.
    pub fn of_start(error: &DaemonError, specs: Option<&Path>) -> Self {
        match (error, specs) {
            (DaemonError::Specs(error), Some(folder)) => Self::of_specs(folder, error),
            _ => Self::failed(chain(error)),
        }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::Local { exit: Exit::Failed, message: message.into(), hint: None }
    }

    /// The answer of the daemon at this address, or that it gave none.
    pub fn answer(error: ClientError, addr: &str) -> Self {
        Self::Answer { error, addr: addr.to_owned(), about: Box::default(), near: Vec::new() }
    }

    /// The same failure of a call that was about this run.
    pub fn about(mut self, run_id: &str) -> Self {
        if let Self::Answer { about, .. } = &mut self {
            about.run = Some(run_id.to_owned());
        }
        self
    }

    /// The same failure of a call that was about this session.
    pub fn about_session(mut self, name: &str) -> Self {
        if let Self::Answer { about, .. } = &mut self {
            about.session = Some(name.to_owned());
        }
        self
    }

    /// The same failure of a call that was about this task of it.
    pub fn about_task(mut self, name: &str) -> Self {
        if let Self::Answer { about, .. } = &mut self {
            about.task = Some(name.to_owned());
        }
        self
    }

    /// The code of the daemon's answer.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Answer { error, .. } => error.code(),
            Self::Unknown { code, .. } => Some(code),
            _ => None,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Local { exit, .. } => *exit,
            Self::Files { .. } | Self::Unknown { .. } => Exit::Failed,
            Self::Problems { .. } | Self::Violations { .. } | Self::Script { .. } | Self::State { .. } => {
                Exit::Invalid
            }
            Self::Answer { error, .. } => exit_of(error),
        }
    }

    /// Whether the same may go well in a while, as the daemon sees it.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Answer { error, .. } if error.is_retryable())
    }

    /// How long the daemon wants to be left alone, where it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { error, .. } => error.retry_after(),
            _ => None,
        }
    }

    /// Prints the failure: with `--json` on stdout, so that answers are read from one place; else on stderr, as where stdout
    /// cannot be written.
    pub fn tell(&self, out: &mut Output) {
        if out.json {
            out.record(&self.to_json());
        }
        if !out.json || out.error().is_some() {
            out.note(&self.to_text(out.form, out.error_paint()));
        }
    }

    /// The failure as JSON, with its exit code.
    pub fn to_json(&self) -> Value {
        let mut answer = match self {
            // The same kind of document as for a valid script, so that readers parse one form.
            Self::Script { file, violations } => return invalid_script(file, violations),
            Self::Local { message, hint: None, .. } => json!({ "message": message }),
            Self::Local { message, hint: Some(hint), .. } => json!({ "message": message, "hint": hint }),
            Self::Unknown { code, message, hint, near } => {
                let told = unknown(code, message, hint, near);
                let mut answer = capataz_contracts::json::print("capataz.v1.Error", &told);
                insert_near(&mut answer, near);
                answer
            }
            Self::Files { message, files, hint } => {
                json!({ "message": message, "files": files, "hint": hint })
            }
            Self::Problems { subject, problems } => json!({
                "code": "VALIDATION_ERROR",
                "message": summary(subject, problems.len()),
                "problems": problems.iter().map(Problem::to_json).collect::<Vec<_>>(),
            }),
            Self::Violations { subject, violations } => json!({
                "code": "VALIDATION_ERROR",
                "message": summary(subject, violations.len()),
                "violations": violations_json(violations),
            }),
            Self::State { error, .. } => capataz_contracts::json::print("capataz.v1.Error", error.as_ref()),
            Self::Answer { error, addr, .. } if is_unreachable(error) => json!({
                "code": error.code().unwrap_or("UNAVAILABLE"),
                "message": unreachable(error, addr),
                "address": addr,
                "hint": words().errors.unreachable_hint,
            }),
            Self::Answer { error, near, .. } => {
                let mut answer = capataz_contracts::json::print("capataz.v1.Error", &to_contract(error));
                if let Some(object) = answer.as_object_mut() {
                    object.remove("details");
                    if !error.violations().is_empty() {
                        let listed = error.violations().iter().map(field_violation);
                        object.insert("violations".to_owned(), listed.collect());
                    }
                }
                insert_near(&mut answer, near);
                answer
            }
        };
        if let Some(object) = answer.as_object_mut() {
            object.insert("exit_code".to_owned(), (self.exit() as u8).into());
        }
        json!({ "error": answer })
    }

    pub fn to_text(&self, form: Form, paint: Paint) -> String {
        match self {
            Self::Local { message, hint, .. } => {
                let mut text = format!("{} {}", paint.text(Tone::Bad, "error:"), visible(message));
                if let Some(hint) = hint {
                    text.push_str(&format!("\n{}", visible_lines(hint)));
                }
                text
            }
            Self::Unknown { code, message, hint, near } => {
                let told = unknown(code, &visible(message), &visible(hint), near);
                with_near(error::error(&told, &Context { form, ..Context::default() }, paint), near)
            }
            Self::Files { message, files, hint } => {
                let head = format!("{} {}", paint.text(Tone::Bad, "error:"), visible(message));
                let files = files.iter().map(|file| format!("  {}", visible(file)));
                let lines = [head].into_iter().chain(files).chain([hint.clone()]);
                lines.collect::<Vec<_>>().join("\n")
            }
            Self::Problems { subject, problems } => {
                let lines = problems.iter().map(|problem| format!("  {}", problem.to_text()));
                let summary = paint.text(Tone::Bad, &summary(subject, problems.len()));
                [summary].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
            }
            Self::Violations { subject, violations } => {
                let lines = violations.iter().map(|violation| violation_line(violation, paint));
                let summary = paint.text(Tone::Bad, &summary(subject, violations.len()));
                [summary].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
            }
            Self::Script { file, violations } => {
                let lines = violations.iter().map(|violation| script_violation_line(violation, paint));
                let summary = paint.text(Tone::Bad, &summary(file, violations.len()));
                [summary].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
            }
            Self::State { error, recovery } => {
                error::error(error, &Context { recovery, form, ..Context::default() }, paint)
            }
            Self::Answer { error, addr, .. } if is_unreachable(error) => {
                let said = visible(&unreachable(error, addr));
                format!("{} {said}\n{}", paint.text(Tone::Bad, "error:"), words().errors.unreachable_hint)
            }
            Self::Answer { error, .. } if is_invalid(error) => {
                let said = |violation: &FieldViolation| {
                    let path = paint.text(Tone::Strong, &visible(&violation.path));
                    format!("{path}: {}", visible(&refusal_by_rule(&violation.message)))
                };
                let code = error.code().unwrap_or_default();
                let (told, listed) = match error.violations() {
                    [] => (visible(&messages::refusal(&chain(error))), &[][..]),
                    [one] => (format!("{code}: {}", said(one)), &[][..]),
                    many => (summary(code, many.len()), many),
                };
                let head = format!("{} {told}", paint.text(Tone::Bad, "error:"));
                let lines = listed.iter().map(|violation| format!("  {}", said(violation)));
                [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
            }
            Self::Answer { error, about, near, .. } => {
                // A run that has ended refuses with RUN_FINISHED.
                let goes_on = error.code() == Some(codes::INVALID_STATE_TRANSITION.as_str());
                let task = about.task.as_deref().filter(|_| goes_on);
                let context =
                    Context { run: about.run.as_deref(), task, goes_on, form, ..Context::default() };
                let mut told = in_words(to_contract(error));
                // This box has a place for them.
                let is_one = error.code() == Some(codes::AGENT_NOT_FOUND.as_str()) && told.details.is_empty();
                if let [near] = near.as_slice()
                    && is_one
                {
                    told.suggestions.extend_from_slice(&near.names);
                    return error::error(&told, &context, paint);
                }
                with_near(error::error(&told, &context, paint), near)
            }
        }
    }
}

/// The error of a name that nothing has. Where names are near, they are told beside it, and the next step is that of its code.
fn unknown(code: &str, message: &str, hint: &str, near: &[Near]) -> v1::Error {
    let hint = if near.is_empty() { hint } else { advice(code).unwrap_or_default() };
    let mut error = v1::Error {
        code: code.to_owned(),
        message: message.to_owned(),
        suggested_action: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
        ..v1::Error::default()
    };
    error.severity = error::severity(&error).into();
    error
}

/// What is told of an error, with a line for each name that may be meant.
fn with_near(shown: String, near: &[Near]) -> String {
    let meant =
        |near: &Near| visible(&fill(words().errors.did_you_mean, &[&near.name, &near.names.join(", ")]));
    [shown].into_iter().chain(near.iter().map(meant)).collect::<Vec<_>>().join("\n")
}

/// Lines without what would act on a terminal: names that a daemon has told may be in them.
fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Puts the names that may be meant into an answer, where there are some.
pub fn insert_near(answer: &mut Value, near: &[Near]) {
    if let Some(object) = answer.as_object_mut().filter(|_| !near.is_empty()) {
        let listed = near.iter().map(|near| json!({ "name": near.name, "names": near.names }));
        object.insert("near".to_owned(), listed.collect());
    }
}

/// The daemon's answer, or that it gave none, in one line.
pub fn in_short(error: &ClientError) -> String {
    let told = in_words(to_contract(error));
    if told.code.is_empty() { told.message } else { format!("{}: {}", told.code, told.message) }
}

/// A violation as the daemon says it, with the name of its rule behind it.
fn refusal_by_rule(message: &str) -> Cow<'_, str> {
    match message.rsplit_once(" (") {
        Some((text, rule)) if rule.ends_with(')') && !rule.contains(' ') => {
            format!("{} ({rule}", messages::refusal(text)).into()
        }
        _ => messages::refusal(message),
    }
}

/// A violation as a line: `  waves[0].tasks[1].agent: the agent is missing (required)`.
fn violation_line(violation: &Violation, paint: Paint) -> String {
    let path = match violation.path.as_str() {
        "" => words().contract.document,
        path => path,
    };
    let message = format!("{} ({})", visible(&messages::refusal(&violation.message)), violation.rule);
    format!("  {}: {message}", paint.text(Tone::Strong, &visible(path)))
}

/// A script's violation as a line: `  actions[2].target.nth (third): nth needs a rationale (U3)`.
fn script_violation_line(violation: &v1::ScriptViolation, paint: Paint) -> String {
    let path = match (violation.path.as_str(), violation.action_id.as_str()) {
        ("", _) => words().contract.document.to_owned(),
        (path, "") => path.to_owned(),
        (path, action) => format!("{path} ({action})"),
    };
    let message =
        format!("{} ({})", visible(&messages::refusal(&violation.message)), visible(&violation.rule));
    format!("  {}: {message}", paint.text(Tone::Strong, &visible(&path)))
}

fn invalid_script(file: &str, violations: &[v1::ScriptViolation]) -> Value {
    let violations = violations.iter().map(|violation| {
        json!({
            "path": violation.path,
            "action_id": violation.action_id,
            "rule": violation.rule,
            "message": violation.message,
        })
    });
    json!({
        "file": file,
        "kind": "script",
        "valid": false,
        "error_code": codes::INVALID_ACTIONSPEC.as_str(),
        "violations": violations.collect::<Vec<_>>(),
    })
}

fn field_violation(violation: &FieldViolation) -> Value {
    let FieldViolation { path, message, rule, .. } = violation;
    match rule.as_str() {
        "" => json!({ "path": path, "message": message }),
        code => json!({ "path": path, "code": code, "message": message }),
    }
}

pub fn violations_json(violations: &[Violation]) -> Value {
    violations
        .iter()
        .map(|violation| json!({ "path": violation.path, "rule": violation.rule, "message": violation.message }))
        .collect()
}

fn summary(subject: &str, count: usize) -> String {
    let texts = &words().contract;
    let violations = counted(count as u64, texts.violations_one, texts.violations_many);
    fill(texts.invalid, &[&visible(subject), &violations])
}

/// The error and its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

fn innermost<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Codes with which a daemon says that it cannot answer now.
const AWAY: [&str; 2] = ["UNAVAILABLE", "DRAINING"];

/// That nobody answers at this address, and why.
fn unreachable(error: &ClientError, addr: &str) -> String {
    // What the client says before that is said already, in the reader's language.
    let cause = std::error::Error::source(error)
        .map_or_else(|| error.message().to_owned(), |source| innermost(source).to_string());
    format!("{} ({cause})", fill(words().errors.unreachable, &[addr]))
}

fn is_unreachable(error: &ClientError) -> bool {
    error.is_retryable() && error.code().is_none_or(|code| AWAY.contains(&code))
}

/// Returns whether the request itself breaks a rule of the daemon or of the client.
fn is_invalid(error: &ClientError) -> bool {
    match error.code() {
        Some(code) => code == "VALIDATION_ERROR",
        None => !error.is_retryable(),
    }
}

pub fn exit_of(error: &ClientError) -> Exit {
    if is_unreachable(error) {
        Exit::Unreachable
    } else if is_invalid(error) {
        Exit::Invalid
    } else {
        Exit::Failed
    }
}

fn to_contract(error: &ClientError) -> v1::Error {
    let code = error.code().unwrap_or(if error.is_retryable() { AWAY[0] } else { "" });
    let listed = error.violations().iter();
    let violations: Vec<_> = listed
        .map(|violation| refusal::Violation {
            path: violation.path.clone(),
            message: violation.message.clone(),
            code: violation.rule.clone(),
        })
        .collect();
    v1::Error {
        retry_after_ms: error.retry_after().and_then(|after| i64::try_from(after.as_millis()).ok()),
        ..refusal::refusal(code, error.message(), error.all_metadata(), &violations)
    }
}
