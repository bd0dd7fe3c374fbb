//! How executions went, by mode (seed 004, "MÉTRICAS DE ÉXITO"; CONTRACTS §5, "Analytics").

use capataz_contracts::v1::{self, ExecutionMode, RunOutcome};

/// The names of what aims are about.
const SUCCESS_RATE: &str = "success_rate";
const MEAN_MS: &str = "mean_ms";
const REPLAN_RATE: &str = "replan_rate";
const ESCALATION_RATE: &str = "escalation_rate";

/// What the seed wants of a mode: a name, a bound, and whether the value has to be above it.
fn aims(mode: ExecutionMode) -> &'static [(&'static str, f64, bool)] {
    match mode {
        ExecutionMode::Unspecified => &[],
        ExecutionMode::Simple => &[(SUCCESS_RATE, 0.90, true), (MEAN_MS, 10_000.0, false)],
        ExecutionMode::Planner => &[(SUCCESS_RATE, 0.85, true), (REPLAN_RATE, 0.25, false)],
        ExecutionMode::Supervised => &[(SUCCESS_RATE, 0.95, true), (ESCALATION_RATE, 0.10, false)],
    }
}

/// How the executions of the modes went, also under the names of the seed ("Analytics Dashboard"). `all`: those of all modes.
#[must_use]
pub fn analytics_of(modes: Vec<v1::ModeAnalytics>, all: &Sums) -> v1::GetAnalyticsResponse {
    let name =
        |of: &v1::ModeAnalytics| of.mode().as_str_name().trim_start_matches("EXECUTION_MODE_").to_lowercase();
    let memory = all.of_memory();
    v1::GetAnalyticsResponse {
        mode_usage: modes.iter().map(|of| (name(of), of.runs)).collect(),
        success_rates: modes.iter().filter_map(|of| Some((name(of), of.success_rate?))).collect(),
        average_execution_time: modes.iter().filter_map(|of| Some((name(of), of.mean_ms?))).collect(),
        memory_efficiency: Some(v1::MemoryEfficiency {
            hit_rate: memory.hit_rate,
            compression_ratio: memory.compression_ratio,
            retrieval_speed: memory.retrieval_ms,
        }),
        memory: Some(memory),
        modes,
    }
}

/// What is counted of executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    runs: u64,
    succeeded: u64,
    took_ms: u64,
    actions: u64,
    plan_steps: u64,
    replans: u64,
    escalations: u64,
    recalls: u64,
    recalls_with_entries: u64,
    digest_tokens: u64,
    digest_source_tokens: u64,
    recall_us: u64,
}

impl Sums {
    /// Counts an execution that has ended.
    pub fn add(&mut self, ended: &v1::ExecutionEnded) {
        let done = ended.metrics.unwrap_or_default();
        let succeeded = ended.outcome() == RunOutcome::Succeeded;
        self.merge(&Self {
            runs: 1,
            succeeded: succeeded.into(),
            took_ms: u64::try_from(ended.took_ms).unwrap_or_default(),
            actions: done.actions.into(),
            plan_steps: done.plan_steps.into(),
            replans: done.replans.into(),
            escalations: done.escalations.into(),
            recalls: done.recalls.into(),
            recalls_with_entries: done.recalls_with_entries.into(),
            digest_tokens: done.digest_tokens,
            digest_source_tokens: done.digest_source_tokens,
            recall_us: done.recall_us,
        });
    }

    /// Counts what others have counted.
    pub fn merge(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.runs, other.runs);
        add(&mut self.succeeded, other.succeeded);
        add(&mut self.took_ms, other.took_ms);
        add(&mut self.actions, other.actions);
        add(&mut self.plan_steps, other.plan_steps);
        add(&mut self.replans, other.replans);
        add(&mut self.escalations, other.escalations);
        add(&mut self.recalls, other.recalls);
        add(&mut self.recalls_with_entries, other.recalls_with_entries);
        add(&mut self.digest_tokens, other.digest_tokens);
        add(&mut self.digest_source_tokens, other.digest_source_tokens);
        add(&mut self.recall_us, other.recall_us);
    }

    /// How the executions in this mode went, where these are they.
    #[must_use]
    pub fn of_mode(&self, mode: ExecutionMode) -> v1::ModeAnalytics {
        let mut told = v1::ModeAnalytics {
            mode: mode.into(),
            runs: self.runs,
            succeeded: self.succeeded,
            success_rate: share(self.succeeded, self.runs),
            mean_ms: share(self.took_ms, self.runs),
            actions: self.actions,
            plan_steps: self.plan_steps,
            replans: self.replans,
            replan_rate: share(self.replans, self.plan_steps),
            escalations: self.escalations,
            escalation_rate: share(self.escalations, self.plan_steps),
            aims: Vec::new(),
        };
        let value = |of: &str| match of {
            SUCCESS_RATE => told.success_rate,
            MEAN_MS => told.mean_ms,
            REPLAN_RATE => told.replan_rate,
            _ => told.escalation_rate,
        };
        let aim = |(of, bound, above): &(&str, f64, bool)| v1::Aim {
            of: (*of).to_owned(),
            bound: *bound,
            above: *above,
            met: value(of).map(|value| if *above { value > *bound } else { value < *bound }),
        };
        told.aims = aims(mode).iter().map(aim).collect();
        told
    }

    /// What memory was good for in these executions.
    #[must_use]
    pub fn of_memory(&self) -> v1::MemoryAnalytics {
        v1::MemoryAnalytics {
            recalls: self.recalls,
            hit_rate: share(self.recalls_with_entries, self.recalls),
            compression_ratio: share(self.digest_tokens, self.digest_source_tokens),
            retrieval_ms: share(self.recall_us, self.recalls).map(|us| us / 1_000.0),
        }
    }
}

