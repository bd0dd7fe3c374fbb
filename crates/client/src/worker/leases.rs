//! What the worker holds, and what it has to say about it. One lock, taken once for each frame in either direction.
//!
//! Results stay here until the daemon confirms them. Everything that is said depends on what is held, so that after a
//! broken connection it is said again from here; only what is already in the queue of frames is lost with a connection.

#![allow(
    clippy::disallowed_types,
    reason = "the order of leases means nothing, and finding one has to be quick"
)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame};
use capataz_contracts::validate::{FRAME_MAX, LOG_MAX};
use prost::Message as _;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::perform::{Outcome, perform};
use super::{Handler, Task};
use crate::Client;

/// How long an acknowledgement waits for the result, which says the same; far below what the daemon waits for it.
const ACK_DELAY: Duration = Duration::from_millis(2);
/// Between two progress frames of one lease.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Where the daemon gives no sensible interval.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(5);

/// The result as it can be said in so many bytes: one that is larger fails its task.
fn within(frame: Frame, limit: usize) -> Frame {
    // What the message around it adds.
    let size = frame.encoded_len().saturating_add(16);
    if size <= limit {
        return frame;
    }
    let (lease, log, usage) = match frame {
        Frame::Completed(v1::Completed { lease, log, usage, .. })
        | Frame::Failed(v1::Failed { lease, log, usage, .. }) => (lease, log, usage),
        Frame::Cancelled(v1::Cancelled { lease, log, .. }) => (lease, log, None),
        other => return other,
    };
    let message =
        format!("a result of {size} bytes; the daemon reads at most {limit}, and larger outputs are blobs");
    let error = v1::Error { code: "OUTPUT_TOO_LARGE".to_owned(), message, ..v1::Error::default() };
    Frame::Failed(v1::Failed { lease, error: Some(error), log, usage })
}

pub(crate) struct Leases {
    slots: usize,
    state: Mutex<State>,
    /// Somebody else than the connection has changed what it has to do.
    pub poked: Notify,
}

struct State {
    client: Client,
    /// Counts connections, so that the frames of an older one end.
    session: u64,
    is_welcome: bool,
    /// The worker has been told to stop.
    is_stopping: bool,
    /// The daemon shuts down.
    is_daemon_draining: bool,
    is_closing: bool,
    held: HashMap<v1::LeaseRef, Held>,
    running: usize,
    urgent: VecDeque<Frame>,
    /// New leases that are acknowledged then, unless their results were faster.
    acks: VecDeque<(Instant, v1::LeaseRef)>,
    /// Running leases with progress to be sent now.
    ready: VecDeque<v1::LeaseRef>,
    /// Leases whose progress was sent, and when there may be more of it.
    cooling: VecDeque<(Instant, v1::LeaseRef)>,
    heartbeat: Duration,
    last_sent: Instant,
    waker: Option<Waker>,
    must_wake: bool,
}

#[expect(clippy::large_enum_variant, reason = "one for each lease")]
enum Held {
    Running(Running),
    /// The result, until it is confirmed.
    Settled(Frame),
}

struct Running {
    task: Task,
    handle: AbortHandle,
    /// All that is known; each frame carries all of it, since the daemon keeps the latest only.
    progress: v1::Progress,
    is_news: bool,
    turn: Turn,
    /// Up to twice what is sent, so that it is cut seldom.
    log: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    None,
    Ready,
    Cooling,
}

/// What the stream of frames has to do.
#[expect(clippy::large_enum_variant, reason = "it lives for one poll")]
pub(super) enum Next {
    Frame(Frame),
    /// Nothing before this moment, unless it is woken.
    Wait(Option<Instant>),
    End,
}

