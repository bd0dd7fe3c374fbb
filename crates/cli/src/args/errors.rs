//! Arguments of the commands under `errors`.

use clap::{Subcommand, ValueEnum};

use capataz_policy::severity::Severity;

#[derive(Debug, Subcommand)]
pub enum ErrorsCommand {
    /// Tell how serious an error is and why, whether it is retried, and what to do
    ///
    /// The same rules apply as in a run: what is declared, else the table of codes, else the first pattern that matches the
    /// message; what no rule knows is HIGH.
    #[command(after_help = r#"Examples:
  capataz errors explain RATE_LIMIT
  capataz errors explain "E42: the build failed"
  capataz errors explain "disk is slow" --severity critical
  capataz errors explain TASK_TIMEOUT --json | jq .retry"#)]
    Explain {
        /// A code, `CODE: message`, or a message
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// Severity that the plan or the error declares
        #[arg(long, value_enum, value_name = "SEVERITY")]
        severity: Option<Declared>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Declared {
    Low,
    Medium,
    High,
    Critical,
}

impl From<Declared> for Severity {
    fn from(declared: Declared) -> Self {
        match declared {
            Declared::Low => Self::Low,
            Declared::Medium => Self::Medium,
            Declared::High => Self::High,
            Declared::Critical => Self::Critical,
        }
    }
}
