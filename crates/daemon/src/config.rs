//! The configuration of the daemon: defaults, then `capataz.toml`, then `CAPATAZ_*`, then flags.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::validate::{AGENTS_BYTES_MAX, AGENTS_MAX, DESCRIPTION_MAX, wrong_agent_name};
use capataz_contracts::{duration, v1};
use capataz_hosts::browsers::BrowserConfig;
use capataz_hosts::commands::{Kind, ProcessAgent, ShimCommand};
use capataz_hosts::models::ModelAgent;
use capataz_hosts::rules::{RULES_BYTES, Rules, RulesFile};
use capataz_runtime::Trace;
use figment::Figment;
use figment::providers::{Format as _, Serialized};
use prost::Message as _;
use serde::{Deserialize, Deserializer};

use crate::DaemonError;
use crate::clock::Clock;
use crate::specs::Source;

mod document;
mod layers;
mod needs;
mod problem;
mod profile;
mod telemetry;
#[cfg(test)]
mod tests;
mod text;
mod whereabouts;

pub use needs::{Lack, Need};
pub use problem::Problem;
pub use telemetry::TelemetryConfig;
pub use whereabouts::Whereabouts;

use document::{Document, MOST};
use layers::{Environment, Toml};
use problem::in_order;

/// The file that is read from the working folder if no other is named.
const FILE: &str = "capataz.toml";
/// Bytes of that file.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// The folder of spec files if no other is named.
const SPECS: &str = "specs";

/// The daemon's configuration. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address and port to listen on. Only loopback addresses are allowed; port 0 takes a free port.
    #[serde(default = "default_listen")]
    pub listen: String,
    /// Folder of the database, blobs and locks. Paths of a file are relative to the folder that the file is in.
    #[serde(default = "default_data_dir")]
    pub data_dir: PathBuf,
    /// Folder of the spec files; default `specs` of the working folder, where it is there.
    #[serde(default)]
    pub specs_dir: Option<PathBuf>,
    /// Spec files, by name and content, instead of those of a folder; for programs that embed the daemon.
    #[serde(skip)]
    pub specs: Vec<(String, String)>,
    /// Files that declare agents, commands and resources, beside those of this configuration.
    #[serde(default)]
    pub profiles: Vec<PathBuf>,
    /// Process agents.
    #[serde(default)]
    pub agents: Vec<ProcessAgent>,
    /// Agents that plans may name before any worker has served them.
    #[serde(default)]
    pub declared_agents: Vec<DeclaredAgent>,
    /// Planners of executions that go by rules.
    #[serde(default)]
    pub planners: Vec<RulesPlanner>,
    /// Their rules, by their names; for programs that embed the daemon, without files.
    #[serde(skip)]
    pub rules: BTreeMap<String, Arc<Rules>>,
    /// Language models as agents.
    #[serde(default)]
    pub models: Vec<ModelAgent>,
    /// Commands and resources that plans may name.
    #[serde(default)]
    pub commands: Vec<String>,
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub retention: RetentionConfig,
    /// How workers show that they are well.
    #[serde(default)]
    pub health_checks: HealthChecks,
    /// Browsers of scripts.
    #[serde(default)]
    pub browser: BrowserConfig,
    /// Where runs are sent as traces.
    #[serde(default)]
    pub telemetry: TelemetryConfig,
    /// How long a daemon that was told to stop waits for running tasks.
    #[serde(default = "drain_timeout", deserialize_with = "required_duration")]
    pub drain_timeout: Duration,
    /// Folder of secrets, one file each, for those that the environment does not have.
    #[serde(default)]
    pub secrets_dir: Option<PathBuf>,
    /// How process agents' shims are started; for programs that embed the daemon.
    #[serde(skip)]
    pub shim: Option<ShimCommand>,
    /// A form to try a browser on is served under `/demo`.
    #[serde(default)]
    pub demo_page: bool,
    /// Where the time comes from; for programs that embed the daemon.
    #[serde(skip)]
    pub clock: Clock,
    /// Where everything that the shards are told is recorded, for whoever looks for a fault; `None` for nowhere.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Where each value came from.
    #[serde(skip)]
    origins: Vec<(String, String, String)>,
    /// How it was read.
    #[serde(skip)]
    read: Read,
}

