//! A plan: ordered waves of parallel tasks under an aggregation policy (seed 000). It decides, after each
//! settled task, whether the wave goes on or has ended, and what comes next.

pub(crate) mod state;

use capataz_contracts::v1::{self, event::Body, run_result};
use capataz_policy::aggregation::{self, AggregationKind, ResultStatus, WaveDecision};
use capataz_policy::codes;
use capataz_policy::retry;
use capataz_policy::session::{Progress, Stage, WorkResult};

use super::{Command, Kind, Step, Verdict};
use crate::decide::{Refusal, not_a_session, references, schedule_to_start_error};
use crate::fold::state::{Moment, Phase, RunState};
use crate::input::{Computed, QueryAnswer, ResolvedInput, TaskRef};
use crate::planted::{self, Fault};
use crate::query::{Query, QueryId, Resolving};
use state::PlanState;

impl Kind for PlanState {
    fn run_kind(&self) -> v1::RunKind {
        v1::RunKind::Plan
    }

    fn next(&self, run: &RunState, _now: Moment) -> Vec<Step> {
        if self.awaits_turn() && !planted::is(Fault::PlanBeginsOutOfTurn) {
            return vec![Step::Wait];
        }
        let Some(state) = run.waves.last() else { return vec![begin(0)] };
        let wave = run.current_wave();
        let (size, settled) = (state.tasks.len(), state.tally.total() as usize);
        let policy = run.plan.policy_of(wave);
        match policy.decide(&state.tally, size) {
            WaveDecision::CancelRest if settled < size && state.stopping => vec![Step::Wait],
            WaveDecision::CancelRest if settled < size => {
                vec![Step::StopWave { wave, evaluation: state.tally.evaluation(policy) }]
            }
            WaveDecision::Wait if settled < size => vec![Step::Wait],
            // The wave is over when the next one can begin: until then its tasks may be run again.
            _ => match self.open_query(run) {
                Some((query, asked)) => vec![Step::Query(query, asked)],
                None => after_wave(run, wave, Vec::new()),
            },
        }
    }

    fn schemas_of<'a>(&'a self, run: &'a RunState, task: TaskRef) -> Vec<&'a String> {
        run.output_schema(task).into_iter().collect()
    }

    fn completed(&self, _: &RunState, _: TaskRef, output: v1::Payload, _: Moment) -> Verdict {
        Verdict::done(Some(output))
    }

    fn failed(&self, _: &RunState, _: TaskRef, error: v1::Error) -> Verdict {
        Verdict::attempt_failed(error)
    }

    fn attempt_too_late(&self, run: &RunState, task: TaskRef) -> v1::Error {
        retry::attempt_timeout_error(run.plan.retry_of(task).timeout_per_attempt().unwrap_or_default())
    }

    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error) {
        (ResultStatus::Timeout, schedule_to_start_error(run, task))
    }

    fn declares_tasks(&self) -> bool {
        true
    }

    fn aborts_when_critical(&self) -> bool {
        true
    }

    fn asks_when_high(&self) -> bool {
        self.pause_on_high
    }

    fn asks_at_deadline(&self) -> bool {
        true
    }

    fn outcome_may_be_given(&self) -> bool {
        true
    }

    fn may_run_again(&self, _: &RunState, _: TaskRef, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_be_taken_back(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn open_query(&self, run: &RunState) -> Option<(QueryId, Query)> {
        let (wave, resolving) = reading(run)?;
        Some((references::number_of(run, wave, &resolving), Query::Resolve(Box::new(resolving))))
    }

    fn answered(&self, run: &RunState, answer: QueryAnswer, _: Moment) -> Result<Vec<Step>, Refusal> {
        let QueryAnswer::Computed(computed) = answer else { return Err(Refusal::Outdated) };
        let resolved = match computed {
            Computed::Resolved(resolved) => resolved,
            Computed::Failed(error) => {
                let (_, asked) = reading(run).ok_or(Refusal::Outdated)?;
                let failed = |(task, _)| ResolvedInput { task, input: None, reason: error.message.clone() };
                asked.inputs.into_iter().map(failed).collect()
            }
            _ => return Err(Refusal::Outdated),
        };
        Ok(after_wave(run, run.current_wave(), resolved))
    }

    fn digest(&self, _: &RunState, _: &str, _: &Command) -> String {
        String::new()
    }

    fn command(&self, _: &RunState, command: Command, _: String) -> Result<Vec<Step>, Refusal> {
        Err(not_a_session(&command))
    }

    fn overdue(&self) -> Vec<Step> {
        Vec::new()
    }

    fn turn_has_come(&self, _: &RunState, _: v1::SessionContext) -> Result<Vec<Step>, Refusal> {
        match self.awaits_turn() {
            true => Ok(vec![Step::Record(Body::PlanBegun(v1::PlanBegun {}))]),
            false => Err(Refusal::Outdated),
        }
    }

    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn awaits_turn(&self) -> bool {
        self.session.is_some() && !self.has_turn
    }

    fn session_turn(&self, _: &RunState, _: &str) -> Option<v1::SessionTurn> {
        None
    }

    fn progress<'a>(&'a self, run: &'a RunState, run_id: &'a str) -> Option<Progress<'a>> {
        self.has_turn.then(|| progress(run, run_id))
    }

    fn uses_browser(&self) -> bool {
        false
    }

    fn blobs_of(&self, _: &v1::Payload) -> Vec<v1::BlobRef> {
        Vec::new()
    }

    fn result(&self, _: &RunState) -> Option<run_result::Work> {
        None
    }
}

