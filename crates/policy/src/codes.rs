//! Every stable code of the error contracts, each with its severity, its retryability and one line of advice.
//!
//! A code never changes its meaning. The pages under `docs/errors` and the `ErrorInfo.reason` of the API are made from
//! this table.

use std::fmt;

use capataz_contracts::v1;

use crate::severity::Severity;

/// A stable code. Only the table makes one, so that the daemon tells nobody a code that has no page and no severity.
///
/// What agents report is a text, and any; [`Code::named`] finds it in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(&'static str);

impl Code {
    /// The code of this name; `None` where the table has none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        lookup(name).map(|entry| entry.code)
    }

    /// The name, in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0.to_owned()
    }
}

impl PartialEq<str> for Code {
    fn eq(&self, name: &str) -> bool {
        self.0 == name
    }
}

impl PartialEq<Code> for String {
    fn eq(&self, code: &Code) -> bool {
        self == code.0
    }
}

/// What the table says of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub code: Code,
    /// The severity of errors with this code that the daemon makes.
    pub severity: Severity,
    /// True when the standard lists have a failed attempt with this code retried (seed 000, contract 4).
    pub retryable: bool,
    /// True when the code alone determines the severity of a failure that an agent reports. False for names that the
    /// seed does not have in its list of severities: for those, the message decides.
    pub classifies: bool,
    /// The next step for a person, in one line.
    pub advice: &'static str,
}

/// What the table says of the code with this name.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static Entry> {
    CODES.iter().find(|entry| entry.code.0 == name)
}

