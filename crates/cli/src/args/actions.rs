//! Arguments of `act` and of the commands under `browser`.

use std::path::PathBuf;
use std::time::Duration;

use capataz_contracts::placeholder::is_placeholder_name;
use clap::{Args, Subcommand};

use super::{LocalArgs, Patience, PlanFormat, label, parse_duration};

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  capataz act examples/scripts/extract-table.toml
  capataz act script.toml --var user=marta --watch --report run.html
  capataz act script.toml --json | jq '.result.script.outputs'
  capataz act script.toml --detach --label env=ci --key build-4711
  capataz act check script.toml               list violations, without a browser

With --json, the output is one document with run_id, created and result; with --watch, a line for
each event; with --detach, one document with run_id and created. A script that breaks rules is not
started: exit code 2, and with --json a document with valid, error_code and violations."
)]
pub struct ActArgs {
    #[command(subcommand)]
    pub command: Option<ActCommand>,
    /// Script in TOML or JSON; `-` for stdin
    #[arg(value_name = "FILE", required = true)]
    pub file: Option<PathBuf>,
    /// Format of the script [default: by the file's extension, else by its contents]
    #[arg(long, value_enum)]
    pub format: Option<PlanFormat>,
    /// Value of `${var:NAME}`, overriding the script's; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// Show the browser's window
    #[arg(long)]
    pub headed: bool,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key and script name the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Also show each stage of each action
    #[arg(long, short = 'w', conflicts_with = "detach")]
    pub watch: bool,
    /// Start the run and do not wait for its end
    #[arg(long, short = 'd')]
    pub detach: bool,
    /// Write a report with pictures, as one HTML file, when the run has ended
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Subcommand)]
pub enum ActCommand {
    /// Check a script without a daemon or a browser: every rule that needs no page
    #[command(after_help = "\
Examples:
  capataz act check script.toml
  capataz act check script.toml --json | jq '.violations[].path'
  capataz act check - --format json < script.json

Exit code 2 if the script breaks a rule.")]
    Check {
        /// Script in TOML or JSON; `-` for stdin
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Format of the script [default: by the file's extension, else by its contents]
        #[arg(long, value_enum)]
        format: Option<PlanFormat>,
        /// Value of `${var:NAME}`, overriding the script's; may be repeated
        #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
        variables: Vec<(String, String)>,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz evidence latest                              list it
  capataz evidence latest 3f0a9c12                     save one as KIND-ID.png
  capataz evidence latest screenshot_after -o fault.png
  capataz evidence 7f3a page_log -o - | jq .console
  capataz evidence latest screenshot_after --open

A file that exists is left as it is, unless --force is given.")]
pub struct EvidenceArgs {
    /// Id of the run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Piece to save or open: its id, the beginning of it, or its kind where there is one of it [default: list all]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// File to write; `-` for stdout [default: named after the kind and the id, in the working folder]
    #[arg(long, short = 'o', value_name = "FILE", requires = "id")]
    pub output: Option<PathBuf>,
    /// Write over a file that exists
    #[arg(long, requires = "id")]
    pub force: bool,
    /// Open the piece with the desktop's program for such files (xdg-open), from a new temporary file; HTML as text
    #[arg(long, requires = "id", conflicts_with_all = ["output", "force"])]
    pub open: bool,
}

#[derive(Debug, Subcommand)]
pub enum BrowserCommand {
    /// Open a browser for actions that are proposed one at a time, and print its run id
    Open(OpenArgs),
    /// Print the elements of the page, one a line, with references for the next action
    #[command(after_help = "\
Examples:
  capataz browser observe latest
  capataz browser observe 7f3a --max 5000
  capataz browser observe latest --json | jq -r .outline")]
    Observe {
        /// Id of the session's run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Maximum number of characters of the outline [default: 20000]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        max: Option<u32>,
    },
    /// Perform one action, and print its outcome
    Do(DoArgs),
    /// Close a session's browser, which ends its run
    #[command(after_help = "Example:\n  capataz browser close latest")]
    Close {
        /// Id of the session's run, the beginning or end of it, or `latest`
        #[arg(value_name = "RUN")]
        run: String,
        /// Repeating a call with the same id has no further effect [default: a new id]
        #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
        request_id: String,
    },
    /// List the browsers that are open now
    #[command(after_help = "Example:\n  capataz browser list --json | jq -r '.browsers[].run_id'")]
    List,
    /// Find the browser's program and test that it starts; needs no daemon
    Doctor(DoctorArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz browser open --allow example.com --allow '*.example.com'
  capataz browser open session.toml --headed
  run=$(capataz browser open --allow 127.0.0.1:8080)

FILE is a script with interactive = true, whose policy, browser and variables apply. Without FILE,
the session may reach only the hosts that --allow names.")]
pub struct OpenArgs {
    /// Interactive script in TOML or JSON; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Format of the script [default: by the file's extension, else by its contents]
    #[arg(long, value_enum)]
    pub format: Option<PlanFormat>,
    /// Host that may be reached, in addition to those of FILE; may be repeated
    #[arg(long = "allow", value_name = "HOST")]
    pub allow: Vec<String>,
    /// Name of the session
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Value of `${var:NAME}`; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// Show the browser's window
    #[arg(long)]
    pub headed: bool,
    /// Cookies and local storage to start with, saved at the end
    #[arg(long, value_name = "NAME")]
    pub storage_state: Option<String>,
    /// Close the browser when no action was proposed for this long [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// Label of the run; may be repeated
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Idempotency key: the same key names the same session
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  echo '{\"id\": \"open\", \"kind\": \"navigate\", \"url\": \"https://example.com\"}' | capataz browser do latest -
  echo '{\"id\": \"more\", \"kind\": \"click\", \"target\": {\"ref\": \"d1e2\"}}' | capataz browser do latest -
  capataz browser do 7f3a action.json --json | jq .error.error_code

Exit code 1 if the action failed.")]
pub struct DoArgs {
    /// Id of the session's run, the beginning or end of it, or `latest`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// One action in JSON; `-` for stdin
    #[arg(value_name = "ACTION")]
    pub action: PathBuf,
    /// Repeating a call with the same id does not perform the action again [default: a new id]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub request_id: String,
    /// Fail unless this is the run's newest event
    #[arg(long, value_name = "SEQ")]
    pub if_seq: Option<u64>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz browser doctor
  capataz browser doctor --program /opt/chromium/chrome --json

Exit code 1 if no browser is found that starts.")]
pub struct DoctorArgs {
    /// Program to examine, instead of the configured one or the one that the daemon would find
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// The daemon's configuration file [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The daemon's data folder
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Parses a variable, `NAME=VALUE`. The value may be empty, and may contain equals signs.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a variable is NAME=VALUE")?;
    if !is_placeholder_name(name) {
        return Err("a name has 1 to 128 letters, digits, `.`, `_`, `-`".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_ends_its_name_at_the_first_equals_sign() {
        assert_eq!(variable("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(variable("a="), Ok(("a".to_owned(), String::new())));
        assert!(variable("a b=c").is_err());
        assert!(variable("abc").is_err());
    }
}
