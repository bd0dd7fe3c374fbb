//! The worker protocol as a worker speaks it, sans-IO: frames and ends of work go in, frames and orders come out.
//!
//! Everything that is said depends on what is held, so that after a broken connection it is said again from here. An
//! answer is held until the shard confirms or refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_contracts::validate::{self, PROTOCOL, SLOTS_MAX};
use capataz_contracts::{Violation, validate::worker_frame};

use crate::serve::{Answer, Order, Report};

/// One worker's right to work on one attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    run_id: String,
    wave: u32,
    task: u32,
    token: u64,
}

impl Lease {
    /// Whether both are rights to work on one task, of which the shard has taken one back.
    pub(crate) fn is_of_same_task(&self, other: &Self) -> bool {
        self.run_id == other.run_id && self.wave == other.wave && self.task == other.task
    }
}

impl From<v1::LeaseRef> for Lease {
    fn from(v1::LeaseRef { run_id, wave, task, lease }: v1::LeaseRef) -> Self {
        Self { run_id, wave, task, token: lease }
    }
}

impl From<Lease> for v1::LeaseRef {
    fn from(Lease { run_id, wave, task, token }: Lease) -> Self {
        Self { run_id, wave, task, lease: token }
    }
}

/// What the protocol is told.
#[derive(Debug)]
pub(crate) enum Input {
    /// The runs whose browsers the worker has, before it says hello.
    Browsers(Vec<String>),
    /// The browser of this run has ended by itself.
    BrowserEnded(String),
    /// What the worker serves from now on.
    Serves(Vec<v1::Agent>),
    /// A connection is there, on which nothing was said.
    Connected,
    Heard(Hear),
    /// The work of a lease has ended.
    Ended(Lease, Answer),
    Progress(Lease, Report),
    /// The time between two heartbeats is over.
    Beat,
    /// All work was ended, and none is begun any more: the next hello names only what has an answer.
    GaveUp,
    Disconnected,
}

/// What is to be done, in this order.
#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    Say(Say),
    Begin(Lease, v1::Assignment),
    Order(Lease, Order),
    /// Nobody waits for this work any more.
    Abandon(Lease),
    /// Close the browser of this run, and keep its state.
    KeepBrowser(String),
    BeatEvery(Duration),
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Protocol {
    /// The first frame of each connection, but for what is held.
    hello: v1::Hello,
    inline_max: usize,
    held: BTreeMap<Lease, Held>,
    /// What was held when the worker came to serve something else, of which it may serve no more.
    before: BTreeSet<Lease>,
    /// Browsers that have ended since the hello, which said that they are there.
    unsaid_ends: Vec<String>,
    /// The hello was said on this connection.
    has_said_hello: bool,
    /// The shard has answered the hello.
    is_welcome: bool,
    is_draining: bool,
}

#[derive(Debug)]
enum Held {
    /// With the progress that could not be said yet.
    Running(Option<Report>),
    /// Until it is confirmed.
    Answered(Box<Say>),
}

impl Protocol {
    /// # Errors
    /// What a shard would refuse of its hello.
    pub(crate) fn new(
        worker_id: String,
        agents: Vec<v1::Agent>,
        inline_max: usize,
    ) -> Result<Self, Vec<Violation>> {
        let slots = slots(&agents);
        let hello = v1::Hello { worker_id, agents, slots, protocol: PROTOCOL, ..v1::Hello::default() };
        let violations = validate::hello(&hello);
        if !violations.is_empty() {
            return Err(violations);
        }
        Ok(Self {
            hello,
            inline_max,
            held: BTreeMap::new(),
            before: BTreeSet::new(),
            unsaid_ends: Vec::new(),
            has_said_hello: false,
            is_welcome: false,
            is_draining: false,
        })
    }

    /// Returns whether there is no reason for another connection: the shard gives nothing new, and nothing is held.
    pub(crate) fn is_over(&self) -> bool {
        self.is_draining && self.held.is_empty()
    }

