//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use capataz_contracts::{duration, plan_file, v1};
use capataz_display::words::Language;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod actions;
mod data;
mod errors;
mod memory;
mod modes;
mod own_daemon;
mod pipelines;
mod router;
mod runs;
mod sessions;

pub use actions::{ActArgs, ActCommand, BrowserCommand, DoArgs, DoctorArgs, EvidenceArgs, OpenArgs};
pub use data::{BackupArgs, MachineArgs, RebuildArgs, RestoreArgs, VerifyArgs};
pub use errors::ErrorsCommand;
pub use memory::{MemoryCommand, MemorySearchArgs};
pub use modes::{ModeCommand, ModeRunArgs};
pub use own_daemon::{FolderArgs, InitArgs, LocalArgs, StatusArgs, StopArgs};
pub use pipelines::{PipelineCommand, PipelineRunArgs};
pub use router::{AskArgs, EvalArgs, LintArgs, RouterCommand};
pub use runs::{
    AgentsCommand, CancelArgs, ContinueArgs, DeleteArgs, ExtendArgs, ForkArgs, ListArgs, LogsArgs, Moment,
    OutputArgs, ReportArgs, ResolveArgs, RunsCommand, WatchArgs,
};
pub use sessions::{RepairArgs, STATE, SessionsArgs, SessionsCommand, StateArgs};

/// A contract-first daemon for crews of agents: plans of parallel tasks, with declared policies for time, retries and
/// failure.
#[derive(Debug, Parser)]
#[command(name = "capataz", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  capataz demo                         a tour in ten seconds
  capataz init crew                    write a folder with a crew and a plan
  capataz serve                        start a daemon
  capataz run plan.toml --watch        run a plan and watch it
  capataz ask \"Me siento perdido\"      route a text to a spec and show its answer
  capataz act script.toml              perform browser actions, with evidence of each
  capataz runs list --status running   list running runs

Exit codes: 0 success, 1 the run failed or the daemon refused, 2 wrong usage or invalid
input, 3 no daemon, 4 the run goes on, 5 the run waits for an answer, 130 Ctrl-C.";

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Address of the daemon [default: that of the daemon of this folder's capataz.toml, else http://127.0.0.1:7411]
    #[arg(
        long,
        global = true, help_heading = GLOBAL,
        env = "CAPATAZ_ADDR",
        value_name = "URL"
    )]
    pub addr: Option<String>,
    /// Print JSON: one document, or one line for each item of a stream
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Language of what people read [default: that of the locale, else English]
    #[arg(long, global = true, help_heading = GLOBAL, env = "CAPATAZ_LANG", value_enum, value_name = "LANGUAGE")]
    pub lang: Option<Lang>,
    /// Draw results and errors as boxes, and not in lines
    #[arg(
        long,
        global = true, help_heading = GLOBAL,
        env = "CAPATAZ_BOXES",
        value_parser = clap::builder::FalseyValueParser::new(),
    )]
    pub boxes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// English
    En,
    /// Español
    Es,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::En => Self::English,
            Lang::Es => Self::Spanish,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a daemon
    ///
    /// Settings come from capataz.toml, then CAPATAZ_LISTEN, CAPATAZ_DATA_DIR and CAPATAZ_SPECS_DIR, then these flags. Agents,
    /// models and specs are read again when a file changes, and on SIGHUP.
    Serve(ServeArgs),
    /// Write a small folder with a crew and a plan that work
    ///
    /// The folder gets capataz.toml, plan.toml and the program of an agent. Where one of them is there already, nothing is
    /// written.
    Init(InitArgs),
    /// Tell how the daemon of a data folder is: where it listens, what runs, which agents it has
    Status(StatusArgs),
    /// Have the daemon of a data folder drain and end
    Stop(StopArgs),
    /// Watch a daemon run a crew over a folder, with a retry, a timeout and a quorum
    ///
    /// The daemon runs inside this command, on a free port, with a new data folder that is kept.
    Demo(DemoArgs),
    /// Run a plan file
    ///
    /// Checks the plan, starts a run, waits for its end and reports. Ctrl-C leaves the run to the daemon.
    Run(RunArgs),
    /// Inspect and control runs
    ///
    /// RUN is a run's id, the beginning or the end of one among the newest 500 runs, or `latest`.
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz runs list --since 2h
  capataz runs show latest --failed
  capataz runs watch 7f3a
  capataz runs cancel latest")]
    Runs(RunsCommand),
    /// Route a text to the spec that should answer it, and print the answer
    ///
    /// Without TEXT, the command is a conversation: one message a line, with the hints of the specs.
    Ask(AskArgs),
    /// Perform a script of browser actions
    ///
    /// Checks the script, starts a run, shows each action's outcome, then the outputs or the error. Ctrl-C leaves the
    /// run to the daemon.
    Act(Box<ActArgs>),
    /// Run pipelines, and go back to their checkpoints
    ///
    /// RUN is a run's id, the beginning or the end of one among the newest 500 runs, or `latest`.
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz pipeline list
  capataz pipeline run review.toml --input repo=org/app --watch
  capataz pipeline checkpoints latest")]
    Pipeline(PipelineCommand),
    /// Work on queries with planners and tools, in one of three modes
    ///
    /// RUN is a run's id, the beginning or the end of one among the newest 500 runs, or `latest`.
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz mode run 'summarise README.md' --watch
  capataz mode show latest
  capataz mode approve latest")]
    Mode(Box<ModeCommand>),
    /// Tell how executions went, by mode, beside what is wanted of each
    #[command(after_help = "\
