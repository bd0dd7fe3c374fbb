//! Asks: calls of specs, retries, fallbacks and transitions (seed 001; CONTRACTS §2).

use serde_json::{Value, json};

use super::*;
use crate::input::{QueryAnswer, Routed, RoutedSpec};
use crate::query::{Query, QueryId};
use crate::session::{self, SessionState};

/// Specs `wave` (the default), `kiro` and `sage`, each served by an agent of its own name; that of `sage` is away.
struct Asked {
    bench: Bench,
    session: Option<Box<SessionState>>,
    /// How sure the router is of every spec.
    confidence: f64,
    /// What the router alone would choose.
    alone: Option<(&'static str, f64)>,
    /// What language the router finds.
    language: &'static str,
}

const SPECS: [&str; 3] = ["wave", "kiro", "sage"];

impl Asked {
    /// An ask without a session, which the router gives to `wave`.
    #[track_caller]
    fn new() -> Self {
        Self::start(v1::Ask::default(), None, START)
    }

    /// An ask of a session in which `before` was said; its turn comes at once.
    #[track_caller]
    fn in_session(before: Option<SessionState>, request_id: &str, at: i64) -> Self {
        let ask = v1::Ask { request_id: Some(request_id.to_owned()), ..v1::Ask::default() };
        Self::says_in_session(ask, before, at)
    }

    /// The same, of an ask that says more.
    #[track_caller]
    fn says_in_session(ask: v1::Ask, before: Option<SessionState>, at: i64) -> Self {
        let mut asked = Self::begin(v1::Ask { session: Some("s".to_owned()), ..ask }, before, at);
        let context = asked.session.as_ref().map(|state| state.context(Wall(at))).unwrap_or_default();
        asked.bench = asked.bench.does(Input::SessionTurn { context });
        asked.route()
    }

    #[track_caller]
    fn start(ask: v1::Ask, session: Option<SessionState>, at: i64) -> Self {
        Self::begin(ask, session, at).route()
    }

    #[track_caller]
    fn begin(ask: v1::Ask, session: Option<SessionState>, at: i64) -> Self {
        let ask = v1::Ask {
            text: "Me siento perdido".to_owned(),
            request_id: Some(ask.request_id.unwrap_or_else(|| "req-1".to_owned())),
            ..ask
        };
        let request = StartRun { work: Work::Ask(ask), labels: BTreeMap::new(), parent: None, lineage: None };
        let now = Timestamp(at);
        let (state, decision) = start(SEED, request, Wall(at)).expect("the ask starts");
        let mut ledger = Ledger::default();
        ledger.observe(&state, &decision);
        ledger.compare_fold(&state);
        Self {
            bench: Bench { state, ledger, now, ahead: 0, last: Ok(decision), small: true },
            session: session.map(Box::new),
            confidence: 0.8,
            alone: None,
            language: "",
        }
    }

    /// Answers every search for a spec, as a router does that knows [`SPECS`] and likes `wave` best.
    #[track_caller]
    fn route(mut self) -> Self {
        while let [.., Effect::Query { query, asked }] = self.bench.effects() {
            let query = *query;
            let Query::Route { spec, reason } = asked.clone() else { panic!("a spec is asked for") };
            let gone = spec.as_deref().is_some_and(|spec| !SPECS.contains(&spec));
            let rerouted = gone && reason == v1::CallReason::Continued;
            let wanted = if rerouted { None } else { spec.clone() };
            let target = match wanted.as_deref().unwrap_or("wave") {
                name if SPECS.contains(&name) => {
                    let mut found = found(name);
                    found.routing.confidence = self.confidence;
                    found.routing.language = self.language.to_owned();
                    found.routing.alone = self.alone.map(|(spec, confidence)| v1::RouterChoice {
                        spec: spec.to_owned(),
                        confidence,
                        reason: "by its words".to_owned(),
                    });
                    Ok(found)
                }
                name => Err(failure_of("SPEC_NOT_AVAILABLE", &format!("there is no spec {name:?}"))),
            };
            let routed = Routed {
                spec: wanted.unwrap_or_default(),
                target,
                rerouted,
                default_spec: Some("wave".to_owned()),
            };
            let answer = QueryAnswer::Routed(routed);
            self.bench = self.bench.does(Input::Answered { query, answer });
        }
        self
    }

    /// The call in work, as `wave` and number of its task.
    fn call(&self) -> TaskRef {
        TaskRef { wave: self.bench.state.current_wave(), task: 0 }
    }

    #[track_caller]
    fn says(self, answer: &Value) -> Self {
        self.gives(super::json(&answer.to_string()))
    }

    #[track_caller]
    fn gives(mut self, output: v1::Payload) -> Self {
        let task = self.call();
        if self.bench.state.is_queued(task) {
            self.bench = self.bench.does(Input::Lease {
                output_schema: None,
                cancel_is_final: false,
                mark: 0,
                task,
                worker: "w".to_owned(),
            });
        }
        let (lease, worker) = self.bench.state.lease_of(task).expect("the call is leased");
        let input = reported(task, lease, worker, Report::Completed(output));
        self.bench = self.bench.does(input);
        self.route()
    }

    /// The spec that was called last answers with what `edit` makes of a plain answer.
    #[track_caller]
    fn answers(self, edit: impl FnOnce(&mut Value)) -> Self {
        let mut answer = self.plain();
        edit(&mut answer);
        self.says(&answer)
    }

    #[track_caller]
    fn fails(self, code: &str, recoverable: bool, fallback: Option<&str>) -> Self {
        self.answers(|answer| {
            answer["success"] = json!(false);
            answer["response"] = Value::Null;
            answer["error"] =
                json!({ "code": code, "message": "no", "recoverable": recoverable, "fallback_spec": fallback });
        })
    }

    /// All three attempts of the spec that was called last fail in a way that may pass.
    #[track_caller]
    fn fails_thrice(mut self, code: &str, fallback: Option<&str>) -> Self {
        for delay in [SECOND, 2 * SECOND] {
            self = self.fails(code, true, fallback);
            self.bench = self.bench.after(delay);
        }
        self.fails(code, true, fallback)
    }

    #[track_caller]
    fn suggests(self, spec: &str, confidence: f64, automatic: bool) -> Self {
        self.answers(|answer| {
            answer["transition"] = json!({
                "suggest_spec": spec,
                "reason": "better there",
                "confidence": confidence,
                "auto_transition": automatic,
            });
        })
    }

    fn plain(&self) -> Value {
        let request = self.request();
        json!({
            "success": true,
            "spec": request["spec"],
            "request_id": request["id"],
            "timestamp": self.bench.now.0,
            "response": { "text": "Como olas", "format": "markdown" },
            "metadata": { "processing_time_ms": 1, "confidence": 0.9 },
        })
    }

    /// What the spec that was called last was asked.
    #[track_caller]
    fn request(&self) -> Value {
        let assignment = self.bench.state.assignment(self.call()).expect("a spec was called");
        let Some(v1::payload::Data::Inline(bytes)) = assignment.input.and_then(|input| input.data.clone())
        else {
            panic!("the request is inline")
        };
        capataz_contracts::spec::parse_request(&bytes).expect("the request keeps to the contract");
        serde_json::from_slice(&bytes).expect("the request is JSON")
    }

    #[track_caller]
    fn result(&self) -> v1::AskResult {
        let result = self.bench.state.result(usize::MAX).expect("the ask has ended");
        result.ask().expect("an ask has its result").clone()
    }

    /// Specs in the order in which they were called.
    fn called(&self) -> Vec<String> {
        let routed = self.bench.ledger.events.iter().filter_map(|event| match &event.body {
            Some(Body::AskRouted(routed)) => Some(routed.spec.clone()),
            _ => None,
        });
        routed.collect()
    }

    #[track_caller]
    fn expect(self, outcome: v1::RunOutcome, called: &[&str]) -> Self {
        assert_eq!(self.bench.state.outcome(), Some(outcome));
        assert_eq!(self.called(), called);
        self
    }

    #[track_caller]
    fn expect_verdict(self, verdict: v1::TransitionVerdict, band: v1::TransitionBand) -> Self {
        let transition = self.result().transition.expect("a transition was considered");
        assert_eq!(transition.verdict(), verdict, "{transition:?}");
        assert_eq!(transition.band(), band, "{transition:?}");
        self
    }

    /// The session after this ask.
    #[track_caller]
    fn session(mut self) -> SessionState {
        let decision = session::record(&mut self.session, &self.bench.state, "run")
            .ok()
            .flatten()
            .expect("there is news");
        let state = *self.session.expect("the session is open");
        assert_eq!(decision.first_seq + u64::from(decision.count) - 1, state.seq());
        let read = SessionState::from_snapshot(&state.snapshot().unwrap()).unwrap();
        assert_eq!(read, state, "a snapshot reads back");
        state
    }
}

pub(super) fn found(spec: &str) -> RoutedSpec {
    let routing = v1::Routing {
        spec: spec.to_owned(),
        confidence: 0.8,
        reason: "said so".to_owned(),
        detected_intent: "emotional_support".to_owned(),
        ..v1::Routing::default()
    };
    RoutedSpec {
        routing: Box::new(routing),
        agent: spec.to_owned(),
        absent: spec == "sage",
        unavailable: None,
    }
}

fn failure_of(code: &str, message: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: message.to_owned(), ..v1::Error::default() }
}

