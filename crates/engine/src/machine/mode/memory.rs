//! What an execution leaves in the memory of its session (seed 004; CONTRACTS §5, "Memory").

use std::collections::BTreeSet;

use capataz_contracts::v1;

use super::state::ModeState;

/// Bytes of the content of an entry.
const CONTENT: usize = 2_000;
/// Bytes of what a digest that is made here has after its first word, what stands between its parts included: a token has one at
/// least, and the word is a few.
const DIGEST: usize = 32;

/// Tokens of the digest of a result that its type takes, with what stands behind it.
pub(super) const KIND_TOKENS: u32 = 8;

/// An entry of this run.
fn entry(state: &ModeState, kind: &str, content: String, digest: String) -> v1::Remembered {
    v1::Remembered {
        r#type: kind.to_owned(),
        content: cut(content, CONTENT),
        digest,
        tools: Vec::new(),
        files: state.run.current_file.iter().cloned().collect(),
        related_to: Vec::new(),
        session: state.memory_of().to_owned(),
        mode: state.mode().into(),
        positive: None,
    }
}

/// What is kept of a plan.
pub(super) fn plan(state: &ModeState, plan: &v1::ModePlan, how: &str) -> v1::Remembered {
    let of = |step: &v1::PlanStep| format!("{} ({})", step.description, step.tool);
    let steps: Vec<String> = plan.steps.iter().map(of).collect();
    let content = format!("plan for {:?}, {how}: {}", state.run.query, steps.join("; "));
    let parts = [format!("{} steps", plan.steps.len()), format!("revision {}", plan.revision)];
    let digest = digest(&format!("plan {how}"), ", ", &parts);
    v1::Remembered { tools: tools_of(plan), ..entry(state, "plan", content, digest) }
}

/// What is kept of a plan that has led to its end.
pub(super) fn pattern(state: &ModeState) -> Option<v1::Remembered> {
    let plan = state.execution.plan.as_ref().filter(|_| state.execution.is_complete())?;
    let tools: Vec<&str> = plan.steps.iter().map(|step| step.tool.as_str()).collect();
    let content = format!("{:?} was done by {}", state.run.query, tools.join(", then "));
    let digest = digest("pattern", " > ", &tools);
    Some(v1::Remembered { tools: tools_of(plan), ..entry(state, "pattern", content, digest) })
}

/// What a person has said of the plan, in words and in short. It is about the plan, and about what the planner was told of
/// memory before.
pub(super) fn feedback(
    state: &ModeState,
    text: &str,
    positive: Option<bool>,
    parts: &[&str],
) -> v1::Remembered {
    let planned = Some(state.execution.planned_at).filter(|seq| *seq > 0);
    let recalled = state.recalled.iter().flat_map(|recalled| recalled.entries.iter().cloned());
    let mut related: Vec<String> =
        planned.map(|seq| entry_id(state, seq)).into_iter().chain(recalled).collect();
    let mut known = BTreeSet::new();
    related.retain(|entry| known.insert(entry.clone()));
    v1::Remembered {
        related_to: related,
        positive,
        ..entry(state, "user_feedback", text.to_owned(), digest("feedback", "; ", parts))
    }
}

/// What is kept of a result: the digest and the content were made where it was read.
pub(super) fn result(
    state: &ModeState,
    kind: &str,
    tool: &str,
    content: String,
    digest: String,
) -> v1::Remembered {
    let digest = if digest.is_empty() { digest } else { format!("{kind}: {digest}") };
    let entry = entry(state, kind, content, String::new());
    v1::Remembered { tools: vec![tool.to_owned()], digest, ..entry }
}

/// What is kept of a call whose tool nobody serves.
pub(super) fn absence(state: &ModeState, tool: &str, message: &str) -> v1::Remembered {
    let digest = digest("error", "; ", &[tool, "nobody serves it"]);
    v1::Remembered { tools: vec![tool.to_owned()], ..entry(state, "error", message.to_owned(), digest) }
}

/// The kind of entry that a result is.
pub(super) fn kind_of_result(state: &ModeState, failed: bool, as_expected: bool) -> &'static str {
    // A plan that was made anew does not undo that what came before it was an error.
    let after_error = state.execution.last.as_ref().is_some_and(|last| last.failed);
    match (failed, after_error) {
        (true, _) => "error",
        (false, true) => "solution",
        (false, false) if as_expected && state.execution.plan.is_some() => "success",
        (false, false) => "tool_result",
    }
}

/// The id of what an event of this run has left in memory.
fn entry_id(state: &ModeState, seq: u64) -> String {
    format!("{}-{seq}-0", state.run.run_id)
}

fn tools_of(plan: &v1::ModePlan) -> Vec<String> {
    let mut tools: Vec<String> = plan.steps.iter().map(|step| step.tool.clone()).collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

/// What it is, and of its parts those that have room, in their order. None of them is cut (CONTRACTS §5).
fn digest(what: &str, between: &str, parts: &[impl AsRef<str>]) -> String {
    let (mut digest, mut room) = (what.to_owned(), DIGEST);
    for part in parts.iter().map(AsRef::as_ref) {
        let before = if room == DIGEST { ": " } else { between };
        if let Some(left) = room.checked_sub(before.len().saturating_add(part.len())) {
            digest.push_str(before);
            digest.push_str(part);
            room = left;
        }
    }
    digest
}

fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}
