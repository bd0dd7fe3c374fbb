//! Requests that start runs.

use std::collections::BTreeMap;

use super::pipeline::check as check_pipeline;
use super::{PlanLimits, ask as asks, name, optional_enum, plan, script};
use crate::path::Path;
use crate::v1;
use crate::v1::child_run::Work as Child;
use crate::v1::start_run_request::Work;
use crate::violation::{Violation, Violations};

const LABELS_MAX: usize = 32;
const LABEL_KEY_MAX: usize = 63;
const LABEL_VALUE_MAX_BYTES: usize = 256;
/// What the labels begin with that only the daemon sets.
pub const RESERVED_LABELS: &str = "capataz.";
const IDEMPOTENCY_KEY_MAX_BYTES: usize = 256;

/// Checks a request that starts a run, with the work that it holds.
pub fn start_run(request: &v1::StartRunRequest, limits: &PlanLimits) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    header(request.idempotency_key.as_deref(), &request.labels, root, &mut violations);
    if let Some(parent) = &request.parent {
        let path = &root.key("parent");
        name(&parent.run_id, "the parent's run", &path.key("run_id"), &mut violations);
        name(&parent.task, "the parent's task", &path.key("task"), &mut violations);
    }
    match &request.work {
        Some(Work::Plan(plan)) => plan::check(plan, limits, &root.key("plan"), &mut violations),
        Some(Work::Ask(ask)) => asks::check(ask, &root.key("ask"), &mut violations),
        Some(Work::Script(script)) => script::check(script, &root.key("script"), &mut violations),
        Some(Work::Pipeline(of)) => check_pipeline(of, &root.key("pipeline"), &mut violations),
        Some(Work::Mode(run)) => super::mode::check(run, &root.key("mode"), &mut violations),
        None => violations.push(&root.key("plan"), "required", "the plan is missing"),
    }
    violations.into_vec()
}

/// Checks a request to continue a run by itself: labels and idempotency key.
#[must_use]
pub fn continue_run(request: &v1::ContinueRunRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    header(request.idempotency_key.as_deref(), &request.labels, &Path::Root, &mut violations);
    violations.into_vec()
}

/// Checks a request to fork a run by itself: labels, idempotency key and input.
#[must_use]
pub fn fork_run(request: &v1::ForkRunRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    header(request.idempotency_key.as_deref(), &request.labels, &Path::Root, &mut violations);
    if let Some(input) = &request.input {
        super::pipeline::check_input(input, &Path::Root.key("input"), &mut violations);
    }
    violations.into_vec()
}

/// A task that is a run. The plan that it may have is checked as any other, with names and references of its own.
pub(super) fn child(
    task: &v1::Task,
    run: &v1::ChildRun,
    limits: &PlanLimits,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    if !task.agent.is_empty() {
        violations.push(&path.key("agent"), "exclusive", "a task has an agent or a run, not both");
    }
    let input = &path.key("input");
    let path = &path.key("run");
    labels_of_others(&run.labels, path, violations);
    match &run.work {
        Some(Child::Plan(plan)) => match limits.max_depth.checked_sub(1) {
            Some(max_depth) => {
                let limits = PlanLimits { max_depth, ..*limits };
                plan::check(plan, &limits, &path.key("plan"), violations);
            }
            // An event that is nested deeper than its decoder reads would make the whole log unreadable.
            None => violations.push(
                &path.key("plan"),
                "depth",
                "plans are nested too deep; at most 8 in one another",
            ),
        },
        Some(Child::Ask(ask)) => {
            let path = &path.key("ask");
            if ask.text.is_empty() && task.input.is_some() {
                // What the text will be is known when the task begins.
                let ask = v1::Ask { text: "the task's input".to_owned(), ..ask.clone() };
                asks::check(&ask, path, violations);
            } else {
                asks::check(ask, path, violations);
                if task.input.is_some() {
                    violations.push(
                        input,
                        "exclusive",
                        "the text is the ask's own or the task's input, not both",
                    );
                }
            }
        }
        Some(Child::Script(script)) => {
            script::check(script, &path.key("script"), violations);
            if task.input.is_some() {
                violations.push(input, "exclusive", "a script has no input");
            }
        }
        Some(Child::Pipeline(pipeline)) => {
            check_pipeline(pipeline, &path.key("pipeline"), violations);
            if pipeline.input.is_some() && task.input.is_some() {
                violations.push(
                    input,
                    "exclusive",
                    "the input is the pipeline's own or the task's, not both",
                );
            }
        }
        None => violations.push(path, "required", "a run is a plan, an ask, a script or a pipeline"),
    }
}