    pub(crate) fn handle(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Browsers(runs) => {
                self.hello.browsers = runs;
                self.unsaid_ends.clear();
                Vec::new()
            }
            Input::BrowserEnded(run_id) if self.is_welcome => vec![gone(run_id)],
            Input::BrowserEnded(run_id) => {
                self.unsaid_ends.push(run_id);
                Vec::new()
            }
            Input::Serves(agents) => {
                self.hello.agents = agents;
                self.before = self.held.keys().cloned().collect();
                // What is held is known on this connection.
                let hello = || Say::Hello(v1::Hello { browsers: Vec::new(), ..self.greeting() });
                self.has_said_hello.then(|| Output::Say(hello())).into_iter().collect()
            }
            Input::Connected => {
                self.is_draining = false;
                self.has_said_hello = true;
                let held = self.held.keys().cloned().map(v1::LeaseRef::from).collect();
                vec![Output::Say(Say::Hello(v1::Hello { held, ..self.greeting() }))]
            }
            Input::Heard(frame) => self.heard(frame),
            Input::Ended(lease, answer) => self.ended(lease, answer),
            Input::Progress(lease, report) => self.progressed(lease, report),
            Input::Beat if self.is_welcome => vec![Output::Say(Say::Heartbeat(v1::Heartbeat {}))],
            Input::Beat => Vec::new(),
            Input::GaveUp => {
                self.held.retain(|_, held| matches!(held, Held::Answered(_)));
                Vec::new()
            }
            Input::Disconnected => {
                self.has_said_hello = false;
                self.is_welcome = false;
                Vec::new()
            }
        }
    }

    /// What is held of agents that are served no more takes no slot from the others, of which each has its own limit.
    fn greeting(&self) -> v1::Hello {
        let before = self.before.iter().filter(|lease| self.held.contains_key(*lease)).count();
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        let slots = slots(&self.hello.agents).saturating_add(before).min(SLOTS_MAX);
        v1::Hello { slots, ..self.hello.clone() }
    }

    fn heard(&mut self, frame: Hear) -> Vec<Output> {
        match frame {
            Hear::Welcome(welcome) => self.welcomed(welcome),
            Hear::Assignment(assignment) => self.assigned(assignment),
            Hear::Cancel(v1::Cancel { lease, grace_ms, .. }) => {
                let grace = Duration::from_millis(u64::try_from(grace_ms).unwrap_or(0));
                self.order(lease, Order::Cancel { grace })
            }
            // Work knows no deadline of its own: the shard says when its time is over.
            Hear::DeadlineExtended(v1::DeadlineExtended { lease, cancel_withdrawn: true, .. }) => {
                self.order(lease, Order::Withdraw)
            }
            // A channel within the daemon cannot be half open.
            Hear::DeadlineExtended(_) | Hear::Heartbeat(_) => Vec::new(),
            Hear::LeaseRevoked(v1::LeaseRevoked { lease }) => {
                let Some(lease) = lease.map(Lease::from) else { return Vec::new() };
                match self.held.remove(&lease) {
                    Some(Held::Running(_)) => vec![Output::Abandon(lease)],
                    Some(Held::Answered(_)) | None => Vec::new(),
                }
            }
            Hear::ResultAccepted(v1::ResultAccepted { lease })
            | Hear::ResultRefused(v1::ResultRefusedFrame { lease, .. }) => {
                if let Some(lease) = lease.map(Lease::from)
                    && matches!(self.held.get(&lease), Some(Held::Answered(_)))
                {
                    self.held.remove(&lease);
                }
                Vec::new()
            }
            Hear::KeepBrowser(v1::KeepBrowser { run_id }) => vec![Output::KeepBrowser(run_id)],
            // What is held goes on to its end, and what was on its way is begun.
            Hear::Drain(v1::Drain {}) => {
                self.is_draining = true;
                Vec::new()
            }
        }
    }

    /// What the shard no longer knows is dropped; what it may have missed is said again.
    fn welcomed(&mut self, welcome: v1::Welcome) -> Vec<Output> {
        self.is_welcome = true;
        let reattached: Vec<Lease> = welcome.reattached.into_iter().map(Lease::from).collect();
        let is_lost =
            |lease: &Lease, held: &mut Held| matches!(held, Held::Running(_)) && !reattached.contains(lease);
        let lost: Vec<Lease> = self.held.extract_if(.., is_lost).map(|(lease, _)| lease).collect();
        let mut outputs: Vec<Output> = lost.into_iter().map(Output::Abandon).collect();
        for (lease, held) in &mut self.held {
            match held {
                Held::Answered(answer) => outputs.push(Output::Say(Say::clone(answer))),
                Held::Running(unsaid) => {
                    outputs.extend(unsaid.take().map(|report| Output::Say(progress(lease, report))));
                }
            }
        }
        outputs.extend(std::mem::take(&mut self.unsaid_ends).into_iter().map(gone));
        // Twice in each interval, so that a busy machine is not taken for a dead one.
        let interval = u64::try_from(welcome.heartbeat_interval_ms).unwrap_or(0);
        if interval > 1 {
            outputs.push(Output::BeatEvery(Duration::from_millis(interval / 2)));
        }
        outputs
    }

    fn assigned(&mut self, assignment: v1::Assignment) -> Vec<Output> {
        let Some(reference) = assignment.lease.clone() else { return Vec::new() };
        let lease = Lease::from(reference.clone());
        let ack = Output::Say(Say::Ack(v1::Ack { lease: Some(reference) }));
        match self.held.get(&lease) {
            None => {
                self.held.insert(lease.clone(), Held::Running(None));
                vec![ack, Output::Begin(lease, assignment)]
            }
            Some(Held::Running(_)) => vec![ack],
            Some(Held::Answered(answer)) => vec![Output::Say(Say::clone(answer))],
        }
    }

    fn order(&mut self, lease: Option<v1::LeaseRef>, order: Order) -> Vec<Output> {
        let running =
            lease.map(Lease::from).filter(|lease| matches!(self.held.get(lease), Some(Held::Running(_))));
        running.map(|lease| Output::Order(lease, order)).into_iter().collect()
    }

    fn ended(&mut self, lease: Lease, answer: Answer) -> Vec<Output> {
        // It may have been revoked just before.
        let Some(held @ Held::Running(_)) = self.held.get_mut(&lease) else { return Vec::new() };
        let frame = worker_frame(said(lease, answer), self.inline_max);
        *held = Held::Answered(Box::new(frame.clone()));
        // The answer to a hello makes everything be said that is held.
        if self.is_welcome { vec![Output::Say(frame)] } else { Vec::new() }
    }

    fn progressed(&mut self, lease: Lease, report: Report) -> Vec<Output> {
        match self.held.get_mut(&lease) {
            Some(Held::Running(_)) if self.is_welcome => vec![Output::Say(progress(&lease, report))],
            Some(Held::Running(unsaid)) => {
                *unsaid = Some(report);
                Vec::new()
            }
            Some(Held::Answered(_)) | None => Vec::new(),
        }
    }
}

