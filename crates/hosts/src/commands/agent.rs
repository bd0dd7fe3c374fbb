//! What a process agent is, as `capataz.toml` declares it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use capataz_contracts::validate::{DESCRIPTION_MAX, wrong_agent_name};
use capataz_contracts::version::ContractVersion;
use capataz_contracts::{Violation, v1};
use serde::Deserialize;

use super::environment::{Template, secrets_of};

/// What a command gets from the daemon's environment where its agent does not say.
pub const DEFAULT_PASS_ENV: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR"];

/// Bytes of stdout that a command may write where its agent does not say.
pub const DEFAULT_MAX_OUTPUT: u64 = 1024 * 1024;

/// The highest `max_output`: the same as for one blob. The output is held in memory until the task ends.
pub const MAX_MAX_OUTPUT: u64 = 64 * 1024 * 1024;

/// A command that serves tasks: one entry of `[[agents]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessAgent {
    pub name: String,
    #[serde(default)]
    pub category: String,
    /// What the agent is for: a task of plans, a tool of executions, or a planner of them.
    #[serde(default)]
    pub kind: Kind,
    /// What it does, for planners and people; at most 2,000 bytes.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its inputs. Absent: it takes anything.
    #[serde(default)]
    pub input_schema: Option<serde_json::Value>,
    /// Of a tool: what it does can be undone, or it changes nothing.
    #[serde(default)]
    pub undoable: bool,
    /// Of a tool: a person approves each call of it.
    #[serde(default)]
    pub needs_approval: bool,
    /// The version of the spec contract that the command speaks, a semantic version.
    #[serde(default = "default_contract_version")]
    pub contract_version: String,
    /// Program and arguments, handed over as they are: there is no shell and no substitution. A program without a slash
    /// is looked for in the `PATH` that the command gets.
    pub command: Vec<String>,
    /// Working directory, absolute. Absent: the daemon's.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Variables for the command, over those of `pass_env`. A value may contain `${secret:NAME}`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the variables that the command gets from the daemon's environment. A list here replaces
    /// [`DEFAULT_PASS_ENV`].
    #[serde(default = "default_pass_env")]
    pub pass_env: Vec<String>,
    /// How stdout is read.
    #[serde(default)]
    pub output: OutputFormat,
    /// Most commands of this agent at one time, at least 1.
    #[serde(default = "default_max_concurrency")]
    pub max_concurrency: u32,
    /// Exit codes that mean "try again": they become the code SERVICE_UNAVAILABLE.
    #[serde(default)]
    pub retryable_exit_codes: Vec<i32>,
    /// Whether workers may serve the agent as well.
    #[serde(default)]
    pub shared: bool,
    /// Most bytes of stdout. More than these end the command with OUTPUT_TOO_LARGE.
    #[serde(default = "default_max_output")]
    pub max_output: u64,
}

/// What an agent is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Task,
    Tool,
    Planner,
}

impl Kind {
    /// As the protocol has it.
    #[must_use]
    pub fn to_proto(self) -> v1::AgentKind {
        match self {
            Self::Task => v1::AgentKind::Task,
            Self::Tool => v1::AgentKind::Tool,
            Self::Planner => v1::AgentKind::Planner,
        }
    }
}

/// How a command's stdout is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// JSON where it is one JSON value, nothing at all included, else text.
    #[default]
    Auto,
    /// One JSON value; nothing at all is `null`. Anything else fails the task.
    Json,
    /// Text. Bytes that are not UTF-8 are replaced.
    Text,
}

fn default_pass_env() -> Vec<String> {
    DEFAULT_PASS_ENV.iter().map(|name| (*name).to_owned()).collect()
}

fn default_contract_version() -> String {
    capataz_contracts::spec::VERSION.to_string()
}

fn default_max_concurrency() -> u32 {
    1
}

fn default_max_output() -> u64 {
    DEFAULT_MAX_OUTPUT
}

