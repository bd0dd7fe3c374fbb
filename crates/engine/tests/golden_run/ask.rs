//! Asks: retries, a lost lease, a fallback, a transition that is taken and one that is suggested; a text that nobody
//! answers, and one whose asker does not wait.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::{Input, QueryAnswer, Report, Routed, RoutedSpec, Work};
use serde_json::{Value, json};

use super::{Log, MINUTE, Run, SECOND, START};

impl Run<'_> {
    /// The spec is found.
    #[track_caller]
    pub fn is_routed_to(&mut self, spec: &str) {
        self.routes(spec, Ok(found(spec)), false);
    }

    #[track_caller]
    fn routes(&mut self, spec: &str, target: Result<RoutedSpec, v1::Error>, rerouted: bool) {
        let default_spec = Some("wave".to_owned());
        let answer = QueryAnswer::Routed(Routed { spec: spec.to_owned(), target, rerouted, default_spec });
        let (query, _) = self.state.open_query().expect("a spec is looked for");
        self.does(Input::Answered { query, answer });
    }

    /// The spec that was called last answers with what `edit` makes of a plain answer.
    #[track_caller]
    pub fn replies(&mut self, edit: impl FnOnce(&mut Value)) {
        let task = self.newest();
        let assignment = self.state.assignment(task).expect("a spec was called");
        let Some(v1::payload::Data::Inline(request)) = assignment.input.and_then(|input| input.data.clone())
        else {
            panic!("a request is inline")
        };
        let worker = format!("{}-worker", assignment.agent);
        let request: Value = serde_json::from_slice(&request).expect("a request is JSON");
        let lease = match self.state.lease_of(task) {
            Some((lease, _)) => lease,
            None => self.takes(task, &worker),
        };
        let mut answer = json!({
            "success": true,
            "spec": request["spec"],
            "request_id": request["id"],
            "timestamp": self.now,
            "response": { "text": format!("{} says so", request["spec"]), "format": "markdown" },
            "metadata": { "processing_time_ms": 1, "confidence": 0.9 },
        });
        edit(&mut answer);
        self.says(task, lease, &worker, Report::Completed(super::json(&answer.to_string())));
    }

    #[track_caller]
    pub fn replies_with_error(&mut self, code: &str, recoverable: bool, fallback: Option<&str>) {
        self.replies(|answer| {
            answer["success"] = json!(false);
            answer["response"] = Value::Null;
            answer["error"] =
                json!({ "code": code, "message": "no", "recoverable": recoverable, "fallback_spec": fallback });
        });
    }

    #[track_caller]
    pub fn suggests(&mut self, spec: &str, confidence: f64, automatic: bool) {
        self.replies(|answer| {
            answer["transition"] = json!({
                "suggest_spec": spec,
                "reason": "better there",
                "confidence": confidence,
                "auto_transition": automatic,
            });
            answer["context_update"] = json!({
                "emotional_state": "hopeful",
                "engagement_level": "high",
                "custom": { "from": answer["spec"], "n": 7 },
            });
        });
        // Whether there is such a spec is asked before it is suggested. It was not, once.
        let acts = automatic && confidence > 0.8;
        if let Some((query, _)) = self.state.open_query().filter(|_| !acts) {
            let (spec, default_spec) = (spec.to_owned(), Some("wave".to_owned()));
            let target = Ok(found(&spec));
            let routed = Routed { spec, target, rerouted: false, default_spec };
            self.goes_on(Input::Answered { query, answer: QueryAnswer::Routed(routed) });
        }
    }
}

pub fn found(spec: &str) -> RoutedSpec {
    let other = v1::RoutingAlternative { spec: "other".to_owned(), confidence: 0.25 };
    let routing = v1::Routing {
        spec: spec.to_owned(),
        confidence: 0.75,
        reason: "said so".to_owned(),
        alternatives: vec![other],
        detected_intent: "emotional_support".to_owned(),
        keywords_matched: vec!["perdido".to_owned()],
        patterns_matched: vec!["me siento".to_owned()],
        suggested_pattern: Some("calm".to_owned()),
        tone: "warm".to_owned(),
        response_style: "short".to_owned(),
        spec_title: spec.to_uppercase(),
        spec_description: format!("what {spec} does"),
        confidence_breakdown: Some(v1::ConfidenceBreakdown { keyword: 0.5, intent: 0.25, context: 0.0 }),
        is_fallback: false,
        ..v1::Routing::default()
    };
    RoutedSpec { routing: Box::new(routing), agent: spec.to_owned(), absent: false, unavailable: None }
}

