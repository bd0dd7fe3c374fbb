//! Executions that fill in a form in a real Chromium, and whose daemon is killed with SIGKILL at every kind of step: the planner
//! begins anew where its browser is lost, the form is sent once, and no browser is left (seed 004; CONTRACTS §5).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::served::kills::{Kills, PATIENCE, Told, journal, kinds, noting, of_restarts};
use crate::served::{Served, browsers};
use capataz_client::Delivery;
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body};
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
use capataz_testsite::Site;
use serde_json::{Value, json};

fn config(folder: &Path, server: &TestModel) -> String {
    format!(
        "[[models]]\nname = \"mind\"\nkind = \"planner\"\nprotocol = \"openai\"\nbase_url = {:?}\n\
         model = \"test-model\"\n\
         [[agents]]\nname = \"look\"\nkind = \"tool\"\nundoable = true\ncommand = [\"echo\", \"1\"]\n{}",
        server.base_url(Protocol::OpenAi),
        noting(folder, "note"),
    )
}

/// A planner that fills in the form, sends it, and notes that. After an error, and where the daemon has died with the page, it
/// looks, which always succeeds, and begins anew.
fn plans(host: &str, deaths: Arc<AtomicUsize>, proof: &'static str) -> impl Fn(&Asked) -> Turn + use<> {
    let (host, opened_at) = (host.to_owned(), AtomicUsize::new(0));
    move |asked| {
        let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
        let number = &prompt["query"];
        let last = &prompt["lastResult"];
        let done = if last["error"].is_null() { last["tool"].as_str() } else { None };
        let is_there = opened_at.load(Ordering::SeqCst) == deaths.load(Ordering::SeqCst);
        let (tool, parameters) = match done {
            Some("look") => {
                opened_at.store(deaths.load(Ordering::SeqCst), Ordering::SeqCst);
                ("browser.navigate", json!({ "url": format!("http://{host}/form/get") }))
            }
            Some("browser.submit") => ("note", json!({ "number": number })),
            Some("browser.navigate") if is_there => {
                ("browser.fill", json!({ "target": { "label": "Search" }, "value": number }))
            }
            Some("browser.fill") if is_there => {
                let proof = format!("/echo[?]q={}{proof}$", number.as_str().unwrap());
                let button = json!({ "role": "button", "name": "Search" });
                let post = json!([{ "kind": "url_matches", "value": proof }]);
                ("browser.submit", json!({ "target": button, "post": post }))
            }
            _ => ("look", json!({})),
        };
        let answer = json!({
            "action": { "tool": tool, "parameters": parameters },
            "reasoning": "it is what comes next", "continue": tool != "note", "confidence": 1,
        });
        Turn::say(answer.to_string())
    }
}

fn request(site: &Site, number: &str) -> v1::StartRunRequest {
    let tools = ["look", "note", "browser.navigate", "browser.fill", "browser.submit"];
    v1::StartRunRequest::of_mode(v1::ModeRun {
        query: number.to_owned(),
        mode: Some(ExecutionMode::Simple.into()),
        tools: tools.map(|name| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() }).into(),
        max_steps: Some(200),
        browser_policy: Some(v1::ScriptPolicy {
            allowlist: vec![site.host()],
            // A machine may be slow; nothing is waited for that does not come.
            action_timeout_ms: Some(60_000),
            ..v1::ScriptPolicy::default()
        }),
        ..v1::ModeRun::default()
    })
}

/// How often the form with this number has come to the site.
fn sent(site: &Site, number: &str) -> usize {
    let query = format!("q={number}");
    site.requests().iter().filter(|request| request.query.as_deref() == Some(&*query)).count()
}