/// How a configuration was read, so that it can be read again.
#[derive(Clone, Debug, Default)]
struct Read {
    /// The file that was named, or was there.
    file: Option<PathBuf>,
    overrides: Overrides,
    /// Every file whose content counts.
    files: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredAgent {
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
    /// The version of the spec contract that its workers speak, a semantic version; what a worker says itself stands before
    /// it.
    #[serde(default = "default_contract_version")]
    pub contract_version: String,
}

/// A planner that goes by the rules of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesPlanner {
    pub name: String,
    /// The file of rules.
    pub rules: PathBuf,
}

impl RulesPlanner {
    /// # Errors
    /// All that is wrong with its file; `named` tells that it cannot be read, at the place that names it.
    fn read(&self, named: impl Fn(&str) -> Option<Problem>) -> Result<Rules, Vec<Problem>> {
        let file = self.rules.display().to_string();
        let unread =
            |error: std::io::Error| named(&format!("{file}: {error}")).into_iter().collect::<Vec<_>>();
        let text = text::read(&self.rules, RULES_BYTES).map_err(unread)?;
        let mut part = Document::parse(file.as_str(), &text)?.read_what_can_be::<RulesFile>();
        let mut problems = std::mem::take(&mut part.problems);
        match part.value.take().map(Rules::new) {
            Some(Ok(rules)) if problems.is_empty() => Ok(rules),
            Some(Ok(_)) | None => Err(problems),
            Some(Err(mut found)) => {
                found.retain(|problem| !part.is_of_a_gap(problem));
                problems.extend(told(&found, |problem| part.placed(problem)));
                Err(problems)
            }
        }
    }
}

/// The address that `listen` says.
fn address(listen: &str) -> Result<SocketAddr, std::net::AddrParseError> {
    listen.replace("localhost:", "127.0.0.1:").parse()
}

fn default_listen() -> String {
    "127.0.0.1:7411".to_owned()
}

fn default_contract_version() -> String {
    capataz_contracts::spec::VERSION.to_string()
}

impl DeclaredAgent {
    /// An agent with every default.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            category: String::new(),
            kind: Kind::default(),
            description: String::new(),
            input_schema: None,
            undoable: false,
            needs_approval: false,
            contract_version: default_contract_version(),
        }
    }

    pub fn in_category(self, category: impl Into<String>) -> Self {
        Self { category: category.into(), ..self }
    }

    /// The agent, as it is known before a worker serves it.
    pub(crate) fn described(&self) -> v1::Agent {
        v1::Agent {
            name: self.name.clone(),
            category: self.category.clone(),
            kind: self.kind.to_proto().into(),
            description: self.description.clone(),
            input_schema: self.input_schema.as_ref().map(ToString::to_string).unwrap_or_default(),
            undoable: self.undoable,
            needs_approval: self.needs_approval,
            contract_version: self.contract_version.clone(),
            ..v1::Agent::default()
        }
    }

    /// All that is wrong with it.
    fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(wrong_agent_name(&self.name).map(|(_, message)| format!("name: {message}")));
        if let Err(violation) = self.contract_version.parse::<capataz_contracts::version::ContractVersion>() {
            problems.push(format!("contract_version: {}", violation.message));
        }
        if self.description.len() > DESCRIPTION_MAX {
            problems.push(format!("description: at most {DESCRIPTION_MAX} bytes"));
        }
        for (field, given) in [("undoable", self.undoable), ("needs_approval", self.needs_approval)] {
            if given && self.kind != Kind::Tool {
                problems.push(format!("{field}: only of an agent whose kind is \"tool\""));
            }
        }
        problems.extend(wrong_schema(self.input_schema.as_ref()));
        problems
    }
}

/// The rules by which old data is removed. Durations are strings with units, such as "30d".
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// The time for which finished runs are kept, with all of their events; absent: for ever.
    #[serde(deserialize_with = "optional_duration")]
    pub finished_runs: Option<Duration>,
    /// The bytes of events beyond which finished runs are removed, the oldest first.
    pub max_log_bytes: Option<u64>,
    /// The time for which idempotency keys are kept after their run's end.
    #[serde(deserialize_with = "required_duration")]
    pub idempotency_keys: Duration,
    /// The time for which blobs are kept that no run names.
    #[serde(deserialize_with = "required_duration")]
    pub unused_blobs: Duration,
    /// The clock of the machine is right, whatever it has said: what it makes old is old.
    pub believe_clock: bool,
}

/// The health checks of work that goes on (seed 000, contract 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthChecks {
    /// How often a worker is looked at, and has to say something.
    #[serde(deserialize_with = "required_duration")]
    pub interval: Duration,
    /// Checks in a row that find nothing said, after which the worker has lost its tasks.
    pub missed: u32,
}

