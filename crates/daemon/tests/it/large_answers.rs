//! Answers that would be larger than the 4 MiB that a client takes where nobody has told it otherwise.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, start_runs_item::Result as Item};

use crate::support::{Harness, code_of, one_wave, paths_of};

#[tokio::test]
async fn a_thousand_starts_with_many_errors_each_are_answered_and_those_that_began_are_told() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["a"]).await;
    let tasks = vec![v1::Task::default(); 80];
    let waves = vec![v1::Wave { tasks, ..v1::Wave::default() }];
    let bad = v1::Plan { name: "bad".to_owned(), waves, ..v1::Plan::default() };
    let mut starts = vec![v1::StartRunRequest::of_plan(bad); 998];
    starts.insert(0, v1::StartRunRequest::of_plan(one_wave(&["a"])));
    starts.push(v1::StartRunRequest::of_plan(one_wave(&["a"])));
    let items = harness.runs.clone().start_runs(v1::StartRunsRequest { runs: starts }).await.unwrap();
    let items = items.into_inner().items;
    assert_eq!(items.len(), 1_000);
    let mut details = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        match item.result.unwrap() {
            Item::Started(run) => {
                assert!(number == 0 || number == 999, "{number}");
                assert!(run.created);
            }
            Item::Error(error) => {
                assert_eq!(error.code, "VALIDATION_ERROR");
                assert!(!error.message.is_empty());
                details.push(error.details);
            }
        }
    }
    assert_eq!(details.len(), 998);
    // The first ones are whole, the last ones say how many errors they leave out.
    let counts = |last: &v1::Error| last.message.starts_with("… and ");
    assert!(details[0].len() > 10, "{:?}", details[0]);
    let cut = details.iter().position(|of_one| of_one.len() == 1).unwrap();
    assert!(details[..cut].iter().all(|of_one| *of_one == details[0]));
    assert!(details[cut..].iter().all(|of_one| of_one.len() == 1 && counts(&of_one[0])));
    assert_eq!(harness.run_count().await, 2);
}

#[tokio::test]
async fn runs_with_large_labels_are_listed_in_pages_that_every_client_takes() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["a"]).await;
    let labels: BTreeMap<String, String> =
        (0..32).map(|number| (format!("{number:063}"), "x".repeat(256))).collect();
    let start = v1::StartRunRequest { labels, ..v1::StartRunRequest::of_plan(one_wave(&["a"])) };
    let mut started = BTreeSet::new();
    // One request has room for about 400 of them.
    for _ in 0..2 {
        let request = v1::StartRunsRequest { runs: vec![start.clone(); 225] };
        let items = harness.runs.clone().start_runs(request).await.unwrap().into_inner().items;
        for item in items {
            match item.result.unwrap() {
                Item::Started(run) => assert!(started.insert(run.run_id)),
                Item::Error(error) => panic!("{error:?}"),
            }
        }
    }
    let (mut listed, mut pages) = (BTreeSet::new(), 0);
    let mut request = v1::ListRunsRequest { page_size: 500, ..v1::ListRunsRequest::default() };
    loop {
        let page = harness.runs.clone().list_runs(request.clone()).await.unwrap().into_inner();
        pages += 1;
        for run in page.runs {
            assert!(listed.insert(run.run_id), "nothing is listed twice");
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, started);
    assert_eq!(pages, 2);
}

#[tokio::test]
async fn names_that_nothing_can_have_are_refused_with_their_places_before_they_are_checked() {
    let harness = Harness::start().await;
    let long = "x".repeat(129);
    let request = v1::CheckAgentsRequest {
        agents: vec!["a".to_owned(), long.clone()],
        commands: vec![long],
        resources: vec!["ñ".repeat(128)],
    };
    let refusal = harness.agents.clone().check_agents(request.clone()).await.unwrap_err();
    assert_eq!(code_of(&refusal), "VALIDATION_ERROR");
    assert_eq!(paths_of(&refusal), ["agents[1]", "commands[0]"]);
    let request = v1::CheckAgentsRequest { agents: Vec::new(), commands: Vec::new(), ..request };
    assert_eq!(harness.agents.clone().check_agents(request).await.unwrap().into_inner().invalid, 1);
}
