//! Makes the folder: runs of every kind that have ended, and runs of every kind that have not, whose daemon is killed.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use capataz_client::Client;
use capataz_contracts::v1;
use capataz_contracts::{plan_file, script_file};
use capataz_testsite::Site;

use super::{Case, Daemon, Made, Mood, PATIENCE, WHISPERS, crew, fixture, home, until};

/// Asks in one session, so that it has a snapshot.
const LONG: usize = 66;
/// Extensions of each task with a deadline, 30 days each: no test ever sees its end.
const EXTENSIONS: usize = 240;
const EXTENSION_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

struct Maker {
    client: Client,
    cases: BTreeMap<String, Case>,
}

fn plan(name: &str, toml: &str) -> v1::StartRunRequest {
    let plan = plan_file::parse(&format!("name = {name:?}\n{toml}"), plan_file::Format::Toml).unwrap();
    v1::StartRunRequest::of_plan(plan)
}

fn one_task(name: &str, agent: &str, more: &str) -> v1::StartRunRequest {
    let tasks = format!(
        "[[waves]]\n[[waves.tasks]]\nname = \"first\"\nagent = {agent:?}\n{more}\n\
         [[waves]]\n[[waves.tasks]]\nname = \"second\"\nagent = \"crew\"\n\
         input = {{ after = \"${{tasks.first.output}}\" }}\n"
    );
    plan(name, &tasks)
}

fn ask(text: &str, session: &str, spec: Option<&str>) -> v1::StartRunRequest {
    let ask = v1::Ask {
        text: text.to_owned(),
        session: Some(session.to_owned()),
        spec: spec.map(str::to_owned),
        ..Default::default()
    };
    v1::StartRunRequest::of_ask(ask)
}

fn script(name: &str, site: &Site, actions: &str) -> v1::StartRunRequest {
    let host = site.host();
    let toml = format!("name = {name:?}\n[policy]\nallowlist = [{host:?}]\n{actions}").replace("HOST", &host);
    let script = script_file::parse(&toml, script_file::Format::Toml).unwrap();
    v1::StartRunRequest::of_script(script)
}

const READS: &str = r#"
[[actions]]
id = "open"
kind = "navigate"
url = "http://HOST/form/get"
[[actions]]
id = "fill"
kind = "fill"
target = { label = "Search" }
value = "seven"
[[actions]]
id = "send"
kind = "submit"
target = { role = "button", name = "Search" }
post = [{ kind = "url_matches", value = "/echo[?]q=seven$" }]
[[actions]]
id = "read"
kind = "extract"
target = { role = "table" }
extract = "table"
output = "echo"
"#;

/// Looks for what is not there.
const MISSES: &str = r#"
[[actions]]
id = "open"
kind = "navigate"
url = "http://HOST/plain"
[[actions]]
id = "miss"
kind = "click"
target = { testid = "nothing" }
timeout = "500ms"
"#;

/// Clicks, and waits for what never comes.
const WAITS: &str = r#"
[[actions]]
id = "open"
kind = "navigate"
url = "http://HOST/button/plain"
[[actions]]
id = "press"
kind = "click"
target = { testid = "target" }
timeout = "1h"
post = [{ kind = "text_equals", target = { testid = "status" }, value = "never" }]
[[actions]]
id = "more"
kind = "click"
target = { testid = "target" }
"#;

impl Maker {
    async fn starts(&mut self, name: &str, mut request: v1::StartRunRequest) -> String {
        request.idempotency_key = Some(format!("key of {name}"));
        request.labels.insert("case".to_owned(), name.to_owned());
        let started = self.client.start_run(request.clone()).await.unwrap();
        let run = started.run_id;
        self.cases.insert(name.to_owned(), Case { run: run.clone(), request: Some(request) });
        run
    }

    async fn ends(&mut self, name: &str, request: v1::StartRunRequest, succeeds: bool) {
        let run = self.starts(name, request).await;
        let result = self.client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
        assert_eq!(result.outcome() == v1::RunOutcome::Succeeded, succeeds, "{name}: {result:?}");
    }

    /// Its deadline is beyond that of these tests.
    async fn extends(&self, run: &str) {
        for number in 0..EXTENSIONS {
            let request = v1::ExtendTaskRequest {
                run_id: run.to_owned(),
                task: "first".to_owned(),
                by_ms: Some(EXTENSION_MS),
                request_id: format!("extension {number}"),
                ..Default::default()
            };
            self.client.extend_task(request).await.unwrap();
        }
    }

    async fn pauses(&self, run: &str) {
        let request = v1::PauseRunRequest { run_id: run.to_owned(), ..Default::default() };
        self.client.pause_run(request).await.unwrap();
    }

