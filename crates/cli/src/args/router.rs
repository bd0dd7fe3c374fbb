//! Arguments of `ask` and of the commands under `router`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{LocalArgs, label, parse_duration};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz ask \"Me siento perdido\"
  capataz ask \"How do I begin?\" --session career --explain
  capataz ask --session career                  a conversation; try /help
  capataz ask \"Plan my week\" --preferences '{\"topics\": [\"sea\"], \"hour\": 7}'
  capataz ask \"Ayuda\" --spec kiro-adaptive-assistance --json | jq .response

Exit code 1 if no spec gave an answer, 4 if there is no answer yet.")]
pub struct AskArgs {
    /// The text to ask; without it, the command is a conversation
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Session of the ask [default: none with TEXT, a new one without]
    #[arg(long, short = 's', value_name = "NAME")]
    pub session: Option<String>,
    /// Spec that answers, overriding the router
    #[arg(long, value_name = "ID")]
    pub spec: Option<String>,
    /// Also show why the text goes to its spec
    #[arg(long)]
    pub explain: bool,
    /// The user's language, such as es or en
    #[arg(long, value_name = "CODE")]
    pub language: Option<String>,
    /// Preferences of the user, which the session keeps: a JSON object
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub preferences: Option<String>,
    /// Further data for the spec, for this ask alone: a JSON object
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub custom: Option<String>,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key and text name the same ask
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub timeout: Duration,
    #[command(flatten)]
    pub local: LocalArgs,
}

/// The text of a JSON object.
fn json_object(text: &str) -> Result<String, String> {
    match capataz_contracts::json::from_str(text) {
        Ok(serde_json::Value::Object(_)) => Ok(text.to_owned()),
        Ok(_) => Err("a JSON object is needed, such as {\"topics\": [\"sea\"]}".to_owned()),
        Err(violation) => Err(violation.message),
    }
}

#[derive(Debug, Subcommand)]
pub enum RouterCommand {
    /// Show every term of a routing decision, and changes that would have altered it
    #[command(after_help = "\
Examples:
  capataz router explain \"Necesito decidir entre dos opciones\"
  capataz router explain \"And then?\" --session career
  capataz router explain \"Help\" --json | jq '.specs[0].terms'")]
    Explain {
        /// The text
        #[arg(value_name = "TEXT")]
        text: String,
        /// Session whose conversation counts in the decision
        #[arg(long, short = 's', value_name = "NAME")]
        session: Option<String>,
        /// The user's language, such as es or en
        #[arg(long, value_name = "CODE")]
        language: Option<String>,
    },
    /// List the specs that the daemon knows
    #[command(after_help = "Example:\n  capataz router specs --json | jq '.specs[].id'")]
    Specs,
    /// Reload the daemon's spec files; an invalid file changes nothing
    #[command(after_help = "Example:\n  capataz router reload")]
    Reload,
    /// Accept the transition that an answer suggested
    #[command(after_help = "Example:\n  capataz router accept career 0192f3a4-…")]
    Accept {
        /// Name of the session
        #[arg(value_name = "SESSION")]
        session: String,
        /// Request whose answer suggested the transition
        #[arg(value_name = "REQUEST")]
        request_id: String,
    },
    /// Measure routing on labelled rows; needs no daemon
    Eval(EvalArgs),
    /// Lint spec files; needs no daemon
    Lint(LintArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Rows are tab-separated: text, label, split; the first line is a heading. If a file has rows of the
split that the option names (train, valid, test), only those rows count, so that one file can be
given three times; --shots N prefers the split train_N. FILE:SPLIT names another split. The label
oos marks texts that no spec should answer. Without --test, the rows of --valid are halved:
thresholds are chosen on one half, and the result is measured on the other.

Examples:
  capataz router eval --train rows.tsv --valid rows.tsv --test rows.tsv
  capataz router eval --train rows.tsv --valid rows.tsv --shots 10 --json
  capataz router eval --train rows.tsv --folds 5
  capataz router eval --train rows.tsv:train_5 --valid rows.tsv
  capataz router eval --specs specs --test questions.tsv    labels are spec ids")]
pub struct EvalArgs {
    /// Rows to train on: each label stands for a spec
    #[arg(long, value_name = "FILE", required_unless_present = "specs")]
    pub train: Option<PathBuf>,
    /// Folder of spec files to train on, instead of rows
    #[arg(long, value_name = "DIR", conflicts_with_all = ["train", "shots", "folds"])]
    pub specs: Option<PathBuf>,
    /// Rows on which thresholds are chosen
    #[arg(long, value_name = "FILE")]
    pub valid: Option<PathBuf>,
    /// Rows on which the result is measured
    #[arg(long, value_name = "FILE")]
    pub test: Option<PathBuf>,
    /// Train on at most this many rows of each label
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub shots: Option<u32>,
    /// Cross-validate the rows of --train in this many parts
    #[arg(long, value_name = "N", conflicts_with_all = ["valid", "test"], value_parser = clap::value_parser!(u32).range(2..=100))]
    pub folds: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz router lint
  capataz router lint --specs specs --json | jq '.findings[].message'

Exit code 2 if a file is invalid, 1 if a finding is a warning, 0 if there are at most notes.")]
pub struct LintArgs {
    /// Folder of the spec files
    #[arg(long, value_name = "DIR", default_value = "specs")]
    pub specs: PathBuf,
}