/// Where the plan stands, as its session says it, but for the tasks that have not settled.
fn progress<'a>(run: &'a RunState, run_id: &'a str) -> Progress<'a> {
    let summary = run.error_summary();
    let stage = match &run.phase {
        Phase::Finished { outcome, .. } => Stage::Ended(match outcome {
            v1::RunOutcome::Succeeded => WorkResult::Succeeded,
            v1::RunOutcome::SucceededWithFailures => WorkResult::SucceededWithFailures,
            v1::RunOutcome::Cancelled => WorkResult::Cancelled,
            v1::RunOutcome::Failed | v1::RunOutcome::Blocked | v1::RunOutcome::Unspecified => {
                WorkResult::Failed
            }
        }),
        Phase::Running | Phase::Ending { .. } => match run.waves.len() {
            0 => Stage::Begun,
            begun => Stage::Wave(u32::try_from(begun).unwrap_or(u32::MAX)),
        },
    };
    Progress {
        run_id,
        stage,
        blocked_on: blocked_on(run),
        pending: Vec::new(),
        failures: u64::from(summary.critical) + u64::from(summary.high),
    }
}

/// What the run waits for: a person's answer, or that a person lets it go on.
fn blocked_on(run: &RunState) -> Option<String> {
    if run.is_finished() {
        return None;
    }
    // Questions about single tasks may be many, and hold nothing.
    let holding = run.is_waiting().then(|| run.open_questions().find(|asked| asked.holds_run())).flatten();
    let question = holding.map(|asked| &asked.question);
    let waits_for = question.map(|question| format!("{}: {}", question.question_id, question.text));
    waits_for.or_else(|| run.paused.then(|| "paused".to_owned()))
}

/// Every task of the wave has settled: the next wave, or the end.
fn after_wave(run: &RunState, wave: u32, resolved: Vec<ResolvedInput>) -> Vec<Step> {
    let tally = run.waves.last().map(|state| &state.tally);
    let evaluation = tally.map(|tally| tally.evaluation(run.plan.policy_of(wave))).unwrap_or_default();
    let finished = Body::WaveFinished(v1::WaveFinished { wave, evaluation: Some(evaluation.clone()) });
    let mut steps = Vec::with_capacity(2);
    steps.push(Step::Record(finished));
    if !evaluation.should_continue {
        let error = Some(wave_error(run, wave, &evaluation));
        steps.push(Step::Finish { outcome: v1::RunOutcome::Failed, error });
    } else if (wave as usize) + 1 < run.plan.waves.len() {
        steps.push(Step::BeginWave { wave: wave + 1, resolved });
    } else if run.waves.iter().any(|wave| wave.tally.failures() > 0) {
        let (successes, total) = run.waves.iter().fold((0, 0), |(successes, total), wave| {
            (successes + wave.tally.successes(), total + wave.tally.total())
        });
        let notice = aggregation::partial_success(successes, total);
        steps.push(Step::Notice(v1::NoticeKind::PartialSuccess, notice));
        steps.push(Step::Finish { outcome: v1::RunOutcome::SucceededWithFailures, error: None });
    } else {
        steps.push(Step::Finish { outcome: v1::RunOutcome::Succeeded, error: None });
    }
    steps
}

fn begin(wave: u32) -> Step {
    Step::BeginWave { wave, resolved: Vec::new() }
}

/// The wave that begins next, and what of its inputs has to be read before; `None` where there is nothing of that.
fn reading(run: &RunState) -> Option<(u32, Resolving)> {
    let (state, wave) = (run.waves.last()?, run.current_wave());
    let policy = run.plan.policy_of(wave);
    let is_over = state.tally.total() as usize >= state.tasks.len();
    // No wave begins while a person is waited for.
    if !is_over || run.is_waiting() || !state.tally.evaluation(policy).should_continue {
        return None;
    }
    let next = wave.checked_add(1)?;
    Some((next, references::to_be_read(run, next)?))
}

/// Why a wave ends its run.
fn wave_error(run: &RunState, wave: u32, evaluation: &v1::Evaluation) -> v1::Error {
    match run.plan.policy_of(wave).kind() {
        AggregationKind::Quorum => aggregation::quorum_not_met(evaluation),
        AggregationKind::CriticalPath => {
            let critical = evaluation.critical_failures.first().map_or("", String::as_str);
            aggregation::critical_agent_failed(critical)
        }
        AggregationKind::FailFast | AggregationKind::ContinueAll => first_failure(run)
            .unwrap_or_else(|| codes::error(codes::UNKNOWN_ERROR, "a task failed".to_owned())),
    }
}

/// The error of the task that failed first.
fn first_failure(run: &RunState) -> Option<v1::Error> {
    let ended = run.activities().filter_map(|(_, activity)| activity.end.as_ref());
    let failed = ended.filter(|end| matches!(end.status, ResultStatus::Error | ResultStatus::Timeout));
    failed.min_by_key(|end| end.at).and_then(|end| end.error.clone())
}
