//! Commands, answers and events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capataz_cdp::{CallError, Done};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Bench, DEADLINE, Server, evaluate, launch, navigate, page};

#[tokio::test]
async fn events_of_a_command_wait_for_who_subscribed_before_it() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    page.call::<Done>("Runtime.enable", ()).await.unwrap();
    let mut messages = page.subscribe(&["Runtime.consoleAPICalled"]);
    let mut bindings = page.subscribe(&["Runtime.bindingCalled"]);
    evaluate(&page, "for (let i = 0; i < 100; i++) console.log(i)").await;
    // The answer has come, so all of them are there, in order.
    for expected in 0..100 {
        let event = messages.try_next().unwrap().unwrap();
        let params: Value = event.parse().unwrap();
        assert_eq!(params["args"][0]["value"], expected);
        assert_eq!(event.session.as_ref(), page.id());
    }
    assert_eq!(messages.try_next(), Ok(None));
    assert_eq!(bindings.try_next(), Ok(None));
}

#[tokio::test]
async fn a_slow_subscriber_is_told_what_it_missed_and_holds_nobody_up() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    page.call::<Done>("Runtime.enable", ()).await.unwrap();
    let mut messages = page.subscribe(&["Runtime.consoleAPICalled"]);
    evaluate(&page, "for (let i = 0; i < 3000; i++) console.log(i)").await;
    let (mut taken, mut missed) = (0, 0);
    while taken + missed < 3000 {
        match timeout(DEADLINE, messages.next()).await.unwrap() {
            Ok(_) => taken += 1,
            Err(capataz_cdp::EventError::Lagged(count)) => missed += count,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((taken, missed), (1024, 3000 - 1024));
    evaluate(&page, "console.log('again')").await;
    assert!(messages.try_next().unwrap().is_some());
}

#[tokio::test]
async fn sent_commands_arrive_in_their_order() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    evaluate(&page, "window.seen = []; 0").await;
    let replies: Vec<_> = (0..200)
        .map(|i| page.send::<Value>("Runtime.evaluate", json!({ "expression": format!("seen.push({i})") })))
        .collect();
    for (i, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.await.unwrap()["result"]["value"], i + 1);
    }
    let in_order = evaluate(&page, "seen.every((value, index) => value === index)").await;
    assert_eq!(in_order, true);
}

#[tokio::test]
async fn a_thousand_calls_at_a_time_get_their_own_answers() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let pages = [page(&browser).await, page(&browser).await];
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for i in 0..1000 {
        let page = pages[i % 2].clone();
        calls.spawn(async move { (i, evaluate(&page, &format!("{i} * 3")).await) });
    }
    let answers: BTreeMap<usize, Value> = calls.join_all().await.into_iter().collect();
    println!("1000 calls took {:?}", started.elapsed());
    assert_eq!(answers.len(), 1000);
    assert!(answers.into_iter().all(|(i, answer)| answer == i * 3));
}

#[tokio::test]
async fn what_the_browser_does_not_know_is_its_error() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let error = page.call::<Done>("No.suchMethod", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Protocol { code: -32601, .. }), "{error}");
    let error = page.call::<Done>("Page.navigate", json!({ "url": 7 })).await.unwrap_err();
    assert!(matches!(error, CallError::Protocol { code: -32602, .. }), "{error}");
    let error = browser.connection().session("none").call::<Done>("Page.enable", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Protocol { code: -32001, .. }), "{error}");
    #[derive(Debug, serde::Deserialize)]
    struct Other {
        #[expect(dead_code)]
        no_such_field: u32,
    }
    let error = page.call::<Other>("Runtime.evaluate", json!({ "expression": "1" })).await.unwrap_err();
    assert!(matches!(error, CallError::Result { .. }), "{error}");
    assert_eq!(evaluate(&page, "1").await, 1);
}

#[tokio::test]
async fn a_result_may_have_fifty_megabytes() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let started = Instant::now();
    let long = evaluate(&page, "'x'.repeat(50_000_000)").await;
    println!("a result of 50 MB took {:?}", started.elapsed());
    assert_eq!(long.as_str().map(str::len), Some(50_000_000));
}

#[tokio::test]
async fn text_that_is_no_unicode_hides_nothing() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    assert_eq!(evaluate(&page, "'a\\ud800b\\u{1f600}'").await, "a\u{fffd}b\u{1f600}");
    page.call::<Done>("Runtime.enable", ()).await.unwrap();
    let mut messages = page.subscribe(&["Runtime.consoleAPICalled"]);
    evaluate(&page, "console.log('\\udc00')").await;
    let message: Value = messages.try_next().unwrap().unwrap().parse().unwrap();
    assert_eq!(message["args"][0]["value"], "\u{fffd}");
}

#[tokio::test]
async fn a_command_that_is_nested_too_deeply_harms_only_itself() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let mut deep = json!(0);
    for _ in 0..500 {
        deep = json!([deep]);
    }
    let asked =
        timeout(Duration::from_millis(500), page.call::<Done>("Page.enable", json!({ "deep": deep }))).await;
    assert!(!matches!(asked, Ok(Ok(_))), "{asked:?}");
    assert_eq!(evaluate(&page, "1").await, 1);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_forgotten() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let slow = json!({ "expression": "new Promise(done => window.finish = done)", "awaitPromise": true });
    let given_up = timeout(Duration::from_millis(50), page.call::<Value>("Runtime.evaluate", slow)).await;
    assert!(given_up.is_err());
    // Its answer comes before this one, and disturbs nobody.
    assert_eq!(evaluate(&page, "finish(1); 2").await, 2);
    assert_eq!(evaluate(&page, "3").await, 3);
}

#[tokio::test]
async fn what_a_page_opens_gets_a_session_of_its_own() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let server = Server::page("<title>outer</title>").await;
    navigate(&page, &server.url()).await.unwrap();
    let mut attached = page.subscribe(&["Target.attachedToTarget"]);
    let params = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
    page.call::<Done>("Target.setAutoAttach", params).await.unwrap();
    let start = "window.worker = new Worker(URL.createObjectURL(new Blob(['self.answer = 42'])))";
    evaluate(&page, &format!("{start}; 0")).await;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Attached {
        session_id: capataz_cdp::SessionId,
        target_info: Value,
    }
    let event = timeout(DEADLINE, attached.next()).await.unwrap().unwrap();
    let event: Attached = event.parse().unwrap();
    assert_eq!(event.target_info["type"], "worker");
    let worker = browser.connection().session(event.session_id);
    worker.call::<Done>("Runtime.runIfWaitingForDebugger", ()).await.unwrap();
    let mut asked = evaluate(&worker, "typeof answer").await;
    while asked == "undefined" {
        asked = evaluate(&worker, "typeof answer").await;
    }
    assert_eq!(evaluate(&worker, "answer").await, 42);
}
