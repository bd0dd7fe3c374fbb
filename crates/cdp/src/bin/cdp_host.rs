//! Only for the tests of the client, which need a second process: one that is the shim, and one that holds a browser and
//! is killed. Nothing installs it.
//!
//! `cdp_host __shim …` is the shim. `cdp_host hold <program> <profile folder> <locks folder>` starts a browser under the
//! default shim, which is this file again, writes a line when it runs, and never ends by itself. `cdp_host attach
//! <endpoint>` opens a tab in a browser that runs already, and then does the same.

use std::ffi::OsString;
use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use capataz_cdp::attach::{AttachOptions, Attached};
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
        Some("attach") => args.next().map_or(ExitCode::FAILURE, attach),
        _ => ExitCode::FAILURE,
    }
}

fn attach(endpoint: OsString) -> ExitCode {
    let endpoint = endpoint.to_str().and_then(|endpoint| endpoint.parse().ok());
    let (Ok(runtime), Some(endpoint)) = (tokio::runtime::Runtime::new(), endpoint) else {
        return ExitCode::FAILURE;
    };
    let options =
        AttachOptions { endpoint, proxy: None, download_folder: None, answer_limit: Duration::from_secs(60) };
    runtime.block_on(async {
        let Ok(attached) = Attached::attach(options).await else { return ExitCode::FAILURE };
        let tab = serde_json::json!({ "url": "data:text/html,ours", "browserContextId": attached.context() });
        let opened: Result<serde_json::Value, _> =
            attached.connection().browser().call("Target.createTarget", tab).await;
        match opened {
            Ok(_) => {
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
