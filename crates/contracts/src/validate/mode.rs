//! The shape of an execution: its query, its planner and its tools. Whether they are there, others say.

use super::ask::{TEXT_MAX, check_session};
use super::{name, optional_enum, script_policy};
use crate::browser::{ALL_TOOLS, TOOL_PREFIX};
use crate::path::{Path, shown};
use crate::v1;
use crate::violation::{Violation, Violations};

/// Tools of one run.
pub const TOOLS_MAX: usize = 64;
/// Stands for every agent of kind tool that is known, in the request of an execution.
pub const ALL_AGENTS: &str = "*";
/// Names of files that a prompt tells.
pub const WORKSPACE_MAX: usize = 1_000;
/// Actions of one run at most.
pub const MODE_STEPS_MAX: u32 = 1_000;
/// Bytes of the name of a file.
const FILE_MAX: usize = 512;
const TOOL_NAME_MAX: usize = 128;

/// Checks the shape of an execution.
#[must_use]
pub fn mode(run: &v1::ModeRun) -> Vec<Violation> {
    let mut violations = Violations::default();
    check(run, &Path::Root, &mut violations);
    violations.into_vec()
}

pub fn check(run: &v1::ModeRun, path: &Path<'_>, violations: &mut Violations) {
    check_query(&run.query, &path.key("query"), violations);
    optional_enum::<v1::ExecutionMode>(run.mode, &path.key("mode"), violations);
    if let Some(session) = &run.session {
        check_session(session, &path.key("session"), violations);
    }
    // Without one it is the only one that is known.
    if !run.planner.is_empty() {
        name(&run.planner, "the planner", &path.key("planner"), violations);
    }
    if run.tools.len() > TOOLS_MAX {
        let message = format!("{} tools; at most {TOOLS_MAX} are allowed", run.tools.len());
        violations.push(&path.key("tools"), "limit", message);
    } else {
        let tools = &path.key("tools");
        for (index, tool) in run.tools.iter().enumerate() {
            let path = &tools.index(index);
            check_tool(tool, path, violations);
            if run.tools.iter().take(index).any(|before| before.name == tool.name) {
                let message = format!("`{}` is there twice", shown(&tool.name));
                violations.push(&path.key("name"), "duplicate", message);
            }
        }
    }
    if run.workspace.len() > WORKSPACE_MAX {
        let message = format!("{} files; at most {WORKSPACE_MAX} are allowed", run.workspace.len());
        violations.push(&path.key("workspace"), "limit", message);
    } else {
        for (index, file) in run.workspace.iter().enumerate() {
            check_file(file, &path.key("workspace").index(index), violations);
        }
    }
    if let Some(file) = &run.current_file {
        check_file(file, &path.key("current_file"), violations);
    }
    if run.autonomy_level.is_some_and(|level| !(0.0..=1.0).contains(&level)) {
        violations.push(&path.key("autonomy_level"), "range", "the level is from 0 to 1");
    }
    if run.max_steps.is_some_and(|steps| !(1..=MODE_STEPS_MAX).contains(&steps)) {
        let message = format!("a run has 1 to {MODE_STEPS_MAX} actions");
        violations.push(&path.key("max_steps"), "range", message);
    }
    check_browser(run, path, violations);
    if !run.run_id.is_empty() {
        violations.push(&path.key("run_id"), "output_only", "only the daemon sets this field");
    }
}

/// Checks a query by itself.
#[must_use]
pub fn query(query: &str) -> Vec<Violation> {
    let mut violations = Violations::default();
    check_query(query, &Path::Key(&Path::Root, "query"), &mut violations);
    violations.into_vec()
}

/// What is to be done: 1 to 16 KiB of text that is not blank.
fn check_query(query: &str, path: &Path<'_>, violations: &mut Violations) {
    if query.trim().is_empty() {
        violations.push(path, "blank", "the query is missing or blank");
    } else if query.len() > TEXT_MAX {
        let message = format!("the query has {} bytes; at most {TEXT_MAX} are allowed", query.len());
        violations.push(path, "length", message);
    }
}

fn check_browser(run: &v1::ModeRun, path: &Path<'_>, violations: &mut Violations) {
    if let Some(policy) = &run.browser_policy {
        script_policy::check(policy, &path.key("browser_policy"), violations);
    }
    if let Some(browser) = &run.browser {
        script_policy::check_browser(browser, &path.key("browser"), violations);
    }
    let uses_it = run.tools.iter().any(|tool| tool.name.starts_with(TOOL_PREFIX));
    for (field, given) in
        [("browser_policy", run.browser_policy.is_some()), ("browser", run.browser.is_some())]
    {
        if given && !uses_it {
            let message =
                format!("no tool of the run uses a browser; name some, or {ALL_TOOLS} for all of them");
            violations.push(&path.key(field), "fields", message);
        }
    }
}

fn check_tool(tool: &v1::ModeTool, path: &Path<'_>, violations: &mut Violations) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let named = (1..=TOOL_NAME_MAX).contains(&tool.name.len()) && tool.name.bytes().all(allowed);
    if !named && !matches!(tool.name.as_str(), ALL_TOOLS | ALL_AGENTS) {
        let message = format!("the name of a tool has 1 to {TOOL_NAME_MAX} letters, digits, `.`, `_` or `-`");
        violations.push(&path.key("name"), "name", message);
    }
    let of_daemon = [
        ("description", !tool.description.is_empty()),
        ("input_schema", !tool.input_schema.is_empty()),
        ("undoable", tool.undoable),
    ];
    for (field, given) in of_daemon {
        if given {
            violations.push(&path.key(field), "output_only", "only the daemon sets this field");
        }
    }
    optional_enum::<v1::Effect>(tool.effect, &path.key("effect"), violations);
}

fn check_file(file: &str, path: &Path<'_>, violations: &mut Violations) {
    if !(1..=FILE_MAX).contains(&file.len()) {
        violations.push(path, "length", format!("the name of a file has 1 to {FILE_MAX} bytes"));
    }
}
