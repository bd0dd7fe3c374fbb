//! Sessions: transitions between specs, what a conversation remembers, and whose turn it is.

use std::collections::BTreeSet;

use capataz_contracts::v1::{
    self, CallReason, RunOutcome, TransitionBand as Band, TransitionVerdict as Verdict, event::Body,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::support::asks::{
    AskExt, Does, Hands, SpecAgents, answer_to, counted, request_of, text, transition, with_specs,
};
use crate::support::{Harness, code_of, json as payload, one_wave, paths_of};

const MINUTE: i64 = 60_000;

/// Agents that do what the text says: `SPEC CONFIDENCE` suggests, `SPEC CONFIDENCE!` goes over by itself. Other texts are
/// echoed, and so is an order to go where the text has just gone.
async fn obedient(harness: &Harness, specs: &[&str]) -> SpecAgents {
    SpecAgents::start(harness, specs, |request| {
        let said = request["text"].as_str().unwrap();
        let echo = answer_to(request, &format!("{}: {said}", request["spec"].as_str().unwrap()));
        let order = said.split_once(' ').filter(|(to, _)| request["spec"] != *to);
        let confidence = order.map(|(_, confidence)| confidence.trim_end_matches('!').parse::<f64>());
        Does::Says(match (order, confidence) {
            (Some((to, _)), Some(Ok(confidence))) => transition(echo, to, confidence, said.ends_with('!')),
            _ => echo,
        })
    })
    .await
}

async fn two_specs() -> (Harness, SpecAgents, Hands) {
    let hands = Hands::new();
    let clock = hands.clock();
    let harness = Harness::start_with(|config| {
        with_specs(&["home", "away"])(config);
        config.clock = clock;
    })
    .await;
    let agents = obedient(&harness, &["home", "away"]).await;
    (harness, agents, hands)
}

// S001-TR-10
#[tokio::test]
async fn a_suggestion_is_shown_by_its_band_and_below_0_6_not_at_all() {
    let (harness, _agents, _) = two_specs().await;
    let rows = [
        ("away 0.95", Band::Prominent, Verdict::Suggested),
        ("away 0.8", Band::Subtle, Verdict::Suggested),
        ("away 0.6", Band::Subtle, Verdict::Suggested),
        ("away 0.59", Band::Ignored, Verdict::Ignored),
        ("home 0.95", Band::Unspecified, Verdict::Unspecified),
    ];
    for (index, (said, band, verdict)) in rows.into_iter().enumerate() {
        let session = format!("s{index}");
        let answered = harness.ask(text(said).within(&session)).await;
        assert_eq!(answered.text(), format!("home: {said}"), "the text stays with its spec");
        let considered = answered.ask.transition.clone().unwrap_or_default();
        assert_eq!((considered.band(), considered.verdict()), (band, verdict), "{said}: {considered:?}");
        let open = harness.session(&session).await.suggestions;
        assert_eq!(open.len(), usize::from(verdict == Verdict::Suggested), "{said}");
        let accepted = harness.accept(&session, &answered.ask.request_id).await;
        match verdict {
            Verdict::Suggested => assert_eq!(accepted.unwrap().to, "away", "{said}"),
            _ => assert_eq!(code_of(&accepted.unwrap_err()), "TRANSITION_NOT_FOUND", "{said}"),
        }
    }
}

// S001-TR-01
#[tokio::test]
async fn an_accepted_suggestion_moves_the_session_for_the_next_message_and_twice_is_once() {
    let (harness, _agents, _) = two_specs().await;
    let asked = harness.ask(text("away 0.75").within("s")).await;
    assert_eq!(
        harness.current_spec("s").await,
        None,
        "the default holds nothing, and nobody has accepted yet"
    );
    let accepted = harness.accept("s", &asked.ask.request_id).await.unwrap();
    assert_eq!((accepted.from.as_str(), accepted.to.as_str()), ("home", "away"));
    let again = harness.accept("s", &asked.ask.request_id).await.unwrap();
    assert_eq!(again, accepted);
    let next = harness.ask(text("hello").within("s")).await;
    assert_eq!(next.text(), "away: hello");
    assert_eq!(next.reasons(), [CallReason::Continued]);
    let events = harness.session_events("s").await;
    let moved = |event: &&v1::Event| matches!(event.body, Some(Body::SessionTransitionAccepted(_)));
    let moved: Vec<u64> = events.iter().filter(moved).map(|event| event.seq).collect();
    assert_eq!(moved, [accepted.seq]);
    let refusal = harness.accept("s", &"r".repeat(129)).await.unwrap_err();
    assert_eq!(code_of(&refusal), "VALIDATION_ERROR");
    let refusal = harness.accept("nobody-was-here", "r").await.unwrap_err();
    assert_eq!(code_of(&refusal), "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn what_is_accepted_while_the_next_message_is_at_work_is_not_taken_back_by_its_end() {
    let harness = Harness::start_with(with_specs(&["home", "away"])).await;
    let mut worker = harness.worker("w1", &["home", "away"]).await;
    let first = harness.begin(text("first").within("s")).await;
    let assigned = worker.assignment().await;
    let answer = transition(answer_to(&request_of(&assigned), "one"), "away", 0.7, false);
    worker.complete(&assigned.lease, payload(answer)).await;
    let first = harness.ended(&first).await;
    let second = harness.begin(text("second").within("s")).await;
    let assigned = worker.assignment().await;
    harness.accept("s", &first.ask.request_id).await.unwrap();
    worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "two"))).await;
    assert_eq!(harness.ended(&second).await.specs(), ["home"]);
    assert_eq!(harness.current_spec("s").await.as_deref(), Some("away"));
    let third = harness.begin(text("third").within("s")).await;
    let assigned = worker.assignment().await;
    assert_eq!(request_of(&assigned)["spec"], "away");
    worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "three"))).await;
    assert_eq!(harness.ended(&third).await.reasons(), [CallReason::Continued]);
}

