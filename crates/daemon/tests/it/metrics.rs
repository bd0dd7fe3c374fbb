//! `/metrics`, asked for as Prometheus does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_daemon::{Clock, DeclaredAgent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use super::support::{Harness, PATIENCE, code_of, json, one_wave};

/// One answer over a connection of its own: its head, and its body.
async fn fetch(address: SocketAddr, path: &str, more: &str) -> (String, String) {
    fetch_of(address, &address.to_string(), path, more).await
}

/// The same, of a host of this name.
async fn fetch_of(address: SocketAddr, host: &str, path: &str, more: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Each series, and its value.
async fn scraped(harness: &Harness) -> BTreeMap<String, f64> {
    let (head, body) = fetch(harness.daemon.address(), "/metrics", "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    let lines = body.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    });
    series.collect()
}

/// The metrics of a series' name, without labels and what a histogram appends.
fn metric(series: &str) -> String {
    let name = series.split('{').next().unwrap_or_default();
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    of_histogram.unwrap_or(name).to_owned()
}

#[tokio::test]
async fn what_has_happened_is_counted_as_it_happened() {
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("absent")];
    })
    .await;
    let mut worker = harness.worker("w", &["coder"]).await;
    let run = harness.start_run(one_wave(&["coder"])).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    harness.wait(&run).await;
    let waits = harness.start_run(one_wave(&["absent"])).await;
    let told = scraped(&harness).await;
    let value = |series: &str| told.get(series).copied();
    assert_eq!(value("capataz_runs_accepted_total{kind=\"plan\"}"), Some(2.0));
    assert_eq!(value("capataz_runs_accepted_total{kind=\"ask\"}"), Some(0.0));
    assert_eq!(value("capataz_runs_finished_total{outcome=\"succeeded\"}"), Some(1.0));
    assert_eq!(value("capataz_runs_unfinished"), Some(1.0));
    assert_eq!(value("capataz_tasks_settled_total{status=\"success\"}"), Some(1.0));
    assert_eq!(value("capataz_attempts_leased_total"), Some(1.0));
    assert_eq!(value("capataz_task_seconds_count"), Some(1.0));
    assert_eq!(value("capataz_agent_queued_tasks{agent=\"absent\"}"), Some(1.0));
    assert_eq!(value("capataz_agent_queued_tasks{agent=\"coder\"}"), Some(0.0));
    // Of the events that the log has, each was counted.
    let mut events = 0;
    for run in [&run, &waits] {
        events += harness.export(run).await.len();
    }
    assert_eq!(value("capataz_events_total"), Some(events as f64));
    assert_eq!(value("capataz_commit_seconds_count"), value("capataz_commit_seconds_bucket{le=\"+Inf\"}"));
    assert!(
        value("capataz_commit_seconds_count") >= Some(1.0)
            && value("capataz_turn_seconds_count") >= Some(1.0)
    );
    assert!(value("process_resident_memory_bytes") > Some(1e6));
    assert!(value("capataz_log_bytes") > Some(0.0));
    assert!(value("capataz_store_bytes{part=\"database\"}") > Some(0.0));
}

/// Also where nobody has looked before.
#[tokio::test]
async fn an_agent_is_waited_for_since_the_first_of_its_tasks_waits() {
    let ahead_ms = Arc::new(AtomicI64::new(0));
    let harness = Harness::start_with(|config| {
        let ahead_ms = Arc::clone(&ahead_ms);
        config.clock = Clock::of_both(move || {
            let (now, ahead_ms) = (capataz_runtime::now(), ahead_ms.load(Ordering::Relaxed));
            (now.wall.0 + ahead_ms, now.mono.0 + ahead_ms)
        });
        config.declared_agents = vec![DeclaredAgent::new("absent")];
    })
    .await;
    let series = "capataz_agent_waiting_seconds{agent=\"absent\"}";
    let waits = async || scraped(&harness).await.get(series).copied().unwrap_or_default();
    harness.start_run(one_wave(&["absent"])).await;
    ahead_ms.fetch_add(60_000, Ordering::Relaxed);
    assert!((60.0..120.0).contains(&waits().await));
    // One that comes later changes nothing.
    harness.start_run(one_wave(&["absent"])).await;
    ahead_ms.fetch_add(60_000, Ordering::Relaxed);
    assert!((120.0..180.0).contains(&waits().await));
}