impl ProcessAgent {
    /// An agent with every default.
    pub fn new(name: impl Into<String>, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name: name.into(),
            category: String::new(),
            kind: Kind::default(),
            description: String::new(),
            input_schema: None,
            undoable: false,
            needs_approval: false,
            contract_version: default_contract_version(),
            command: command.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            pass_env: default_pass_env(),
            output: OutputFormat::default(),
            max_concurrency: default_max_concurrency(),
            retryable_exit_codes: Vec::new(),
            shared: false,
            max_output: DEFAULT_MAX_OUTPUT,
        }
    }

    /// The agent as plans and workers know it.
    pub fn described(&self) -> v1::Agent {
        v1::Agent {
            name: self.name.clone(),
            category: self.category.clone(),
            kind: self.kind.to_proto().into(),
            description: self.description.clone(),
            input_schema: self.input_schema.as_ref().map(ToString::to_string).unwrap_or_default(),
            undoable: self.undoable,
            needs_approval: self.needs_approval,
            contract_version: self.contract_version.clone(),
            max_concurrency: self.max_concurrency,
            // It is told by SIGTERM, which nobody can take back.
            cancel_is_final: true,
            ..v1::Agent::default()
        }
    }

    /// The secrets that its variables refer to: the variable and the secret's name. What is no reference is skipped.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env
            .iter()
            .flat_map(|(variable, value)| secrets_of(value).into_iter().map(|name| (variable.as_str(), name)))
    }

    /// Everything that is wrong with the declaration, in the order of the fields; paths are relative to the agent.
    pub fn validate(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut refuse = |path: String, rule, message: &str| {
            violations.push(Violation::new(path, rule, message));
        };
        if let Some((rule, message)) = wrong_agent_name(&self.name) {
            refuse("name".into(), rule, &message);
        }
        if let Err(violation) = self.contract_version.parse::<ContractVersion>() {
            refuse("contract_version".into(), violation.rule, &violation.message);
        }
        if self.description.len() > DESCRIPTION_MAX {
            let most = format!("at most {DESCRIPTION_MAX} bytes");
            refuse("description".into(), "length", &most);
        }
        for (name, given) in [("undoable", self.undoable), ("needs_approval", self.needs_approval)] {
            if given && self.kind != Kind::Tool {
                refuse(name.into(), "kind", "only of an agent whose kind is \"tool\"");
            }
        }
        match self.command.first() {
            None => refuse("command".into(), "required", "a command needs at least the program"),
            Some(program) if program.is_empty() => {
                refuse("command[0]".into(), "required", "the program's name is empty");
            }
            Some(_) => {}
        }
        for (index, argument) in self.command.iter().enumerate() {
            let path = format!("command[{index}]");
            if argument.contains('\0') {
                refuse(path, "no_nul", "an argument cannot contain a zero byte");
            } else if Template::mentions_secret(argument) {
                refuse(
                    path,
                    "secret_in_command",
                    "everybody can read arguments; give the secret through `env`",
                );
            }
        }
        if let Some(cwd) = &self.cwd
            && !cwd.is_absolute()
        {
            refuse("cwd".into(), "absolute_path", "the working directory must be an absolute path");
        }
        for (name, value) in &self.env {
            let path = format!("env.{name}");
            if !is_variable_name(name) {
                refuse(path, "variable_name", NOT_A_NAME);
            } else if value.contains('\0') {
                refuse(path, "no_nul", "a value cannot contain a zero byte");
            } else if let Err(problem) = Template::parse(value) {
                refuse(path, "secret_reference", &problem);
            }
        }
        for (index, name) in self.pass_env.iter().enumerate() {
            if !is_variable_name(name) {
                refuse(format!("pass_env[{index}]"), "variable_name", NOT_A_NAME);
            }
        }
        if self.max_concurrency == 0 {
            refuse("max_concurrency".into(), "range", "at least 1");
        }
        let mut seen = BTreeSet::new();
        for (index, code) in self.retryable_exit_codes.iter().enumerate() {
            let path = format!("retryable_exit_codes[{index}]");
            if !(1..=255).contains(code) {
                refuse(path, "range", "an exit code that means a failure is between 1 and 255");
            } else if !seen.insert(code) {
                refuse(path, "unique", "the code is listed twice");
            }
        }
        if !(1..=MAX_MAX_OUTPUT).contains(&self.max_output) {
            let range = format!("between 1 and {MAX_MAX_OUTPUT} bytes");
            refuse("max_output".into(), "range", &range);
        }
        violations
    }
}

