//! Arguments of `capataz pipeline …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::runs::{Moment, Mutation, moment};
use super::{Following, PlanFormat, label};

#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// Run a pipeline: phases whose outputs are judged before they count
    Run(PipelineRunArgs),
    /// List the pipelines that can be run by name: those of the folder `pipelines`, and those that are built in
    #[command(after_help = "Example:\n  capataz pipeline list --json | jq -r '.pipelines[].name'")]
    List,
    /// Check a pipeline and its schemas without a daemon
    #[command(after_help = "\
Examples:
  capataz pipeline lint pipelines/product-analysis.toml
  capataz pipeline lint product-analysis --json | jq '.violations[].path'

Exit code 2 if the pipeline breaks a rule.")]
    Lint {
        /// Pipeline in TOML or JSON, or its name
        #[arg(value_name = "PIPELINE")]
        pipeline: PathBuf,
        /// Format of the pipeline [default: by the file's extension, else by its contents]
        #[arg(long, value_enum)]
        format: Option<PlanFormat>,
    },
    /// Show where the phases of a run stand
    #[command(after_help = "\
Examples:
  capataz pipeline checkpoints latest
  capataz pipeline checkpoints 7f3a --at 40
  capataz pipeline checkpoints --product shop
  capataz pipeline checkpoints latest --json | jq '.checkpoints[] | select(.status == \"completed\") | .payload'")]
    Checkpoints {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN", required_unless_present = "product")]
        run: Option<String>,
        /// As they were after this event
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
        at: Option<u64>,
        /// Those of the newest 20 runs of this product, instead of those of a run
        #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "at"])]
        product: Option<String>,
    },
    /// Compare the checkpoints of two runs, or of two moments of one
    #[command(after_help = "\
Examples:
  capataz pipeline diff 7f3a latest
  capataz pipeline diff latest@20 latest
  capataz pipeline diff 7f3a latest --json | jq '.differences[].path'

Ids of runs and times are not compared. Exit code 0 if there is no difference, 1 if there is one.")]
    Diff {
        /// Id of a run, the beginning or end of it, or `latest`; with `@SEQ`, as it was after this event
        #[arg(value_name = "RUN[@SEQ]", value_parser = moment)]
        before: Moment,
        /// The run, or the moment of it, to compare that with
        #[arg(value_name = "RUN[@SEQ]", value_parser = moment)]
        after: Moment,
    },
    /// Go back to the completed checkpoint before a phase: the phase and all after it begin anew
    #[command(after_help = "\
Examples:
  capataz pipeline rollback latest
  capataz pipeline rollback latest feature-extraction

What is at work is ended, and its late results are refused.")]
    Rollback {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Phase that begins anew [default: the one at work or blocked]
        #[arg(value_name = "PHASE")]
        phase: Option<String>,
        #[command(flatten)]
        mutation: Mutation,
    },
    /// Let a blocked phase go on, with another agent or input where that helps
    ///
    /// What counts already stays: only the items without an output are worked on again.
    #[command(after_help = "\
Examples:
  capataz pipeline resume latest
  capataz pipeline resume latest --agent careful-classifier
  capataz pipeline resume latest --input '{\"sourceId\": \"org/repo\", \"paths\": []}'")]
    Resume {
        /// Id of the run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Agent that does the work of the phase from now on
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// What the open items are given from now on, as JSON
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        #[command(flatten)]
        mutation: Mutation,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz pipeline run product-analysis --input path=.
  capataz pipeline run review.toml --input repo=org/app --input 'limit:=20' --watch
  capataz pipeline run review.toml --input-file input.json --detach

PIPELINE is a file, or a name: of pipelines/NAME.toml, or of one that is built in. With
--input path=FOLDER the folder's file names and manifests are one more item of `sources` in the
input; the daemon itself reads no folder.

Exit codes: 0 all phases are completed, 1 it failed or is blocked, 2 the pipeline or an argument is
not valid, 5 it waits for a person and --exit-on-question is given.

With --json, the output is one document with run_id, created and result; with --watch, a line for
each event; with --detach, one document with run_id and created.")]
pub struct PipelineRunArgs {
    /// Pipeline in TOML or JSON, or its name
    #[arg(value_name = "PIPELINE")]
    pub pipeline: PathBuf,
    /// Format of the pipeline [default: by the file's extension, else by its contents]
    #[arg(long, value_enum)]
    pub format: Option<PlanFormat>,
    /// Part of the input: KEY=TEXT, KEY:=JSON or path=FOLDER; may be repeated
    #[arg(long = "input", short = 'i', value_name = "KEY=VALUE", conflicts_with = "input_file")]
    pub inputs: Vec<String>,
    /// File with the whole input, as JSON
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,
    /// What the checkpoints are of [default: the pipeline's own, else its name]
    #[arg(long, value_name = "NAME")]
    pub product: Option<String>,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key and pipeline name the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    #[command(flatten)]
    pub following: Following,
}
