//! The fold of an execution: its plan with a mark for each step, what was recalled, and what its models took (seed 004).

use std::collections::BTreeMap;

use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::{self, ExecutionMode, StepStatus};

use crate::frame::{truncated, visible};
use crate::mode::{mark, mode_name};
use crate::paint::{Paint, Tone};
use crate::words::{counted, fill, words};

/// Where an execution stands.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    pub mode: ExecutionMode,
    /// Calls of tools that have come to something.
    pub actions: u32,
    /// Those of them that have failed.
    pub failed: u32,
    pub plan: Option<v1::ModePlan>,
    /// Where its steps stand.
    pub steps: Vec<StepStatus>,
    /// Tokens of memory in the newest prompt.
    pub memory_tokens: u32,
    pub spent: Spent,
    kept: BTreeMap<String, Kept>,
}

/// What a checkpoint has kept.
#[derive(Clone, Debug)]
struct Kept {
    actions: u32,
    failed: u32,
    plan: Option<v1::ModePlan>,
    steps: Vec<StepStatus>,
}

/// What models took, as those who asked them say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Billionths of a unit, by currency.
    pub costs: BTreeMap<String, u64>,
}

impl<'a> Extend<&'a v1::Usage> for Spent {
    /// Adds what pieces of work took.
    fn extend<T: IntoIterator<Item = &'a v1::Usage>>(&mut self, usages: T) {
        usages.into_iter().for_each(|usage| self.add(usage));
    }
}

impl Spent {
    /// Adds what one piece of work took.
    pub fn add(&mut self, usage: &v1::Usage) {
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens.unwrap_or(0));
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens.unwrap_or(0));
        if let Some(cost) = &usage.cost {
            let sum = self.costs.entry(cost.currency.clone()).or_default();
            *sum = sum.saturating_add(cost.nanos);
        }
    }

    /// `1234 tokens in, 56 out; 0.0031 USD`; empty where nobody has said anything.
    #[must_use]
    pub fn told(&self) -> String {
        let mut parts = Vec::new();
        if self.input_tokens > 0 || self.output_tokens > 0 {
            let values = [self.input_tokens.to_string(), self.output_tokens.to_string()];
            parts.push(fill(words().modes.tokens_in_out, &[&values[0], &values[1]]));
        }
        parts.extend(self.costs.iter().map(|(currency, nanos)| amount(*nanos, currency)));
        parts.join("; ")
    }
}

/// `0.0031 USD`: to a ten thousandth, rounded up, so that what costs something never costs nothing.
fn amount(nanos: u64, currency: &str) -> String {
    let parts = nanos.div_ceil(100_000);
    format!("{}.{:04} {}", parts / 10_000, parts % 10_000, visible(currency))
}

impl Execution {
    pub(crate) fn apply(&mut self, body: &Body) {
        match body {
            Body::ModeBegun(begun) => self.mode = begun.mode(),
            Body::PlannerAsked(asked) => {
                self.memory_tokens = asked.recalled.as_ref().map_or(0, |recalled| recalled.tokens);
            }
            Body::PlannerAnswered(answered) => {
                if let Some(plan) = &answered.plan {
                    self.begin(plan, answered.keeps_done);
                }
            }
            Body::PlanEdited(edited) => {
                if let Some(plan) = &edited.plan {
                    self.begin(plan, true);
                }
            }
            Body::ToolCalled(called) => self.stands(called.step_index, StepStatus::InProgress),
            Body::ToolObserved(seen) => {
                self.actions = seen.step;
                let has_failed = seen.error.is_some() && !seen.as_expected;
                self.failed += u32::from(has_failed);
                let status = if has_failed { StepStatus::Failed } else { StepStatus::Succeeded };
                self.stands(seen.step_index, status);
            }
            Body::ModeCheckpointed(made) => {
                let mut steps = self.steps.clone();
                // What is at work is to be done when the run comes back here.
                for status in steps.iter_mut().filter(|status| **status == StepStatus::InProgress) {
                    *status = StepStatus::Pending;
                }
                let (actions, failed, plan) = (self.actions, self.failed, self.plan.clone());
                self.kept.insert(made.checkpoint_id.clone(), Kept { actions, failed, plan, steps });
            }
            Body::ModeRolledBack(back) => {
                if let Some(kept) = self.kept.get(&back.checkpoint_id).cloned() {
                    (self.actions, self.failed) = (kept.actions, kept.failed);
                    (self.plan, self.steps) = (kept.plan, kept.steps);
                }
            }
            Body::TaskSettled(settled) => self.spent.extend(&settled.usage),
            Body::TaskAttemptFailed(failed) => self.spent.extend(&failed.usage),
            _ => {}
        }
    }

    fn begin(&mut self, plan: &v1::ModePlan, keeps_done: bool) {
        let before = self.plan.as_ref().filter(|_| keeps_done);
        let before = before.into_iter().flat_map(|plan| &plan.steps).zip(&self.steps);
        let done: Vec<&str> = before
            .filter(|(_, status)| **status == StepStatus::Succeeded)
            .map(|(step, _)| step.id.as_str())
            .collect();
        let status = |step: &v1::PlanStep| match done.contains(&step.id.as_str()) {
            true => StepStatus::Succeeded,
            false => StepStatus::Pending,
        };
        let steps = plan.steps.iter().map(status).collect();
        self.steps = steps;
        self.plan = Some(plan.clone());
    }