/// docs/telemetry.md has a row for each metric, and none of another one.
#[tokio::test]
async fn each_metric_is_described_and_each_that_is_described_is_there() {
    let harness = Harness::start_with(|config| {
        // Nobody listens there: what is told of spans is told all the same.
        config.telemetry.otlp_endpoint = Some("http://127.0.0.1:9".to_owned());
    })
    .await;
    let series = scraped(&harness).await;
    let mut told: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let (_, text) = fetch(harness.daemon.address(), "/metrics", "").await;
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        told.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
    }
    for series in series.keys() {
        let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
        let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        told.get_mut(&metric(series)).expect(series).1.extend(names.filter(|name| name != "le"));
    }
    let docs = include_str!("../../../../docs/telemetry.md");
    let mut described = BTreeMap::new();
    for line in docs.lines().filter(|line| line.starts_with("| `capataz_") || line.starts_with("| `process_"))
    {
        let [_, name, kind, meaning, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        // A label is the one word of its meaning that is written as code.
        let labels: BTreeSet<String> = meaning.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        described.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), labels));
    }
    // Of some there is a series for each value that was met, so that a new daemon has none.
    for (name, (kind, labels)) in &described {
        let (told_kind, told_labels) = told.get(name).unwrap_or_else(|| panic!("{name} is not there"));
        assert_eq!(told_kind, kind, "{name}");
        let has_series = series.keys().any(|series| metric(series) == *name);
        assert!(told_labels == labels || !has_series, "{name}: {told_labels:?}, not {labels:?}");
    }
    assert_eq!(told.keys().collect::<Vec<_>>(), described.keys().collect::<Vec<_>>());
}

/// The dashboard that comes with the project asks for metrics that there are.
#[test]
fn the_dashboard_shows_metrics_that_are_described() {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../examples/telemetry/dashboard.json")).unwrap();
    let docs = include_str!("../../../../docs/telemetry.md");
    let mut asked = 0;
    for target in
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let expression = target["expr"].as_str().unwrap();
        let words =
            expression.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        for name in words.filter(|word| word.starts_with("capataz_") || word.starts_with("process_")) {
            assert!(docs.contains(&format!("| `{}` |", metric(name))), "{name}");
            asked += 1;
        }
    }
    assert!(asked >= 10);
}

#[tokio::test]
async fn however_many_agents_there_are_and_whatever_they_are_called_the_series_have_a_bound() {
    let name = |number: u32| format!("agent \"{number:03}\"\\");
    let harness = Harness::start_with(|config| {
        config.declared_agents = (0..100).map(|number| DeclaredAgent::new(name(number))).collect();
        // What is told of spans counts as well.
        config.telemetry.otlp_endpoint = Some("http://127.0.0.1:9".to_owned());
    })
    .await;
    let whole = async {
        while !scraped(&harness).await.contains_key("capataz_store_bytes{part=\"blobs\"}") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, whole).await.unwrap();
    let told = scraped(&harness).await;
    assert!(told.len() <= 300 && told.len() > 250, "{}", told.len());
    let of_agents: Vec<&String> =
        told.keys().filter(|series| series.starts_with("capataz_agent_queued_tasks{")).collect();
    assert_eq!(of_agents.len(), 91);
    assert!(of_agents.iter().any(|series| series.contains("(others)")));
    assert!(
        of_agents
            .iter()
            .any(|series| *series == "capataz_agent_queued_tasks{agent=\"agent \\\"000\\\"\\\\\"}")
    );
}

#[tokio::test]
async fn a_page_of_somebody_elses_gets_no_metrics() {
    let harness = Harness::start().await;
    let (head, body) =
        fetch(harness.daemon.address(), "/metrics", "Origin: https://elsewhere.example\r\n").await;
    assert!(!body.contains("capataz_"), "{head} {body}");
    // What a page loads as a picture has no Origin.
    let (head, body) = fetch(harness.daemon.address(), "/metrics", "Sec-Fetch-Site: cross-site\r\n").await;
    assert!(!body.contains("capataz_"), "{head} {body}");
    let (_, body) = fetch(harness.daemon.address(), "/metrics", "Sec-Fetch-Site: none\r\n").await;
    assert!(body.contains("capataz_"), "somebody looks at it in a browser");
}

#[tokio::test]
async fn a_host_of_another_name_has_no_metrics() {
    let harness = Harness::start().await;
    let address = harness.daemon.address();
    for host in ["evil.example", "127.0.0.1.evil.example"] {
        let host = format!("{host}:{}", address.port());
        let (head, body) = fetch_of(address, &host, "/metrics", "").await;
        assert!(!body.contains("capataz_"), "{host}: {head} {body}");
    }
    let host = format!("localhost:{}", address.port());
    let (_, body) = fetch_of(address, &host, "/metrics", "").await;
    assert!(body.contains("capataz_"), "that is a name of this machine");
}

