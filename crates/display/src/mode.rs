//! Executions: where they stand, their plans and checkpoints (seed 004).

use capataz_contracts::v1::{self, ExecutionMode, ReplanReason, StepStatus};

use crate::format::utc;
use crate::frame::{truncated, visible};
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::messages::message;
use crate::words::{counted, fill, words};

/// Columns of what a step is for, and of why a checkpoint was made.
const TOLD_WIDTH: usize = 60;

/// The name of a mode for people.
#[must_use]
pub fn mode_name(mode: ExecutionMode) -> &'static str {
    let texts = &words().modes;
    match mode {
        ExecutionMode::Unspecified => texts.not_begun,
        ExecutionMode::Simple => texts.simple,
        ExecutionMode::Planner => texts.planner,
        ExecutionMode::Supervised => texts.supervised,
    }
}

/// The modes that there are, with what each of them does.
#[must_use]
pub fn modes(paint: Paint) -> String {
    let texts = &words().modes;
    let mut table = Table::new(texts.list_head);
    let known = [
        ("simple", texts.simple, texts.about_simple),
        ("planner", texts.planner, texts.about_planner),
        ("supervised", texts.supervised, texts.about_supervised),
    ];
    for (id, name, about) in known {
        let row = [
            (id.to_owned(), Tone::Strong),
            (capitalized(name), Tone::Plain),
            (about.to_owned(), Tone::Faint),
        ];
        table.row(row);
    }
    table.render(paint)
}

fn capitalized(name: &str) -> String {
    let mut rest = name.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Why a plan is made anew.
#[must_use]
pub fn replan_reason(reason: ReplanReason) -> &'static str {
    let texts = &words().modes;
    match reason {
        ReplanReason::Unspecified => "",
        ReplanReason::Deviation => texts.deviation,
        ReplanReason::Errors => texts.errors,
        ReplanReason::ResourcesUnavailable => texts.resources,
        ReplanReason::InvalidatedSteps => texts.invalidated,
        ReplanReason::Planner => texts.planner_demands,
    }
}

/// How many steps a plan has.
#[must_use]
pub fn steps_of(plan: &v1::ModePlan) -> String {
    let texts = &words().modes;
    counted(plan.steps.len() as u64, texts.steps_one, texts.steps_many)
}

/// An execution as it stands: its plan with a mark for each step, then its figures.
#[must_use]
pub fn execution(state: &v1::ExecutionState, paint: Paint) -> String {
    let texts = &words().modes;
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(format!("{name:<26}  {value}"));
    line(texts.mode, mode_name(state.mode()).to_owned());
    line(texts.session, visible(&state.session_id));
    line(texts.stands, stands(&state.execution_state).to_owned());
    line(texts.actions, state.step.to_string());
    line(texts.errors_in_a_row, state.error_count.to_string());
    if state.plan.is_some() {
        line(texts.progress, percent(state.progress));
        line(texts.deviates, percent(state.deviation));
        line(texts.replans, state.replans.to_string());
    }
    if state.escalations > 0 {
        line(texts.escalations, state.escalations.to_string());
    }
    let entries = counted(state.memory_entries.into(), texts.entries_one, texts.entries_many);
    let tokens = fill(texts.tokens, &[&state.memory_tokens.to_string()]);
    line(texts.memory, format!("{entries}, {tokens}"));
    let mut text = lines.join("\n");
    if let Some(plan) = &state.plan {
        text = format!("{text}\n\n{}\n{}", planned(plan), steps(plan, &state.steps, paint));
    }
    text
}

fn planned(plan: &v1::ModePlan) -> String {
    fill(words().modes.planned, &[&plan.revision.to_string(), &steps_of(plan)])
}

fn stands(word: &str) -> &str {
    let texts = &words().modes;
    match word {
        "planning" => texts.planning,
        "executing" => texts.executing,
        "paused" => texts.paused,
        "completed" => texts.completed_status,
        "error" => texts.error_status,
        other => other,
    }
}

/// The steps of a plan, each with a mark of where it stands.
#[must_use]
pub fn steps(plan: &v1::ModePlan, stand: &[i32], paint: Paint) -> String {
    let mut table = Table::new(words().modes.head_steps);
    for (place, step) in plan.steps.iter().enumerate() {
        let status = stand.get(place).and_then(|status| StepStatus::try_from(*status).ok());
        let (mark, tone) = mark(status.unwrap_or_default());
        table.row([
            (mark.to_owned(), tone),
            (format!("{place} {}", visible(&step.id)), Tone::Plain),
            (visible(&step.tool), Tone::Plain),
            (truncated(&visible(&step.description), TOLD_WIDTH), Tone::Plain),
            (visible(&step.depends_on.join(", ")), Tone::Faint),
        ]);
    }
    table.render(paint)
}

/// The mark of a step that stands there.
#[must_use]
pub fn mark(status: StepStatus) -> (&'static str, Tone) {
    match status {
        StepStatus::Unspecified | StepStatus::Pending => ("·", Tone::Faint),
        StepStatus::InProgress => ("▸", Tone::Strong),
        StepStatus::Succeeded => ("✓", Tone::Good),
        StepStatus::Failed => ("✗", Tone::Bad),
    }
}

/// The checkpoints of an execution.
#[must_use]
pub fn checkpoints(state: &v1::ExecutionState, paint: Paint) -> String {
    let texts = &words().modes;
    if state.checkpoints.is_empty() {
        return texts.no_checkpoints.to_owned();
    }
    let mut table = Table::new(texts.head_checkpoints);
    for kept in &state.checkpoints {
        let (back, tone) = match kept.can_rollback {
            true => (texts.can.to_owned(), Tone::Good),
            false => (fill(texts.cannot, &[&message(&kept.why_not)]), Tone::Faint),
        };
        table.row([
            (kept.checkpoint_id.clone(), Tone::Strong),
            (utc(kept.at_ms), Tone::Plain),
            (kept.step.to_string(), Tone::Plain),
            (truncated(&visible(&message(&kept.reason)), TOLD_WIDTH), Tone::Plain),
            (truncated(&back, TOLD_WIDTH), tone),
        ]);
    }
    table.render(paint)
}

/// What a query looks like, for information only.
#[must_use]
pub fn risk(risk: &v1::AssessRiskResponse, paint: Paint) -> String {
    let texts = &words().modes;
    let (level, tone) = match risk.risk_level.as_str() {
        "low" => (texts.low, Tone::Good),
        "medium" => (texts.medium, Tone::Warning),
        _ => (texts.high, Tone::Bad),
    };
    let mut lines = vec![
        format!("{:<12}  {}", texts.level, paint.text(tone, level)),
        format!("{:<12}  {}", texts.estimated_steps, risk.estimated_steps),
        format!("{:<12}  {:.2}", texts.complexity, risk.complexity_score),
        format!("{:<12}  {:.2}", texts.confidence, risk.confidence),
    ];
    lines.extend(
        risk.reasoning.iter().map(|reason| paint.text(Tone::Faint, &format!("- {}", visible(reason)))),
    );
    lines.join("\n")
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
