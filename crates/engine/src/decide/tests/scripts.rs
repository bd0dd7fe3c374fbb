//! Scripts: browser actions with retries, recoveries, halts and proposals (seed 002; CONTRACTS §3).

mod browsers;

use prost::Message;

use super::*;
use crate::BROWSER_MEDIA_TYPE;

/// A script, and the browser's host, which says what became of each activity.
struct Scripted {
    bench: Bench,
}

/// What the host says of an action.
#[derive(Clone, Copy)]
enum Outcome<'a> {
    /// It succeeded, and left the page in this state.
    Ends(&'a str),
    /// It failed before anything was sent to the page.
    Fails(&'a str),
    /// It failed, and may have had its effect.
    FailsAfterInput(&'a str),
}

fn action(line: &str) -> v1::Action {
    let (kind, id) = line.split_once(' ').expect("a kind and an id");
    let kind = v1::ActionKind::from_str_name(&format!("ACTION_KIND_{}", kind.to_ascii_uppercase()));
    v1::Action {
        id: id.to_owned(),
        kind: kind.expect("the kind is known") as i32,
        criticality: Some(v1::Criticality::Normal as i32),
        ..v1::Action::default()
    }
}

fn script(lines: &[&str], policy: v1::ScriptPolicy) -> v1::Script {
    v1::Script {
        name: "form".to_owned(),
        actions: lines.iter().map(|line| action(line)).collect(),
        policy: Some(policy),
        run_id: "run".to_owned(),
        ..v1::Script::default()
    }
}

/// Digits that look like a hash and belong to one text.
fn hash_of(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<64}")
}

fn signature(page: &str) -> Option<v1::StateSignature> {
    Some(v1::StateSignature {
        schema_version: "v1".to_owned(),
        url: page.to_owned(),
        dom_hash: hash_of(page),
        anchors_hash: hash_of("anchors"),
        inputs_hash: hash_of("inputs"),
        screenshot_hash: hash_of("picture"),
        ..v1::StateSignature::default()
    })
}

fn snapshot_of(page: &str) -> v1::EvidenceRef {
    v1::EvidenceRef {
        id: hash_of(&format!("snapshot of {page}")),
        kind: "dom_snapshot_partial".to_owned(),
        media_type: "application/json".to_owned(),
        ..v1::EvidenceRef::default()
    }
}

/// All the evidence that any error needs (seed 002, section 3).
fn all_evidence(page: &str) -> Vec<v1::EvidenceRef> {
    let kinds = ["state_signature", "html_full", "screenshot_before", "screenshot_after"];
    let more = kinds.into_iter().map(|kind| v1::EvidenceRef {
        id: hash_of(&format!("{kind} of {page}")),
        kind: kind.to_owned(),
        media_type: "application/octet-stream".to_owned(),
        ..v1::EvidenceRef::default()
    });
    std::iter::once(snapshot_of(page)).chain(more).collect()
}

/// What section 6 of seed 002 obliges the code's details to.
fn details_of(code: &str) -> serde_json::Value {
    use serde_json::json;
    match code {
        "TARGET_NOT_FOUND" => {
            json!({"target_resolution_order": ["testid"], "target": {"testid": "a"}, "count_observed": 0})
        }
        "TARGET_NOT_UNIQUE" => json!({"count_observed": 2, "matches_sample": ["button", "button"]}),
        "INVALID_ACTIONSPEC" => json!({"validation_errors": [], "violated_rules": ["U2"]}),
        "POLICY_HALT" => json!({"policy_reason": "max_steps", "policy_thresholds": {}}),
        "DOMAIN_BLOCKED" => json!({"host": "evil.test", "allowlist": ["shop.test"]}),
        "ACTION_CRITICAL_BLOCKED" => json!({"critical_reason": "unsafe_domain_escape"}),
        "NAVIGATION_TIMEOUT" => json!({"timeout_ms": 10, "wait_condition": "load"}),
        "UPLOAD_FAILED" => json!({"file_ref": "a.pdf", "upload_signal": null}),
        "DOWNLOAD_FAILED" => json!({"expected_download": true}),
        "AUTH_FAILED" => json!({"auth_signal": {"text": "no"}}),
        "NAVIGATION_FAILED" => json!({"net_error": "net::ERR_FAILED", "url": "http://shop.test/"}),
        "BROWSER_LOST" => json!({"reason": "as the test says"}),
        "EVIDENCE_FAILED" => json!({"original_code": ""}),
        _ => json!({}),
    }
}

/// A whole error of the activity that the host is asked for (seed 002, sections 2 to 6).
fn whole(asked: &v1::BrowserTask, code: &str, page: &str) -> v1::ExecutorError {
    let action = asked.action.clone().unwrap_or_default();
    let is_normal = action.criticality() != v1::Criticality::Critical;
    let goes_on = is_normal && action.on_failure() == v1::OnFailure::Continue;
    let severity = match code {
        "ACTION_CRITICAL_BLOCKED" | "BROWSER_LOST" | "EVIDENCE_FAILED" => v1::ExecutorSeverity::Critical,
        "POLICY_HALT" => v1::ExecutorSeverity::Error,
        _ if goes_on => v1::ExecutorSeverity::Warning,
        _ => v1::ExecutorSeverity::Error,
    };
    let condition = |phase: &str| v1::FailedCondition {
        kind: "visible".to_owned(),
        args: Some("{}".to_owned()),
        phase: phase.to_owned(),
    };
    v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: code.to_owned(),
        stage: v1::ActionStage::Precondition as i32,
        severity: severity as i32,
        message: "as the test says".to_owned(),
        retryable: Some(false),
        run_id: "run".to_owned(),
        step_index: asked.step_index,
        action_id: action.id.clone(),
        action_kind: action.kind,
        criticality: action.criticality.unwrap_or(v1::Criticality::Normal as i32),
        state_before: signature(page),
        evidence_refs: all_evidence(page),
        created_at: "2023-11-14T22:13:20.000Z".to_owned(),
        state_after: (code == "POSTCONDITION_FAILED").then(|| signature(page)).flatten(),
        details: Some(details_of(code).to_string()),
        failed_conditions: match code {
            "PRECONDITION_FAILED" => vec![condition("pre")],
            "POSTCONDITION_FAILED" => vec![condition("post")],
            _ => Vec::new(),
        },
        debug_message: Some("policy passed, precondition failed".to_owned()),
        action_spec: Some(action),
        ..v1::ExecutorError::default()
    }
}