#[test]
fn an_ask_is_routed_answered_and_over() {
    let asked = Asked::new();
    assert_eq!(asked.bench.kinds(), ["ask_routed"]);
    assert_eq!(asked.request()["routing"]["confidence"], 0.8);
    assert_eq!(asked.request()["conversation"], Value::Null);
    let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave"]);
    assert_eq!(asked.bench.kinds(), ["task_settled", "run_finished"]);
    let result = asked.result();
    assert_eq!((result.spec.as_str(), result.request_id.as_str()), ("wave", "req-1"));
    assert!(result.response.is_some() && result.transition.is_none());
}

/// The request of an ask for which the router has found this.
#[track_caller]
fn request_for(routing: v1::Routing) -> Value {
    let target = Ok(RoutedSpec { routing: Box::new(routing), ..found("wave") });
    let routed = Routed { spec: String::new(), target, rerouted: false, default_spec: None };
    let mut asked = Asked::begin(v1::Ask::default(), None, START);
    let answer = QueryAnswer::Routed(routed);
    asked.bench = asked.bench.does(Input::Answered { query: QueryId(0), answer });
    asked.request()
}

// S001-RQ-02, S001-RQ-04, S001-RQ-05, S001-RQ-06, S001-RQ-07
#[test]
fn a_request_says_which_spec_was_chosen_when_and_why_and_which_others_there_were() {
    let request = request_for(v1::Routing {
        spec: "wave".to_owned(),
        confidence: 0.85,
        reason: "feelings".to_owned(),
        alternatives: vec![v1::RoutingAlternative { spec: "kiro".to_owned(), confidence: 0.45 }],
        detected_intent: "unclear".to_owned(),
        ..v1::Routing::default()
    });
    assert_eq!((&request["id"], &request["timestamp"]), (&json!("req-1"), &json!(START)));
    assert_eq!((&request["text"], &request["spec"]), (&json!("Me siento perdido"), &json!("wave")));
    let alternatives = json!([{ "spec": "kiro", "confidence": 0.45 }]);
    let routing = json!({ "confidence": 0.85, "reason": "feelings", "alternatives": alternatives });
    assert_eq!(request["routing"], routing);
}

// S001-RQ-09, S001-RQ-10, S001-RQ-11, S001-RQ-12, S001-RQ-13
#[test]
fn a_request_has_all_that_was_found_in_the_text_and_how_its_spec_is_to_speak() {
    let request = request_for(v1::Routing {
        spec: "wave".to_owned(),
        confidence: 0.85,
        detected_intent: "emotional_support".to_owned(),
        keywords_matched: vec!["siento".to_owned(), "perdido".to_owned()],
        patterns_matched: vec!["me siento".to_owned()],
        suggested_pattern: Some("emotional_low".to_owned()),
        tone: "empathetic".to_owned(),
        response_style: "poetic".to_owned(),
        spec_title: "Wave".to_owned(),
        spec_description: "listens".to_owned(),
        confidence_breakdown: Some(v1::ConfidenceBreakdown { keyword: 0.6, intent: 0.2, context: 0.05 }),
        ..v1::Routing::default()
    });
    let context = json!({
        "detected_intent": "emotional_support",
        "keywords_matched": ["siento", "perdido"],
        "patterns_matched": ["me siento"],
        "suggested_pattern": "emotional_low",
        "tone": "empathetic",
        "response_style": "poetic",
        "spec_title": "Wave",
        "spec_description": "listens",
        "confidence_breakdown": { "keyword": 0.6, "intent": 0.2, "context": 0.05 },
    });
    assert_eq!(request["context"], context);
}

/// A spec as the answer to the query of this number.
fn found_for(query: u64, spec: &str) -> Input {
    let routed = Routed {
        spec: String::new(),
        target: Ok(found(spec)),
        rerouted: false,
        default_spec: Some("wave".to_owned()),
    };
    Input::Answered { query: QueryId(query), answer: QueryAnswer::Routed(routed) }
}

#[test]
fn an_answer_to_another_query_changes_nothing_and_the_right_one_counts_once() {
    let asked = Asked::begin(v1::Ask::default(), None, START);
    assert!(asked.bench.state.outstanding().iter().any(|effect| matches!(effect, Effect::Query { .. })));
    let stale = asked.bench.input(found_for(1, "kiro"));
    let before = stale.state.seq();
    assert_eq!(stale.clone_run().expect_refusal(), Refusal::Outdated);
    let routed = stale.does(found_for(0, "wave"));
    assert!(routed.state.seq() > before);
    assert_eq!(routed.input(found_for(0, "kiro")).expect_refusal(), Refusal::Outdated);
}

#[test]
fn a_query_outlives_a_pause_and_is_asked_again_after_it() {
    let paused = Asked::begin(v1::Ask::default(), None, START).bench.pause();
    assert!(paused.state.open_query().is_some(), "to ask has no effect outside");
    let routed = paused.does(found_for(0, "wave"));
    assert_eq!(routed.state.open_query(), None);
    assert!(!routed.state.may_lease());
}

#[test]
fn the_users_choice_of_a_spec_goes_before_the_routers() {
    let ask = v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
    let asked = Asked::start(ask, None, START).answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["kiro"]);
    assert_eq!(asked.result().calls[0].reason(), v1::CallReason::Explicit);
}

// S001-ER-03, S001-ER-12, S001-ER-13
#[test]
fn a_recoverable_error_is_retried_twice_and_then_falls_back() {
    let mut asked = Asked::new();
    for delay in [SECOND, 2 * SECOND] {
        asked = asked.fails("TEMPORARY_ERROR", true, Some("kiro"));
        assert_eq!(asked.bench.kinds(), ["task_attempt_failed"]);
        asked.bench = asked.bench.after(delay);
    }
    let asked = asked.fails("TEMPORARY_ERROR", true, Some("kiro"));
    let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave", "kiro"]);
    let calls = asked.result().calls;
    assert_eq!((calls[0].attempts, calls[1].attempts), (3, 1));
    assert_eq!(calls[0].error.as_ref().unwrap().code, "TEMPORARY_ERROR");
    assert_eq!(calls[1].reason(), v1::CallReason::Fallback);
}

// S001-ER-13
#[test]
fn a_recoverable_error_that_does_not_pass_goes_to_the_default_spec_where_no_fallback_is_named() {
    let ask = v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
    let asked = Asked::start(ask, None, START).fails_thrice("TEMPORARY_ERROR", None);
    let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
    let calls = asked.result().calls;
    assert_eq!((calls[0].attempts, calls[1].reason()), (3, v1::CallReason::Fallback));
}

/// An agent that fails without an answer says nothing of whether that passes; its code does.
#[test]
fn a_temporary_error_that_an_agent_fails_with_is_tried_again() {
    for (code, expected) in [("TEMPORARY_ERROR", "task_attempt_failed"), ("FATAL_ERROR", "task_settled")] {
        let asked = Asked::new();
        let task = asked.call();
        let bench = asked.bench.does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "w".to_owned(),
        });
        let (lease, worker) = bench.state.lease_of(task).expect("the call is leased");
        let input = reported(task, lease, worker, Report::Failed(failure_of(code, "no")));
        let bench = bench.does(input);
        assert_eq!(bench.kinds()[0], expected, "{code}");
    }
}

// S001-ER-10
#[test]
fn a_specs_own_code_is_retried_where_the_spec_says_that_it_may_pass() {
    let asked = Asked::new().fails("TIDE_TOO_LOW", true, None);
    assert_eq!(asked.bench.kinds(), ["task_attempt_failed"]);
}

// S001-ER-15
#[test]
fn what_is_not_recoverable_falls_back_at_once_and_to_the_default_where_none_is_named() {
    let ask = v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
    Asked::start(ask, None, START)
        .fails("FATAL_ERROR", false, None)
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
}

// S001-ER-14
#[test]
fn a_chain_tries_each_spec_once_and_the_last_error_is_the_answer() {
    let asked = Asked::new()
        .fails("INVALID_REQUEST", false, Some("kiro"))
        .fails("CAPABILITY_NOT_SUPPORTED", false, Some("sage"))
        .fails("FATAL_ERROR", false, Some("kiro"))
        .expect(v1::RunOutcome::Failed, &["wave", "kiro", "sage"]);
    let result = asked.result();
    assert_eq!(result.spec, "sage");
    assert!(result.response.is_some(), "the failed answer is the answer");
    assert_eq!(asked.bench.run().error.unwrap().code, "FATAL_ERROR");
}

#[test]
fn a_fallback_that_does_not_exist_is_one_more_failure() {
    let ask = v1::Ask { spec: Some("sage".to_owned()), ..v1::Ask::default() };
    let asked = Asked::start(ask, None, START).fails("FATAL_ERROR", false, Some("nobody"));
    assert_eq!(asked.called(), ["sage", "nobody", "wave"]);
    asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["sage", "nobody", "wave"]);
}