/// A person looks at the site, and into the journal, where nobody knows what has become of a call.
async fn looks(told: Told<'_>, folder: &Path, site: &Site, number: &str) {
    told.answer(|question| {
        assert_eq!(question.purpose(), QuestionPurpose::Outcome, "{question:?}");
        match told.calls.last().unwrap().0.as_str() {
            "browser.submit" if sent(site, number) > 0 => ("succeeded", Some(true.into())),
            // What was filled in is gone with its page.
            "browser.submit" | "browser.fill" => ("retry", None),
            _ => told.outcome(folder),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_sent_once_wherever_the_daemon_of_its_execution_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let site = Site::start().await.unwrap();
    let deaths = Arc::new(AtomicUsize::new(0));
    let server = TestModel::answering(plans(&site.host(), Arc::clone(&deaths), "")).await;
    let mut wanted = kinds(&["PlannerAsked", "TaskLeased", "PlannerAnswered", "TaskSettled"], &["planner"]);
    let of_call = ["ToolCalled", "TaskLeased", "TaskSettled", "ToolObserved"];
    let of_browser = ["browser.navigate", "browser.fill", "browser.submit"];
    wanted.extend(kinds(&of_call, &["look", "note"]));
    wanted.extend(kinds(&of_call, &of_browser));
    wanted.extend(kinds(&["StageFinished", "ActionFinished"], &of_browser));
    wanted.push("BrowserOpened of browser.navigate".to_owned());
    wanted.extend(["RunAccepted", "ModeBegun", "ModeCompleted", "RunFinished"].map(str::to_owned));
    // Where the browser is lost is chance, and so is what is done in a blank one.
    let mut others =
        of_restarts(&["planner", "look", "browser.navigate"], &["browser.fill", "browser.submit", "note"]);
    let anywhere = ["planner", "look", "note", "browser.navigate", "browser.fill", "browser.submit"];
    others.extend(kinds(&["BrowserLost"], &anywhere));
    others.extend(kinds(&["ActionFailed"], &of_browser));
    others.extend(kinds(&["BrowserOpened"], &of_browser[1..]));
    let mut kills = Kills::start(folder, &config(folder, &server), wanted, others).counting(&deaths);
    let mut numbers = Vec::new();
    while kills.go_on() {
        let number = format!("n{}", kills.round());
        let person = async |told: Told<'_>| looks(told, folder, &site, &number).await;
        let ended = kills.execution(request(&site, &number), person).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        assert_eq!(sent(&site, &number), 1, "the form was sent once");
        numbers.push(json!({ "number": number }));
        assert_eq!(journal(folder, "note"), numbers, "and noted once");
        // Each browser but the last one was lost before a call opened the next one.
        let opened = ended.count(|body| matches!(body, Body::BrowserOpened(_)));
        let lost = ended.count(|body| matches!(body, Body::BrowserLost(_)));
        assert!(opened == lost || opened == lost + 1, "{opened} were opened, and {lost} lost");
        browsers::leave_nothing(&folder.join("data")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_was_sent_when_the_daemon_was_killed_is_asked_about_and_not_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let site = Site::start().await.unwrap();
    // The page never proves what is waited for: the daemon is killed between the effect and its record.
    let deaths = Arc::new(AtomicUsize::new(0));
    let server = TestModel::answering(plans(&site.host(), deaths, "&never")).await;
    let daemon = Served::start(folder, &config(folder, &server));
    let client = daemon.client().await;
    let run_id = client.start_run(request(&site, "n1")).await.unwrap().run_id;
    tokio::time::timeout(PATIENCE, site.until_hits("/echo", 1)).await.expect("it is sent");
    assert!(browsers::are_alive(&folder.join("data")));
    let daemon = daemon.kill_and_start();
    let client = daemon.client().await;
    let filter = v1::EventFilter { run_id: Some(run_id.clone()), ..v1::EventFilter::default() };
    let subscribe = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(subscribe);
    let question = loop {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await.expect("it is asked about");
        if let Delivery::Event { event, .. } = next.unwrap().unwrap()
            && let Some(Body::QuestionAsked(asked)) = event.body
        {
            break asked.question.unwrap();
        }
    };
    assert_eq!(question.purpose(), QuestionPurpose::Outcome);
    assert_eq!(question.error.unwrap().code, "OUTCOME_UNKNOWN");
    assert_eq!(question.options, ["retry", "succeeded", "failed", "abort"]);
    browsers::leave_nothing(&folder.join("data")).await;
    let request = v1::ResolveRequest {
        run_id: run_id.clone(),
        question_id: question.question_id,
        answer: "succeeded".to_owned(),
        value: Some(v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline("true".into())),
        }),
        ..v1::ResolveRequest::default()
    };
    client.resolve(request).await.unwrap();
    let result = client.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{:?}", result.error);
    assert_eq!(sent(&site, "n1"), 1);
    assert_eq!(journal(folder, "note"), [json!({ "number": "n1" })]);
    browsers::leave_nothing(&folder.join("data")).await;
}
