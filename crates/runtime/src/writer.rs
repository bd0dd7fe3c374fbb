//! The writer's thread: everything that waits becomes one transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use capataz_shard::journal::{Job, MAX_BATCH, Queue, Scribe, Told, Work};
use capataz_store::Store;
use tokio::sync::mpsc::UnboundedSender;

enum Message {
    Work(Work),
    Stop,
}

/// Reaches the writer.
pub(crate) struct Writer {
    scribe: Arc<Mutex<Scribe>>,
    /// Works that the thread was given and has not done.
    waiting: Arc<AtomicUsize>,
    messages: Sender<Message>,
}

impl Writer {
    /// Starts the thread. What the shards have to be told goes to `told`: no more than was given, so that its bounds are
    /// those of the appends in flight.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        told: UnboundedSender<Told>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (messages, receiver) = channel();
        let scribe = Arc::new(Mutex::new(Scribe::new(store)));
        let waiting = Arc::new(AtomicUsize::new(0));
        let thread = Thread {
            scribe: Arc::clone(&scribe),
            waiting: Arc::clone(&waiting),
            queue: Queue::default(),
            told,
        };
        let thread = std::thread::Builder::new()
            .name("capataz-writer".to_owned())
            .spawn(move || thread.run(&receiver))?;
        Ok((Self { scribe, waiting, messages }, thread))
    }

    pub(crate) fn give(&self, work: Work) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _ = self.messages.send(Message::Work(work));
    }

    /// Whether all that was given is done, and all that there was to tell of it was told.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Does it on the caller's thread, which blocks meanwhile. Only for an idle writer: order is lost otherwise.
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

struct Thread {
    scribe: Arc<Mutex<Scribe>>,
    waiting: Arc<AtomicUsize>,
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
            self.waiting.fetch_sub(given, Ordering::AcqRel);
        }
    }

    fn carry_out(&self, job: Job) {
        let mut told = Vec::new();
        lock(&self.scribe).carry_out(job, &mut told);
        for told in told {
            let _ = self.told.send(told);
        }
    }
}

fn lock(scribe: &Mutex<Scribe>) -> MutexGuard<'_, Scribe> {
    scribe.lock().unwrap_or_else(PoisonError::into_inner)
}