impl Scripted {
    #[track_caller]
    fn start(script: v1::Script) -> Self {
        let work = Work::Script(Box::new(script));
        let request = StartRun { work, labels: BTreeMap::new(), parent: None, lineage: None };
        let now = Timestamp(START);
        let (state, decision) = start(SEED, request, Wall(START)).expect("the script starts");
        let mut ledger = Ledger::default();
        ledger.observe(&state, &decision);
        ledger.compare_fold(&state);
        Self { bench: Bench { state, ledger, now, ahead: 0, last: Ok(decision), small: true } }
    }

    /// A script whose browser is open.
    #[track_caller]
    fn opened(lines: &[&str], policy: v1::ScriptPolicy) -> Self {
        Self::start(script(lines, policy)).opens()
    }

    #[track_caller]
    fn opens(self) -> Self {
        self.says(v1::BrowserOutcome { browser: "Chromium 148".to_owned(), ..v1::BrowserOutcome::default() })
    }

    fn current(&self) -> TaskRef {
        TaskRef { wave: self.bench.state.current_wave(), task: 0 }
    }

    /// What the host is asked to do.
    fn asked(&self) -> v1::BrowserTask {
        let input =
            self.bench.state.assignment(self.current()).and_then(|assignment| assignment.input.cloned());
        match input.and_then(|input| input.data) {
            Some(v1::payload::Data::Inline(bytes)) => v1::BrowserTask::decode(bytes).unwrap(),
            _ => panic!("no activity of a browser"),
        }
    }

    #[track_caller]
    fn expect_asked(self, activity: v1::BrowserActivity, id: &str) -> Self {
        let asked = self.asked();
        assert_eq!(asked.activity(), activity);
        assert_eq!(asked.action.map(|action| action.id).unwrap_or_default(), id);
        self
    }

    #[track_caller]
    fn lease(mut self) -> Self {
        let task = self.current();
        self.bench = self.bench.does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "host".to_owned(),
        });
        self
    }

    #[track_caller]
    fn says(self, outcome: v1::BrowserOutcome) -> Self {
        let mut scripted = self.lease();
        let task = scripted.current();
        let (lease, _) = scripted.bench.state.lease_of(task).expect("leased");
        let output = v1::Payload {
            media_type: BROWSER_MEDIA_TYPE.to_owned(),
            data: Some(v1::payload::Data::Inline(outcome.encode_to_vec().into())),
        };
        scripted.bench = scripted.bench.does(reported(task, lease, "host", Report::Completed(output)));
        scripted
    }

    #[track_caller]
    fn acts(self, outcome: Outcome<'_>) -> Self {
        self.acts_with(outcome, |_| {})
    }

    /// The error, where there is one, is changed first.
    #[track_caller]
    fn acts_with(self, outcome: Outcome<'_>, change: impl Fn(&mut v1::ExecutorError)) -> Self {
        let asked = self.asked();
        let error = |code: &str| {
            let mut error = whole(&asked, code, "before");
            change(&mut error);
            error
        };
        let stages = vec![v1::StageRecord {
            stage: v1::ActionStage::ProposalValidation as i32,
            passed: true,
            duration_us: 5,
        }];
        self.says(match outcome {
            Outcome::Ends(page) => v1::BrowserOutcome {
                stages,
                state_before: signature("before"),
                state_after: signature(page),
                evidence: vec![snapshot_of(page)],
                touched: true,
                // It counts where a browser is opened.
                keeps: true,
                ..v1::BrowserOutcome::default()
            },
            Outcome::Fails(code) => {
                v1::BrowserOutcome { stages, error: Some(error(code)), ..v1::BrowserOutcome::default() }
            }
            Outcome::FailsAfterInput(code) => v1::BrowserOutcome {
                stages,
                error: Some(error(code)),
                touched: true,
                ..v1::BrowserOutcome::default()
            },
        })
    }

    /// What the engine has decided that this activity fails with; nothing is performed.
    #[track_caller]
    fn decided(&self) -> v1::DecidedFailure {
        self.asked().failure.expect("the engine has decided it")
    }

    /// The host makes the error of what was decided.
    #[track_caller]
    fn tells(self) -> Self {
        let v1::DecidedFailure { error_code, message, details } = self.decided();
        let error = v1::ExecutorError { message, details, ..whole(&self.asked(), &error_code, "now") };
        self.says(v1::BrowserOutcome { error: Some(error), ..v1::BrowserOutcome::default() })
    }

    /// The holder of the activity's lease is gone.
    #[track_caller]
    fn loses_its_host(self) -> Self {
        let leased = self.lease();
        let task = leased.current();
        let (lease, _) = leased.bench.state.lease_of(task).expect("leased");
        leased.does(Input::LeaseLost { task, lease, reason: v1::LeaseLossReason::Restarted })
    }

    /// The same, until it is given up.
    #[track_caller]
    fn loses_its_host_always(mut self) -> Self {
        for _ in 0..5 {
            self = self.loses_its_host();
        }
        self
    }

    #[track_caller]
    fn after(mut self, milliseconds: i64) -> Self {
        self.bench = self.bench.after(milliseconds);
        self
    }

    #[track_caller]
    fn does(mut self, input: Input) -> Self {
        self.bench = self.bench.does(input);
        self
    }

    /// The session goes on, nothing of it is in work, and the time runs after which it is closed.
    fn awaits_a_proposal(&self) -> bool {
        let state = &self.bench.state;
        let rests = state.leases().next().is_none() && state.queued().next().is_none();
        !state.is_finished() && rests && state.next_deadline().is_some()
    }

    fn failures(&self) -> Vec<(u64, v1::ActionFailed)> {
        let events = self.bench.ledger.events.iter();
        let failures = events.filter_map(|event| match event.body.as_ref()? {
            Body::ActionFailed(failed) => Some((event.seq, (**failed).clone())),
            _ => None,
        });
        failures.collect()
    }

    /// What is recorded of the actions that have succeeded.
    fn finished(&self) -> Vec<v1::ActionFinished> {
        let events = self.bench.ledger.events.iter();
        let finished = events.filter_map(|event| match event.body.as_ref()? {
            Body::ActionFinished(finished) => Some((**finished).clone()),
            _ => None,
        });
        finished.collect()
    }

    fn result(&self) -> v1::RunResult {
        self.bench.state.result(usize::MAX).expect("the run has ended")
    }

    /// The run has ended with this code; the error knows the number of its own event.
    #[track_caller]
    fn expect_ended_with(self, code: &str) -> v1::ExecutorError {
        let (seq, last) = self.failures().pop().expect("a failure");
        let error = last.error.expect("an error");
        assert_eq!((error.error_code.as_str(), error.seq), (code, seq));
        let scripted =
            Self { bench: self.bench.expect_outcome(v1::RunOutcome::Failed).expect_run_error(code) };
        assert_eq!(scripted.result().script().and_then(|script| script.error.clone()), Some(error.clone()));
        error
    }

    #[track_caller]
    fn expect_ended(self, outcome: v1::RunOutcome) -> Self {
        Self { bench: self.bench.expect_outcome(outcome) }
    }
}

