//! Asks: who answers, and what happens where a spec fails (seed 001; CONTRACTS, contract 2).

use capataz_contracts::v1::{self, CallReason, RunOutcome, event::Body};
use serde_json::{Value, json};

use crate::support::asks::{
    Answered, AskExt, Does, Hands, SpecAgents, answer_to, eventually, failure_of, heard_all, request_of,
    shipped_specs, text, with_specs,
};
use crate::support::{Harness, code_of};

/// The seed's own examples.
const ORIGINALS: &str = "../contracts/tests/fixtures/seed-001";

/// The texts of one example: one of ours, and the seed's.
fn texts(example: &str, ours: &str) -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(ORIGINALS);
    let original = std::fs::read(folder.join(format!("{example}.request.json"))).unwrap();
    let original: Value = serde_json::from_slice(&original).unwrap();
    vec![ours.to_owned(), original["text"].as_str().unwrap().to_owned()]
}

async fn shipped() -> Harness {
    Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await
}

// S001-EX-01, S001-RQ-13
#[tokio::test]
async fn who_tells_what_they_feel_is_listened_to() {
    let harness = shipped().await;
    for said in texts("1-emotional", "Me siento muy perdida últimamente") {
        let answered = harness.ask(text(&said)).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{said}: {answered:?}");
        assert_eq!(answered.specs(), ["whispers-of-the-wave"], "{said}");
        assert_eq!(answered.reasons(), [CallReason::Routed], "{said}");
        let response = answered.response();
        assert_eq!(response["metadata"]["pattern_used"], "emotional_low", "{said}: {response}");
        assert_eq!(response["response"]["format"], "markdown", "{said}");
        for part in ["whisper", "wave"] {
            let part = &response["response"]["structured"][part];
            assert!(part.as_str().is_some_and(|part| !part.is_empty()), "{said}: {response}");
        }
        let routing = answered.ask.routing.as_ref().unwrap();
        assert_eq!(routing.detected_intent, "emotional_support", "{said}");
        let parts = routing.confidence_breakdown.unwrap();
        let sum = parts.keyword + parts.intent + parts.context;
        assert!((sum - routing.confidence).abs() < 1e-9, "{said}: {routing:?}");
        assert!(routing.keywords_matched.iter().all(|word| said.contains(word.as_str())), "{routing:?}");
    }
}

// S001-EX-02, S001-TR-02
#[tokio::test]
async fn who_has_to_decide_is_pointed_to_the_spec_for_it() {
    let harness = shipped().await;
    for said in texts("2-suggested-transition", "Tengo que decidir entre dos caminos") {
        let answered = harness.ask(text(&said).to("whispers-of-the-wave").within("s")).await;
        assert_eq!(answered.specs(), ["whispers-of-the-wave"], "{said}: {answered:?}");
        assert_eq!(answered.reasons(), [CallReason::Explicit], "{said}");
        assert_eq!(answered.response()["metadata"]["pattern_used"], "clarification", "{said}");
        let transition = answered.transition();
        assert_eq!(transition.to, "kiro-adaptive-assistance", "{said}");
        assert_eq!((transition.confidence, transition.automatic), (0.8, false), "{said}");
        // The seed's reason is one of keywords as well, and names the structured approach.
        assert_eq!(
            transition.reason, "The words point to a decision or a plan; a structured approach may help more",
            "{said}"
        );
        assert_eq!(transition.band(), v1::TransitionBand::Subtle, "{said}");
        assert_eq!(transition.verdict(), v1::TransitionVerdict::Suggested, "{said}");
    }
}

// S001-EX-03
#[tokio::test]
async fn a_word_that_is_too_little_for_one_spec_is_answered_by_the_one_that_it_names() {
    let hands = Hands::new();
    let clock = hands.clock();
    let harness = Harness::start_with(|config| {
        config.specs_dir = Some(shipped_specs());
        config.clock = clock;
    })
    .await;
    for said in texts("3-recoverable-error", "Ayúdame") {
        let run = harness.begin(text(&said).to("kiro-adaptive-assistance").within("s")).await;
        hands.pass_delays(&harness, &run).await;
        let answered = harness.ended(&run).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{said}: {answered:?}");
        assert_eq!(answered.specs(), ["kiro-adaptive-assistance", "whispers-of-the-wave"], "{said}");
        assert_eq!(answered.codes(), ["INSUFFICIENT_CONTEXT", ""], "{said}");
        assert_eq!(answered.attempts(), [3, 1], "{said}: the spec calls it recoverable");
        assert_eq!(answered.reasons(), [CallReason::Explicit, CallReason::Fallback], "{said}");
        assert_eq!(answered.response()["spec"], "whispers-of-the-wave", "{said}");
        let session = harness.current_spec("s").await;
        assert_eq!(session.as_deref(), Some("kiro-adaptive-assistance"), "a fallback does not move it");
    }
}

