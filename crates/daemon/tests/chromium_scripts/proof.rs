//! What every error has to say and to prove (seed 002, sections 2, 3, 5 and 6).

use std::collections::BTreeMap;

use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::{self, ActionStage};
use capataz_contracts::{json, validate};
use capataz_policy::executor::evidence;
use capataz_testsite::seed_002::obligation;
use serde_json::Value;

use crate::bench::{Bench, Ended};

/// An error that has everything that its code asks for, with its details and its evidence by kinds.
pub struct Proven {
    pub error: v1::ExecutorError,
    pub details: Value,
    pub evidence: BTreeMap<String, Vec<u8>>,
}

impl Bench {
    /// Performs the script, which fails with this code in this stage.
    pub async fn fails(&self, code: &str, stage: ActionStage, toml: &str) -> Proven {
        let ended = self.run(toml).await;
        self.expect_error(&ended, code, stage).await
    }

    /// The script has ended with this code, found in this stage.
    pub async fn expect_error(&self, ended: &Ended, code: &str, stage: ActionStage) -> Proven {
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Failed);
        let told = ended.result.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(told, Some(code), "{:?}", ended.error());
        self.prove(&ended.run_id, &ended.events, ended.error(), code, stage).await
    }

    /// The error has everything that its code asks for; it is that of an event of this run.
    pub async fn prove(
        &self,
        run_id: &str,
        events: &[v1::Event],
        error: v1::ExecutorError,
        code: &str,
        stage: ActionStage,
    ) -> Proven {
        assert_eq!(error.error_code, code, "{error:?}");
        assert_eq!(validate::executor_error(&error), [], "{error:?}");
        let rules = obligation(code).expect("a code of the contract");
        assert_eq!(error.stage(), stage, "{error:?}");
        assert!(rules.stages.contains(&stage_name(stage).as_str()), "{code} in {stage:?}");
        let severity = error.severity().as_str_name().trim_start_matches("EXECUTOR_SEVERITY_");
        assert_eq!(severity.to_ascii_lowercase(), rules.severity, "{error:?}");
        check_event(run_id, events, &error);
        let details: Value = serde_json::from_str(error.details.as_deref().unwrap_or("null")).unwrap();
        for key in rules.details {
            assert!(details.get(key).is_some(), "details.{key} is missing: {details}");
        }
        if !rules.phases.is_empty() {
            assert!(!error.failed_conditions.is_empty(), "{error:?}");
            let fits = |condition: &v1::FailedCondition| rules.phases.contains(&condition.phase.as_str());
            assert!(error.failed_conditions.iter().all(fits), "{error:?}");
        }
        assert!(error.state_after.is_some() || !rules.state_after, "{error:?}");

        let mut evidence = BTreeMap::new();
        for reference in error.evidence_refs.iter().filter(|piece| piece.inline.is_none()) {
            let content = self.blob(&reference.id).await;
            assert_eq!(blake3::hash(&content).to_hex().as_str(), reference.id);
            assert_eq!(content.len() as u64, reference.bytes);
            check_content(reference, &content);
            evidence.insert(reference.kind.clone(), content);
        }
        let kinds: Vec<&str> = error.evidence_refs.iter().map(|piece| piece.kind.as_str()).collect();
        let criticality = error.criticality().as_str_name().trim_start_matches("CRITICALITY_");
        for kind in rules.evidence_of(&stage_name(stage), &criticality.to_ascii_lowercase()) {
            assert!(kinds.contains(&kind), "{code}: {kind} is missing among {kinds:?}");
        }
        if !matches!(code, "BROWSER_LOST" | "EVIDENCE_FAILED") {
            assert_eq!(error.state_before.as_ref().unwrap().screenshot_hash.len(), 64, "{error:?}");
        }
        check_states(&error, &evidence);
        println!("code={code} stage={} evidence={}", stage_name(stage), kinds.join(","));
        Proven { error, details, evidence }
    }
}