// S001-ER-08
#[test]
fn what_only_the_user_can_mend_goes_to_the_user_or_to_the_named_spec() {
    for code in ["VALIDATION_ERROR", "INSUFFICIENT_CONTEXT"] {
        let ask = || v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
        // A spec that says that its error does not pass is not called again.
        Asked::start(ask(), None, START).fails(code, false, None).expect(v1::RunOutcome::Failed, &["kiro"]);
        let to_the_user = Asked::start(ask(), None, START).fails_thrice(code, None);
        let to_the_user = to_the_user.expect(v1::RunOutcome::Failed, &["kiro"]);
        assert_eq!(to_the_user.result().calls[0].attempts, 3);
        let to_the_named = Asked::start(ask(), None, START)
            .fails_thrice(code, Some("wave"))
            .answers(|_| ())
            .expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
        assert_eq!(to_the_named.result().calls[0].attempts, 3);
    }
}

#[test]
fn what_only_the_user_can_mend_is_tried_again_where_the_spec_calls_it_recoverable() {
    for code in ["VALIDATION_ERROR", "INSUFFICIENT_CONTEXT"] {
        let mut asked = Asked::new().fails(code, true, Some("kiro"));
        assert_eq!(asked.bench.kinds(), ["task_attempt_failed"], "{code}");
        asked.bench = asked.bench.after(SECOND);
        let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave"]);
        assert_eq!(asked.result().calls[0].attempts, 2, "{code}");
    }
}

// S001-ER-07
#[test]
fn an_answer_that_breaks_the_contract_is_fatal_and_every_violation_is_named() {
    let ask = v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
    let asked = Asked::start(ask, None, START).answers(|answer| {
        answer["request_id"] = json!("another");
        answer["spec"] = json!("sage");
    });
    let error = asked.result_of_first_call();
    assert_eq!(error.code, "FATAL_ERROR");
    for path in ["request_id", "spec"] {
        assert!(error.message.contains(path), "{}", error.message);
    }
    let asked = Asked::new().says(&json!("nonsense"));
    assert_eq!(asked.result_of_first_call().code, "FATAL_ERROR");
}

// S001-BP-01, S001-ER-04
#[test]
fn a_request_that_breaks_the_contract_is_not_sent_and_every_violation_is_named() {
    let mut asked = Asked::begin(v1::Ask::default(), None, START);
    let mut broken = found("kiro");
    broken.routing.keywords_matched = vec!["word".to_owned(); 1_001];
    broken.routing.confidence = 1.5;
    let routed = Routed {
        spec: String::new(),
        target: Ok(broken),
        rerouted: false,
        default_spec: Some("wave".to_owned()),
    };
    let answer = QueryAnswer::Routed(routed);
    asked.bench = asked.bench.does(Input::Answered { query: QueryId(0), answer });
    assert_eq!(asked.bench.kinds(), ["ask_routed", "task_settled", "notice"], "nobody is asked");
    let error = asked.result_of_first_call();
    assert_eq!(error.code, "INVALID_REQUEST");
    let named: Vec<&str> = error.details.iter().map(|violation| violation.message.as_str()).collect();
    assert_eq!(named.len(), 2, "{named:?}");
    for path in ["routing.confidence", "context.keywords_matched"] {
        assert!(named.iter().any(|violation| violation.contains(path)), "{named:?}");
    }
    asked.route().answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
}

#[test]
fn a_request_that_breaks_the_contract_is_not_sent_at_a_persons_demand_either() {
    let mut asked = Asked::begin(v1::Ask::default(), None, START);
    let mut broken = found("kiro");
    broken.routing.confidence = 1.5;
    let default_spec = Some("wave".to_owned());
    let routed = Routed { spec: String::new(), target: Ok(broken), rerouted: false, default_spec };
    let answer = QueryAnswer::Routed(routed);
    asked.bench = asked.bench.does(Input::Answered { query: QueryId(0), answer });
    assert_eq!(asked.result_of_first_call().code, "INVALID_REQUEST");
    let name = asked.bench.run().waves[0].tasks[0].name.clone();
    let error = asked.bench.input(retry(&name, "r")).expect_rule();
    assert_eq!(error.code, "INVALID_STATE_TRANSITION");
    assert!(error.message.contains("breaks the contract, and is not sent"), "{}", error.message);
}

/// The session after an ask that the router gave to `wave` with this confidence, and after the next one.
fn held_after(confidence: f64, fails: bool) -> (Option<String>, Vec<String>) {
    let mut asked =
        Asked::begin(v1::Ask { session: Some("s".to_owned()), ..v1::Ask::default() }, None, START);
    asked.bench = asked.bench.does(Input::SessionTurn { context: v1::SessionContext::default() });
    let mut target = found("kiro");
    target.routing.confidence = confidence;
    let default_spec = Some("wave".to_owned());
    let routed = Routed { spec: String::new(), target: Ok(target), rerouted: false, default_spec };
    let answer = QueryAnswer::Routed(routed);
    asked.bench = asked.bench.does(Input::Answered { query: QueryId(0), answer });
    if fails {
        asked = asked.fails("FATAL_ERROR", false, None);
    }
    let session = asked.answers(|_| ()).session();
    let held = session.context(Wall(START)).current_spec;
    (held, Asked::in_session(Some(session), "req-2", START + 5).called())
}

#[test]
fn a_weak_choice_holds_no_session_and_the_next_message_is_routed_afresh() {
    let kiro = || "kiro".to_owned();
    assert_eq!(held_after(0.6, false), (Some(kiro()), vec![kiro()]));
    assert_eq!(held_after(0.599, false), (None, vec!["wave".to_owned()]));
    assert_eq!(held_after(0.000_01, false), (None, vec!["wave".to_owned()]));
    // A spec that was surely chosen holds the session even if a fallback answered; a weak one does not.
    assert_eq!(held_after(0.9, true), (Some(kiro()), vec![kiro()]));
    assert_eq!(held_after(0.3, true), (None, vec!["wave".to_owned()]));
}

#[test]
fn what_the_user_or_a_transition_chose_holds_the_session_however_unsure_the_router_is() {
    let chosen = |spec: Option<&str>| {
        let ask =
            v1::Ask { session: Some("s".to_owned()), spec: spec.map(str::to_owned), ..v1::Ask::default() };
        let mut asked = Asked::begin(ask, None, START);
        asked.confidence = 0.1;
        asked.bench = asked.bench.does(Input::SessionTurn { context: v1::SessionContext::default() });
        asked.route()
    };
    let held = |session: SessionState| session.context(Wall(START)).current_spec;
    assert_eq!(held(chosen(Some("kiro")).answers(|_| ()).session()).as_deref(), Some("kiro"));
    assert_eq!(held(chosen(None).answers(|_| ()).session()), None);
    let handed_over = chosen(None).suggests("sage", 0.9, true);
    assert_eq!(handed_over.called(), ["wave", "sage"]);
    assert_eq!(held(handed_over.answers(|_| ()).session()).as_deref(), Some("sage"));
}

// S001-RQ-14
#[test]
fn the_previous_spec_is_the_one_that_answered_last() {
    let first = Asked::in_session(None, "req-1", START)
        .fails("FATAL_ERROR", false, Some("kiro"))
        .answers(|_| ())
        .session();
    assert_eq!(first.context(Wall(START)).current_spec.as_deref(), Some("wave"));
    let request = Asked::in_session(Some(first), "req-2", START + 5).request();
    assert_eq!(
        (&request["spec"], &request["conversation"]["previous_spec"]),
        (&json!("wave"), &json!("kiro"))
    );
}

impl Asked {
    /// The spec that was called last fails, and its answer holds a transition.
    #[track_caller]
    fn fails_and_suggests(self, fallback: Option<&str>, to: &str, confidence: f64, automatic: bool) -> Self {
        self.answers(|answer| {
            answer["success"] = json!(false);
            answer["response"] = Value::Null;
            answer["error"] = json!({
                "code": "CAPABILITY_NOT_SUPPORTED", "message": "no", "recoverable": false,
                "fallback_spec": fallback,
            });
            answer["transition"] = json!({
                "suggest_spec": to, "reason": "not mine", "confidence": confidence,
                "auto_transition": automatic,
            });
        })
    }
}

// S001-TR-05, S001-TR-07
#[test]
fn an_automatic_transition_in_a_failed_answer_goes_before_its_fallback() {
    let asked = Asked::in_session(None, "req-1", START)
        .fails_and_suggests(Some("sage"), "kiro", 0.9, true)
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["wave", "kiro"]);
    assert_eq!(asked.result().calls[1].reason(), v1::CallReason::Transition);
    assert_eq!(asked.session().context(Wall(START)).current_spec.as_deref(), Some("kiro"));
}

#[test]
fn a_suggestion_in_a_failed_answer_survives_the_fallback_and_can_be_accepted() {
    let asked = Asked::in_session(None, "req-1", START)
        .fails_and_suggests(Some("sage"), "kiro", 0.7, false)
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["wave", "sage"])
        .expect_verdict(v1::TransitionVerdict::Suggested, v1::TransitionBand::Subtle);
    let mut session = asked.session();
    let (accepted, _) = session.accept("req-1", Wall(START + 1)).unwrap();
    assert_eq!((accepted.from.as_str(), accepted.to.as_str()), ("wave", "kiro"));
}