Examples:
  capataz analytics
  capataz analytics --since 7d
  capataz analytics --json | jq '.modes[] | {mode, successRate}'

Executions that have ended and whose runs are kept. Waits for people are part of their times.")]
    Analytics {
        /// Only executions that were started within this time, such as 12h or 7d
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        since: Option<Duration>,
    },
    /// Find what execution modes remember, and have it forgotten
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz memory search --session shop
  capataz memory search 'config.toml' --session shop --type error")]
    Memory(MemoryCommand),
    /// Show what the tasks of a run have logged, also while they run
    Logs(LogsArgs),
    /// List what proves the actions of a run, and save or open a piece of it
    Evidence(EvidenceArgs),
    /// Open browsers, perform single actions in them, and list open ones
    ///
    /// RUN is a session's run id, the beginning or the end of one among the newest 500 runs, or `latest`.
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz browser doctor
  capataz browser open --allow example.com
  capataz browser observe latest
  capataz browser close latest")]
    Browser(Box<BrowserCommand>),
    /// Explain routing decisions, and measure and lint specs
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz router explain \"Necesito decidir entre dos opciones\"
  capataz router specs
  capataz router lint --specs specs")]
    Router(RouterCommand),
    /// List and check agents
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz agents list
  capataz agents check code-reviewer
  capataz agents stats")]
    Agents(AgentsCommand),
    /// Check documents without a daemon
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz contract check plan.toml
  capataz contract check answer.json --kind response")]
    Contract(ContractCommand),
    /// Explain errors without a daemon
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz errors explain RATE_LIMIT
  capataz errors explain \"E42: the build failed\"")]
    Errors(ErrorsCommand),
    /// List the sessions of a daemon; check, repair and restore the state file of a project
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  capataz sessions list
  capataz sessions show release
  capataz sessions validate")]
    Sessions(SessionsCommand),
    /// Make the rows that queries read again from the logs, while no daemon runs
    ///
    /// The list of runs and the rows that lead from a run to its children follow from the runs' logs. This command reads
    /// every log from its first event on, reports each row that does not follow from it, and writes that row again. Logs
    /// stay as they are. A run whose log is damaged, or that is quarantined, is named and left as it is.
    Rebuild(RebuildArgs),
    /// Copy a data folder, also beside a running daemon
    Backup(BackupArgs),
    /// Put a backup in the place of a data folder
    Restore(RestoreArgs),
    /// Look a backup or a data folder through for damage
    Verify(VerifyArgs),
    /// Look for what would keep a daemon from working on this machine
    Doctor(MachineArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  capataz completions bash > ~/.local/share/bash-completion/completions/capataz"
    )]
    Completions { shell: Shell },
    /// Print the manual's page of the program, or write a page for each command
    #[command(after_help = "\
Examples:
  capataz man | man -l -
  capataz man ~/.local/share/man/man1

Pages of the folder that have the same names are written again.")]
    Man {
        /// Folder of the pages; it is made if it is not there
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz serve --data-dir ./data
  capataz serve --config crew.toml --check     show the effective settings, start nothing
  capataz serve --trace bug.trace              record all inputs, to report a bug
  CAPATAZ_LOG=debug capataz serve --log-format json")]
pub struct ServeArgs {
    /// Configuration file [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Folder of the spec files [default: specs of the working folder, if it exists]
    #[arg(long, value_name = "DIR")]
    pub specs: Option<PathBuf>,
    /// Print the effective settings and where each comes from, and start nothing
    ///
    /// Programs, secrets, folders and specs that the settings name and that are not as a daemon needs them are told all at
    /// once, with what to do (exit code 2).
    #[arg(long)]
    pub check: bool,
    /// Record all inputs of the shards in a new file, for `cargo xtask simulate --replay`
    ///
    /// The file contains every payload, so it is as secret as the data folder.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Size at which the recording ends
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = byte_size, requires = "trace")]
    pub trace_limit: u64,
    /// What to log: error, warn, info, debug, trace, or per module as in `capataz=debug,info`
    #[arg(long, env = "CAPATAZ_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How log lines on stderr are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Serve the small site that the example scripts work on, until Ctrl-C
    ///
    /// It keeps nothing, and only this machine reaches it.
    #[command(after_help = "\
