//! What workers hand in: the answers of specs, and what a page host has done to its pages.
//!
//! A host has one page for each script that it opened a browser for. A page is gone with its host, and a script whose
//! page is gone hears BROWSER_LOST. What was really sent to a page is told to the model, which never asks the engine.

use capataz_contracts::spec;
use capataz_contracts::v1::{self, connect_request::Frame as Said, payload::Data};
use capataz_engine::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
use capataz_store::BlobHash;
use prost::Message;
use serde_json::{Value, json};

use crate::asks::{CONFIDENCES, spec_name};
use crate::invariant::Violation;
use crate::modes::{self, PLANNER};
use crate::pipelines::{self, PHASE};
use crate::rng::Rng;
use crate::scenario::FOREIGN_SPEC;
use crate::scripts::CODES;
use crate::worker::{Key, output};
use crate::world::World;

/// What is beside the input of a task whose output was rejected.
const CORRECTION: &[u8] = b"\"correction\":{";

/// What an assignment asks for.
#[derive(Clone, Debug)]
pub enum Work {
    Plan,
    /// A SpecRequest.
    Spec(Value),
    Browser(Box<v1::BrowserTask>),
    /// A task of a phase, and whether it is told what was wrong with an output.
    Phase {
        corrected: bool,
    },
    /// The prompt of a planner.
    Planner(Value),
}

impl Work {
    pub fn of(assignment: &v1::Assignment) -> Self {
        let Some(Data::Inline(bytes)) = assignment.input.as_ref().and_then(|input| input.data.as_ref())
        else {
            return Self::Plan;
        };
        if assignment.task_name.starts_with(PHASE) {
            let corrected = bytes.windows(CORRECTION.len()).any(|part| part == CORRECTION);
            return Self::Phase { corrected };
        }
        if assignment.task_name.starts_with(PLANNER) {
            return serde_json::from_slice(bytes).map_or(Self::Plan, Self::Planner);
        }
        if assignment.agent == BROWSER_AGENT {
            return v1::BrowserTask::decode(bytes.clone())
                .map_or(Self::Plan, |task| Self::Browser(Box::new(task)));
        }
        if assignment.agent.starts_with("sage-") {
            return serde_json::from_slice(bytes).map_or(Self::Plan, Self::Spec);
        }
        Self::Plan
    }
}

impl World {
    /// What the worker's work has come to, once it is done.
    pub(crate) fn produce(&mut self, index: usize, key: Key, work: &Work) -> Result<v1::Payload, Violation> {
        let name = self.workers.get(index).map(|worker| worker.id.clone()).unwrap_or_default();
        match work {
            Work::Plan => {
                let as_text = self.rng.percent(10);
                Ok(output(key, &name, as_text))
            }
            Work::Phase { corrected } => {
                let calm = self.is_calm();
                Ok(pipelines::output(&mut self.rng, key, &name, *corrected, calm))
            }
            Work::Planner(prompt) => {
                let (calm, agents) = (self.is_calm(), self.scenario.agents);
                Ok(modes::answer(&mut self.rng, prompt, key, &name, agents, calm))
            }
            Work::Spec(request) => {
                let calm = self.is_calm();
                Ok(answer(&mut self.rng, request, key, &name, calm))
            }
            Work::Browser(task) => {
                if self.strikes(15) {
                    return Ok(payload(BROWSER_MEDIA_TYPE, b"\xff\xff\xff\xff".to_vec()));
                }
                let mut outcome = self.act_on_page(index, key, task)?;
                let broken = outcome.error.is_some() && self.strikes(150);
                if let Some(error) = outcome.error.as_mut().filter(|_| broken) {
                    leave_out(&mut self.rng, error);
                }
                self.model.reported(key.0, key.2, &outcome);
                Ok(payload(BROWSER_MEDIA_TYPE, outcome.encode_to_vec()))
            }
        }
    }

