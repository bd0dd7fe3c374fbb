//! The writer's thread: everything that waits becomes one transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use capataz_shard::journal::{Chance, Job, MAX_BATCH, Queue, Scribe, Told, Work};
use capataz_store::{Mark, Store};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Clock;
use crate::desk::Load;
use crate::meters::{Begun, Meters};

enum Message {
    Work(Work),
    Stop,
}

/// Reaches the writer.
pub(crate) struct Writer {
    scribe: Arc<Mutex<Scribe>>,
    load: Load,
    messages: Sender<Message>,
    /// Bytes that wait for the thread.
    waiting: Arc<AtomicUsize>,
    room: Arc<Notify>,
    meters: Arc<Meters>,
}

/// Bytes that wait for the writer's thread beyond which the shards take no more messages.
const ROOM: usize = 64 * 1024 * 1024;

impl Writer {
    /// Starts the thread. What the shards have to be told goes to `told`: no more than was given, so that its bounds are
    /// those of the appends in flight.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        told: UnboundedSender<Told>,
        load: Load,
        clock: Clock,
        meters: Arc<Meters>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (messages, receiver) = channel();
        let chance = Chance { draw: Box::new(draw), wall: Box::new(move || clock().wall) };
        let scribe = Arc::new(Mutex::new(Scribe::new(store, chance)));
        let (waiting, room) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let thread = Thread {
            scribe: Arc::clone(&scribe),
            load: load.clone(),
            queue: Queue::default(),
            told,
            waiting: Arc::clone(&waiting),
            room: Arc::clone(&room),
            meters: Arc::clone(&meters),
        };
        let thread = std::thread::Builder::new()
            .name("capataz-writer".to_owned())
            .spawn(move || thread.run(&receiver))?;
        Ok((Self { scribe, load, messages, waiting, room, meters }, thread))
    }

    pub(crate) fn give(&self, work: Work) {
        self.load.begin();
        self.waiting.fetch_add(work.bytes(), Ordering::AcqRel);
        let _ = self.messages.send(Message::Work(work));
    }

    /// Whether more may be given.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < ROOM
    }

    /// Rings when more may be given again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        Arc::clone(&self.room)
    }

    /// What writes. Whoever locks it has the disk stand still.
    #[cfg(test)]
    pub(crate) fn scribe(&self) -> Arc<Mutex<Scribe>> {
        Arc::clone(&self.scribe)
    }

    /// Does it on the caller's thread, which blocks meanwhile. Only while nothing else is under way: order is lost
    /// otherwise.
    pub(crate) fn carry_out(&self, job: Job) -> Vec<Told> {
        let mut told = Vec::new();
        carry_out(&self.scribe, &self.meters, job, &mut told);
        told
    }

    /// The thread ends when it has done what it was given.
    pub(crate) fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}

/// The mark of a claim, drawn at random. Without randomness there is none, and the store refuses the claim.
#[must_use]
pub fn draw() -> Mark {
    getrandom::u32().map_or(Mark::NONE, Mark)
}

struct Thread {
    scribe: Arc<Mutex<Scribe>>,
    load: Load,
    queue: Queue,
    told: UnboundedSender<Told>,
    waiting: Arc<AtomicUsize>,
    room: Arc<Notify>,
    meters: Arc<Meters>,
}

impl Thread {
    fn run(mut self, receiver: &Receiver<Message>) {
        let mut stops = false;
        while !stops && let Ok(first) = receiver.recv() {
            let mut given = 0;
            let mut next = Some(first);
            loop {
                while let Some(message) = next.take() {
                    match message {
                        Message::Work(work) => {
                            given += 1;
                            let dropped = self.queue.push(work);
                            self.release(dropped);
                        }
                        Message::Stop => stops = true,
                    }
                    next = receiver.try_recv().ok();
                }
                let Some(job) = self.queue.next(MAX_BATCH) else { break };
                self.carry_out(job);
                next = receiver.try_recv().ok();
            }
            self.load.end(given);
        }
    }

    /// These bytes are not kept any more.
    fn release(&self, bytes: usize) {
        let before = self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        if before >= ROOM && before - bytes < ROOM {
            self.room.notify_one();
        }
    }

    fn carry_out(&self, job: Job) {
        let (mut told, bytes) = (Vec::new(), job.bytes());
        carry_out(&self.scribe, &self.meters, job, &mut told);
        self.release(bytes);
        for told in told {
            self.load.begin();
            if self.told.send(told).is_err() {
                self.load.end(1);
            }
        }
    }
}

/// Does it, and counts how long a commit takes.
fn carry_out(scribe: &Mutex<Scribe>, meters: &Meters, job: Job, told: &mut Vec<Told>) {
    let begun = matches!(job, Job::Commit(_)).then(Begun::now);
    lock(scribe).carry_out(job, told);
    if let Some(begun) = begun {
        meters.commits.took(begun.took());
    }
}

fn lock(scribe: &Mutex<Scribe>) -> MutexGuard<'_, Scribe> {
    scribe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use capataz_store::{MemoryStore, RunId, ShardId, Snapshot};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_writer_with_much_to_do_says_so_and_rings_when_it_has_done() {
        let (told, _told) = mpsc::unbounded_channel();
        let clock: Clock = Arc::new(crate::clock::now);
        let store = Arc::new(MemoryStore::new());
        let (writer, thread) = Writer::start(store, told, Load::default(), clock, Arc::default()).unwrap();
        let busy = lock(&writer.scribe);
        for _ in 0..2 {
            assert!(writer.has_room());
            let snapshot = Snapshot { seq: 1, format: 0, state: vec![0; ROOM / 2].into() };
            writer.give(Work::Snapshot { shard: ShardId(0), run: RunId(uuid::Uuid::nil()), snapshot });
        }
        assert!(!writer.has_room());
        drop(busy);
        writer.room().notified().await;
        assert!(writer.has_room());
        writer.stop();
        thread.join().unwrap();
    }
}
