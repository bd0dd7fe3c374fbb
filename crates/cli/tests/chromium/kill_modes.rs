//! Executions that fill in a form in a real Chromium, and whose daemon is killed with SIGKILL at every kind of step: the planner
//! begins anew where its browser is lost, the form is sent once, and no browser is left (seed 004; CONTRACTS §5).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::served::kills::{Kills, PATIENCE, Told, journal, kinds, noting, of_restarts};
use crate::served::{Served, browsers};
use capataz_client::{Client, Delivery};
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body};
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
use capataz_testsite::Site;
use serde_json::{Value, json};

const TOOLS: [&str; 5] = ["look", "note", "browser.navigate", "browser.fill", "browser.submit"];

/// Who plans: a model in one of the protocols, or rules.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mind {
    Model(Protocol),
    Rules,
}

fn config(folder: &Path, server: &TestModel, mind: Mind) -> String {
    let planner = match mind {
        Mind::Rules => "[[planners]]\nname = \"mind\"\nrules = \"rules.toml\"\n".to_owned(),
        Mind::Model(protocol) => format!(
            "[[models]]\nname = \"mind\"\nkind = \"planner\"\nprotocol = \"{}\"\nbase_url = {:?}\n\
             model = \"test-model\"\n",
            match protocol {
                Protocol::OpenAi => "openai",
                Protocol::Anthropic => "anthropic",
            },
            server.base_url(protocol),
        ),
    };
    format!(
        "{planner}[[agents]]\nname = \"look\"\nkind = \"tool\"\nundoable = true\ncommand = [\"echo\", \"1\"]\n{}",
        noting(folder, "note"),
    )
}