/// A probe that asks by another name would take any other status for health.
#[tokio::test]
async fn what_could_come_of_a_web_page_is_answered_with_403_and_its_reason_and_over_grpc_with_a_status() {
    let harness = Harness::start_with(|config| config.demo_page = true).await;
    let address = harness.daemon.address();
    let own = address.to_string();
    let refused = [
        (
            "evil.example",
            "",
            "the host \"evil.example\" is not a loopback address; ask by 127.0.0.1 or localhost\n",
        ),
        (
            own.as_str(),
            "Origin: https://elsewhere.example\r\n",
            "requests with an Origin are refused; ask without that header\n",
        ),
        (
            own.as_str(),
            "Sec-Fetch-Site: cross-site\r\n",
            "requests of other sites are refused; open the address itself\n",
        ),
    ];
    for (host, more, reason) in refused {
        for path in ["/livez", "/readyz", "/metrics", "/demo", "/capataz.v1.RunService/StartRun"] {
            let (head, body) = fetch_of(address, host, path, more).await;
            assert!(head.starts_with("HTTP/1.1 403 Forbidden"), "{path}: {head}");
            assert!(head.to_ascii_lowercase().contains("content-type: text/plain"), "{path}: {head}");
            assert!(body.contains(reason), "{path}: {body}");
        }
        let more = format!("{more}Content-Type: application/grpc+proto\r\n");
        let (head, body) = fetch_of(address, host, "/capataz.v1.RunService/StartRun", &more).await;
        assert!(head.starts_with("HTTP/1.1 200") && !body.contains(reason), "{head} {body}");
        assert!(head.to_ascii_lowercase().contains("grpc-status: 7"), "{head}");
    }
    let (head, _) = fetch(address, "/demo", "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

/// The shards' thread stands still at its next look at the clock, while the gate is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn close(&self, is_closed: bool) {
        *self.0.0.lock().unwrap() = is_closed;
        self.0.1.notify_all();
    }

    fn clock(&self) -> Clock {
        let gate = self.clone();
        Clock::new(move || {
            if std::thread::current().name() == Some("capataz-shard") {
                let closed = gate.0.0.lock().unwrap();
                // A test that has failed opens it no more.
                drop(gate.0.1.wait_timeout_while(closed, 2 * PATIENCE, |is_closed| *is_closed).unwrap());
            }
            1_790_000_000_000
        })
    }
}

#[tokio::test]
async fn a_core_that_hangs_is_told_of_in_time_and_again_that_it_answers() {
    let gate = Gate::default();
    let harness = Harness::start_with(|config| config.clock = gate.clock()).await;
    let address = harness.daemon.address();
    let says = async |path: &str| {
        let (head, body) = fetch(address, path, "").await;
        (head.lines().next().unwrap_or_default().to_owned(), body)
    };
    let all = async || {
        let (mut agents, mut others) = (harness.agents.clone(), harness.agents.clone());
        let check = v1::CheckAgentsRequest { agents: vec!["nobody".to_owned()], ..Default::default() };
        let all = async {
            tokio::join!(
                says("/livez"),
                says("/readyz"),
                agents.list_agents(v1::ListAgentsRequest::default()),
                others.check_agents(check),
            )
        };
        tokio::time::timeout(PATIENCE, all).await.expect("the daemon says in time that its core hangs")
    };
    gate.close(true);
    let (live, ready, listed, checked) = all().await;
    for (head, body) in [live, ready] {
        assert_eq!(head, "HTTP/1.1 503 Service Unavailable");
        assert!(body.contains("hangs\n"), "{body}");
    }
    for refusal in [listed.map(drop).unwrap_err(), checked.map(drop).unwrap_err()] {
        assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::Unavailable, "UNAVAILABLE"));
        assert!(refusal.message().contains("has to be started again"), "{refusal:?}");
    }
    gate.close(false);
    let (live, ready, listed, checked) = all().await;
    assert!(live.1.contains("live\n") && ready.1.contains("ready\n"), "{live:?} {ready:?}");
    assert!(listed.is_ok() && checked.is_ok(), "{listed:?} {checked:?}");
}

#[tokio::test]
async fn a_daemon_that_drains_lives_and_is_not_ready() {
    let harness = Harness::start_with(|config| {
        config.drain_timeout = Duration::from_secs(60);
        config.declared_agents = vec![DeclaredAgent::new("absent")];
    })
    .await;
    let address = harness.daemon.address();
    let head =
        async |path: &str| fetch(address, path, "").await.0.lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        (head("/livez").await, head("/readyz").await),
        ("HTTP/1.1 200 OK".into(), "HTTP/1.1 200 OK".into())
    );
    let mut worker = harness.worker("w", &["coder"]).await;
    harness.start_run(one_wave(&["coder"])).await;
    let assigned = worker.acknowledged().await;
    let waits = harness.start_run(one_wave(&["absent"])).await;
    let mut runs = harness.runs.clone();
    let mut waits_for = async || {
        let request = v1::GetRunRequest { run_id: waits.clone(), ..Default::default() };
        let run = runs.get_run(request).await.unwrap().into_inner().run.unwrap();
        run.waves[0].tasks[0].waits_for
    };
    assert!(waits_for().await.is_some());
    let stopping = tokio::spawn(harness.stop());
    // It waits for the task.
    let waiting = async {
        while head("/readyz").await != "HTTP/1.1 503 Service Unavailable" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    assert_eq!(head("/livez").await, "HTTP/1.1 200 OK");
    assert_eq!(waits_for().await, None, "whatever its agent does, nothing begins any more");
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    stopping.await.unwrap();
}
