//! How reliable agents are, by the tasks that they have done: retries, durations, and a timeout that suits them.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use serde_json::{Value, json};

use crate::format;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::words;

/// Share of a second time that a suggested timeout leaves above the 95th percentile.
const ROOM: i64 = 2;
/// The smallest suggestion, and the step between suggestions. Beyond this many steps they are whole minutes.
const STEP_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60_000;
const MINUTES_FROM_MS: i64 = 5 * MINUTE_MS;

/// What is known of one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Tasks that were begun and have ended.
    pub tasks: u64,
    pub attempts: u64,
    /// Tasks that had more than one attempt.
    pub retried: u64,
    /// Tasks that ended with their time.
    pub timeouts: u64,
    /// Tasks that did not end with success, those with a timeout among them.
    pub failed: u64,
    /// How long successful attempts took, the shortest first.
    durations: Vec<i64>,
}

impl Stats {
    /// The share of tasks that had more than one attempt, 0 to 1.
    #[must_use]
    pub fn retry_rate(&self) -> f64 {
        if self.tasks == 0 { 0.0 } else { self.retried as f64 / self.tasks as f64 }
    }

    /// The duration that this share of successful attempts did not exceed, in percent; `None` without a success.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<i64> {
        // The nearest rank: the smallest duration that so many have reached.
        let rank = (self.durations.len() * percent).div_ceil(100).max(1);
        self.durations.get(rank - 1).copied()
    }

    /// Twice the 95th percentile, in whole seconds, and from five minutes on in whole minutes.
    #[must_use]
    pub fn suggested_timeout_ms(&self) -> Option<i64> {
        let wanted = self.percentile(95)?.saturating_mul(ROOM).max(1);
        let step = if wanted > MINUTES_FROM_MS { MINUTE_MS } else { STEP_MS };
        Some((wanted.saturating_add(step - 1) / step).saturating_mul(step))
    }

    #[must_use]
    pub fn to_json(&self, agent: &str) -> Value {
        json!({
            "agent": agent,
            "tasks": self.tasks,
            "attempts": self.attempts,
            "retried": self.retried,
            "retry_rate": self.retry_rate(),
            "failed": self.failed,
            "timeouts": self.timeouts,
            "p50_ms": self.percentile(50),
            "p95_ms": self.percentile(95),
            "suggested_timeout_ms": self.suggested_timeout_ms(),
        })
    }
}

/// The tasks of the run, without those that a fork has of another run, where they count.
pub fn own_tasks(run: v1::Run) -> impl Iterator<Item = v1::TaskView> {
    let begun_at = run.forked_from.as_ref().map(|_| run.created_at_ms);
    let is_own = move |task: &v1::TaskView| {
        task.settled_at_ms.zip(begun_at).is_none_or(|(settled, begun)| settled > begun)
    };
    run.waves.into_iter().flat_map(|wave| wave.tasks).filter(is_own)
}

/// The statistics of each agent, by its name. Tasks that were cancelled or are at work do not count.
#[must_use]
pub fn of_tasks<'t>(tasks: impl IntoIterator<Item = &'t v1::TaskView>) -> BTreeMap<String, Stats> {
    let mut agents: BTreeMap<String, Stats> = BTreeMap::new();
    for task in tasks {
        let ended = task.status.is_some() && task.started_at_ms.is_some();
        if !ended || task.status() == v1::ResultStatus::Cancelled {
            continue;
        }
        let stats = agents.entry(task.agent.clone()).or_default();
        let attempts = u64::from(task.attempt).max(1);
        stats.tasks += 1;
        stats.attempts += attempts;
        stats.retried += u64::from(attempts > 1);
        stats.timeouts += u64::from(task.status() == v1::ResultStatus::Timeout);
        if task.status() == v1::ResultStatus::Success {
            let of_attempt = task.attempts.last().map(|attempt| attempt.duration_ms);
            let of_task =
                task.started_at_ms.zip(task.settled_at_ms).map(|(begun, ended)| ended.saturating_sub(begun));
            stats.durations.extend(of_attempt.or(of_task));
        } else {
            stats.failed += 1;
        }
    }
    agents.values_mut().for_each(|stats| stats.durations.sort_unstable());
    agents
}