fn ask(spec: Option<&str>) -> v1::Ask {
    v1::Ask {
        text: "Me siento perdido".to_owned(),
        session: None,
        spec: spec.map(str::to_owned),
        request_id: Some("request".to_owned()),
        preferences: BTreeMap::from([("language".to_owned(), "es".to_owned())]),
        source: Some("mobile".to_owned()),
        device: Some("phone".to_owned()),
        custom: BTreeMap::from([("campaign".to_owned(), "spring".to_owned())]),
        preferences_json: None,
        custom_json: None,
    }
}

fn context() -> v1::SessionContext {
    let said = |role: v1::MessageRole, text: &str, spec: Option<&str>| v1::SessionMessage {
        role: role as i32,
        text: text.to_owned(),
        spec: spec.map(str::to_owned),
        at_ms: START - MINUTE,
    };
    v1::SessionContext {
        current_spec: Some("wave".to_owned()),
        message_count: 2,
        history: vec![
            said(v1::MessageRole::User, "Hola", None),
            said(v1::MessageRole::Assistant, "Como olas", Some("wave")),
        ],
        emotional_state: Some("sad".to_owned()),
        engagement_level: Some("low".to_owned()),
        preferences: BTreeMap::from([("verbosity".to_owned(), "low".to_owned())]),
        custom: "{\"kept\":[1,2]}".into(),
        transitions: vec![v1::SessionTransition {
            from: "wave".to_owned(),
            to: "other".to_owned(),
            at_ms: START - 10 * SECOND,
            automatic: false,
        }],
        chosen_mode: 0,
        preferences_json: None,
    }
}

/// In a session, and paused before its turn comes: a failed attempt, a lost lease whose late answer is refused, an error
/// of the worker, a fallback that the spec names, a transition that is taken and a suggestion.
pub fn log(seed: u64, before: &Log, decisions: usize) -> Log {
    let ask = v1::Ask { session: Some("talk".to_owned()), ..ask(None) };
    let mut run = Run::start(seed, Work::Ask(ask), before, decisions);
    run.stands_still(SECOND);
    run.does(Input::SessionTurn { context: context() });
    run.is_routed_to("wave");
    run.does(Input::AgentAbsent { task: run.newest() });
    run.after(SECOND);
    run.replies_with_error("TEMPORARY_ERROR", true, Some("kiro"));
    run.after(SECOND);
    let lease = run.takes(run.newest(), "first");
    run.loses_lease(run.newest(), lease, v1::LeaseLossReason::Restarted);
    run.stands_still(SECOND);
    let again = run.takes(run.newest(), "second");
    run.says(run.newest(), lease, "first", Report::Completed(super::json("\"too late\"")));
    run.after(SECOND);
    let error =
        v1::Error { code: "NETWORK_ERROR".to_owned(), message: "reset".to_owned(), ..v1::Error::default() };
    run.says(run.newest(), again, "second", Report::Failed(error));
    run.after(2 * SECOND);
    run.replies_with_error("FATAL_ERROR", false, Some("kiro"));
    run.is_routed_to("kiro");
    run.suggests("sage", 0.9, true);
    run.is_routed_to("sage");
    run.suggests("wave", 0.7, true);
    run.ends(v1::RunOutcome::Succeeded)
}

/// An answer that breaks the contract, the default spec after it, which does not answer in time, and a user who has
/// enough of it.
pub fn log_of_a_stopped_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::start(seed, Work::Ask(ask(Some("kiro"))), before, decisions);
    run.is_routed_to("kiro");
    run.replies(|answer| answer["spec"] = json!("another"));
    run.is_routed_to("wave");
    run.takes(run.newest(), "wave-worker");
    run.after(32 * SECOND);
    run.takes(run.newest(), "wave-worker");
    run.does(Input::Cancel { reason: "enough".to_owned(), force: false, request_id: "cancel".to_owned() });
    run.after(MINUTE);
    run.ends(v1::RunOutcome::Cancelled)
}

/// A spec that is not there, and a default one that nobody serves.
pub fn log_of_an_unavailable_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::start(seed, Work::Ask(ask(Some("ghost"))), before, decisions);
    let missing = v1::Error {
        code: "SPEC_NOT_AVAILABLE".to_owned(),
        message: "there is no spec \"ghost\"".to_owned(),
        ..v1::Error::default()
    };
    run.routes("ghost", Err(missing), false);
    run.routes("wave", Ok(RoutedSpec { absent: true, ..found("wave") }), false);
    run.after(5 * SECOND);
    run.ends(v1::RunOutcome::Failed)
}

/// Two specs that hand the text to each other.
pub fn log_of_one_that_is_handed_to_and_fro(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::start(seed, Work::Ask(ask(None)), before, decisions);
    run.is_routed_to("wave");
    run.suggests("kiro", 0.9, true);
    run.is_routed_to("kiro");
    run.stands_still(SECOND);
    run.suggests("wave", 0.9, true);
    run.ends(v1::RunOutcome::Succeeded)
}
