//! A run that waits for a person does not keep its browser open for ever: it is closed with its state kept, and opened
//! again when the run goes on.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::propose_response::Outcome;

use crate::bench::Bench;
use crate::session::Session;

#[tokio::test]
async fn the_browser_of_a_paused_run_is_put_away_and_is_signed_in_on_its_page_when_it_goes_on() {
    let bench = Bench::start_with(|config, _| config.browser.max_open = 1).await;
    let session = Session::open(&bench, "idle_timeout_ms = 10000").await;
    let run_id = session.run_id.clone();
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
    // The page that the form led to would stay away: nobody has said that the form may be sent twice.
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/account\"\nrepeatable = true").await;

    let request =
        v1::PauseRunRequest { run_id: run_id.clone(), request_id: "pause".to_owned(), ..Default::default() };
    bench.runs.clone().pause_run(request).await.unwrap();
    let looks = "kind = \"assert\"\n[[actions.conditions]]\nkind = \"title_equals\"\nvalue = \"Account\"";
    let looked = session.propose(looks);
    let away = async {
        bench.until(&run_id, |body| matches!(body, Body::BrowserClosed(closed) if closed.kept)).await;
        while !bench.browsers().await.is_empty() {
            tokio::task::yield_now().await;
        }
        // Another run may have a browser meanwhile.
        let other = Session::open(&bench, "").await;
        other.close().await;
        let kept = bench.data_dir().join("browser/kept").join(format!("{run_id}.state"));
        assert!(kept.exists(), "the state is kept for the run");
        let states =
            bench.executor.clone().list_storage_states(v1::ListStorageStatesRequest::default()).await;
        assert_eq!(states.unwrap().into_inner().states, [], "and for no other one");
        let request = v1::ResumeRunRequest {
            run_id: run_id.clone(),
            request_id: "resume".to_owned(),
            ..Default::default()
        };
        bench.runs.clone().resume_run(request).await.unwrap();
        kept
    };
    let (looked, kept) = tokio::join!(looked, away);
    let outcome = looked.unwrap().outcome;
    assert!(matches!(outcome, Some(Outcome::Success(_))), "it is on its page, and signed in: {outcome:?}");
    assert!(!kept.exists(), "it is in the browser again");
    let events = bench.export(&run_id).await;
    let opened = events.iter().filter_map(|event| match event.body.as_ref()? {
        Body::BrowserOpened(opened) => Some((opened.restored, opened.worker.clone())),
        _ => None,
    });
    let opened: Vec<(bool, String)> = opened.collect();
    assert_eq!(opened.iter().map(|(restored, _)| *restored).collect::<Vec<_>>(), [false, true]);
    assert_eq!(opened[0].1, opened[1].1);
    session.close().await;
}

#[tokio::test]
async fn what_was_kept_goes_with_its_run() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "idle_timeout_ms = 10000").await;
    let run_id = session.run_id.clone();
    let request =
        v1::PauseRunRequest { run_id: run_id.clone(), request_id: "pause".to_owned(), ..Default::default() };
    bench.runs.clone().pause_run(request).await.unwrap();
    // Nobody has used it for as long: it is over as well.
    let ended = bench.ended(run_id.clone()).await.expect_success();
    let put_away =
        |event: &v1::Event| matches!(&event.body, Some(Body::BrowserClosed(closed)) if closed.kept);
    assert!(ended.events.iter().any(put_away));
    let kept = bench.data_dir().join("browser/kept").join(format!("{run_id}.state"));
    while kept.exists() || !bench.browsers().await.is_empty() {
        tokio::task::yield_now().await;
    }
}