    /// Whatever is at an end when the daemon is killed.
    async fn finished(&mut self, site: &Site) {
        let two_waves = r#"
            [[waves]]
            name = "make"
            policy = { kind = "continue_all" }
            [[waves.tasks]]
            name = "shout"
            agent = "shout"
            input = { a = "b" }
            [[waves.tasks]]
            name = "many"
            agent = "many"
            [[waves]]
            [[waves.tasks]]
            name = "say"
            agent = "crew"
            input = { text = "it was ${tasks.shout.output.A}", whole = "${tasks.shout.output}" }
        "#;
        self.ends("plan-ended", plan("ended", two_waves), true).await;
        let failing = one_task("failed", "broken", "");
        self.ends("plan-failed", failing, false).await;
        let run = self.starts("plan-cancelled", one_task("cancelled", "slow", "")).await;
        until("it is at work", &self.client, &run, |run| run.waves[0].tasks[0].worker.is_some()).await;
        let cancel = v1::CancelRunRequest { run_id: run.clone(), force: true, ..Default::default() };
        self.client.cancel_run(cancel).await.unwrap();
        let result = self.client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
        assert_eq!(result.outcome(), v1::RunOutcome::Cancelled);
        self.ends("script-ended", script("ended", site, READS), true).await;
        self.ends("script-failed", script("failed", site, MISSES), false).await;
        self.ends("ask-ended", ask("Me siento perdido", "talk", None), true).await;
        self.ends("ask-suggested", ask("What now?", "talk", Some("home")), true).await;
        self.ends("ask-accepted", ask("What now?", "moved", Some("home")), true).await;
        let suggested = self.client.get_session("moved").await.unwrap().suggestions[0].request_id.clone();
        self.client.accept_transition("moved", &suggested).await.unwrap();
        for number in 0..LONG {
            let mut request = ask(&format!("n{number}"), "long", Some(WHISPERS));
            request.labels.insert("case".to_owned(), "ask-long".to_owned());
            let run = self.client.start_run(request).await.unwrap().run_id;
            self.client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
        }
    }

    /// Whatever has no deadline, or one that is far away.
    async fn unfinished(&mut self) {
        let at_work = |run: &v1::Run| run.waves[0].tasks[0].worker.is_some();
        let backs_off = |run: &v1::Run| run.waves[0].tasks[0].retry_at_ms.is_some();
        let client = self.client.clone();
        let run = self.starts("plan-leased", one_task("leased", "slow", "")).await;
        until("it is at work", &client, &run, at_work).await;
        self.extends(&run).await;
        let once = one_task("once", "once", "effect = \"at_most_once\"");
        let run = self.starts("plan-once", once).await;
        until("it is at work", &client, &run, at_work).await;
        self.extends(&run).await;
        let run = self.starts("plan-waiting", pausing(one_task("waiting", "broken", ""))).await;
        until("it asks", &client, &run, |run| run.status() == v1::RunStatus::Waiting).await;
        let long = one_task("paused-in-backoff", "flaky", "retry = { delays_ms = [120000] }");
        let run = self.starts("plan-paused-in-backoff", long).await;
        until("it backs off", &client, &run, backs_off).await;
        self.extends(&run).await;
        self.pauses(&run).await;
        let short = one_task("in-backoff", "flaky", "retry = { delays_ms = [120000] }");
        let run = self.starts("plan-in-backoff", short).await;
        until("it backs off", &client, &run, backs_off).await;
        self.extends(&run).await;
        let absent = one_task("paused", "home", "timeouts = { schedule_to_start = \"30d\" }");
        let run = self.starts("plan-paused", absent).await;
        self.pauses(&run).await;
        self.starts("plan-queued", one_task("queued", "home", "")).await;
        let run = self.starts("ask-held", ask("One", "held", Some("home"))).await;
        until("it has its turn", &client, &run, |run| !run.waves.is_empty()).await;
        self.pauses(&run).await;
        self.starts("ask-behind", ask("Two", "held", None)).await;
    }
}

fn pausing(mut request: v1::StartRunRequest) -> v1::StartRunRequest {
    if let Some(v1::start_run_request::Work::Plan(plan)) = &mut request.work {
        plan.on_high = Some(v1::OnHigh::Pause as i32);
    }
    request
}

#[expect(clippy::disallowed_methods, reason = "when the folder was made is part of it")]
fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Makes the folder in `folder`, and what belongs to it in the fixture.
pub async fn make(folder: &std::path::Path, format: u32) {
    let site = Site::start().await.unwrap();
    let daemon = Daemon::start(folder, format);
    let mut maker = Maker { client: daemon.client().await, cases: BTreeMap::new() };
    // The first daemon is killed while a page is clicked: what became of it, the next one asks.
    let run = maker.starts("script-waiting", script("waiting", &site, WAITS)).await;
    site.until_hits("/hit/target", 1).await;
    let mut daemon = daemon.kill_and_start();
    maker.client = daemon.client().await;
    let client = maker.client.clone();
    until("it asks", &client, &run, |run| run.status() == v1::RunStatus::Waiting).await;

    let hands = crew(&daemon.url(), Mood::Bad);
    let host = home(&daemon.url());
    super::until_served(&client, &["crew", "home"]).await;
    maker.finished(&site).await;
    host.aborts();
    maker.unfinished().await;

    let run = maker.starts("script-at-work", script("at-work", &site, WAITS)).await;
    site.until_hits("/hit/target", 2).await;
    until("it is pressed", &client, &run, |run| run.wave == 2).await;
    let open = v1::OpenBrowserRequest {
        name: "session".to_owned(),
        policy: Some(v1::ScriptPolicy { allowlist: vec![site.host()], ..Default::default() }),
        idle_timeout_ms: Some(60_000),
        idempotency_key: Some("key of script-session".to_owned()),
        ..Default::default()
    };
    let run = client.open_browser(open).await.unwrap().run_id;
    maker.cases.insert("script-session".to_owned(), Case { run: run.clone(), request: None });
    until("it is open", &client, &run, |run| run.tasks_settled == 1).await;
    let run = maker.starts("ask-overdue", ask("Three", "overdue", Some("home"))).await;
    until("it has its turn", &client, &run, |run| !run.waves.is_empty()).await;
    daemon.kill();
    hands.aborts();
    Made { killed_at: now_ms(), cases: maker.cases }.write(format);
    let data = fixture(format).join("data");
    std::fs::create_dir_all(&data).unwrap();
    for name in ["capataz.db", "capataz.db-wal"] {
        std::fs::copy(folder.join("data").join(name), data.join(name)).unwrap();
    }
    super::copy(&folder.join("data/blobs"), &data.join("blobs"));
}
