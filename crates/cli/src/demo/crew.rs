//! The demo's plan and agents.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use capataz_contracts::{Violation, plan_file::Format, v1};
use capataz_daemon::{Kind, ProcessAgent, Rules, RulesFile};

use super::agent::MODE;
use crate::plan_source;

const PLAN: &str = include_str!("plan.toml");
const RULES: &str = include_str!("rules.toml");

/// The planner of the demo's execution.
pub const PLANNER: &str = "demo-rules";
/// The tools that it may use.
pub const TOOLS: [&str; 3] = ["lines.count", "todos.find", "notes.append"];

/// What the planner goes by.
///
/// # Errors
/// Only a mistake in the file causes an error; a test finds such a mistake.
pub fn rules() -> Result<Rules, Vec<String>> {
    let file: RulesFile = toml::from_str(RULES).map_err(|error| vec![error.to_string()])?;
    Rules::new(file)
}

/// The exit code with which the flaky agent asks for another attempt: `EX_TEMPFAIL` of sysexits.h.
pub const TRY_AGAIN: u8 = 75;

/// Environment variables that cargo needs to find its toolchain, in addition to those that every command gets.
const CARGO_ENVIRONMENT: [&str; 7] =
    ["PATH", "HOME", "LANG", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];

/// The plan. A folder with a `Cargo.toml` gets two more tasks, which call cargo.
///
/// # Errors
/// Only a mistake in the plan file causes an error; a test finds such a mistake.
pub fn plan(folder: &Path) -> Result<v1::Plan, Vec<Violation>> {
    let mut plan = plan_source::parse(PLAN.as_bytes(), Format::Toml)?;
    if is_cargo(folder)
        && let Some(wave) = plan.waves.first_mut()
    {
        for (name, agent) in [("read-manifest", "cargo-metadata"), ("check-format", "cargo-fmt")] {
            wave.tasks.push(v1::Task {
                name: name.to_owned(),
                agent: agent.to_owned(),
                ..v1::Task::default()
            });
        }
    }
    Ok(plan)
}

fn is_cargo(folder: &Path) -> bool {
    folder.join("Cargo.toml").is_file()
}

/// The agents: this program in other roles, and cargo if the folder is a crate.
pub fn agents(program: &Path, folder: &Path, state: &Path) -> Vec<ProcessAgent> {
    let text = |path: &OsStr| path.to_string_lossy().into_owned();
    let own = |name: &str, category: &str, role: &str, path: &Path| {
        let command = [text(program.as_os_str()), MODE.to_owned(), role.to_owned(), text(path.as_os_str())];
        ProcessAgent { category: category.to_owned(), ..ProcessAgent::new(name, command) }
    };
    let flaky = own("flaky-service", "utility", "flaky", &state.join("flaky-service.attempts"));
    let tool = |agent: ProcessAgent, description: &str, undoable| ProcessAgent {
        kind: Kind::Tool,
        description: description.to_owned(),
        undoable,
        ..agent
    };
    let mut agents = vec![
        tool(own("lines.count", "modes", "lines", folder), "Counts files and lines.", true),
        tool(own("todos.find", "modes", "todos", folder), "Finds markers of what is left to do.", true),
        tool(
            own("notes.append", "modes", "note", &state.join("notes.jsonl")),
            "Appends to the notes.",
            false,
        ),
        own("line-counter", "exploration", "lines", folder),
        own("todo-finder", "exploration", "todos", folder),
        ProcessAgent { retryable_exit_codes: vec![i32::from(TRY_AGAIN)], ..flaky },
        own("slow-auditor", "verification", "slow", folder),
        own("summariser", "utility", "summary", folder),
    ];
    if is_cargo(folder) {
        let cargo = |name: &str, output, arguments: &[&str]| ProcessAgent {
            category: "verification".to_owned(),
            cwd: Some(folder.to_owned()),
            output,
            pass_env: CARGO_ENVIRONMENT.map(str::to_owned).to_vec(),
            max_output: MOST_METADATA,
            ..ProcessAgent::new(name, ["cargo"].iter().chain(arguments).copied())
        };
        use capataz_daemon::OutputFormat::{Json, Text};
        let metadata = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
        agents.push(cargo("cargo-metadata", Json, &metadata));
        agents.push(cargo("cargo-fmt", Text, &["fmt", "--check"]));
    }
    agents
}

/// Maximum size of cargo's metadata. The metadata of a large workspace takes some megabytes.
const MOST_METADATA: u64 = 16 * 1024 * 1024;

/// The folder's absolute path, for processes with other working folders.
pub fn absolute(folder: &Path) -> std::io::Result<PathBuf> {
    folder.canonicalize()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_task_has_its_agent() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let agents = agents(Path::new("/capataz"), here, Path::new("/state"));
        assert!(agents.iter().all(|agent| agent.validate().is_empty()));
        let known: BTreeSet<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let plan = plan(here).unwrap_or_default();
        let tasks = plan.waves.iter().flat_map(|wave| &wave.tasks);
        let asked: BTreeSet<&str> = tasks.map(|task| task.agent.as_str()).chain(TOOLS).collect();
        assert!(rules().is_ok());
        assert_eq!(known, asked);
        assert_eq!(plan.waves.iter().map(|wave| wave.tasks.len()).collect::<Vec<_>>(), [6, 1]);
    }

    #[test]
    fn any_folder_will_do() {
        let plan = plan(Path::new("/")).unwrap_or_default();
        assert_eq!(plan.waves.first().map(|wave| wave.tasks.len()), Some(4));
    }
}
