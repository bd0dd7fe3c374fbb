mod errors;
mod page;
mod rules;
mod success;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use capataz_contracts::v1::{self, ActionStage, BrowserOutcome, Criticality, ExecutorError};
use capataz_contracts::{json, validate};
use capataz_testsite::seed_002::obligation;
use serde_json::{Value, json};

use super::*;
use crate::evidence::{EvidenceError, Stored};
use page::{FakePage, Log};

/// Keeps evidence in memory, until it is full.
struct Shelf {
    kept: BTreeMap<String, Bytes>,
    room: usize,
    log: Log,
}

impl Shelf {
    fn keep(&mut self, content: Bytes) -> Result<Stored, EvidenceError> {
        if self.kept.len() >= self.room {
            return Err(EvidenceError("the disk is full".to_owned()));
        }
        self.log.lock().unwrap().push("kept".to_owned());
        let id = blake3::hash(&content).to_hex().to_string();
        let size = content.len() as u64;
        self.kept.insert(id.clone(), content);
        Ok(Stored { id, size })
    }
}

impl EvidenceSink for Shelf {
    async fn put(&mut self, _: &str, content: Bytes) -> Result<Stored, EvidenceError> {
        self.keep(content)
    }

    async fn put_download(&mut self, download: &v1::DownloadRecord) -> Result<Stored, EvidenceError> {
        self.keep(Bytes::from(format!("file {}", download.file_name)))
    }
}

struct Known;

impl Secrets for Known {
    fn has(&self, name: &str) -> bool {
        name == "PASSWORD"
    }

    fn resolve(&self, name: &str) -> Option<String> {
        self.has(name).then(|| "correct horse".to_owned())
    }
}

/// One action on one page.
struct Case {
    page: FakePage,
    action: Value,
    policy: Value,
    folders: Vec<PathBuf>,
    room: usize,
    last_state: Option<v1::StateSignature>,
    decided: Option<v1::DecidedFailure>,
}

/// What came of it.
struct Done {
    outcome: BrowserOutcome,
    log: Vec<String>,
    kept: BTreeMap<String, Bytes>,
}

fn case(page: FakePage, action: Value) -> Case {
    let policy = json!({"allowlist": ["example.com"]});
    Case { page, action, policy, folders: Vec::new(), room: 100, last_state: None, decided: None }
}

impl Case {
    fn policy(mut self, more: Value) -> Self {
        for (key, value) in more.as_object().unwrap() {
            self.policy[key] = value.clone();
        }
        self
    }

    fn run(self) -> Done {
        self.run_with(&mut None)
    }

    /// With a performer that goes on after this action.
    fn run_with(mut self, performer: &mut Option<Performer>) -> Done {
        let mut action: v1::Action = json::parse("capataz.v1.Action", &self.action).unwrap();
        if action.id.is_empty() {
            "a".clone_into(&mut action.id);
        }
        let policy: v1::ScriptPolicy = json::parse("capataz.v1.ScriptPolicy", &self.policy).unwrap();
        let policy = Policy::new(&policy).unwrap();
        crate::dsl::materialise_action(&mut action, policy.spec());
        let (last_state, failure) = (self.last_state, self.decided);
        let task = Task { action, step_index: Some(0), last_state, failure, ..Task::default() };
        let performer = performer.get_or_insert_with(|| Performer::new(policy, self.folders));
        let log = self.page.log.clone();
        let time = self.page.time.clone();
        let mut shelf = Shelf { kept: BTreeMap::new(), room: self.room, log: log.clone() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(performer.perform(&mut self.page, &task, &Known, &mut shelf, &time));
        let log = log.lock().unwrap().clone();
        Done { outcome, log, kept: shelf.kept }
    }
}

impl Done {
    /// The error, complete in everything that its code and its stage ask for.
    #[track_caller]
    fn error(&self, code: &str, stage: ActionStage) -> &ExecutorError {
        let error = self.outcome.error.as_ref().expect("the action fails");
        assert_eq!(
            (error.error_code.as_str(), error.stage()),
            (code, stage),
            "{} {:?} {:?}",
            error.message,
            error.details,
            error.cause
        );
        self.check_complete(error);
        error
    }

