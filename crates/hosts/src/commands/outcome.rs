//! What a command's end means for its task.

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_policy::codes::{self, Code};
use capataz_shim::MAX_INPUT;
use rustix::io::Errno;
use rustix::process::Signal;
use serde::Deserialize;

use super::agent::{OutputFormat, ProcessAgent};
use super::environment::Missing;
use super::json;
use super::stderr::last_line;
use crate::redact::Redactor;

/// Characters of stdout that INVALID_OUTPUT shows.
const SHOWN_OUTPUT: usize = 200;
/// Characters of a log line in an error's message.
const SHOWN_LINE: usize = 500;
/// Characters of a message that a command gives itself.
const MESSAGE_LIMIT: usize = 4096;
/// Bytes of a code that a command gives itself.
const CODE_LIMIT: usize = 100;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// How one run of a command went. `log` is the end of its stderr, at most [`LOG_LIMIT`](super::LOG_LIMIT).
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessOutcome {
    Completed {
        output: Output,
        log: Bytes,
    },
    Failed {
        error: Box<v1::Error>,
        log: Bytes,
    },
    /// Ended because the caller asked, with what the command wrote until then: text where it was to become JSON.
    Cancelled {
        partial: Option<Output>,
        log: Bytes,
    },
}

/// What a command wrote, as it wrote it. The caller decides whether it travels inline or as a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// `application/json` or `text/plain`.
    pub media_type: String,
    /// At most the agent's `max_output`; for text, up to three times as many where bytes had to be replaced.
    pub bytes: Bytes,
}

/// All that was seen of one run of a command.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// True when the command ran at all.
    pub(super) started: bool,
    pub(super) ending: Option<Ending>,
    /// At most the agent's `max_output`.
    pub(super) stdout: Vec<u8>,
    pub(super) stdout_too_large: bool,
    pub(super) cancelled: bool,
    /// Masked.
    pub(super) log: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Refused { errno: i32 },
    NoWorkingDirectory { errno: i32 },
    NotStarted { errno: i32 },
    Exited { code: i32 },
    Signalled { signal: i32 },
}

impl ProcessOutcome {
    pub(super) fn without_environment(missing: &Missing) -> Self {
        match missing {
            Missing::Invalid(problem) => Self::failed_without_log(
                codes::AGENT_COMMAND_NOT_STARTED,
                format!("cannot start the command: {problem}"),
            ),
            Missing::Unread(problem, error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                let reason = system_reason(errno);
                let message = format!("cannot start the command: {problem}: {reason}");
                Self::failed_without_log(code_of(errno), message)
            }
        }
    }

    pub(super) fn input_too_large(length: usize) -> Self {
        Self::failed_without_log(
            codes::INPUT_TOO_LARGE,
            format!("the input has {length} bytes, more than {MAX_INPUT}"),
        )
    }

    fn failed_without_log(code: Code, message: String) -> Self {
        Self::Failed { error: Box::new(error(code, message)), log: Bytes::new() }
    }

    /// What `observation` means for a task of `agent`.
    pub(super) fn of(agent: &ProcessAgent, secrets: &Redactor, observation: Observation) -> Self {
        let Observation { started, ending, stdout, stdout_too_large, cancelled, log } = observation;
        if cancelled {
            let is_some = !stdout_too_large && !stdout.trim_ascii().is_empty();
            let partial = is_some.then(|| match read(agent, stdout) {
                Ok(output) => cut_off(&output.bytes, &output.media_type, secrets),
                Err(cut) => cut_off(&cut, TEXT, secrets),
            });
            return Self::Cancelled { partial, log };
        }
        if stdout_too_large {
            let message = format!("the command wrote more than {} bytes to stdout", agent.max_output);
            return Self::Failed { error: Box::new(error(codes::OUTPUT_TOO_LARGE, message)), log };
        }
        let program = agent.command.first().map_or("", String::as_str);
        let failure = match ending {
            Some(Ending::Exited { code: 0 }) => match read(agent, stdout) {
                Ok(output) => return Self::Completed { output, log },
                Err(stdout) => invalid_output(&stdout, secrets),
            },
            Some(Ending::Exited { code }) => {
                reported_error(&stdout, secrets).unwrap_or_else(|| exit_code(agent, code, &log))
            }
            Some(Ending::Signalled { signal }) => {
                error(codes::AGENT_COMMAND_FAILED, format!("ended by signal {}", signal_name(signal)))
            }
            Some(Ending::NotStarted { errno }) => {
                error(code_of(errno), format!("cannot start `{program}`: {}", system_reason(errno)))
            }
            Some(Ending::NoWorkingDirectory { errno }) => {
                let folder = agent.cwd.as_deref().unwrap_or(std::path::Path::new("")).display();
                let message =
                    format!("cannot use the working directory `{folder}`: {}", system_reason(errno));
                error(codes::AGENT_COMMAND_NOT_STARTED, message)
            }
            Some(Ending::Refused { errno }) => {
                let message = format!("cannot supervise `{program}`: {}", system_reason(errno));
                error(code_of(errno), message)
            }
            None if started => error(
                codes::AGENT_COMMAND_FAILED,
                "ended in an unknown way: its supervisor is lost".to_owned(),
            ),
            None => error(
                codes::AGENT_COMMAND_NOT_STARTED,
                format!("cannot supervise `{program}`: no supervisor started"),
            ),
        };
        Self::Failed { error: Box::new(failure), log }
    }
}

/// What it means that nothing was started: the system's lack of descriptors, processes or memory passes.
fn code_of(errno: i32) -> Code {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS];
    match lacks.iter().any(|lack| lack.raw_os_error() == errno) {
        true => codes::SERVICE_UNAVAILABLE,
        false => codes::AGENT_COMMAND_NOT_STARTED,
    }
}

