//! Only for the tests of process agents, which need a second process: one that is the shim, and one that plays a daemon
//! which is killed. Nothing installs it.
//!
//! `process_agent_host __shim …` is the shim. `process_agent_host run <shims folder> <program> [argument]…` runs an
//! agent with the default shim, which is this file again, and prints the outcome.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use capataz_hosts::commands::{Call, Places, ProcessAgent, ProcessContext, ShimCommand, run, shim_main};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|mode| mode.to_str()) {
        Some("__shim") => shim_main(args),
        Some("run") => host(args),
        _ => ExitCode::FAILURE,
    }
}

fn host(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(shims_folder) = args.next().map(PathBuf::from) else { return ExitCode::FAILURE };
    let agent = ProcessAgent::new("hosted", args.filter_map(|argument| argument.into_string().ok()));
    let context = ProcessContext {
        shim: ShimCommand::default(),
        shims_folder,
        secrets: Arc::new(|_: &str| None::<String>),
        places: Places::default(),
    };
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    let (_control, commands) = tokio::sync::mpsc::channel(1);
    let outcome = runtime.block_on(run(&agent, &context, Call::default(), commands, |_| {}));
    println!("{outcome:?}");
    ExitCode::SUCCESS
}