impl Default for HealthChecks {
    /// Every 5 s, and three of them.
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), missed: 3 }
    }
}

impl HealthChecks {
    /// The intervals that can be chosen. Work that a worker does not acknowledge is found at the checks, too.
    const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(60);
    /// A single check that finds nothing is not silence yet: what was said may be on its way.
    const MISSED: RangeInclusive<u32> = 2..=100;

    fn check(self) -> Vec<String> {
        let mut problems = Vec::new();
        if !Self::INTERVALS.contains(&self.interval) {
            problems.push("health_checks.interval: from 500ms to 1m".to_owned());
        }
        if !Self::MISSED.contains(&self.missed) {
            problems.push("health_checks.missed: from 2 to 100".to_owned());
        }
        problems
    }
}

/// How long a daemon that was told to stop waits for running tasks, where the configuration does not say.
const DRAIN: Duration = Duration::from_secs(30);

fn drain_timeout() -> Duration {
    DRAIN
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            finished_runs: Some(30 * DAY),
            max_log_bytes: None,
            idempotency_keys: DAY,
            unused_blobs: DAY,
            believe_clock: false,
        }
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub listen: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub specs_dir: Option<PathBuf>,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// Each line names the file with line and column, the key, and what is wrong with it.
    #[error("{}", problem::lines(.0))]
    Invalid(Vec<Problem>),
}