const NOT_A_NAME: &str = "not the name of a variable: it is empty or contains `=` or a zero byte";

fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> Result<ProcessAgent, serde_json::Error> {
        serde_json::from_value(json)
    }

    #[test]
    fn everything_but_name_and_command_has_a_default() {
        let agent = read(serde_json::json!({"name": "echo", "command": ["cat"]})).ok();
        assert_eq!(agent, Some(ProcessAgent::new("echo", ["cat"])));
        assert_eq!(agent.map(|agent| agent.validate()), Some(Vec::new()));
    }

    #[test]
    fn an_agent_speaks_the_contract_that_its_declaration_names() {
        let described = |json| read(json).ok().map(|agent| agent.described().contract_version);
        let command = serde_json::json!(["cat"]);
        let named = serde_json::json!({"name": "a", "command": command.clone(), "contract_version": "2.1.0"});
        assert_eq!(described(named).as_deref(), Some("2.1.0"));
        let silent = serde_json::json!({"name": "a", "command": command});
        assert_eq!(described(silent).as_deref(), Some("1.0.0"));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let error = read(serde_json::json!({"name": "echo", "command": ["cat"], "shell": true})).err();
        assert!(error.is_some_and(|error| error.to_string().contains("shell")));
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut ProcessAgent), expected: &[(&str, &str)]) {
        let mut agent = ProcessAgent::new("echo", ["cat"]);
        change(&mut agent);
        let violations = agent.validate();
        let found: Vec<_> =
            violations.iter().map(|violation| (violation.path.as_str(), violation.rule)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_rule_names_its_field() {
        check(|agent| agent.name.clear(), &[("name", "required")]);
        check(|agent| agent.name = "界".repeat(128), &[]);
        check(|agent| agent.name = "界".repeat(129), &[("name", "length")]);
        check(|agent| agent.name = "a\u{7}".into(), &[("name", "characters")]);
        check(|agent| agent.contract_version = "2".into(), &[("contract_version", "semver")]);
        check(|agent| agent.contract_version = "2.1.0-rc.1".into(), &[]);
        check(|agent| agent.command.clear(), &[("command", "required")]);
        check(|agent| agent.command = vec![String::new()], &[("command[0]", "required")]);
        check(|agent| agent.command.push("a\0b".into()), &[("command[1]", "no_nul")]);
        check(|agent| agent.command.push("${secret:K}".into()), &[("command[1]", "secret_in_command")]);
        check(|agent| agent.cwd = Some("here".into()), &[("cwd", "absolute_path")]);
        check(|agent| drop(agent.env.insert("A=B".into(), String::new())), &[("env.A=B", "variable_name")]);
        check(
            |agent| drop(agent.env.insert("A".into(), "${secret:K".into())),
            &[("env.A", "secret_reference")],
        );
        check(|agent| agent.pass_env.push(String::new()), &[("pass_env[4]", "variable_name")]);
        check(|agent| agent.max_concurrency = 0, &[("max_concurrency", "range")]);
        check(
            |agent| agent.retryable_exit_codes = vec![0, 75, 75],
            &[("retryable_exit_codes[0]", "range"), ("retryable_exit_codes[2]", "unique")],
        );
        check(|agent| agent.max_output = 0, &[("max_output", "range")]);
    }
}
