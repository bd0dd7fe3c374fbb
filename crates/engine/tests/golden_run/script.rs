//! Scripts: retries, recoveries, failures that are passed over, unknown outcomes, limits, proposals.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::{BROWSER_MEDIA_TYPE, Input, Report, Work};
use prost::Message;

use super::{Log, MINUTE, Run, SECOND};

const HOST: &str = "host";

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

fn codes(codes: &[&str]) -> Vec<String> {
    codes.iter().map(|&code| code.to_owned()).collect()
}

fn script(lines: &[&str]) -> v1::Script {
    let closes = v1::Recovery {
        on: codes(&["OVERLAY_BLOCKING"]),
        r#do: v1::RecoveryKind::CloseOverlay as i32,
        target: Some(v1::Target { testid: Some("close".to_owned()), ..v1::Target::default() }),
    };
    v1::Script {
        name: "form".to_owned(),
        actions: lines.iter().map(|line| action(line)).collect(),
        variables: BTreeMap::from([("host".to_owned(), "shop.test".to_owned())]),
        policy: Some(v1::ScriptPolicy {
            allowlist: vec!["shop.test".to_owned()],
            retry_on: codes(&["TARGET_NOT_FOUND"]),
            recovery: vec![closes],
            same_state_revisit: Some(1),
            ..v1::ScriptPolicy::default()
        }),
        run_id: "run".to_owned(),
        ..v1::Script::default()
    }
}

fn signature(page: &str) -> Option<v1::StateSignature> {
    Some(v1::StateSignature {
        schema_version: "v1".to_owned(),
        url: format!("http://shop.test{page}"),
        title: page.to_owned(),
        dom_hash: format!("dom of {page}"),
        anchors_hash: format!("anchors of {page}"),
        inputs_hash: format!("inputs of {page}"),
        screenshot_hash: format!("picture of {page}"),
    })
}

fn evidence(page: &str) -> Vec<v1::EvidenceRef> {
    let piece = |kind: &str| v1::EvidenceRef {
        id: format!("{kind} of {page}"),
        kind: kind.to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: 7,
        redacted: page == "/form",
        inline: None,
    };
    ["dom_snapshot_partial", "state_signature", "screenshot_after"].map(piece).to_vec()
}

/// Digits that look like a hash and belong to one text. Logs of the first formats have the text itself.
pub fn hash_of(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<64}")
}

/// The page of an error, in which hashes are hashes.
fn signature_of_error(page: &str) -> Option<v1::StateSignature> {
    let mut signature = signature(page)?;
    for hash in [
        &mut signature.dom_hash,
        &mut signature.anchors_hash,
        &mut signature.inputs_hash,
        &mut signature.screenshot_hash,
    ] {
        *hash = hash_of(hash);
    }
    Some(signature)
}

fn evidence_of_error(page: &str) -> Vec<v1::EvidenceRef> {
    let pieces = evidence(page).into_iter();
    let mut pieces: Vec<_> =
        pieces.map(|piece| v1::EvidenceRef { id: hash_of(&piece.id), ..piece }).collect();
    // Whatever any error needs (seed 002, section 3).
    for kind in ["html_full", "screenshot_before"] {
        let last = pieces.last().cloned().unwrap_or_default();
        pieces.push(v1::EvidenceRef { id: hash_of(kind), kind: kind.to_owned(), ..last });
    }
    pieces
}

fn stages(passed: usize) -> Vec<v1::StageRecord> {
    use v1::ActionStage::{Execution, Policy, Precondition, ProposalValidation};
    let stages = [ProposalValidation, Policy, Precondition, Execution].into_iter().zip(0..);
    let record = |(stage, number)| v1::StageRecord {
        stage: stage as i32,
        passed: number < passed,
        duration_us: 100 + number as u64,
    };
    stages.take_while(|(_, number)| *number <= passed).map(record).collect()
}

