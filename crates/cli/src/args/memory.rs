//! Arguments of `capataz memory …`.

use clap::{Args, Subcommand};

use super::modes::Mode;

#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// List what a session remembers, newest first
    #[command(after_help = "\
Examples:
  capataz memory search --session shop
  capataz memory search 'config.toml' --session shop --type error
  capataz memory search --session shop --json | jq -r '.entries[].content'

A run that belongs to no session has a memory of its own: --session RUN, its whole id.")]
    Search(MemorySearchArgs),
    /// Show one entry in whole
    #[command(after_help = "\
Examples:
  capataz memory show 01a1fdf6-6f49-736a-bd71-3b1d4e5623ff-8-0
  capataz memory show 01a1fdf6-6f49-736a-bd71-3b1d4e5623ff-8-0 --json | jq .entry.relevance")]
    Show {
        /// Id of the entry
        #[arg(value_name = "ENTRY")]
        entry: String,
    },
    /// Have entries forgotten: they are not recalled, nor found, any more
    #[command(after_help = "\
Examples:
  capataz memory forget 01a1fdf6-6f49-736a-bd71-3b1d4e5623ff-8-0 --session shop

It cannot be undone. The events that made the entries stay in the log until retention removes their runs.")]
    Forget {
        /// Ids of the entries
        #[arg(value_name = "ENTRY", required = true, num_args = 1..=100)]
        entries: Vec<String>,
        /// The session that they belong to
        #[arg(long, short = 's', value_name = "NAME")]
        session: String,
    },
}

#[derive(Debug, Args)]
pub struct MemorySearchArgs {
    /// Text that an entry has, whatever the case of its letters
    #[arg(value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub text: String,
    /// The session, or the id of a run that belongs to none
    #[arg(long, short = 's', value_name = "NAME")]
    pub session: String,
    /// Only entries of this mode
    #[arg(long, value_name = "MODE", value_enum)]
    pub mode: Option<Mode>,
    /// Only entries of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = [
        "tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern",
    ])]
    pub kind: Option<String>,
    /// Entries that are listed at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Go on after the page whose output named this token
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    pub page_token: String,
}