#[test]
fn a_failed_answer_that_suggests_with_nobody_left_is_told_with_its_suggestion() {
    Asked::new()
        .fails_and_suggests(None, "kiro", 0.85, false)
        .expect(v1::RunOutcome::Failed, &["wave"])
        .expect_verdict(v1::TransitionVerdict::Suggested, v1::TransitionBand::Prominent);
}

#[test]
fn an_automatic_transition_in_a_failed_answer_to_nobody_leaves_it_to_the_fallback() {
    Asked::new()
        .fails_and_suggests(Some("sage"), "nobody", 0.9, true)
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["wave", "sage"]);
}

// S001-TR-11
#[test]
fn of_two_suggestions_the_more_visible_one_is_offered() {
    // `wave` suggests `kiro`, then its fallback `sage` suggests `wave`.
    for (first, second, offered) in [(0.7, 0.9, "wave"), (0.9, 0.7, "kiro"), (0.7, 0.75, "kiro")] {
        let asked = Asked::new()
            .fails_and_suggests(Some("sage"), "kiro", first, false)
            .answers(|answer| {
                answer["transition"] = json!({
                    "suggest_spec": "wave", "reason": "r", "confidence": second, "auto_transition": false,
                });
            })
            .expect(v1::RunOutcome::Succeeded, &["wave", "sage"]);
        assert_eq!(asked.result().transition.unwrap().to, offered, "{first} and {second}");
    }
}

impl Asked {
    /// An ask of a session that `wave` holds, while the router alone would choose another spec.
    #[track_caller]
    fn held(alone: (&'static str, f64), ask: v1::Ask) -> Self {
        let ask = v1::Ask { session: Some("s".to_owned()), ..ask };
        let mut asked = Self::begin(ask, None, START);
        asked.alone = Some(alone);
        let context = v1::SessionContext { current_spec: Some("wave".to_owned()), ..Default::default() };
        asked.bench = asked.bench.does(Input::SessionTurn { context });
        asked.route()
    }
}

#[test]
fn in_a_held_session_the_routers_own_choice_is_a_suggestion_in_its_band_and_never_acts() {
    use v1::TransitionBand::{Prominent, Subtle};
    for (confidence, band) in [(0.99, Prominent), (0.81, Prominent), (0.8, Subtle), (0.6, Subtle)] {
        let asked = Asked::held(("kiro", confidence), v1::Ask::default())
            .answers(|_| ())
            .expect(v1::RunOutcome::Succeeded, &["wave"])
            .expect_verdict(v1::TransitionVerdict::Suggested, band);
        let offered = asked.result().transition.unwrap();
        assert!(offered.by_router && !offered.automatic);
        assert_eq!((offered.from.as_str(), offered.to.as_str()), ("wave", "kiro"));
        assert_eq!(offered.reason, "by its words");
        let mut session = asked.session();
        assert_eq!(session.accept("req-1", Wall(START + 1)).unwrap().0.to, "kiro");
    }
    for alone in [("kiro", 0.599), ("wave", 0.99)] {
        let asked = Asked::held(alone, v1::Ask::default()).answers(|_| ());
        assert_eq!(asked.result().transition, None, "{alone:?}");
    }
}

#[test]
fn the_routers_choice_is_not_offered_to_who_chose_a_spec_or_was_handed_over() {
    let ask = v1::Ask { spec: Some("wave".to_owned()), ..v1::Ask::default() };
    assert_eq!(Asked::held(("kiro", 0.9), ask).answers(|_| ()).result().transition, None);
    let handed_over = Asked::held(("kiro", 0.9), v1::Ask::default()).suggests("sage", 0.9, true);
    assert_eq!(handed_over.answers(|_| ()).result().transition, None);
}

#[test]
fn what_a_spec_suggests_goes_before_the_routers_choice_unless_that_is_more_visible() {
    for (own, alone, offered) in [(0.7, 0.75, "sage"), (0.7, 0.9, "kiro"), (0.9, 0.95, "sage")] {
        let asked = Asked::held(("kiro", alone), v1::Ask::default()).suggests("sage", own, false);
        let transition = asked.result().transition.unwrap();
        assert_eq!((transition.to.as_str(), transition.by_router), (offered, offered == "kiro"), "{own}");
    }
}

#[test]
fn the_routers_choice_does_not_hand_the_user_back_within_a_minute() {
    for (later, verdict) in
        [(59_999, v1::TransitionVerdict::Suppressed), (60_000, v1::TransitionVerdict::Suggested)]
    {
        let before = handed_over();
        let ask = v1::Ask {
            session: Some("s".to_owned()),
            request_id: Some("req-2".to_owned()),
            ..v1::Ask::default()
        };
        let mut asked = Asked::begin(ask, Some(before), START + later);
        asked.alone = Some(("wave", 0.9));
        let context = asked.session.as_ref().unwrap().context(Wall(START + later));
        asked.bench = asked.bench.does(Input::SessionTurn { context });
        asked
            .route()
            .answers(|_| ())
            .expect(v1::RunOutcome::Succeeded, &["kiro"])
            .expect_verdict(verdict, v1::TransitionBand::Prominent);
    }
}

#[test]
fn a_spec_that_fails_in_a_held_session_leaves_the_routers_choice_to_the_user() {
    let asked = Asked::held(("kiro", 0.9), v1::Ask::default())
        .fails("FATAL_ERROR", false, None)
        .expect(v1::RunOutcome::Failed, &["wave"])
        .expect_verdict(v1::TransitionVerdict::Suggested, v1::TransitionBand::Prominent);
    assert!(asked.result().transition.unwrap().by_router);
}

impl Asked {
    /// The response with which the ask is answered; it keeps the contract.
    #[track_caller]
    fn response(&self) -> Value {
        let response = self.result().response.expect("an ask has an answer");
        let Some(v1::payload::Data::Inline(bytes)) = response.data else { panic!("it is inline") };
        capataz_contracts::spec::parse_response(&bytes).expect("the answer keeps to the contract");
        serde_json::from_slice(&bytes).unwrap()
    }
}

// S001-RS-15
#[test]
fn what_the_daemon_raises_itself_is_a_whole_response_in_the_users_language() {
    let spanish = "La respuesta está tardando más de lo esperado. ¿Quieres intentarlo de nuevo?";
    let english = "The answer is taking longer than expected. Do you want to try again?";
    let prefers = |language: &str| v1::Ask {
        preferences: [("language".to_owned(), language.to_owned())].into(),
        ..v1::Ask::default()
    };
    let rows = [
        (v1::Ask::default(), "es", spanish),
        (v1::Ask::default(), "en", english),
        (v1::Ask::default(), "", english),
        (prefers("es-MX"), "en", spanish),
        (prefers("en"), "es", english),
    ];
    for (ask, found, message) in rows {
        let mut asked = Asked::begin(ask, None, START);
        asked.language = found;
        let mut asked = asked.route();
        asked.bench = asked.bench.after(30 * SECOND);
        let response = asked.response();
        assert_eq!(response["success"], false);
        assert_eq!((&response["spec"], &response["request_id"]), (&json!("wave"), &json!("req-1")));
        let error = &response["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!("PROCESSING_TIMEOUT"), &json!(message)));
        assert_eq!((&error["recoverable"], &error["fallback_spec"]), (&json!(true), &Value::Null));
        assert!(error["details"].as_str().unwrap().contains("\"wave\""), "{error}");
        assert_eq!(response["metadata"], json!({ "processing_time_ms": 30_000, "confidence": 0.0 }));
    }
}

// S001-BP-07
#[test]
fn an_answer_that_breaks_the_contract_is_recorded_and_the_user_is_told_in_words() {
    let asked = Asked::new().answers(|answer| {
        answer["mood"] = json!("odd");
        answer["transition"] = json!({
            "suggest_spec": "kiro", "reason": "r", "confidence": 0.9, "auto_transition": true,
        });
        answer["context_update"] = json!({ "custom": { "topic": "job" } });
    });
    let asked = asked.expect(v1::RunOutcome::Failed, &["wave"]);
    let recorded = asked.bench.ledger.events.iter().find_map(|event| match &event.body {
        Some(Body::TaskSettled(settled)) => settled.output.clone(),
        _ => None,
    });
    let Some(v1::payload::Data::Inline(bytes)) = recorded.and_then(|output| output.data) else {
        panic!("the answer is in the log")
    };
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap()["mood"], "odd");
    let response = asked.response();
    assert_eq!(response["error"]["code"], "FATAL_ERROR");
    assert_eq!(response["error"]["recoverable"], false);
    assert!(response["error"]["details"].as_str().unwrap().contains("mood"), "{response}");
    assert!(!response["error"]["message"].as_str().unwrap().contains("mood"), "{response}");
    assert_eq!(asked.result().transition, None, "what breaks the contract says nothing");
}

#[test]
fn a_failed_answer_that_names_the_daemons_code_is_the_specs_own() {
    let asked = Asked::new().fails("FATAL_ERROR", false, None);
    assert_eq!(asked.response()["error"]["message"], "no");
}

#[test]
fn a_cancelled_ask_has_no_answer() {
    let mut asked = Asked::new();
    asked.bench = asked.bench.cancel();
    let asked = asked.expect(v1::RunOutcome::Cancelled, &["wave"]);
    assert_eq!(asked.result().response, None);
}

#[test]
fn a_suggestion_of_a_spec_that_does_not_exist_is_recorded_and_not_offered() {
    let asked = Asked::in_session(None, "req-1", START)
        .suggests("nobody", 0.9, false)
        .expect(v1::RunOutcome::Succeeded, &["wave"])
        .expect_verdict(v1::TransitionVerdict::Ignored, v1::TransitionBand::Prominent);
    assert!(asked.result().transition.unwrap().note.contains("nobody"));
    let mut session = asked.session();
    assert!(session.accept("req-1", Wall(START + 1)).is_err());
}

impl Asked {
    #[track_caller]
    fn result_of_first_call(&self) -> v1::Error {
        let settled = self.bench.ledger.events.iter().find_map(|event| match &event.body {
            Some(Body::TaskSettled(settled)) => settled.error.clone(),
            _ => None,
        });
        capataz_policy::retry::original(&settled.expect("the first call has failed")).clone()
    }
}

// S001-BP-05
#[test]
fn an_answer_that_is_refused_at_the_door_is_fatal_too() {
    for code in ["INVALID_OUTPUT", "OUTPUT_TOO_LARGE", "BLOB_NOT_FOUND"] {
        let ask = v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
        let mut asked = Asked::start(ask, None, START);
        let task = asked.call();
        asked.bench = asked.bench.does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "w".to_owned(),
        });
        let (lease, worker) = asked.bench.state.lease_of(task).expect("the call is leased");
        let report = Report::Failed(failure_of(code, "not JSON"));
        let input = reported(task, lease, worker, report);
        asked.bench = asked.bench.does(input);
        let error = asked.result_of_first_call();
        assert_eq!(error.code, "FATAL_ERROR");
        assert!(error.message.contains("kiro") && error.message.contains("not JSON"), "{}", error.message);
        asked.route().answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
    }
}

