//! Arguments of the commands under `runs` and `agents`.

use std::path::PathBuf;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_policy::lifecycle::TaskState;
use clap::{Args, Subcommand};

use super::{Following, KINDS, OUTCOMES, Patience, STATUSES, label, one_of, parse_duration};

/// A run, at one of its events or as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub run: String,
    pub at: Option<u64>,
}

/// Reads `RUN` or `RUN@SEQ`.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    let Some((run, at)) = text.rsplit_once('@') else {
        return Ok(Moment { run: text.to_owned(), at: None });
    };
    match at.parse() {
        Ok(at) if at > 0 => Ok(Moment { run: run.to_owned(), at: Some(at) }),
        _ => Err(format!("{at:?} is not the number of an event: a whole number from 1")),
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz logs latest                     of all tasks of the newest run
  capataz logs latest build --follow      of one task, as it comes
  capataz logs 7f3a build test --tail 20
  capataz logs latest --json | jq -r '.lines[]'

Of a command it is what it writes to stderr; a worker logs by itself. Of each try that has ended, the last 16 KiB are kept;
of one that is at work, 4 KiB are seen. The events of a run are a log of another kind: `capataz runs logs`.")]
pub struct LogsArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Only of these tasks [default: all]
    #[arg(value_name = "TASK")]
    pub tasks: Vec<String>,
    /// Go on with what is logged until the run has finished
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Most lines of each try that were logged before the command looked [default: all that are kept]
    #[arg(long, short = 'n', value_name = "LINES")]
    pub tail: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List runs, newest first
    List(ListArgs),
    /// Show a run: its waves, tasks, open questions and errors
    #[command(after_help = "\
Examples:
  capataz runs show latest
  capataz runs show 7f3a --outputs
  capataz runs show latest --failed                what failed, why, and how to run it again
  capataz runs show latest --state active --state failed
  capataz runs show latest --at 12
  capataz runs show latest --json | jq '.waves[].tasks[].state'")]
    Show {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Also print the outputs of the tasks
        #[arg(long)]
        outputs: bool,
        /// Only tasks in this state: init, active (in_progress), complete (completed), failed (error), rolled_back,
        /// deleted; repeatable
        #[arg(long = "state", value_name = "STATE", value_parser = task_state)]
        states: Vec<TaskState>,
        /// Only what failed: each task with its error, next step, attempts, and the last lines of its log
        #[arg(long, conflicts_with_all = ["outputs", "states"])]
        failed: bool,
        /// All failed tasks in whole, and not the first 20 alone
        #[arg(long, requires = "failed")]
        all: bool,
        /// The run as it was after this event; `runs logs` shows their numbers
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
        at: Option<u64>,
    },
    /// Print what a task has given back, whole, or write it to a file
    Output(OutputArgs),
    /// Tell in what two runs differ, or two moments of one run
    #[command(after_help = "\
Examples:
  capataz runs diff latest@12 latest
  capataz runs diff 7f3a 9c01
  capataz runs diff 7f3a@40 9c01@40 --all --json

Of two different runs, what they never have in common is not compared: ids, times, workers and numbers of events.
Exit code 0 if nothing differs, 1 if something does.")]
    Diff {
        /// Id of a run, the beginning or end of it, or `latest`; with `@SEQ`, as it was after this event
        #[arg(value_name = "RUN[@SEQ]", value_parser = moment)]
        before: Moment,
        /// The run, or the moment of it, to compare that with
        #[arg(value_name = "RUN[@SEQ]", value_parser = moment)]
        after: Moment,
        /// Compare also what two runs never have in common
        #[arg(long)]
        all: bool,
    },
    /// Fold the events of a run again, and compare what is stored of it
    ///
    /// Nothing is decided anew: the log says what was decided, not how one would decide today.
    #[command(after_help = "\
Examples:
  capataz runs replay latest
  capataz runs replay 7f3a --json | jq .differences

Exit code 0 if what is stored is what the events say, 1 if it differs.")]
    Replay {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Watch a run until it ends, then print its report
    ///
    /// On a terminal, the key `e` gives the task that is next to time out 15 minutes more.
    Watch(WatchArgs),
    /// Print the answer of an ask that has ended, as `ask` does
    #[command(after_help = "\
Examples:
  capataz runs answer latest
  capataz runs answer 7f3a --json | jq -r .response.response.text")]
    Answer {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Stop a run; running tasks get their grace period
    Cancel(CancelArgs),
    /// Pause a run: start no new attempts; running tasks go on
    #[command(after_help = "Example:\n  capataz runs pause latest")]
    Pause {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Resume a run after a pause
    #[command(after_help = "Example:\n  capataz runs resume latest")]
    Resume {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Give a task more time
    Extend(ExtendArgs),
    /// Run a failed task again, with a full set of attempts
    #[command(after_help = "Example:\n  capataz runs retry latest lint")]
    Retry {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Name of the task
        #[arg(value_name = "TASK")]
        task: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Take a task that is at work, or that has succeeded, back to its beginning
    ///
    /// Its worker is told to stop, what it gave back no longer counts, and it begins anew. Where tasks of later waves have
    /// begun, --cascade takes them back too; without it nothing is done, and they are named.
    #[command(
        after_help = "Examples:\n  capataz runs rollback latest build\n  capataz runs rollback latest build --cascade"
    )]
    Rollback {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Name of the task
        #[arg(value_name = "TASK")]
        task: String,
        /// Take back what was built on it: the tasks of later waves that have begun
        #[arg(long)]
        cascade: bool,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Answer a question that a run waits for
    Resolve(ResolveArgs),
    /// Go on where the run of a plan has ended: a new run takes over what succeeded, and does the rest
    ///
    /// A task that succeeded is done again only where its input refers to the output of a task that is done again. Labels
    /// and session are those of the old run, and so are the limits and policies of its plan.
    Continue(ContinueArgs),
    /// Go on from the middle of a run, as a run of its own
    ///
    /// The new run begins with everything that the other one was after the event: what had happened by then is not done
    /// again, and what was at work is done anew. The other run stays as it is.
    Fork(ForkArgs),
    /// Remove a run that has finished or is in quarantine, with all that is kept of it
    Delete(DeleteArgs),
    /// Try a run in quarantine again
    #[command(after_help = "\
Examples:
  capataz runs release 7f3a
  capataz runs release 7f3a --json | jq .released

Exit code 1 if the run is still in quarantine.")]
    Release {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Print the events of a run, one a line
    #[command(after_help = "\
Examples:
  capataz runs logs latest
  capataz runs logs latest --follow
  capataz runs logs latest --json | jq .event.task_settled")]
    Logs {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Follow new events until the run has finished
        #[arg(long, short = 'f')]
        follow: bool,
    },
    /// Write a report of a run as one HTML file: what failed, a timeline, outputs, pictures
    Report(ReportArgs),
    /// Tell what each contract has decided, and on which numbers
    ///
    /// The cascade of the run as a list: registry, lifecycle, timeout, retry, severity, aggregation, session.
    #[command(after_help = "\
Examples:
  capataz runs explain latest
  capataz runs explain latest --json | jq '.decisions[] | select(.contract == \"retry\")'")]
    Explain {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Print the stored events of a run, one JSON document a line
    #[command(after_help = "Example:\n  capataz runs export latest > run.jsonl")]
    Export {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs list --status waiting
  capataz runs list --label env=ci --outcome failed --limit 200
  capataz runs list --name nightly --since 2d
  capataz runs list --name 'build-*' --kind pipeline --until 12h
  capataz runs list --session release
  capataz runs list --json | jq -r '.runs[].run_id'")]
pub struct ListArgs {
    /// Only runs with this label; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// running, paused, waiting, cancelling or finished
    #[arg(long, value_parser = one_of(STATUSES), ignore_case = true, hide_possible_values = true)]
    pub status: Option<v1::RunStatus>,
    /// succeeded, succeeded_with_failures, failed, cancelled or blocked
    #[arg(long, value_parser = one_of(OUTCOMES), ignore_case = true, hide_possible_values = true)]
    pub outcome: Option<v1::RunOutcome>,
    /// plan, ask, script, pipeline or mode
    #[arg(long, value_parser = one_of(KINDS), ignore_case = true, hide_possible_values = true)]
    pub kind: Option<v1::RunKind>,
    /// Only runs with this in their name, in capital letters or not; with `*` or `?`, it is the whole name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only runs that began within this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub since: Option<Duration>,
    /// Only runs that began before that
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub until: Option<Duration>,
    /// Only runs that tasks of this run are, or have started
    #[arg(long, value_name = "RUN")]
    pub parent: Option<String>,
    /// Only runs of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Maximum number of runs
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Continue an earlier list from its page token
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub page_token: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs report latest                   save it as ID.html
  capataz runs report latest -o run.html
  capataz runs report 7f3a -o - > run.html
  capataz runs report latest -o run.html --lang es
  capataz runs report latest -o run.html --json | jq .bytes

The file needs nothing else: it loads nothing, and fits a phone. The report of a run that goes on shows its current state.")]
pub struct ReportArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// File to write; `-` for stdout [default: the id of the run with `.html`, in the working folder]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over a file that exists, as --output does in any case
    #[arg(long)]
    pub force: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs watch latest
  capataz runs watch 7f3a --timeout 5m
  capataz runs watch latest --json | jq -c .event

The exit code is 0 if the run succeeded, and 1 if it did not.")]
pub struct WatchArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Also what running tasks say and put out: a line where that is news, and with `--json` for each progress frame
    #[arg(long)]
    pub progress: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs cancel latest --reason 'wrong branch'
  capataz runs cancel 7f3a --force
  capataz runs cancel 7f3a 91c0 e2b4")]
pub struct CancelArgs {
    /// Id of the run, the beginning or end of it, or `latest`; may be repeated
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Reason, stored with the run
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Do not wait for the grace period of running tasks
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub mutation: Mutation,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs export 7f3a > run.jsonl && capataz runs delete 7f3a
  capataz runs delete 0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10
  capataz runs delete 7f3a 91c0 e2b4

Its idempotency key stays for its time. There is no way back.")]
pub struct DeleteArgs {
    /// Id of the run, the beginning or end of it, or `latest`; may be repeated
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs output latest build
  capataz runs output latest measure | jq .lines
  capataz runs output 7f3a build -o build.log
  capataz runs output 7f3a build --json | jq .media_type

The bytes are those that the task has given back, however many; a terminal shows only text.

A file that exists is left as it is, unless --force is given.")]
pub struct OutputArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Name of the task
    #[arg(value_name = "TASK")]
    pub task: String,
    /// File to write; `-` for stdout, also with `--json` [default: stdout]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over a file that exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs extend latest index-everything
  capataz runs extend latest index-everything --by 1h")]
pub struct ExtendArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Name of the task
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Additional time [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub by: Option<Duration>,
    #[command(flatten)]
    pub mutation: Mutation,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs continue latest --watch
  capataz runs continue 7f3a --key again-4711 --label attempt=2
  capataz runs continue latest --detach --json

The exit code is that of `capataz run`.")]
pub struct ContinueArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Label of the new run, beside those of the old one; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key, run and labels name the same new run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// State file that follows the plan, where it is work of a session [default: .elsabro/state.json, where the folder is]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub following: Following,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz runs logs 7f3a                       shows the numbers of the events
  capataz runs fork 7f3a --at 12 --watch
  capataz runs fork 7f3a --at 12 --input 'limit:=20'
  capataz runs fork latest --detach --json

What was decided together is forked together: where that is not so at the event, the refusal names the nearest one that may
be. The exit code is that of `capataz run`.")]
pub struct ForkArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Number of the event after which the fork goes on by itself [default: the newest one that may be]
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
    /// Of a pipeline: part of the input that later phases have: KEY=TEXT, KEY:=JSON or path=FOLDER; may be repeated
    #[arg(long = "input", short = 'i', value_name = "KEY=VALUE", conflicts_with = "input_file")]
    pub inputs: Vec<String>,
    /// Of a pipeline: file with the whole input that later phases have, as JSON
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,
    /// Label of the new run, beside those of the old one; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key, run, event, input and labels name the same new run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    #[command(flatten)]
    pub following: Following,
}

#[derive(Args, Debug)]
#[command(after_help = r#"Examples:
  capataz runs show latest                     lists the open questions
  capataz runs resolve latest q1 retry
  capataz runs resolve latest q1 succeeded --value '{"passed": 12}'
  capataz runs resolve latest q1 succeeded --value @report.json --revision 2"#)]
pub struct ResolveArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Id of the question
    #[arg(value_name = "QUESTION")]
    pub question: String,
    /// One of the question's options
    #[arg(value_name = "ANSWER", required_unless_present = "value")]
    pub answer: Option<String>,
    /// The value of the answer, where the question asks for one: JSON, or `@FILE`, whose content is text unless its
    /// name ends in `.json`
    #[arg(long, value_name = "VALUE")]
    pub value: Option<String>,
    /// Fail unless the question is still at this revision
    #[arg(long, value_name = "NUMBER")]
    pub revision: Option<u32>,
    #[command(flatten)]
    pub mutation: Mutation,
}

#[derive(Args, Clone, Debug)]
pub struct Mutation {
    /// Repeating a call with the same id has no further effect [default: a new id]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub request_id: String,
    /// Fail unless this is the run's newest event
    #[arg(long, value_name = "SEQ")]
    pub if_seq: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List the agents and the workers that serve them
    #[command(after_help = "\
Examples:
  capataz agents list
  capataz agents list --json | jq -r '.agents[].agent.name'")]
    List,
    /// Tell how reliable agents were: retries, failures, durations, and a timeout that suits them
    ///
    /// Counts the tasks of the newest runs that have ended and were not cancelled. P50 and P95 are of successful attempts.
    /// The suggested timeout is twice the P95.
    #[command(after_help = "\
Examples:
  capataz agents stats
  capataz agents stats code-reviewer --runs 500
  capataz agents stats --json | jq '.agents[] | select(.retry_rate > 0.1)'")]
    Stats {
        /// Names of agents [default: all of them]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Newest runs that count
        #[arg(long, default_value_t = 100, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=500))]
        runs: u32,
    },
    /// Check names as the start of a run would, without starting a run
    #[command(after_help = "\
Examples:
  capataz agents check code-reviewer test-analyzer
  capataz agents check code-reviewer --command verify --resource profile-balanced

Exit code 1 if a name is unknown.")]
    Check {
        /// Names of agents
        #[arg(value_name = "NAME", required_unless_present_any = ["commands", "resources"])]
        names: Vec<String>,
        /// Name of a command; may be repeated
        #[arg(long = "command", value_name = "NAME")]
        commands: Vec<String>,
        /// Name of a resource; may be repeated
        #[arg(long = "resource", value_name = "NAME")]
        resources: Vec<String>,
    },
}

/// The state of a task by its name, or by one of its older names.
fn task_state(name: &str) -> Result<TaskState, String> {
    TaskState::read(name).ok_or_else(|| {
        let names: Vec<String> = TaskState::ALL.iter().map(|state| state.as_str().to_lowercase()).collect();
        format!("no state; the states are {}", names.join(", "))
    })
}