impl Config {
    /// Reads the configuration. Without `file`, `capataz.toml` of the working folder is read where it is there.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Self, ConfigError> {
        if let Some(file) = file
            && !file.is_file()
        {
            return Err(ConfigError::Missing(file.to_owned()));
        }
        let file = file.unwrap_or(Path::new(FILE));
        let text = match file.is_file() {
            true => text::read(file, FILE_BYTES).map_err(|error| {
                let message = error.to_string();
                let file = Some(file.display().to_string());
                ConfigError::Invalid(vec![Problem { file, message, ..Problem::default() }])
            })?,
            false => String::new(),
        };
        let document = Document::parse(file.display().to_string(), &text).map_err(ConfigError::Invalid)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut part = document.read_what_can_be::<Self>();
        let mut problems = std::mem::take(&mut part.problems);
        if !problems.is_empty() {
            if let Some(mut config) = part.value.take() {
                config.locate(folder, |_| true);
                let variables = Figment::from(Environment::of_this_process());
                let is_above = overrides.listen.is_some() || variables.contains("listen");
                // What stands above the file is judged once the file can be read.
                let mut found = config.check();
                found.retain(|problem| !is_above || !problem.starts_with("listen:"));
                found.retain(|problem| !part.is_of_a_gap(problem));
                problems.extend(told(&found, |problem| part.placed(problem)));
                let placed = |problem: &str| (!part.is_of_a_gap(problem)).then(|| part.placed(problem));
                problems.extend(config.read_files(placed));
            }
            return Err(ConfigError::Invalid(in_order(problems)));
        }
        // What it says is read with the other layers.
        let mut figment = Figment::new()
            .merge(Serialized::default("listen", default_listen()))
            .merge(Serialized::default("data_dir", default_data_dir()))
            .merge(Toml::string(document.text()))
            .merge(Environment::of_this_process());
        let flags = overrides.clone();
        if let Some(listen) = overrides.listen {
            figment = figment.merge(Serialized::global("listen", listen));
        }
        if let Some(data_dir) = overrides.data_dir {
            figment = figment.merge(Serialized::global("data_dir", data_dir));
        }
        if let Some(specs_dir) = overrides.specs_dir {
            figment = figment.merge(Serialized::global("specs_dir", specs_dir));
        }
        let mut config: Self = figment.extract().map_err(|error| {
            let problem =
                |error: figment::Error| Problem { message: error.to_string(), ..Problem::default() };
            ConfigError::Invalid(error.into_iter().map(problem).collect())
        })?;
        if config.specs_dir.is_none() && Path::new(SPECS).is_dir() {
            config.specs_dir = Some(PathBuf::from(SPECS));
        }
        let is_of_file = |key: &&str| {
            figment.find_metadata(key).is_some_and(|metadata| metadata.name.contains(Toml::NAME))
        };
        let of_file: BTreeSet<&str> = document.keys().filter(is_of_file).collect();
        config.locate(folder, |key| of_file.contains(key));
        // A problem of a value that the file has gets its line; one of a variable or a flag has none there.
        let mut problems = told(&config.check(), |problem| match problem.split(['.', '[', ':']).next() {
            Some(key) if of_file.contains(key) => document.placed(problem),
            _ => Problem::told(problem),
        });
        problems.extend(config.read_files(|problem| Some(document.placed(problem))));
        config.origins = origins(&figment, &config, &flags, file);
        let named = config.profiles.iter().chain(config.planners.iter().map(|planner| &planner.rules));
        let files = [file.to_owned()].into_iter().chain(named.cloned()).collect();
        config.read = Read { file: file.is_file().then(|| file.to_owned()), overrides: flags, files };
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(in_order(problems))) }
    }

    /// Makes relative paths of the file those of the folder that the file is in. What a variable or a flag says, which
    /// `is_of_file` tells apart, and what a command is given, are paths of the working folder.
    fn locate(&mut self, folder: &Path, is_of_file: impl Fn(&str) -> bool) {
        let locate = |path: &mut PathBuf| {
            if !path.as_os_str().is_empty() {
                *path = folder.join(&*path);
            }
        };
        if is_of_file("data_dir") {
            locate(&mut self.data_dir);
        }
        if is_of_file("specs_dir") {
            self.specs_dir.iter_mut().for_each(locate);
        }
        self.secrets_dir.iter_mut().for_each(locate);
        self.browser.program.iter_mut().for_each(locate);
        self.profiles.iter_mut().for_each(locate);
        self.planners.iter_mut().map(|planner| &mut planner.rules).for_each(locate);
        // A program without a slash is looked for along a path, and one of a command that has a folder is there.
        let here = self.agents.iter_mut().filter(|agent| agent.cwd.is_none());
        for program in here.filter_map(|agent| agent.command.first_mut()).filter(|name| name.contains('/')) {
            if let Ok(located) = folder.join(program.as_str()).into_os_string().into_string() {
                *program = located;
            }
        }
    }

    /// Reads the files that it names, and returns all that is wrong with them; `placed` gives a problem of a path of the
    /// configuration its place there, if it is to be told.
    fn read_files(&mut self, placed: impl Fn(&str) -> Option<Problem>) -> Vec<Problem> {
        let profiles = self.profiles.clone();
        let mut problems = profile::add(self, &profiles, &placed);
        for (index, planner) in self.planners.iter().enumerate() {
            match planner.read(|problem| placed(&format!("planners[{index}].rules: {problem}"))) {
                Ok(rules) => drop(self.rules.insert(planner.name.clone(), Arc::new(rules))),
                Err(found) => problems.extend(found),
            }
        }
        problems
    }

    /// A configuration for a program that embeds the daemon: a free loopback port, and nothing else.
    #[must_use]
    pub fn embedded(data_dir: PathBuf) -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            data_dir,
            specs_dir: None,
            specs: Vec::new(),
            profiles: Vec::new(),
            agents: Vec::new(),
            declared_agents: Vec::new(),
            planners: Vec::new(),
            rules: BTreeMap::new(),
            models: Vec::new(),
            commands: Vec::new(),
            resources: Vec::new(),
            retention: RetentionConfig::default(),
            health_checks: HealthChecks::default(),
            browser: BrowserConfig::default(),
            telemetry: TelemetryConfig::default(),
            drain_timeout: DRAIN,
            secrets_dir: None,
            shim: None,
            demo_page: false,
            clock: Clock::default(),
            trace: None,
            origins: Vec::new(),
            read: Read::default(),
        }
    }

    /// Reads it again, as it was read; blocks. A file that was there has to be there.
    pub(crate) fn again(&self) -> impl FnOnce() -> Result<Self, ConfigError> + Send + 'static {
        let Read { file, overrides, .. } = self.read.clone();
        move || Self::load(file.as_deref(), overrides)
    }

    /// The files whose content counts. One that is not there may come.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.read.files
    }

    /// Takes over what the other one says of agents, commands and resources.
    pub(crate) fn take_names(&mut self, from: Self) {
        self.profiles = from.profiles;
        self.agents = from.agents;
        self.declared_agents = from.declared_agents;
        self.planners = from.planners;
        self.rules = from.rules;
        self.models = from.models;
        self.commands = from.commands;
        self.resources = from.resources;
        self.read = from.read;
    }

    /// Effective values: key, value, origin.
    #[must_use]
    pub fn describe(&self) -> &[(String, String, String)] {
        &self.origins
    }

    pub(crate) fn spec_source(&self) -> Source {
        match &self.specs_dir {
            Some(folder) => Source::Folder(folder.clone()),
            None if self.specs.is_empty() => Source::None,
            None => Source::Files(self.specs.clone()),
        }
    }

    /// The names of agents that it declares itself, by the key that declares them.
    fn named(&self) -> [(&'static str, Vec<&str>); 4] {
        [
            ("agents", self.agents.iter().map(|agent| &*agent.name).collect()),
            ("declared_agents", self.declared_agents.iter().map(|agent| &*agent.name).collect()),
            ("planners", self.planners.iter().map(|planner| &*planner.name).collect()),
            ("models", self.models.iter().map(|model| &*model.name).collect()),
        ]
    }

    /// All that is wrong with it, each with its path.
    fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, agent) in self.agents.iter().enumerate() {
            let found = agent.validate();
            problems.extend(found.iter().map(|violation| format!("agents[{index}].{violation}")));
            let found = wrong_schema(agent.input_schema.as_ref());
            problems.extend(found.map(|problem| format!("agents[{index}].{problem}")));
        }
        for (index, model) in self.models.iter().enumerate() {
            let found = model.validate();
            problems.extend(found.iter().map(|violation| format!("models[{index}].{violation}")));
        }
        for (index, agent) in self.declared_agents.iter().enumerate() {
            problems
                .extend(agent.check().iter().map(|problem| format!("declared_agents[{index}].{problem}")));
        }
        let names = self.named().into_iter().flat_map(|(key, names)| {
            names.into_iter().enumerate().map(move |(index, name)| (key, index, name))
        });
        for (index, planner) in self.planners.iter().enumerate() {
            let wrong = wrong_agent_name(&planner.name);
            problems.extend(wrong.map(|(_, message)| format!("planners[{index}].name: {message}")));
        }
        // What serves them is a worker for each of these keys, and a worker serves so many.
        for (key, names) in self.named() {
            if key != "declared_agents" && names.len() > AGENTS_MAX {
                let count = names.len();
                problems
                    .push(format!("{key}[{AGENTS_MAX}]: {count} agents; at most {AGENTS_MAX} are allowed"));
            }
        }
        let described = self.agents.iter().map(|agent| agent.described().encoded_len());
        let bytes = described.fold(0_usize, usize::saturating_add);
        if bytes > AGENTS_BYTES_MAX {
            problems.push(format!(
                "agents: {bytes} bytes with their descriptions and schemas; at most {AGENTS_BYTES_MAX} are allowed"
            ));
        }
        let mut seen = BTreeSet::new();
        for (key, index, name) in names {
            if crate::built_in(name) {
                problems
                    .push(format!("{key}[{index}].name: {name:?} is a built-in agent; choose another name"));
            } else if !seen.insert(name) && !name.is_empty() {
                problems.push(format!("{key}[{index}].name: {name:?} is there twice"));
            }
        }
        problems.extend(self.health_checks.check());
        problems.extend(self.browser.check());
        problems.extend(self.telemetry.check());
        if let Err(error) = self.socket_address() {
            problems.push(format!("listen: {error}"));
        }
        problems
    }

    pub(crate) fn socket_address(&self) -> Result<SocketAddr, DaemonError> {
        let address = address(&self.listen).map_err(|error| DaemonError::Listen {
            address: self.listen.clone(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
        })?;
        if address.ip().is_loopback() {
            Ok(address)
        } else {
            Err(DaemonError::NotLoopback { address: self.listen.clone() })
        }
    }
}