    fn act_on_page(
        &mut self,
        index: usize,
        key: Key,
        task: &v1::BrowserTask,
    ) -> Result<v1::BrowserOutcome, Violation> {
        use v1::BrowserActivity::{Action, Close, Observe, Open, Recovery};
        let page = signature(&mut self.rng);
        let faulty = self.strikes(self.scenario.misbehaviour * 8);
        let Some(worker) = self.workers.get_mut(index) else { return Ok(v1::BrowserOutcome::default()) };
        if let Some(decided) = &task.failure {
            return Ok(failed(key.0, task, &decided.error_code, page, false));
        }
        let opens = task.activity() == Open || task.open && !worker.pages.contains(&key.0);
        match task.activity() {
            _ if opens => {
                if faulty && self.rng.percent(30) {
                    return Ok(failed(key.0, task, "BROWSER_LOST", page, false));
                }
                if task.restore && !worker.pages.contains(&key.0) && !worker.kept.remove(&key.0) {
                    return Ok(failed(key.0, task, "BROWSER_LOST", page, false));
                }
                worker.pages.insert(key.0);
                if task.activity() == Open {
                    return Ok(opened());
                }
            }
            _ if !worker.pages.contains(&key.0) => {
                return Ok(failed(key.0, task, "BROWSER_LOST", page, false));
            }
            Close => {
                worker.pages.remove(&key.0);
                return Ok(v1::BrowserOutcome::default());
            }
            Open | Action | Observe | Recovery | v1::BrowserActivity::Unspecified => {}
        }
        if faulty && self.rng.percent(5) {
            worker.pages.remove(&key.0);
            return Ok(failed(key.0, task, "BROWSER_LOST", page, false));
        }
        let touched = !faulty || self.rng.percent(50);
        if touched && task.activity() == Action {
            self.model.performed(key.0, key.1, key.2, task.step_index.unwrap_or_default())?;
        }
        if faulty {
            let code = self.rng.pick(&CODES).copied().unwrap_or_default();
            let failed = failed(key.0, task, code, page, touched);
            return Ok(if opens { as_opened(failed) } else { failed });
        }
        let output = task.action.as_ref().and_then(|action| action.output.clone());
        let outcome = v1::BrowserOutcome {
            stages: stages(true),
            state_before: Some(page.clone()),
            state_after: Some(signature(&mut self.rng)),
            evidence: vec![evidence("dom_snapshot_partial")],
            output: output.map(|name| v1::ActionOutput {
                name,
                value: "\"text\"".to_owned(),
                ..v1::ActionOutput::default()
            }),
            touched,
            ..v1::BrowserOutcome::default()
        };
        Ok(if opens { as_opened(outcome) } else { outcome })
    }

    /// Nobody needs the script's browser any more.
    pub(crate) fn close_pages(&mut self, run: capataz_store::RunId) {
        for worker in &mut self.workers {
            worker.pages.remove(&run);
            worker.kept.remove(&run);
        }
    }

    /// A page of the worker may end by itself.
    pub(crate) fn page_ends(&mut self, index: usize) {
        let page = self.workers.get(index).and_then(|worker| worker.pages.first().copied());
        let Some(run) = page.filter(|_| self.strikes(10)) else { return };
        if let Some(worker) = self.workers.get_mut(index) {
            worker.pages.remove(&run);
        }
        self.say(index, Said::BrowserGone(v1::BrowserGone { run_id: run.to_string() }));
    }
}

/// A browser was opened.
fn opened() -> v1::BrowserOutcome {
    as_opened(v1::BrowserOutcome::default())
}

/// The browser was opened for it.
fn as_opened(outcome: v1::BrowserOutcome) -> v1::BrowserOutcome {
    v1::BrowserOutcome { browser: "Chromium 0".to_owned(), keeps: true, ..outcome }
}

fn payload(media_type: &str, bytes: Vec<u8>) -> v1::Payload {
    v1::Payload { media_type: media_type.to_owned(), data: Some(Data::Inline(bytes.into())) }
}