// S001-TR-12
#[tokio::test]
async fn a_session_shows_the_transitions_of_the_last_60_s_and_no_older_ones() {
    let (harness, _agents, hands) = two_specs().await;
    harness.ask(text("away 0.9!").within("s")).await;
    let shown = || async { harness.session("s").await.context.unwrap().transitions.len() };
    hands.advance(MINUTE - 1);
    assert_eq!(shown().await, 1);
    hands.advance(1);
    assert_eq!(shown().await, 0);
}

// S001-TR-03
#[tokio::test]
async fn an_automatic_transition_answers_in_the_same_run_and_moves_the_session() {
    let (harness, agents, hands) = two_specs().await;
    let asked = harness.ask(text("away 0.9!").within("s")).await;
    assert_eq!((asked.outcome, asked.text().as_str()), (RunOutcome::Succeeded, "away: away 0.9!"));
    assert_eq!(asked.specs(), ["home", "away"]);
    assert_eq!(asked.reasons(), [CallReason::Routed, CallReason::Transition]);
    let requests = agents.requests();
    assert_eq!(requests[0]["text"], requests[1]["text"], "the same text");
    assert_eq!(requests[0]["id"], requests[1]["id"], "of the same request");
    let context = harness.session("s").await.context.unwrap();
    assert_eq!(context.current_spec.as_deref(), Some("away"));
    let taken = v1::SessionTransition {
        from: "home".to_owned(),
        to: "away".to_owned(),
        at_ms: hands.now(),
        automatic: true,
    };
    assert_eq!(context.transitions, [taken]);
    assert_eq!(context.message_count, 2, "the text, and the answer that counts");
}