/// Reads stdout as the agent declares it.
///
/// # Errors
/// The bytes, where they are something else.
fn read(agent: &ProcessAgent, stdout: Vec<u8>) -> Result<Output, Vec<u8>> {
    if agent.output != OutputFormat::Text
        && let Ok(value) = json::one_value(&stdout)
    {
        let bytes = Bytes::copy_from_slice(value);
        return Ok(Output { media_type: JSON.to_owned(), bytes });
    }
    if agent.output == OutputFormat::Json {
        return Err(stdout);
    }
    let bytes = match String::from_utf8(stdout) {
        Ok(text) => text.into(),
        Err(broken) => String::from_utf8_lossy(broken.as_bytes()).into_owned().into(),
    };
    Ok(Output { media_type: TEXT.to_owned(), bytes })
}

/// What was cut off, without secrets, since it becomes a part of an error. What is no JSON any more without them is a text.
fn cut_off(stdout: &[u8], media_type: &str, secrets: &Redactor) -> Output {
    let masked = secrets.masked_json(stdout);
    if media_type == JSON && json::one_value(&masked).is_ok() {
        return Output { media_type: JSON.to_owned(), bytes: masked.into() };
    }
    let bytes = String::from_utf8_lossy(&masked).into_owned().into();
    Output { media_type: TEXT.to_owned(), bytes }
}

fn error(code: Code, message: String) -> v1::Error {
    v1::Error { code: code.into(), message, ..v1::Error::default() }
}

fn invalid_output(stdout: &[u8], secrets: &Redactor) -> v1::Error {
    // Four bytes are the longest character; a secret that begins in what is shown is masked as a whole.
    let mut front = stdout.get(..4 * SHOWN_OUTPUT + secrets.longest()).unwrap_or(stdout).to_vec();
    secrets.mask(&mut front);
    let text = String::from_utf8_lossy(&front);
    let shown: String = text.chars().take(SHOWN_OUTPUT).flat_map(visible).collect();
    error(codes::INVALID_OUTPUT, format!("stdout is not one JSON value; it begins: {shown}"))
}

/// Control characters other than line breaks and tabs, escaped: they could act on a terminal.
fn visible(character: char) -> impl Iterator<Item = char> {
    let harmless = !character.is_control() || matches!(character, '\n' | '\t');
    let plain = harmless.then_some(character);
    let escaped = (!harmless).then(|| character.escape_default());
    plain.into_iter().chain(escaped.into_iter().flatten())
}

fn exit_code(agent: &ProcessAgent, code: i32, log: &[u8]) -> v1::Error {
    let retryable = agent.retryable_exit_codes.contains(&code);
    let message = match last_line(log, SHOWN_LINE) {
        Some(line) => format!("exit code {code}: {line}"),
        None => format!("exit code {code}"),
    };
    error(if retryable { codes::SERVICE_UNAVAILABLE } else { codes::AGENT_COMMAND_FAILED }, message)
}

/// What a command may write to stdout to say itself why it failed.
#[derive(Deserialize)]
struct Report {
    error: ReportedError,
}

#[derive(Deserialize)]
struct ReportedError {
    code: String,
    #[serde(default)]
    message: String,
    severity: Option<ReportedSeverity>,
    retry_after_ms: Option<i64>,
}

/// A severity by its name, in any case, or by its number from 1 (LOW) to 4 (CRITICAL).
#[derive(Deserialize)]
#[serde(untagged)]
enum ReportedSeverity {
    Name(String),
    Number(i32),
}

impl ReportedSeverity {
    /// Unspecified for a name that is not a severity: the policy then decides by the code.
    fn known(&self) -> v1::Severity {
        match self {
            Self::Name(name) => {
                v1::Severity::from_str_name(&format!("SEVERITY_{}", name.to_ascii_uppercase()))
            }
            Self::Number(number) => v1::Severity::try_from(*number).ok(),
        }
        .unwrap_or(v1::Severity::Unspecified)
    }
}

fn reported_error(stdout: &[u8], secrets: &Redactor) -> Option<v1::Error> {
    let Report { error: reported } = serde_json::from_slice(stdout).ok()?;
    let well_formed = !reported.code.is_empty()
        && reported.code.len() <= CODE_LIMIT
        && reported.code.bytes().all(|byte| byte.is_ascii_graphic());
    if !well_formed {
        return None;
    }
    Some(v1::Error {
        code: secrets.masked(&reported.code).into_owned(),
        message: secrets.masked(&reported.message).chars().take(MESSAGE_LIMIT).collect(),
        severity: reported.severity.map_or(v1::Severity::Unspecified, |severity| severity.known()).into(),
        retry_after_ms: reported.retry_after_ms.filter(|milliseconds| *milliseconds >= 0),
        ..v1::Error::default()
    })
}

/// The system's words, without the number that Rust adds.
fn system_reason(errno: i32) -> String {
    if errno == 0 {
        return "the system gives no reason".to_owned();
    }
    let mut reason = std::io::Error::from_raw_os_error(errno).to_string();
    if let Some(end) = reason.find(" (os error") {
        reason.truncate(end);
    }
    reason
}

/// `9 (SIGKILL)`; only the number where the signal has no common name.
fn signal_name(signal: i32) -> String {
    let named = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    match named.iter().find(|(known, _)| known.as_raw() == signal) {
        Some((_, name)) => format!("{signal} ({name})"),
        None => signal.to_string(),
    }
}

#[cfg(test)]
mod tests;
