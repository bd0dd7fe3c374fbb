//! Drives the protocol of one worker: its connection, its tasks, its heartbeat. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::validate::SLOTS_MAX;
use capataz_contracts::{Violation, v1};
use capataz_policy::codes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};

use crate::number::HostNumber;
use crate::port::{Connect, Speak};
use crate::protocol::{Input, Lease, Output, Protocol};
use crate::serve::{Answer, News, Order, Reporter, Serve};

/// Until a shard says how often it wants to hear something.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Between two connections: a shard that reads itself anew has closed the first one.
const PAUSE: Duration = Duration::from_millis(20);
/// Orders that may wait for one piece of work; beyond them the shard revokes the lease when the grace is over.
const ORDERS: usize = 16;

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
#[error(
    "the worker {name} cannot say hello: {}",
    .violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct InvalidHost {
    pub name: &'static str,
    pub violations: Vec<Violation>,
}

/// A worker within the daemon. It serves until it is dropped; then everything that it does ends.
#[derive(Debug)]
pub struct Host {
    task: JoinHandle<()>,
    end: Option<oneshot::Sender<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    /// Begins to serve a shard.
    ///
    /// # Errors
    /// The agents cannot be served, because the shard would refuse them.
    pub fn start<W: Serve>(
        work: Arc<W>,
        number: HostNumber,
        shard: impl Connect,
    ) -> Result<Self, InvalidHost> {
        Self::start_renewable(work, number, shard).map(|(host, _)| host)
    }

    /// The same for work that may be replaced.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub fn start_renewable<W: Serve>(
        work: Arc<W>,
        number: HostNumber,
        shard: impl Connect,
    ) -> Result<(Self, Renewal<W>), InvalidHost> {
        let protocol = greeting(&*work, number)?;
        let (end, told_to_end) = oneshot::channel();
        let (newest, renewed) = watch::channel(Arc::clone(&work));
        let driver = Driver {
            work,
            renewed,
            before: None,
            shard,
            told_to_end,
            protocol,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            news: Arc::default(),
            beat: every(HEARTBEAT),
        };
        Ok((Self { task: tokio::spawn(driver.run()), end: Some(end) }, Renewal { newest }))
    }

    /// Whether a shard would take this work.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub fn check<W: Serve>(work: &W, number: HostNumber) -> Result<(), InvalidHost> {
        greeting(work, number).map(drop)
    }

    /// Ends all that it does, and tells the shard so: as a worker that is back without its leases. So what is lost is in
    /// the log before the daemon ends, and not only when the next one is there.
    pub async fn end(mut self) {
        drop(self.end.take());
        let _ = (&mut self.task).await;
    }
}

/// Replaces the work of a host while it serves.
#[derive(Debug)]
pub struct Renewal<W> {
    newest: watch::Sender<Arc<W>>,
}

impl<W: Serve> Renewal<W> {
    /// From now on the host serves this, and what it has begun goes on as it began. It has passed [`Host::check`], or serves no
    /// agent.
    pub fn serve(&self, work: Arc<W>) {
        self.newest.send_replace(work);
    }
}

fn greeting<W: Serve>(work: &W, number: HostNumber) -> Result<Protocol, InvalidHost> {
    let name = work.name();
    let protocol = Protocol::new(number.worker_id(name), work.agents(), work.inline_max());
    protocol.map_err(|violations| InvalidHost { name, violations })
}

struct Driver<W, C> {
    work: Arc<W>,
    renewed: watch::Receiver<Arc<W>>,
    /// The work that was replaced last, with the agents that are served no more: assignments of them may be on their way.
    before: Option<(Arc<W>, BTreeSet<String>)>,
    shard: C,
    /// Closed when the host is to end.
    told_to_end: oneshot::Receiver<()>,
    protocol: Protocol,
    running: BTreeMap<Lease, Running>,
    tasks: JoinSet<(Lease, Answer)>,
    news: Arc<News>,
    beat: Interval,
}

struct Running {
    orders: mpsc::Sender<Order>,
    task: AbortHandle,
}

/// Why there is no further connection.
enum Over {
    /// The shard is gone for good.
    Gone,
    ToldToEnd,
}

