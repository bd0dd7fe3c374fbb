//! Who may read the store at once: reads block a thread each and take memory, so that there is a number of both, whoever
//! asks.
//!
//! Answers, streams, what workers say and what clients store have places of their own, so that no number of subscribers keeps
//! an answer or an upload waiting. A read that waits for its place is a future and has no thread.
//!
//! What is known of all agents comes from the core and not from the store. It takes as much memory as anything that is read, so
//! that who needs it has a place of its own kind, and no thread.
//!
//! Who reads for an answer or a stream gives way: where there is more to do than the processors can, runs go on first, whatever
//! is asked for meanwhile. Who stores does not, for all others wait while one writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads for answers at once.
const ANSWERS: usize = 8;
/// Reads for answers that may wait for a place.
const WAITING: usize = 1_024;
/// Reads for streams at once.
const STREAMS: usize = 4;
/// Reads for workers' frames at once.
const FRAMES: usize = 2;
/// What clients have sent that is stored at once.
const STORES: usize = 4;
/// Those who hold what is known of all agents at once.
const CATALOGUES: usize = 2;
/// How far a thread that reads for an answer or a stream gives way to all others (`nice`, 0 to 19): with 10 it gets a tenth of
/// what one of them gets, and a whole processor where nobody else wants it.
const GIVES_WAY: i32 = 10;

/// The places of reads.
#[derive(Debug)]
pub struct Reads {
    answers: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    frames: Arc<Semaphore>,
    stores: Arc<Semaphore>,
    catalogues: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_for_catalogues: AtomicUsize,
    giving_way: GivingWay,
}

/// Why a read was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    #[error("too many readers wait already")]
    Overloaded,
    #[error("the read was given up")]
    Lost,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            answers: Arc::new(Semaphore::new(ANSWERS)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            frames: Arc::new(Semaphore::new(FRAMES)),
            stores: Arc::new(Semaphore::new(STORES)),
            catalogues: Arc::new(Semaphore::new(CATALOGUES)),
            waiting: AtomicUsize::new(0),
            waiting_for_catalogues: AtomicUsize::new(0),
            giving_way: GivingWay::default(),
        }
    }
}

impl Reads {
    /// Reads for an answer, on a thread that may block.
    ///
    /// # Errors
    /// [`Busy::Overloaded`] where 1,024 others wait already; [`Busy::Lost`] where `read` panicked.
    pub async fn answer<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let waits = Waits::begin(&self.waiting)?;
        let place = place_of(&self.answers).await?;
        drop(waits);
        blocking(self.giving_way.threads(), place, read).await
    }

    /// Reads for a stream, on a thread that may block. Streams wait as long as it takes.
    ///
    /// # Errors
    /// [`Busy::Lost`] where `read` panicked.
    pub async fn stream<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        blocking(self.giving_way.threads(), place_of(&self.streams).await?, read).await
    }

    /// Stores what a client has sent, or has named, on a thread that may block. It does not give way, for runs wait while it
    /// writes.
    ///
    /// # Errors
    /// [`Busy::Overloaded`] where 1,024 others wait already; [`Busy::Lost`] where `store` panicked.
    pub async fn store<T: Send + 'static>(
        &self,
        store: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let waits = Waits::begin(&self.waiting)?;
        let place = place_of(&self.stores).await?;
        drop(waits);
        blocking(Handle::current(), place, store).await
    }

    /// Reads for what a worker has said, on a thread that may block: what the worker says next waits behind it, so that
    /// no reader does.
    ///
    /// # Errors
    /// [`Busy::Lost`] where `read` panicked.
    pub async fn frame<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        blocking(Handle::current(), place_of(&self.frames).await?, read).await
    }

    /// The right to hold what is known of all agents, which may be all of their descriptions.
    ///
    /// # Errors
    /// [`Busy::Overloaded`] where 1,024 others wait already.
    pub async fn catalogue(&self) -> Result<OwnedSemaphorePermit, Busy> {
        let _waits = Waits::begin(&self.waiting_for_catalogues)?;
        place_of(&self.catalogues).await
    }
}