/// The answer as a blob, as the daemon's door hands it to a shard.
pub(super) fn large(answer: &[u8]) -> v1::Payload {
    let mut blob = v1::BlobRef::new("0".repeat(64), answer.len() as u64);
    blob.answer = Some(Box::new(capataz_contracts::spec::excerpt(answer)));
    let data = Some(v1::payload::Data::Blob(blob));
    v1::Payload { media_type: "application/json".to_owned(), data }
}

// S001-RS-18
#[test]
fn a_large_answer_counts_as_a_small_one_does() {
    let many: serde_json::Map<String, Value> =
        (0..10_000).map(|number| (format!("key-{number:04}"), json!("x".repeat(16)))).collect();
    let update = json!({ "emotional_state": "calm", "engagement_level": "high", "custom": many.clone() });
    let ended = |is_large: bool| {
        let gives = |asked: Asked, edit: &dyn Fn(&mut Value)| {
            let mut answer = asked.plain();
            answer["response"]["text"] = json!("ñ".repeat(20_000));
            answer["response"]["structured"] = json!({ "sections": ["x".repeat(40_000)] });
            edit(&mut answer);
            let answer = answer.to_string();
            asked.gives(if is_large { large(answer.as_bytes()) } else { super::json(&answer) })
        };
        // A failure that hands the text over, what it wants to be kept, and an answer with a suggestion.
        let ask = v1::Ask {
            request_id: Some("req-1".to_owned()),
            spec: Some("kiro".to_owned()),
            ..v1::Ask::default()
        };
        let asked = Asked::says_in_session(ask, None, START);
        let asked = gives(asked, &|answer| {
            answer["success"] = json!(false);
            answer["response"] = Value::Null;
            answer["error"] =
                json!({ "code": "OWN", "message": "no", "recoverable": false, "fallback_spec": "sage" });
            // More than an inline payload has room for.
            let first: serde_json::Map<String, Value> =
                many.iter().take(5_000).map(|(key, value)| (key.clone(), value.clone())).collect();
            answer["context_update"] = json!({ "engagement_level": "low", "custom": first });
        });
        let asked = gives(asked, &|answer| {
            answer["context_update"] = update.clone();
            answer["transition"] = json!({
                "suggest_spec": "kiro", "reason": "better there", "confidence": 0.9, "auto_transition": false,
            });
        });
        let asked = asked.expect(v1::RunOutcome::Succeeded, &["kiro", "sage"]);
        let result = asked.result();
        let bytes = asked.bench.state.bytes();
        (v1::AskResult { response: None, ..result.clone() }, result.response.unwrap(), asked.session(), bytes)
    };
    let (small, large) = (ended(false), ended(true));
    assert_eq!(large.0, small.0);
    assert_eq!(large.2.context(Wall(START)), small.2.context(Wall(START)));
    assert_eq!(large.0.left_out.map(|left_out| left_out.keys.len()), Some(1_264));
    // The whole of it is a blob, and the run holds what it goes by.
    let Some(v1::payload::Data::Blob(blob)) = large.1.data else { panic!("it is a blob") };
    assert!(blob.size > 300_000, "{}", blob.size);
    assert!(large.3 + 50_000 < small.3, "{} and {}", large.3, small.3);
}

#[test]
fn a_large_answer_that_breaks_the_contract_is_fatal_and_recorded() {
    let ask = || v1::Ask { spec: Some("kiro".to_owned()), ..v1::Ask::default() };
    let too_large = vec![b' '; 1024 * 1024 + 1];
    let mut unread = large(&too_large);
    let Some(v1::payload::Data::Blob(blob)) = &mut unread.data else { panic!("it is a blob") };
    blob.answer = None;
    let other = Asked::start(ask(), None, START).plain().to_string().replace("kiro", "other");
    for (output, named) in [
        (large(&too_large), "at most 1048576"),
        (large(b"{"), "syntax"),
        (large(other.as_bytes()), "\"other\""),
        (unread, "nobody has read it"),
    ] {
        let asked = Asked::start(ask(), None, START).gives(output.clone());
        let error = asked.result_of_first_call();
        assert_eq!(error.code, "FATAL_ERROR");
        assert!(error.message.contains("kiro") && error.message.contains(named), "{}", error.message);
        let recorded = asked.bench.ledger.events.iter().any(|event| match &event.body {
            Some(Body::TaskSettled(settled)) => settled.output.as_ref() == Some(&output),
            _ => false,
        });
        assert!(recorded, "{named}");
        asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["kiro", "wave"]);
    }
}

// S001-ER-01
#[test]
fn a_spec_that_does_not_answer_within_30_s_has_timed_out() {
    let mut asked = Asked::new();
    let task = asked.call();
    asked.bench = asked
        .bench
        .does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "w".to_owned(),
        })
        .after(30 * SECOND);
    assert_eq!(asked.bench.kinds(), ["task_cancel_requested", "task_attempt_failed"]);
    let failed = asked.bench.ledger.events.iter().find_map(|event| match &event.body {
        Some(Body::TaskAttemptFailed(failed)) => failed.error.clone(),
        _ => None,
    });
    assert_eq!(failed.unwrap().code, "PROCESSING_TIMEOUT");
}

// S001-ER-05
#[test]
fn a_spec_that_nobody_serves_is_not_available() {
    let ask = v1::Ask { spec: Some("sage".to_owned()), ..v1::Ask::default() };
    let mut asked = Asked::start(ask, None, START);
    asked.bench = asked.bench.after(5 * SECOND);
    assert_eq!(asked.result_of_first_call().code, "SPEC_NOT_AVAILABLE");
    asked.route().answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["sage", "wave"]);
}

#[test]
fn a_spec_whose_workers_are_busy_has_as_long_as_for_an_answer() {
    let mut asked = Asked::new();
    asked.bench = asked.bench.after(30 * SECOND);
    assert_eq!(asked.result_of_first_call().code, "PROCESSING_TIMEOUT");
    asked.expect(v1::RunOutcome::Failed, &["wave"]);
}

// S001-TR-08, S001-TR-09
#[test]
fn a_suggestion_is_shown_by_its_band() {
    use v1::TransitionBand::{Ignored as BelowAll, Prominent, Subtle};
    use v1::TransitionVerdict::{Ignored, Suggested};
    let rows = [
        (0.95, Suggested, Prominent),
        (0.8, Suggested, Subtle),
        (0.6, Suggested, Subtle),
        (0.59, Ignored, BelowAll),
    ];
    for (confidence, verdict, band) in rows {
        Asked::new()
            .suggests("kiro", confidence, false)
            .expect(v1::RunOutcome::Succeeded, &["wave"])
            .expect_verdict(verdict, band);
    }
}