Examples:
  capataz demo site
  capataz act examples/scripts/extract-table.toml --local      in another terminal")]
    Site {
        /// Port of this machine; 0 for any that is free. The examples name 8000
        #[arg(long, value_name = "PORT", default_value_t = 8000)]
        port: u16,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz demo
  capataz demo --path ~/src/project
  capataz demo --keep                          then, elsewhere: capataz --addr … runs list
  capataz demo site                            the site that examples/scripts work on")]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    #[command(subcommand)]
    pub command: Option<DemoCommand>,
    /// Folder that the crew examines
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub path: PathBuf,
    /// Keep the daemon until Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz run examples/plans/quorum-review.toml --watch
  capataz run plan.toml --local                needs no daemon: see capataz init
  capataz run plan.toml --detach --label env=ci --key build-4711
  capataz run plan.toml --timeout 10m --json
  generate-plan | capataz run - --format json
  capataz run plan.toml --session release      then: capataz sessions show release

A session may begin with the state file of another tool, and be written to one: see capataz sessions import
and capataz sessions export.

With --json, the output is one document with run_id, created and result; with --watch, a line for
each event; with --detach, one document with run_id and created.")]
pub struct RunArgs {
    /// Plan in TOML or JSON; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the plan [default: by the file's extension, else by its contents]
    #[arg(long, value_enum)]
    pub format: Option<PlanFormat>,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key and plan name the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Session whose work the plan is; instead of the plan's own. Runs of one session are at work one after the other
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// State file that the session begins with, and that follows the plan [default: .elsabro/state.json, where the folder is]
    #[arg(long, value_name = "FILE", requires = "session")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub following: Following,
}

/// Whether and how a run is followed that was just started.
#[derive(Args, Clone, Copy, Debug)]
pub struct Following {
    /// Show events as they happen (the default without `--json`); on a terminal, the running tasks, where keys answer
    /// questions, and `e` gives the task that is next to time out 15 minutes more
    #[arg(long, short = 'w', conflicts_with = "detach")]
    pub watch: bool,
    /// With `--watch`: also what running tasks say and put out, a line where that is news, and with `--json` for each
    /// progress frame
    #[arg(long, requires = "watch")]
    pub progress: bool,
    /// Wait for the end and show nothing until then
    #[arg(long, conflicts_with = "detach")]
    pub wait: bool,
    /// Start the run and do not wait for its end
    #[arg(long, short = 'd')]
    pub detach: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct Patience {
    /// How long to wait, such as 90s or 10m; the run goes on afterwards (exit code 4 or 5)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Stop waiting as soon as the run asks a question (exit code 5)
    #[arg(long)]
    pub exit_on_question: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    Toml,
    Json,
}

impl From<PlanFormat> for plan_file::Format {
    fn from(format: PlanFormat) -> Self {
        match format {
            PlanFormat::Toml => Self::Toml,
            PlanFormat::Json => Self::Json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// Check a document: every rule except those about names that only a daemon knows
    #[command(after_help = "\
Examples:
  capataz contract check plan.toml
  capataz contract check - --format json < plan.json
  capataz contract check plan.toml --json | jq .violations
  capataz contract check answer.json --kind response
  capataz contract check .elsabro/state.json --kind session

Exit code 2 if the file breaks a rule.")]
    Check {
        /// Plan or script in TOML or JSON, or another document in JSON; `-` for stdin
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What the file is
        #[arg(long, value_enum, default_value = "plan")]
        kind: DocumentKind,
        /// Format of a plan or script [default: by the file's extension, else by its contents]
        #[arg(long, value_enum)]
        format: Option<PlanFormat>,
    },
}

/// The documents of the contract that people write or keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentKind {
    /// The request that a spec gets
    Request,
    /// The answer of a spec
    Response,
    Plan,
    /// Actions of a browser
    Script,
    /// The state file of a project
    Session,
}

/// Parses a label, `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is KEY=VALUE")?;
    let labels = [(key.to_owned(), value.to_owned())].into();
    match capataz_contracts::validate::labels(&labels).first() {
        Some(violation) => Err(violation.message.clone()),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}

pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let milliseconds = duration::parse(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default()))
}

/// Bytes: a number, with KB, MB or GB after it.
fn byte_size(text: &str) -> Result<u64, String> {
    let units = [("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let unit = units.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let bytes = number.trim_end().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "a size is a number of bytes, or a number with KB, MB or GB".to_owned())
}

/// The values of an enum of the contract by which runs are listed.
#[derive(Clone, Copy)]
struct Named<T: 'static> {
    /// As JSON calls them.
    names: &'static [&'static str],
    /// What the contract writes before them.
    prefix: &'static str,
    by_name: fn(&str) -> Option<T>,
}

impl<T> Named<T> {
    fn value(&self, name: &str) -> Option<T> {
        (self.by_name)(&format!("{}{}", self.prefix, name.to_ascii_uppercase()))
    }
}

/// One of these values, by its name; in capital letters or not, where the argument ignores them.
fn one_of<T: Clone + Send + Sync + 'static>(known: Named<T>) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(known.names.iter().copied());
    names.try_map(move |name| known.value(&name).ok_or_else(|| format!("unknown value {name}")))
}