fn retries_on(codes: &[&str]) -> v1::ScriptPolicy {
    v1::ScriptPolicy {
        retry_on: codes.iter().map(|&code| code.to_owned()).collect(),
        ..v1::ScriptPolicy::default()
    }
}

fn recovers_from(code: &str) -> v1::ScriptPolicy {
    let rule = v1::Recovery {
        on: vec![code.to_owned()],
        r#do: v1::RecoveryKind::CloseOverlay as i32,
        target: Some(v1::Target { testid: Some("close".to_owned()), ..v1::Target::default() }),
    };
    v1::ScriptPolicy { recovery: vec![rule], ..v1::ScriptPolicy::default() }
}

fn details(error: &v1::ExecutorError) -> serde_json::Value {
    serde_json::from_str(error.details.as_deref().unwrap_or("null")).unwrap()
}

use Outcome::{Ends, Fails, FailsAfterInput};
use v1::BrowserActivity::{Action, Close, Recovery};

#[test]
fn a_script_opens_a_browser_performs_its_actions_in_order_and_closes_it() {
    let scripted = Scripted::opened(&["navigate go", "click send"], v1::ScriptPolicy::default())
        .expect_asked(Action, "go")
        .acts(Ends("/form"))
        .expect_asked(Action, "send")
        .acts(Ends("/thanks"))
        .expect_asked(Close, "");
    assert!(scripted.asked().keep_storage);
    let ended = scripted.says(v1::BrowserOutcome::default()).expect_ended(v1::RunOutcome::Succeeded);
    let result = ended.result().script().unwrap().clone();
    assert_eq!((result.succeeded, result.failed, result.total), (2, 0, 2));
}

#[test]
fn an_action_and_what_follows_it_are_one_decision() {
    let scripted =
        Scripted::opened(&["navigate go", "click send"], v1::ScriptPolicy::default()).acts(Ends("/form"));
    scripted.bench.expect_kinds(&[
        "stage_finished",
        "action_finished",
        "task_settled",
        "browser_activity_started",
    ]);
}

// S002-FI-06, S002-FI-07
#[test]
fn a_failure_ends_the_script_with_the_error_that_has_the_number_of_its_event() {
    let error = Scripted::opened(&["click send", "click more"], v1::ScriptPolicy::default())
        .acts(Fails("TARGET_NOT_FOUND"))
        .expect_ended_with("TARGET_NOT_FOUND");
    assert_eq!(error.retryable, Some(false));
}

// S002-CO-05, S002-FI-18
#[test]
fn a_listed_code_is_tried_again_after_the_backoff_until_the_limit_halts_the_script() {
    let mut scripted = Scripted::opened(&["click send"], retries_on(&["TARGET_NOT_FOUND"]));
    for wait in [500, 1_000] {
        scripted = scripted.acts(Fails("TARGET_NOT_FOUND"));
        let failed = scripted.failures().pop().unwrap().1;
        assert_eq!(failed.next(), v1::AfterFailure::Retry);
        assert_eq!(failed.error.unwrap().retryable, Some(true));
        scripted = scripted.after(wait - 1);
        assert!(!scripted.bench.state.is_queued(scripted.current()), "{wait} ms are not over");
        scripted = scripted.after(1);
    }
    let scripted = scripted.acts(Fails("TARGET_NOT_FOUND"));
    let all = scripted.failures();
    assert_eq!(all.len(), 4);
    let error = scripted.expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "retry_limit");
    assert_eq!(details(&error)["policy_thresholds"]["retry_limit"], 2);
    assert_eq!(details(&error)["last_error"], "TARGET_NOT_FOUND");
    assert_eq!(error.evidence_refs, all_evidence("before"));
    assert_eq!(error.debug_message.as_deref(), Some("the last attempt: policy passed, precondition failed"));
}

#[test]
fn a_limit_that_is_reached_halts_a_script_and_a_session_that_would_have_gone_on() {
    let mut goes_on = script(&["click send", "click more"], retries_on(&["TARGET_NOT_FOUND"]));
    goes_on.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    goes_on.actions[0].retry = Some(v1::ActionRetry { limit: Some(1), ..v1::ActionRetry::default() });
    let scripted = Scripted::start(goes_on).opens().acts(Fails("TARGET_NOT_FOUND")).after(500);
    let error = scripted.acts(Fails("TARGET_NOT_FOUND")).expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "retry_limit");
    assert_eq!(details(&error)["policy_thresholds"]["retry_limit"], 1, "the action's own limit applied");

    let mut session = script(&[], retries_on(&["TARGET_NOT_FOUND"]));
    session.interactive = true;
    let mut scripted = Scripted::start(session).opens().does(propose("click send", "1"));
    for wait in [500, 1_000] {
        scripted = scripted.acts(Fails("TARGET_NOT_FOUND")).after(wait);
    }
    scripted.acts(Fails("TARGET_NOT_FOUND")).expect_ended_with("POLICY_HALT");
}