    fn stands(&mut self, step: Option<u32>, status: StepStatus) {
        if let Some(place) = step.and_then(|step| self.steps.get_mut(step as usize)) {
            *place = status;
        }
    }

    /// One line: the mode, what was done, what was recalled and what it took.
    #[must_use]
    pub fn heading(&self) -> String {
        let texts = &words().modes;
        let actions = counted(self.actions.into(), texts.actions_one, texts.actions_many);
        let mut parts = vec![mode_name(self.mode).to_owned(), actions];
        if self.memory_tokens > 0 {
            parts.push(fill(texts.memory_tokens, &[&self.memory_tokens.to_string()]));
        }
        parts.push(self.spent.told());
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }

    /// The steps of its plan, a line each with its mark: so many at most, those around the first that is not done.
    #[must_use]
    pub fn steps_around(&self, rows: usize, columns: usize, paint: Paint) -> Vec<String> {
        let steps = self.plan.as_ref().map_or(&[][..], |plan| plan.steps.as_slice());
        let is_open = |status: &StepStatus| *status != StepStatus::Succeeded;
        let at = self.steps.iter().position(is_open).unwrap_or(steps.len());
        let most = steps.len().saturating_sub(rows);
        // One that is done stays in sight above it.
        let from = at.saturating_sub(1).min(most);
        let shown = steps.iter().zip(&self.steps).enumerate().skip(from).take(rows);
        let line = |(place, (step, status)): (usize, (&v1::PlanStep, &StepStatus))| {
            let (mark, tone) = mark(*status);
            let what = if step.description.is_empty() { &step.id } else { &step.description };
            let text = format!("{mark} {} {}  {}", place + 1, visible(&step.tool), visible(what));
            paint.text(tone, &truncated(&text, columns))
        };
        shown.map(line).collect()
    }
}

/// What all work of a run took of models, attempts that have failed included; empty where nobody has said anything.
#[must_use]
pub fn spent_of(run: &v1::Run) -> Spent {
    let mut spent = Spent::default();
    for task in run.waves.iter().flat_map(|wave| &wave.tasks) {
        // The last attempt is one of those that have ended.
        match task.attempts.iter().any(|attempt| attempt.usage.is_some()) {
            true => spent.extend(task.attempts.iter().filter_map(|attempt| attempt.usage.as_ref())),
            false => spent.extend(&task.usage),
        }
    }
    spent
}