// S001-TR-03
#[test]
fn an_automatic_transition_gives_the_same_text_to_the_other_spec() {
    let asked = Asked::new().suggests("kiro", 0.9, true);
    assert_eq!(asked.request()["text"], "Me siento perdido");
    assert_eq!(asked.request()["spec"], "kiro");
    let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave", "kiro"]);
    assert_eq!(asked.result().spec, "kiro");
    assert_eq!(asked.result().calls[1].reason(), v1::CallReason::Transition);
}

// S001-TR-04
#[test]
fn an_automatic_transition_needs_more_than_0_8() {
    let asked = Asked::new()
        .suggests("kiro", 0.8, true)
        .expect(v1::RunOutcome::Succeeded, &["wave"])
        .expect_verdict(v1::TransitionVerdict::Suggested, v1::TransitionBand::Subtle);
    assert!(!asked.result().transition.unwrap().note.is_empty(), "the spec is told why not");
}

#[test]
fn an_automatic_transition_to_nobody_is_ignored() {
    let asked = Asked::new()
        .suggests("nobody", 0.9, true)
        .expect(v1::RunOutcome::Succeeded, &["wave"])
        .expect_verdict(v1::TransitionVerdict::Ignored, v1::TransitionBand::Prominent);
    assert!(asked.result().transition.unwrap().note.contains("nobody"));
}

#[test]
fn two_specs_do_not_hand_a_text_to_and_fro() {
    Asked::new()
        .suggests("kiro", 0.9, true)
        .suggests("wave", 0.9, true)
        .expect(v1::RunOutcome::Succeeded, &["wave", "kiro"])
        .expect_verdict(v1::TransitionVerdict::Suppressed, v1::TransitionBand::Prominent);
}

/// A session in which `wave` handed over to `kiro` at [`START`].
#[track_caller]
fn handed_over() -> SessionState {
    let session = Asked::in_session(None, "req-1", START)
        .suggests("kiro", 0.9, true)
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["wave", "kiro"])
        .session();
    assert_eq!(session.context(Wall(START)).current_spec.as_deref(), Some("kiro"));
    session
}

// S001-TR-14
#[test]
fn within_a_minute_a_session_is_not_handed_back() {
    use v1::TransitionVerdict::{Suggested, Suppressed};
    for (later, verdict) in [(59_999, Suppressed), (60_000, Suggested)] {
        let asked = Asked::in_session(Some(handed_over()), "req-2", START + later);
        assert_eq!(asked.called(), ["kiro"], "the session goes on with its spec");
        asked
            .suggests("wave", 0.7, false)
            .expect(v1::RunOutcome::Succeeded, &["kiro"])
            .expect_verdict(verdict, v1::TransitionBand::Subtle);
    }
}

// S001-TR-13
#[test]
fn the_window_counts_in_the_same_direction_too() {
    use v1::TransitionVerdict::{Suggested, Suppressed};
    for (later, verdict) in [(59_999, Suppressed), (60_000, Suggested)] {
        let ask = v1::Ask {
            session: Some("s".to_owned()),
            spec: Some("wave".to_owned()),
            request_id: Some("req-2".to_owned()),
            ..v1::Ask::default()
        };
        let session = handed_over();
        let mut asked = Asked::begin(ask, Some(session), START + later);
        let context = asked.session.as_ref().unwrap().context(Wall(START + later));
        asked.bench = asked.bench.does(Input::SessionTurn { context });
        asked
            .route()
            .suggests("kiro", 0.85, false)
            .expect(v1::RunOutcome::Succeeded, &["wave"])
            .expect_verdict(verdict, v1::TransitionBand::Prominent);
    }
}

// S001-TR-01
#[test]
fn an_accepted_suggestion_moves_the_session_and_counts_for_the_window() {
    let mut session = Asked::in_session(None, "req-1", START).suggests("kiro", 0.75, false).session();
    assert_eq!(session.context(Wall(START)).current_spec.as_deref(), Some("wave"));
    assert!(session.accept("another", Wall(START)).is_err());
    assert_eq!((session.suggested("another"), session.suggested("req-1")), (None, Some("kiro")));
    let (accepted, decision) = session.accept("req-1", Wall(START + 1)).unwrap();
    assert_eq!((accepted.from.as_str(), accepted.to.as_str()), ("wave", "kiro"));
    assert!(decision.is_some());
    assert_eq!(session.suggested("req-1"), None, "it is not open any more");
    let (again, nothing) = session.accept("req-1", Wall(START + 2)).unwrap();
    assert_eq!((again, nothing), (accepted, None));
    let asked = Asked::in_session(Some(session), "req-2", START + 30_000);
    assert_eq!(asked.called(), ["kiro"]);
    asked
        .suggests("wave", 0.9, true)
        .expect_verdict(v1::TransitionVerdict::Suppressed, v1::TransitionBand::Prominent);
}

#[test]
fn a_fallback_does_not_move_the_session() {
    let first = Asked::in_session(None, "req-1", START).suggests("kiro", 0.9, true).answers(|_| ()).session();
    let asked = Asked::in_session(Some(first), "req-2", START + MINUTE)
        .fails("FATAL_ERROR", false, Some("sage"))
        .answers(|_| ())
        .expect(v1::RunOutcome::Succeeded, &["kiro", "sage"]);
    let session = asked.session();
    assert_eq!(session.context(Wall(START)).current_spec.as_deref(), Some("kiro"));
}

#[test]
fn a_session_whose_spec_is_gone_is_routed_anew() {
    let ask = v1::Ask { session: Some("s".to_owned()), ..v1::Ask::default() };
    let mut asked = Asked::begin(ask, None, START);
    let context = v1::SessionContext { current_spec: Some("retired".to_owned()), ..Default::default() };
    asked.bench = asked.bench.does(Input::SessionTurn { context });
    let asked = asked.route().answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave"]);
    assert_eq!(asked.result().calls[0].reason(), v1::CallReason::Routed);
}

// S001-RQ-15, S001-RQ-16, S001-RQ-18
#[test]
fn the_next_request_sees_what_the_last_answer_left() {
    let session = Asked::in_session(None, "req-1", START)
        .answers(|answer| {
            answer["context_update"] = json!({
                "emotional_state": "calm",
                "engagement_level": "high",
                "custom": { "topic": "career_change" },
            });
        })
        .session();
    let request = Asked::in_session(Some(session), "req-2", START + 5).request();
    assert_eq!(request["user"]["emotional_state"], "calm");
    assert_eq!(request["user"]["engagement_level"], "high");
    assert_eq!(request["metadata"]["custom"]["topic"], "career_change");
    assert_eq!(request["conversation"]["previous_spec"], "wave");
    assert_eq!(request["conversation"]["message_count"], 2);
    let history = request["conversation"]["history"].as_array().unwrap();
    assert_eq!(history[0]["role"], "user");
    assert_eq!((&history[1]["role"], &history[1]["spec"]), (&json!("assistant"), &json!("wave")));
}

// S001-BP-06, S001-RS-17
#[test]
fn what_a_spec_leaves_that_hands_over_is_seen_by_the_next_one_and_kept() {
    let asked = Asked::in_session(None, "req-1", START).answers(|answer| {
        answer["context_update"] = json!({ "emotional_state": "tense", "custom": { "topic": "job" } });
        answer["transition"] = json!({
            "suggest_spec": "kiro", "reason": "r", "confidence": 0.9, "auto_transition": true,
        });
    });
    assert_eq!(asked.request()["user"]["emotional_state"], "tense");
    assert_eq!(asked.request()["metadata"]["custom"]["topic"], "job");
    let session =
        asked.answers(|answer| answer["context_update"] = json!({ "custom": { "stage": "plan" } })).session();
    let context = session.context(Wall(START));
    assert_eq!(context.emotional_state.as_deref(), Some("tense"));
    let custom: Value = serde_json::from_slice(&context.custom).unwrap();
    assert_eq!(custom, json!({ "topic": "job", "stage": "plan" }));
}

#[test]
fn a_transition_that_is_accepted_while_an_ask_is_in_work_stays() {
    let first = Asked::in_session(None, "req-1", START).suggests("kiro", 0.75, false).session();
    let mut second = Asked::in_session(Some(first), "req-2", START + 5);
    assert_eq!(second.called(), ["wave"]);
    second.session.as_mut().unwrap().accept("req-1", Wall(START + 6)).unwrap();
    let session = second.answers(|_| ()).session();
    assert_eq!(session.context(Wall(START)).current_spec.as_deref(), Some("kiro"));
}

#[test]
fn an_ask_that_fails_moves_no_session() {
    let asked = Asked::in_session(None, "req-1", START)
        .suggests("kiro", 0.9, true)
        .fails("FATAL_ERROR", false, None)
        .expect(v1::RunOutcome::Failed, &["wave", "kiro"]);
    assert_eq!(asked.session().context(Wall(START)).current_spec, None);
}

