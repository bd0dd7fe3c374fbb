//! Sessions to which actions are proposed one by one.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::propose_response::Outcome;
use tonic_types::StatusExt;

use crate::bench::Bench;
use crate::session::Session;

/// The reference of the one line of an outline that has this.
#[track_caller]
fn reference(outline: &str, text: &str) -> String {
    let lines: Vec<&str> = outline.lines().filter(|line| line.contains(text)).collect();
    assert_eq!(lines.len(), 1, "{text}: {outline}");
    let (_, rest) = lines[0].split_once("[ref=").expect("the line has a reference");
    rest.split_once(']').expect("it ends").0.to_owned()
}

fn click(reference: &str) -> String {
    format!("kind = \"click\"\ntarget = {{ ref = {reference:?} }}")
}

#[tokio::test]
async fn an_outline_has_references_and_a_stale_one_means_no_other_element() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/rerendered\"").await;
    let observed = session.observe().await;
    assert_eq!(observed.state.unwrap().title, "Button that is made anew");
    let save = reference(&observed.outline, "button \"Save\"");
    let again = reference(&observed.outline, "button \"Render again\"");
    let clicked = session.succeeds(&click(&save)).await;
    assert_eq!(clicked.resolution.unwrap().locator, "ref");
    session.succeeds(&click(&again)).await;
    let error = session.fails(&click(&save)).await;
    assert_eq!(error.error_code, "TARGET_NOT_FOUND");
    bench.site.until_hits("/hit/target", 1).await;
    let renewed = session.observe().await;
    let renewed_save = reference(&renewed.outline, "button \"Save\"");
    assert_ne!(renewed_save, save);
    session.succeeds(&click(&renewed_save)).await;
    bench.site.until_hits("/hit/target", 2).await;
    session.close().await;
    assert_eq!(bench.site.hits("/hit/target"), 2);
    assert_eq!(bench.browsers().await, []);
}

#[tokio::test]
async fn a_repeated_proposal_has_the_same_answer_and_is_performed_once() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/late-saved\"").await;
    let action = r#"
        kind = "click"
        target = { testid = "target" }
        [[actions.post]]
        kind = "text_equals"
        target = { testid = "status" }
        value = "saved"
        "#;
    let first = session.propose_as("once", action).await.unwrap();
    let second = session.propose_as("once", action).await.unwrap();
    assert!(matches!(first.outcome, Some(Outcome::Success(_))), "{first:?}");
    assert_eq!(first, second);
    assert_eq!(bench.site.hits("/hit/target"), 1);
    let other = session.propose_as("once", "kind = \"reload\"").await.unwrap_err();
    assert_eq!(other.code(), tonic::Code::AlreadyExists, "{other:?}");
    session.close().await;
    // The browser is gone by now, and the run has ended.
    assert_eq!(session.propose_as("once", action).await.unwrap(), first);
    let other = session.propose_as("once", "kind = \"reload\"").await.unwrap_err();
    assert_eq!(other.code(), tonic::Code::AlreadyExists, "{other:?}");
    assert_eq!(bench.site.hits("/hit/target"), 1);
}

#[tokio::test]
async fn a_failure_leaves_the_session_open_and_says_everything() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/plain\"").await;
    let missing = "kind = \"click\"\ntimeout_ms = 300\ntarget = { testid = \"none\" }";
    let error = session.fails(missing).await;
    let events = bench.export(&session.run_id).await;
    let stage = v1::ActionStage::Precondition;
    bench.prove(&session.run_id, &events, error, "TARGET_NOT_FOUND", stage).await;
    session.succeeds("kind = \"click\"\ntarget = { testid = \"target\" }").await;
    bench.site.until_hits("/hit/target", 1).await;
    session.close().await;
    let closed = session.propose(missing).await.unwrap_err();
    assert_eq!(closed.code(), tonic::Code::FailedPrecondition, "{closed:?}");
}

#[tokio::test]
async fn an_open_session_is_listed_and_closed_when_nobody_uses_it() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "idle_timeout_ms = 10000").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/plain\"").await;
    let mut listed = bench.browsers().await;
    assert_eq!(listed.len(), 1);
    // A page that does not answer soon is listed without what it shows.
    while listed[0].title.is_empty() {
        listed = bench.browsers().await;
        assert_eq!(listed.len(), 1);
    }
    assert_eq!((listed[0].run_id.as_str(), listed[0].interactive), (session.run_id.as_str(), true));
    assert_eq!(listed[0].title, "Plain page");
    assert_eq!(listed[0].url, bench.site.url("/plain"));
    assert!(listed[0].process_id > 0 && listed[0].opened_at_ms > 0);
    let ended = bench.ended(session.run_id.clone()).await.expect_success();
    let idle = ended.events.iter().any(
        |event| matches!(&event.body, Some(v1::event::Body::BrowserCloseRequested(closing)) if closing.idle),
    );
    assert!(idle, "the session was closed because nobody used it");
    assert_eq!(bench.browsers().await, []);
}