#[test]
fn what_the_policy_has_made_critical_is_neither_repeated_nor_passed_over() {
    let mut raised = script(&["click send", "click more"], retries_on(&["POSTCONDITION_FAILED"]));
    raised.actions[0].repeatable = Some(true);
    raised.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    let scripted = Scripted::start(raised).opens();
    let critical = |error: &mut v1::ExecutorError| {
        error.set_criticality(v1::Criticality::Critical);
        // No script goes on after it.
        error.set_severity(v1::ExecutorSeverity::Error);
    };
    scripted
        .acts_with(FailsAfterInput("POSTCONDITION_FAILED"), critical)
        .expect_ended_with("POSTCONDITION_FAILED");
}

#[test]
fn a_code_that_is_not_listed_is_not_tried_again() {
    Scripted::opened(&["click send"], retries_on(&["TARGET_NOT_FOUND"]))
        .acts(Fails("TARGET_NOT_UNIQUE"))
        .expect_ended_with("TARGET_NOT_UNIQUE");
}

#[test]
fn what_was_sent_to_the_page_is_not_sent_again_unless_it_is_declared_repeatable() {
    let policy = || retries_on(&["POSTCONDITION_FAILED"]);
    Scripted::opened(&["click send"], policy())
        .acts(FailsAfterInput("POSTCONDITION_FAILED"))
        .expect_ended_with("POSTCONDITION_FAILED");

    let mut repeatable = script(&["click send"], policy());
    repeatable.actions[0].repeatable = Some(true);
    let scripted = Scripted::start(repeatable.clone()).opens().acts(FailsAfterInput("POSTCONDITION_FAILED"));
    assert_eq!(scripted.failures().pop().unwrap().1.next(), v1::AfterFailure::Retry);

    repeatable.actions[0].criticality = Some(v1::Criticality::Critical as i32);
    Scripted::start(repeatable)
        .opens()
        .acts(FailsAfterInput("POSTCONDITION_FAILED"))
        .expect_ended_with("POSTCONDITION_FAILED");
}

// S002-CO-06
#[test]
fn a_declared_recovery_comes_before_the_next_try_and_its_limit_halts_the_script() {
    let mut scripted = Scripted::opened(&["click send"], recovers_from("OVERLAY_BLOCKING"));
    for _ in 0..2 {
        scripted = scripted.acts(Fails("OVERLAY_BLOCKING")).expect_asked(Recovery, "send");
        let recovery = scripted.asked().action.unwrap();
        assert_eq!(recovery.kind(), v1::ActionKind::Click);
        assert_eq!(recovery.target.unwrap().testid.as_deref(), Some("close"));
        scripted = scripted.acts(Ends("/form")).expect_asked(Action, "send");
    }
    let error = scripted.acts(Fails("OVERLAY_BLOCKING")).expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "recovery_limit");
    assert_eq!(error.debug_message.as_deref(), Some("the last attempt: policy passed, precondition failed"));
}

#[test]
fn a_recovery_that_fails_is_no_verdict_on_the_action() {
    Scripted::opened(&["click send"], recovers_from("OVERLAY_BLOCKING"))
        .acts(Fails("OVERLAY_BLOCKING"))
        .acts(Fails("TARGET_NOT_FOUND"))
        .expect_asked(Action, "send")
        .acts(Ends("/thanks"))
        .says(v1::BrowserOutcome::default())
        .expect_ended(v1::RunOutcome::Succeeded);
}

#[test]
fn an_action_may_fail_without_ending_the_script_where_it_says_so() {
    let mut with_optional = script(&["click banner", "click send"], v1::ScriptPolicy::default());
    with_optional.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    let ended = Scripted::start(with_optional)
        .opens()
        .acts(Fails("TARGET_NOT_FOUND"))
        .expect_asked(Action, "send")
        .acts(Ends("/thanks"))
        .says(v1::BrowserOutcome::default())
        .expect_ended(v1::RunOutcome::SucceededWithFailures);
    let result = ended.result().script().unwrap().clone();
    assert_eq!((result.succeeded, result.failed), (1, 1));
}

// S002-CO-03, S002-FI-08
#[test]
fn the_first_action_beyond_max_steps_is_not_performed_and_the_host_shows_the_page() {
    let policy = v1::ScriptPolicy { max_steps: Some(1), ..v1::ScriptPolicy::default() };
    let scripted = Scripted::opened(&["navigate go", "click send"], policy)
        .acts(Ends("/form"))
        .expect_asked(Action, "send");
    assert_eq!(scripted.decided().error_code, "POLICY_HALT");
    let error = scripted.tells().expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "max_steps");
    assert_eq!(details(&error)["policy_thresholds"]["max_steps"], 1);
    assert_eq!((error.step_index, error.action_id.as_str()), (Some(1), "send"));
    assert_eq!(error.evidence_refs, all_evidence("now"));
}

#[test]
fn a_halt_ends_the_script_whatever_the_host_says_of_it() {
    let halted = || {
        let policy = v1::ScriptPolicy { max_steps: Some(0), ..retries_on(&["EVIDENCE_FAILED"]) };
        let mut script = script(&["click send", "click more"], policy);
        script.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
        Scripted::start(script).opens()
    };
    halted().tells().expect_ended_with("POLICY_HALT");
    halted().acts(Fails("EVIDENCE_FAILED")).expect_ended_with("EVIDENCE_FAILED");
    // It cannot have been performed.
    let ended = halted().acts(Ends("/form")).expect_ended(v1::RunOutcome::Failed);
    ended.bench.expect_run_error("INVALID_OUTPUT");
}

#[test]
fn a_halt_that_a_restart_interrupts_is_said_again_and_nobody_is_asked() {
    let policy = v1::ScriptPolicy { max_steps: Some(0), ..v1::ScriptPolicy::default() };
    let scripted = Scripted::opened(&["click send"], policy).loses_its_host();
    assert!(scripted.bench.state.is_queued(scripted.current()));
    scripted.tells().expect_ended_with("POLICY_HALT");
}

#[test]
fn the_limits_hold_after_an_action_that_was_tried_again_as_well() {
    let policy = v1::ScriptPolicy { max_steps: Some(1), ..retries_on(&["TARGET_NOT_FOUND"]) };
    let error = Scripted::opened(&["navigate go", "click send"], policy)
        .acts(Fails("TARGET_NOT_FOUND"))
        .after(500)
        .acts(Ends("/form"))
        .tells()
        .expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "max_steps");
}