const STATUSES: Named<v1::RunStatus> = Named {
    names: &["running", "paused", "waiting", "cancelling", "finished"],
    prefix: "RUN_STATUS_",
    by_name: v1::RunStatus::from_str_name,
};

/// Kinds of runs, which sessions are not.
const KINDS: Named<v1::RunKind> = Named {
    names: &["plan", "ask", "script", "pipeline", "mode"],
    prefix: "RUN_KIND_",
    by_name: v1::RunKind::from_str_name,
};

const OUTCOMES: Named<v1::RunOutcome> = Named {
    names: &["succeeded", "succeeded_with_failures", "failed", "cancelled", "blocked"],
    prefix: "RUN_OUTCOME_",
    by_name: v1::RunOutcome::from_str_name,
};

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// A group of commands as well: whoever asks for its help wants to know with which of them to begin.
    #[test]
    fn every_command_and_every_group_of_commands_has_examples() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                let path = format!("{path} {}", sub.get_name());
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{path} has no examples");
                if sub.has_subcommands() {
                    let lines = help.lines().filter(|line| line.starts_with("  capataz "));
                    // What needs a shell to be read is left out here.
                    for line in lines.filter(|line| !line.contains(['\'', '"', '|'])) {
                        let typed = line.trim().split("   ").next().unwrap_or_default();
                        assert!(typed.starts_with(&path), "{path}: {typed}");
                        let parsed = Cli::command().try_get_matches_from(typed.split(' '));
                        assert!(parsed.is_ok(), "{typed}: {:?}", parsed.err().map(|error| error.to_string()));
                    }
                    walk(sub, &path);
                }
            }
        }
        walk(&Cli::command(), "capataz");
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(label("env=ci"), Ok(("env".to_owned(), "ci".to_owned())));
        assert!(label("env").is_err());
        assert!(label("Env=ci").is_err());
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("90").is_err());
        assert_eq!(byte_size("256MB"), Ok(256_000_000));
        assert_eq!(byte_size("12"), Ok(12));
        assert!(byte_size("a lot").is_err());
        assert!(byte_size("99999999999GB").is_err());
    }

    #[track_caller]
    fn check_named<T: std::fmt::Debug + PartialEq>(known: Named<T>, by_number: impl Fn(i32) -> Option<T>) {
        let named: Vec<T> = known.names.iter().filter_map(|name| known.value(name)).collect();
        assert_eq!(named, (1..).map_while(by_number).collect::<Vec<T>>());
    }

    #[test]
    fn runs_are_listed_by_every_status_outcome_and_kind_that_there_is() {
        check_named(STATUSES, |number| v1::RunStatus::try_from(number).ok());
        check_named(OUTCOMES, |number| v1::RunOutcome::try_from(number).ok());
        // Sessions, which are no runs, have a number far above.
        check_named(KINDS, |number| v1::RunKind::try_from(number).ok());
    }

    #[test]
    fn who_lists_runs_by_what_there_is_not_is_told_what_there_is() {
        let told = |line: &str| {
            let parsed = Cli::try_parse_from(line.split(' '));
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (option, values) in [
            ("status", "running, paused, waiting, cancelling, finished"),
            ("outcome", "succeeded, succeeded_with_failures, failed, cancelled, blocked"),
            ("kind", "plan, ask, script, pipeline, mode"),
        ] {
            for wrong in ["bogus", "unspecified", "session"] {
                let told = told(&format!("capataz runs list --{option} {wrong}"));
                assert!(told.contains(&format!("[possible values: {values}]")), "{told}");
            }
            for value in values.split(", ") {
                assert_eq!(told(&format!("capataz runs list --{option} {value}")), "");
                assert_eq!(told(&format!("capataz runs list --{option} {}", value.to_ascii_uppercase())), "");
            }
        }
    }
}
