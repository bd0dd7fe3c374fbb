//! How browsers start.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use capataz_cdp::{Browser, LaunchError};

use crate::support::{
    Bench, DEADLINE, Under, evaluate, eventually, is_alive, page, processes_naming, program,
};

#[tokio::test]
async fn a_page_evaluates_and_nothing_is_left_after_the_close() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let browser = Browser::launch(bench.options(program().await, under)).await.unwrap();
        assert!(browser.version().product.contains("Chrome/"), "{:?}", browser.version());
        let page = page(&browser).await;
        assert_eq!(evaluate(&page, "6 * 7").await, 42);
        assert!(bench.profile().join("data").is_dir());
        assert!(!processes_naming(&bench.profile()).is_empty());

        let ended = browser.close(DEADLINE).await;
        assert!(ended.status.unwrap().success(), "{under:?}: {ended}");
        assert_eq!(processes_naming(&bench.profile()), Vec::<i32>::new());
        assert!(!bench.profile().exists());
        assert!(!bench.locks().exists() || fs::read_dir(bench.locks()).unwrap().next().is_none());
    }
}

#[tokio::test]
async fn a_profile_may_lie_deep() {
    // Longer than the path of a socket may be.
    let bench = Bench::new();
    let mut options = bench.options(program().await, Under::Shim);
    options.profile_folder = bench.profile().join("deep/".repeat(30)).join("profile");
    let browser = Browser::launch(options).await.unwrap();
    let page = page(&browser).await;
    assert_eq!(evaluate(&page, "1 + 1").await, 2);
}

#[tokio::test]
async fn a_browser_that_ends_at_once_says_why() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let error = bench.launch_script("echo no display 1>&2; exit 7", under, DEADLINE).await;
        let LaunchError::Ended(ended) = &error else { panic!("{under:?}: {error}") };
        assert_eq!(ended.status.unwrap().code(), Some(7));
        assert_eq!(&*ended.stderr, "no display");
        assert!(!bench.profile().exists());
    }
}

#[tokio::test]
async fn a_browser_that_crashes_before_its_first_answer_is_started_anew() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let starts = bench.path("starts");
        let crashes_once = format!(
            "echo start >> {starts}; [ $(wc -l < {starts}) -gt 1 ] || kill -SEGV $$; exec {program} \"$@\"",
            starts = starts.display(),
            program = program().await.display(),
        );
        let program = bench.script(&crashes_once).await;
        let browser = Browser::launch(bench.options(program, under)).await.unwrap();
        assert_eq!(evaluate(&page(&browser).await, "6 * 7").await, 42, "{under:?}");
        browser.kill().await;
        assert_eq!(fs::read_to_string(&starts).unwrap().lines().count(), 2, "{under:?}");
    }
}

#[tokio::test]
async fn a_browser_that_always_crashes_is_given_up() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let starts = bench.path("starts");
        let script = format!("echo start >> {}; kill -SEGV $$", starts.display());
        let error = bench.launch_script(&script, under, DEADLINE).await;
        let LaunchError::Ended(ended) = &error else { panic!("{under:?}: {error}") };
        assert_eq!(ended.status.unwrap().signal(), Some(11), "{under:?}");
        assert_eq!(fs::read_to_string(&starts).unwrap().lines().count(), 3, "{under:?}");
        assert!(!bench.profile().exists());
    }
}

#[tokio::test]
async fn a_browser_that_does_not_answer_is_killed() {
    for under in [Under::Shim, Under::Us] {
        let (bench, pid_file) = silent(under).await;
        let pid: i32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        eventually(|| !is_alive(pid) && !bench.profile().exists()).await;
    }
}