// S002-CO-04
#[test]
fn a_state_may_be_seen_again_three_times_by_what_changes_something() {
    let lines: Vec<String> = (1..=6).map(|number| format!("click again-{number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut scripted = Scripted::opened(&lines, v1::ScriptPolicy::default());
    for _ in 0..5 {
        scripted = scripted.acts(Ends("/same"));
    }
    let error = scripted.tells().expect_ended_with("POLICY_HALT");
    assert_eq!(details(&error)["policy_reason"], "same_state_revisit");
    assert_eq!(details(&error)["observed"], 4);
}

#[test]
fn looking_at_a_state_is_no_visit() {
    let lines = ["extract a", "extract b", "extract c", "extract d", "extract e", "extract f", "click g"];
    let mut scripted = Scripted::opened(&lines, v1::ScriptPolicy::default());
    for _ in 0..6 {
        scripted = scripted.acts(Ends("/same"));
    }
    scripted.expect_asked(Action, "g");
}

#[test]
fn nobody_repeats_an_action_of_which_nobody_knows_what_became() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default()).loses_its_host();
    let bench = scripted.bench.expect_status(v1::RunStatus::Waiting);
    let asked = Scripted { bench: bench.answer("succeeded") };
    asked.expect_asked(Close, "");
}

#[test]
fn an_action_that_is_done_as_a_person_says_counts_and_the_script_goes_on() {
    let lost = Scripted::opened(&["click send", "click more"], v1::ScriptPolicy::default())
        .acts(Ends("/form"))
        .loses_its_host();
    let answered = Scripted { bench: lost.bench.answer("succeeded") };
    let kinds = ["question_answered", "action_finished", "task_settled", "browser_activity_started"];
    assert_eq!(answered.bench.kinds(), kinds);
    let told = v1::ActionFinished {
        step_index: 1,
        action_id: "more".to_owned(),
        activity: Action as i32,
        ..v1::ActionFinished::default()
    };
    assert_eq!(answered.finished().pop(), Some(told), "nobody has seen the page, and nobody is waited for");
    let closing = answered.expect_asked(Close, "");
    assert_eq!(closing.asked().last_state, signature("/form"), "it is the last one that was seen");
    let ended = closing.says(v1::BrowserOutcome::default()).expect_ended(v1::RunOutcome::Succeeded);
    let result = ended.result().script().unwrap().clone();
    assert_eq!((result.succeeded, result.failed, result.total), (2, 0, 2));
}

#[test]
fn an_unknown_outcome_that_a_person_calls_a_failure_ends_the_script() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default()).loses_its_host();
    let scripted = Scripted { bench: scripted.bench.answer("failed") }.expect_asked(Action, "send");
    assert_eq!(scripted.decided().error_code, "BROWSER_LOST");
    let error = scripted.tells().expect_ended_with("BROWSER_LOST");
    assert_eq!(details(&error)["original_code"], "OUTCOME_UNKNOWN");
    assert_eq!((error.step_index, error.action_id.as_str()), (Some(0), "send"));
}

#[test]
fn an_activity_whose_host_loses_its_host_always_ends_the_script_with_an_error_of_the_executor() {
    let script = || script(&["extract title"], v1::ScriptPolicy::default());
    let cases = [
        (Scripted::start(script()), "browser:open"),
        (Scripted::start(script()).opens(), "title"),
        (Scripted::start(script()).opens().acts(Ends("/a")), "browser:close"),
    ];
    for (scripted, id) in cases {
        let error = scripted.loses_its_host_always().tells().expect_ended_with("BROWSER_LOST");
        assert_eq!(details(&error)["original_code"], "WORKER_LOST");
        assert_eq!(error.action_id, id);
    }
}

#[test]
fn a_host_that_does_not_come_back_in_time_ends_the_script_with_an_error_of_the_executor() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default()).lease();
    let timeout = scripted.bench.state.plan.timeouts_of(scripted.current()).timeout();
    let timeout = i64::try_from(timeout.as_millis()).unwrap();
    let error = scripted.after(timeout).after(5 * SECOND).tells().expect_ended_with("BROWSER_LOST");
    assert_eq!(details(&error)["original_code"], "TASK_TIMEOUT");
    assert_eq!(error.action_id, "send");
}

#[test]
fn a_host_that_is_lost_while_it_says_what_became_of_an_activity_is_not_asked_again() {
    let scripted = Scripted::opened(&["extract title"], v1::ScriptPolicy::default());
    let ended = scripted.loses_its_host_always().loses_its_host_always().expect_ended(v1::RunOutcome::Failed);
    assert_eq!(ended.result().script().unwrap().error, None);
    ended.bench.expect_run_error("WORKER_LOST");
}

#[test]
fn what_only_reads_is_simply_done_again() {
    let scripted = Scripted::opened(&["extract title"], v1::ScriptPolicy::default()).loses_its_host();
    assert!(scripted.bench.state.is_queued(scripted.current()));
}

#[test]
fn a_lost_browser_ends_the_script_whatever_its_policy_says() {
    let mut script = script(&["click send"], retries_on(&["BROWSER_LOST"]));
    script.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    Scripted::start(script).opens().acts(Fails("BROWSER_LOST")).expect_ended_with("BROWSER_LOST");
}

#[test]
fn a_browser_that_does_not_open_or_close_ends_the_script_with_an_error_that_names_what_it_is_of() {
    let fails = || {
        let error = whole(&v1::BrowserTask::default(), "BROWSER_LOST", "before");
        v1::BrowserOutcome { error: Some(error), ..v1::BrowserOutcome::default() }
    };
    let check = |error: v1::ExecutorError, id: &str, step: u32| {
        assert_eq!((error.action_id.as_str(), error.step_index), (id, Some(step)));
        assert_eq!(
            (error.action_kind(), error.criticality()),
            (v1::ActionKind::Navigate, v1::Criticality::Normal)
        );
        assert_eq!(error.action_spec.map(|action| action.id).as_deref(), Some(id));
    };
    let script = || Scripted::start(script(&["click a", "click b"], v1::ScriptPolicy::default()));
    check(script().says(fails()).expect_ended_with("BROWSER_LOST"), "browser:open", 0);
    let performed = script().opens().acts(Ends("/a")).acts(Ends("/b"));
    check(performed.says(fails()).expect_ended_with("BROWSER_LOST"), "browser:close", 1);
}