/// One of a few states, so that a page comes back into one that it was in.
fn signature(rng: &mut Rng) -> v1::StateSignature {
    let number = rng.below(4);
    v1::StateSignature {
        schema_version: "v1".to_owned(),
        url: format!("http://page/{number}"),
        // As in whatever a tool gives back.
        title: modes::CONTAINED.to_owned(),
        dom_hash: format!("{number:064x}"),
        anchors_hash: "a".repeat(64),
        inputs_hash: "b".repeat(64),
        screenshot_hash: "c".repeat(64),
    }
}

/// The kinds of evidence that an error of any code and stage has (seed 002, section 3).
const EVIDENCE: [&str; 5] =
    ["dom_snapshot_partial", "state_signature", "html_full", "screenshot_before", "screenshot_after"];

fn evidence(kind: &str) -> v1::EvidenceRef {
    v1::EvidenceRef {
        id: "e".repeat(64),
        kind: kind.to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: 1,
        redacted: false,
        inline: None,
    }
}

fn stages(passed: bool) -> Vec<v1::StageRecord> {
    let stage = v1::ActionStage::Execution as i32;
    vec![v1::StageRecord { stage, passed, duration_us: 10 }]
}

fn failed(
    run: capataz_store::RunId,
    task: &v1::BrowserTask,
    code: &str,
    page: v1::StateSignature,
    touched: bool,
) -> v1::BrowserOutcome {
    let action = task.action.clone().unwrap_or_default();
    let is_normal = action.criticality() != v1::Criticality::Critical;
    let goes_on = is_normal && action.on_failure() == v1::OnFailure::Continue;
    let severity = match code {
        "ACTION_CRITICAL_BLOCKED" | "BROWSER_LOST" | "EVIDENCE_FAILED" => v1::ExecutorSeverity::Critical,
        "POLICY_HALT" => v1::ExecutorSeverity::Error,
        _ if goes_on => v1::ExecutorSeverity::Warning,
        _ => v1::ExecutorSeverity::Error,
    };
    let condition =
        v1::FailedCondition { kind: "visible".to_owned(), phase: "post".to_owned(), ..Default::default() };
    let mut error = v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: code.to_owned(),
        stage: v1::ActionStage::Execution as i32,
        severity: severity as i32,
        message: "as scripted".to_owned(),
        run_id: run.to_string(),
        created_at: "2023-11-14T22:13:20.000Z".to_owned(),
        step_index: task.step_index,
        action_id: action.id.clone(),
        action_kind: action.kind,
        criticality: action.criticality.unwrap_or(v1::Criticality::Normal as i32),
        state_before: Some(page.clone()),
        evidence_refs: EVIDENCE.map(evidence).to_vec(),
        details: Some(details(code).to_string()),
        action_spec: Some(action),
        ..v1::ExecutorError::default()
    };
    if code == "POSTCONDITION_FAILED" {
        error.state_after = Some(page.clone());
        error.failed_conditions.push(condition);
    }
    if let Some(decided) = &task.failure {
        error.message.clone_from(&decided.message);
        error.details.clone_from(&decided.details);
    }
    v1::BrowserOutcome {
        stages: stages(false),
        state_before: Some(page),
        touched,
        error: Some(error),
        ..v1::BrowserOutcome::default()
    }
}

/// What the details of a code have to have (seed 002, section 6).
fn details(code: &str) -> Value {
    match code {
        "TARGET_NOT_FOUND" => json!({
            "target_resolution_order": ["testid", "css"], "target": { "testid": "a" }, "count_observed": 0,
        }),
        "TARGET_NOT_UNIQUE" => json!({ "count_observed": 2, "matches_sample": ["a", "b"] }),
        "NAVIGATION_TIMEOUT" => json!({ "timeout_ms": 100 }),
        "NAVIGATION_FAILED" => json!({ "net_error": "net::ERR_FAILED", "url": "http://page/0" }),
        "DOMAIN_BLOCKED" => json!({ "host": "elsewhere", "allowlist": ["page"] }),
        "ACTION_CRITICAL_BLOCKED" => json!({ "critical_reason": "unsafe_domain_escape" }),
        "BROWSER_LOST" => json!({ "reason": "as scripted" }),
        "EVIDENCE_FAILED" => json!({ "original_code": "" }),
        _ => json!({}),
    }
}