/// Threads that give way. They are none of the others', for a thread cannot take that back, and among what else is done on threads
/// that may block is what runs wait for.
#[derive(Debug)]
struct GivingWay(Option<tokio::runtime::Runtime>);

impl Default for GivingWay {
    fn default() -> Self {
        let gives_way = || {
            // On Linux this is of the thread, whose number it has from the process. Where it is not allowed, reads take their
            // share as before.
            let thread = Some(rustix::thread::gettid());
            let nice = rustix::process::getpriority_process(thread).unwrap_or_default();
            let _ = rustix::process::setpriority_process(thread, nice.max(GIVES_WAY));
        };
        let threads = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(ANSWERS + STREAMS)
            .thread_name("capataz-reads")
            .on_thread_start(gives_way)
            .build();
        Self(threads.ok())
    }
}

impl GivingWay {
    fn threads(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |threads| threads.handle().clone())
    }
}

impl Drop for GivingWay {
    fn drop(&mut self) {
        // The last one who may read may be a future, which cannot wait for reads that go on.
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

async fn place_of(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Busy> {
    Arc::clone(places).acquire_owned().await.map_err(|_| Busy::Lost)
}

/// The place is free when the read has ended, also where nobody waits for it any more.
async fn blocking<T: Send + 'static>(
    threads: Handle,
    place: OwnedSemaphorePermit,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Busy> {
    let reading = threads.spawn_blocking(move || {
        let value = read();
        drop(place);
        value
    });
    reading.await.map_err(|_| Busy::Lost)
}

/// One that waits for a place.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Result<Self, Busy> {
        if waiting.fetch_add(1, Ordering::AcqRel) >= WAITING {
            waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(Busy::Overloaded);
        }
        Ok(Self(waiting))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Reads that last until the senders are dropped.
    fn long_reads(reads: &Arc<Reads>, count: usize, streams: bool) -> Vec<Sender<()>> {
        let begin = |_| {
            let (sender, receiver) = channel::<()>();
            let reads = Arc::clone(reads);
            tokio::spawn(async move {
                let read = move || receiver.recv().is_err();
                if streams { reads.stream(read).await } else { reads.answer(read).await }
            });
            sender
        };
        (0..count).map(begin).collect()
    }

    #[tokio::test]
    async fn streams_that_read_for_long_keep_no_answer_no_worker_and_no_upload_waiting() {
        let reads = Arc::new(Reads::default());
        let long = long_reads(&reads, 3 * STREAMS, true);
        assert_eq!((reads.answer(|| 1).await, reads.frame(|| 1).await), (Ok(1), Ok(1)));
        assert_eq!(reads.store(|| 1).await, Ok(1));
        drop(long);
        assert_eq!(reads.stream(|| 2).await, Ok(2));
    }

    #[tokio::test]
    async fn beyond_those_that_may_wait_readers_are_sent_away_at_once_and_come_in_again_later() {
        let reads = Arc::new(Reads::default());
        let long = long_reads(&reads, ANSWERS + WAITING, false);
        while reads.waiting.load(Ordering::Acquire) < WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(reads.answer(|| 1).await, Err(Busy::Overloaded));
        drop(long);
        while reads.waiting.load(Ordering::Acquire) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reads.answer(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn who_reads_for_answers_and_streams_gives_way_and_runs_do_not() {
        let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).ok();
        let reads = Reads::default();
        let before = nice();
        let gives = before.map(|nice| nice.max(GIVES_WAY));
        assert_eq!(reads.answer(nice).await, Ok(gives));
        assert_eq!(reads.stream(nice).await, Ok(gives));
        // A thread cannot take it back, so that these are other ones.
        assert_eq!(reads.frame(nice).await, Ok(before));
        assert_eq!(reads.store(nice).await, Ok(before));
        assert_eq!(nice(), before);
    }

    #[tokio::test]
    async fn a_read_that_panics_is_lost_and_its_place_is_free() {
        let reads = Reads::default();
        for _ in 0..2 * ANSWERS {
            let lost = reads.answer(|| -> u32 { std::panic::resume_unwind(Box::new("a read")) }).await;
            assert_eq!(lost, Err(Busy::Lost));
        }
        assert_eq!(reads.answer(|| 1).await, Ok(1));
    }
}
