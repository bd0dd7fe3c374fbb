//! Bad input: one clear error with every violation, its path and the code; nothing stored, nothing lost, no panic.

use capataz_contracts::plan_file::{Format, parse_bytes};
use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use capataz_daemon::{Daemon, DaemonError, DeclaredAgent, OutputFormat, ProcessAgent};

use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::StatusExt;

use crate::support::{Harness, code_of, data_dir, json, one_wave, paths_of, shim};

/// What a plan file came to: the code and the paths of its refusal, as the client's own check or the daemon says them.
async fn submit(harness: &Harness, file: &[u8], format: Format) -> Result<String, (String, Vec<String>)> {
    match parse_bytes(file, format) {
        Err(violations) => Err((
            "VALIDATION_ERROR".to_owned(),
            violations.into_iter().map(|violation| violation.path).collect(),
        )),
        Ok(plan) => harness.try_start(plan).await.map_err(|refusal| (code_of(&refusal), paths_of(&refusal))),
    }
}

/// Name, input, code, a path that is named.
type Row = (&'static str, (Vec<u8>, Format), &'static str, &'static str);

fn toml(text: &str) -> (Vec<u8>, Format) {
    (text.as_bytes().to_vec(), Format::Toml)
}

fn task(fields: &str) -> (Vec<u8>, Format) {
    toml(&format!("name = \"p\"\n[[tasks]]\nname = \"t\"\nagent = \"known\"\n{fields}"))
}

// S000-C1-05
#[tokio::test]
async fn bad_plans_are_refused_whole_with_their_paths_and_nothing_is_stored() {
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("known")];
    })
    .await;
    let many_tasks = format!(
        r#"{{"name":"p","waves":[{{"tasks":[{}]}}]}}"#,
        (0..100_000).map(|n| format!(r#"{{"name":"t{n}","agent":"known"}}"#)).collect::<Vec<_>>().join(",")
    );
    let deep = format!(
        r#"{{"name":"p","tasks":[{{"name":"t","agent":"known","input":{}1{}}}]}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let two_waves = |first: &str, second: &str| {
        toml(&format!(
            "name=\"p\"\n[[waves]]\n[[waves.tasks]]\nname=\"a\"\nagent=\"known\"\n{first}\n\
             [[waves]]\n[[waves.tasks]]\nname=\"b\"\nagent=\"known\"\n{second}"
        ))
    };
    let rows: Vec<Row> = vec![
        ("no name, no waves", toml(""), "VALIDATION_ERROR", "plan.name"),
        ("unknown key", task("agnet = \"x\""), "VALIDATION_ERROR", "tasks[0].agnet"),
        (
            "unknown key in a policy",
            task("retry = { attempts = 3 }"),
            "VALIDATION_ERROR",
            "tasks[0].retry.attempts",
        ),
        ("wrong type", task("critical = \"yes\""), "VALIDATION_ERROR", "tasks[0].critical"),
        (
            "no such policy",
            toml("name=\"p\"\npolicy={kind=\"majority\"}\n[[tasks]]\nname=\"t\"\nagent=\"known\""),
            "VALIDATION_ERROR",
            "policy.kind",
        ),
        ("no waves", toml("name = \"p\"\nwaves = []"), "VALIDATION_ERROR", "plan.waves"),
        (
            "empty wave",
            toml("name = \"p\"\n[[waves]]\ntasks = []"),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks",
        ),
        (
            "duplicate names",
            two_waves("", "")
                .0
                .split(|byte| *byte == b'%')
                .next()
                .map(|text| {
                    (String::from_utf8_lossy(text).replace("\"b\"", "\"a\"").into_bytes(), Format::Toml)
                })
                .unwrap(),
            "VALIDATION_ERROR",
            "plan.waves[1].tasks[0].name",
        ),
        (
            "reference to itself",
            two_waves("", "input = \"${tasks.b.output}\""),
            "VALIDATION_ERROR",
            "plan.waves[1].tasks[0].input",
        ),
        (
            "cyclic reference",
            two_waves("input = \"${tasks.b.output}\"", "input = \"${tasks.a.output}\""),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks[0].input",
        ),
        (
            "missing reference",
            two_waves("", "input = { x = [\"${tasks.zz.output}\"] }"),
            "VALIDATION_ERROR",
            "plan.waves[1].tasks[0].input.x[0]",
        ),
        (
            "malformed reference",
            two_waves("", "input = \"${nonsense}\""),
            "VALIDATION_ERROR",
            "plan.waves[1].tasks[0].input",
        ),
        (
            "duration without unit",
            task("timeouts = { timeout = \"30\" }"),
            "VALIDATION_ERROR",
            "tasks[0].timeouts.timeout",
        ),
        (
            "negative duration",
            task("timeouts = { timeout_ms = -5 }"),
            "VALIDATION_ERROR",
            "tasks[0].timeouts.timeout_ms",
        ),
        (
            "no timeout at all",
            task("timeouts = { timeout_ms = 0 }"),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks[0].timeouts.timeout_ms",
        ),
        (
            "no attempts",
            task("retry = { max_attempts = 0 }"),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks[0].retry.max_attempts",
        ),
        (
            "shrinking backoff",
            task("retry = { backoff_multiplier = 0.5 }"),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks[0].retry.backoff_multiplier",
        ),
        (
            "threshold above one",
            toml(
                "name=\"p\"\npolicy={kind=\"quorum\",quorum_threshold=1.5}\n[[tasks]]\nname=\"t\"\nagent=\"known\"",
            ),
            "VALIDATION_ERROR",
            "plan.policy.quorum_threshold",
        ),
        (
            "threshold of nothing",
            toml(
                "name=\"p\"\npolicy={kind=\"fail_fast\",quorum_threshold=0.5}\n[[tasks]]\nname=\"t\"\nagent=\"known\"",
            ),
            "VALIDATION_ERROR",
            "plan.policy.quorum_threshold",
        ),
        (
            "unknown agent",
            toml("name=\"p\"\n[[tasks]]\nname=\"t\"\nagent=\"knwon\""),
            "AGENT_NOT_FOUND",
            "plan.waves[0].tasks[0].agent",
        ),
        (
            "unknown agents",
            toml("name=\"p\"\n[[tasks]]\nname=\"t\"\nagent=\"x1\"\n[[tasks]]\nname=\"u\"\nagent=\"x2\""),
            "AGENTS_VALIDATION_FAILED",
            "plan.waves[0].tasks[0].agent",
        ),
        (
            "unknown command",
            toml("name=\"p\"\ncommands=[\"exceute\"]\n[[tasks]]\nname=\"t\"\nagent=\"known\""),
            "COMMAND_NOT_FOUND",
            "plan.commands[0]",
        ),
        (
            "unknown resource",
            toml("name=\"p\"\nresources=[\"stagnig\"]\n[[tasks]]\nname=\"t\"\nagent=\"known\""),
            "RESOURCE_NOT_FOUND",
            "plan.resources[0]",
        ),
        ("invalid UTF-8", (vec![b'n', 0xff, 0xfe], Format::Toml), "VALIDATION_ERROR", ""),
        ("no TOML", toml("name = = 3"), "VALIDATION_ERROR", ""),
        ("no JSON", (b"{\"name\":".to_vec(), Format::Json), "VALIDATION_ERROR", ""),
        ("10 MB", (vec![b' '; 10_000_000], Format::Json), "VALIDATION_ERROR", ""),
        ("100,000 tasks", (many_tasks.into_bytes(), Format::Json), "VALIDATION_ERROR", ""),
        ("deep nesting", (deep.into_bytes(), Format::Json), "VALIDATION_ERROR", ""),
        (
            "input of 40 KiB",
            task(&format!("input = \"{}\"", "x".repeat(40_960))),
            "VALIDATION_ERROR",
            "plan.waves[0].tasks[0].input",
        ),
    ];
    for (name, (file, format), code, path) in rows {
        let refused = submit(&harness, &file, format).await;
        let Err((actual, paths)) = refused else { panic!("{name}: was accepted") };
        assert_eq!(actual, code, "{name}");
        assert!(
            path.is_empty() || paths.iter().any(|found| found == path),
            "{name}: {path} is not in {paths:?}"
        );
    }
    assert_eq!(harness.run_count().await, 0, "nothing was stored");
    let refusal = harness.try_start(one_wave(&["knwon"])).await.unwrap_err();
    assert!(format!("{refusal:?}").contains("known"), "the nearest name is suggested");
}

#[tokio::test]
async fn each_unknown_name_is_told_with_its_place_and_its_code() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["known"]).await;
    let told = async |agents: &[&str], commands: &[&str]| {
        let names = commands.iter().map(|name| (*name).to_owned()).collect();
        let plan = v1::Plan { commands: names, ..one_wave(agents) };
        let refusal = harness.try_start(plan).await.unwrap_err();
        let details = refusal.get_error_details();
        let bad = details.bad_request().expect("there is a place");
        bad.field_violations.iter().map(|one| (one.field.clone(), one.reason.clone())).collect::<Vec<_>>()
    };
    let check = |told: Vec<(String, String)>, expected: &[(&str, &str)]| {
        let told: Vec<_> = told.iter().map(|(path, code)| (path.as_str(), code.as_str())).collect();
        assert_eq!(told, expected);
    };
    let second = ("plan.waves[0].tasks[1].agent", "AGENT_NOT_FOUND");
    let command = ("plan.commands[0]", "COMMAND_NOT_FOUND");
    check(told(&["known", "x"], &[]).await, &[second]);
    check(told(&["known", "x"], &["z"]).await, &[second, command]);
    check(
        told(&["y", "x"], &["z"]).await,
        &[second, ("plan.waves[0].tasks[0].agent", "AGENT_NOT_FOUND"), command],
    );
}

