//! Requests of ExecutorService.

use super::{name, request, script, script_policy};
use crate::path::Path;
use crate::v1;
use crate::violation::{Violation, Violations};

const REQUEST_ID_MAX_BYTES: usize = 256;

/// Checks a request that opens an interactive browser session.
pub fn open_browser(request: &v1::OpenBrowserRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    if !request.name.is_empty() {
        name(&request.name, "the session's name", &root.key("name"), &mut violations);
    }
    if let Some(policy) = &request.policy {
        script_policy::check(policy, &root.key("policy"), &mut violations);
    }
    if let Some(browser) = &request.browser {
        script_policy::check_browser(browser, &root.key("browser"), &mut violations);
    }
    script::duration(request.idle_timeout_ms, &root.key("idle_timeout_ms"), &mut violations);
    request::header(request.idempotency_key.as_deref(), &request.labels, root, &mut violations);
    script::variables(&request.variables, &root.key("variables"), &mut violations);
    violations.into_vec()
}

/// Checks a request that proposes one action.
pub fn propose(request: &v1::ProposeRequest) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    name(&request.run_id, "the session's run", &root.key("run_id"), &mut violations);
    if !(1..=REQUEST_ID_MAX_BYTES).contains(&request.request_id.len()) {
        let message = format!("a request id has 1 to {REQUEST_ID_MAX_BYTES} bytes");
        violations.push(&root.key("request_id"), "length", message);
    }
    match &request.action {
        None => violations.push(&root.key("action"), "required", "the action is missing"),
        Some(action) => script::check_action(action, &root.key("action"), &mut violations),
    }
    violations.into_vec()
}

/// Checks the name of a storage state.
pub fn storage_state(state: &str) -> Vec<Violation> {
    let mut violations = Violations::default();
    script_policy::storage_state(state, &Path::Root.key("name"), &mut violations);
    violations.into_vec()
}
