//! Why an action failed, and the `ExecutorError` that says so (seed 002, section 2).

use capataz_contracts::v1::{
    self, ActionStage, Criticality, EvidenceRef, ExecutorSeverity, OnFailure, StateSignature,
};
use capataz_policy::executor::{ExecutorCode, code, iso_time, kind_traits, lookup};
use serde_json::{Map, Value, json};

use crate::page::PageError;
use crate::redact::{MASK, Redactor};
use crate::text::shortened;

/// The longest message, cause or observed text of an error, in characters.
const TEXT_MAX: usize = 500;

/// What went wrong, before the evidence for it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) details: Map<String, Value>,
    pub(crate) conditions: Vec<FailedCondition>,
    pub(crate) cause: Option<String>,
    /// The stage whose rule was broken, where another one has found it.
    pub(crate) stage: Option<ActionStage>,
}

#[derive(Clone, Debug)]
pub(crate) struct FailedCondition {
    pub(crate) kind: String,
    pub(crate) args: Value,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pre,
    Post,
    Assert,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
            Self::Assert => "assert",
        }
    }
}

/// The reason of a precondition that the script declares.
const DECLARED: &str = "declared_condition";

/// Why an element cannot be acted on, in a word that stays the same: `details.reason` of `PRECONDITION_FAILED`.
fn reason_of(condition: &FailedCondition) -> String {
    let observed = condition.args.get("observed");
    let word = match condition.kind.as_str() {
        "visible" => "not_visible",
        "enabled" => "not_enabled",
        "editable" => "not_editable",
        "checkable" => "not_checkable",
        "option" => "no_such_option",
        "file_input" => "not_a_file_input",
        "secret_input" => "not_a_secret_input",
        "page_readable" => "page_not_readable",
        "actionable" => match observed.and_then(Value::as_str) {
            // The adapter's reasons are a fixed list of words.
            Some(reason) => return reason.replace(' ', "_"),
            None => "moved",
        },
        kind => kind,
    };
    word.to_owned()
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>, details: Value) -> Self {
        let details = match details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        Self { code, message: message.into(), details, conditions: Vec::new(), cause: None, stage: None }
    }

    /// The failure of conditions that do not hold; its code is that of their phase.
    pub(crate) fn of_conditions(conditions: Vec<FailedCondition>) -> Self {
        let before = conditions.first().is_some_and(|condition| condition.phase == Phase::Pre);
        let code = if before { code::PRECONDITION_FAILED } else { code::POSTCONDITION_FAILED };
        let kinds: Vec<&str> = conditions.iter().map(|condition| condition.kind.as_str()).collect();
        let message = format!("does not hold: {}", kinds.join(", "));
        let reason = conditions.first().filter(|_| before).map(reason_of);
        let details = reason.map_or(Value::Null, |reason| json!({"reason": reason}));
        Self { conditions, ..Self::new(code, message, details) }
    }

    /// The failure of conditions that the script has written.
    pub(crate) fn of_declared(conditions: Vec<FailedCondition>) -> Self {
        let mut failure = Self::of_conditions(conditions);
        if let Some(reason) = failure.details.get_mut("reason") {
            *reason = DECLARED.into();
        }
        failure
    }

    /// The failure of a condition that is not written in the script but belongs to the kind of action.
    pub(crate) fn of_condition(phase: Phase, kind: &str, args: Value) -> Self {
        Self::of_conditions(vec![FailedCondition { kind: kind.to_owned(), args, phase }])
    }

    /// The failure of an action with violations: `INVALID_ACTIONSPEC`.
    pub(crate) fn of_violations(violations: &[v1::ScriptViolation]) -> Self {
        let listed: Vec<Value> = violations
            .iter()
            .map(|v1::ScriptViolation { path, rule, message, .. }| {
                json!({"path": path, "rule": rule, "message": message})
            })
            .collect();
        let rules = crate::dsl::violated_rules(violations);
        let message = format!("the action breaks rules: {}", rules.join(", "));
        let details = json!({"validation_errors": listed, "violated_rules": rules});
        Self::new(code::INVALID_ACTIONSPEC, message, details)
    }

    pub(crate) fn lost(reason: &str) -> Self {
        Self::new(code::BROWSER_LOST, format!("the browser is lost: {reason}"), json!({"reason": reason}))
    }

    /// A failure that the engine has decided. The engine knows only the codes of limits and of lost browsers.
    pub(crate) fn decided(decided: &v1::DecidedFailure) -> Self {
        let code = match decided.error_code.as_str() {
            code::BROWSER_LOST => code::BROWSER_LOST,
            _ => code::POLICY_HALT,
        };
        let details = serde_json::from_str(decided.details.as_deref().unwrap_or_default());
        Self::new(code, decided.message.clone(), details.unwrap_or_default())
    }

    pub(crate) fn caused_by(mut self, error: &PageError) -> Self {
        self.cause = Some(error.to_string());
        self
    }

    /// The rules of its code.
    pub(crate) fn rules(&self) -> &'static ExecutorCode {
        #[expect(clippy::expect_used, reason = "failures are made with the constants of the table")]
        lookup(self.code).expect("a code of the table")
    }
}

