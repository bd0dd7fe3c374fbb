//! An execution as its readers see it (seed 004, `ExecutionState`).

use capataz_contracts::v1;

use super::state::{Kept, ModeState, Stage};
use crate::fold::state::{Phase, RunState};

impl ModeState {
    /// The name of the next checkpoint.
    pub(super) fn next_checkpoint(&self) -> String {
        format!("c{}", self.made.saturating_add(1))
    }

    pub(super) fn view(&self, run: &RunState, output: bool) -> v1::ExecutionState {
        let execution = &self.execution;
        let last = execution.last.as_ref().map(|last| {
            let given = || run.waves.get(last.wave? as usize)?.tasks.first()?.end.as_ref()?.output.clone();
            v1::ToolOutcome {
                tool: last.tool.clone(),
                error: last.error.clone(),
                duration_ms: last.duration_ms,
                output: output.then(given).flatten(),
            }
        });
        let recalled = self.recalled.as_ref();
        v1::ExecutionState {
            session_id: self.memory_of().to_owned(),
            mode: self.mode().into(),
            step: execution.step,
            error_count: execution.errors,
            last_result: last,
            execution_state: self.stands(run).to_owned(),
            plan: execution.plan.clone(),
            steps: execution.steps.clone(),
            approved: execution.approved,
            progress: execution.progress(),
            deviation: execution.deviation(),
            replans: execution.replans,
            escalations: self.escalations,
            checkpoints: self.checkpoints.iter().map(checkpoint).collect(),
            memory_entries: recalled
                .map_or(0, |recalled| u32::try_from(recalled.entries.len()).unwrap_or(u32::MAX)),
            memory_tokens: recalled.map_or(0, |recalled| recalled.tokens),
            metrics: Some(self.metrics),
            plan_text: execution.plan.as_ref().map(text_of),
        }
    }

    /// The execution, where it has begun and ended.
    pub(super) fn ended(&self, run: &RunState) -> Option<v1::ExecutionEnded> {
        let Phase::Finished { outcome, at, .. } = &run.phase else { return None };
        self.begun.as_ref().map(|_| v1::ExecutionEnded {
            outcome: (*outcome).into(),
            took_ms: at.0.saturating_sub(self.metrics.begun_at_ms).max(0),
            metrics: Some(self.metrics),
        })
    }

    /// One of the seed's words.
    fn stands(&self, run: &RunState) -> &'static str {
        match &run.phase {
            Phase::Finished { outcome: v1::RunOutcome::Succeeded, .. } => "completed",
            Phase::Finished { .. } | Phase::Ending { .. } => "error",
            Phase::Running if run.paused || run.is_waiting() => "paused",
            Phase::Running => match self.stage {
                Stage::Begins | Stage::Plans | Stage::Asked { .. } | Stage::Proposed | Stage::Rejected => {
                    "planning"
                }
                Stage::Wanted(_) | Stage::Called { .. } | Stage::Escalated(_) => "executing",
                Stage::Completed { .. } => "completed",
            },
        }
    }
}

/// A plan as a text: its steps, each in a line with its number and its tool.
fn text_of(plan: &v1::ModePlan) -> String {
    let lines = plan.steps.iter().zip(1u32..);
    let one_line = |text: &str| text.split(char::is_control).collect::<Vec<_>>().join(" ");
    let line = |(step, number): (&v1::PlanStep, u32)| {
        format!("{number}. {} ({})", one_line(&step.description), one_line(&step.tool))
    };
    let lines = lines.map(line);
    lines.collect::<Vec<_>>().join("\n")
}

fn checkpoint(kept: &Kept) -> v1::ModeCheckpoint {
    let why_not = kept.irreversible.as_ref().map_or_else(String::new, |tool| {
        format!("{tool} was called since then, and what it did cannot be undone")
    });
    v1::ModeCheckpoint {
        checkpoint_id: kept.id.clone(),
        at_ms: kept.at.0,
        reason: kept.reason.clone(),
        step: kept.execution.step,
        can_rollback: kept.irreversible.is_none(),
        why_not,
        seq: kept.seq,
    }
}
