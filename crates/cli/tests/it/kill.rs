//! The real daemon, killed with SIGKILL: what remains of its work, and which work goes on.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capataz_client::Client;
use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_contracts::v1;

use crate::served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn one_task(agent: &str) -> v1::StartRunRequest {
    let task = v1::Task { name: "t".to_owned(), agent: agent.to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    v1::StartRunRequest::of_plan(plan)
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The configuration of the agent `nest`, whose commands write into the journal. One that has ended and was not reaped has no
/// command line any more. Each start reports which processes of
/// earlier starts are alive, then leaves three of its own: itself, a child, and a grandchild in a session of its own. The
/// second start ends.
fn nest(folder: &Path) -> String {
    let script = r#"
        for pid in $(sed -n 's/^pid //p' "$JOURNAL"); do
            grep -qs . "/proc/$pid/cmdline" && echo "alive $pid" >> "$JOURNAL"
        done
        echo start >> "$JOURNAL"
        [ "$(grep -c start "$JOURNAL")" -ge 2 ] && { echo 1; exit 0; }
        sleep 1000 &
        echo "pid $!" >> "$JOURNAL"
        setsid sh -c 'echo "pid $$" >> "$JOURNAL"; exec sleep 1000' &
        echo "pid $$" >> "$JOURNAL"
        wait
    "#;
    let journal = folder.join("journal");
    std::fs::write(&journal, "").unwrap();
    let script = serde_json::to_string(&["sh", "-c", script]).unwrap();
    format!(
        "[[agents]]\nname = \"nest\"\ncommand = {script}\nenv = {{ JOURNAL = {:?} }}\n",
        journal.display().to_string()
    )
}

/// The processes of the first start of [`nest`]; the command is the last one.
async fn nested(journal: &Path) -> Vec<u32> {
    let pids = || lines(journal).iter().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect();
    eventually("three processes run", || Vec::<u32>::len(&pids()) == 3).await;
    pids()
}

/// The shim that has one of these processes as its own child.
fn shim_of(processes: &[u32]) -> u32 {
    let parent = |pid: &u32| -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let is_ours = |pid: &u32| processes.contains(pid);
    processes.iter().map(parent).find(|parent| !is_ours(parent)).unwrap()
}

fn kill(signal: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap().success());
}

/// Exactly two starts, of which the second found nothing of the first.
async fn check_one_copy(daemon: &Served, run: &str, journal: &Path) {
    let result = daemon.client().await.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let journal = lines(journal);
    assert_eq!(journal.iter().filter(|line| *line == "start").count(), 2, "{journal:?}");
    assert!(!journal.iter().any(|line| line.starts_with("alive")), "{journal:?}");
}

#[tokio::test]
async fn a_daemon_and_a_shim_that_are_killed_together_leave_no_second_copy() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let daemon = Served::start(folder.path(), &nest(folder.path()));
    let run = daemon.client().await.start_run(one_task("nest")).await.unwrap().run_id;
    let shim = shim_of(&nested(&journal).await);
    // Stopped first, so that neither can act on the death of the other.
    daemon.signal("STOP");
    kill("STOP", shim);
    kill("KILL", shim);
    let daemon = daemon.kill_and_start();
    check_one_copy(&daemon, &run, &journal).await;
}

#[tokio::test]
async fn a_shim_that_is_killed_alone_leaves_no_second_copy() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let daemon = Served::start(folder.path(), &nest(folder.path()));
    let mut start = one_task("nest");
    let retry = v1::RetryPolicy {
        max_attempts: Some(2),
        // At once: only what waits for the first copy keeps the second one from beginning beside it.
        base_delay_ms: Some(0),
        max_delay_ms: Some(0),
        retryable: vec!["AGENT_COMMAND_FAILED".to_owned()],
        ..Default::default()
    };
    if let Some(v1::start_run_request::Work::Plan(plan)) = &mut start.work {
        plan.waves[0].tasks[0].retry = Some(retry);
    }
    let run = daemon.client().await.start_run(start).await.unwrap().run_id;
    kill("KILL", shim_of(&nested(&journal).await));
    check_one_copy(&daemon, &run, &journal).await;
}