/// The steps by which the form is filled in, sent and noted: tools and parameters.
fn steps(host: &str, number: &str, proof: &str) -> [(&'static str, Value); 4] {
    let button = json!({ "role": "button", "name": "Search" });
    let post = json!([{ "kind": "url_matches", "value": format!("/echo[?]q={number}{proof}$") }]);
    [
        ("browser.navigate", json!({ "url": format!("http://{host}/form/get") })),
        ("browser.fill", json!({ "target": { "label": "Search" }, "value": number })),
        ("browser.submit", json!({ "target": button, "post": post })),
        ("note", json!({ "number": number })),
    ]
}

/// The same as a file of rules; the query is the number.
fn rules(host: &str, proof: &str) -> String {
    let steps = steps(host, "${number}", proof)
        .map(|(tool, parameters)| json!({ "id": tool, "tool": tool, "parameters": parameters }));
    let rule = json!({ "query": "(?<number>n[0-9]+)", "steps": steps });
    toml::to_string(&json!({ "rules": [rule] })).unwrap()
}

/// A planner that fills in the form, sends it, and notes that. In the mode `simple` it looks after an error, and where the daemon
/// has died with the page; that always succeeds, and it begins anew. In the mode `planner` it begins anew wherever another plan
/// is wanted, and in the mode `supervised` it can do nothing but keep to the plan.
fn plans(host: &str, deaths: Arc<AtomicUsize>, proof: &'static str) -> impl Fn(&Asked) -> Turn + use<> {
    let (host, opened_at) = (host.to_owned(), AtomicUsize::new(0));
    move |asked| {
        let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
        let steps = steps(&host, prompt["query"].as_str().unwrap(), proof);
        let answer = if let Some(step) = prompt.pointer("/adherenceCheck/planStep") {
            let action =
                json!({ "tool": step["tool"], "parameters": step["parameters"], "justification": "planned" });
            json!({
                "decision": "continue", "nextAction": action, "planAdherence": 1,
                "reasoning": "it is what comes next", "confidence": 1,
            })
        } else if prompt.get("progress").is_some() {
            by_plan(&prompt, &steps)
        } else {
            let last = &prompt["lastResult"];
            let done = if last["error"].is_null() { last["tool"].as_str() } else { None };
            let is_there = opened_at.load(Ordering::SeqCst) == deaths.load(Ordering::SeqCst);
            let [navigate, fill, submit, note] = steps;
            let (tool, parameters) = match done {
                Some("look") => {
                    opened_at.store(deaths.load(Ordering::SeqCst), Ordering::SeqCst);
                    navigate
                }
                Some("browser.submit") => note,
                Some("browser.navigate") if is_there => fill,
                Some("browser.fill") if is_there => submit,
                _ => ("look", json!({})),
            };
            json!({
                "action": { "tool": tool, "parameters": parameters },
                "reasoning": "it is what comes next", "continue": tool != "note", "confidence": 1,
            })
        };
        Turn::say(answer.to_string())
    }
}

/// The plan, where there is none or another one is wanted; else the step of it that comes next.
fn by_plan(prompt: &Value, steps: &[(&'static str, Value)]) -> Value {
    let is_known = prompt["currentPlan"].is_object() && prompt.get("deviationAnalysis").is_none();
    let done = prompt["progress"].as_f64().unwrap();
    let all = f64::from(u32::try_from(steps.len()).unwrap());
    let place = if is_known {
        (0..steps.len())
            .find(|place| f64::from(u32::try_from(*place).unwrap()) / all > done - 0.01)
            .unwrap_or(0)
    } else {
        0
    };
    let (tool, parameters) = &steps[place];
    let mut answer = json!({
        "nextAction": { "tool": tool, "parameters": parameters, "stepIndex": place },
        "replanRequired": false, "reasoning": "it is what comes next", "confidence": 1,
    });
    if !is_known {
        let mut needed: Option<&str> = None;
        let planned: Vec<Value> = steps
            .iter()
            .map(|(tool, parameters)| {
                let needs: Vec<&str> = needed.replace(tool).into_iter().collect();
                json!({
                    "id": tool, "description": tool, "tool": tool, "parameters": parameters,
                    "expected": { "success": true }, "dependsOn": needs,
                })
            })
            .collect();
        answer["planUpdate"] =
            json!({ "type": "create", "steps": planned, "estimatedTime": 1, "checkpoints": [] });
    }
    answer
}

/// A machine may be slow; nothing is waited for that does not come.
const LONG_MS: i64 = 60_000;
/// Where the page is gone, what is no more on it is waited for.
const SHORT_MS: i64 = 10_000;

fn request(site: &Site, number: &str, mode: ExecutionMode, timeout_ms: i64) -> v1::StartRunRequest {
    v1::StartRunRequest::of_mode(v1::ModeRun {
        query: number.to_owned(),
        mode: Some(mode.into()),
        tools: TOOLS.map(|name| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() }).into(),
        max_steps: Some(200),
        browser_policy: Some(v1::ScriptPolicy {
            allowlist: vec![site.host()],
            action_timeout_ms: Some(timeout_ms),
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
async fn looks(told: Told<'_>, folder: &Path, site: &Site, number: &str, mode: ExecutionMode) {
    told.answer(|question| match question.purpose() {
        QuestionPurpose::Plan => ("approve", None),
        // The approved plan cannot be worked on without its page.
        QuestionPurpose::Escalation => ("abort", None),
        QuestionPurpose::Outcome => match told.calls.last().unwrap().0.as_str() {
            "browser.submit" if sent(site, number) > 0 => ("succeeded", Some(true.into())),
            // What was filled in is gone with its page. By a plan it would be waited for there.
            "browser.submit" | "browser.fill" if mode == ExecutionMode::Simple => ("retry", None),
            "browser.submit" | "browser.fill" => ("failed", None),
            _ => told.outcome(folder),
        },
        other => unreachable!("{other:?}"),
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
    let config = config(folder, &server, Mind::Model(Protocol::OpenAi));
    let mut kills = Kills::start(folder, &config, wanted, others).counting(&deaths);
    let mut numbers = Vec::new();
    while kills.go_on() {
        let number = format!("n{}", kills.round());
        let mode = ExecutionMode::Simple;
        let person = async |told: Told<'_>| looks(told, folder, &site, &number, mode).await;
        let ended = kills.execution(request(&site, &number, mode, LONG_MS), person).await;
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

/// By plans, of which one cannot be made anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_a_plan_is_sent_at_most_once_wherever_the_daemon_of_its_execution_is_killed() {
    for mode in [ExecutionMode::Planner, ExecutionMode::Supervised] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let site = Site::start().await.unwrap();
        let server = TestModel::answering(plans(&site.host(), Arc::default(), "")).await;
        let mut wanted =
            kinds(&["ToolCalled", "TaskLeased", "ActionFinished", "TaskSettled"], &["browser.submit"]);
        wanted.push("BrowserOpened of browser.navigate".to_owned());
        wanted.push("TaskLeased of note".to_owned());
        let config = config(folder, &server, Mind::Model(Protocol::Anthropic));
        let mut kills = Kills::only_at(folder, &config, wanted);
        let mut numbers = Vec::new();
        while kills.go_on() {
            let number = format!("n{}", kills.round());
            let person = async |told: Told<'_>| looks(told, folder, &site, &number, mode).await;
            let ended = kills.execution(request(&site, &number, mode, SHORT_MS), person).await;
            let sent = sent(&site, &number);
            if mode == ExecutionMode::Planner {
                assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
                assert_eq!(sent, 1, "the form was sent once");
            }
            // Where the page is gone before that, the person has ended the run, and nothing was sent.
            let has_succeeded = ended.result.outcome() == v1::RunOutcome::Succeeded;
            assert_eq!(sent, usize::from(has_succeeded), "{mode:?} {:?}", ended.result.error);
            if has_succeeded {
                numbers.push(json!({ "number": number }));
            }
            assert_eq!(journal(folder, "note"), numbers, "{mode:?}: noted as often as it was sent");
            browsers::leave_nothing(&folder.join("data")).await;
        }
        assert!(!numbers.is_empty(), "{mode:?}: where it was sent when the daemon was killed, it goes on");
    }
}

/// The first question of the run with this purpose.
async fn question(client: &Client, run_id: &str, purpose: QuestionPurpose) -> v1::Question {
    let filter = v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() };
    let subscribe = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(subscribe);
    loop {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await.expect("it is asked");
        if let Delivery::Event { event, .. } = next.unwrap().unwrap()
            && let Some(Body::QuestionAsked(asked)) = event.body
            && asked.question.as_ref().is_some_and(|question| question.purpose() == purpose)
        {
            return asked.question.unwrap();
        }
    }
}

async fn is_asked_about(mind: Mind, mode: ExecutionMode) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let site = Site::start().await.unwrap();
    // The page never proves what is waited for: the daemon is killed between the effect and its record.
    let proof = "&never";
    let server = TestModel::answering(plans(&site.host(), Arc::default(), proof)).await;
    fs::write(folder.join("rules.toml"), rules(&site.host(), proof)).unwrap();
    let daemon = Served::start(folder, &config(folder, &server, mind));
    let client = daemon.client().await;
    let run_id = client.start_run(request(&site, "n1", mode, LONG_MS)).await.unwrap().run_id;
    if mode == ExecutionMode::Supervised {
        let asked = question(&client, &run_id, QuestionPurpose::Plan).await;
        let approve = v1::ResolveRequest {
            run_id: run_id.clone(),
            question_id: asked.question_id,
            answer: "approve".to_owned(),
            ..v1::ResolveRequest::default()
        };
        client.resolve(approve).await.unwrap();
    }
    tokio::time::timeout(PATIENCE, site.until_hits("/echo", 1)).await.expect("it is sent");
    assert!(browsers::are_alive(&folder.join("data")));
    let daemon = daemon.kill_and_start();
    let client = daemon.client().await;
    let question = question(&client, &run_id, QuestionPurpose::Outcome).await;
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
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{mind:?} {mode:?}: {:?}", result.error);
    assert_eq!(sent(&site, "n1"), 1, "{mind:?} {mode:?}");
    assert_eq!(journal(folder, "note"), [json!({ "number": "n1" })], "{mind:?} {mode:?}");
    browsers::leave_nothing(&folder.join("data")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_was_sent_when_the_daemon_was_killed_is_asked_about_and_not_sent_again() {
    let models = [
        (Protocol::OpenAi, ExecutionMode::Simple),
        (Protocol::Anthropic, ExecutionMode::Simple),
        (Protocol::OpenAi, ExecutionMode::Planner),
        (Protocol::Anthropic, ExecutionMode::Supervised),
    ];
    for (protocol, mode) in models {
        is_asked_about(Mind::Model(protocol), mode).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_was_sent_by_rules_when_the_daemon_was_killed_is_asked_about_and_not_sent_again() {
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        is_asked_about(Mind::Rules, mode).await;
    }
}