type Change = fn(&mut v1::ExecutorError);

/// What seed 002 obliges a `POSTCONDITION_FAILED` of a critical action to, each part taken away or made wrong (sections 2 to
/// 6), and the place where that is told.
const BROKEN: [(Change, &str); 16] = [
    (|error| error.evidence_refs.clear(), "evidence_refs"),
    (|error| error.evidence_refs.retain(|piece| piece.kind != "dom_snapshot_partial"), "evidence_refs"),
    (|error| error.evidence_refs.retain(|piece| piece.kind != "state_signature"), "evidence_refs"),
    (|error| error.evidence_refs.retain(|piece| piece.kind != "html_full"), "evidence_refs"),
    (|error| error.evidence_refs.retain(|piece| piece.kind != "screenshot_before"), "evidence_refs"),
    (|error| error.evidence_refs.retain(|piece| piece.kind != "screenshot_after"), "evidence_refs"),
    (|error| error.state_before = None, "state_before"),
    (|error| error.state_before.as_mut().unwrap().screenshot_hash.clear(), "state_before.screenshot_hash"),
    (|error| error.state_after = None, "state_after"),
    (|error| error.failed_conditions.clear(), "failed_conditions"),
    (|error| "pre".clone_into(&mut error.failed_conditions[0].phase), "failed_conditions[0].phase"),
    (|error| error.run_id.clear(), "run_id"),
    (|error| error.criticality = 0, "criticality"),
    (|error| error.created_at.clear(), "created_at"),
    (|error| error.details = Some("words".to_owned()), "details"),
    (|error| error.set_severity(v1::ExecutorSeverity::Warning), "severity"),
];

// S002-PR-01, S002-EV-14
#[test]
fn an_error_that_breaks_the_contract_is_recorded_as_failed_evidence_with_all_that_was_given() {
    let critical = || {
        let mut script = script(&["submit send"], v1::ScriptPolicy::default());
        script.actions[0].set_criticality(v1::Criticality::Critical);
        Scripted::start(script).opens()
    };
    for (change, path) in BROKEN {
        let asked = critical().asked();
        let mut given = whole(&asked, "POSTCONDITION_FAILED", "before");
        given.set_stage(v1::ActionStage::Postcondition);
        change(&mut given);
        let outcome = v1::BrowserOutcome { error: Some(given.clone()), ..v1::BrowserOutcome::default() };
        let scripted = critical().says(outcome);
        assert_eq!(scripted.failures().len(), 1, "{path}");
        let error = scripted.expect_ended_with("EVIDENCE_FAILED");
        assert_eq!(
            (error.stage(), error.severity()),
            (v1::ActionStage::Evidence, v1::ExecutorSeverity::Critical)
        );
        let told = details(&error);
        assert_eq!(told["original_code"], "POSTCONDITION_FAILED");
        let paths: Vec<&str> = told["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|broken| broken["path"].as_str().unwrap())
            .collect();
        assert!(paths.contains(&path), "{path}: {paths:?}");
        // Nothing of what was given is lost, and what is recorded is whole.
        let kept: v1::ExecutorError =
            capataz_contracts::json::parse("capataz.v1.ExecutorError", &told["given"]).unwrap();
        let numbered = v1::ExecutorError { seq: error.seq, retryable: Some(false), ..given.clone() };
        if path != "details" {
            assert_eq!(kept, numbered, "{path}");
        }
        assert_eq!(capataz_policy::obligations::violations(&error), [], "{path}");
        assert!(given.evidence_refs.iter().all(|piece| error.evidence_refs.contains(piece)), "{path}");
    }
}

#[test]
fn an_error_with_a_code_that_nobody_knows_is_recorded_as_failed_evidence() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default());
    let error = scripted.acts(Fails("OUT_OF_LUCK")).expect_ended_with("EVIDENCE_FAILED");
    assert_eq!(details(&error)["original_code"], "OUT_OF_LUCK");
    assert_eq!(error.evidence_refs, all_evidence("before"));
}

#[test]
fn a_lost_browser_of_which_nothing_is_proved_ends_the_script_and_is_lost() {
    let mut script = script(&["click send", "click more"], v1::ScriptPolicy::default());
    script.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    let scripted = Scripted::start(script).opens().acts_with(Fails("BROWSER_LOST"), |error| {
        *error = v1::ExecutorError { error_code: "BROWSER_LOST".to_owned(), ..v1::ExecutorError::default() }
    });
    assert_eq!(scripted.bench.state.binding(), None);
    let error = scripted.expect_ended_with("EVIDENCE_FAILED");
    assert_eq!((error.action_id.as_str(), error.run_id.as_str()), ("send", "run"));
    assert_eq!(error.evidence_refs[0].inline.as_deref(), Some("the browser's host has given no evidence"));
    assert_eq!(capataz_policy::obligations::violations(&error), []);
}

#[test]
fn what_is_never_tried_again_is_not_where_a_policy_lists_it() {
    for code in ["INVALID_ACTIONSPEC", "ACTION_CRITICAL_BLOCKED", "EVIDENCE_FAILED"] {
        let error =
            Scripted::opened(&["extract a"], retries_on(&[code])).acts(Fails(code)).expect_ended_with(code);
        assert_eq!(error.retryable, Some(false), "{code}");
    }
}

#[test]
fn variables_and_outputs_are_put_in_their_places_when_the_action_begins() {
    let mut script = script(&["extract order", "navigate go"], v1::ScriptPolicy::default());
    script.variables.insert("host".to_owned(), "shop.test".to_owned());
    script.actions[1].url = Some("https://${var:host}/orders/${output:order}".to_owned());
    let output = v1::ActionOutput {
        name: "order".to_owned(),
        value: "\"A-7\"".to_owned(),
        ..v1::ActionOutput::default()
    };
    let scripted = Scripted::start(script)
        .opens()
        .says(v1::BrowserOutcome { output: Some(output.clone()), ..v1::BrowserOutcome::default() });
    assert_eq!(scripted.asked().action.unwrap().url.as_deref(), Some("https://shop.test/orders/A-7"));
    let ended = scripted.acts(Ends("/orders")).says(v1::BrowserOutcome::default());
    assert_eq!(ended.result().script().unwrap().outputs, [output]);
}