#[tokio::test]
async fn after_a_kill_no_child_or_grandchild_is_alive_when_the_next_lease_starts() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let daemon = Served::start(folder.path(), &nest(folder.path()));
    let run = daemon.client().await.start_run(one_task("nest")).await.unwrap().run_id;
    eventually("three processes run", || {
        lines(&journal).iter().filter(|line| line.starts_with("pid")).count() == 3
    })
    .await;
    let daemon = daemon.kill_and_start();
    let result = daemon.client().await.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let journal = lines(&journal);
    assert_eq!(journal.iter().filter(|line| *line == "start").count(), 2, "{journal:?}");
    assert!(!journal.iter().any(|line| line.starts_with("alive")), "{journal:?}");
    let view = daemon.client().await;
    let request = v1::GetRunRequest { run_id: run.clone(), ..Default::default() };
    let view = view.get_run(request).await.unwrap().run.unwrap();
    assert_eq!(view.waves[0].tasks[0].attempt, 1, "a lost lease is not an attempt");
    let (mut workers, mut losses) = (Vec::new(), Vec::new());
    let mut events = daemon.client().await.export_run(&run).await.unwrap();
    while let Some(event) = events.next().await {
        match event.unwrap().body {
            Some(v1::event::Body::TaskLeased(leased)) => workers.push(leased.worker),
            Some(v1::event::Body::TaskLeaseLost(lost)) => losses.push(lost.reason()),
            _ => {}
        }
    }
    // The host came back under its own id and said that it holds nothing: nobody waited for it.
    assert_eq!(losses, [v1::LeaseLossReason::Restarted]);
    let [before, after] = workers.as_slice() else { unreachable!("two leases, not {workers:?}") };
    assert!(before == after && before.starts_with("capataz-process-host-"), "{workers:?}");
}

#[tokio::test]
async fn a_worker_that_comes_back_after_a_kill_keeps_its_task_and_its_attempt_count() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let work = move |_: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let _ = started.send(()).await;
            let _ = finished.wait_for(|finished| *finished).await;
            Ok::<_, TaskError>(TaskOutput::text("done"))
        }
    };
    let worker = Worker::new(daemon.url()).id("w1").agent("slow", work);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let client = daemon.client().await;
    let run = loop {
        // The daemon does not know the agent until the worker has said hello.
        match client.start_run(one_task("slow")).await {
            Ok(started) => break started.run_id,
            Err(error) => assert_eq!(error.code(), Some("AGENT_NOT_FOUND")),
        }
        tokio::task::yield_now().await;
    };
    begun.recv().await.unwrap();
    let daemon = daemon.kill_and_start();
    finish.send_replace(true);
    let client = daemon.client().await;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    assert!(begun.try_recv().is_err(), "the work was begun once");
    let request = v1::GetRunRequest { run_id: run, ..Default::default() };
    let view = client.get_run(request).await.unwrap().run.unwrap();
    assert_eq!(view.waves[0].tasks[0].attempt, 1);
    worker.abort();
}

#[tokio::test]
async fn sigterm_drains_and_a_second_daemon_is_refused_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Served::start(folder.path(), "");
    let second = Command::new(env!("CARGO_BIN_EXE_capataz"))
        .env("LC_ALL", "C")
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another daemon") && said.contains(&daemon.process_id().to_string()), "{said}");
    let pid = daemon.process_id().to_string();
    assert!(Command::new("kill").args(["-TERM", pid.as_str()]).status().unwrap().success());
    let status = daemon.ended();
    assert!(status.success(), "{status}");
}