// S001-EX-04, S001-TR-06
#[tokio::test]
async fn a_question_is_understood_by_what_was_said_before_it() {
    let harness = shipped().await;
    for (index, said) in texts("4-conversation", "¿Y por dónde empiezo?").iter().enumerate() {
        let session = format!("s{index}");
        let first = text("Quiero cambiar de carrera").to("kiro-adaptive-assistance").within(&session);
        assert_eq!(harness.ask(first).await.outcome, RunOutcome::Succeeded);
        let answered = harness.ask(text(said).within(&session)).await;
        assert_eq!(answered.specs(), ["kiro-adaptive-assistance"], "{said}");
        assert_eq!(answered.reasons(), [CallReason::Continued], "{said}");
        let response = answered.response();
        assert_eq!(response["metadata"]["pattern_used"], "action_planning", "{said}: {response}");
        let routing = answered.ask.routing.as_ref().unwrap();
        assert_eq!(routing.detected_intent, "action_planning", "{said}");
        assert!(routing.confidence_breakdown.unwrap().context > 0.0, "{said}: {routing:?}");
        for list in ["sections", "actions"] {
            let list = response["response"]["structured"][list].as_array();
            assert!(list.is_some_and(|list| !list.is_empty()), "{said}: {response}");
        }
        let context = harness.session(&session).await.context.unwrap();
        assert_eq!(context.engagement_level.as_deref(), Some("high"), "{said}");
        let custom: Value = serde_json::from_slice(&context.custom).unwrap();
        assert_eq!(custom["stage"], "planning", "{said}: {custom}");
        assert_eq!(custom["topic"], "Quiero cambiar de carrera", "{said}: {custom}");
        assert_eq!(context.message_count, 4, "{said}");
    }
}

// S001-ER-02, S001-ER-12
#[tokio::test]
async fn a_recoverable_error_is_tried_again_after_1_s_and_2_s_and_then_falls_back() {
    let hands = Hands::new();
    let clock = hands.clock();
    let harness = Harness::start_with(|config| {
        with_specs(&["calm", "busy"])(config);
        config.clock = clock;
    })
    .await;
    let mut worker = harness.worker("w1", &["calm", "busy"]).await;
    let run = harness.begin(text("hello").to("busy")).await;
    for (attempt, delay) in [(1, 1_000), (2, 2_000)] {
        let assigned = worker.assignment().await;
        assert_eq!(assigned.assignment.attempt, attempt);
        let failed = failure_of(&request_of(&assigned), "RATE_LIMIT", true, Some("calm"));
        worker.complete(&assigned.lease, crate::support::json(failed)).await;
        eventually("the attempt has failed", || async {
            harness.export(&run).await.iter().any(|event| match &event.body {
                Some(Body::TaskAttemptFailed(failed)) => {
                    failed.attempt == attempt && failed.retry_at_ms == hands.now() + delay
                }
                _ => false,
            })
        })
        .await;
        // Not a millisecond before its time: the shard has looked at its clock and at its timers.
        hands.advance(delay - 1);
        heard_all(&mut worker).await;
        assert_eq!(retries(&harness, &run).await.len() as u32, attempt - 1);
        hands.advance(1);
    }
    let assigned = worker.assignment().await;
    assert_eq!(assigned.assignment.attempt, 3);
    let failed = failure_of(&request_of(&assigned), "RATE_LIMIT", true, Some("calm"));
    worker.complete(&assigned.lease, crate::support::json(failed)).await;
    let assigned = worker.assignment().await;
    let request = request_of(&assigned);
    assert_eq!((&request["spec"], &request["text"]), (&json!("calm"), &json!("hello")));
    worker.complete(&assigned.lease, crate::support::json(answer_to(&request, "here I am"))).await;
    let answered = harness.ended(&run).await;
    assert_eq!((answered.outcome, answered.text().as_str()), (RunOutcome::Succeeded, "here I am"));
    assert_eq!(answered.specs(), ["busy", "calm"]);
    assert_eq!(answered.attempts(), [3, 1]);
    assert_eq!(answered.reasons(), [CallReason::Explicit, CallReason::Fallback]);
    let start = hands.now() - 3_000;
    assert_eq!(retries(&harness, &run).await, [start + 1_000, start + 3_000]);
}

