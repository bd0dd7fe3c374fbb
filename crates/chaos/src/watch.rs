//! The parent's own look at the event stream: which worker holds how many leases, and whose leases were lost.
//!
//! It chooses moments; the verdict does not rest on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capataz_client::{Client, Delivery, v1};
use capataz_contracts::v1::event::Body;
use tokio::task::AbortHandle;

use crate::Outcome;

#[derive(Debug, Default)]
struct Seen {
    /// Holder of each live lease, by run and lease.
    holders: BTreeMap<(String, u64), String>,
    /// Leases that each worker has lost.
    lost: BTreeMap<String, u64>,
    finished: u64,
    refused: u64,
}

/// Looks on until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    pub(crate) fn start(url: &str) -> Outcome<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let mut stream = Client::lazy(url)?.subscribe(v1::SubscribeRequest::default());
        let look = async move {
            while let Some(Ok(delivery)) = stream.next().await {
                if let Delivery::Event { run_id, event, .. } = delivery {
                    lock(&shared).see(run_id, event);
                }
            }
        };
        Ok(Self { seen, task: tokio::spawn(look).abort_handle() })
    }

    /// Live leases of a worker.
    pub(crate) fn leases(&self, worker: &str) -> usize {
        lock(&self.seen).holders.values().filter(|holder| *holder == worker).count()
    }

    /// Leases that a worker has lost so far.
    pub(crate) fn lost(&self, worker: &str) -> u64 {
        lock(&self.seen).lost.get(worker).copied().unwrap_or_default()
    }

    /// Results that were refused.
    pub(crate) fn refused(&self) -> u64 {
        lock(&self.seen).refused
    }

    /// Runs that have ended.
    pub(crate) fn finished(&self) -> u64 {
        lock(&self.seen).finished
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn see(&mut self, run: String, event: v1::Event) {
        match event.body {
            Some(Body::TaskLeased(leased)) => _ = self.holders.insert((run, leased.lease), leased.worker),
            Some(Body::TaskLeaseLost(lost)) => {
                if let Some(worker) = self.holders.remove(&(run, lost.lease)) {
                    *self.lost.entry(worker).or_default() += 1;
                }
            }
            Some(Body::TaskSettled(settled)) => {
                if let Some(lease) = settled.lease {
                    self.holders.remove(&(run, lease));
                }
            }
            Some(Body::ResultRefused(_)) => self.refused += 1,
            Some(Body::RunFinished(_)) => {
                self.finished += 1;
                self.holders.retain(|(other, _), _| *other != run);
            }
            _ => {}
        }
    }
}