#[tokio::test]
async fn an_automatic_transition_at_0_8_is_a_suggestion_with_a_warning() {
    let (harness, _agents, _) = two_specs().await;
    let asked = harness.ask(text("away 0.8!").within("s")).await;
    assert_eq!(asked.specs(), ["home"]);
    let considered = asked.transition();
    assert_eq!((considered.band(), considered.verdict()), (Band::Subtle, Verdict::Suggested));
    assert!(considered.automatic && considered.note.contains("0.8"), "{considered:?}");
    assert_eq!(harness.accept("s", &asked.ask.request_id).await.unwrap().to, "away");
}

/// What comes of `said` so long after a session went over from `home` to `away` by itself.
async fn after_a_transition(wait: i64, said: &str, to: Option<&str>) -> (Verdict, Vec<String>, String) {
    let (harness, _agents, hands) = two_specs().await;
    let asked = harness.ask(text("away 0.9!").within("s")).await;
    assert_eq!(asked.specs(), ["home", "away"]);
    hands.advance(wait);
    let ask = v1::Ask { spec: to.map(str::to_owned), ..text(said).within("s") };
    let asked = harness.ask(ask).await;
    let session = harness.current_spec("s").await.unwrap();
    let specs = asked.specs().into_iter().map(str::to_owned).collect();
    let verdict = asked.ask.transition.as_ref().map_or(Verdict::Taken, v1::AskTransition::verdict);
    if verdict == Verdict::Suppressed {
        assert!(asked.transition().note.contains("60 s"), "{asked:?}");
        let refusal = harness.accept("s", &asked.ask.request_id).await.unwrap_err();
        assert_eq!(code_of(&refusal), "TRANSITION_NOT_FOUND", "what was held back cannot be accepted");
    }
    (verdict, specs, session)
}

// S001-TR-14
#[tokio::test]
async fn within_60_s_nobody_is_handed_back() {
    for said in ["home 0.9!", "home 0.9", "home 0.7"] {
        let (verdict, specs, session) = after_a_transition(MINUTE - 1, said, None).await;
        assert_eq!((verdict, session.as_str()), (Verdict::Suppressed, "away"), "{said}");
        assert_eq!(specs, ["away"], "{said}");
    }
    let (_, specs, session) = after_a_transition(MINUTE, "home 0.9!", None).await;
    assert_eq!((specs, session.as_str()), (vec!["away".to_owned(), "home".to_owned()], "home"));
    let (verdict, ..) = after_a_transition(MINUTE, "home 0.9", None).await;
    assert_eq!(verdict, Verdict::Suggested);
}

// S001-TR-13
#[tokio::test]
async fn within_60_s_nobody_goes_the_same_way_again() {
    for said in ["away 0.9!", "away 0.7"] {
        let (verdict, specs, session) = after_a_transition(MINUTE - 1, said, Some("home")).await;
        assert_eq!((verdict, session.as_str()), (Verdict::Suppressed, "home"), "{said}");
        assert_eq!(specs, ["home"], "an explicit choice is not blocked");
    }
    let (_, specs, session) = after_a_transition(MINUTE, "away 0.9!", Some("home")).await;
    assert_eq!((specs, session.as_str()), (vec!["home".to_owned(), "away".to_owned()], "away"));
}

#[tokio::test]
async fn an_accepted_transition_counts_for_the_60_s_too() {
    let (harness, _agents, hands) = two_specs().await;
    let asked = harness.ask(text("away 0.7").within("s")).await;
    hands.advance(MINUTE);
    harness.accept("s", &asked.ask.request_id).await.unwrap();
    hands.advance(MINUTE - 1);
    let held = harness.ask(text("home 0.9!").within("s")).await;
    assert_eq!((held.specs(), held.transition().verdict()), (vec!["away"], Verdict::Suppressed));
    hands.advance(1);
    let free = harness.ask(text("home 0.9!").within("s")).await;
    assert_eq!(free.specs(), ["away", "home"]);
}

