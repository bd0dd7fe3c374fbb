//! Programs that are not a browser, or not one that can be used.

use std::path::Path;

use capataz_contracts::{v1, validate};
use tonic_types::StatusExt;

use crate::bench::Bench;

const ONE_PAGE: &str =
    "name = \"one\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{site}/plain\"\n";

/// A program that a shell runs. Another process writes it: a file that this one had open could not be executed while a
/// test on another thread starts a process.
#[expect(clippy::disallowed_types, reason = "a test starts a process that writes a file")]
fn program(folder: &Path, script: &str) -> std::path::PathBuf {
    let path = folder.join("browser.sh");
    let mut writer = std::process::Command::new("sh");
    writer.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#]).arg(&path).arg(script);
    assert!(writer.status().unwrap().success());
    path
}

/// Starting a script is refused, with what is wrong; nothing is stored.
async fn check_refused(bench: &Bench, problem: &str) {
    let refused = bench.try_start(bench.script(ONE_PAGE)).await.expect_err("no browser");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "BROWSER_NOT_FOUND");
    assert!(refused.message().contains(problem), "{}", refused.message());
    assert!(refused.message().contains("apt install chromium"), "{}", refused.message());
    let listed = bench.runs.clone().list_runs(v1::ListRunsRequest::default()).await.unwrap().into_inner();
    assert!(listed.runs.is_empty());
    let described = v1::DescribeBrowserRequest {};
    let described = bench.executor.clone().describe_browser(described).await.unwrap().into_inner();
    assert!(!described.found && described.problem.contains(problem), "{described:?}");
}

#[tokio::test]
async fn a_browser_that_is_missing_refuses_the_script_and_says_what_to_install() {
    let bench =
        Bench::start_with(|config, folder| config.browser.program = Some(folder.join("nothing"))).await;
    check_refused(&bench, "does not exist").await;
}

#[tokio::test]
async fn a_browser_that_is_too_old_refuses_the_script() {
    let bench = Bench::start_with(|config, folder| {
        config.browser.program = Some(program(folder, "echo 'Chromium 88.0.4324.96 built on Debian'"));
    })
    .await;
    check_refused(&bench, "too old: 88.0.4324.96").await;
}

#[tokio::test]
async fn a_program_that_is_no_browser_refuses_the_script() {
    let bench = Bench::start_with(|config, folder| {
        config.browser.program = Some(program(folder, "echo hello"));
    })
    .await;
    check_refused(&bench, "did not say which version").await;
}

#[tokio::test]
async fn a_browser_that_ends_at_once_is_lost_and_leaves_no_profile() {
    let bench = Bench::start_with(|config, folder| {
        config.browser.program = Some(program(
            folder,
            "case \"$*\" in *--version*) echo 'Chromium 148.0.1.2' ;; *) exit 3 ;; esac",
        ));
    })
    .await;
    let ended = bench.run(ONE_PAGE).await;
    let error = ended.error();
    assert_eq!(error.error_code, "BROWSER_LOST", "{error:?}");
    assert_eq!(validate::executor_error(&error), [], "{error:?}");
    assert_eq!((error.action_id.as_str(), error.step_index), ("browser:open", Some(0)));
    crate::support::until_no_profile(&bench.data_dir()).await;
}

#[tokio::test]
async fn a_browser_that_never_speaks_is_lost_in_time_and_ended() {
    let bench = Bench::start_with(|config, folder| {
        config.browser.program = Some(program(
            folder,
            "case \"$*\" in *--version*) echo 'Chromium 148.0.1.2' ;; *) exec sleep 1000 ;; esac",
        ));
    })
    .await;
    let ended = bench.run(ONE_PAGE).await;
    assert_eq!(ended.error().error_code, "BROWSER_LOST");
    crate::support::until_no_profile(&bench.data_dir()).await;
}