#[test]
fn the_last_state_that_was_seen_goes_with_every_activity() {
    let scripted =
        Scripted::opened(&["navigate go", "click send"], v1::ScriptPolicy::default()).acts(Ends("/form"));
    assert_eq!(scripted.asked().last_state, signature("/form"));
    assert_eq!(scripted.asked().last_evidence, [snapshot_of("/form")]);
}

#[test]
fn a_cancelled_script_ends_and_its_host_is_told_to_stop() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default()).lease();
    let bench = scripted.bench.cancel().expect_status(v1::RunStatus::Cancelling);
    assert!(matches!(bench.effects(), [Effect::Hold, Effect::Cancel { .. }]));
    bench.after(5 * SECOND).expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn an_action_that_has_ended_is_history() {
    let mut script = script(&["click a", "click b"], v1::ScriptPolicy::default());
    script.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    let scripted = Scripted::start(script).opens().acts(Fails("TARGET_NOT_FOUND"));
    scripted.bench.input(retry("a", "r")).expect_rule();
}

fn interactive() -> Scripted {
    let mut script = script(&[], v1::ScriptPolicy::default());
    script.interactive = true;
    Scripted::start(script).opens()
}

fn propose(line: &str, request_id: &str) -> Input {
    Input::Propose { action: Box::new(action(line)), request_id: request_id.to_owned() }
}

fn close(request_id: &str) -> Input {
    Input::CloseBrowser { request_id: request_id.to_owned() }
}

#[test]
fn a_session_performs_what_is_proposed_and_survives_its_failures() {
    let scripted = interactive();
    assert!(scripted.awaits_a_proposal());
    let scripted = scripted
        .does(propose("click send", "1"))
        .expect_asked(Action, "send")
        .acts(Fails("TARGET_NOT_FOUND"))
        .does(propose("click go", "2"))
        .expect_asked(Action, "go")
        .acts(Ends("/thanks"));
    assert!(scripted.awaits_a_proposal());
    scripted
        .does(close("3"))
        .expect_asked(Close, "")
        .says(v1::BrowserOutcome::default())
        .expect_ended(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_repeated_proposal_is_performed_once_and_another_one_under_its_id_is_refused() {
    let scripted = interactive().does(propose("click send", "1"));
    let bench = scripted.bench.does(propose("click send", "1")).expect_kinds(&[]);
    let refusal = bench.input(propose("click other", "1")).expect_refusal();
    assert_eq!(refusal, Refusal::RequestReused { request_id: "1".to_owned() });
}

#[test]
fn an_action_that_was_proposed_under_another_id_is_another_request() {
    let scripted = interactive()
        .does(propose("click send", "1"))
        .acts(Ends("/a"))
        .does(propose("click go", "2"))
        .acts(Ends("/b"));
    let state = &scripted.bench.state;
    assert!(matches!(state.repeated(&propose("click go", "2")), Ok(Some(_))));
    let reused = Refusal::RequestReused { request_id: "1".to_owned() };
    assert_eq!(state.repeated(&propose("click go", "1")), Err(reused));
}

#[test]
fn requests_of_a_session_are_known_again_when_it_has_ended() {
    let scripted = interactive()
        .does(propose("click send", "1"))
        .acts(Ends("/a"))
        .does(close("2"))
        .expect_asked(Close, "")
        .says(v1::BrowserOutcome::default())
        .expect_ended(v1::RunOutcome::Succeeded);
    let state = &scripted.bench.state;
    assert!(matches!(state.repeated(&propose("click send", "1")), Ok(Some(_))));
    assert!(matches!(state.repeated(&close("2")), Ok(Some(_))));
    let others = [
        propose("click other", "1"),
        Input::RollbackPipeline { phase: String::new(), request_id: "2".to_owned() },
        Input::Checkpoint { reason: "now".to_owned(), request_id: "2".to_owned() },
    ];
    for other in others {
        let reused = Refusal::RequestReused { request_id: other.request_id().to_owned() };
        assert_eq!(state.repeated(&other), Err(reused), "{other:?}");
    }
    assert!(state.script_policy().is_some(), "what was left out of an action is filled in by it");
}

#[test]
fn one_action_is_performed_at_a_time() {
    let scripted = interactive().does(propose("click send", "1"));
    let error = scripted.bench.input(propose("click other", "2")).expect_rule();
    assert_eq!(error.code, "STEP_IN_PROGRESS");
}

#[test]
fn nothing_is_proposed_to_a_script_that_has_its_actions() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default());
    let error = scripted.bench.input(propose("click other", "2")).expect_rule();
    assert_eq!(error.code, "SESSION_NOT_INTERACTIVE");
}

#[test]
fn a_session_that_nobody_uses_is_closed_and_each_proposal_begins_its_time_anew() {
    let scripted = interactive().after(4 * MINUTE).does(propose("click send", "1")).acts(Ends("/a"));
    let scripted = scripted.after(5 * MINUTE - 1);
    assert!(scripted.awaits_a_proposal());
    scripted.after(1).expect_asked(Close, "");
}

#[test]
fn a_session_is_closed_after_the_action_in_work() {
    interactive()
        .does(propose("click send", "1"))
        .does(close("2"))
        .expect_asked(Action, "send")
        .acts(Ends("/a"))
        .expect_asked(Close, "");
}

#[test]
fn a_session_halts_at_its_limits() {
    let mut script = script(&[], v1::ScriptPolicy { max_steps: Some(1), ..v1::ScriptPolicy::default() });
    script.interactive = true;
    Scripted::start(script)
        .opens()
        .does(propose("click a", "1"))
        .acts(Ends("/a"))
        .does(propose("click b", "2"))
        .tells()
        .expect_ended_with("POLICY_HALT");
}

