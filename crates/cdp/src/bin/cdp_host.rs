//! Only for the tests of the client, which need a second process: one that is the shim, and one that holds a browser and
//! is killed. Nothing installs it.
//!
//! `cdp_host __shim …` is the shim. `cdp_host hold <program> <profile folder> <locks folder>` starts a browser under the
//! default shim, which is this file again, writes a line when it runs, and never ends by itself.

use std::ffi::OsString;
use std::future::pending;
use std::process::ExitCode;

use capataz_cdp::{Browser, LaunchOptions, ShimOptions};
use capataz_shim::{ShimCommand, shim_main};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|mode| mode.to_str()) {
        Some("__shim") => shim_main(args),
        Some("hold") => match (args.next(), args.next(), args.next()) {
            (Some(program), Some(profile), Some(locks)) => hold(program, profile, locks),
            _ => ExitCode::FAILURE,
        },
        _ => ExitCode::FAILURE,
    }
}

fn hold(program: OsString, profile: OsString, locks: OsString) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    let mut options = LaunchOptions::new(program, profile);
    options.shim = Some(ShimOptions { command: ShimCommand::default(), locks_folder: locks.into() });
    runtime.block_on(async {
        match Browser::launch(options).await {
            Ok(_browser) => {
                println!("ready");
                pending().await
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    })
}