/// The line of what a run took of models.
#[must_use]
pub fn spent_line(run: &v1::Run, paint: Paint) -> String {
    match spent_of(run).told() {
        told if told.is_empty() => told,
        told => paint.text(Tone::Faint, &fill(words().modes.spent, &[&told])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    const PLAIN: Paint = Paint::OFF;

    fn plan(revision: u32, ids: &[&str]) -> Option<v1::ModePlan> {
        let step = |id: &&str| v1::PlanStep {
            id: (*id).to_owned(),
            description: format!("does {id}"),
            tool: "a.tool".to_owned(),
            ..v1::PlanStep::default()
        };
        let steps = ids.iter().map(step).collect();
        Some(v1::ModePlan { revision, steps, ..v1::ModePlan::default() })
    }

    fn planned(revision: u32, ids: &[&str], keeps_done: bool) -> Body {
        Body::PlannerAnswered(v1::PlannerAnswered {
            plan: plan(revision, ids),
            keeps_done,
            ..v1::PlannerAnswered::default()
        })
    }

    fn called(step: u32) -> Body {
        Body::ToolCalled(v1::ToolCalled { step_index: Some(step), ..v1::ToolCalled::default() })
    }

    fn seen(action: u32, step: u32, fails: bool) -> Body {
        let error = fails.then(v1::Error::default);
        Body::ToolObserved(v1::ToolObserved {
            step: action,
            step_index: Some(step),
            error,
            ..v1::ToolObserved::default()
        })
    }

    fn took(input: u64, output: u64, nanos: u64) -> Body {
        let cost = Some(v1::Cost { nanos, currency: "USD".to_owned() });
        let usage = v1::Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cost,
            ..v1::Usage::default()
        };
        Body::TaskSettled(Box::new(v1::TaskSettled { usage: Some(usage), ..v1::TaskSettled::default() }))
    }

    fn took_in_vain(input: u64, output: u64, nanos: u64) -> Body {
        let Body::TaskSettled(settled) = took(input, output, nanos) else { panic!() };
        Body::TaskAttemptFailed(v1::TaskAttemptFailed {
            usage: settled.usage,
            ..v1::TaskAttemptFailed::default()
        })
    }

    fn fold(bodies: &[Body]) -> Execution {
        let mut execution = Execution::default();
        bodies.iter().for_each(|body| execution.apply(body));
        execution
    }

    #[test]
    fn each_step_of_the_plan_has_a_mark_of_where_it_stands() {
        let execution = fold(&[
            planned(1, &["look", "read", "write", "tell"], false),
            called(0),
            seen(1, 0, false),
            called(1),
            seen(2, 1, true),
            called(2),
        ]);
        let told = execution.steps_around(9, 40, PLAIN);
        let expected = [
            "✓ 1 a.tool  does look",
            "✗ 2 a.tool  does read",
            "▸ 3 a.tool  does write",
            "· 4 a.tool  does tell",
        ];
        assert_eq!(told, expected);
        assert_eq!(execution.actions, 2);
        // With less room, the first one that is not done, and the one before it.
        assert_eq!(execution.steps_around(2, 40, PLAIN), expected[..2]);
        assert_eq!(execution.steps_around(0, 40, PLAIN), [""; 0]);
        assert_eq!(execution.steps_around(1, 9, PLAIN), ["✓ 1 a.to…"]);
    }

    #[test]
    fn a_new_plan_keeps_what_is_done_where_it_says_so() {
        use StepStatus::{Pending, Succeeded};
        let begun = [planned(1, &["look", "read"], false), called(0), seen(1, 0, false)];
        let with = |keeps: bool| {
            let mut bodies = begun.to_vec();
            bodies.push(planned(2, &["first", "look"], keeps));
            fold(&bodies).steps
        };
        assert_eq!(with(true), [Pending, Succeeded]);
        assert_eq!(with(false), [Pending, Pending]);
        let mut edited = begun.to_vec();
        edited
            .push(Body::PlanEdited(v1::PlanEdited { plan: plan(2, &["look"]), ..v1::PlanEdited::default() }));
        assert_eq!(fold(&edited).steps, [Succeeded]);
    }

    #[test]
    fn a_way_back_restores_the_plan_and_not_what_was_spent() {
        let made = Body::ModeCheckpointed(v1::ModeCheckpointed {
            checkpoint_id: "c1".to_owned(),
            ..v1::ModeCheckpointed::default()
        });
        let back = Body::ModeRolledBack(v1::ModeRolledBack {
            checkpoint_id: "c1".to_owned(),
            ..v1::ModeRolledBack::default()
        });
        let execution = fold(&[
            planned(1, &["look", "read"], false),
            called(0),
            seen(1, 0, false),
            took(100, 10, 1_000_000),
            called(1),
            made,
            seen(2, 1, false),
            planned(2, &["other"], false),
            took(200, 20, 500_000),
            back,
        ]);
        assert_eq!(execution.actions, 1);
        assert_eq!(execution.steps, [StepStatus::Succeeded, StepStatus::Pending]);
        assert_eq!(execution.plan, plan(1, &["look", "read"]));
        assert_eq!(execution.spent.told(), "300 tokens in, 30 out; 0.0015 USD");
    }

    #[test]
    fn what_attempts_took_that_came_to_nothing_was_taken_all_the_same() {
        let execution = fold(&[took_in_vain(100, 10, 1_000_000), took(20, 2, 500_000)]);
        assert_eq!(execution.spent.told(), "120 tokens in, 12 out; 0.0015 USD");
        let usage = |body: Body| match body {
            Body::TaskSettled(settled) => settled.usage,
            Body::TaskAttemptFailed(failed) => failed.usage,
            _ => None,
        };
        let attempt = |usage| v1::AttemptRecord { usage, ..v1::AttemptRecord::default() };
        let last = usage(took(20, 2, 500_000));
        let attempts = vec![attempt(usage(took_in_vain(100, 10, 1_000_000))), attempt(last.clone())];
        let tried_twice = v1::TaskView { usage: last.clone(), attempts, ..v1::TaskView::default() };
        // Of a run whose attempts nobody has counted, the results are what is known.
        let of_old = v1::TaskView { usage: last, ..v1::TaskView::default() };
        let wave = v1::WaveView { tasks: vec![tried_twice, of_old], ..v1::WaveView::default() };
        let run = v1::Run { waves: vec![wave], ..v1::Run::default() };
        assert_eq!(spent_of(&run).told(), "140 tokens in, 14 out; 0.0020 USD");
    }

    #[test]
    fn the_heading_says_what_is_known_in_both_languages() {
        let recalled = Some(v1::Recalled { tokens: 42, ..v1::Recalled::default() });
        let execution = fold(&[
            Body::ModeBegun(v1::ModeBegun {
                mode: ExecutionMode::Planner.into(),
                ..v1::ModeBegun::default()
            }),
            Body::PlannerAsked(v1::PlannerAsked { recalled, ..v1::PlannerAsked::default() }),
            took(1_234, 56, 1),
            seen(1, 0, false),
        ]);
        // A billionth is more than nothing.
        let told = "planner; 1 action; 42 tokens of memory; 1234 tokens in, 56 out; 0.0001 USD";
        assert_eq!(execution.heading(), told);
        let spanish = Language::Spanish.within(|| execution.heading());
        let told =
            "planificador; 1 acción; 42 tokens de memoria; 1234 tokens de entrada, 56 de salida; 0.0001 USD";
        assert_eq!(spanish, told);
        assert_eq!(fold(&[]).heading(), "not decided yet; 0 actions");
    }
}