fn changes() -> Option<v1::PageChanges> {
    Some(v1::PageChanges {
        navigation: v1::NavigationKind::Document as i32,
        redirects: vec!["http://shop.test/old".to_owned()],
        status: Some(200),
        ..v1::PageChanges::default()
    })
}

fn resolution() -> Option<v1::ResolutionRecord> {
    Some(v1::ResolutionRecord {
        locator: "testid".to_owned(),
        count: 1,
        tried: vec!["role".to_owned()],
        element: "button".to_owned(),
        x: Some(1.5),
        y: Some(2.5),
        width: Some(10.0),
        height: Some(20.0),
    })
}

impl Run<'_> {
    #[track_caller]
    fn begins(seed: u64, script: v1::Script, before: &Log, decisions: usize) -> Run<'_> {
        Run::start(seed, Work::Script(Box::new(script)), before, decisions)
    }

    /// What the host is asked to do.
    fn asked(&self) -> v1::BrowserTask {
        let assignment = self.state.assignment(self.newest()).expect("an activity has begun");
        match assignment.input.and_then(|input| input.data.clone()) {
            Some(v1::payload::Data::Inline(bytes)) => {
                v1::BrowserTask::decode(bytes).expect("a browser's task")
            }
            _ => panic!("no activity of a browser"),
        }
    }

    #[track_caller]
    pub(super) fn tells(&mut self, outcome: v1::BrowserOutcome) {
        let lease = self.takes(self.newest(), HOST);
        self.after(100);
        let output = v1::Payload {
            media_type: BROWSER_MEDIA_TYPE.to_owned(),
            data: Some(v1::payload::Data::Inline(outcome.encode_to_vec().into())),
        };
        self.says(self.newest(), lease, HOST, Report::Completed(output));
    }

    #[track_caller]
    fn opens(&mut self) {
        assert_eq!(self.asked().activity(), v1::BrowserActivity::Open);
        self.tells(v1::BrowserOutcome {
            browser: "Chromium 148".to_owned(),
            ..v1::BrowserOutcome::default()
        });
    }

    /// The worker keeps what is to be put away.
    #[track_caller]
    fn opens_to_keep(&mut self) {
        assert_eq!(self.asked().activity(), v1::BrowserActivity::Open);
        self.tells(v1::BrowserOutcome {
            browser: "Chromium 148".to_owned(),
            keeps: true,
            ..v1::BrowserOutcome::default()
        });
    }

    #[track_caller]
    fn closes(&mut self) {
        assert_eq!(self.asked().activity(), v1::BrowserActivity::Close);
        self.tells(v1::BrowserOutcome::default());
    }

    /// The action, or the recovery, has succeeded, and left the browser on this page.
    #[track_caller]
    fn ends_on(&mut self, id: &str, page: &str) {
        self.ends_with(id, page, None);
    }

    #[track_caller]
    fn ends_with(&mut self, id: &str, page: &str, output: Option<v1::ActionOutput>) {
        assert_eq!(self.asked().action.map(|action| action.id).as_deref(), Some(id));
        self.tells(v1::BrowserOutcome {
            stages: stages(4),
            state_before: self.asked().last_state.or(signature("/")),
            state_after: signature(page),
            evidence: evidence(page),
            resolution: resolution(),
            changes: changes(),
            output,
            touched: true,
            ..v1::BrowserOutcome::default()
        });
    }

    /// The activity has failed before anything was sent to the page, or fails as the engine has decided.
    #[track_caller]
    pub(super) fn fails_with(&mut self, code: &str, touched: bool) {
        let asked = self.asked();
        let decided = asked.failure.clone().unwrap_or_default();
        let action = asked.action.clone().unwrap_or_default();
        let goes_on = action.criticality() != v1::Criticality::Critical
            && action.on_failure() == v1::OnFailure::Continue;
        let severity = match code {
            "BROWSER_LOST" => v1::ExecutorSeverity::Critical,
            "POLICY_HALT" => v1::ExecutorSeverity::Error,
            _ if goes_on => v1::ExecutorSeverity::Warning,
            _ => v1::ExecutorSeverity::Error,
        };
        // What seed 002, section 6, obliges each code to.
        let details = match code {
            "TARGET_NOT_FOUND" => {
                Some(r#"{"target_resolution_order":["testid"],"target":{"testid":"a"},"count_observed":0}"#)
            }
            "TARGET_NOT_UNIQUE" => Some(r#"{"count_observed":2,"matches_sample":["button","button"]}"#),
            "BROWSER_LOST" => Some(r#"{"reason":"the process has ended"}"#),
            _ => None,
        };
        let error = v1::ExecutorError {
            schema_version: "v1".to_owned(),
            error_code: code.to_owned(),
            stage: v1::ActionStage::Precondition as i32,
            severity: severity as i32,
            message: format!("{code} of {}{}", action.id, decided.message),
            run_id: "run".to_owned(),
            step_index: asked.step_index,
            action_id: action.id.clone(),
            action_kind: action.kind,
            criticality: action.criticality.unwrap_or(v1::Criticality::Normal as i32),
            state_before: signature_of_error("/now"),
            evidence_refs: evidence_of_error("/now"),
            created_at: "2023-11-14T22:13:20.000Z".to_owned(),
            details: decided.details.or(details.map(str::to_owned)),
            failed_conditions: vec![v1::FailedCondition {
                kind: "visible".to_owned(),
                args: Some("{\"seen\":false}".to_owned()),
                phase: "pre".to_owned(),
            }],
            action_spec: Some(action),
            ..v1::ExecutorError::default()
        };
        self.tells(v1::BrowserOutcome {
            stages: stages(2),
            changes: changes(),
            touched,
            error: Some(error),
            ..v1::BrowserOutcome::default()
        });
    }

    /// The holder of the activity's lease is gone.
    #[track_caller]
    fn loses_its_host(&mut self) {
        let lease = self.takes(self.newest(), HOST);
        self.loses_lease(self.newest(), lease, v1::LeaseLossReason::Restarted);
    }

    #[track_caller]
    fn is_proposed(&mut self, line: &str, request: &str) {
        self.does(Input::Propose { action: Box::new(action(line)), request_id: request.to_owned() });
    }
}

/// A script that comes to its end in spite of everything: an action that is tried again, one that needs a recovery that
/// fails and one that succeeds, one that fails and is passed over, one of which a person says what became of it.
pub fn log(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut script =
        script(&["navigate go", "extract order", "click banner", "click send", "click pay", "fill note"]);
    script.actions[0].url = Some("http://${var:host}/form".to_owned());
    script.actions[2].on_failure = Some(v1::OnFailure::Continue as i32);
    script.actions[4].criticality = Some(v1::Criticality::Critical as i32);
    script.actions[5].value = Some("${output:order} and ${secret:PIN}".to_owned());
    let mut run = Run::begins(seed, script, before, decisions);
    run.loses_its_host();
    run.opens();
    run.ends_on("go", "/form");
    run.loses_its_host();
    let output = v1::ActionOutput {
        name: "order".to_owned(),
        value: "\"A-7\"".to_owned(),
        ..v1::ActionOutput::default()
    };
    run.ends_with("order", "/form", Some(output));
    run.fails_with("TARGET_NOT_UNIQUE", false);
    run.fails_with("TARGET_NOT_FOUND", false);
    run.after(400);
    run.stands_still(SECOND);
    run.after(100);
    run.fails_with("OVERLAY_BLOCKING", false);
    run.fails_with("TARGET_NOT_FOUND", false);
    run.fails_with("OVERLAY_BLOCKING", false);
    run.ends_on("send", "/form");
    run.ends_on("send", "/cart");
    run.loses_its_host();
    run.after(MINUTE);
    run.answers("succeeded");
    run.ends_on("note", "/paid");
    run.closes();
    run.ends(v1::RunOutcome::SucceededWithFailures)
}

/// A script that comes back to a state too often, whose host is lost before it can say so.
pub fn log_of_a_halted_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::begins(
        seed,
        script(&["click a", "click b", "extract c", "click d", "click e"]),
        before,
        decisions,
    );
    run.opens();
    run.fails_with("TARGET_NOT_FOUND", false);
    run.after(500);
    run.ends_on("a", "/same");
    run.ends_on("b", "/same");
    run.ends_on("c", "/same");
    run.ends_on("d", "/same");
    run.loses_its_host();
    run.fails_with("POLICY_HALT", false);
    run.ends(v1::RunOutcome::Failed)
}

/// A script whose last action is tried too often, and before that one that does not come back: a person calls it a failure.
pub fn log_of_a_lost_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::begins(seed, script(&["navigate go", "click send"]), before, decisions);
    run.opens();
    run.ends_on("go", "/form");
    run.takes(run.newest(), HOST);
    run.after(3 * MINUTE);
    run.fails_with("BROWSER_LOST", false);
    run.ends(v1::RunOutcome::Failed)
}

