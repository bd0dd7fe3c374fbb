//! The places of commands that are alive, or may be: what was let go takes its place until its shim has ended.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tokio::time::timeout;

use super::agent::ProcessAgent;
use super::run::DISAPPEAR_LIMIT;
use crate::protocol::Lease;

/// A wait is so many short ones: one in which this process stood still, and heard nothing, is one of them and no more.
const STEPS: u32 = 10;

/// The commands of all agents that take a place, by their leases, each with the name of its agent. All that share a folder of
/// lock files share these.
#[derive(Clone, Debug, Default)]
pub struct Places(watch::Sender<BTreeMap<Lease, String>>);

impl Places {
    /// Waits until nothing of an earlier lease of the same task is alive, and until the agent has a place free.
    ///
    /// What cannot be ended is waited for no longer than a command may take to disappear.
    pub(super) async fn take(&self, lease: Lease, agent: &ProcessAgent) -> Place {
        // From here on every place that is given back is noticed.
        let mut changes = self.0.subscribe();
        for _ in 0..STEPS {
            let taken = async {
                while !self.take_if_free(&lease, agent) {
                    let _ = changes.changed().await;
                }
            };
            if timeout(DISAPPEAR_LIMIT / STEPS, taken).await.is_ok() {
                return Place { places: self.clone(), lease };
            }
        }
        tracing::warn!(agent = agent.name, "what was let go has not ended; going on without waiting for it");
        self.0.send_modify(|taken| drop(taken.insert(lease.clone(), agent.name.clone())));
        Place { places: self.clone(), lease }
    }

    /// Whether it was free, and is taken now.
    fn take_if_free(&self, lease: &Lease, agent: &ProcessAgent) -> bool {
        let most = usize::try_from(agent.max_concurrency).unwrap_or(usize::MAX);
        self.0.send_if_modified(|taken| {
            let of_agent = taken.values().filter(|name| **name == agent.name).count();
            let is_free = of_agent < most && !taken.keys().any(|other| other.is_of_same_task(lease));
            if is_free {
                taken.insert(lease.clone(), agent.name.clone());
            }
            is_free
        })
    }
}

/// The place of one command, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    lease: Lease,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.send_modify(|taken| drop(taken.remove(&self.lease)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use capataz_contracts::v1;

    use super::*;

    /// No place comes free within this, where it is to stay taken.
    const MOMENT: Duration = Duration::from_secs(1);

    fn agent(name: &str, max_concurrency: u32) -> ProcessAgent {
        ProcessAgent { max_concurrency, ..ProcessAgent::new(name, ["cat"]) }
    }

    fn lease(task: u32, lease: u64) -> Lease {
        v1::LeaseRef { run_id: "run".to_owned(), wave: 0, task, lease }.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_has_one_place_and_an_agent_as_many_as_it_allows() {
        let places = Places::default();
        let two = agent("two", 2);
        let first = places.take(lease(0, 1), &two).await;
        assert!(timeout(MOMENT, places.take(lease(0, 2), &two)).await.is_err(), "the same task");
        let second = places.take(lease(1, 3), &two).await;
        assert!(timeout(MOMENT, places.take(lease(2, 4), &two)).await.is_err(), "a third one");
        let _other = places.take(lease(2, 5), &agent("other", 1)).await;
        let (third, ()) =
            tokio::join!(timeout(MOMENT, places.take(lease(3, 6), &two)), async { drop(second) });
        let third = third.unwrap();
        drop(first);
        timeout(MOMENT, places.take(lease(0, 7), &two)).await.unwrap();
        drop(third);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_waited_for_within_a_limit_and_counts_on() {
        let places = Places::default();
        let one = agent("one", 1);
        let stays = places.take(lease(0, 1), &one).await;
        let again = timeout(DISAPPEAR_LIMIT + MOMENT, places.take(lease(0, 2), &one)).await.unwrap();
        drop(again);
        assert!(timeout(MOMENT, places.take(lease(1, 3), &one)).await.is_err());
        drop(stays);
        timeout(MOMENT, places.take(lease(1, 4), &one)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_which_this_process_stood_still_is_not_over() {
        let (places, one) = (Places::default(), agent("one", 1));
        let first = places.take(lease(0, 1), &one).await;
        let others = places.clone();
        let waits = tokio::spawn(async move { others.take(lease(0, 2), &one).await });
        tokio::task::yield_now().await;
        tokio::time::advance(2 * DISAPPEAR_LIMIT).await;
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(first);
        timeout(MOMENT, waits).await.unwrap().unwrap();
    }
}