// S001-BP-07
#[test]
fn an_answer_that_leads_to_another_attempt_is_recorded() {
    let asked = Asked::new().fails("TEMPORARY_ERROR", true, None);
    // The request, as it was given to the spec.
    let routed = asked.bench.ledger.events.iter().find_map(|event| match &event.body {
        Some(Body::AskRouted(routed)) => routed.wave.clone(),
        _ => None,
    });
    let recorded = routed.and_then(|wave| wave.tasks[0].input.clone());
    let Some(v1::payload::Data::Inline(bytes)) = recorded.and_then(|input| input.data) else {
        panic!("the request is in the log")
    };
    let request: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&request["spec"], &request["text"]), (&json!("wave"), &json!("Me siento perdido")));
    let event = asked.bench.ledger.events.last().and_then(|event| event.body.clone());
    let Some(Body::TaskAttemptFailed(failed)) = event else { panic!("an attempt failed") };
    assert!(failed.output.is_some());
}

#[test]
fn a_session_keeps_its_last_20_messages() {
    let mut session = None;
    for number in 0..15 {
        let asked = Asked::in_session(session, &format!("req-{number}"), START + number);
        session = Some(asked.answers(|_| ()).session());
    }
    let context = session.unwrap().context(Wall(START));
    assert_eq!((context.message_count, context.history.len()), (30, 20));
}

/// The request of an ask that finds this context.
#[track_caller]
fn request_within(ask: v1::Ask, context: v1::SessionContext) -> Value {
    let ask = v1::Ask { session: Some("s".to_owned()), ..ask };
    let mut asked = Asked::begin(ask, None, START);
    asked.bench = asked.bench.does(Input::SessionTurn { context });
    asked.route().request()
}

#[test]
fn a_text_of_a_session_that_is_cut_says_so() {
    let cases = [
        // Whole up to 4 KiB.
        ("x".repeat(4096), "x".repeat(4096)),
        ("x".repeat(4097), format!("{} […]", "x".repeat(4090))),
        // Never within a character: the mark has 6 bytes, and 4,090 are 2,045 of these.
        ("ñ".repeat(3_000), format!("{} […]", "ñ".repeat(2_045))),
        ("€".repeat(3_000), format!("{} […]", "€".repeat(1_363))),
    ];
    for (text, kept) in cases {
        let asked = Asked::in_session(None, "r", START);
        let session = asked.answers(|answer| answer["response"]["text"] = text.as_str().into()).session();
        let history = session.context(Wall(START)).history;
        assert_eq!(history[1].text, kept);
        assert!(history[1].text.len() <= 4096);
    }
}

#[test]
fn the_largest_request_has_all_20_messages() {
    // Each control character is six bytes of JSON: 24 KiB a message, 480 KiB in all.
    let message = v1::SessionMessage { text: "\u{1}".repeat(4_096), role: 1, ..Default::default() };
    let context = v1::SessionContext {
        history: vec![message; 20],
        custom: json!({ "kept": "x".repeat(256 * 1024 - 10) }).to_string().into(),
        ..Default::default()
    };
    let custom_json = Some(json!({ "own": "x".repeat(256 * 1024 - 9) }).to_string());
    let request = request_within(v1::Ask { custom_json, ..v1::Ask::default() }, context);
    assert!(request.to_string().len() > 1_000_000);
    assert_eq!(request["conversation"]["history"].as_array().unwrap().len(), 20);
}

#[test]
fn a_history_gives_way_to_the_contracts_limit_of_a_request() {
    let message = v1::SessionMessage { text: "\u{1}".repeat(10_000), role: 1, ..Default::default() };
    let context = v1::SessionContext { history: vec![message; 20], ..v1::SessionContext::default() };
    let request = request_within(v1::Ask::default(), context);
    assert!(request.to_string().len() <= 1024 * 1024);
    // 60,000 bytes each: 17 and what else the request has are less than 1 MiB, 18 are more.
    assert_eq!(request["conversation"]["history"].as_array().unwrap().len(), 17);
}

#[test]
fn preferences_and_custom_are_any_json_and_nothing_of_them_is_lost() {
    let values = json!({
        "nothing": null, "yes": true, "small": -7, "half": 0.5, "text": "sea", "none": [], "empty": {},
        "deep": { "list": [1, [null, { "a": "b" }]], "large": 18_446_744_073_709_551_615_u64 },
    });
    let (preferences, preferences_json) =
        capataz_contracts::free::divide(values.as_object().cloned().unwrap());
    let ask = v1::Ask {
        session: Some("s".to_owned()),
        preferences,
        preferences_json,
        custom_json: Some(values.to_string()),
        ..v1::Ask::default()
    };
    let mut asked = Asked::begin(ask, None, START);
    asked.bench = asked.bench.does(Input::SessionTurn { context: v1::SessionContext::default() });
    let asked = asked.route();
    assert_eq!(asked.request()["user"]["preferences"], values);
    assert_eq!(asked.request()["metadata"]["custom"], values);
    let kept = values.clone();
    let session = asked.answers(|answer| answer["context_update"] = json!({ "custom": kept })).session();
    let request = Asked::in_session(Some(session), "req-2", START + 5).request();
    assert_eq!(request["user"]["preferences"], values, "the session has kept them");
    assert_eq!(request["metadata"]["custom"], values);
}