#[tokio::test]
async fn at_most_five_automatic_transitions_follow_one_message() {
    let specs = ["s0", "s1", "s2", "s3", "s4", "s5", "s6"];
    let harness = Harness::start_with(with_specs(&specs)).await;
    let _agents = SpecAgents::start(&harness, &specs, |request| {
        let number: usize = request["spec"].as_str().unwrap()[1..].parse().unwrap();
        Does::Says(transition(answer_to(request, "on"), &format!("s{}", number + 1), 0.9, true))
    })
    .await;
    let asked = harness.ask(text("hello").within("s")).await;
    assert_eq!(asked.specs(), specs[..6], "{asked:?}");
    assert_eq!(asked.outcome, RunOutcome::Succeeded);
    assert_eq!(asked.transition().verdict(), Verdict::Suppressed);
    assert!(asked.transition().note.contains("5 automatic"), "{asked:?}");
    assert_eq!(harness.current_spec("s").await.as_deref(), Some("s5"));
    // The next message of the user begins anew.
    let asked = harness.ask(text("hello").within("s")).await;
    assert_eq!(asked.specs(), ["s5", "s6"]);
}

// S001-RQ-18, S001-RQ-20, S001-RS-17
#[tokio::test]
async fn what_an_answer_leaves_the_next_request_finds() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let agents = SpecAgents::start(&harness, &["home"], |request| {
        let mut answer = answer_to(request, "noted");
        answer["context_update"] = match request["text"].as_str() {
            Some("one") => json!({ "emotional_state": "calm", "custom": { "topic": "sea", "stage": 1 } }),
            Some("two") => json!({ "engagement_level": "high", "custom": { "stage": 2 } }),
            _ => Value::Null,
        };
        Does::Says(answer)
    })
    .await;
    harness.ask(text("one").within("s")).await;
    assert_eq!(agents.last_request()["user"], Value::Null);
    harness.ask(text("two").within("s")).await;
    let request = agents.last_request();
    assert_eq!(request["user"], json!({ "emotional_state": "calm" }));
    assert_eq!(request["metadata"]["custom"], json!({ "topic": "sea", "stage": 1 }));
    assert_eq!(request["metadata"]["session_id"], "s");
    harness.ask(text("three").within("s")).await;
    let request = agents.last_request();
    assert_eq!(request["user"], json!({ "emotional_state": "calm", "engagement_level": "high" }));
    assert_eq!(request["metadata"]["custom"], json!({ "topic": "sea", "stage": 2 }));
    let conversation = &request["conversation"];
    assert_eq!(conversation["previous_spec"], "home");
    assert_eq!(conversation["message_count"], 4);
    let said: Vec<&str> = texts(conversation);
    assert_eq!(said, ["one", "noted", "two", "noted"]);
    // Another session, and an ask without any, know nothing of it.
    harness.ask(text("one").within("t")).await;
    let request = agents.last_request();
    assert_eq!((&request["user"], &request["conversation"]["message_count"]), (&Value::Null, &json!(0)));
    harness.ask(text("one")).await;
    let request = agents.last_request();
    assert_eq!((&request["user"], &request["conversation"]), (&Value::Null, &Value::Null));
    assert_eq!(harness.session("t").await.context.unwrap().message_count, 2);
}

fn texts(conversation: &Value) -> Vec<&str> {
    let history = conversation["history"].as_array().unwrap();
    history.iter().map(|message| message["text"].as_str().unwrap()).collect()
}

// S001-RQ-15, S001-RQ-16
#[tokio::test]
async fn a_request_shows_the_last_20_messages() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let agents = SpecAgents::echoing(&harness, &["home"]).await;
    for number in 0..12 {
        harness.ask(text(&number.to_string()).within("s")).await;
    }
    harness.ask(text("last").within("s")).await;
    let request = agents.last_request();
    assert_eq!(request["conversation"]["message_count"], 24);
    let expected: Vec<String> =
        (2..12).flat_map(|number| [number.to_string(), format!("TEXT: {number}")]).collect();
    assert_eq!(texts(&request["conversation"]), expected);
}