/// The daemon listens, and is kept from going on: nobody reads what it says of that, and the pipe is full.
#[tokio::test]
async fn a_daemon_that_listens_hears_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let filled = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'.'; filled]).unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_capataz"))
        .env("LC_ALL", "C")
        .args(["serve", "--listen", &address.to_string(), "--data-dir"])
        .arg(folder.path().join("data"))
        .current_dir(folder.path())
        .stdout(writer)
        .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    eventually("it listens", || std::net::TcpStream::connect(address).is_ok()).await;
    kill("TERM", daemon.id());
    let hears = || std::fs::read_to_string(folder.path().join("log")).unwrap().contains("stopping");
    eventually("it hears the signal, or has ended", || hears() || daemon.try_wait().unwrap().is_some()).await;
    // Now it may go on.
    let mut said = Vec::new();
    reader.read_to_end(&mut said).unwrap();
    let status = daemon.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(String::from_utf8_lossy(&said).contains("listens"), "it says so before it drains");
}

/// The configuration of an agent whose commands write `start NAME` into the journal, and end when the file `go` is there.
fn gated_agent(folder: &Path, slots: u32, drain_timeout: &str) -> String {
    let script = r#"
        read -r name
        echo "start $name" >> "$JOURNAL"
        while [ ! -e "$GO" ]; do sleep 0.02; done
        echo "end $name" >> "$JOURNAL"
        echo 1
    "#;
    let script = serde_json::to_string(&["sh", "-c", script]).unwrap();
    format!(
        "drain_timeout = {drain_timeout:?}\n[[agents]]\nname = \"gated\"\nmax_concurrency = {slots}\n\
         command = {script}\nenv = {{ JOURNAL = {:?}, GO = {:?} }}\n",
        folder.join("journal").display().to_string(),
        folder.join("go").display().to_string(),
    )
}

fn gated_task(name: &str, effect: v1::Effect) -> v1::Task {
    let inline = v1::payload::Data::Inline(serde_json::to_vec(name).unwrap().into());
    let input = v1::Payload { media_type: "application/json".to_owned(), data: Some(inline) };
    v1::Task {
        name: name.to_owned(),
        agent: "gated".to_owned(),
        input: Some(input),
        effect: Some(effect as i32),
        ..Default::default()
    }
}

fn count(path: &Path, what: &str) -> usize {
    lines(path).iter().filter(|line| line.starts_with(what)).count()
}

#[tokio::test]
async fn nothing_begins_after_sigterm_and_what_runs_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let mut daemon = Served::start(folder.path(), &gated_agent(folder.path(), 4, "50s"));
    let client = daemon.client().await;
    let tasks = (0..24).map(|index| gated_task(&format!("t{index}"), v1::Effect::AtMostOnce));
    let wave = v1::Wave { tasks: tasks.collect(), ..Default::default() };
    let after = v1::Wave { tasks: vec![gated_task("after", v1::Effect::AtMostOnce)], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave, after], ..Default::default() };
    let run = client.start_run(v1::StartRunRequest::of_plan(plan)).await.unwrap().run_id;
    eventually("four tasks run", || count(&journal, "start") == 4).await;
    daemon.signal("TERM");
    eventually("the daemon drains", || daemon.said().contains("waits for")).await;
    let said = daemon.said();
    assert!(said.contains(&run) && said.contains("capataz-process-host-"), "{said}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let status = daemon.ended();
    assert!(status.success(), "{status}");
    assert_eq!((count(&journal, "start"), count(&journal, "end")), (4, 4), "{:?}", lines(&journal));
    let daemon = daemon.start_again();
    let client = daemon.client().await;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let mut started = lines(&journal);
    started.retain(|line| line.starts_with("start"));
    started.sort();
    started.dedup();
    assert_eq!((started.len(), count(&journal, "start")), (25, 25), "each of them once");
}