#[test]
fn a_snapshot_holds_all_of_a_script() {
    let scripted = Scripted::opened(&["click a", "click b"], retries_on(&["TARGET_NOT_FOUND"]))
        .acts(Ends("/a"))
        .acts(Fails("TARGET_NOT_FOUND"));
    let mut state = scripted.bench.state;
    let bytes = state.snapshot().unwrap();
    state.loaded();
    assert_eq!(RunState::from_snapshot(&bytes).unwrap(), state);
}

/// One thing that may happen to a script.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Ends(u8),
    Fails(u8),
    FailsAfterInput(u8),
    IsLost,
    /// The worker has the browser no more.
    BrowserIsLost,
    TimePasses(u16),
    IsPaused,
    IsResumed,
    IsAnswered(u8),
    IsProposed,
    IsClosed,
    IsCancelled,
}

const CODES: [&str; 5] =
    ["TARGET_NOT_FOUND", "OVERLAY_BLOCKING", "POSTCONDITION_FAILED", "BROWSER_LOST", "TARGET_NOT_UNIQUE"];
const PAGES: [&str; 3] = ["/a", "/b", "/c"];

fn happening() -> impl proptest::strategy::Strategy<Value = Happening> {
    use proptest::prelude::*;
    prop_oneof![
        6 => any::<u8>().prop_map(Happening::Ends),
        3 => any::<u8>().prop_map(Happening::Fails),
        2 => any::<u8>().prop_map(Happening::FailsAfterInput),
        1 => Just(Happening::IsLost),
        1 => Just(Happening::BrowserIsLost),
        2 => any::<u16>().prop_map(Happening::TimePasses),
        1 => Just(Happening::IsPaused),
        2 => Just(Happening::IsResumed),
        2 => any::<u8>().prop_map(Happening::IsAnswered),
        2 => Just(Happening::IsProposed),
        1 => Just(Happening::IsClosed),
        1 => Just(Happening::IsCancelled),
    ]
}

impl Scripted {
    fn happens(mut self, happening: Happening, number: usize) -> Self {
        let task = self.current();
        let queued = self.bench.state.may_lease() && self.bench.state.is_queued(task);
        let pick = |list: &[&'static str], index: u8| list[usize::from(index) % list.len()];
        match happening {
            Happening::Ends(page) if queued => self.acts(Ends(pick(&PAGES, page))),
            Happening::Fails(code) if queued => self.acts(Fails(pick(&CODES, code))),
            Happening::FailsAfterInput(code) if queued => self.acts(FailsAfterInput(pick(&CODES, code))),
            Happening::IsLost if queued => self.loses_its_host(),
            Happening::BrowserIsLost => {
                let reason = v1::BrowserLossReason::Ended;
                self.bench = self.bench.input(Input::BrowserLost { worker: "host".to_owned(), reason });
                self
            }
            Happening::TimePasses(seconds) => self.after(i64::from(seconds) * 20),
            Happening::IsPaused | Happening::IsResumed if !self.bench.state.is_finished() => {
                let request_id = format!("request {number}");
                self.does(match happening {
                    Happening::IsPaused => Input::Pause { request_id },
                    _ => Input::Resume { request_id },
                })
            }
            Happening::IsAnswered(answer) => match self.bench.open().first().cloned() {
                Some(question) => {
                    let answers = ["retry", "succeeded", "failed", "abort"];
                    self.does(resolve(&question, pick(&answers, answer), ""))
                }
                None => self,
            },
            Happening::IsProposed => {
                self.bench = self.bench.input(propose("click send", &format!("request {number}")));
                self
            }
            Happening::IsClosed => {
                self.bench = self.bench.input(close(&format!("request {number}")));
                self
            }
            Happening::IsCancelled if !self.bench.state.is_finished() => Self { bench: self.bench.cancel() },
            _ => self,
        }
    }

    /// Everything goes well from now on: does it end?
    fn goes_well(mut self) -> Self {
        for number in 1_000..1_200 {
            if self.bench.state.is_finished() {
                return self;
            }
            self = self.happens(Happening::IsResumed, number);
            self = self.happens(Happening::IsAnswered(1), number);
            self = self.happens(Happening::IsClosed, number + 1_000);
            self = self.happens(Happening::Ends(0), number);
            self = self.after(60_000);
        }
        self
    }
}

proptest::proptest! {
    /// Each step is compared with the fold of the log, and so is what a restart would find.
    #[test]
    fn whatever_happens_a_script_ends_and_its_log_says_the_same(
        happenings in proptest::collection::vec(happening(), 0..40),
        is_interactive: bool,
    ) {
        let policy = v1::ScriptPolicy { same_state_revisit: Some(1), ..recovers_from("OVERLAY_BLOCKING") };
        let policy = v1::ScriptPolicy { retry_on: retries_on(&["TARGET_NOT_FOUND"]).retry_on, ..policy };
        let mut script = script(&["navigate a", "click b", "extract c", "click d"], policy);
        script.actions[1].on_failure = Some(v1::OnFailure::Continue as i32);
        script.actions[3].repeatable = Some(true);
        if is_interactive {
            script.interactive = true;
            script.actions.clear();
        }
        let mut scripted = Scripted::start(script);
        // A person's word ends a run at once.
        let aborts = |happening: &Happening| matches!(happening, Happening::IsAnswered(answer) if answer % 4 == 3);
        let aborted = happenings.iter().any(aborts);
        for (number, happening) in happenings.into_iter().enumerate() {
            scripted = scripted.happens(happening, number);
        }
        let scripted = scripted.goes_well();
        proptest::prop_assert!(scripted.bench.state.is_finished(), "{:?}", scripted.bench.state.status());
        let result = scripted.result();
        // The third: time passes here only while no host has the activity.
        let said_nothing = ["INVALID_OUTPUT", "WORKER_LOST", "TASK_TIMEOUT"];
        if let (v1::RunOutcome::Failed, Some(error)) = (result.outcome(), &result.error)
            && !aborted
            && !said_nothing.contains(&error.code.as_str())
        {
            let of_executor = result.script().and_then(|script| script.error.clone());
            proptest::prop_assert_eq!(of_executor.map(|said| said.error_code), Some(error.code.clone()));
        }
        for (seq, failed) in scripted.failures() {
            proptest::prop_assert_eq!(failed.error.unwrap().seq, seq);
        }
    }
}
