//! Workers' streams: first in, first out in both directions, with delays, and cut with a lost tail.

use capataz_contracts::v1::{connect_request::Frame as Said, connect_response::Frame as Told};
use capataz_crew::ConnectionId;
use capataz_shard::Input;

use crate::invariant::{Invariant, Violation};
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

/// One connection of a worker.
#[derive(Debug)]
pub struct Link {
    pub worker: usize,
    /// The daemon's process at its other end.
    generation: u64,
    up: Pipe,
    down: Pipe,
    /// Nothing new goes in at either end.
    cut: bool,
    /// The daemon has closed it.
    closed: bool,
    /// When something arrived over it last, by a clock that stands still with the daemon.
    heard: i64,
}

/// One direction. Frames from `limit` on are lost.
#[derive(Debug)]
struct Pipe {
    sent: u64,
    delivered: u64,
    /// At the daemon's end, where it waits while the daemon stands still: no cut takes it back.
    waiting: u64,
    limit: u64,
    last_at: i64,
    ended: bool,
}

impl Pipe {
    fn new() -> Self {
        Self { sent: 0, delivered: 0, waiting: 0, limit: u64::MAX, last_at: 0, ended: false }
    }

    /// Whether the frame with this number arrives.
    fn arrives(&mut self, index: u64) -> bool {
        if index >= self.limit || self.ended {
            return false;
        }
        self.delivered = index + 1;
        true
    }
}

impl World {
    /// A new connection of the worker, where there is a daemon to connect to.
    pub(crate) fn connect(&mut self, worker: usize) -> Option<ConnectionId> {
        self.daemon.core.as_ref()?;
        let id = ConnectionId(self.draw_id());
        let link = Link {
            worker,
            generation: self.generation,
            up: Pipe::new(),
            down: Pipe::new(),
            cut: false,
            closed: false,
            heard: self.stall.listened(self.now),
        };
        self.links.insert(id, link);
        Some(id)
    }

    /// Nothing is on its way to the worker at the other end, and nothing in the daemon may yet send anything.
    pub(crate) fn is_quiet(&self, id: ConnectionId) -> bool {
        let Some(link) = self.links.get(&id) else { return false };
        let open = link.generation == self.generation && !link.cut && !link.closed;
        let delivered = link.down.sent > 0 && link.down.delivered == link.down.sent;
        open && delivered && self.daemon.is_idle() && self.disk.is_idle() && !self.daemon.misses_a_message()
    }