/// An error with the severity of its code, and the flag that goes with that severity.
pub fn error(code: Code, message: String) -> v1::Error {
    let severity = lookup(code.0).map_or(Severity::UNKNOWN, |entry| entry.severity);
    v1::Error {
        code: code.into(),
        message,
        severity: severity.to_proto() as i32,
        can_continue: Some(severity.flags().can_continue),
        ..v1::Error::default()
    }
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

const CLASSIFIES: bool = true;
const BY_MESSAGE: bool = false;
const RETRIED: bool = true;
const FINAL: bool = false;

macro_rules! codes {
    ($($code:ident: $severity:ident, $retryable:ident, $classifies:ident, $advice:literal;)*) => {
        $(
            #[doc = $advice]
            pub const $code: Code = Code(stringify!($code));
        )*

        /// The table, grouped by contract.
        pub const CODES: &[Entry] = &[$(
            Entry {
                code: $code,
                severity: Severity::$severity,
                retryable: $retryable,
                classifies: $classifies,
                advice: $advice,
            },
        )*];
    };
}

codes! {
    // Seed 000, contract 6: the table of severities.
    STATE_CORRUPTED: Critical, FINAL, CLASSIFIES, "Restore the state from its backup or start again from a clean one.";
    STATE_MISSING: Critical, FINAL, CLASSIFIES, "Create the state again before continuing.";
    CONFIG_INVALID: Critical, FINAL, CLASSIFIES, "Correct the configuration that the message names.";
    AGENT_NOT_FOUND: Critical, FINAL, CLASSIFIES, "Correct the agent's name, declare it, or connect a worker that serves it.";
    INCOMPATIBLE_VERSION: Critical, FINAL, CLASSIFIES, "Use a contract version with the same major number.";
    GIT_DETACHED_HEAD: Critical, FINAL, CLASSIFIES, "Check out a branch before going on.";
    GIT_CONFLICTS: Critical, FINAL, CLASSIFIES, "Resolve the merge conflicts before going on.";
    SESSION_CORRUPTED: Critical, FINAL, CLASSIFIES, "Restore the session from its backup, or start a new one.";
    TESTS_FAILED: High, FINAL, CLASSIFIES, "Look at the failed tests before going on.";
    BUILD_FAILED: High, FINAL, CLASSIFIES, "Look at the build's output before going on.";
    VALIDATION_FAILED: High, FINAL, CLASSIFIES, "Correct what the listed violations name.";
    TASK_TIMEOUT: High, FINAL, CLASSIFIES, "Extend the timeout, keep the partial output, retry, or abort.";
    RETRY_EXHAUSTED: High, FINAL, CLASSIFIES, "Look at the last error; retry by hand once its cause is gone.";
    API_ERROR: High, FINAL, CLASSIFIES, "Look at the answer of the service that failed.";
    PERMISSION_DENIED: High, FINAL, CLASSIFIES, "Give the agent the permission that it lacks.";
    QUORUM_NOT_MET: High, FINAL, CLASSIFIES, "Look at the failed tasks; retry them or lower the threshold.";
    CRITICAL_AGENT_FAILED: High, FINAL, CLASSIFIES, "Look at the critical task's error and retry it.";
    INVALID_STATE_TRANSITION: High, FINAL, CLASSIFIES, "Take the steps that the suggested action lists.";
    LINT_WARNINGS: Medium, FINAL, CLASSIFIES, "Look at the warnings when there is time.";
    DEPRECATION_WARNING: Medium, FINAL, CLASSIFIES, "Plan a replacement of the deprecated feature.";
    COVERAGE_LOW: Medium, FINAL, CLASSIFIES, "Add tests where the coverage is missing.";
    UNUSED_FILES: Medium, FINAL, CLASSIFIES, "Remove the unused files.";
    OPTIONAL_AGENT_FAILED: Medium, FINAL, CLASSIFIES, "Nothing needs to be done; the run goes on without it.";
    SLOW_OPERATION: Medium, FINAL, CLASSIFIES, "Find the cause of the delay, or raise the timeout.";
    PARTIAL_SUCCESS: Medium, FINAL, CLASSIFIES, "Look at the listed failures; the run went on in spite of them.";
    RETRY_SUCCESS: Low, FINAL, CLASSIFIES, "Nothing needs to be done.";
    OPERATION_COMPLETE: Low, FINAL, CLASSIFIES, "Nothing needs to be done.";
    SUGGESTION: Low, FINAL, CLASSIFIES, "Consider the suggestion.";
    IMPROVEMENT_HINT: Low, FINAL, CLASSIFIES, "Consider the suggestion.";
    UNKNOWN_ERROR: High, FINAL, BY_MESSAGE, "Let the agent report a code and a message.";
    UNCLASSIFIED: Medium, FINAL, BY_MESSAGE, "Let the agent report a severity or a code of the table, or declare a severity in the plan.";

    // Contract 1.
    AGENTS_VALIDATION_FAILED: Critical, FINAL, BY_MESSAGE, "Correct each of the listed names.";
    COMMAND_NOT_FOUND: Critical, FINAL, BY_MESSAGE, "Correct the command's name, or declare it.";
    RESOURCE_NOT_FOUND: Critical, FINAL, BY_MESSAGE, "Correct the resource's name, or declare it.";
    AGENT_ABSENT: Medium, FINAL, CLASSIFIES, "Connect a worker that serves the agent; its tasks wait until then.";

    // Contract 2.
    TASK_NOT_FOUND: Critical, FINAL, BY_MESSAGE, "Use the name of a task of this run.";
    INCOMPLETE_LIFECYCLE: Medium, FINAL, CLASSIFIES, "Look at why the task ended without ever having been active.";

    // Contract 3.
    TIMEOUT_IMMINENT: Medium, FINAL, CLASSIFIES, "Extend the timeout if the task should get more time.";
    TASK_ENDING: Medium, FINAL, BY_MESSAGE, "Retry the task when it has ended, or keep its partial output.";
    SCHEDULE_TO_START_TIMEOUT: High, FINAL, CLASSIFIES, "Connect more workers for the agent, or let the task wait longer.";

    // Contract 4.
    NON_RETRYABLE_ERROR: High, FINAL, CLASSIFIES, "Remove the cause by hand; the same attempt would fail again.";
    TOTAL_TIMEOUT_EXCEEDED: High, FINAL, CLASSIFIES, "Raise the retry policy's total limit, or retry by hand.";
    TIMEOUT: High, RETRIED, BY_MESSAGE, "Raise the limit of one attempt, or look at the system's load.";
    NETWORK_ERROR: High, RETRIED, BY_MESSAGE, "Check the network connection and the service's availability.";
    RATE_LIMIT: High, RETRIED, BY_MESSAGE, "Wait before the next attempt, or send fewer requests.";
    SERVICE_UNAVAILABLE: High, RETRIED, BY_MESSAGE, "Check that the service is up.";
    CONNECTION_RESET: High, RETRIED, BY_MESSAGE, "Check the network connection and the service's log.";
    ECONNREFUSED: High, RETRIED, BY_MESSAGE, "Check that the service listens at this address.";
    ETIMEDOUT: High, RETRIED, BY_MESSAGE, "Check the network connection and the service's load.";
    PARSE_ERROR: High, FINAL, BY_MESSAGE, "Correct the document that could not be read.";
    VALIDATION_ERROR: High, FINAL, BY_MESSAGE, "Correct the input that was refused.";
    LOGIC_ERROR: High, FINAL, BY_MESSAGE, "Correct the agent; the same input fails again.";
    FILE_NOT_FOUND: High, FINAL, BY_MESSAGE, "Create the file, or correct its path.";
    INVALID_ARGUMENT: High, FINAL, BY_MESSAGE, "Correct the argument that the message names.";

    // Contract 7.
    JSON_PARSE_ERROR: Critical, FINAL, BY_MESSAGE, "Correct the JSON, or restore the backup.";
    INVALID_STATE_TYPE: Critical, FINAL, BY_MESSAGE, "The state must be a JSON object.";
    REPAIR_FAILED: Critical, FINAL, BY_MESSAGE, "Restore the backup, or start a new session.";
    SESSION_VALIDATION_FAILED: High, FINAL, BY_MESSAGE, "Correct what the listed violations name.";
    SESSION_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the id of a session that exists, or start a new one.";
    SESSION_INVALID: High, FINAL, BY_MESSAGE, "Correct what the listed violations name; nothing was written.";

    // Failures of tasks and runs that the daemon itself reports.
    WORKER_LOST: High, FINAL, CLASSIFIES, "Look at the worker's log; the task lost its worker several times.";
    OUTCOME_UNKNOWN: High, FINAL, CLASSIFIES, "Find out what the lost worker did, then answer the question.";
    CHILD_TOO_DEEP: High, FINAL, CLASSIFIES, "Start fewer runs from within runs; look for one that starts itself again.";
    SESSION_BUSY: High, FINAL, CLASSIFIES, "Wait until the plan that is at work in the session has ended, or use another session.";
    SESSION_HELD: High, FINAL, CLASSIFIES, "Ask outside of the session, or in another one.";
    TASK_CANCELLED: Medium, FINAL, CLASSIFIES, "Retry the task if its result is still wanted.";
    RUN_LIMIT_EXCEEDED: High, FINAL, CLASSIFIES, "Split the work into several runs.";
    PHASE_BLOCKED: High, FINAL, CLASSIFIES, "Correct what its attempts failed with and retry, go back to a checkpoint, or abort.";
    PHASE_NOT_FOUND: Medium, FINAL, CLASSIFIES, "Name a phase of the pipeline.";
    CHECKPOINT_NOT_FOUND: Medium, FINAL, CLASSIFIES, "Go back to a phase that has a completed one before it, or to a checkpoint that is listed.";
    TOO_MANY_ERRORS: High, FINAL, CLASSIFIES, "Look at what the last actions failed with, and put the query in another way or give the planner other tools.";
    STEP_LIMIT: High, FINAL, CLASSIFIES, "Split the query, or start it with a larger max_steps.";
    TOOL_REJECTED: Medium, FINAL, CLASSIFIES, "The planner decides what is done instead.";
    ROLLBACK_NOT_POSSIBLE: Medium, FINAL, CLASSIFIES, "Go back to a later checkpoint, behind what cannot be undone.";
    CHECKPOINT_TOO_LARGE: High, FINAL, CLASSIFIES, "Let the summary name fewer or smaller keys.";
    OUTPUT_TOO_LARGE: High, FINAL, CLASSIFIES, "Let the agent return large outputs as blobs.";
    INVALID_OUTPUT: High, FINAL, CLASSIFIES, "Correct the agent: its output does not have the declared form.";
    AGENT_COMMAND_FAILED: High, FINAL, CLASSIFIES, "Look at the exit code and the task's log.";
    AGENT_COMMAND_NOT_STARTED: High, FINAL, CLASSIFIES, "Check the agent's command, its folder and its permissions.";
    INPUT_TOO_LARGE: High, FINAL, CLASSIFIES, "Give the task less input, or a reference to the data.";
    INPUT_UNRESOLVED: High, FINAL, CLASSIFIES, "Correct what the input refers to, or let it refer to less: the message says what is missing or too large.";

    // Seed 001: failures of specs, and of reaching them. A failure that may pass by itself is MEDIUM, because the next
    // attempt or the fallback answers. A failure that only the author or the operator of the spec can remove is HIGH.
    PROCESSING_TIMEOUT: Medium, RETRIED, CLASSIFIES, "Wait for the next attempt, or let the spec answer within 30 seconds.";
    TEMPORARY_ERROR: Medium, FINAL, CLASSIFIES, "A spec is called again by itself; a plan's task only where its policy names the code in `retryable`.";
    INSUFFICIENT_CONTEXT: Medium, FINAL, CLASSIFIES, "Add the missing information.";
    INVALID_REQUEST: High, FINAL, CLASSIFIES, "Rephrase the message, or correct the request.";
    SPEC_NOT_AVAILABLE: High, FINAL, CLASSIFIES, "Connect a worker that serves the spec, or name a fallback spec.";
    CAPABILITY_NOT_SUPPORTED: High, FINAL, CLASSIFIES, "Ask a spec that has the capability.";
    FATAL_ERROR: High, FINAL, CLASSIFIES, "Look at the spec's log; the same request would fail again.";
    SPEC_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the id of a spec that the catalogue has.";
    SPEC_FILE_INVALID: High, FINAL, BY_MESSAGE, "Correct what the listed violations name in the spec's file.";

    // Seed 002: failures of browser actions. The seed's warning is MEDIUM, error is HIGH, critical is CRITICAL. A
    // script retries only the codes that its own `retry_on` lists; the column states what the standard lists say about
    // an agent that reports the code. CRITICAL ends the script of that browser; it does not end a run whose agent uses
    // the same word for something else.
    TARGET_NOT_FOUND: High, FINAL, CLASSIFIES, "Compare the target with the elements in the snapshot.";
    TARGET_NOT_UNIQUE: High, FINAL, CLASSIFIES, "Make the target match one element; the sample lists the matches.";
    INVALID_ACTIONSPEC: High, FINAL, CLASSIFIES, "Correct the listed violations; nothing was done to the page.";
    PRECONDITION_FAILED: High, FINAL, CLASSIFIES, "Look at the conditions that did not hold before the action; nothing was done to the page.";
    POSTCONDITION_FAILED: High, FINAL, CLASSIFIES, "Compare the pictures before and after; the action was performed.";
    POLICY_HALT: High, FINAL, CLASSIFIES, "Find out why the script repeats itself, or raise the limit that the reason names.";
    DOMAIN_BLOCKED: High, FINAL, CLASSIFIES, "Add the host to the allowlist, if it may be reached.";
    ACTION_CRITICAL_BLOCKED: Critical, FINAL, BY_MESSAGE, "Give the action a strong postcondition, or correct its destination.";
    NAVIGATION_TIMEOUT: High, RETRIED, CLASSIFIES, "Check that the page can be reached, raise the limit, or use a weaker condition.";
    NAVIGATION_FAILED: High, FINAL, CLASSIFIES, "Check the URL, and that the server answers at it; the network's error says what failed.";
    UPLOAD_FAILED: High, FINAL, CLASSIFIES, "Check the file, and the page's message about it.";
    DOWNLOAD_FAILED: High, FINAL, CLASSIFIES, "Check that the action begins a download, and that it can end in time.";
    OVERLAY_BLOCKING: High, FINAL, CLASSIFIES, "Close the covering element, or declare a recovery that closes it.";
    AUTH_FAILED: High, FINAL, CLASSIFIES, "Check the credentials, or sign in again and save the storage state.";
    BROWSER_LOST: Critical, FINAL, BY_MESSAGE, "Find out what the last action did, then start the script again.";
    EVIDENCE_FAILED: Critical, FINAL, BY_MESSAGE, "Check the daemon's disk; the error's details contain the action's outcome.";

    // The daemon's refusals of calls. A refusal belongs to no run, and nothing was stored.
    NAME_RESERVED: High, FINAL, BY_MESSAGE, "Use other names, or share the agent with workers in capataz.toml.";
    AGENT_LIMIT_EXCEEDED: High, FINAL, BY_MESSAGE, "Serve fewer agents, or describe them in fewer bytes.";
    FRAME_TOO_LARGE: High, FINAL, BY_MESSAGE, "Store large payloads as blobs.";
    WORKER_REPLACED: Medium, FINAL, BY_MESSAGE, "Give each worker an id of its own.";
    WORKER_SENT_AWAY: High, FINAL, BY_MESSAGE, "Look at the worker: it does not do what the protocol asks of it.";
    RUN_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the id of a stored run; `capataz runs list` shows them.";
    MEMORY_NOT_FOUND: Medium, FINAL, BY_MESSAGE, "Use the id of an entry that `capataz memory search` lists.";
    RUN_IN_USE: Medium, FINAL, BY_MESSAGE, "Let the run end first, and every unfinished run that needs it; cancel what is not wanted.";
    RUN_FINISHED: Medium, FINAL, BY_MESSAGE, "Start a new run, or continue this one with `capataz runs continue` if it is that of a plan; a finished run can no longer be changed.";
    RUN_NOT_CONTINUED: Medium, FINAL, BY_MESSAGE, "Wait for the end of the run, or start a new one.";
    FORK_NOT_POSSIBLE: Medium, FINAL, BY_MESSAGE, "Fork the run at the event that the message names, or start a new one.";
    QUESTION_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the id of an open question; `capataz runs show` lists them.";
    TRANSITION_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the request id of an answer with an open suggestion.";
    QUESTION_ANSWERED: Medium, FINAL, BY_MESSAGE, "Nothing needs to be done; the first answer counts.";
    QUESTION_REVISED: Medium, FINAL, BY_MESSAGE, "Read the question again, and answer its newest revision.";
    IDEMPOTENCY_KEY_REUSED: High, FINAL, BY_MESSAGE, "Choose a new key for a new request.";
    REQUEST_ID_REUSED: High, FINAL, BY_MESSAGE, "Choose a new request id for a new request.";
    SEQ_MISMATCH: Medium, FINAL, BY_MESSAGE, "Read the run again before repeating the command.";
    CURSOR_TOO_OLD: High, FINAL, BY_MESSAGE, "Go on after the cursor that the refusal has; what was removed is gone.";
    CURSOR_UNKNOWN: High, FINAL, BY_MESSAGE, "Use a cursor from this daemon, or begin without one.";
    LOG_DAMAGED: Critical, FINAL, BY_MESSAGE, "Export what is whole of the run; restore the data folder and start the daemon again to get the rest back.";
    BLOB_NOT_FOUND: High, FINAL, CLASSIFIES, "Store the blob again if a call is to name it; what retention has removed can no longer be read.";
    OVERLOADED: Medium, FINAL, BY_MESSAGE, "Wait as long as the answer says, and repeat the call with the same key.";
    UNAVAILABLE: Medium, FINAL, BY_MESSAGE, "Repeat the call with the same key.";
    DRAINING: Medium, FINAL, BY_MESSAGE, "Repeat the call when the daemon is up again.";
    BROWSER_NOT_FOUND: High, FINAL, BY_MESSAGE, "Install Chromium where the daemon runs, or name its program in the configuration.";
    STORAGE_STATE_NOT_FOUND: High, FINAL, BY_MESSAGE, "Use the name of a saved storage state, or save one with a script that signs in.";
    STEP_IN_PROGRESS: Medium, FINAL, BY_MESSAGE, "Wait for the answer to the action that is being performed.";
    SESSION_NOT_INTERACTIVE: High, FINAL, BY_MESSAGE, "Open a browser session; the actions of a script are fixed.";
    HELLO_MISSING: Medium, FINAL, BY_MESSAGE, "Connect again and send the hello at once.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::retry::{RetryPolicy, passes_for_a_spec};

    #[test]
    fn each_code_is_listed_once_in_upper_case_with_one_line_of_advice() {
        let mut seen = BTreeSet::new();
        for entry in CODES {
            assert!(seen.insert(entry.code.as_str()), "{} is listed twice", entry.code);
            assert!(
                entry.code.as_str().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'),
                "{}",
                entry.code
            );
            assert!(entry.advice.ends_with('.') && !entry.advice.contains('\n'), "{}", entry.code);
            assert_eq!(lookup(entry.code.as_str()), Some(entry));
        }
        assert_eq!(lookup("no such code"), None);
    }

    #[test]
    fn the_table_agrees_with_the_retry_lists() {
        for entry in CODES {
            // A notice is never the failure of an attempt.
            if entry.code != TIMEOUT_IMMINENT {
                assert_eq!(
                    RetryPolicy::default().refusal(entry.code.as_str()).is_none(),
                    entry.retryable,
                    "{}",
                    entry.code
                );
            }
        }
    }

    #[test]
    fn failures_of_specs_are_retried_where_time_helps_and_serious_where_it_does_not() {
        #[track_caller]
        fn check(code: &str, severity: Severity, retryable: bool) {
            assert_eq!(crate::severity::known(code, "no pattern is in here"), Some(severity), "{code}");
            assert_eq!(RetryPolicy::default().refusal(code).is_none(), retryable, "{code}");
        }
        check("PROCESSING_TIMEOUT", Severity::Medium, true);
        check("TEMPORARY_ERROR", Severity::Medium, false);
        check("INSUFFICIENT_CONTEXT", Severity::Medium, false);
        for code in ["INVALID_REQUEST", "SPEC_NOT_AVAILABLE", "CAPABILITY_NOT_SUPPORTED", "FATAL_ERROR"] {
            check(code, Severity::High, false);
        }
        assert!(RetryPolicy::default().refusal("RATE_LIMIT").is_none());
        assert!(RetryPolicy::default().refusal("VALIDATION_ERROR").is_some());
        assert!(passes_for_a_spec("TEMPORARY_ERROR"));
        // The list of final codes takes precedence, and what the lists retry needs no other rule.
        for code in ["TEMPORARY_ERROR_OF_VALIDATION_ERROR", "RATE_LIMIT", "FATAL_ERROR"] {
            assert!(!passes_for_a_spec(code), "{code}");
        }
    }

    #[test]
    fn failures_of_browser_actions_are_serious_and_only_a_late_page_is_retried() {
        let actions = [
            TARGET_NOT_FOUND,
            TARGET_NOT_UNIQUE,
            INVALID_ACTIONSPEC,
            PRECONDITION_FAILED,
            POSTCONDITION_FAILED,
            POLICY_HALT,
            DOMAIN_BLOCKED,
            ACTION_CRITICAL_BLOCKED,
            NAVIGATION_TIMEOUT,
            NAVIGATION_FAILED,
            UPLOAD_FAILED,
            DOWNLOAD_FAILED,
            OVERLAY_BLOCKING,
            AUTH_FAILED,
            BROWSER_LOST,
            EVIDENCE_FAILED,
        ];
        for code in actions {
            let entry = lookup(code.as_str()).unwrap();
            assert!(entry.severity >= Severity::High, "{code}");
            assert_eq!(entry.retryable, code == NAVIGATION_TIMEOUT, "{code}");
            // A code that ends a browser's script does not abort a plan whose agent uses the same word.
            assert_eq!(entry.classifies, entry.severity != Severity::Critical, "{code}");
        }
    }

    #[test]
    fn an_error_has_the_severity_of_its_code() {
        let error = error(AGENT_NOT_FOUND, "gone".to_owned());
        assert_eq!(error.severity, v1::Severity::Critical as i32);
        assert_eq!(error.can_continue, Some(false));
    }
}