/// A worker that says less of a failure than it has to, or something else.
fn leave_out(rng: &mut Rng, error: &mut v1::ExecutorError) {
    match rng.below(9) {
        0 => error.evidence_refs.clear(),
        1..=4 => {
            let lost = rng.pick(&EVIDENCE).copied().unwrap_or_default();
            error.evidence_refs.retain(|piece| piece.kind != lost);
        }
        5 => error.details = None,
        6 => error.failed_conditions.clear(),
        7 => error.state_before = None,
        _ => "E_UNHEARD_OF".clone_into(&mut error.error_code),
    }
}

/// A transition of any kind.
fn transition(rng: &mut Rng) -> Value {
    json!({
        "suggest_spec": spec_name(rng.below(FOREIGN_SPEC + 2)),
        "reason": "as scripted",
        "confidence": rng.pick(&CONFIDENCES),
        "auto_transition": rng.percent(50),
    })
}

/// A SpecResponse of any kind; where nothing is to fail, a plain one.
fn answer(rng: &mut Rng, request: &Value, key: Key, worker: &str, calm: bool) -> v1::Payload {
    let mut answer = json!({
        "success": true,
        "spec": request["spec"],
        "request_id": request["id"],
        "timestamp": 1,
        "response": {
            "text": format!("answer {}", key.2),
            "format": "text",
            "structured": { "lease": key.2, "worker": worker },
        },
        "metadata": { "processing_time_ms": 1, "confidence": 0.5 },
    });
    if rng.percent(30) {
        let states = ["calm", "lost"];
        answer["context_update"] = json!({
            "emotional_state": rng.pick(&states),
            "custom": { format!("key-{}", rng.below(3)): key.2 },
        });
    }
    let kind = if calm { 0 } else { rng.below(100) };
    match kind {
        0..=34 => {}
        35..=69 => answer["transition"] = transition(rng),
        70..=91 => {
            let codes = ["RATE_LIMIT", "TEMPORARY_ERROR", "VALIDATION_ERROR", "OWN_ERROR"];
            answer["success"] = json!(false);
            answer["response"] = Value::Null;
            answer["error"] = json!({
                "code": rng.pick(&codes),
                "message": "as scripted",
                "recoverable": rng.percent(60),
                "fallback_spec": rng.percent(40).then(|| spec_name(rng.below(FOREIGN_SPEC + 2))),
            });
            if rng.percent(30) {
                answer["transition"] = transition(rng);
            }
        }
        92..=93 => answer["request_id"] = json!("another"),
        94..=95 => answer["spec"] = json!("another"),
        96..=97 => answer["metadata"] = Value::Null,
        _ => return payload("application/json", b"{\"success\":".to_vec()),
    }
    // Of what these few answers want to be kept, a session has room for three.
    if key.2 % 40 == 7 {
        let notes = format!("notes-{}", key.2 % 7);
        answer["context_update"]["custom"][notes] = "x".repeat(80_000).into();
        return large(answer.to_string().as_bytes());
    }
    payload("application/json", answer.to_string().into_bytes())
}

/// An answer that is a blob, as the daemon's door hands it to a shard.
fn large(answer: &[u8]) -> v1::Payload {
    let mut blob = v1::BlobRef::new(BlobHash::of(answer).to_string(), answer.len() as u64);
    blob.answer = Some(Box::new(spec::excerpt(answer)));
    v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Blob(blob)) }
}