impl Hands {
    /// Lets the two delays pass that follow the first and the second failure of a spec.
    async fn pass_delays(&self, harness: &Harness, run: &str) {
        for (attempt, delay) in [(1, 1_000), (2, 2_000)] {
            eventually("the attempt has failed", || async {
                harness.export(run).await.iter().any(|event| match &event.body {
                    Some(Body::TaskAttemptFailed(failed)) => failed.attempt == attempt,
                    _ => false,
                })
            })
            .await;
            self.advance(delay);
        }
    }
}

/// When the attempts after the first one were due.
async fn retries(harness: &Harness, run: &str) -> Vec<i64> {
    let events = harness.export(run).await;
    let due = events.iter().filter(|event| matches!(event.body, Some(Body::TaskRetryDue(_))));
    due.map(|event| event.at_ms).collect()
}

/// A daemon of `first` (the default one), `second` and `third`, whose agents fail by a table: spec, code, whether it may
/// pass, fallback. A spec that is not in the table answers.
async fn failing(table: &'static [(&str, &str, bool, Option<&str>)]) -> (Harness, SpecAgents) {
    failing_with(with_specs(&THREE), table).await
}

const THREE: [&str; 3] = ["first", "second", "third"];

async fn failing_with(
    configure: impl FnOnce(&mut capataz_daemon::Config),
    table: &'static [(&str, &str, bool, Option<&str>)],
) -> (Harness, SpecAgents) {
    let specs = THREE;
    let harness = Harness::start_with(configure).await;
    let agents = SpecAgents::start(&harness, &specs, move |request| {
        let failing = table.iter().find(|(spec, ..)| request["spec"] == *spec);
        Does::Says(match failing {
            Some((_, code, recoverable, fallback)) => failure_of(request, code, *recoverable, *fallback),
            None => answer_to(request, "answered"),
        })
    })
    .await;
    (harness, agents)
}

#[track_caller]
fn check(answered: &Answered, outcome: RunOutcome, specs: &[&str], codes: &[&str]) {
    assert_eq!(answered.outcome, outcome, "{answered:?}");
    assert_eq!(answered.specs(), specs, "{answered:?}");
    assert_eq!(answered.codes(), codes, "{answered:?}");
    assert!(answered.attempts().iter().all(|attempts| *attempts == 1), "{answered:?}");
}

// S001-ER-06
#[tokio::test]
async fn when_the_chain_is_exhausted_the_last_error_is_the_answer() {
    let (harness, _agents) = failing(&[
        ("first", "FATAL_ERROR", false, Some("second")),
        ("second", "INVALID_REQUEST", false, Some("third")),
        ("third", "CAPABILITY_NOT_SUPPORTED", false, Some("first")),
    ])
    .await;
    let answered = harness.ask(text("hello")).await;
    let codes = ["FATAL_ERROR", "INVALID_REQUEST", "CAPABILITY_NOT_SUPPORTED"];
    check(&answered, RunOutcome::Failed, &["first", "second", "third"], &codes);
    assert_eq!(answered.code(), "CAPABILITY_NOT_SUPPORTED");
    assert_eq!((answered.ask.spec.as_str(), &answered.response()["spec"]), ("third", &json!("third")));
    assert_eq!(answered.response()["error"]["message"], "CAPABILITY_NOT_SUPPORTED!");
}

// S001-ER-15
#[tokio::test]
async fn what_is_not_recoverable_goes_to_the_default_spec_where_none_is_named() {
    let (harness, _agents) = failing(&[("second", "FATAL_ERROR", false, None)]).await;
    let answered = harness.ask(text("hello").to("second")).await;
    check(&answered, RunOutcome::Succeeded, &["second", "first"], &["FATAL_ERROR", ""]);
}