impl Leases {
    pub(super) fn new(client: Client, slots: u32) -> Self {
        let state = State {
            client,
            session: 0,
            is_welcome: false,
            is_stopping: false,
            is_daemon_draining: false,
            is_closing: false,
            held: HashMap::new(),
            running: 0,
            urgent: VecDeque::new(),
            acks: VecDeque::new(),
            ready: VecDeque::new(),
            cooling: VecDeque::new(),
            heartbeat: HEARTBEAT_DEFAULT,
            last_sent: Instant::now(),
            waker: None,
            must_wake: false,
        };
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        Self { slots, state: Mutex::new(state), poked: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to the daemon.
    pub(super) fn client(&self) -> Client {
        self.lock().client.clone()
    }

    /// Gives the present connection up: whoever asks for the client from now on gets one with a new connection.
    pub(super) fn redial(&self) {
        let mut state = self.lock();
        state.client = state.client.over_new_connection();
    }

    /// Changes the state and wakes the stream of frames where it has something to do.
    fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let has_work = !state.urgent.is_empty() || !state.ready.is_empty() || state.is_closing;
        let waker = if mem::take(&mut state.must_wake) || has_work { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    /// Begins a connection with the worker's first frame; frames of the one before it end.
    pub(super) fn begin(&self, mut hello: v1::Hello) -> u64 {
        self.update(|state| {
            state.session += 1;
            state.is_welcome = false;
            state.is_daemon_draining = false;
            state.is_closing = false;
            state.acks.clear();
            state.ready.clear();
            state.cooling.clear();
            for held in state.held.values_mut() {
                if let Held::Running(running) = held {
                    running.turn = Turn::None;
                }
            }
            hello.held = state.held.keys().cloned().collect();
            state.urgent = VecDeque::from([Frame::Hello(hello)]);
            state.must_wake = true;
            state.session
        })
    }

    /// The daemon has answered: what it no longer knows is dropped, and every unconfirmed result is sent again.
    pub(super) fn welcomed(&self, welcome: v1::Welcome) {
        let heartbeat = u64::try_from(welcome.heartbeat_interval_ms).unwrap_or_default();
        let reattached: HashSet<v1::LeaseRef> = welcome.reattached.into_iter().collect();
        let lost: Vec<Held> = self.update(|state| {
            state.is_welcome = true;
            state.heartbeat =
                if heartbeat == 0 { HEARTBEAT_DEFAULT } else { Duration::from_millis(heartbeat) };
            state.last_sent = Instant::now();
            state.must_wake = true;
            let is_lost = |lease: &v1::LeaseRef, held: &mut Held| {
                matches!(held, Held::Running(_)) && !reattached.contains(lease)
            };
            let lost: Vec<Held> = state.held.extract_if(is_lost).map(|(_, held)| held).collect();
            state.running -= lost.len();
            if state.is_stopping {
                state.urgent.push_back(Frame::Drain(v1::DrainRequested {}));
            }
            for (lease, held) in &mut state.held {
                match held {
                    Held::Settled(result) => state.urgent.push_back(result.clone()),
                    Held::Running(running) if running.progress != v1::Progress::default() => {
                        running.is_news = true;
                        running.turn = Turn::Ready;
                        state.ready.push_back(lease.clone());
                    }
                    Held::Running(_) => {}
                }
            }
            lost
        });
        for held in lost {
            held.abort();
        }
    }

    /// The connection is gone. What happens until the next one is said then.
    pub(super) fn disconnected(&self) {
        self.lock().is_welcome = false;
    }

    /// Begins an assignment, or gives it back where there is no room or no handler for it. `false` where the daemon
    /// does not take the frames that it asks for, so that answering would need memory without limit.
    pub(super) fn assigned(
        self: &Arc<Self>,
        mut assignment: v1::Assignment,
        handler: Option<&Handler>,
    ) -> bool {
        // The reference is kept once, at the task.
        let Some(lease) = assignment.lease.take() else { return true };
        self.update(|state| {
            if state.urgent.len() > self.slots.saturating_mul(4).saturating_add(1024) {
                return false;
            }
            let is_held = state.held.contains_key(&lease);
            // Twice the slots is what the daemon lets a worker hold when it says hello.
            let has_room = !state.is_stopping
                && state.running < self.slots
                && state.held.len() < self.slots.saturating_mul(2);
            let handler = handler.filter(|_| has_room);
            let frame = match handler {
                Some(handler) if !is_held => {
                    let task = Task::new(lease.clone(), assignment, Arc::clone(self));
                    // It cannot settle before the lock is free and the lease is held.
                    let handle = tokio::spawn(perform(task.clone(), Arc::clone(handler))).abort_handle();
                    let progress = v1::Progress::default();
                    let turn = Turn::None;
                    let running =
                        Running { task, handle, progress, is_news: false, turn, log: String::new() };
                    state.held.insert(lease.clone(), Held::Running(running));
                    state.running += 1;
                    state.must_wake |= state.acks.is_empty();
                    state.acks.push_back((Instant::now() + ACK_DELAY, lease));
                    return true;
                }
                None if !is_held => Frame::Returned(v1::Returned { lease: Some(lease) }),
                _ => Frame::Ack(v1::Ack { lease: Some(lease) }),
            };
            state.urgent.push_back(frame);
            true
        })
    }

    /// The task of a lease that still runs.
    pub(super) fn running(&self, lease: Option<&v1::LeaseRef>) -> Option<Task> {
        match self.lock().held.get(lease?)? {
            Held::Running(running) => Some(running.task.clone()),
            Held::Settled(_) => None,
        }
    }

    pub(super) fn confirmed(&self, lease: Option<v1::LeaseRef>) {
        let Some(lease) = lease else { return };
        let mut state = self.lock();
        if matches!(state.held.get(&lease), Some(Held::Settled(_))) {
            state.held.remove(&lease);
        }
    }

    pub(super) fn revoked(&self, lease: Option<v1::LeaseRef>) {
        let Some(lease) = lease else { return };
        let held = self.update(|state| {
            let held = state.held.remove(&lease);
            if let Some(Held::Running(_)) = held {
                state.running -= 1;
            }
            held
        });
        if let Some(held) = held {
            held.abort();
        }
    }

    /// Keeps the result of a lease, if it is still held, and sends it.
    pub(super) fn settle(&self, lease: &v1::LeaseRef, outcome: Outcome) {
        self.update(|state| {
            let Some(held) = state.held.get_mut(lease) else { return };
            let Held::Running(running) = held else { return };
            let lease = Some(lease.clone());
            let mut log = mem::take(&mut running.log);
            keep_end(&mut log);
            let frame = match outcome {
                Outcome::Completed(output, usage) => {
                    Frame::Completed(v1::Completed { lease, output: Some(output), log, usage })
                }
                Outcome::Failed(error, usage) => {
                    Frame::Failed(v1::Failed { lease, error: Some(*error), log, usage })
                }
                Outcome::Cancelled(output) => {
                    let partial_output = output.or_else(|| running.progress.partial_output.take());
                    Frame::Cancelled(v1::Cancelled { lease, partial_output, log })
                }
            };
            let frame = within(frame, FRAME_MAX);
            if state.is_welcome {
                state.urgent.push_back(frame.clone());
            }
            *held = Held::Settled(frame);
            state.running -= 1;
        });
    }

    /// The daemon has refused a frame of more bytes than these: a result that has more fails its task instead, so that
    /// nothing is refused for it again.
    pub(super) fn shrink(&self, limit: usize) {
        self.update(|state| {
            for held in state.held.values_mut() {
                match held {
                    Held::Settled(frame) => *frame = within(frame.clone(), limit),
                    // The daemon keeps far less.
                    Held::Running(running) if running.progress.encoded_len() >= limit => {
                        running.progress.partial_output = None;
                        running.progress.message = None;
                    }
                    Held::Running(_) => {}
                }
            }
        });
    }

    pub(super) fn progressed(&self, lease: &v1::LeaseRef, change: impl FnOnce(&mut v1::Progress)) {
        self.changed(lease, |running| change(&mut running.progress));
    }

    fn changed(&self, lease: &v1::LeaseRef, change: impl FnOnce(&mut Running)) {
        self.update(|state| {
            let Some(Held::Running(running)) = state.held.get_mut(lease) else { return };
            change(running);
            running.is_news = true;
            if running.turn == Turn::None && state.is_welcome {
                running.turn = Turn::Ready;
                state.ready.push_back(lease.clone());
            }
        });
    }

    /// Adds a line to what the result will carry, and to what is seen of it before.
    pub(super) fn logged(&self, lease: &v1::LeaseRef, line: &str) {
        // Without a line break, a blank line would be none.
        let line = format!("{line}\n");
        self.changed(lease, |running| {
            running.log.push_str(&line);
            if running.log.len() > 2 * LOG_MAX {
                keep_end(&mut running.log);
            }
            running.progress.log.get_or_insert_default().push(&line);
        });
    }

    /// The worker has been told to stop. `false` where nothing is left to do, not even a goodbye.
    pub(super) fn stop(&self) -> bool {
        let must_go_on = self.update(|state| {
            state.is_stopping = true;
            if state.is_welcome {
                state.urgent.push_back(Frame::Drain(v1::DrainRequested {}));
            }
            state.is_welcome || !state.held.is_empty()
        });
        self.poked.notify_one();
        must_go_on
    }

    pub(super) fn daemon_drains(&self) {
        self.lock().is_daemon_draining = true;
    }

    /// Returns whether the connection has to be closed, because somebody shuts down and nothing is held any more.
    pub(super) fn must_close(&self) -> bool {
        self.update(|state| {
            let is_draining = state.is_stopping || state.is_daemon_draining;
            state.is_closing |= is_draining && state.is_welcome && state.held.is_empty();
            state.is_closing
        })
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }

    /// Drops everything.
    pub(super) fn abandon(&self) {
        let held = self.update(|state| {
            state.session += 1;
            state.running = 0;
            state.must_wake = true;
            mem::take(&mut state.held)
        });
        for held in held.into_values() {
            held.abort();
        }
    }

    /// What a connection's stream of frames has to do now. Wakes `waker` when there is more.
    pub(super) fn next(&self, session: u64, waker: &Waker) -> Next {
        let mut state = self.lock();
        if state.session != session {
            return Next::End;
        }
        let now = Instant::now();
        let frame = state.urgent.pop_front().or_else(|| state.next_ack(now));
        let frame = frame.or_else(|| state.next_progress(now)).or_else(|| {
            let is_due = state.is_welcome && state.last_sent + state.heartbeat <= now;
            is_due.then_some(Frame::Heartbeat(v1::Heartbeat {}))
        });
        if let Some(frame) = frame {
            state.last_sent = now;
            return Next::Frame(frame);
        }
        if state.is_closing {
            return Next::End;
        }
        if state.waker.as_ref().is_none_or(|before| !before.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        let heartbeat = state.is_welcome.then(|| state.last_sent + state.heartbeat);
        let cooled = state.cooling.front().map(|(at, _)| *at);
        let acks = state.acks.front().map(|(at, _)| *at);
        Next::Wait(heartbeat.into_iter().chain(cooled).chain(acks).min())
    }
}

impl State {
    /// The acknowledgement of a lease that still runs.
    fn next_ack(&mut self, now: Instant) -> Option<Frame> {
        // What has settled meanwhile needs none, and what would only be waited for neither.
        let settled = |held: Option<&Held>| !matches!(held, Some(Held::Running(_)));
        while let Some((at, lease)) = self.acks.front() {
            let is_over = settled(self.held.get(lease));
            if !is_over && *at > now {
                return None;
            }
            let (_, lease) = self.acks.pop_front()?;
            if !is_over {
                return Some(Frame::Ack(v1::Ack { lease: Some(lease) }));
            }
        }
        None
    }

    fn next_progress(&mut self, now: Instant) -> Option<Frame> {
        while let Some((_, lease)) = self.cooling.pop_front_if(|(at, _)| *at <= now) {
            let Some(Held::Running(running)) = self.held.get_mut(&lease) else { continue };
            if running.is_news {
                running.turn = Turn::Ready;
                self.ready.push_back(lease);
            } else {
                running.turn = Turn::None;
            }
        }
        loop {
            let lease = self.ready.pop_front()?;
            let Some(Held::Running(running)) = self.held.get_mut(&lease) else { continue };
            running.is_news = false;
            running.turn = Turn::Cooling;
            self.cooling.push_back((now + PROGRESS_INTERVAL, lease.clone()));
            return Some(Frame::Progress(v1::Progress { lease: Some(lease), ..running.progress.clone() }));
        }
    }
}

fn keep_end(log: &mut String) {
    if log.len() > LOG_MAX {
        log.drain(..log.ceil_char_boundary(log.len() - LOG_MAX));
    }
}

impl Held {
    fn abort(self) {
        if let Self::Running(running) = self {
            running.handle.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::perform::Outcome;

    /// The leases of a worker that was welcomed, its hello sent; a session's number.
    async fn welcomed(slots: u32) -> (Arc<Leases>, u64) {
        let client = Client::lazy("http://127.0.0.1:1");
        let Ok(client) = client else { unreachable!("an address") };
        let leases = Arc::new(Leases::new(client, slots));
        let session = leases.begin(v1::Hello::default());
        assert!(matches!(frame(&leases, session), Some(Frame::Hello(_))));
        leases.welcomed(v1::Welcome { heartbeat_interval_ms: 1_000, ..v1::Welcome::default() });
        (leases, session)
    }

    fn frame(leases: &Leases, session: u64) -> Option<Frame> {
        match leases.next(session, Waker::noop()) {
            Next::Frame(frame) => Some(frame),
            Next::Wait(_) | Next::End => None,
        }
    }

    /// How long the stream would wait, where it has nothing to send.
    fn wait(leases: &Leases, session: u64) -> Option<Duration> {
        match leases.next(session, Waker::noop()) {
            Next::Wait(Some(at)) => Some(at - Instant::now()),
            Next::Wait(None) | Next::Frame(_) | Next::End => None,
        }
    }

    fn lease(lease: u64) -> v1::LeaseRef {
        v1::LeaseRef { lease, ..v1::LeaseRef::default() }
    }

    /// Gives the worker a task that never ends by itself, and takes the acknowledgement.
    async fn assign(leases: &Arc<Leases>, session: u64, number: u64) {
        take(leases, number);
        assert_eq!(frame(leases, session), None);
        tokio::time::advance(ACK_DELAY).await;
        assert!(matches!(frame(leases, session), Some(Frame::Ack(_))));
    }

    fn take(leases: &Arc<Leases>, number: u64) {
        let handler: Handler = Arc::new(|_| Box::pin(std::future::pending()));
        let assignment = v1::Assignment { lease: Some(lease(number)), ..v1::Assignment::default() };
        assert!(leases.assigned(assignment, Some(&handler)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_comes_at_once_is_the_acknowledgement() {
        let (leases, session) = welcomed(2).await;
        take(&leases, 1);
        take(&leases, 2);
        leases.settle(&lease(1), Outcome::Completed(v1::Payload::default(), None));
        assert!(matches!(frame(&leases, session), Some(Frame::Completed(_))));
        assert_eq!(frame(&leases, session), None);
        assert_eq!(wait(&leases, session), Some(ACK_DELAY));
        tokio::time::advance(ACK_DELAY).await;
        assert_eq!(frame(&leases, session), Some(Frame::Ack(v1::Ack { lease: Some(lease(2)) })));
        assert_eq!(frame(&leases, session), None);
    }

    fn progress(leases: &Leases, number: u64, fraction: f64) {
        leases.progressed(&lease(number), |progress| progress.fraction = Some(fraction));
    }

    fn progress_frame(number: u64, fraction: f64) -> Option<Frame> {
        let fraction = Some(fraction);
        Some(Frame::Progress(v1::Progress {
            lease: Some(lease(number)),
            fraction,
            ..v1::Progress::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_is_sent_only_where_nothing_else_was() {
        let (leases, session) = welcomed(1).await;
        assert_eq!(wait(&leases, session), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_millis(600)).await;
        assign(&leases, session, 1).await;
        tokio::time::advance(Duration::from_millis(600)).await;
        assert_eq!(wait(&leases, session), Some(Duration::from_millis(400)));
        tokio::time::advance(Duration::from_millis(400)).await;
        assert!(matches!(frame(&leases, session), Some(Frame::Heartbeat(_))));
        assert_eq!(wait(&leases, session), Some(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_limited_for_each_lease_and_comes_after_all_else() {
        let (leases, session) = welcomed(2).await;
        assign(&leases, session, 1).await;
        assign(&leases, session, 2).await;
        progress(&leases, 1, 0.1);
        progress(&leases, 1, 0.2);
        progress(&leases, 2, 0.3);
        leases.settle(&lease(2), Outcome::Cancelled(None));
        assert!(matches!(frame(&leases, session), Some(Frame::Cancelled(_))));
        assert_eq!(frame(&leases, session), progress_frame(1, 0.2));
        assert_eq!(frame(&leases, session), None);

        progress(&leases, 1, 0.4);
        progress(&leases, 1, 0.5);
        assert_eq!(wait(&leases, session), Some(PROGRESS_INTERVAL));
        tokio::time::advance(PROGRESS_INTERVAL).await;
        assert_eq!(frame(&leases, session), progress_frame(1, 0.5));
        tokio::time::advance(PROGRESS_INTERVAL).await;
        assert_eq!(frame(&leases, session), None);
        progress(&leases, 1, 0.6);
        assert_eq!(frame(&leases, session), progress_frame(1, 0.6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_hears_all_that_the_old_one_did_not() {
        let (leases, old) = welcomed(2).await;
        assign(&leases, old, 1).await;
        assign(&leases, old, 2).await;
        leases.disconnected();
        progress(&leases, 1, 0.5);
        leases.settle(&lease(2), Outcome::Completed(v1::Payload::default(), None));
        assert_eq!(frame(&leases, old), None);

        let session = leases.begin(v1::Hello::default());
        assert!(matches!(leases.next(old, Waker::noop()), Next::End));
        let Some(Frame::Hello(hello)) = frame(&leases, session) else { unreachable!("hello comes first") };
        assert_eq!(hello.held.len(), 2);
        // Nothing before the welcome.
        assert_eq!(frame(&leases, session), None);
        leases.welcomed(v1::Welcome { reattached: vec![lease(1), lease(2)], ..v1::Welcome::default() });
        assert!(matches!(frame(&leases, session), Some(Frame::Completed(_))));
        assert_eq!(frame(&leases, session), progress_frame(1, 0.5));
        leases.confirmed(Some(lease(1)));
        leases.confirmed(Some(lease(2)));
        assert!(leases.running(Some(&lease(1))).is_some());
        assert!(!leases.is_empty());
        leases.revoked(Some(lease(1)));
        assert!(leases.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_log_comes_with_the_result() {
        let (leases, session) = welcomed(1).await;
        assign(&leases, session, 1).await;
        for number in 0..10_000 {
            leases.logged(&lease(1), &format!("line {number} — of many"));
        }
        leases.settle(&lease(1), Outcome::Completed(v1::Payload::default(), None));
        let Some(Frame::Completed(completed)) = frame(&leases, session) else { unreachable!("no result") };
        assert!(completed.log.len() <= LOG_MAX && completed.log.len() > LOG_MAX - 4);
        assert!(completed.log.ends_with("line 9998 — of many\nline 9999 — of many\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_reads_nothing_gets_no_endless_queue() {
        let (leases, _) = welcomed(1).await;
        let assignment = v1::Assignment { lease: Some(lease(1)), ..v1::Assignment::default() };
        let taken = (0..100_000).take_while(|_| leases.assigned(assignment.clone(), None)).count();
        assert!(taken < 2_000, "{taken}");
    }
}