#[tokio::test]
async fn what_does_not_end_while_the_daemon_drains_is_lost_by_name_before_the_daemon_ends() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let config = gated_agent(folder.path(), 8, "300ms") + "[[declared_agents]]\nname = \"theirs\"\n";
    let mut daemon = Served::start(folder.path(), &config);
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let work = move |_: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let _ = started.send(()).await;
            let _ = finished.wait_for(|finished| *finished).await;
            Ok::<_, TaskError>(TaskOutput::text("done"))
        }
    };
    let worker = Worker::new(daemon.url()).id("w1").agent("theirs", work);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let client = daemon.client().await;
    let theirs = v1::Task {
        name: "theirs".to_owned(),
        agent: "theirs".to_owned(),
        effect: Some(v1::Effect::AtMostOnce as i32),
        ..Default::default()
    };
    let mut runs = Vec::new();
    for task in
        [gated_task("once", v1::Effect::AtMostOnce), gated_task("again", v1::Effect::AtLeastOnce), theirs]
    {
        let wave = v1::Wave { tasks: vec![task], ..Default::default() };
        let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
        runs.push(client.start_run(v1::StartRunRequest::of_plan(plan)).await.unwrap().run_id);
    }
    begun.recv().await.unwrap();
    eventually("the commands run", || count(&journal, "start") == 2).await;
    daemon.signal("TERM");
    let status = daemon.ended();
    assert!(status.success(), "{status}");
    let said = daemon.said();
    assert!(said.contains("go on with it: \"theirs\"") && said.contains("\"once\" of run"), "{said}");
    let daemon = daemon.start_again();
    let client = daemon.client().await;
    let (mut lost, mut asked) = (Vec::new(), Vec::new());
    for run in &runs {
        let mut events = client.export_run(run).await.unwrap();
        while let Some(event) = events.next().await {
            match event.unwrap().body {
                Some(v1::event::Body::TaskLeaseLost(loss)) => lost.push((run, loss.reason())),
                Some(v1::event::Body::QuestionAsked(_)) => asked.push(run),
                _ => {}
            }
        }
    }
    assert_eq!(
        lost,
        [(&runs[1], v1::LeaseLossReason::Restarted)],
        "what may begin again, and not the worker's"
    );
    assert_eq!(asked, [&runs[0]], "what must not begin again, and not the worker's");
    finish.send_replace(true);
    std::fs::write(folder.path().join("go"), "").unwrap();
    for run in &runs[1..] {
        let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    }
    assert_eq!((count(&journal, "start \"again\""), count(&journal, "start \"once\"")), (2, 1));
    assert!(begun.try_recv().is_err(), "the worker's work was begun once");
    worker.abort();
}

/// Writes one spec that the agent `home` serves, and returns the configuration's line with its folder.
fn home_spec(folder: &Path) -> String {
    let specs = folder.join("specs");
    std::fs::create_dir_all(&specs).unwrap();
    let spec = "id = \"home\"\ntitle = \"Home\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n\
                agent = \"home\"\ndefault = true\n";
    std::fs::write(specs.join("home.toml"), spec).unwrap();
    format!("specs_dir = {:?}\n", specs.display().to_string())
}

fn asking(text: &str, session: &str) -> v1::StartRunRequest {
    let ask = v1::Ask { text: text.to_owned(), session: Some(session.to_owned()), ..Default::default() };
    v1::StartRunRequest::of_ask(ask)
}

fn input_of(task: &Task) -> serde_json::Value {
    match &task.input().data {
        Some(v1::payload::Data::Inline(bytes)) => serde_json::from_slice(bytes).unwrap(),
        other => unreachable!("a request is inline, not {other:?}"),
    }
}

/// Checks the properties of every ask that has succeeded, independent of faults on its way.
async fn check_whole(client: &Client, run: &str) {
    let mut events = client.export_run(run).await.unwrap();
    let (mut seq, mut begun, mut settled, mut finished) = (0, 0, 0, 0);
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        seq += 1;
        assert_eq!(event.seq, seq, "no gap and nothing twice");
        match event.body {
            Some(v1::event::Body::AskBegun(_)) => begun += 1,
            Some(v1::event::Body::TaskSettled(_)) => settled += 1,
            Some(v1::event::Body::RunFinished(_)) => finished += 1,
            _ => {}
        }
    }
    assert_eq!((begun, settled, finished), (1, 1, 1), "of {seq} events");
}