/// What an error says besides the failure itself.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) action: &'a v1::Action,
    /// The target is an element whose value is secret.
    pub(crate) target_is_secret: bool,
    pub(crate) criticality: Criticality,
    pub(crate) step_index: Option<u32>,
    pub(crate) stage: ActionStage,
    pub(crate) retry: Retry<'a>,
    pub(crate) now_ms: i64,
    pub(crate) state_before: StateSignature,
    pub(crate) state_after: Option<StateSignature>,
    pub(crate) evidence: Vec<EvidenceRef>,
    /// How far the action came, for whoever looks into it.
    pub(crate) debug: String,
}

/// The codes after which the script has an action tried again, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry<'a> {
    pub(crate) on: &'a [String],
    pub(crate) limit: u32,
}

/// The severity of the code; that of a warning where the script declares that it goes on (CONTRACTS §3: a code has a default).
fn severity(rules: &ExecutorCode, action: &v1::Action, criticality: Criticality) -> ExecutorSeverity {
    let passes = action.on_failure() == OnFailure::Continue && criticality != Criticality::Critical;
    // A halt is passed over by nothing.
    let may_pass = rules.severity == ExecutorSeverity::Error && rules.code != code::POLICY_HALT;
    if passes && may_pass { ExecutorSeverity::Warning } else { rules.severity }
}

/// The error as the contract has it; `run_id` and `seq` are the engine's to fill in.
pub(crate) fn executor_error(
    failure: Failure,
    context: Context<'_>,
    redactor: &Redactor,
) -> v1::ExecutorError {
    let rules = failure.rules();
    let clean = |text: &str| shortened(&redactor.text(text), TEXT_MAX);
    let mut details = Value::Object(failure.details);
    redactor.json(&mut details);
    let retry = context.retry;
    let is_retried = retry.limit > 0 && retry.on.iter().any(|code| code == failure.code);
    v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: failure.code.to_owned(),
        stage: context.stage as i32,
        severity: severity(rules, context.action, context.criticality) as i32,
        message: clean(&failure.message),
        retryable: Some(is_retried && rules.may_be_retried),
        run_id: String::new(),
        seq: 0,
        step_index: context.step_index,
        action_id: context.action.id.clone(),
        action_kind: context.action.kind,
        criticality: context.criticality as i32,
        state_before: Some(context.state_before),
        evidence_refs: context.evidence,
        created_at: iso_time(context.now_ms),
        state_after: context.state_after,
        cause: failure.cause.as_deref().map(clean),
        details: Some(details.to_string()),
        debug_message: Some(clean(&context.debug)),
        failed_conditions: failure
            .conditions
            .into_iter()
            .map(|condition| failed(condition, redactor))
            .collect(),
        action_spec: Some(redacted_action(context.action, context.target_is_secret, redactor)),
    }
}

fn failed(condition: FailedCondition, redactor: &Redactor) -> v1::FailedCondition {
    let mut args = condition.args;
    redactor.json(&mut args);
    v1::FailedCondition {
        kind: condition.kind,
        args: Some(args.to_string()),
        phase: condition.phase.name().to_owned(),
    }
}

/// The action without anything secret. References to secrets stay, since they reveal nothing.
pub(crate) fn redacted_action(
    action: &v1::Action,
    target_is_secret: bool,
    redactor: &Redactor,
) -> v1::Action {
    let mut action = action.clone();
    capataz_contracts::placeholder::each_text(&mut action, &mut |path, _, text| {
        if target_is_secret && path == "value" && !is_reference(text) {
            MASK.clone_into(text);
        } else if !is_reference(text) {
            redactor.string(text);
        }
    });
    if let Some(rationale) = &mut action.rationale {
        redactor.string(rationale);
    }
    action
}

/// True if the text consists of references to secrets only.
fn is_reference(text: &str) -> bool {
    use capataz_contracts::placeholder::{Placeholder, Segment, placeholders};
    placeholders(text).is_ok_and(|segments| {
        let only = |segment: &Segment<'_>| matches!(segment, Segment::Placeholder(Placeholder::Secret(_)));
        !segments.is_empty() && segments.iter().all(only)
    })
}

/// What the action declares, else what it is by nature. `lowered`: that it is declared normal counts.
pub(crate) fn criticality_of(action: &v1::Action, lowered: bool) -> Criticality {
    let declared = action.criticality.and_then(|number| Criticality::try_from(number).ok());
    let by_nature = v1::ActionKind::try_from(action.kind).ok().and_then(kind_traits);
    match declared.filter(|declared| lowered || *declared == Criticality::Critical) {
        Some(declared) => declared,
        None => by_nature.map_or(Criticality::Normal, |traits| traits.criticality),
    }
}

/// A text that was observed, redacted and then short enough to be kept.
pub(crate) fn observed_text(text: &str, secret: bool, redactor: &Redactor) -> Value {
    if secret { Value::from(MASK) } else { Value::from(shortened(&redactor.text(text), TEXT_MAX)) }
}