/// A table of the agents.
#[must_use]
pub fn table(agents: &BTreeMap<String, Stats>, paint: Paint) -> String {
    let mut table = Table::new(words().agent_stats.head);
    for (agent, stats) in agents {
        let took = |duration: Option<i64>| duration.map(format::took).unwrap_or_default();
        let tone = |count: u64| if count > 0 { Tone::Warning } else { Tone::Plain };
        table.row([
            (agent.clone(), Tone::Strong),
            (stats.tasks.to_string(), Tone::Plain),
            (stats.attempts.to_string(), Tone::Plain),
            (format::share(stats.retried, stats.tasks), tone(stats.retried)),
            (stats.failed.to_string(), tone(stats.failed)),
            (stats.timeouts.to_string(), tone(stats.timeouts)),
            (took(stats.percentile(50)), Tone::Plain),
            (took(stats.percentile(95)), Tone::Plain),
            (stats.suggested_timeout_ms().map(format::exactly).unwrap_or_default(), Tone::Faint),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(agent: &str, status: v1::ResultStatus, attempt: u32, took_ms: i64) -> v1::TaskView {
        v1::TaskView {
            agent: agent.to_owned(),
            status: Some(status.into()),
            attempt,
            started_at_ms: Some(1_000),
            settled_at_ms: Some(1_000 + took_ms),
            ..v1::TaskView::default()
        }
    }

    /// Twenty durations of 1 s to 20 s: the tenth and the nineteenth are the percentiles.
    #[test]
    fn percentiles_are_by_nearest_rank_and_the_timeout_has_twice_the_room() {
        let tasks: Vec<v1::TaskView> =
            (1..=20).rev().map(|seconds| task("a", v1::ResultStatus::Success, 1, seconds * 1_000)).collect();
        let stats = &of_tasks(&tasks)["a"];
        assert_eq!((stats.percentile(50), stats.percentile(95)), (Some(10_000), Some(19_000)));
        assert_eq!(stats.suggested_timeout_ms(), Some(38_000));
        let one = &of_tasks(&[task("a", v1::ResultStatus::Success, 1, 700)])["a"];
        assert_eq!((one.percentile(50), one.percentile(95)), (Some(700), Some(700)));
        assert_eq!(one.suggested_timeout_ms(), Some(2_000));
        let slow = &of_tasks(&[task("a", v1::ResultStatus::Success, 1, 151_000)])["a"];
        assert_eq!(slow.suggested_timeout_ms(), Some(6 * 60_000));
        let none = &of_tasks(&[task("a", v1::ResultStatus::Error, 1, 700)])["a"];
        assert_eq!((none.percentile(95), none.suggested_timeout_ms()), (None, None));
    }

    #[test]
    fn what_a_fork_has_of_another_run_is_counted_there_alone() {
        let at =
            |settled| v1::TaskView { settled_at_ms: settled, ..task("a", v1::ResultStatus::Success, 1, 0) };
        let wave =
            v1::WaveView { tasks: vec![at(Some(4_999)), at(Some(5_001)), at(None)], ..Default::default() };
        let run = v1::Run { created_at_ms: 5_000, waves: vec![wave], ..v1::Run::default() };
        let forked_from = Some(v1::ForkRef { run_id: "other".to_owned(), seq: 7 });
        let fork = v1::Run { forked_from, ..run.clone() };
        let settled = |run| own_tasks(run).map(|task| task.settled_at_ms).collect::<Vec<_>>();
        assert_eq!(settled(fork), [Some(5_001), None]);
        assert_eq!(settled(run), [Some(4_999), Some(5_001), None]);
    }

    #[test]
    fn retries_failures_and_timeouts_are_counted_and_what_was_cancelled_is_not() {
        let begun = v1::TaskView { status: None, ..task("a", v1::ResultStatus::Success, 1, 1) };
        let never = v1::TaskView { started_at_ms: None, ..task("a", v1::ResultStatus::Cancelled, 0, 1) };
        let tasks = [
            task("a", v1::ResultStatus::Success, 3, 1_000),
            task("a", v1::ResultStatus::Error, 2, 9_000),
            task("a", v1::ResultStatus::Timeout, 1, 9_000),
            task("a", v1::ResultStatus::Success, 1, 3_000),
            task("a", v1::ResultStatus::Cancelled, 1, 9_000),
            task("b", v1::ResultStatus::Success, 1, 50),
            begun,
            never,
        ];
        let agents = of_tasks(&tasks);
        let a = &agents["a"];
        assert_eq!((a.tasks, a.attempts, a.retried, a.failed, a.timeouts), (4, 7, 2, 2, 1));
        assert_eq!(a.retry_rate(), 0.5);
        assert_eq!(a.percentile(95), Some(3_000), "only what succeeded says how long it takes");
        assert_eq!(
            table(&agents, Paint::OFF),
            "\
AGENT  TASKS  ATTEMPTS  RETRIED    FAILED  TIMEOUTS  P50   P95   SUGGESTED TIMEOUT
a      4      7         2/4 (50%)  2       1         1s    3s    6s
b      1      1         0/1 (0%)   0       0         50ms  50ms  1s"
        );
        assert_eq!(
            a.to_json("a"),
            json!({
                "agent": "a", "tasks": 4, "attempts": 7, "retried": 2, "retry_rate": 0.5, "failed": 2,
                "timeouts": 1, "p50_ms": 1_000, "p95_ms": 3_000, "suggested_timeout_ms": 6_000,
            })
        );
    }
}