/// As many assignments at once as all agents allow, and one at least.
fn slots(agents: &[v1::Agent]) -> u32 {
    let sum = agents.iter().fold(0_u32, |sum, agent| sum.saturating_add(agent.max_concurrency.max(1)));
    sum.clamp(1, SLOTS_MAX)
}

fn gone(run_id: String) -> Output {
    Output::Say(Say::BrowserGone(v1::BrowserGone { run_id }))
}

fn progress(lease: &Lease, report: Report) -> Say {
    let Report { message, partial_tail, log } = report;
    let lease = Some(lease.clone().into());
    let frame = v1::Progress { lease, message, partial_tail, log, ..v1::Progress::default() };
    worker_frame(Say::Progress(frame), validate::INLINE_MAX)
}

fn said(lease: Lease, answer: Answer) -> Say {
    let lease = Some(lease.into());
    match answer {
        Answer::Completed { output, log, usage } => {
            Say::Completed(v1::Completed { lease, output: Some(output), log, usage })
        }
        Answer::Failed { error, log, usage } => {
            Say::Failed(v1::Failed { lease, error: Some(*error), log, usage })
        }
        Answer::Cancelled { partial_output, log } => {
            Say::Cancelled(v1::Cancelled { lease, partial_output, log })
        }
    }
}

#[cfg(test)]
mod tests;
