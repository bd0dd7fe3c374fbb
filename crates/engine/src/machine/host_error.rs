//! The error that a browser's host gives, as it is recorded: as it came where it keeps the contract, else as another one in its
//! place that is whole and holds what was given (seed 002, sections 2 to 6).

use capataz_contracts::{Violation, json, v1, validate};
use capataz_policy::executor::{code, evidence, iso_time};
use capataz_policy::obligations;
use capataz_policy::planted::{self, Fault};
use serde_json::{Value, json as of};

use crate::fold::state::Moment;

/// The longest list of broken rules in a message, in bytes.
const MESSAGE_MAX: usize = 400;

/// The state of a page before the first action, and after the browser is lost.
const EMPTY_PAGE: &str = "about:blank";
/// The id where a host tells of no action that anybody knows.
const NO_ACTION: &str = "browser:unknown";

/// BLAKE3 of nothing, which is what was seen of a page that nobody has described.
const HASH_OF_NOTHING: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
/// The text of the reference where no evidence was given, and its BLAKE3.
const NO_EVIDENCE: &str = "the browser's host has given no evidence";
const NO_EVIDENCE_HASH: &str = "a88358464d9a969542c78dc5d95645df03533bb7c6c3b03bb7ea1a39ce5746ac";

/// What the engine knows of the activity that has failed, whatever its host says.
pub(in crate::machine) struct Asked<'a> {
    pub(in crate::machine) run_id: &'a str,
    pub(in crate::machine) step: u32,
    pub(in crate::machine) action: Option<&'a v1::Action>,
    pub(in crate::machine) last_state: Option<&'a v1::StateSignature>,
    pub(in crate::machine) now: Moment,
}

/// The error to record. `given` has its number, and whether it is tried again.
pub(in crate::machine) fn recorded(given: v1::ExecutorError, asked: &Asked<'_>) -> v1::ExecutorError {
    let violations = obligations::violations(&given);
    if violations.is_empty() || planted::is(Fault::ErrorRecordedAsItCame) {
        return given;
    }
    in_its_place(given, &violations, asked)
}

/// Gives an error that is of no action what it has to name (seed 002, section 2). The colon of such an id keeps it apart from
/// those of actions.
pub(in crate::machine) fn name_no_action(error: &mut v1::ExecutorError, id: String) {
    error.action_id.clone_from(&id);
    error.set_action_kind(v1::ActionKind::Navigate);
    error.set_criticality(v1::Criticality::Normal);
    error.action_spec = Some(v1::Action {
        id,
        kind: v1::ActionKind::Navigate.into(),
        url: Some(EMPTY_PAGE.to_owned()),
        criticality: Some(v1::Criticality::Normal.into()),
        ..v1::Action::default()
    });
}

/// An action whose error cannot be believed is one whose evidence has failed. What was given is in the details; what of it
/// is whole stands where it stood.
fn in_its_place(given: v1::ExecutorError, violations: &[Violation], asked: &Asked<'_>) -> v1::ExecutorError {
    let is_whole = |field: &str| {
        let is_of = |violation: &Violation| {
            violation
                .path
                .strip_prefix(field)
                .is_some_and(|rest| matches!(rest.chars().next(), None | Some('[' | '.')))
        };
        !violations.iter().any(is_of)
    };
    let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let mut message = format!("{}: {}", name_of(&given), told.join("; "));
    message.truncate(message.floor_char_boundary(MESSAGE_MAX));
    let listed: Vec<Value> = violations
        .iter()
        .map(|broken| of!({ "path": broken.path, "rule": broken.rule, "message": broken.message }))
        .collect();
    let details = of!({
        "original_code": given.error_code,
        "violations": listed,
        "given": json::print("capataz.v1.ExecutorError", &given),
    });
    let mut named = given.clone();
    if let Some(action) = asked.action.filter(|_| named.action_spec.is_none()) {
        named.action_spec = Some(action.clone());
    }
    let action = named.action_spec.clone().unwrap_or_default();
    if named.action_id.is_empty() {
        named.action_id.clone_from(&action.id);
    }
    if named.action_kind() == v1::ActionKind::Unspecified {
        named.action_kind = action.kind;
    }
    if named.criticality() == v1::Criticality::Unspecified {
        let declared = asked.action.is_some_and(|action| action.criticality() == v1::Criticality::Critical);
        named.set_criticality(if declared { v1::Criticality::Critical } else { v1::Criticality::Normal });
    }
    if named.action_id.is_empty() || named.action_kind() == v1::ActionKind::Unspecified {
        name_no_action(&mut named, NO_ACTION.to_owned());
    }
    let state_before = given.state_before.clone().filter(is_whole_state);
    let mut evidence_refs = given.evidence_refs.clone();
    let mut index = 0;
    evidence_refs.retain(|_| {
        index += 1;
        is_whole(&format!("evidence_refs[{}]", index - 1))
    });
    if evidence_refs.is_empty() {
        evidence_refs.push(no_evidence());
    }
    v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: code::EVIDENCE_FAILED.to_owned(),
        stage: v1::ActionStage::Evidence.into(),
        severity: v1::ExecutorSeverity::Critical.into(),
        message,
        run_id: given_or(&given.run_id, asked.run_id),
        step_index: given.step_index.or(Some(asked.step)),
        state_before: state_before.or_else(|| asked.last_state.cloned()).or_else(|| Some(nothing_seen())),
        evidence_refs,
        created_at: given_or(&given.created_at, &iso_time(asked.now.wall.0)),
        state_after: given.state_after.clone().filter(is_whole_state),
        cause: given.cause.clone().or_else(|| Some(name_of(&given))),
        details: Some(details.to_string()),
        failed_conditions: match is_whole("failed_conditions") {
            true => given.failed_conditions.clone(),
            false => Vec::new(),
        },
        ..named
    }
}

fn given_or(given: &str, otherwise: &str) -> String {
    if given.is_empty() { otherwise.to_owned() } else { given.to_owned() }
}

/// The failure that was given, in a few words.
fn name_of(given: &v1::ExecutorError) -> String {
    let code = if given.error_code.is_empty() { "no code" } else { &given.error_code };
    match given.message.is_empty() {
        true => format!("the browser's host gave an error that is not whole, {code}"),
        false => format!("the browser's host gave an error that is not whole, {code} ({})", given.message),
    }
}

/// Where a state has its parts, it is one.
fn is_whole_state(state: &v1::StateSignature) -> bool {
    let error = v1::ExecutorError { state_before: Some(state.clone()), ..v1::ExecutorError::default() };
    !validate::executor_error(&error).iter().any(|broken| broken.path.starts_with("state_before"))
}

/// The state of a page of which nothing was ever seen.
fn nothing_seen() -> v1::StateSignature {
    let hash = || HASH_OF_NOTHING.to_owned();
    v1::StateSignature {
        schema_version: "v1".to_owned(),
        dom_hash: hash(),
        anchors_hash: hash(),
        inputs_hash: hash(),
        ..v1::StateSignature::default()
    }
}

fn no_evidence() -> v1::EvidenceRef {
    v1::EvidenceRef {
        id: NO_EVIDENCE_HASH.to_owned(),
        kind: evidence::INLINE.to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: NO_EVIDENCE.len() as u64,
        redacted: false,
        inline: Some(NO_EVIDENCE.to_owned()),
    }
}
