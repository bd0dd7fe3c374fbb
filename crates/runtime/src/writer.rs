//! The writer's thread: everything that waits becomes one transaction.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use capataz_shard::journal::{Chance, Job, MAX_BATCH, Queue, Scribe, Told, Work};
use capataz_store::{Mark, Store};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Clock;
use crate::desk::Load;

enum Message {
    Work(Work),
    Stop,
}

/// Reaches the writer.
pub(crate) struct Writer {
    scribe: Arc<Mutex<Scribe>>,
    load: Load,
    messages: Sender<Message>,
}

impl Writer {
    /// Starts the thread. What the shards have to be told goes to `told`: no more than was given, so that its bounds are
    /// those of the appends in flight.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        told: UnboundedSender<Told>,
        load: Load,
        clock: Clock,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (messages, receiver) = channel();
        let chance = Chance { draw: Box::new(draw), wall: Box::new(move || clock().wall) };
        let scribe = Arc::new(Mutex::new(Scribe::new(store, chance)));
        let thread =
            Thread { scribe: Arc::clone(&scribe), load: load.clone(), queue: Queue::default(), told };
        let thread = std::thread::Builder::new()
            .name("capataz-writer".to_owned())
            .spawn(move || thread.run(&receiver))?;
        Ok((Self { scribe, load, messages }, thread))
    }

    pub(crate) fn give(&self, work: Work) {
        self.load.begin();
        let _ = self.messages.send(Message::Work(work));
    }

    /// Does it on the caller's thread, which blocks meanwhile. Only while nothing else is under way: order is lost
    /// otherwise.
    pub(crate) fn carry_out(&self, job: Job) -> Vec<Told> {
        let mut told = Vec::new();
        lock(&self.scribe).carry_out(job, &mut told);
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
                            self.queue.push(work);
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

    fn carry_out(&self, job: Job) {
        let mut told = Vec::new();
        lock(&self.scribe).carry_out(job, &mut told);
        for told in told {
            self.load.begin();
            if self.told.send(told).is_err() {
                self.load.end(1);
            }
        }
    }
}

fn lock(scribe: &Mutex<Scribe>) -> MutexGuard<'_, Scribe> {
    scribe.lock().unwrap_or_else(PoisonError::into_inner)
}