#[tokio::test]
async fn an_ask_begins_only_after_the_one_before_it_in_its_session_has_ended() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let mut worker = harness.worker("w1", &["home"]).await;
    let first = harness.begin(text("first").within("s")).await;
    let held = worker.assignment().await;
    let second = harness.begin(text("second").within("s")).await;
    // An ask of another session passes by the one that waits.
    let other = harness.begin(text("other").within("t")).await;
    let assigned = worker.assignment().await;
    assert_eq!(request_of(&assigned)["text"], "other");
    worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "to another"))).await;
    harness.ended(&other).await;
    let waiting = harness.export(&second).await;
    assert_eq!(waiting.len(), 1, "it is accepted and has not begun: {waiting:?}");
    worker.complete(&held.lease, payload(answer_to(&request_of(&held), "to the first"))).await;
    let assigned = worker.assignment().await;
    let request = request_of(&assigned);
    assert_eq!(request["text"], "second");
    assert_eq!(texts(&request["conversation"]), ["first", "to the first"]);
    worker.complete(&assigned.lease, payload(answer_to(&request, "to the second"))).await;
    let (first, second) = (harness.ended(&first).await, harness.ended(&second).await);
    assert_eq!((first.text().as_str(), second.text().as_str()), ("to the first", "to the second"));
}

#[tokio::test]
async fn an_ask_that_is_cancelled_gives_its_turn_to_the_next() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let mut worker = harness.worker("w1", &["home"]).await;
    let working = harness.begin(text("first").within("s")).await;
    worker.assignment().await;
    let waiting = harness.begin(text("second").within("s")).await;
    let last = harness.begin(text("third").within("s")).await;
    for run_id in [waiting.clone(), working.clone()] {
        let request =
            v1::CancelRunRequest { run_id, request_id: "c".to_owned(), force: true, ..Default::default() };
        harness.runs.clone().cancel_run(request).await.unwrap();
    }
    let assigned = worker.assignment().await;
    let request = request_of(&assigned);
    assert_eq!(request["text"], "third");
    assert_eq!(request["conversation"]["message_count"], 0, "nobody has answered yet");
    worker.complete(&assigned.lease, payload(answer_to(&request, "here"))).await;
    assert_eq!(harness.ended(&last).await.outcome, RunOutcome::Succeeded);
    for run in [waiting, working] {
        assert_eq!(harness.ended(&run).await.outcome, RunOutcome::Cancelled);
    }
    assert_eq!(harness.session("s").await.context.unwrap().message_count, 2);
}

#[tokio::test]
async fn many_clients_of_one_session_have_their_turns_one_by_one() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let agents = SpecAgents::echoing(&harness, &["home"]).await;
    let address = format!("http://{}", harness.daemon.address());
    let other = tonic::transport::Channel::from_shared(address).unwrap().connect().await.unwrap();
    let other = v1::run_service_client::RunServiceClient::new(other);
    let clients = [harness.runs.clone(), other];
    let asks = (0..40).map(|number| {
        let mut client = clients[number % 2].clone();
        let ask = text(&format!("m{number}")).within("s");
        let start = Some(v1::StartRunRequest::of_ask(ask));
        async move {
            let request = v1::ExecuteRunRequest { start, timeout_ms: Some(60_000) };
            client.execute_run(request).await.unwrap().into_inner()
        }
    });
    let answers = futures_util::future::join_all(asks).await;
    for answered in &answers {
        assert_eq!(answered.result.as_ref().unwrap().outcome(), RunOutcome::Succeeded);
    }
    let counts: Vec<u64> = agents
        .requests()
        .iter()
        .map(|request| request["conversation"]["message_count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, (0..40).map(|turn| turn * 2).collect::<Vec<_>>(), "each sees all those before it");
    let turns: BTreeSet<String> = harness
        .session_events("s")
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            Some(Body::SessionTurn(turn)) => Some(turn.run_id),
            _ => None,
        })
        .collect();
    assert_eq!(turns, answers.into_iter().map(|answered| answered.run_id).collect());
}

