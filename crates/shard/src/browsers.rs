//! Which run has its browser at which worker, and which workers are there. What a run is bound by the engine says; a worker
//! that is away is waited for as long as for its leases, and then the browser is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_crew::{Browsers as Has, ConnectionId, Departure, ToCrew};
use capataz_engine as engine;
use capataz_store::RunId;

use crate::outbox::Deferred;
use crate::runs::RunSlot;
use crate::shard::{Origin, Shard};
use crate::timers::Timer;

/// Runs and workers that have to do with browsers.
#[derive(Default)]
pub(crate) struct Browsers {
    present: BTreeMap<Arc<str>, ConnectionId>,
    workers: BTreeMap<ConnectionId, Arc<str>>,
    of_worker: BTreeMap<Arc<str>, BTreeSet<RunId>>,
    of_run: BTreeMap<RunId, Arc<str>>,
}

impl Browsers {
    fn arrive(&mut self, connection: ConnectionId, worker: &Arc<str>) {
        self.workers.insert(connection, Arc::clone(worker));
        self.present.insert(Arc::clone(worker), connection);
    }

    /// The worker at the other end of the connection, where it has no newer one.
    fn leave(&mut self, connection: ConnectionId) -> Option<Arc<str>> {
        let worker = self.workers.remove(&connection)?;
        if self.present.get(&worker) != Some(&connection) {
            return None;
        }
        self.present.remove(&worker);
        Some(worker)
    }

    fn is_present(&self, worker: &str) -> bool {
        self.present.contains_key(worker)
    }

    /// Nobody is there any more, as far as is known.
    fn forget_workers(&mut self) {
        self.present.clear();
        self.workers.clear();
    }

    /// The run's browser is at this worker, or nowhere. Whether that is news.
    fn bind(&mut self, run: RunId, worker: Option<&str>) -> bool {
        let before = self.of_run.get(&run);
        if before.map(|before| &**before) == worker {
            return false;
        }
        if let Some(before) = self.of_run.remove(&run)
            && let Some(runs) = self.of_worker.get_mut(&before)
        {
            runs.remove(&run);
            if runs.is_empty() {
                self.of_worker.remove(&before);
            }
        }
        if let Some(worker) = worker {
            let worker: Arc<str> = Arc::from(worker);
            self.of_worker.entry(Arc::clone(&worker)).or_default().insert(run);
            self.of_run.insert(run, worker);
        }
        true
    }

    fn runs_of(&self, worker: &str) -> Vec<RunId> {
        self.of_worker.get(worker).into_iter().flatten().copied().collect()
    }

    /// The worker whose slot alone the run's tasks for this agent wait for.
    pub(crate) fn worker_for(&self, run: RunId, agent: &str) -> Option<&Arc<str>> {
        self.worker_of(run).filter(|_| agent == engine::BROWSER_AGENT)
    }