fn stage_name(stage: ActionStage) -> String {
    stage.as_str_name().trim_start_matches("ACTION_STAGE_").to_ascii_lowercase()
}

/// The error says of itself what its event, its action and its run are.
fn check_event(run_id: &str, events: &[v1::Event], error: &v1::ExecutorError) {
    let event = events.iter().find(|event| event.seq == error.seq).expect("the event of the error");
    let Some(Body::ActionFailed(failed)) = &event.body else { panic!("{event:?}") };
    assert_eq!(failed.error.as_ref(), Some(error));
    assert_eq!(error.run_id, run_id);
    let action = error.action_spec.as_ref().unwrap();
    assert_eq!((&action.id, action.kind), (&error.action_id, error.action_kind));
    assert!(action.criticality() as i32 <= error.criticality, "criticality is only ever raised: {error:?}");
    let time = error.created_at.as_bytes();
    assert!(time.len() == 24 && time[10] == b'T' && time[23] == b'Z', "{}", error.created_at);
}

/// The state signatures are those of the evidence.
fn check_states(error: &v1::ExecutorError, evidence: &BTreeMap<String, Vec<u8>>) {
    let before = error.state_before.as_ref().unwrap();
    if let Some(signature) = evidence.get(evidence::STATE_SIGNATURE) {
        let signature: Value = serde_json::from_slice(signature).unwrap();
        let printed = json::print("capataz.v1.StateSignature", before);
        let parts = ["schema_version", "url", "title", "dom_hash", "anchors_hash", "inputs_hash"];
        for part in parts {
            assert_eq!(signature[part], printed[part], "{part}");
        }
    }
    let pictures = [
        (evidence::SCREENSHOT_BEFORE, Some(before)),
        (evidence::SCREENSHOT_AFTER, error.state_after.as_ref()),
    ];
    for (kind, state) in pictures {
        if let Some(picture) = evidence.get(kind) {
            // A failure before any input has no state after it: its second picture is that of the failure.
            let Some(state) = state else { continue };
            let hash = blake3::hash(picture).to_hex();
            assert_eq!(state.screenshot_hash, hash.as_str(), "{kind}");
        }
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A piece of evidence is what its kind says.
pub fn check_content(reference: &v1::EvidenceRef, content: &[u8]) {
    match reference.kind.as_str() {
        evidence::DOM_SNAPSHOT => {
            assert_eq!(reference.media_type, "application/json");
            let snapshot: Value = serde_json::from_slice(content).unwrap();
            assert!(snapshot["url"].is_string() && snapshot["title"].is_string(), "{snapshot}");
            for list in ["targets", "anchors", "inputs"] {
                assert!(snapshot[list].is_array(), "{list}: {snapshot}");
            }
        }
        evidence::STATE_SIGNATURE => {
            assert_eq!(reference.media_type, "application/json");
            let signature: Value = serde_json::from_slice(content).unwrap();
            let read: v1::StateSignature = json::parse("capataz.v1.StateSignature", &signature).unwrap();
            assert_eq!(read.schema_version, "v1");
        }
        evidence::HTML => {
            assert_eq!(reference.media_type, "text/html");
            let html = std::str::from_utf8(content).unwrap();
            assert!(html.contains("<html") && html.contains("</html>"), "{html}");
        }
        evidence::SCREENSHOT_BEFORE | evidence::SCREENSHOT_AFTER | evidence::SCREENSHOT => {
            assert_eq!(reference.media_type, "image/png");
            assert!(content.starts_with(PNG) && content.ends_with(b"IEND\xaeB`\x82"));
        }
        kind => assert_eq!(kind, evidence::DOWNLOAD),
    }
}

/// The snapshot of the page, as it was kept.
impl Proven {
    pub fn snapshot(&self) -> Value {
        serde_json::from_slice(&self.evidence[evidence::DOM_SNAPSHOT]).unwrap()
    }
}