/// The first of these problems, and how many more there are.
fn told(problems: &[String], placed: impl Fn(&str) -> Problem) -> Vec<Problem> {
    let more = problems.len().saturating_sub(MOST);
    let told = problems.iter().take(MOST).map(|problem| placed(problem));
    told.chain((more > 0).then(|| Problem::told(&format!("{more} more problems")))).collect()
}

/// What is wrong with the schema of an agent's inputs.
fn wrong_schema(schema: Option<&serde_json::Value>) -> impl Iterator<Item = String> {
    let compiled = schema.and_then(|schema| capataz_judge::Schema::compile(&schema.to_string()).err());
    compiled
        .into_iter()
        .flatten()
        .map(|violation| format!("input_schema: {}", capataz_judge::shown(&violation)))
}

/// The folder for data by the XDG rules.
#[expect(clippy::disallowed_methods, reason = "the rules are rules about the environment")]
fn default_data_dir() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    from("XDG_DATA_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("."))
        .join("capataz")
}

fn origins(
    figment: &Figment,
    config: &Config,
    flags: &Overrides,
    file: &Path,
) -> Vec<(String, String, String)> {
    let retention = &config.retention;
    let time = |time: Duration| duration::format(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    // How many tasks each of them has at a time stands behind its name.
    let at_once = |agents: Vec<(&str, u32)>| {
        let named: Vec<String> = agents.iter().map(|(name, most)| format!("{name} ({most})")).collect();
        names(named.iter().map(String::as_str).collect())
    };
    let values = [
        ("listen", config.listen.clone()),
        ("data_dir", config.data_dir.display().to_string()),
        (
            "specs_dir",
            config
                .specs_dir
                .as_ref()
                .map_or_else(|| "none".to_owned(), |folder| folder.display().to_string()),
        ),
        ("profiles", names(config.profiles.iter().filter_map(|file| file.to_str()).collect())),
        (
            "agents",
            at_once(config.agents.iter().map(|agent| (&*agent.name, agent.max_concurrency)).collect()),
        ),
        ("declared_agents", names(config.declared_agents.iter().map(|agent| agent.name.as_str()).collect())),
        ("planners", names(config.planners.iter().map(|planner| planner.name.as_str()).collect())),
        (
            "models",
            at_once(config.models.iter().map(|model| (&*model.name, model.max_concurrency)).collect()),
        ),
        ("commands", names(config.commands.iter().map(String::as_str).collect())),
        ("resources", names(config.resources.iter().map(String::as_str).collect())),
        ("health_checks.interval", time(config.health_checks.interval)),
        ("health_checks.missed", config.health_checks.missed.to_string()),
        ("retention.finished_runs", retention.finished_runs.map_or_else(|| "never".to_owned(), time)),
        (
            "browser.program",
            config
                .browser
                .program
                .as_ref()
                .map_or_else(|| "looked for".to_owned(), |path| path.display().to_string()),
        ),
        (
            "browser.attach",
            config.browser.attach.as_ref().map_or_else(
                || "none: browsers are started".to_owned(),
                |endpoint| format!("{endpoint}, without the allowlist's second layer"),
            ),
        ),
        ("browser.max_open", config.browser.max_open.to_string()),
        (
            "browser.upload_folders",
            names(config.browser.upload_folders.iter().filter_map(|folder| folder.to_str()).collect()),
        ),
        (
            "browser.storage_key",
            config
                .browser
                .storage_key
                .clone()
                .unwrap_or_else(|| "none: storage states are not encrypted".to_owned()),
        ),
        (
            "secrets_dir",
            config
                .secrets_dir
                .as_ref()
                .map_or_else(|| "none".to_owned(), |folder| folder.display().to_string()),
        ),
        (
            "telemetry.otlp_endpoint",
            config.telemetry.otlp_endpoint.clone().unwrap_or_else(|| "none: no spans are sent".to_owned()),
        ),
        ("drain_timeout", time(config.drain_timeout)),
        ("demo_page", config.demo_page.to_string()),
        (
            "retention.max_log_bytes",
            retention.max_log_bytes.map_or_else(|| "no limit".to_owned(), |bytes| bytes.to_string()),
        ),
        ("retention.idempotency_keys", time(retention.idempotency_keys)),
        ("retention.unused_blobs", time(retention.unused_blobs)),
        ("retention.believe_clock", retention.believe_clock.to_string()),
    ];
    values
        .into_iter()
        .map(|(key, value)| {
            let flag = match key {
                "listen" => flags.listen.is_some(),
                "data_dir" => flags.data_dir.is_some(),
                "specs_dir" => flags.specs_dir.is_some(),
                _ => false,
            };
            let origin = match figment.find_metadata(key) {
                _ if flag => "flag".to_owned(),
                Some(metadata) if metadata.name == layers::ENVIRONMENT => "environment".to_owned(),
                Some(metadata) if metadata.name.contains(Toml::NAME) => file.display().to_string(),
                _ => "default".to_owned(),
            };
            (key.to_owned(), value, origin)
        })
        .collect()
}

fn required_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let milliseconds = duration::parse(&text).map_err(serde::de::Error::custom)?;
    Ok(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}

fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref() {
        None | Some("never") => Ok(None),
        Some(text) => {
            let milliseconds = duration::parse(text).map_err(serde::de::Error::custom)?;
            Ok(Some(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))))
        }
    }
}