#[tokio::test]
async fn a_plan_that_breaks_rules_is_told_its_unknown_names_at_once() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["known"]).await;
    let mut request = v1::StartRunRequest::of_plan(v1::Plan {
        commands: vec!["z".to_owned()],
        ..one_wave(&["known", "x"])
    });
    request.labels.insert("Not A Key".to_owned(), "x".to_owned());
    let refusal = harness.runs.clone().start_run(request).await.unwrap_err();
    let paths = paths_of(&refusal);
    assert!(paths[0].starts_with("labels"), "{paths:?}");
    assert_eq!(paths[1..], ["plan.waves[0].tasks[1].agent", "plan.commands[0]"]);
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn all_violations_come_at_once() {
    let harness = Harness::start().await;
    let mut request = v1::StartRunRequest::of_plan(one_wave(&["a", "a"]));
    request.labels.insert("Not A Key".to_owned(), "x".repeat(300));
    request.idempotency_key = Some(String::new());
    let refusal = harness.runs.clone().start_run(request).await.unwrap_err();
    let paths = paths_of(&refusal);
    assert!(paths.len() >= 4, "{paths:?}");
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn requests_about_what_is_not_there_say_so() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let mut runs = harness.runs.clone();
    let none = "01890000-0000-7000-8000-000000000000".to_owned();
    let pause = |run_id: &str, request_id: &str, if_seq| v1::PauseRunRequest {
        run_id: run_id.to_owned(),
        request_id: request_id.to_owned(),
        if_seq,
    };
    let get = |run_id: &str| v1::GetRunRequest { run_id: run_id.to_owned(), ..Default::default() };
    assert_eq!(code_of(&runs.get_run(get("nonsense")).await.unwrap_err()), "VALIDATION_ERROR");
    assert_eq!(code_of(&runs.get_run(get(&none)).await.unwrap_err()), "RUN_NOT_FOUND");
    assert_eq!(code_of(&runs.pause_run(pause(&none, "p", None)).await.unwrap_err()), "RUN_NOT_FOUND");
    assert_eq!(code_of(&runs.pause_run(pause(&run, "", None)).await.unwrap_err()), "VALIDATION_ERROR");
    assert_eq!(code_of(&runs.pause_run(pause(&run, "p", Some(1))).await.unwrap_err()), "SEQ_MISMATCH");
    let retry = v1::RetryTaskRequest {
        run_id: run.clone(),
        task: "b".to_owned(),
        request_id: "r".to_owned(),
        if_seq: None,
    };
    let refused = runs.retry_task(retry).await.unwrap_err();
    assert_eq!((code_of(&refused).as_str(), paths_of(&refused)), ("TASK_NOT_FOUND", vec!["task".to_owned()]));
    let resolve = v1::ResolveRequest {
        run_id: run.clone(),
        question_id: "q9".to_owned(),
        answer: "yes".to_owned(),
        request_id: "a".to_owned(),
        ..Default::default()
    };
    let refused = runs.pause_run(pause(&run, "capataz.parent.cancel", None)).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["request_id"], "of the daemon's own");
    assert_eq!(code_of(&runs.resolve(resolve).await.unwrap_err()), "QUESTION_NOT_FOUND");
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    harness.wait(&run).await;
    assert_eq!(code_of(&runs.pause_run(pause(&run, "late", None)).await.unwrap_err()), "RUN_FINISHED");
}

