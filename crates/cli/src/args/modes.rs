//! Arguments of `capataz mode …`.

use std::path::PathBuf;

use capataz_contracts::v1::ExecutionMode;
use clap::{Args, Subcommand, ValueEnum};

use super::runs::Mutation;
use super::{Following, label};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Direct execution, step by step
    Simple,
    /// A detailed plan, made anew where results depart from it
    Planner,
    /// A plan that you approve, worked on without supervision
    Supervised,
}

impl From<Mode> for ExecutionMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Simple => Self::Simple,
            Mode::Planner => Self::Planner,
            Mode::Supervised => Self::Supervised,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ModeCommand {
    /// Work on a query in an execution mode, with a planner and tools
    Run(Box<ModeRunArgs>),
    /// List the modes
    #[command(after_help = "Example:\n  capataz mode list --lang es")]
    List,
    /// Choose the mode of a session: its runs from now on that name none are in it
    #[command(after_help = "\
Examples:
  capataz mode set supervised --session shop
  capataz mode run 'tidy the notes' --session shop

The choice stays until the next one. A run at work stays in its mode.")]
    Set {
        /// The mode
        #[arg(value_name = "MODE", value_enum)]
        mode: Mode,
        /// The session
        #[arg(long, short = 's', value_name = "NAME")]
        session: String,
    },
    /// Show where an execution stands: its plan with a mark for each step
    #[command(after_help = "\
Examples:
  capataz mode show latest
  capataz mode show 7f3a --at 40 --json | jq .state.plan")]
    Show {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// As it was after this event
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
        at: Option<u64>,
        /// With what the last action gave back
        #[arg(long)]
        output: bool,
    },
    /// Approve the plan that waits for it
    #[command(after_help = "Example:\n  capataz mode approve latest")]
    Approve {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Change the plan that waits for approval, in $EDITOR or by a file
    ///
    /// The changed plan is the next revision, and waits for approval again.
    #[command(after_help = "\
Examples:
  capataz mode edit latest
  capataz mode edit latest --plan-file plan.json")]
    Edit {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// File with the plan as JSON: {"steps": […], "checkpoints": […]} [default: the proposed one in $EDITOR]
        #[arg(long, value_name = "FILE")]
        plan_file: Option<PathBuf>,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Make a place to which the run can go back
    #[command(after_help = "Example:\n  capataz mode checkpoint latest 'before the risky part'")]
    Checkpoint {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Why, for people
        #[arg(value_name = "REASON", default_value = "made by a person")]
        reason: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// List the checkpoints of a run
    #[command(
        after_help = "Example:\n  capataz mode checkpoints latest --json | jq '.state.checkpoints[].id'"
    )]
    Checkpoints {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Go back to a checkpoint: what came after it does not count
    #[command(after_help = "\
Example:
  capataz mode rollback latest c2

What is at work is ended, and its late results are refused. The log keeps what was dropped.")]
    Rollback {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// The checkpoint
        #[arg(value_name = "CHECKPOINT")]
        checkpoint: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Pause a run: nothing new is asked or called
    #[command(after_help = "Example:\n  capataz mode pause latest")]
    Pause {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Let a paused run go on
    #[command(after_help = "Example:\n  capataz mode resume latest")]
    Resume {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Assess how large and how risky a query looks, for information only
    #[command(after_help = "\
Examples:
  capataz mode risk 'delete all old branches, then deploy'
  capataz mode risk 'list the files' --json | jq -r .riskLevel

Nothing follows from it: the mode is yours to choose. The formula is in docs/risk.md.")]
    Risk {
        /// The query
        #[arg(value_name = "QUERY")]
        query: String,
        /// Tool that would be used; may be repeated [default: every tool that is known]
        #[arg(long = "tool", value_name = "NAME")]
        tools: Vec<String>,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz mode run 'summarise README.md' --watch
  capataz mode run 'tidy the notes' --mode supervised --tool read --tool write
  capataz mode run 'tidy the notes' --session shop --detach
  capataz mode run 'what is new on the page' --allow example.com --watch

The planner is an agent of kind planner, the tools are agents of kind tool; plan.run, pipeline.run and
router.ask are built in, and so is the browser, for the hosts that --allow names: --tool 'browser.*',
or --tool browser.click and the like. --tool '*' stands for every agent of kind tool. See docs/modes.md.

Exit codes: 0 the query is done, 1 it failed, 2 an argument is not valid, 5 it waits for a person and
--exit-on-question is given.

With --json, the output is one document with run_id, created and result; with --watch, a line for
each event; with --detach, one document with run_id and created.")]
pub struct ModeRunArgs {
    /// What is to be done
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Mode of this run alone [default: the one that the session has chosen, else simple]
    #[arg(long, short = 'm', value_enum, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Session whose memory it uses, and whose mode it has
    #[arg(long, short = 's', value_name = "NAME")]
    pub session: Option<String>,
    /// Agent that decides what is done [default: the only planner that is known]
    #[arg(long, value_name = "NAME")]
    pub planner: Option<String>,
    /// Tool that may be used; may be repeated [default: every tool that is known]
    #[arg(long = "tool", short = 't', value_name = "NAME")]
    pub tools: Vec<String>,
    /// Tool each call of which you approve, beside those of `--tool`; may be repeated
    #[arg(long = "approve", value_name = "NAME")]
    pub approve: Vec<String>,
    /// Host that the run's browser may reach; may be repeated. With it, the tools of the browser are there
    #[arg(long = "allow", value_name = "HOST")]
    pub allow: Vec<String>,
    /// Interactive script whose policy and browser are those of the run's browser [default: none]
    #[arg(long, value_name = "FILE")]
    pub browser: Option<PathBuf>,
    /// Show the browser's window
    #[arg(long)]
    pub headed: bool,
    /// Folder whose file names the planner is told
    #[arg(long, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// File that the planner is told you are at
    #[arg(long, value_name = "FILE")]
    pub file: Option<String>,
    /// How far results may depart from an approved plan before you are asked, 0 to 1 [default: 0.3]
    #[arg(long, value_name = "LEVEL")]
    pub autonomy: Option<f64>,
    /// Actions after which the run fails [default: 50]
    #[arg(long, value_name = "NUMBER")]
    pub max_steps: Option<u32>,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key and query name the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    #[command(flatten)]
    pub following: Following,
}
