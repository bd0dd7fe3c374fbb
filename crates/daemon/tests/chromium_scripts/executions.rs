//! Executions that use a browser: one of their own, opened by the first call and closed with the run (seed 004).

use std::sync::Arc;

use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::{self, ExecutionMode};
use capataz_hosts::rules::Rules;

use crate::bench::{Bench, Ended};

/// A daemon with a planner that goes by these rules.
async fn bench(rules: &str) -> Bench {
    let rules = rules.to_owned();
    Bench::start_with(move |config, folder| {
        let secrets = folder.join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::write(secrets.join("PASSWORD"), "correct horse").unwrap();
        config.secrets_dir = Some(secrets);
        let rules = Rules::new(toml::from_str(&rules).unwrap()).unwrap();
        config.rules.insert("rules".to_owned(), Arc::new(rules));
    })
    .await
}

fn run(bench: &Bench, mode: ExecutionMode) -> v1::ModeRun {
    v1::ModeRun {
        query: format!("look at {}", bench.site.host()),
        mode: Some(mode.into()),
        planner: "rules".to_owned(),
        tools: vec![v1::ModeTool { name: "browser.*".to_owned(), ..v1::ModeTool::default() }],
        browser_policy: Some(v1::ScriptPolicy {
            allowlist: vec![bench.site.host()],
            action_timeout_ms: Some(60_000),
            ..v1::ScriptPolicy::default()
        }),
        ..v1::ModeRun::default()
    }
}

async fn try_start(bench: &Bench, run: v1::ModeRun) -> Result<String, tonic::Status> {
    let request = v1::StartRunRequest {
        work: Some(v1::start_run_request::Work::Mode(run)),
        ..v1::StartRunRequest::default()
    };
    Ok(bench.runs.clone().start_run(request).await?.into_inner().run_id)
}

async fn answer(bench: &Bench, run_id: &str, option: &str) {
    let asked = bench.until(run_id, |body| matches!(body, Body::QuestionAsked(_))).await;
    let Some(Body::QuestionAsked(asked)) = asked.body else { unreachable!() };
    let request = v1::ResolveRequest {
        run_id: run_id.to_owned(),
        question_id: asked.question.unwrap().question_id,
        answer: option.to_owned(),
        request_id: format!("answer-{option}"),
        ..v1::ResolveRequest::default()
    };
    bench.runs.clone().resolve(request).await.unwrap();
}