#[tokio::test]
async fn a_session_and_its_asks_are_one_stream() {
    let (harness, _agents, _) = two_specs().await;
    let filter = v1::EventFilter { session: Some("s".to_owned()), ..Default::default() };
    let request = || v1::SubscribeRequest { filter: Some(filter.clone()), ..Default::default() };
    let subscribe = || async { harness.events.clone().subscribe(request()).await.unwrap().into_inner() };
    let mut live = subscribe().await;
    let first = harness.ask(text("away 0.7").within("s")).await;
    harness.ask(text("elsewhere").within("t")).await;
    harness.ask(text("nowhere")).await;
    let mut later = subscribe().await;
    harness.accept("s", &first.ask.request_id).await.unwrap();
    let second = harness.ask(text("hello").within("s")).await;
    let stream_id = harness.session("s").await.stream_id;
    let mut expected = BTreeSet::new();
    for run in [&first.run, &second.run] {
        expected.extend(harness.export(run).await.into_iter().map(|event| (run.clone(), event.seq)));
    }
    let of_session = harness.session_events("s").await;
    assert_eq!(of_session.len(), 4, "opened, a turn, accepted, a turn: {of_session:?}");
    expected.extend(of_session.iter().map(|event| (stream_id.clone(), event.seq)));
    for stream in [&mut live, &mut later] {
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            let response = stream.message().await.unwrap().unwrap();
            heard.extend(response.events.into_iter().map(|delivered| {
                let seq = delivered.decode_event().unwrap().seq;
                (delivered.run_id, seq)
            }));
        }
        assert!(counted(&heard).values().all(|count| *count == 1), "{heard:?}");
        assert_eq!(heard.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[tokio::test]
async fn a_session_is_no_run() {
    let (harness, _agents, _) = two_specs().await;
    let asked = harness.ask(text("hello").within("s")).await;
    harness.ask(text("hello")).await;
    let mut runs = harness.runs.clone();
    let list = |kind: Option<v1::RunKind>| v1::ListRunsRequest {
        kind: kind.map(|kind| kind as i32),
        ..Default::default()
    };
    for (kind, count) in [
        (None, 2),
        (Some(v1::RunKind::Ask), 2),
        (Some(v1::RunKind::Plan), 0),
        (Some(v1::RunKind::Session), 0),
    ] {
        let listed = runs.list_runs(list(kind)).await.unwrap().into_inner().runs;
        assert_eq!(listed.len(), count, "{kind:?}: {listed:?}");
        assert!(listed.iter().all(|run| run.kind() == v1::RunKind::Ask), "{kind:?}");
    }
    assert_eq!(harness.get(&asked.run).await.kind(), v1::RunKind::Ask);
    let run_id = harness.session("s").await.stream_id;
    let request_id = "r".to_owned();
    let refusals = [
        runs.get_run(v1::GetRunRequest { run_id: run_id.clone(), ..Default::default() }).await.map(drop),
        runs.wait_run(v1::WaitRunRequest { run_id: run_id.clone(), timeout_ms: Some(1) }).await.map(drop),
        runs.export_run(v1::ExportRunRequest { run_id: run_id.clone() }).await.map(drop),
        runs.cancel_run(v1::CancelRunRequest { run_id, request_id, ..Default::default() }).await.map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "RUN_NOT_FOUND"));
    }
}