    pub(crate) fn send_up(&mut self, id: ConnectionId, frame: Said) {
        let delay = self.rng.delay(self.scenario.network_usual, self.scenario.network_worst);
        let now = self.now;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.cut) else { return };
        let at = (now + delay).max(link.up.last_at);
        link.up.last_at = at;
        let index = link.up.sent;
        link.up.sent += 1;
        self.at(at, Action::Up { link: id, index, frame: Box::new(frame) });
        if self.strikes(self.scenario.cuts) {
            self.cut(id);
        }
    }

    pub(crate) fn send_down(&mut self, id: ConnectionId, frame: Told) -> Result<(), Violation> {
        let delay = self.rng.delay(self.scenario.network_usual, self.scenario.network_worst);
        let now = self.now;
        let is_of_damaged = self.is_of_damaged(&frame);
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.closed) else { return Ok(()) };
        let worker = link.worker;
        if let Some(worker) = self.workers.get(worker) {
            // A worker is welcomed when the last of several shards has spoken, and what the first one said was earlier.
            let is_late =
                self.scenario.wire_usual > 0 || self.scenario.wire_faults > 0 || self.scenario.shards > 1;
            if !is_of_damaged {
                self.model.check_frame(&worker.id, &frame, is_late)?;
            }
        }
        self.trace.fact(Fact::SentFrame, id.0, u64::from(number_of(&frame)));
        if link.cut {
            return Ok(());
        }
        let at = (now + delay).max(link.down.last_at);
        link.down.last_at = at;
        let index = link.down.sent;
        link.down.sent += 1;
        self.at(at, Action::Down { link: id, index, frame: Box::new(frame) });
        if self.strikes(self.scenario.cuts) {
            self.cut(id);
        }
        Ok(())
    }

    /// The stream breaks: what is on its way arrives up to some frame, in each direction. The daemon does not always
    /// see that its end is dead.
    pub(crate) fn cut(&mut self, id: ConnectionId) {
        let half_open = !self.is_calm() && self.rng.percent(25);
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.cut) else { return };
        link.cut = true;
        for pipe in [&mut link.up, &mut link.down] {
            let there = pipe.delivered.max(pipe.waiting);
            let on_the_way = usize::try_from(pipe.sent - there).unwrap_or(0);
            pipe.limit = pipe.limit.min(there + self.rng.below(on_the_way + 1) as u64);
        }
        let (up_at, down_at) = (link.up.last_at, link.down.last_at);
        self.line(|| format!("net: {id:?} is cut, half open {half_open}"));
        let seen = self.now + self.rng.delay(100, 4_000);
        self.at(seen.max(down_at), Action::DownEnd { link: id });
        if !half_open {
            let seen = self.now + self.rng.delay(100, 4_000);
            self.at(seen.max(up_at), Action::UpEnd { link: id });
        }
    }

    /// The daemon closes the stream: what it has sent arrives, and then the worker sees the end.
    pub(crate) fn close_link(&mut self, id: ConnectionId) {
        let delay = self.rng.delay(self.scenario.network_usual, self.scenario.network_worst);
        let now = self.now;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.closed) else { return };
        link.closed = true;
        let at = (now + delay).max(link.down.last_at);
        self.at(at, Action::DownEnd { link: id });
    }

    /// A frame of the worker is at the daemon's end, and is read when the daemon goes on.
    pub(crate) fn waits(&mut self, id: ConnectionId, index: u64) {
        let Some(link) = self.links.get_mut(&id).filter(|link| index < link.up.limit) else { return };
        link.up.waiting = link.up.waiting.max(index + 1);
        self.arrived(id);
    }

    /// Something of the worker is at the daemon's end, whether the daemon reads it yet or not.
    fn arrived(&mut self, id: ConnectionId) {
        let now = self.stall.listened(self.now);
        if let Some(link) = self.links.get_mut(&id) {
            link.heard = now;
        }
    }

    /// The daemon takes the worker for silent.
    pub(crate) fn check_silence(&self, id: ConnectionId) -> Result<(), Violation> {
        let Some(link) = self.links.get(&id) else { return Ok(()) };
        let silent_for = self.stall.listened(self.now) - link.heard;
        // Three heartbeats that are missed in a row (seed 000, contract 3).
        Invariant::OwnStallIsForgiven.check(silent_for >= self.scenario.core.heartbeat_ms * 3, || {
            format!("{id:?} is taken for silent after {silent_for} ms in which the daemon listened")
        })
    }

    /// The daemon is dead, and so are its streams.
    pub(crate) fn cut_all_links(&mut self) {
        let links: Vec<ConnectionId> =
            self.links.iter().filter(|(_, link)| !link.cut).map(|(id, _)| *id).collect();
        for id in links {
            self.cut(id);
        }
    }

    pub(crate) fn up(&mut self, id: ConnectionId, index: u64, frame: Said) -> Result<(), Violation> {
        let generation = self.generation;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.generation != generation || !link.up.arrives(index) {
            return Ok(());
        }
        let worker = link.worker;
        self.arrived(id);
        if index == 0 && self.is_host(worker) {
            self.deliver(Input::Hosted { connection: id })?;
        }
        self.deliver(Input::Frame { connection: id, frame })
    }

    pub(crate) fn down(&mut self, id: ConnectionId, index: u64, frame: Told) -> Result<(), Violation> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if !link.down.arrives(index) {
            return Ok(());
        }
        let worker = link.worker;
        self.told(worker, id, frame)
    }

    /// The daemon sees the end of the stream.
    pub(crate) fn up_end(&mut self, id: ConnectionId) -> Result<(), Violation> {
        let generation = self.generation;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.up.ended) else { return Ok(()) };
        link.up.ended = true;
        link.closed = true;
        if link.generation != generation {
            return Ok(());
        }
        self.deliver(Input::Disconnected { connection: id })
    }

    /// The worker sees the end of the stream, and hangs up.
    pub(crate) fn down_end(&mut self, id: ConnectionId) -> Result<(), Violation> {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.down.ended) else { return Ok(()) };
        link.down.ended = true;
        let (worker, was_cut, up_at) = (link.worker, link.cut, link.up.last_at);
        link.cut = true;
        if !was_cut {
            let seen = self.now + self.rng.delay(50, 500);
            self.at(seen.max(up_at), Action::UpEnd { link: id });
        }
        self.hung_up(worker, id);
        Ok(())
    }
}

fn number_of(frame: &Told) -> u32 {
    match frame {
        Told::Welcome(_) => 1,
        Told::Assignment(_) => 2,
        Told::Cancel(_) => 3,
        Told::DeadlineExtended(_) => 4,
        Told::ResultAccepted(_) => 5,
        Told::ResultRefused(_) => 6,
        Told::LeaseRevoked(_) => 7,
        Told::Drain(_) => 8,
        Told::Heartbeat(_) => 9,
        Told::KeepBrowser(_) => 10,
    }
}