/// A number for each of others; nothing for none.
#[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact, and nobody sees more digits")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use capataz_contracts::json;

    use super::*;

    fn ended(outcome: RunOutcome, took_ms: i64, metrics: v1::ExecutionMetrics) -> v1::ExecutionEnded {
        v1::ExecutionEnded { outcome: outcome.into(), took_ms, metrics: Some(metrics) }
    }

    // S004-AN-01
    #[test]
    fn rates_are_of_what_has_ended_and_of_steps_of_plans() {
        let mut sums = Sums::default();
        let metrics = v1::ExecutionMetrics {
            actions: 6,
            plan_steps: 5,
            replans: 1,
            escalations: 2,
            recalls: 4,
            recalls_with_entries: 3,
            digest_tokens: 30,
            digest_source_tokens: 120,
            recall_us: 6_000,
            ..v1::ExecutionMetrics::default()
        };
        sums.add(&ended(RunOutcome::Succeeded, 4_000, metrics));
        let empty = v1::ExecutionMetrics { recalls: 1, plan_steps: 5, ..v1::ExecutionMetrics::default() };
        for outcome in [RunOutcome::Failed, RunOutcome::Cancelled, RunOutcome::Succeeded] {
            sums.add(&ended(outcome, 2_000, empty));
        }
        let told = sums.of_mode(ExecutionMode::Planner);
        assert_eq!((told.runs, told.succeeded, told.success_rate), (4, 2, Some(0.5)));
        assert_eq!((told.mean_ms, told.actions, told.plan_steps), (Some(2_500.0), 6, 20));
        assert_eq!((told.replan_rate, told.escalation_rate), (Some(0.05), Some(0.1)));
        let memory = sums.of_memory();
        assert_eq!((memory.recalls, memory.hit_rate), (7, Some(3.0 / 7.0)));
        assert_eq!((memory.compression_ratio, memory.retrieval_ms), (Some(0.25), Some(6.0 / 7.0)));
        // The same under the names of the seed; what there is no number of is left out.
        let none = Sums::default().of_mode(ExecutionMode::Simple);
        let told = json::print("capataz.v1.GetAnalyticsResponse", &analytics_of(vec![none, told], &sums));
        assert_eq!(told["modeUsage"], serde_json::json!({ "simple": 0, "planner": 4 }));
        assert_eq!(told["successRates"], serde_json::json!({ "planner": 0.5 }));
        assert_eq!(told["averageExecutionTime"], serde_json::json!({ "planner": 2_500.0 }));
        let memory = serde_json::json!({
            "hitRate": 3.0 / 7.0, "compressionRatio": 0.25, "retrievalSpeed": 6.0 / 7.0,
        });
        assert_eq!(told["memoryEfficiency"], memory);
    }

    // S004-AN-02
    #[test]
    fn the_aims_of_the_seed_are_to_be_passed_and_not_only_reached() {
        let mut sums = Sums::default();
        for place in 0..20 {
            let outcome = if place < 18 { RunOutcome::Succeeded } else { RunOutcome::Failed };
            let metrics = v1::ExecutionMetrics {
                plan_steps: 4,
                replans: 1,
                escalations: u32::from(place % 5 < 2),
                ..v1::ExecutionMetrics::default()
            };
            sums.add(&ended(outcome, 10_000, metrics));
        }
        let met = |mode| -> Vec<(String, f64, bool, Option<bool>)> {
            let aims = sums.of_mode(mode).aims;
            aims.into_iter().map(|aim| (aim.of, aim.bound, aim.above, aim.met)).collect()
        };
        let aim = |of: &str, bound, above, met| (of.to_owned(), bound, above, Some(met));
        // 90 of 100 are not more than 90; 10 s are not less than 10.
        assert_eq!(
            met(ExecutionMode::Simple),
            [aim("success_rate", 0.9, true, false), aim("mean_ms", 10_000.0, false, false)]
        );
        assert_eq!(
            met(ExecutionMode::Planner),
            [aim("success_rate", 0.85, true, true), aim("replan_rate", 0.25, false, false)]
        );
        assert_eq!(
            met(ExecutionMode::Supervised),
            [aim("success_rate", 0.95, true, false), aim("escalation_rate", 0.1, false, false)]
        );
        let nothing = Sums::default().of_mode(ExecutionMode::Simple);
        assert!(nothing.aims.iter().all(|aim| aim.met.is_none()) && nothing.success_rate.is_none());
    }
}