#[tokio::test]
async fn a_storage_state_carries_a_sign_in_into_another_session_and_goes_when_deleted() {
    let bench = Bench::start().await;
    let browser = "[browser]\nstorage_state = \"account\"";
    let session = Session::open(&bench, browser).await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/sign-in\"").await;
    session.succeeds("kind = \"fill\"\ntarget = { label = \"User\" }\nvalue = \"ana\"").await;
    session.succeeds("kind = \"fill\"\ntarget = { label = \"Password\" }\nvalue = \"correct horse\"").await;
    let sign_in = r#"
        kind = "submit"
        target = { testid = "sign-in" }
        [[actions.post]]
        kind = "title_equals"
        value = "Account"
        "#;
    session.succeeds(sign_in).await;
    session.close().await;

    let states = bench.executor.clone().list_storage_states(v1::ListStorageStatesRequest::default()).await;
    let states = states.unwrap().into_inner().states;
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["account"]);

    let account = "kind = \"navigate\"\nurl = \"http://{site}/account\"";
    let again = Session::open(&bench, browser).await;
    assert_eq!(again.succeeds(account).await.state_after.unwrap().title, "Account");
    again.close().await;

    let request = v1::DeleteStorageStateRequest { name: "account".to_owned() };
    assert!(bench.executor.clone().delete_storage_state(request).await.unwrap().into_inner().deleted);
    let stranger = Session::open(&bench, browser).await;
    assert_eq!(stranger.succeeds(account).await.state_after.unwrap().title, "Log in again");
    stranger.close().await;
}

#[tokio::test]
async fn a_script_beyond_the_limit_waits_for_a_browser_and_then_runs() {
    let bench = Bench::start_with(|config, _| config.browser.max_open = 2).await;
    let first = Session::open(&bench, "").await;
    let second = Session::open(&bench, "").await;
    let script = bench.script(
        "name = \"third\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{site}/plain\"",
    );
    let run_id = bench.start_until_message(script, "waits for a browser: 2 are open").await;
    let listed = bench.browsers().await;
    assert_eq!(listed.len(), 2);
    assert_eq!(bench.site.hits("/plain"), 0);
    first.close().await;
    bench.ended(run_id).await.expect_success();
    assert_eq!(bench.site.hits("/plain"), 1);
    second.close().await;
}

#[tokio::test]
async fn a_data_folder_that_is_named_from_here_has_browsers_too() {
    let up: String = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect();
    let bench = Bench::start_with(move |config, folder| {
        config.data_dir = std::path::Path::new(&up).join(folder.join("data").strip_prefix("/").unwrap());
        assert!(config.data_dir.is_relative());
    })
    .await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/\"").await;
    session.close().await;
}

#[tokio::test]
async fn a_script_is_not_forked_once_its_browser_was_open_and_the_event_before_is_named() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/plain\"").await;
    let log = bench.export(&session.run_id).await;
    let opened = log.iter().position(|event| matches!(event.body, Some(Body::BrowserOpened(_)))).unwrap();
    // What the host said of its opening was decided at once; the decision before it gave the opening to the host.
    let leased = log[..opened].iter().rfind(|event| matches!(event.body, Some(Body::TaskLeased(_))));
    let leased = leased.unwrap().seq;
    let fork = |at_seq: Option<u64>| {
        let run_id = session.run_id.clone();
        let mut runs = bench.runs.clone();
        async move { runs.fork_run(v1::ForkRunRequest { run_id, at_seq, ..Default::default() }).await }
    };
    let refused = fork(Some(log.last().unwrap().seq)).await.unwrap_err();
    let info = refused.get_error_details().error_info().cloned().unwrap();
    assert_eq!(info.reason, "FORK_NOT_POSSIBLE", "{refused:?}");
    assert_eq!(info.metadata.get("seq_before"), Some(&leased.to_string()), "{info:?}");
    assert!(refused.message().contains("in its browser alone"), "{}", refused.message());
    // There it may be, and has a browser of its own.
    let forked = fork(Some(leased)).await.unwrap().into_inner();
    bench.until(&forked.run_id, |body| matches!(body, Body::BrowserOpened(opened) if !opened.restored)).await;
    let mut runs: Vec<_> = bench.browsers().await.into_iter().map(|browser| browser.run_id).collect();
    let mut both = [session.run_id.clone(), forked.run_id];
    runs.sort();
    both.sort();
    assert_eq!(runs, both);
    session.close().await;
}
