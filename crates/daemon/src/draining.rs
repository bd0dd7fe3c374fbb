//! The way from "stop" to the end of a daemon: nothing is begun, what runs is waited for and named, and what is left is
//! either its worker's, which comes back with it, or lost by name.

use std::time::Duration;

use capataz_runtime::{AtWork, Runtime};
use tokio::time::{Instant, MissedTickBehavior};

use crate::Daemon;
use crate::hosts::Hosts;

/// The time between two lines about what is waited for.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Tasks that one line names.
const NAMED: usize = 10;

/// How long the daemon's own workers may take to end what is left, and connections to close.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Daemon {
    /// Begins nothing more, lets running tasks end for a while, writes what is in flight, and stops.
    pub async fn shutdown(self) {
        self.sweeper.abort();
        drop(self.reloading);
        self.health.drains().await;
        self.runtime.drain().await;
        wait(&self.runtime, self.config.drain_timeout).await;
        leave(&self.runtime, &self.hosts);
        // What they do is ended and lost now, in the log, and not when somebody starts the next daemon.
        if tokio::time::timeout(LAST_WORDS, self.hosts.end()).await.is_err() {
            tracing::warn!("the daemon's own work could not be ended in time; the next daemon finds it lost");
        }
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        self.runtime.stop().await;
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(LAST_WORDS, self.server).await;
    }
}

/// Waits until nothing runs, at most for `limit`, and says meanwhile what it waits for.
async fn wait(runtime: &Runtime, limit: Duration) {
    let begun = Instant::now();
    let idle = runtime.idle();
    let mut idle = std::pin::pin!(idle);
    let mut telling = tokio::time::interval(TOLD_EVERY);
    telling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut idle => return,
            () = tokio::time::sleep(limit.saturating_sub(begun.elapsed())) => return,
            _ = telling.tick() => {
                let at_work = runtime.at_work();
                let left = limit.saturating_sub(begun.elapsed()).as_secs();
                if !at_work.is_empty() {
                    let names = named(&at_work);
                    tracing::info!(tasks = at_work.len(), seconds_left = left, "the daemon waits for {names}");
                }
            }
        }
    }
}

/// Says what has not ended, and what becomes of it.
fn leave(runtime: &Runtime, hosts: &Hosts) {
    let (own, others): (Vec<AtWork>, Vec<AtWork>) =
        runtime.at_work().into_iter().partition(|at_work| hosts.is_one(&at_work.worker));
    if !others.is_empty() {
        let names = named(&others);
        tracing::warn!(tasks = others.len(), "left to its workers, which go on with it: {names}");
    }
    if !own.is_empty() {
        let names = named(&own);
        tracing::warn!(
            tasks = own.len(),
            "ended with the daemon, to be begun again, or asked about where that must not be: {names}"
        );
    }
}

/// The first of them, by task, run and worker.
fn named(at_work: &[AtWork]) -> String {
    let name = |AtWork { run, task, worker }: &AtWork| format!("{task:?} of run {run} at {worker}");
    let mut names: Vec<String> = at_work.iter().take(NAMED).map(name).collect();
    if at_work.len() > NAMED {
        names.push(format!("{} more", at_work.len() - NAMED));
    }
    names.join(", ")
}