/// What every request has that starts a run: its key, and the labels that somebody else than the daemon gives.
pub fn header(
    idempotency_key: Option<&str>,
    labels: &BTreeMap<String, String>,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    if let Some(key) = idempotency_key
        && !(1..=IDEMPOTENCY_KEY_MAX_BYTES).contains(&key.len())
    {
        let message =
            format!("an idempotency key has 1 to {IDEMPOTENCY_KEY_MAX_BYTES} bytes, not {}", key.len());
        violations.push(&path.key("idempotency_key"), "length", message);
    }
    labels_of_others(labels, path, violations);
}

/// Labels that somebody else than the daemon gives.
pub fn labels_of_others(labels: &BTreeMap<String, String>, path: &Path<'_>, violations: &mut Violations) {
    let path = &path.key("labels");
    check_labels(labels, path, violations);
    for key in labels.keys().filter(|key| key.starts_with(RESERVED_LABELS)) {
        let message = format!("labels that begin with `{RESERVED_LABELS}` are the daemon's own");
        violations.push(&path.key(key), "reserved", message);
    }
}

/// Checks labels: at most 32; keys of 1 to 63 characters `a-z 0-9 . _ / -`; values of at most 256 bytes.
pub fn labels(labels: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut violations = Violations::default();
    check_labels(labels, &Path::Key(&Path::Root, "labels"), &mut violations);
    violations.into_vec()
}

/// Checks what the runs of a list are to be like: their labels, status, outcome and kind.
pub fn list_runs(request: &v1::ListRunsRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    check_labels(&request.labels, &root.key("labels"), &mut violations);
    optional_enum::<v1::RunStatus>(request.status, &root.key("status"), &mut violations);
    optional_enum::<v1::RunOutcome>(request.outcome, &root.key("outcome"), &mut violations);
    optional_enum::<v1::RunKind>(request.kind, &root.key("kind"), &mut violations);
    violations.into_vec()
}

/// Checks what the events that somebody subscribes to are to be like: their runs' labels and kind, and their severity.
pub fn event_filter(filter: &v1::EventFilter) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    let path = &root.key("filter");
    check_labels(&filter.labels, &path.key("labels"), &mut violations);
    optional_enum::<v1::RunKind>(filter.kind, &path.key("kind"), &mut violations);
    optional_enum::<v1::Severity>(filter.min_severity, &path.key("min_severity"), &mut violations);
    violations.into_vec()
}

/// Checks a request to move a session: its name, and the id of the ask whose answer suggests that.
pub fn accept_transition(request: &v1::AcceptTransitionRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    asks::check_session(&request.session, &root.key("session"), &mut violations);
    name(&request.request_id, "the request id", &root.key("request_id"), &mut violations);
    violations.into_vec()
}

/// Checks an ask by itself, with paths from it.
pub fn ask(ask: &v1::Ask) -> Vec<Violation> {
    let mut violations = Violations::default();
    asks::check(ask, &Path::Root, &mut violations);
    violations.into_vec()
}

/// Checks the name of a session.
pub fn session(session: &str) -> Vec<Violation> {
    let mut violations = Violations::default();
    asks::check_session(session, &Path::Root.key("session"), &mut violations);
    violations.into_vec()
}

fn check_labels(labels: &BTreeMap<String, String>, path: &Path<'_>, violations: &mut Violations) {
    if labels.len() > LABELS_MAX {
        violations.push(path, "limit", format!("{} labels; at most {LABELS_MAX} are allowed", labels.len()));
        return;
    }
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'/' | b'-')
    };
    for (key, value) in labels {
        let path = &path.key(key);
        if !(1..=LABEL_KEY_MAX).contains(&key.len()) || !key.bytes().all(allowed) {
            let message =
                format!("a label's key has 1 to {LABEL_KEY_MAX} characters of a-z, 0-9, `.`, `_`, `/`, `-`");
            violations.push(path, "label", message);
        }
        if value.len() > LABEL_VALUE_MAX_BYTES {
            let message =
                format!("a label's value has at most {LABEL_VALUE_MAX_BYTES} bytes, not {}", value.len());
            violations.push(path, "length", message);
        }
    }
}