/// A bench with a program that was started and did not answer, and the file with its process id. On a slow machine it may
/// not even run in the shortest of the limits; only one that did is of use.
async fn silent(under: Under) -> (Bench, PathBuf) {
    for seconds in [2, 10, 60] {
        let bench = Bench::new();
        let pid_file = bench.path("pid");
        let script = format!("echo $$ > {}; echo busy 1>&2; exec sleep 600", pid_file.display());
        let error = bench.launch_script(&script, under, Duration::from_secs(seconds)).await;
        let LaunchError::NoAnswer { stderr, .. } = &error else { panic!("{under:?}: {error}") };
        if stderr == "busy" {
            return (bench, pid_file);
        }
        assert_eq!(stderr, "", "{under:?}");
    }
    panic!("{under:?}: the program has not run")
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_says_why() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let error = Browser::launch(bench.options("/no/such/program", under)).await.unwrap_err();
        let LaunchError::NotStarted { source, .. } = &error else { panic!("{under:?}: {error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        assert!(!bench.profile().exists());
    }
}

#[tokio::test]
async fn a_folder_with_something_in_it_is_not_taken_for_a_profile() {
    let bench = Bench::new();
    let file = bench.profile().join("precious");
    fs::create_dir(bench.profile()).unwrap();
    fs::write(&file, "text").unwrap();
    let error = bench.launch_script("exit 0", Under::Shim, DEADLINE).await;
    assert!(matches!(error, LaunchError::ProfileFolder { .. }), "{error}");
    assert!(file.exists());
}

#[tokio::test]
async fn the_browser_gets_only_the_environment_that_it_is_given() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let program = bench.script("env 1>&2; ls /proc/$$/fd 1>&2; exit 1").await;
        let mut options = bench.options(program, under);
        options.environment = [("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let LaunchError::Ended(ended) = Browser::launch(options).await.unwrap_err() else { panic!() };
        let lines: BTreeSet<&str> = ended.stderr.lines().collect();
        let names: BTreeSet<&str> = lines.iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        // The shell itself adds PWD, and some shells a few more.
        let extra = ["PWD", "OLDPWD", "SHLVL", "_"];
        let given: Vec<&&str> = names.iter().filter(|name| !extra.contains(name)).collect();
        // By this one the next start of the daemon knows what a lost shim left behind.
        let lease: &[&str] = if let Under::Shim = under { &["CAPATAZ_LEASE"] } else { &[] };
        let expected = [lease, &["HOME", "LANG", "PATH", "TMPDIR"]].concat();
        assert_eq!(given, expected.iter().collect::<Vec<_>>(), "{under:?}");
        let files: BTreeSet<&str> = lines.into_iter().filter(|line| line.parse::<u32>().is_ok()).collect();
        // The shell reads its script from a descriptor of its own, from 10 on.
        let inherited: Vec<&str> = files.into_iter().filter(|file| file.len() == 1).collect();
        assert_eq!(inherited, ["0", "1", "2", "3", "4"], "{under:?}");
    }
}

#[tokio::test]
async fn a_browser_that_is_dropped_is_killed() {
    for under in [Under::Shim, Under::Us] {
        let bench = Bench::new();
        let browser = Browser::launch(bench.options(program().await, under)).await.unwrap();
        drop(browser);
        eventually(|| processes_naming(&bench.profile()).is_empty() && !bench.profile().exists()).await;
    }
}

#[tokio::test]
async fn a_browser_that_does_not_want_to_end_is_killed() {
    let bench = Bench::new();
    let browser = Browser::launch(bench.options(program().await, Under::Shim)).await.unwrap();
    let browser_process = crate::support::processes(&browser).await[0];
    let browser_process = rustix::process::Pid::from_raw(browser_process).unwrap();
    rustix::process::kill_process(browser_process, rustix::process::Signal::STOP).unwrap();
    let ended = browser.close(Duration::from_millis(100)).await;
    assert!(!ended.status.unwrap().success(), "{ended}");
    assert_eq!(processes_naming(&bench.profile()), Vec::<i32>::new());
    assert!(!bench.profile().exists());
}