    #[track_caller]
    fn check_complete(&self, error: &ExecutorError) {
        let of_engine = ExecutorError { run_id: "r".to_owned(), seq: 7, ..error.clone() };
        assert_eq!(validate::executor_error(&of_engine), []);
        let rules = obligation(&error.error_code).expect("a code of the contract");
        assert_eq!(spelled(error.severity().as_str_name(), "EXECUTOR_SEVERITY_"), rules.severity);
        let stage = spelled(error.stage().as_str_name(), "ACTION_STAGE_");
        assert!(rules.stages.contains(&stage.as_str()), "{} in {stage}", error.error_code);
        let details = self.details();
        for key in rules.details {
            assert!(details.get(key).is_some(), "details.{key}: {details}");
        }
        for condition in error.failed_conditions.iter().filter(|_| !rules.phases.is_empty()) {
            assert!(rules.phases.contains(&condition.phase.as_str()), "{condition:?}");
        }
        assert!(rules.phases.is_empty() || !error.failed_conditions.is_empty());
        assert!(!rules.state_after || error.state_after.is_some());
        let criticality = spelled(error.criticality().as_str_name(), "CRITICALITY_");
        let kinds: Vec<&str> = error.evidence_refs.iter().map(|evidence| evidence.kind.as_str()).collect();
        for kind in rules.evidence_of(&stage, &criticality) {
            assert!(kinds.contains(&kind), "{} lacks {kind}: {kinds:?}", error.error_code);
        }
        if !matches!(error.error_code.as_str(), "BROWSER_LOST" | "EVIDENCE_FAILED") {
            assert_eq!(error.state_before.as_ref().unwrap().screenshot_hash.len(), 64);
        }
        for evidence in &error.evidence_refs {
            assert!(self.kept.contains_key(&evidence.id), "{evidence:?} is not kept");
        }
        self.check_stages(false);
    }

    /// The stages are in their order, each at most once, the last one is `evidence`, and only the one before it may have
    /// failed.
    #[track_caller]
    fn check_stages(&self, passed: bool) {
        let stages: Vec<i32> = self.outcome.stages.iter().map(|record| record.stage).collect();
        assert!(stages.is_sorted_by(|one, next| one < next), "{stages:?}");
        assert_eq!(stages.last(), Some(&(ActionStage::Evidence as i32)));
        let failed = self.outcome.stages.iter().filter(|record| !record.passed).count();
        assert_eq!(failed == 0, passed, "{:?}", self.outcome.stages);
        assert!(failed <= 1 || self.outcome.error.as_ref().unwrap().stage() == ActionStage::Evidence);
        let middle = self.outcome.stages.iter().rev().skip(2);
        assert!(middle.clone().all(|record| record.passed), "{:?}", self.outcome.stages);
    }

    #[track_caller]
    fn success(&self) -> &BrowserOutcome {
        assert_eq!(self.outcome.error, None);
        self.check_stages(true);
        assert_eq!(self.outcome.stages.len(), 6);
        for evidence in &self.outcome.evidence {
            assert!(self.kept.contains_key(&evidence.id), "{evidence:?} is not kept");
        }
        &self.outcome
    }

    fn details(&self) -> Value {
        let details = self.outcome.error.as_ref().and_then(|error| error.details.as_deref());
        serde_json::from_str(details.unwrap()).unwrap()
    }

    /// What was sent to the page.
    fn acts(&self) -> Vec<&str> {
        self.log.iter().filter_map(|entry| entry.strip_prefix("act ")).collect()
    }

    fn evidence(&self) -> &[v1::EvidenceRef] {
        match &self.outcome.error {
            Some(error) => &error.evidence_refs,
            None => &self.outcome.evidence,
        }
    }

    fn evidence_kinds(&self) -> Vec<&str> {
        self.evidence().iter().map(|evidence| evidence.kind.as_str()).collect()
    }

    /// The picture of this kind, which is a text that says when it was taken.
    #[track_caller]
    fn picture(&self, kind: &str) -> &str {
        let piece = self.evidence().iter().find(|piece| piece.kind == kind).expect(kind);
        std::str::from_utf8(&self.kept[&piece.id]).unwrap()
    }
}

/// A name of the contract as its documents spell it.
fn spelled(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_ascii_lowercase()
}

fn click(testid: &str) -> Value {
    json!({"id": "a", "kind": "click", "target": {"testid": testid}})
}

fn with(mut action: Value, field: &str, value: Value) -> Value {
    action[field] = value;
    action
}

/// A postcondition that proves that the page is another one.
fn done() -> Value {
    json!([{"kind": "url_equals", "value": "https://example.com/done"}])
}