/// What the calls of tools gave back, as JSON, in their order; what failed, as its code.
fn given(ended: &Ended) -> Vec<String> {
    let settled = |event: &v1::Event| match &event.body {
        Some(Body::TaskSettled(settled)) => Some((
            settled.output.as_ref().map(|output| match &output.data {
                Some(v1::payload::Data::Inline(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
                _ => String::new(),
            }),
            settled.error.as_ref().map(|error| error.code.clone()),
        )),
        _ => None,
    };
    let all =
        ended.events.iter().filter_map(settled).map(|(output, error)| error.or(output).unwrap_or_default());
    // Every second one is the planner's.
    all.skip(1).step_by(2).collect()
}

const SIGN_IN: &str = r#"
[[rules]]
query = 'look at (?<site>\S+)'

[[rules.steps]]
id = "go"
tool = "browser.navigate"
parameters = { url = "http://${site}/sign-in" }

[[rules.steps]]
id = "look"
tool = "browser.observe"
parameters = {}

[[rules.steps]]
id = "user"
tool = "browser.fill"
parameters = { target = { label = "User" }, value = "ana" }

[[rules.steps]]
id = "password"
tool = "browser.fill"
parameters = { target = { label = "Password" }, value = "${secret:PASSWORD}" }

[[rules.steps]]
id = "send"
tool = "browser.submit"
parameters = { target = { testid = "sign-in" }, post = [{ kind = "title_equals", value = "Account" }] }

[[rules.steps]]
id = "read"
tool = "browser.extract"
parameters = { target = { css = "main > p:nth-of-type(2)" } }
"#;

#[tokio::test]
async fn an_execution_of_each_mode_signs_in_in_one_browser_of_its_own() {
    let bench = bench(SIGN_IN).await;
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        let run_id = try_start(&bench, run(&bench, mode)).await.unwrap();
        if mode == ExecutionMode::Supervised {
            answer(&bench, &run_id, "approve").await;
        }
        let ended = bench.ended(run_id.clone()).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{mode:?}: {:?}", ended.result.error);
        let count = |wanted: fn(&Body) -> bool| {
            ended.events.iter().filter(|event| event.body.as_ref().is_some_and(wanted)).count()
        };
        assert_eq!(count(|body| matches!(body, Body::BrowserOpened(_))), 1);
        assert_eq!(count(|body| matches!(body, Body::ActionFinished(_))), 5, "a look is no action");
        if mode == ExecutionMode::Simple {
            let given = given(&ended);
            assert!(
                given[0].contains("\"title\":\"Sign in\"") && given[0].contains("\"status\":200"),
                "{given:?}"
            );
            assert!(given[1].contains("User") && given[1].contains("[ref="), "{}", given[1]);
            let read: serde_json::Value = serde_json::from_str(&given[5]).unwrap();
            assert_eq!((&read["output"], &read["title"]), (&"Welcome, ana.".into(), &"Account".into()));
        }
        assert!(!format!("{:?}", ended.events).contains("correct horse"), "a secret is in no event");
        while !bench.browsers().await.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_browser_that_is_killed_while_a_person_is_asked_is_lost_and_the_next_call_opens_another() {
    let bench = bench(SIGN_IN).await;
    let mut tools = vec![v1::ModeTool { name: "browser.*".to_owned(), ..v1::ModeTool::default() }];
    tools.push(v1::ModeTool {
        name: "browser.observe".to_owned(),
        needs_approval: true,
        ..v1::ModeTool::default()
    });
    let mut run = v1::ModeRun { tools, ..run(&bench, ExecutionMode::Simple) };
    // Nothing of what follows is on a blank page.
    run.browser_policy.as_mut().unwrap().action_timeout_ms = Some(1_000);
    let run_id = try_start(&bench, run).await.unwrap();
    bench.until(&run_id, |body| matches!(body, Body::QuestionAsked(_))).await;
    let open = bench.browsers().await.remove(0);
    assert_eq!(open.run_id, run_id);
    let process = rustix::process::Pid::from_raw(i32::try_from(open.process_id).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    bench.until(&run_id, |body| matches!(body, Body::BrowserLost(_))).await;
    answer(&bench, &run_id, "approve").await;
    let ended = bench.ended(run_id).await;
    let opened =
        ended.events.iter().filter(|event| matches!(event.body, Some(Body::BrowserOpened(_)))).count();
    assert_eq!(opened, 2);
    let given = given(&ended);
    assert!(given[1].contains("about:blank"), "the page of another browser is blank: {given:?}");
    assert_eq!(given[2], "TARGET_NOT_FOUND", "{given:?}");
}

#[tokio::test]
async fn what_a_browser_may_not_reach_it_does_not_and_what_is_wrong_with_its_policy_is_refused() {
    let bench = bench(SIGN_IN).await;
    let mut nowhere = run(&bench, ExecutionMode::Simple);
    nowhere.browser_policy =
        Some(v1::ScriptPolicy { action_timeout_ms: Some(1_000), ..v1::ScriptPolicy::default() });
    let run_id = try_start(&bench, nowhere).await.unwrap();
    let ended = bench.ended(run_id).await;
    assert_eq!(ended.result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(given(&ended)[0], "DOMAIN_BLOCKED");

    let mut wrong = run(&bench, ExecutionMode::Simple);
    wrong.browser_policy.as_mut().unwrap().allowlist = vec!["http://not a host".to_owned()];
    let refused = try_start(&bench, wrong).await.unwrap_err();
    assert!(refused.message().contains("mode.browser_policy.allowlist[0]"), "{refused:?}");
    let mut without = run(&bench, ExecutionMode::Simple);
    without.tools = vec![v1::ModeTool { name: "router.ask".to_owned(), ..v1::ModeTool::default() }];
    let refused = try_start(&bench, without).await.unwrap_err();
    assert!(refused.message().contains("mode.browser_policy"), "{refused:?}");
}