// S001-ER-09
#[tokio::test]
async fn what_only_the_user_can_mend_goes_to_the_user_or_to_the_spec_that_is_named() {
    let hands = Hands::new();
    let clock = hands.clock();
    let configure = |config: &mut capataz_daemon::Config| {
        with_specs(&THREE)(config);
        config.clock = clock;
    };
    let (harness, _agents) = failing_with(
        configure,
        &[("second", "VALIDATION_ERROR", true, None), ("third", "INSUFFICIENT_CONTEXT", true, Some("first"))],
    )
    .await;
    let run = harness.begin(text("hm").to("second").within("s")).await;
    hands.pass_delays(&harness, &run).await;
    let answered = harness.ended(&run).await;
    assert_eq!((answered.outcome, answered.specs()), (RunOutcome::Failed, vec!["second"]), "{answered:?}");
    assert_eq!((answered.code(), answered.attempts()), ("VALIDATION_ERROR", vec![3]), "{answered:?}");
    assert_eq!(answered.response()["error"]["message"], "VALIDATION_ERROR!", "the words for the user");
    let run = harness.begin(text("hm").to("third")).await;
    hands.pass_delays(&harness, &run).await;
    let answered = harness.ended(&run).await;
    assert_eq!((answered.outcome, answered.specs()), (RunOutcome::Succeeded, vec!["third", "first"]));
    assert_eq!((answered.codes(), answered.attempts()), (vec!["INSUFFICIENT_CONTEXT", ""], vec![3, 1]));
}

// S001-ER-10
#[tokio::test]
async fn a_spec_may_have_codes_of_its_own() {
    let (harness, _agents) = failing(&[("second", "NO_SEATS_LEFT", false, Some("third"))]).await;
    let answered = harness.ask(text("two tickets").to("second")).await;
    check(&answered, RunOutcome::Succeeded, &["second", "third"], &["NO_SEATS_LEFT", ""]);
    assert_eq!(answered.ask.calls[0].error.as_ref().unwrap().message, "NO_SEATS_LEFT!");
}

// S001-ER-14
#[tokio::test]
async fn a_fallback_that_leads_back_ends_the_chain() {
    let (harness, agents) = failing(&[
        ("first", "FATAL_ERROR", false, Some("second")),
        ("second", "FATAL_ERROR", false, Some("first")),
    ])
    .await;
    let answered = harness.ask(text("hello")).await;
    check(&answered, RunOutcome::Failed, &["first", "second"], &["FATAL_ERROR", "FATAL_ERROR"]);
    assert_eq!(agents.requests().len(), 2, "nobody is asked twice");
}

// S001-RQ-19, S001-RQ-20, S001-RQ-21
#[tokio::test]
async fn a_request_says_who_why_and_what_for() {
    let harness = Harness::start_with(with_specs(&["first", "second"])).await;
    let agents = SpecAgents::echoing(&harness, &["first", "second"]).await;
    let ask = v1::Ask {
        request_id: Some("mine".to_owned()),
        preferences: [("language".to_owned(), "en".to_owned())].into(),
        source: Some("web".to_owned()),
        device: Some("mobile".to_owned()),
        custom: [("tenant".to_owned(), "t1".to_owned())].into(),
        ..text("tell me about second")
    };
    let answered = harness.ask(ask).await;
    assert_eq!(answered.text(), "TEXT: tell me about second");
    assert_eq!((answered.ask.request_id.as_str(), answered.ask.spec.as_str()), ("mine", "second"));
    let request = agents.last_request();
    assert_eq!(request["id"], "mine");
    assert_eq!(request["context"]["keywords_matched"], json!(["about second"]));
    assert_eq!(request["user"]["preferences"], json!({ "language": "en" }));
    let metadata = json!({ "source": "web", "device": "mobile", "custom": { "tenant": "t1" } });
    assert_eq!(request["metadata"], metadata);
    let bytes = request.to_string().into_bytes();
    capataz_contracts::spec::parse_request(&bytes).expect("what a spec is sent keeps the contract");
    // Without an id of the caller's, it is the run's.
    let answered = harness.ask(text("hello")).await;
    assert_eq!(answered.ask.request_id, answered.run);
}

#[tokio::test]
async fn a_daemon_with_a_clock_of_its_own_tells_that_time_everywhere() {
    let hands = Hands::new();
    let clock = hands.clock();
    let harness = Harness::start_with(|config| {
        config.specs_dir = Some(shipped_specs());
        config.clock = clock;
    })
    .await;
    let answered = harness.ask(text("Me siento perdido").within("s")).await;
    assert_eq!(answered.response()["timestamp"], hands.now(), "the template agent's");
    assert!(harness.export(&answered.run).await.iter().all(|event| event.at_ms == hands.now()));
    let session = harness.session("s").await;
    assert_eq!((session.created_at_ms, session.updated_at_ms), (hands.now(), hands.now()));
    assert_eq!(harness.get(&answered.run).await.finished_at_ms, Some(hands.now()));
}

