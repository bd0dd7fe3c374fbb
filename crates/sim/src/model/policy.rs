//! What a wave's policy says of its results, by the seed and not by the code under test (seed 000, contract 5).

use capataz_contracts::v1;

use super::log::{RunModel, place};

/// What follows from the results of a wave so far.
pub(super) struct Judged {
    /// Without its reason, which is for people.
    pub(super) evaluation: v1::Evaluation,
    /// The tasks that have not ended cannot change it any more, and are not waited for.
    pub(super) cancels_rest: bool,
}

impl RunModel {
    /// The failures of all tasks by their severities.
    pub(super) fn summary(&self) -> v1::ErrorSummary {
        let mut summary = v1::ErrorSummary::default();
        let waves = self.waves.iter().zip(0..);
        let begun = waves.flat_map(|(wave, number)| {
            wave.tasks.iter().zip(0..).map(move |(task, index)| (place(number, index), task))
        });
        // What a person has given up has failed, also where its wave was taken back.
        for (task, model) in begun.chain(self.taken_back.iter().map(|(task, model)| (*task, model))) {
            let Some(result) = model.result.as_ref().filter(|result| is_failure(result.status)) else {
                continue;
            };
            summary.total += 1;
            summary.critical_tasks += u32::from(self.declared(task).is_some_and(|task| task.critical));
            match v1::Severity::try_from(result.severity) {
                Ok(v1::Severity::Critical) => summary.critical += 1,
                Ok(v1::Severity::Medium) => summary.medium += 1,
                Ok(v1::Severity::Low) => summary.low += 1,
                _ => summary.high += 1,
            }
        }
        summary
    }

    pub(super) fn evaluate(&self, wave: u32) -> Judged {
        use v1::AggregationKind as Kind;
        let declared = self.plan.waves.get(wave as usize);
        let policy = declared.and_then(|wave| wave.policy.as_ref()).or(self.plan.policy.as_ref());
        let policy = policy.cloned().unwrap_or_default();
        let kind = match policy.kind() {
            Kind::Unspecified => Kind::Quorum,
            kind => kind,
        };
        let tasks = declared.map(|wave| wave.tasks.as_slice()).unwrap_or_default();
        let models = self.waves.get(wave as usize).map(|wave| wave.tasks.as_slice()).unwrap_or_default();
        let ended: Vec<(&v1::Task, i32)> = tasks
            .iter()
            .zip(models)
            .filter_map(|(task, model)| Some((task, model.result.as_ref()?.status)))
            .collect();
        let succeeded = |(_, status): &&(&v1::Task, i32)| *status == v1::ResultStatus::Success as i32;
        let failed = ended.iter().filter(|(_, status)| is_failure(*status));
        let failed: Vec<&v1::Task> = failed.map(|(task, _)| *task).collect();
        let (total, successes) = (ended.len(), ended.iter().filter(succeeded).count());
        // 75 % of 4 is 3: a threshold of the worlds is a number of quarters.
        let threshold = policy.quorum_threshold.unwrap_or(0.5);
        let is_met = |successes: usize, of: usize| of > 0 && successes as f64 >= threshold * of as f64;
        let goes_on = match kind {
            Kind::FailFast => successes == total,
            Kind::ContinueAll => true,
            Kind::CriticalPath => ended.iter().all(|ended| !ended.0.critical || succeeded(&ended)),
            Kind::Quorum | Kind::Unspecified => is_met(successes, total),
        };
        let missing = tasks.len() - total;
        let cancels_rest = missing > 0
            && match kind {
                Kind::FailFast | Kind::CriticalPath => !goes_on,
                Kind::ContinueAll => false,
                Kind::Quorum | Kind::Unspecified => {
                    policy.stop_when_decided()
                        && (is_met(successes, tasks.len()) || !is_met(successes + missing, tasks.len()))
                }
            };
        let mut failed_agents: Vec<String> = failed.iter().map(|task| task.agent.clone()).collect();
        failed_agents.sort();
        failed_agents.dedup();
        let names = |critical: bool| {
            let named = failed.iter().filter(|task| task.critical == critical);
            let mut names: Vec<String> = named.map(|task| task.name.clone()).collect();
            names.sort();
            names
        };
        let is_quorum = kind == Kind::Quorum;
        let evaluation = v1::Evaluation {
            should_continue: goes_on,
            policy: kind.into(),
            successes: u32::try_from(successes).unwrap_or(u32::MAX),
            total: u32::try_from(total).unwrap_or(u32::MAX),
            success_rate: if total == 0 { 0.0 } else { successes as f64 / total as f64 },
            threshold: is_quorum.then_some(threshold),
            quorum_met: is_quorum.then_some(goes_on),
            reason: String::new(),
            failed_agents,
            critical_failures: names(true),
            optional_failures: names(false),
        };
        Judged { evaluation, cancels_rest }
    }
}

/// A cancelled task has not failed.
fn is_failure(status: i32) -> bool {
    [v1::ResultStatus::Error, v1::ResultStatus::Timeout].into_iter().any(|failure| status == failure as i32)
}

/// Equal but for the order of names, which is that of the results, and with a reason.
pub(super) fn same(given: Option<&v1::Evaluation>, direct: &v1::Evaluation) -> bool {
    let Some(given) = given else { return false };
    let mut told = v1::Evaluation { reason: String::new(), ..given.clone() };
    told.failed_agents.sort();
    told.critical_failures.sort();
    told.optional_failures.sort();
    !given.reason.is_empty() && told == *direct
}