/// The texts of a session, oldest first.
async fn said_in(client: &Client, session: &str) -> Vec<String> {
    let context = client.get_session(session).await.unwrap().context.unwrap();
    assert_eq!(context.message_count as usize, context.history.len(), "nothing was said twice");
    context.history.into_iter().map(|message| message.text).collect()
}

#[tokio::test]
async fn an_ask_goes_on_after_a_kill_and_those_that_wait_in_its_session_get_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    let config = home_spec(folder.path());
    let daemon = Served::start(folder.path(), &config);
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let work = move |task: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let request = input_of(&task);
            let text = request["text"].as_str().unwrap().to_owned();
            let _ = started.send(text.clone()).await;
            let _ = finished.wait_for(|finished| *finished).await;
            TaskOutput::json(serde_json::json!({
                "success": true, "spec": request["spec"], "request_id": request["id"], "timestamp": 1,
                "response": { "text": format!("re: {text}"), "format": "text" },
                "metadata": { "processing_time_ms": 1, "confidence": 1 },
            }))
        }
    };
    let worker = Worker::new(daemon.url()).id("w1").slots(4).agent("home", work);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let client = daemon.client().await;
    let mut runs = Vec::new();
    for (text, session) in [("one", "s"), ("two", "s"), ("three", "s"), ("other", "t")] {
        runs.push(client.start_run(asking(text, session)).await.unwrap().run_id);
    }
    let mut at_work = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
    at_work.sort();
    assert_eq!(at_work, ["one", "other"], "the others wait for their turn");
    let daemon = daemon.kill_and_start();
    finish.send_replace(true);
    let client = daemon.client().await;
    for run in &runs {
        let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
        assert_eq!(result.ask().unwrap().calls[0].attempts, 1);
        check_whole(&client, run).await;
    }
    let rest = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
    assert_eq!(rest, ["two", "three"]);
    assert!(begun.try_recv().is_err(), "nothing was begun twice");
    let said = said_in(&client, "s").await;
    assert_eq!(said, ["one", "re: one", "two", "re: two", "three", "re: three"]);
    assert_eq!(said_in(&client, "t").await, ["other", "re: other"]);
    worker.abort();
}

#[tokio::test]
async fn a_command_that_dies_with_its_daemon_answers_the_same_ask_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, go) = (folder.path().join("journal"), folder.path().join("go"));
    let script = r#"
        read -r request
        echo start >> "$JOURNAL"
        while [ ! -e "$GO" ]; do sleep 0.05; done
        id=$(printf '%s' "$request" | sed 's/.*"id":"\([^"]*\)".*/\1/')
        printf '{"success":true,"spec":"home","request_id":"%s","timestamp":1,' "$id"
        printf '"response":{"text":"from a command","format":"text"},'
        printf '"metadata":{"processing_time_ms":1,"confidence":1}}'
    "#;
    let script = serde_json::to_string(&["sh", "-c", script]).unwrap();
    let config = format!(
        "{}[[agents]]\nname = \"home\"\ncommand = {script}\nenv = {{ JOURNAL = {:?}, GO = {:?} }}\n",
        home_spec(folder.path()),
        journal.display().to_string(),
        go.display().to_string(),
    );
    let daemon = Served::start(folder.path(), &config);
    let client = daemon.client().await;
    let first = client.start_run(asking("one", "s")).await.unwrap().run_id;
    let second = client.start_run(asking("two", "s")).await.unwrap().run_id;
    eventually("the command runs", || lines(&journal).len() == 1).await;
    let daemon = daemon.kill_and_start();
    eventually("the command runs again", || lines(&journal).len() == 2).await;
    std::fs::write(&go, "").unwrap();
    let client = daemon.client().await;
    for run in [&first, &second] {
        let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
        assert_eq!(result.ask().unwrap().calls[0].attempts, 1, "a lost lease is not an attempt");
        check_whole(&client, run).await;
    }
    assert_eq!(said_in(&client, "s").await, ["one", "from a command", "two", "from a command"]);
    assert_eq!(lines(&journal).len(), 3);
}