#[test]
fn a_later_value_takes_the_place_of_an_earlier_one_of_another_type() {
    let prefers = |session: Option<SessionState>, preferences_json: &str, at| {
        let ask = v1::Ask {
            session: Some("s".to_owned()),
            request_id: Some(format!("req-{at}")),
            preferences_json: Some(preferences_json.to_owned()),
            ..v1::Ask::default()
        };
        let mut asked = Asked::begin(ask, session, START + at);
        let context = asked.session.as_ref().map(|state| state.context(Wall(START + at))).unwrap_or_default();
        asked.bench = asked.bench.does(Input::SessionTurn { context });
        asked.route().answers(|_| ()).session()
    };
    let session = prefers(None, r#"{"tone": "calm", "hour": 7}"#, 1);
    let session = prefers(Some(session), r#"{"tone": null}"#, 2);
    let session = prefers(Some(session), r#"{"hour": "seven"}"#, 3);
    let context = session.context(Wall(START + 4));
    assert_eq!(context.preferences, [("hour".to_owned(), "seven".to_owned())].into());
    assert_eq!(context.preferences_json.as_deref(), Some(r#"{"tone":null}"#));
}

#[test]
fn a_context_of_10_000_keys_is_kept_to_the_last_one() {
    // Each is `"key-0000":0,`: 13 bytes, 130,000 in all.
    let many: serde_json::Map<String, Value> =
        (0..10_000).map(|number| (format!("key-{number:04}"), json!(0))).collect();
    let custom = many.clone();
    let asked = Asked::in_session(None, "req-1", START)
        .answers(|answer| answer["context_update"] = json!({ "custom": custom }));
    assert_eq!(asked.result().left_out, None);
    let request = Asked::in_session(Some(asked.session()), "req-2", START + 5).request();
    assert_eq!(request["metadata"]["custom"], Value::Object(many));
}

#[test]
fn what_is_as_it_was_is_not_written_again() {
    let says = || v1::Ask { preferences: [("size".to_owned(), "s".to_owned())].into(), ..v1::Ask::default() };
    let turn = |asked: &Asked| asked.bench.state.rules().session_turn(&asked.bench.state, "run").unwrap();
    let ask = |session, at| Asked::says_in_session(says(), session, at);
    let first = ask(None, START).answers(|_| ());
    assert_eq!(turn(&first).preferences.len(), 1);
    let second = ask(Some(first.session()), START + 5).answers(|_| ());
    assert_eq!(turn(&second).preferences.len(), 0);
    assert_eq!(second.session().context(Wall(START)).preferences.len(), 1);
}

#[test]
fn nothing_is_left_out_where_nothing_is_kept() {
    let large = || json!({ "custom": { "a": "x".repeat(300_000) } });
    let alone = Asked::new().answers(|answer| answer["context_update"] = large());
    assert_eq!(alone.result().left_out, None, "there is no session");
    let in_one = Asked::in_session(None, "req-1", START).answers(|answer| answer["context_update"] = large());
    assert_eq!(in_one.result().left_out.map(|left_out| left_out.keys), Some(vec!["custom.a".to_owned()]));
}

// S001-RS-19
#[test]
fn what_does_not_fit_into_a_context_is_left_out_key_by_key_and_named() {
    // Each is `"key-0000":"xxxxxxxxxxxxxxxx",`: 30 bytes. 262,144 bytes have room for 8,738 of them, and 4 bytes more.
    let many: serde_json::Map<String, Value> =
        (0..10_000).map(|number| (format!("key-{number:04}"), json!("x".repeat(16)))).collect();
    let session = Asked::in_session(None, "req-1", START)
        .answers(|answer| answer["context_update"] = json!({ "custom": many, "emotional_state": "calm" }));
    let result = session.result();
    // Of the mood, `"emotional_state":"calm",`, there is first: 25 bytes, which leave room for 8,737.
    let expected: Vec<String> = (8_737..10_000).map(|number| format!("custom.key-{number:04}")).collect();
    assert_eq!(result.left_out, Some(v1::LeftOut { keys: expected, more: 0 }));
    let session = session.session();
    let context = session.context(Wall(START));
    assert_eq!(context.emotional_state.as_deref(), Some("calm"));
    let custom: serde_json::Map<String, Value> = serde_json::from_slice(&context.custom).unwrap();
    assert_eq!((custom.len(), custom.contains_key("key-8736")), (8_737, true));

    // What is there stays where its successor is too large, and a smaller one takes its place.
    let asked = Asked::in_session(Some(session), "req-2", START + 5).answers(|answer| {
        answer["context_update"] =
            json!({ "custom": { "key-0000": "x".repeat(1_000), "key-0001": "y" }, "engagement_level": "z" });
    });
    let left_out = Some(v1::LeftOut {
        keys: vec!["custom.key-0000".to_owned(), "engagement_level".to_owned()],
        more: 0,
    });
    assert_eq!(asked.result().left_out, left_out);
    let session = asked.session();
    let custom: Value = serde_json::from_slice(&session.context(Wall(START)).custom).unwrap();
    assert_eq!((&custom["key-0000"], &custom["key-0001"]), (&json!("x".repeat(16)), &json!("y")));
}

#[test]
fn what_an_ask_prefers_is_in_its_own_request_where_its_session_has_no_room_for_it() {
    let context = v1::SessionContext {
        custom: json!({ "kept": "x".repeat(256 * 1024 - 11) }).to_string().into(),
        ..Default::default()
    };
    let ask = v1::Ask { preferences_json: Some(r#"{"hour":7}"#.to_owned()), ..v1::Ask::default() };
    assert_eq!(request_within(ask, context)["user"]["preferences"], json!({ "hour": 7 }));
}

#[test]
fn an_ask_waits_for_its_turn_and_can_be_cancelled_meanwhile() {
    let ask = v1::Ask { session: Some("s".to_owned()), ..v1::Ask::default() };
    let asked = Asked::begin(ask, None, START);
    assert_eq!(asked.bench.kinds(), ["run_accepted"]);
    assert_eq!(asked.bench.effects(), []);
    let bench = asked.bench.cancel().expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!(session::record(&mut None, &bench.state, "run"), Ok(None), "nothing was said");
}

#[test]
fn a_cancelled_call_ends_the_ask_without_another_one() {
    let mut asked = Asked::new();
    let task = asked.call();
    asked.bench = asked
        .bench
        .does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "w".to_owned(),
        })
        .cancel();
    let asked = asked.says(&json!(null));
    asked.expect(v1::RunOutcome::Cancelled, &["wave"]);
}

#[test]
fn a_lost_worker_is_no_attempt_of_a_spec() {
    let mut asked = Asked::new();
    let task = asked.call();
    asked.bench = asked.bench.does(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task,
        worker: "w".to_owned(),
    });
    let lease = asked.bench.state.lease_of(task).unwrap().0;
    let reason = v1::LeaseLossReason::Disconnected;
    asked.bench = asked.bench.does(Input::LeaseLost { task, lease, reason });
    let asked = asked.answers(|_| ()).expect(v1::RunOutcome::Succeeded, &["wave"]);
    assert_eq!(asked.result().calls[0].attempts, 1);
}

/// What a spec may answer is the contract's to say.
#[test]
fn what_a_worker_declares_of_its_outputs_is_not_recorded_for_a_spec() {
    let asked = Asked::new();
    let task = asked.call();
    let output_schema = Some("false".into());
    let worker = "w".to_owned();
    let bench =
        asked.bench.does(Input::Lease { output_schema, cancel_is_final: false, mark: 0, task, worker });
    let recorded = bench.ledger.events.iter().find_map(|event| match &event.body {
        Some(Body::TaskLeased(leased)) => Some(leased.output_schema.clone()),
        _ => None,
    });
    assert_eq!(recorded, Some(None));
}

/// One thing that may happen to an ask.
#[derive(Clone, Debug)]
enum Happening {
    Answers,
    /// With a code, whether it may be tried again, and a spec that may be called instead.
    Fails(u8, bool, Option<u8>),
    Suggests(u8, u8, bool),
    /// The answer is not one.
    Babbles,
    IsLost,
    TimePasses(u16),
    IsPaused,
    IsResumed,
    IsCancelled,
}

fn happening() -> impl proptest::strategy::Strategy<Value = Happening> {
    use proptest::prelude::*;
    prop_oneof![
        2 => Just(Happening::Answers),
        6 => (any::<u8>(), any::<bool>(), any::<Option<u8>>())
            .prop_map(|(code, recoverable, fallback)| Happening::Fails(code, recoverable, fallback)),
        1 => (any::<u8>(), 0u8..=100, any::<bool>())
            .prop_map(|(spec, confidence, automatic)| Happening::Suggests(spec, confidence, automatic)),
        1 => Just(Happening::Babbles),
        2 => Just(Happening::IsLost),
        3 => any::<u16>().prop_map(Happening::TimePasses),
        1 => Just(Happening::IsPaused),
        2 => Just(Happening::IsResumed),
        1 => Just(Happening::IsCancelled),
    ]
}

impl Asked {
    #[track_caller]
    fn does(mut self, input: Input) -> Self {
        self.bench = self.bench.input(input);
        self.route()
    }

    fn happens(mut self, happening: &Happening, number: usize) -> Self {
        const CODES: [&str; 4] =
            ["PROCESSING_TIMEOUT", "SPEC_NOT_AVAILABLE", "INVALID_REQUEST", "FATAL_ERROR"];
        let fallbacks = ["wave", "kiro", "sage", "nobody"];
        let pick = |list: &[&'static str], index: u8| list[usize::from(index) % list.len()];
        let state = &self.bench.state;
        let task = self.call();
        let in_work = state.may_lease() && !state.is_finished() && state.is_queued(task);
        match *happening {
            Happening::Answers if in_work => self.answers(|_| ()),
            Happening::Fails(code, recoverable, fallback) if in_work => {
                let fallback = fallback.map(|index| pick(&fallbacks, index));
                self.fails(pick(&CODES, code), recoverable, fallback)
            }
            Happening::Suggests(spec, confidence, automatic) if in_work => {
                self.suggests(pick(&SPECS, spec), f64::from(confidence) / 100.0, automatic)
            }
            Happening::Babbles if in_work => self.says(&json!({ "success": "perhaps" })),
            Happening::IsLost if in_work => {
                let asked = self.does(Input::Lease {
                    output_schema: None,
                    cancel_is_final: false,
                    mark: 0,
                    task,
                    worker: "w".to_owned(),
                });
                let Some((lease, _)) = asked.bench.state.lease_of(task) else { return asked };
                asked.does(Input::LeaseLost { task, lease, reason: v1::LeaseLossReason::Silent })
            }
            Happening::TimePasses(seconds) => {
                self.bench.now = self.bench.now.plus(i64::from(seconds) * 100);
                self.does(Input::Tick { observed: BTreeMap::new() })
            }
            Happening::IsPaused => self.does(Input::Pause { request_id: format!("request {number}") }),
            Happening::IsResumed => self.does(Input::Resume { request_id: format!("request {number}") }),
            Happening::IsCancelled => {
                self.bench = self.bench.cancel();
                self
            }
            _ => self,
        }
    }
}

proptest::proptest! {
    /// Each step is compared with the fold of the log, and so is what a restart would find outstanding.
    #[test]
    fn whatever_happens_an_ask_ends_and_its_log_says_the_same(
        happenings in proptest::collection::vec(happening(), 0..30),
    ) {
        let mut asked = Asked::new();
        for (number, happening) in happenings.iter().enumerate() {
            if !asked.bench.state.is_finished() {
                asked = asked.happens(happening, number);
            }
        }
        // Everything goes well from now on.
        for number in 1_000..1_100 {
            if asked.bench.state.is_finished() {
                break;
            }
            asked = asked.happens(&Happening::IsResumed, number).happens(&Happening::Answers, number);
            asked = asked.happens(&Happening::TimePasses(600), number);
        }
        proptest::prop_assert!(asked.bench.state.is_finished(), "{:?}", asked.bench.state.status());
        proptest::prop_assert_eq!(asked.bench.state.outstanding(), [Effect::Finish], "nothing else is left to do");
        // A spec is called once at most: what was tried before is not tried again.
        let called = asked.called();
        let distinct: std::collections::BTreeSet<&String> = called.iter().collect();
        proptest::prop_assert_eq!(distinct.len(), called.len(), "{:?}", called);
        let succeeded = asked.bench.state.outcome() == Some(v1::RunOutcome::Succeeded);
        proptest::prop_assert!(!succeeded || asked.result().response.is_some());
    }
}

#[test]
fn a_rate_limit_that_an_ask_meets_holds_no_other_task_of_the_agent_and_that_of_other_runs_does() {
    assert!(!Asked::new().bench.state.limits_hold());
    assert!(Bench::plan("a").state.limits_hold());
    assert!(super::modes::begin(v1::ExecutionMode::Simple).state.limits_hold());
}

#[test]
fn only_tasks_of_plans_are_taken_back() {
    let asked = Asked::new();
    let name = asked.bench.run().waves[0].tasks[0].name.clone();
    let error = asked.bench.input(rollback(&name, false, "r")).expect_rule();
    assert_eq!(error.code, "INVALID_STATE_TRANSITION");
    assert!(error.message.contains("only tasks of plans are taken back"), "{}", error.message);
}