#[tokio::test]
async fn the_runs_of_a_session_are_listed_by_its_name() {
    let (harness, _agents, _) = two_specs().await;
    let _worker = harness.worker("w", &["steady"]).await;
    let first = harness.ask(text("hello").within("s")).await.run;
    let of_other = harness.ask(text("hello").within("s2")).await.run;
    let of_none = harness.ask(text("hello")).await.run;
    let second = harness.ask(text("again").within("s")).await.run;
    let mut plan = one_wave(&["steady"]);
    plan.session = Some("s".to_owned());
    let planned = harness.start_run(plan).await;
    let listed = async |request: v1::ListRunsRequest| {
        let (mut runs, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let request = v1::ListRunsRequest { page_size: 1, page_token, ..request.clone() };
            let page = harness.runs.clone().list_runs(request).await.unwrap().into_inner();
            assert!(page.runs.len() <= 1, "{page:?}");
            runs.extend(page.runs.into_iter().map(|run| run.run_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return runs;
            }
        }
    };
    let of = |session: &str| v1::ListRunsRequest { session: Some(session.to_owned()), ..Default::default() };
    let set = |runs: &[&String]| runs.iter().map(|run| (*run).clone()).collect::<BTreeSet<String>>();
    assert_eq!(listed(of("s")).await, set(&[&first, &second, &planned]));
    assert_eq!(listed(of("s2")).await, set(&[&of_other]));
    assert_eq!(listed(of("S")).await, set(&[]));
    let everything = set(&[&first, &of_other, &of_none, &second, &planned]);
    assert_eq!(listed(v1::ListRunsRequest::default()).await, everything);
    // It is one condition among the others.
    let asks = v1::ListRunsRequest { kind: Some(v1::RunKind::Ask as i32), ..of("s") };
    assert_eq!(listed(asks).await, set(&[&first, &second]));
    for wrong in ["", "two words"] {
        let refused = harness.runs.clone().list_runs(of(wrong)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{wrong:?}");
        assert_eq!(paths_of(&refused), ["session"], "{wrong:?}");
    }
}

#[tokio::test]
async fn sessions_are_listed_a_page_at_a_time() {
    let (harness, _agents, hands) = two_specs().await;
    let names = ["a", "b", "c"];
    for name in names {
        harness.ask(text("hello").within(name)).await;
    }
    let mut seen = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListSessionsRequest { page_size: 2, page_token };
        let page = harness.sessions().list_sessions(request).await.unwrap().into_inner();
        assert!(page.sessions.len() <= 2);
        for session in page.sessions {
            assert_eq!((session.created_at_ms, session.seq), (hands.now(), 2), "{session:?}");
            assert!(seen.insert(session.session), "nothing is listed twice");
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, names.map(str::to_owned).into());
    let mut sessions = harness.sessions();
    let get = |session: &str| v1::GetSessionRequest { session: session.to_owned() };
    let refusal = sessions.get_session(get("nobody")).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "SESSION_NOT_FOUND"));
    let refusal = sessions.get_session(get("no body")).await.unwrap_err();
    assert_eq!(paths_of(&refusal), ["session"]);
    let request = v1::ListSessionsRequest { page_token: "x".to_owned(), ..Default::default() };
    assert_eq!(paths_of(&sessions.list_sessions(request).await.unwrap_err()), ["page_token"]);
    let filter = v1::EventFilter { session: Some("no body".to_owned()), ..Default::default() };
    let request = v1::SubscribeRequest { filter: Some(filter), ..Default::default() };
    assert_eq!(paths_of(&harness.events.clone().subscribe(request).await.unwrap_err()), ["filter.session"]);
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart() {
    let specs = || with_specs(&["home", "away"]);
    let harness = Harness::start_with(specs()).await;
    let agents = obedient(&harness, &["home", "away"]).await;
    let asked = harness.ask(text("away 0.7").within("s")).await;
    let before = harness.session("s").await;
    drop(agents);
    let harness = Harness::start_in(harness.stop().await, specs()).await;
    let agents = obedient(&harness, &["home", "away"]).await;
    assert_eq!(harness.session("s").await, before);
    harness.accept("s", &asked.ask.request_id).await.unwrap();
    assert_eq!(harness.ask(text("hello").within("s")).await.text(), "away: hello");
    assert_eq!(texts(&agents.last_request()["conversation"]), ["away 0.7", "home: away 0.7"]);
}
