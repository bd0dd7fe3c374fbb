//! Process agents with real processes: what comes out of a command, and that nothing of it stays behind.
#![allow(clippy::unwrap_used, clippy::panic)]

mod process_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use capataz_hosts::Order;
use capataz_hosts::commands::{Call, OutputFormat, ProcessAgent, ProcessOutcome, ProgressUpdate};
use capataz_policy::codes::{
    AGENT_COMMAND_FAILED, AGENT_COMMAND_NOT_STARTED, INVALID_OUTPUT, OUTPUT_TOO_LARGE, SERVICE_UNAVAILABLE,
};
use process_support::{Bench, eventually, is_alive, sh};
use tokio::sync::mpsc;

/// No test waits as long; a command that sleeps so long is one that has to be killed.
const LONG: &str = "600";

#[track_caller]
fn check_failed(outcome: ProcessOutcome, code: impl Into<String>, message: &str) {
    let ProcessOutcome::Failed { error, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.code.as_str(), error.message.as_str()), (code.into().as_str(), message));
}

#[track_caller]
fn check_completed(outcome: ProcessOutcome, expected: &str) {
    let ProcessOutcome::Completed { output, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(String::from_utf8_lossy(&output.bytes), expected);
}

#[tokio::test]
async fn json_goes_in_and_comes_out() {
    let bench = Bench::new();
    let outcome = bench.run(&ProcessAgent::new("echo", ["cat"]), r#"{"a": [1, "ñ"]}"#).await;
    let ProcessOutcome::Completed { output, log } = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (output.media_type.as_str(), &*output.bytes),
        ("application/json", r#"{"a": [1, "ñ"]}"#.as_bytes())
    );
    assert_eq!(log, Bytes::new());
    assert_eq!(bench.lock_files(), 0);
}

#[tokio::test]
async fn a_command_learns_the_span_that_its_work_belongs_to() {
    let bench = Bench::new();
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call =
        Call { input: Bytes::from_static(b"{}"), traceparent: traceparent.to_owned(), ..Call::default() };
    let (_sender, receiver) = mpsc::channel(1);
    let agent = sh(r#"printf '"%s"' "$TRACEPARENT""#);
    let outcome = capataz_hosts::commands::run(&agent, &bench.context, call, receiver, |_| {}).await;
    check_completed(outcome, &format!("\"{traceparent}\""));
}

#[tokio::test]
async fn no_output_is_null() {
    check_completed(Bench::new().run(&sh("exit 0"), "{}").await, "null");
}

#[tokio::test]
async fn text_is_kept_as_text() {
    let agent = ProcessAgent { output: OutputFormat::Text, ..sh(r"printf 'one\n\377\n'") };
    let outcome = Bench::new().run(&agent, "{}").await;
    let ProcessOutcome::Completed { output, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((output.media_type.as_str(), &*output.bytes), ("text/plain", "one\n\u{fffd}\n".as_bytes()));
}

#[tokio::test]
async fn stdout_that_is_not_json_is_refused() {
    let agent = ProcessAgent { output: OutputFormat::Json, ..sh("echo hello there") };
    let outcome = Bench::new().run(&agent, "{}").await;
    check_failed(outcome, INVALID_OUTPUT, "stdout is not one JSON value; it begins: hello there\n");
}

#[tokio::test]
async fn a_command_that_is_missing_is_named() {
    let outcome = Bench::new().run(&ProcessAgent::new("a", ["no-such-command"]), "{}").await;
    let message = "cannot start `no-such-command`: No such file or directory";
    check_failed(outcome, AGENT_COMMAND_NOT_STARTED, message);
}

#[tokio::test]
async fn a_file_that_is_not_executable_is_named() {
    let bench = Bench::new();
    let file = bench.folder().join("data.txt");
    fs::write(&file, "text").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let program = file.to_str().unwrap();
    let message = format!("cannot start `{program}`: Permission denied");
    let outcome = bench.run(&ProcessAgent::new("a", [program]), "{}").await;
    check_failed(outcome, AGENT_COMMAND_NOT_STARTED, &message);
    assert_eq!(bench.lock_files(), 0);
}

#[tokio::test]
async fn the_commands_own_127_is_an_exit_code() {
    let outcome = Bench::new().run(&sh("echo gone >&2; exit 127"), "{}").await;
    check_failed(outcome, AGENT_COMMAND_FAILED, "exit code 127: gone");
}

#[tokio::test]
async fn the_working_directory_is_used_and_named_when_missing() {
    let bench = Bench::new();
    let folder = fs::canonicalize(bench.folder()).unwrap();
    let agent = ProcessAgent { output: OutputFormat::Text, cwd: Some(folder.clone()), ..sh("pwd -P") };
    check_completed(bench.run(&agent, "{}").await, &format!("{}\n", folder.display()));

    let missing = folder.join("missing");
    let message =
        format!("cannot use the working directory `{}`: No such file or directory", missing.display());
    let agent = ProcessAgent { cwd: Some(missing), ..agent };
    check_failed(bench.run(&agent, "{}").await, AGENT_COMMAND_NOT_STARTED, &message);
}

#[tokio::test]
async fn a_shim_that_cannot_start_is_a_failed_start() {
    let mut bench = Bench::new();
    bench.context.shim.program = "/no/such/shim".into();
    let message = "cannot supervise `sh`: No such file or directory";
    check_failed(bench.run(&sh("exit 0"), "{}").await, AGENT_COMMAND_NOT_STARTED, message);

    bench.context.shim.program = "false".into();
    let message = "cannot supervise `sh`: no supervisor started";
    check_failed(bench.run(&sh("exit 0"), "{}").await, AGENT_COMMAND_NOT_STARTED, message);
}

#[tokio::test]
async fn exit_codes_become_errors() {
    let bench = Bench::new();
    let outcome = bench.run(&sh("echo first >&2; echo last >&2; exit 3"), "{}").await;
    let ProcessOutcome::Failed { log, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(&**log, b"first\nlast\n");
    check_failed(outcome, AGENT_COMMAND_FAILED, "exit code 3: last");

    let agent = ProcessAgent { retryable_exit_codes: vec![75], ..sh("exit 75") };
    check_failed(bench.run(&agent, "{}").await, SERVICE_UNAVAILABLE, "exit code 75");
}

#[tokio::test]
async fn a_command_may_say_itself_why_it_failed() {
    let report =
        r#"echo '{"error": {"code": "QUOTA", "message": "tomorrow", "retry_after_ms": 10}}'; exit 1"#;
    let outcome = Bench::new().run(&sh(report), "{}").await;
    let ProcessOutcome::Failed { error, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.retry_after_ms, Some(10));
    check_failed(outcome, "QUOTA", "tomorrow");
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_a_failure() {
    let outcome = Bench::new().run(&sh("kill -9 $$"), "{}").await;
    check_failed(outcome, AGENT_COMMAND_FAILED, "ended by signal 9 (SIGKILL)");
    let outcome = Bench::new().run(&sh("kill -TERM $$"), "{}").await;
    check_failed(outcome, AGENT_COMMAND_FAILED, "ended by signal 15 (SIGTERM)");
}

#[tokio::test]
async fn endless_output_ends_the_command() {
    let bench = Bench::new();
    // Without an end of its own: only the limit can end it.
    let outcome = bench.run(&ProcessAgent::new("a", ["cat", "/dev/zero"]), "{}").await;
    check_failed(outcome, OUTPUT_TOO_LARGE, "the command wrote more than 1048576 bytes to stdout");
    assert!(process_support::peak_memory() < 256 * 1024 * 1024);

    let exactly =
        ProcessAgent { max_output: 1000, output: OutputFormat::Text, ..sh("head -c 1000 /dev/zero") };
    check_completed(bench.run(&exactly, "{}").await, &"\0".repeat(1000));
}

#[tokio::test]
async fn endless_stderr_is_cut_to_its_end() {
    let outcome = Bench::new().run(&sh("head -c 100000000 /dev/zero >&2; echo end >&2; exit 1"), "{}").await;
    let ProcessOutcome::Failed { error, log } = outcome else { panic!("{outcome:?}") };
    assert_eq!(log.len(), capataz_hosts::commands::LOG_LIMIT);
    assert!(log.ends_with(b"end\n"));
    assert!(error.message.len() < 1000, "{}", error.message.len());
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_error() {
    let input = format!("\"{}\"", "x".repeat(8 * 1024 * 1024));
    let bench = Bench::new();
    check_completed(bench.run(&sh("exec 0<&-; echo 1"), &input).await, "1");
    check_completed(bench.run(&sh("echo 2"), &input).await, "2");
}

#[tokio::test]
async fn large_input_arrives_whole() {
    let input = format!("\"{}\"", "x".repeat(8 * 1024 * 1024));
    let agent = ProcessAgent { max_output: 16 * 1024 * 1024, ..ProcessAgent::new("echo", ["cat"]) };
    check_completed(Bench::new().run(&agent, &input).await, &input);
}

#[tokio::test]
async fn a_command_that_heeds_sigterm_ends_within_the_grace() {
    let bench = Bench::new();
    let script =
        format!("trap 'echo \"[1]\"; exit 0' TERM; {}; while :; do sleep 0.01; done", bench.mark("ready"));
    let (outcome, ()) = bench
        .run_while(&sh(&script), async |commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            // So long a grace that the test would fail by its own limit if it were waited for.
            commands.send(Order::Cancel { grace: Duration::from_secs(86_400) }).await.unwrap();
        })
        .await;
    let ProcessOutcome::Cancelled { partial, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(partial.map(|output| output.bytes), Some(Bytes::from_static(b"[1]")));
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let bench = Bench::new();
    // It hears of SIGTERM, and works on.
    let script = format!(
        "{}; trap '{}' TERM; {}; while :; do sleep 0.01; done",
        leave_three(&bench),
        bench.mark("heard"),
        bench.mark("ready")
    );
    let grace = Duration::from_secs(2);
    let (outcome, cancelled_at) = bench
        .run_while(&sh(&script), async |commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            let cancelled_at = tokio::time::Instant::now();
            commands.send(Order::Cancel { grace }).await.unwrap();
            cancelled_at
        })
        .await;
    // A fifth of the grace is there to tell the end.
    assert!(cancelled_at.elapsed() >= grace * 4 / 5, "{:?}", cancelled_at.elapsed());
    assert!(matches!(outcome, ProcessOutcome::Cancelled { partial: None, .. }), "{outcome:?}");
    assert!(bench.is_marked("heard"), "it was asked before it was killed");
    for pid in left_behind(&bench).into_iter().chain([bench.marked("ready")]) {
        assert!(!is_alive(pid));
    }
}

#[tokio::test]
async fn a_later_cancel_without_a_grace_does_not_wait_for_the_one_before() {
    let bench = Bench::new();
    let script = format!("trap '' TERM; {}; while :; do sleep {LONG}; done", bench.mark("ready"));
    let (outcome, pid) = bench
        .run_while(&sh(&script), async |commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            commands.send(Order::Cancel { grace: Duration::MAX }).await.unwrap();
            commands.send(Order::Cancel { grace: Duration::ZERO }).await.unwrap();
            bench.marked("ready")
        })
        .await;
    assert!(matches!(outcome, ProcessOutcome::Cancelled { .. }), "{outcome:?}");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_command_goes_on_where_its_cancel_was_withdrawn() {
    let bench = Bench::new();
    let (ready, heard) = (bench.mark("ready"), bench.mark("heard"));
    // It works for longer than the grace of the cancel that does not count.
    let script = format!(
        "trap '{heard}' TERM; {ready}; sleep 1.2; while ! [ -e {} ]; do sleep 0.01; done; echo 7",
        bench.path("heard")
    );
    let (outcome, ()) = bench
        .run_while(&sh(&script), async |commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            commands.send(Order::Cancel { grace: Duration::from_secs(1) }).await.unwrap();
            commands.send(Order::Withdraw).await.unwrap();
        })
        .await;
    let ProcessOutcome::Completed { output, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(output.bytes, Bytes::from_static(b"7"));
}

/// A script that leaves three processes behind, all deaf to SIGTERM: one in its group, one in a session of its own, and
/// one in such a session whose parent is gone.
fn leave_three(bench: &Bench) -> String {
    let deaf = bench.path("deaf.sh");
    fs::write(&deaf, format!("trap '' TERM; echo $$ > $1.new; mv $1.new $1; sleep {LONG}; :")).unwrap();
    let (group, session, deep) = (bench.path("group"), bench.path("session"), bench.path("deep"));
    format!(
        "sh {deaf} {group} & (setsid sh {deaf} {session} &); (setsid sh -c '(sh {deaf} {deep} &)' &); \
         until [ -e {group} ] && [ -e {session} ] && [ -e {deep} ]; do sleep 0.01; done"
    )
}

fn left_behind(bench: &Bench) -> [i32; 3] {
    ["group", "session", "deep"].map(|name| bench.marked(name))
}

#[tokio::test]
async fn nothing_survives_the_end_of_the_command() {
    let bench = Bench::new();
    let script = format!("{}; echo 1", leave_three(&bench));
    check_completed(bench.run(&sh(&script), "{}").await, "1");
    for pid in left_behind(&bench) {
        assert!(!is_alive(pid));
    }
    assert_eq!(bench.lock_files(), 0);
}

#[tokio::test]
async fn nothing_survives_a_dropped_future() {
    let bench = Bench::new();
    let script = format!("{}; {}; sleep {LONG}", leave_three(&bench), bench.mark("ready"));
    {
        let agent = sh(&script);
        let (_sender, receiver) = mpsc::channel(1);
        let mut run =
            pin!(capataz_hosts::commands::run(&agent, &bench.context, Call::default(), receiver, |_| {}));
        tokio::select! {
            outcome = &mut run => panic!("{outcome:?}"),
            () = eventually(|| bench.is_marked("ready")) => {}
        }
        assert!(left_behind(&bench).into_iter().all(is_alive));
    }
    for pid in left_behind(&bench).into_iter().chain([bench.marked("ready")]) {
        eventually(|| !is_alive(pid)).await;
    }
    eventually(|| bench.lock_files() == 0).await;
}

#[tokio::test]
async fn a_killed_shim_takes_its_commands_group_with_it() {
    let bench = Bench::new();
    let script = format!("{}; sleep {LONG}", bench.mark("ready"));
    let (outcome, pid) = bench
        .run_while(&sh(&script), async |_commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            let command = bench.marked("ready");
            let shim = process_support::parent(command).unwrap();
            // It sleeps once it has told the daemon about its command.
            eventually(|| process_support::is_asleep(shim)).await;
            process_support::kill(shim);
            command
        })
        .await;
    check_failed(outcome, AGENT_COMMAND_FAILED, "ended in an unknown way: its supervisor is lost");
    eventually(|| !is_alive(pid)).await;
}

#[tokio::test]
async fn a_shim_outlives_signals_that_ask_it_to_end() {
    let bench = Bench::new();
    let script =
        format!("{}; until [ -s {} ]; do sleep 0.01; done; echo 1", bench.mark("ready"), bench.path("go"));
    let (outcome, ()) = bench
        .run_while(&sh(&script), async |_commands, bench| {
            eventually(|| bench.is_marked("ready")).await;
            let shim = process_support::parent(bench.marked("ready")).unwrap();
            for signal in ["TERM", "INT", "HUP", "QUIT"] {
                process_support::signal(shim, signal);
            }
            fs::write(bench.path("go"), "1").unwrap();
        })
        .await;
    check_completed(outcome, "1");
}

#[tokio::test]
async fn the_environment_is_least() {
    let bench = Bench::new();
    let mut agent = ProcessAgent { output: OutputFormat::Text, ..ProcessAgent::new("a", ["env"]) };
    agent.env = BTreeMap::from([("OWN".to_owned(), "x ${secret:KEY}".to_owned())]);
    let outcome = bench.run(&agent, "{}").await;
    let ProcessOutcome::Completed { output, .. } = outcome else { panic!("{outcome:?}") };
    let text = String::from_utf8(output.bytes.to_vec()).unwrap();
    let allowed = ["PATH", "HOME", "LANG", "TMPDIR"].map(str::to_owned);
    #[expect(clippy::disallowed_methods, reason = "the test compares with its own environment")]
    let mut expected: Vec<String> = allowed
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", std::env::var(&name).ok()?)))
        .collect();
    expected.push("OWN=x hunter2-hunter2".to_owned());
    expected.sort();
    // By one more variable everything that a command starts is found again.
    let (mark, mut found): (Vec<_>, Vec<_>) =
        text.lines().map(str::to_owned).partition(|variable| variable.starts_with("CAPATAZ_LEASE="));
    assert_eq!(mark.len(), 1);
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn secrets_stay_out_of_logs_errors_and_progress() {
    let bench = Bench::new();
    let with_secret = |script: &str| ProcessAgent {
        env: BTreeMap::from([("KEY".to_owned(), "${secret:KEY}".to_owned())]),
        ..sh(script)
    };
    let lines = std::sync::Mutex::new(Vec::new());
    let (_sender, receiver) = mpsc::channel(1);
    let agent = with_secret("echo \"key $KEY\" >&2; exit 1");
    let outcome = capataz_hosts::commands::run(&agent, &bench.context, Call::default(), receiver, |update| {
        lines.lock().unwrap().extend(update.line);
    })
    .await;
    let ProcessOutcome::Failed { error, log } = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.message, "exit code 1: key ***************");
    assert_eq!(&*log, b"key ***************\n");
    assert_eq!(lines.into_inner().unwrap(), ["key ***************"]);

    let agent = ProcessAgent { output: OutputFormat::Json, ..with_secret("echo \"$KEY\"") };
    let outcome = bench.run(&agent, "{}").await;
    check_failed(outcome, INVALID_OUTPUT, "stdout is not one JSON value; it begins: ***************\n");

    let mut agent = sh("exit 0");
    agent.env.insert("KEY".to_owned(), "${secret:OTHER}".to_owned());
    let message = "cannot start the command: env.KEY: the secret `OTHER` is not known";
    check_failed(bench.run(&agent, "{}").await, AGENT_COMMAND_NOT_STARTED, message);
}

#[tokio::test]
async fn what_a_command_writes_is_shown_while_it_runs_without_secrets() {
    let bench = Bench::new();
    let mut agent = sh("echo \"one $KEY\"; echo note >&2; printf two; while :; do sleep 1; done");
    agent.env.insert("KEY".to_owned(), "${secret:KEY}".to_owned());
    let (sender, receiver) = mpsc::channel(1);
    let shown = std::sync::Mutex::new(None);
    let outcome = capataz_hosts::commands::run(&agent, &bench.context, Call::default(), receiver, |update| {
        if update.line.is_some() && update.tail.as_ref().is_some_and(|tail| tail.ends_with("two")) {
            let _ = sender.try_send(Order::Cancel { grace: Duration::from_secs(1) });
            *shown.lock().unwrap() = Some(update);
        }
    })
    .await;
    assert!(matches!(outcome, ProcessOutcome::Cancelled { .. }), "{outcome:?}");
    let ProgressUpdate { line, tail, log: _ } = shown.into_inner().unwrap().expect("an update with both");
    assert_eq!(line.as_deref(), Some("note"));
    assert_eq!(tail.as_deref(), Some("one ***************\ntwo"));
}

#[tokio::test]
async fn progress_is_the_latest_line_and_rare() {
    let bench = Bench::new();
    let (_sender, receiver) = mpsc::channel(1);
    let count = std::sync::atomic::AtomicUsize::new(0);
    #[expect(clippy::disallowed_methods, reason = "bounds how long a failing test waits")]
    let started = std::time::Instant::now();
    let agent = sh("i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo \"line $i\" >&2; done");
    let outcome = capataz_hosts::commands::run(&agent, &bench.context, Call::default(), receiver, |update| {
        assert!(update.line.is_some_and(|line| line.starts_with("line ")));
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    })
    .await;
    check_completed(outcome, "null");
    let most = started.elapsed().as_millis() / 200 + 1;
    let given = count.into_inner();
    assert!(given >= 1 && given as u128 <= most, "{given} updates, at most {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_do_not_touch_each_other() {
    let bench = std::sync::Arc::new(Bench::new());
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..40 {
        let bench = bench.clone();
        runs.spawn(async move {
            let input = format!("{{\"number\": {number}}}");
            check_completed(bench.run(&ProcessAgent::new("echo", ["cat"]), &input).await, &input);
        });
    }
    while let Some(done) = runs.join_next().await {
        done.unwrap();
    }
    assert_eq!(bench.lock_files(), 0);
}