impl<W: Serve, C: Connect> Driver<W, C> {
    async fn run(mut self) {
        // As many as it may ever come to have, because its work may be replaced.
        let slots = usize::try_from(SLOTS_MAX).unwrap_or(usize::MAX);
        loop {
            let (mut frames, speaker) = self.shard.connect(slots).await;
            let ended = self.converse(&mut frames, &speaker).await;
            drop((frames, speaker));
            let _ = self.protocol.handle(Input::Disconnected);
            match ended {
                Ok(()) => {}
                Err(Over::Gone) => return,
                Err(Over::ToldToEnd) => return self.give_up(slots).await,
            }
            if self.protocol.is_over() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One connection, to its end.
    async fn converse<S: Speak>(
        &mut self,
        frames: &mut mpsc::Receiver<v1::connect_response::Frame>,
        speaker: &S,
    ) -> Result<(), Over> {
        // What it says first is the newest.
        if self.renewed.has_changed().is_ok_and(|changed| changed) {
            let agents = self.renew();
            self.turn(Input::Serves(agents), speaker).await?;
        }
        self.turn(Input::Browsers(self.work.browsers()), speaker).await?;
        self.turn(Input::Connected, speaker).await?;
        loop {
            let work = Arc::clone(&self.work);
            // What frees slots goes before what is only nice to know.
            tokio::select! {
                biased;
                // What is given from now on is done by the newest.
                Ok(()) = self.renewed.changed() => {
                    let agents = self.renew();
                    self.turn(Input::Serves(agents), speaker).await?;
                },
                frame = frames.recv() => match frame {
                    Some(frame) => self.turn(Input::Heard(frame), speaker).await?,
                    None => return Ok(()),
                },
                Some(ended) = self.tasks.join_next() => if let Some(input) = self.ended(ended) {
                    self.turn(input, speaker).await?;
                },
                () = self.news.rung() => for (lease, report) in self.news.take() {
                    self.turn(Input::Progress(lease, report), speaker).await?;
                },
                run = work.browser_ended() => self.turn(Input::BrowserEnded(run), speaker).await?,
                _ = self.beat.tick() => self.turn(Input::Beat, speaker).await?,
                _ = &mut self.told_to_end => return Err(Over::ToldToEnd),
            }
        }
    }

    /// Ends all work, and says once more what there is: answers, and no lease that goes on.
    async fn give_up(mut self, slots: usize) {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Some(input) = self.ended(ended) {
                let _ = self.protocol.handle(input);
            }
        }
        self.running.clear();
        self.tasks.shutdown().await;
        let _ = self.protocol.handle(Input::GaveUp);
        let (mut frames, speaker) = self.shard.connect(slots).await;
        if self.turn(Input::Browsers(self.work.browsers()), &speaker).await.is_err()
            || self.turn(Input::Connected, &speaker).await.is_err()
        {
            return;
        }
        while let Some(frame) = frames.recv().await {
            let is_welcome = matches!(frame, v1::connect_response::Frame::Welcome(_));
            if self.turn(Input::Heard(frame), &speaker).await.is_err() || is_welcome {
                return;
            }
        }
    }

    async fn turn<S: Speak>(&mut self, input: Input, speaker: &S) -> Result<(), Over> {
        for output in self.protocol.handle(input) {
            match output {
                Output::Say(frame) => {
                    if !speaker.say(frame).await {
                        return Err(Over::Gone);
                    }
                }
                Output::Begin(lease, assignment) => self.begin(lease, assignment),
                Output::Order(lease, order) => {
                    if let Some(running) = self.running.get(&lease) {
                        let _ = running.orders.try_send(order);
                    }
                }
                Output::Abandon(lease) => {
                    if let Some(running) = self.running.remove(&lease) {
                        running.task.abort();
                    }
                }
                Output::KeepBrowser(run) => Arc::clone(&self.work).keep_browser(run),
                Output::BeatEvery(period) => self.beat = every(period),
            }
        }
        Ok(())
    }

    /// Takes the newest work. What it serves.
    fn renew(&mut self) -> Vec<v1::Agent> {
        let newest = Arc::clone(&self.renewed.borrow_and_update());
        let before = std::mem::replace(&mut self.work, newest);
        let agents = self.work.agents();
        let mut gone: BTreeSet<String> = before.agents().into_iter().map(|agent| agent.name).collect();
        for agent in &agents {
            gone.remove(&agent.name);
        }
        self.before = Some((before, gone));
        agents
    }

    fn begin(&mut self, lease: Lease, assignment: v1::Assignment) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let reporter = Reporter::new(lease.clone(), Arc::clone(&self.news));
        let before = self.before.as_ref().filter(|(_, gone)| gone.contains(&assignment.agent));
        let work = before.map_or(&self.work, |(work, _)| work);
        let work = Arc::clone(work).perform(assignment, receiver, reporter);
        let answered = lease.clone();
        let task = self.tasks.spawn(async move { (answered, work.await) });
        self.running.insert(lease, Running { orders, task });
    }

    fn ended(&mut self, ended: Result<(Lease, Answer), JoinError>) -> Option<Input> {
        let (lease, answer) = match ended {
            Ok(ended) => ended,
            // Abandoned, and taken out of what runs.
            Err(error) if error.is_cancelled() => return None,
            Err(error) => {
                let found = self.running.iter().find(|(_, running)| running.task.id() == error.id());
                let lease = found.map(|(lease, _)| lease.clone())?;
                (
                    lease,
                    Answer::failed(codes::LOGIC_ERROR, format!("the daemon's own work broke off: {error}")),
                )
            }
        };
        self.running.remove(&lease);
        Some(Input::Ended(lease, answer))
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
mod tests;