#[tokio::test]
async fn a_reason_that_is_too_long_for_an_event_is_refused() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["a"]).await;
    let run_id = harness.start_run(one_wave(&["a"])).await;
    let cancel = |bytes| v1::CancelRunRequest {
        run_id: run_id.clone(),
        request_id: "c".to_owned(),
        reason: "x".repeat(bytes),
        ..v1::CancelRunRequest::default()
    };
    let refused = harness.runs.clone().cancel_run(cancel(1_001)).await.unwrap_err();
    assert_eq!(
        (code_of(&refused).as_str(), paths_of(&refused)),
        ("VALIDATION_ERROR", vec!["reason".to_owned()])
    );
    harness.runs.clone().cancel_run(cancel(1_000)).await.unwrap();
}

#[tokio::test]
async fn values_that_nothing_has_are_refused_where_runs_and_events_are_looked_for() {
    let harness = Harness::start().await;
    let list = v1::ListRunsRequest {
        status: Some(99),
        outcome: Some(99),
        kind: Some(99),
        ..v1::ListRunsRequest::default()
    };
    let refused = harness.runs.clone().list_runs(list).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["status", "outcome", "kind"]);
    let filter = v1::EventFilter { kind: Some(99), min_severity: Some(99), ..v1::EventFilter::default() };
    let subscribe = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let refused = harness.events.clone().subscribe(subscribe).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["filter.kind", "filter.min_severity"]);
}

fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn commands_that_misbehave_fail_their_task_and_nothing_else() {
    let rows: Vec<(&str, Vec<String>, &str)> = vec![
        ("missing", vec!["/no/such/command".to_owned()], "AGENT_COMMAND_NOT_STARTED"),
        ("signal", sh("kill -9 $$"), "AGENT_COMMAND_FAILED"),
        ("exit-code", sh("echo broken >&2; exit 3"), "AGENT_COMMAND_FAILED"),
        (
            "own-error",
            sh(r#"echo '{"error":{"code":"TESTS_FAILED","message":"3 tests failed"}}'; exit 1"#),
            "TESTS_FAILED",
        ),
        ("no-json", sh("echo this is no JSON"), "INVALID_OUTPUT"),
        ("gigabyte", sh("head -c 1000000000 /dev/zero"), "OUTPUT_TOO_LARGE"),
    ];
    let harness = Harness::start_with(|config| {
        config.shim = Some(capataz_hosts::commands::ShimCommand { program: shim(), args: Vec::new() });
        let of_json =
            |name, command| ProcessAgent { output: OutputFormat::Json, ..ProcessAgent::new(name, command) };
        config.agents = rows.iter().map(|(name, command, _)| of_json(*name, command.clone())).collect();
        let mut stubborn = ProcessAgent::new("ignores-term", sh("trap '' TERM; while :; do sleep 1; done"));
        stubborn.output = OutputFormat::Text;
        config.agents.push(stubborn);
        config.agents.push(ProcessAgent::new("echo", ["cat"]));
        config
            .agents
            .push(ProcessAgent::new("leaves-children", sh("sleep 1000 & (setsid sleep 1000 &) ; echo 7")));
    })
    .await;
    let mut agents: Vec<&str> = rows.iter().map(|(name, ..)| *name).collect();
    agents.extend(["echo", "leaves-children"]);
    let mut plan = one_wave(&agents);
    plan.policy =
        Some(v1::AggregationPolicy { kind: v1::AggregationKind::ContinueAll as i32, ..Default::default() });
    plan.waves[0].tasks[6].input = Some(json(serde_json::json!({"said": "back"})));
    let run = harness.start_run(plan).await;
    let result = harness.wait(&run).await;
    for (index, (name, _, code)) in rows.iter().enumerate() {
        let error = result.tasks[index].error.clone().unwrap();
        let own = error.cause.as_ref().map_or(&error.code, |cause| &cause.code);
        assert_eq!(own, code, "{name}: {error:?}");
    }
    assert_eq!(result.tasks[6].output, Some(json(serde_json::json!({"said": "back"}))));
    assert_eq!(result.tasks[7].status(), v1::ResultStatus::Success);

    let stubborn = crate::support::plan(
        r#"
        name = "stubborn"
        [[tasks]]
        name = "t"
        agent = "ignores-term"
        timeouts = { timeout = "200ms", grace = "200ms" }
        "#,
    );
    let run = harness.start_run(stubborn).await;
    assert_eq!(harness.wait(&run).await.tasks[0].status(), v1::ResultStatus::Timeout);
}

#[tokio::test]
async fn a_second_daemon_on_the_same_data_is_refused_and_names_the_first() {
    let harness = Harness::start().await;
    let second = Daemon::start(capataz_daemon::Config::embedded(data_dir(&harness.folder))).await;
    let error = second.unwrap_err();
    assert!(matches!(error, DaemonError::Lock(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(&std::process::id().to_string()) && message.contains("--data-dir"), "{message}");
}

#[tokio::test]
async fn damaged_or_newer_databases_are_refused_in_words_and_left_as_they_are() {
    type Damage = fn(&std::path::Path);
    let rows: [(&str, Damage, &str); 3] = [
        ("garbage", |path| std::fs::write(path, vec![0x5a; 40_000]).unwrap(), "damaged"),
        (
            "cut",
            |path| std::fs::File::options().write(true).open(path).unwrap().set_len(5_000).unwrap(),
            "damaged",
        ),
        (
            "newer",
            |path| {
                // The format's number lies at byte 60 of the header of an SQLite file.
                use std::os::unix::fs::FileExt;
                let file = std::fs::File::options().write(true).open(path).unwrap();
                file.write_all_at(&9_999u32.to_be_bytes(), 60).unwrap();
            },
            "format 9999",
        ),
    ];
    for (name, damage, expected) in rows {
        let harness = Harness::start().await;
        let mut worker = harness.worker("w1", &["a"]).await;
        let run = harness.start_run(one_wave(&["a"])).await;
        let assigned = worker.assignment().await;
        worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
        harness.wait(&run).await;
        drop(worker);
        let folder = harness.stop().await;
        let path = data_dir(&folder).join("capataz.db");
        damage(&path);
        let before = std::fs::read(&path).unwrap();
        let error = Daemon::start(capataz_daemon::Config::embedded(data_dir(&folder))).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains(expected), "{name}: {text}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}: the file was changed");
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[tokio::test]
async fn a_hello_that_breaks_the_rules_is_refused_with_its_violations() {
    let harness = Harness::start().await;
    let hello = v1::Hello { worker_id: String::new(), protocol: 9, ..Default::default() };
    let Err(refusal) = crate::support::Worker::with_hello(harness.channel.clone(), hello).await else {
        panic!("the hello was accepted")
    };
    let paths = paths_of(&refusal);
    for path in ["worker_id", "agents", "slots", "protocol"] {
        assert!(paths.iter().any(|found| found.ends_with(path)), "{path} is not in {paths:?}");
    }
}

/// What is done to a call before it leaves.
type Edit = fn(Request<()>) -> Result<Request<()>, Status>;

/// Calls over this connection are refused, and have no effect.
async fn check_that_no_service_is_reached(harness: &Harness, channel: Channel, edit: Edit) {
    let mut runs = RunServiceClient::with_interceptor(channel.clone(), edit);
    let mut events = EventServiceClient::with_interceptor(channel.clone(), edit);
    let mut agents = AgentServiceClient::with_interceptor(channel, edit);
    let refusals = [
        runs.start_run(v1::StartRunRequest::of_plan(one_wave(&["a"]))).await.map(drop),
        events.subscribe(v1::SubscribeRequest::default()).await.map(drop),
        agents.list_agents(v1::ListAgentsRequest::default()).await.map(drop),
    ];
    for refusal in refusals.map(Result::unwrap_err) {
        let said = (refusal.code(), code_of(&refusal));
        assert_eq!(said, (tonic::Code::PermissionDenied, "PERMISSION_DENIED".to_owned()));
    }
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn a_call_that_a_web_page_could_make_reaches_no_service() {
    fn of_a_page(mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("origin", "http://evil.example".parse().unwrap());
        Ok(request)
    }
    let harness = Harness::start().await;
    check_that_no_service_is_reached(&harness, harness.channel.clone(), of_a_page).await;
}

/// As a page does whose name has come to mean this machine.
#[tokio::test]
async fn a_call_by_the_name_of_another_host_reaches_no_service() {
    let harness = Harness::start().await;
    let address = harness.daemon.address();
    for host in ["evil.example", "127.0.0.1.evil.example"] {
        let named = format!("http://{host}:{}", address.port()).parse().unwrap();
        let endpoint = Channel::from_shared(format!("http://{address}")).unwrap().origin(named);
        let channel = endpoint.connect().await.unwrap();
        check_that_no_service_is_reached(&harness, channel, Ok).await;
    }
}