#[tokio::test]
async fn an_ask_with_the_same_key_is_the_same_run() {
    let harness = Harness::start_with(with_specs(&["first"])).await;
    let agents = SpecAgents::echoing(&harness, &["first"]).await;
    let start = |said: &str| v1::StartRunRequest {
        idempotency_key: Some("k".to_owned()),
        ..v1::StartRunRequest::of_ask(text(said).within("s"))
    };
    let first = harness.execute(start("hello")).await.unwrap();
    let again = harness.execute(start("hello")).await.unwrap();
    assert_eq!((first.created, again.created), (true, false));
    assert_eq!((&first.run, first.response()), (&again.run, again.response()));
    let refusal = harness.execute(start("goodbye")).await.unwrap_err();
    assert_eq!(code_of(&refusal), "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(agents.requests().len(), 1);
    assert_eq!(harness.session("s").await.context.unwrap().message_count, 2);
}

#[tokio::test]
async fn one_key_at_once_from_many_clients_is_one_ask_and_one_turn() {
    let harness = Harness::start_with(with_specs(&["first"])).await;
    let agents = SpecAgents::echoing(&harness, &["first"]).await;
    for round in 0..5 {
        let start = v1::StartRunRequest {
            idempotency_key: Some(format!("k{round}")),
            ..v1::StartRunRequest::of_ask(text("hello").within("s"))
        };
        let asks = (0..20).map(|_| harness.execute(start.clone()));
        let answers: Vec<Answered> =
            futures_util::future::join_all(asks).await.into_iter().map(Result::unwrap).collect();
        assert!(answers.iter().all(|answered| answered.run == answers[0].run));
        assert_eq!(answers.iter().filter(|answered| answered.created).count(), 1);
        // The next message finds the session as the one ask left it.
        harness.ask(text("next").within("s")).await;
    }
    assert_eq!(agents.requests().len(), 10);
    assert_eq!(harness.session("s").await.context.unwrap().message_count, 20);
}

#[tokio::test]
async fn a_paused_ask_goes_on_when_it_is_resumed() {
    let harness = Harness::start_with(with_specs(&["first"])).await;
    let mut worker = harness.worker("w1", &["first"]).await;
    let working = harness.begin(text("one").within("s")).await;
    let assigned = worker.assignment().await;
    let paused = harness.begin(text("two").within("s")).await;
    let request_id = || "r".to_owned();
    let pause =
        v1::PauseRunRequest { run_id: paused.clone(), request_id: request_id(), ..Default::default() };
    harness.runs.clone().pause_run(pause).await.unwrap();
    worker.complete(&assigned.lease, crate::support::json(answer_to(&request_of(&assigned), "one"))).await;
    harness.ended(&working).await;
    heard_all(&mut worker).await;
    assert_eq!(harness.get(&paused).await.status(), v1::RunStatus::Paused);
    let resume =
        v1::ResumeRunRequest { run_id: paused.clone(), request_id: "r2".to_owned(), ..Default::default() };
    harness.runs.clone().resume_run(resume).await.unwrap();
    let assigned = worker.assignment().await;
    let request = request_of(&assigned);
    assert_eq!((&request["text"], &request["conversation"]["message_count"]), (&json!("two"), &json!(2)));
    worker.complete(&assigned.lease, crate::support::json(answer_to(&request, "two"))).await;
    assert_eq!(harness.ended(&paused).await.text(), "two");
}

#[tokio::test]
async fn a_call_that_has_failed_is_not_taken_up_again_by_hand() {
    let harness = Harness::start_with(with_specs(&["first", "second"])).await;
    let mut worker = harness.worker("w1", &["first", "second"]).await;
    let run = harness.begin(text("hello").to("second")).await;
    let failing = worker.assignment().await;
    let failed = failure_of(&request_of(&failing), "FATAL_ERROR", false, None);
    worker.complete(&failing.lease, crate::support::json(failed)).await;
    let assigned = worker.assignment().await;
    let retry = v1::RetryTaskRequest {
        run_id: run.clone(),
        task: "second".to_owned(),
        request_id: "r".to_owned(),
        ..Default::default()
    };
    let refusal = harness.runs.clone().retry_task(retry).await.unwrap_err();
    assert!(matches!(code_of(&refusal).as_str(), "INVALID_STATE_TRANSITION" | "TASK_NOT_FOUND"), "{refusal}");
    worker.complete(&assigned.lease, crate::support::json(answer_to(&request_of(&assigned), "here"))).await;
    let answered = harness.ended(&run).await;
    check(&answered, RunOutcome::Succeeded, &["second", "first"], &["FATAL_ERROR", ""]);
}