/// Recoveries that do not help, and an activity whose hosts are lost, as are those that are to say so.
pub fn log_of_one_that_is_given_up(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut script = script(&["click send", "extract title"]);
    script.actions[0].on_failure = Some(v1::OnFailure::Continue as i32);
    let mut run = Run::begins(seed, script, before, decisions);
    run.opens();
    for _ in 0..2 {
        run.fails_with("OVERLAY_BLOCKING", false);
        run.ends_on("send", "/form");
    }
    run.fails_with("OVERLAY_BLOCKING", false);
    if run.state.is_finished() {
        return run.ends(v1::RunOutcome::Failed);
    }
    // The versions that wrote the first logs went on after a limit; what they had passed over stays so.
    for _ in 0..10 {
        run.loses_its_host();
    }
    run.ends(v1::RunOutcome::Failed)
}

/// A session: what fails is passed over, a repeated proposal is one, an unknown outcome is a failure, retries are limited,
/// and it is closed while an action is at work.
pub fn log_of_an_interactive_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::begins(seed, v1::Script { interactive: true, ..script(&[]) }, before, decisions);
    run.opens();
    run.after(MINUTE);
    run.is_proposed("click send", "p1");
    for wait in [500, 1_000, 0] {
        run.fails_with("TARGET_NOT_FOUND", false);
        run.after(wait);
    }
    if run.state.is_finished() {
        return run.ends(v1::RunOutcome::Failed);
    }
    run.is_proposed("navigate go", "p2");
    run.is_proposed("navigate go", "p2");
    run.ends_on("go", "/form");
    run.after(MINUTE);
    run.is_proposed("click pay", "p3");
    run.loses_its_host();
    run.answers("retry");
    run.does(Input::CloseBrowser { request_id: "close".to_owned() });
    run.ends_on("pay", "/paid");
    run.closes();
    run.ends(v1::RunOutcome::SucceededWithFailures)
}

/// A session that nobody uses any more.
pub fn log_of_an_idle_one(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::begins(seed, v1::Script { interactive: true, ..script(&[]) }, before, decisions);
    run.opens();
    run.after(4 * MINUTE);
    run.is_proposed("click send", "p1");
    run.ends_on("send", "/thanks");
    run.after(5 * MINUTE);
    run.closes();
    run.ends(v1::RunOutcome::Succeeded)
}

/// A script that is paused for so long that its browser is closed, and opened again; and whose browser is then lost.
pub fn log_of_one_that_is_put_away(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::begins(seed, script(&["click a", "click b"]), before, decisions);
    run.opens_to_keep();
    run.ends_on("a", "/form");
    run.stands_still(6 * MINUTE);
    run.opens_to_keep();
    run.does(Input::BrowserLost { worker: HOST.to_owned(), reason: v1::BrowserLossReason::Disconnected });
    run.fails_with("BROWSER_LOST", false);
    run.ends(v1::RunOutcome::Failed)
}