    /// The worker that has the run's browser, or what was kept of it.
    fn worker_of(&self, run: RunId) -> Option<&Arc<str>> {
        self.of_run.get(&run)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Shard {
    /// Something was decided about the run, or it was read, or it is in memory no more: is it bound to a worker now?
    pub(crate) fn note_browser(&mut self, run: RunId) {
        let state = self.runs.get(run).map(|slot| &slot.state);
        let worker = state.and_then(|state| state.binding()).map(|bound| bound.worker);
        let away = worker.is_some_and(|worker| !self.browsers.is_present(worker));
        let is_news = self.browsers.bind(run, worker);
        if is_news {
            // What waits, waits for another worker now.
            self.queues.say_run(run);
        }
        if !away {
            if is_news {
                self.timers.cancel(Timer::Browser(run));
            }
        } else if self.misses_browser(run) {
            self.await_browser(run);
        }
    }

    /// Whether the run needs the worker that it is bound to now: for its browser, or for what waits to be done.
    fn misses_browser(&self, run: RunId) -> bool {
        let is_live = |slot: &RunSlot| slot.state.binding().is_some_and(|bound| bound.is_live);
        self.runs.get(run).is_some_and(is_live) || self.queues.waits(run, engine::BROWSER_AGENT)
    }

    /// Whether a worker has something to do in the run's browser, whose answer will say what has become of that.
    fn works_in_browser(&self, run: RunId) -> bool {
        self.runs.get(run).is_some_and(|slot| slot.state.works_in_browser())
    }

    fn await_browser(&mut self, run: RunId) {
        let timer = Timer::Browser(run);
        if !self.timers.is_set(timer) {
            self.timers.set(timer, self.now.mono.plus(self.config.reattach_ms));
        }
    }

    /// A new session with the crew: all workers are away.
    pub(crate) fn await_browsers(&mut self) {
        self.browsers.forget_workers();
        let runs: Vec<RunId> = self.browsers.of_run.keys().copied().collect();
        for run in runs {
            if self.misses_browser(run) {
                self.await_browser(run);
            }
        }
    }

    /// The worker is there, and its leases are spoken of. What it has no more is lost, unless it still works there: then
    /// its answer says so.
    pub(crate) fn browsers_present(&mut self, connection: ConnectionId, worker: &Arc<str>, has: &Has) {
        self.browsers.arrive(connection, worker);
        for run in self.browsers.runs_of(worker) {
            self.timers.cancel(Timer::Browser(run));
            let bound = self.runs.get(run).and_then(|slot| slot.state.binding());
            let is_live = bound.is_some_and(|bound| bound.is_live);
            if is_live && !has.has(run) && !self.works_in_browser(run) {
                self.lose_browser(run, worker, v1::BrowserLossReason::Restarted);
            }
        }
        let runs: Vec<RunId> = match has {
            Has::Of(runs) => runs.iter().copied().collect(),
            // It never left: what it was to hear may have been lost with the session.
            Has::AllBut(_) => self.browsers.runs_of(worker),
        };
        for run in runs {
            if self.is_put_away(run) {
                self.say_keep(connection, run);
            }
        }
    }

    /// The worker is to close the run's browser, and to keep its state, when it is durable that this is so. That of a run
    /// that rests is.
    fn say_keep(&mut self, connection: ConnectionId, run: RunId) {
        let frame = keep_frame(run);
        if self.runs.contains(run) {
            self.outbox.batch(run).deferred.push(Deferred::Frame(connection, frame));
        } else {
            self.tell(ToCrew::Tell { connection, frame });
        }
    }

    /// Whether the run's browser is to be closed already, as its worker may not have heard.
    fn is_put_away(&self, run: RunId) -> bool {
        match self.runs.get(run) {
            Some(slot) => {
                let kept = slot.state.binding().is_some_and(|bound| !bound.is_live);
                kept && !self.works_in_browser(run)
            }
            // A run with an open browser does not rest, but for one that could not be read. One whose browser was lost may
            // rest, and needs it no more than one whose browser was put away.
            None => self.rests(run) && !self.resting.is_unread(run),
        }
    }

    /// The worker may not have heard that the run's browser is to be closed: it is told again.
    pub(crate) fn keep_again(&mut self, run: RunId) {
        let Some(worker) = self.browsers.worker_of(run).cloned() else { return };
        if self.runs.contains(run)
            && self.is_put_away(run)
            && let Some(connection) = self.connection_of_worker(&worker)
        {
            self.say_keep(connection, run);
        }
    }

    pub(crate) fn browsers_left(&mut self, connection: ConnectionId, departure: Departure) {
        let Some(worker) = self.browsers.leave(connection) else { return };
        for run in self.browsers.runs_of(&worker) {
            let is_live = |bound: engine::Binding<'_>| bound.is_live;
            let has_it = self.runs.get(run).and_then(|slot| slot.state.binding()).is_some_and(is_live);
            match departure {
                Departure::Silent if has_it => {
                    self.lose_browser(run, &worker, v1::BrowserLossReason::Silent);
                }
                Departure::Silent | Departure::Gone if self.misses_browser(run) => self.await_browser(run),
                Departure::Silent | Departure::Gone => {}
            }
        }
    }

    /// The browser has ended by itself. Where something is at work in it, the answer to that says so.
    pub(crate) fn browser_gone(&mut self, worker: &str, run: RunId) {
        if !self.works_in_browser(run) && self.browsers.worker_of(run).is_some_and(|has| &**has == worker) {
            self.lose_browser(run, worker, v1::BrowserLossReason::Ended);
        }
    }

    /// The worker did not come back in time.
    pub(crate) fn browser_missed(&mut self, run: RunId) {
        let Some(worker) = self.browsers.worker_of(run).cloned() else { return };
        if !self.browsers.is_present(&worker) && self.misses_browser(run) {
            self.lose_browser(run, &worker, v1::BrowserLossReason::Disconnected);
        }
    }

    fn lose_browser(&mut self, run: RunId, worker: &str, reason: v1::BrowserLossReason) {
        let lost = engine::Input::BrowserLost { worker: worker.to_owned(), reason };
        self.input(run, lost, Origin::Shard);
    }

    /// Where the worker is that the run's browser is to be closed by.
    pub(crate) fn connection_of_worker(&self, worker: &str) -> Option<ConnectionId> {
        self.browsers.present.get(worker).copied()
    }
}

/// The worker is to close the run's browser, and to keep its state.
pub(crate) fn keep_frame(run: RunId) -> Frame {
    Frame::KeepBrowser(v1::KeepBrowser { run_id: run.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn a_run_is_bound_to_one_worker_and_takes_no_room_when_it_is_not() {
        let mut browsers = Browsers::default();
        assert!(browsers.bind(run(1), Some("one")));
        assert!(!browsers.bind(run(1), Some("one")));
        assert!(browsers.bind(run(1), Some("other")));
        assert_eq!(browsers.runs_of("one"), []);
        assert_eq!(browsers.runs_of("other"), [run(1)]);
        assert!(browsers.bind(run(1), None));
        assert!(browsers.of_worker.is_empty() && browsers.of_run.is_empty());
    }

    #[test]
    fn the_end_of_a_replaced_connection_is_nobodys_departure() {
        let mut browsers = Browsers::default();
        let worker: Arc<str> = Arc::from("worker");
        browsers.arrive(ConnectionId(1), &worker);
        browsers.arrive(ConnectionId(2), &worker);
        assert_eq!(browsers.leave(ConnectionId(1)), None);
        assert!(browsers.is_present("worker"));
        assert_eq!(browsers.leave(ConnectionId(2)).as_deref(), Some("worker"));
        assert!(!browsers.is_present("worker"));
    }
}
