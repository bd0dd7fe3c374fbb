//! Bytes that wait in the daemon because of its clients, counted for all clients together, and who is closed where they are
//! too many.
//!
//! Where more waits than may, connections are closed: the one first that has kept the daemon waiting for the longest time,
//! and for a second at least. Nobody is given this second where twice as much waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::patience::listened_for;

/// Nothing moves for so long only where a client does not do its part.
pub(crate) const STALLED: Duration = Duration::from_secs(1);

/// Answers that are read for one connection at once, those included that it does not take: as many as are read at once for all.
const ANSWERS: usize = 8;
/// Workers that may say hello over one connection at once.
const HELLOS: u32 = 32;
/// How long each further one waits for its turn: a connection has a worker or some, and each hello costs a commit.
const HELLO_EACH: Duration = Duration::from_millis(20);

/// The life of a connection, as those have to know it who read from it, write to it, and decide on its end.
#[derive(Debug)]
pub(crate) struct Life {
    is_over: AtomicBool,
    waker: AtomicWaker,
    /// When something left last.
    left_at: Mutex<Option<Instant>>,
    /// When the turn of the next hello would be, if each had waited. Held by the one whose turn is next: whoever gives up has none.
    hello_at: tokio::sync::Mutex<Option<Instant>>,
    /// Places of answers that are read for it.
    answers: Arc<Semaphore>,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            is_over: AtomicBool::default(),
            waker: AtomicWaker::default(),
            left_at: Mutex::default(),
            hello_at: tokio::sync::Mutex::default(),
            answers: Arc::new(Semaphore::new(ANSWERS)),
        }
    }
}

impl Life {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether the connection is to be closed. Wakes whoever has asked last when it is.
    pub(crate) fn is_over(&self, waker: &Waker) -> bool {
        self.waker.register(waker);
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn left_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.left_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more answer may be read for this connection. It may until the place is given back, which is when its bytes are
    /// on their way.
    pub(crate) async fn may_read(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).acquire_owned().await.ok()
    }

    /// Waits until one more worker may say hello over this connection: [`HELLOS`] at once, and one each [`HELLO_EACH`] after them.
    pub(crate) async fn may_say_hello(&self) {
        let mut hello_at = self.hello_at.lock().await;
        let now = Instant::now();
        let turn = hello_at.map_or(now, |next| next.max(now));
        let ahead = HELLO_EACH * (HELLOS - 1);
        if turn > now + ahead {
            sleep_until(turn - ahead).await;
        }
        *hello_at = Some(turn + HELLO_EACH);
    }
}

/// Bytes of one kind that wait, and how many of them may.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    waiting: Arc<Mutex<Waiting>>,
    rule: Rule,
}

/// What may wait, and what counts for how long somebody keeps the daemon waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) max_bytes: usize,
    /// Since when the client of this piece has kept the daemon waiting; `None` where it has not.
    pub(crate) since: fn(&Piece) -> Option<Instant>,
    /// What the log says of a connection that is closed.
    pub(crate) closes: fn(),
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order in which it began to wait.
    pieces: BTreeMap<u64, Piece>,
    next: u64,
    bytes: usize,
    /// Somebody looks again after a while.
    is_watched: bool,
}

/// Bytes that wait together.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: usize,
    pub(crate) life: Arc<Life>,
    pub(crate) since: Option<Instant>,
}

impl Budget {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { waiting: Arc::default(), rule }
    }

    /// Counts a piece until it is removed by the number that it gets.
    pub(crate) fn add(&self, life: &Arc<Life>, bytes: usize, since: Option<Instant>) -> u64 {
        let mut waiting = self.lock();
        let piece = waiting.next;
        waiting.next += 1;
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        waiting.pieces.insert(piece, Piece { bytes, life: Arc::clone(life), since });
        self.look_at(waiting);
        piece
    }

    /// The piece has so many bytes more. Nothing where its connection is being closed.
    pub(crate) fn grow(&self, piece: u64, bytes: usize) {
        let mut waiting = self.lock();
        let Some(grows) = waiting.pieces.get_mut(&piece) else { return };
        grows.bytes = grows.bytes.saturating_add(bytes);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        self.look_at(waiting);
    }

    /// The daemon waits for the client of the piece, if it has not done so before.
    pub(crate) fn awaits(&self, piece: u64) {
        if let Some(piece) = self.lock().pieces.get_mut(&piece) {
            piece.since.get_or_insert_with(Instant::now);
        }
    }

    /// Counts the piece no more. Returns its connection, unless that is being closed: what waits there is not counted.
    pub(crate) fn remove(&self, piece: u64) -> Option<Arc<Life>> {
        let mut waiting = self.lock();
        let removed = waiting.pieces.remove(&piece)?;
        waiting.bytes = waiting.bytes.saturating_sub(removed.bytes);
        Some(removed.life)
    }

    fn look_at(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let max_bytes = self.rule.max_bytes;
        let stalled = match waiting.bytes > max_bytes.saturating_mul(2) {
            true => waiting.close_down(self.rule, Duration::ZERO),
            false => Vec::new(),
        };
        let begins = waiting.bytes > max_bytes && !waiting.is_watched;
        waiting.is_watched |= begins;
        drop(waiting);
        self.end(stalled);
        if begins {
            tokio::spawn(self.clone().watch());
        }
    }

    /// Closes connections that keep the daemon waiting, until no more waits than may.
    async fn watch(self) {
        loop {
            listened_for(STALLED).await;
            let mut waiting = self.lock();
            let stalled = waiting.close_down(self.rule, STALLED);
            waiting.is_watched = waiting.bytes > self.rule.max_bytes;
            let goes_on = waiting.is_watched;
            drop(waiting);
            self.end(stalled);
            if !goes_on {
                return;
            }
        }
    }

    fn end(&self, stalled: Vec<Arc<Life>>) {
        for life in stalled {
            (self.rule.closes)();
            life.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        self.lock().is_watched
    }
}

/// What waits for one connection.
struct Client<'w> {
    life: &'w Arc<Life>,
    since: Instant,
    pieces: usize,
    bytes: usize,
}

impl Waiting {
    /// Takes out the connections to be closed so that no more waits than may: those first that have kept the daemon waiting
    /// for longest, and for `at_least` so long. One connection with one piece stays, where that is all that waits: it may have
    /// asked for one large answer.
    fn close_down(&mut self, rule: Rule, at_least: Duration) -> Vec<Arc<Life>> {
        if self.bytes <= rule.max_bytes {
            return Vec::new();
        }
        let now = Instant::now();
        let mut clients: BTreeMap<*const Life, Client<'_>> = BTreeMap::new();
        for piece in self.pieces.values() {
            let since = piece.since_by(rule).unwrap_or(now);
            let none = || Client { life: &piece.life, since, pieces: 0, bytes: 0 };
            let client = clients.entry(Arc::as_ptr(&piece.life)).or_insert_with(none);
            client.since = client.since.min(since);
            client.pieces += 1;
            client.bytes = client.bytes.saturating_add(piece.bytes);
        }
        let mut clients: Vec<Client<'_>> = clients.into_values().collect();
        // Of those that have kept it waiting for the same time, the one with the most goes first.
        clients.sort_by_key(|client| (client.since, std::cmp::Reverse(client.bytes)));
        let (mut bytes, mut stay) = (self.bytes, clients.len());
        let mut stalled: Vec<Arc<Life>> = Vec::new();
        for client in clients {
            let is_all = stay < 2 && client.pieces < 2;
            let is_short = now.saturating_duration_since(client.since) < at_least;
            if bytes <= rule.max_bytes || is_all || is_short {
                break;
            }
            bytes = bytes.saturating_sub(client.bytes);
            stay -= 1;
            stalled.push(Arc::clone(client.life));
        }
        let closed: BTreeSet<*const Life> = stalled.iter().map(Arc::as_ptr).collect();
        if !closed.is_empty() {
            self.pieces.retain(|_, piece| !closed.contains(&piece.of()));
        }
        self.bytes = bytes;
        stalled
    }
}

#[cfg(test)]
thread_local! {
    /// Pieces that were looked at to find out who is closed.
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Piece {
    fn since_by(&self, rule: Rule) -> Option<Instant> {
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        (rule.since)(self)
    }

    fn of(&self) -> *const Life {
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        Arc::as_ptr(&self.life)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_workers_say_hello_over_one_connection_at_once_and_the_others_one_by_one() {
        let (life, begun) = (Life::default(), Instant::now());
        let mut waited = Vec::new();
        for _ in 0..35 {
            life.may_say_hello().await;
            waited.push(begun.elapsed().as_millis());
        }
        assert_eq!(waited[..32], [0; 32]);
        assert_eq!(waited[32..], [20, 40, 60]);
        // Whoever comes later finds as much room as those before have left.
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = Instant::now();
        for _ in 0..32 {
            life.may_say_hello().await;
        }
        assert_eq!(later.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn workers_that_give_up_before_their_turn_to_say_hello_hold_up_nobody() {
        let (life, begun) = (Life::default(), Instant::now());
        for _ in 0..32 {
            life.may_say_hello().await;
        }
        let mut waiting: Vec<_> = (0..1_000).map(|_| Box::pin(life.may_say_hello())).collect();
        for waits in &mut waiting {
            assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(waiting);
        life.may_say_hello().await;
        assert_eq!(begun.elapsed(), HELLO_EACH);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_closed_is_found_by_looking_at_each_piece_twice() {
        let (clients, pieces) = (1_000, 10);
        let budget = Budget::new(Rule { max_bytes: 10_000, since: |piece| piece.since, closes: || () });
        budget.lock().is_watched = true;
        let lives: Vec<Arc<Life>> = (0..clients).map(|_| Arc::default()).collect();
        // As many as wait before anybody is closed at once: then all have waited for a second.
        for _ in 0..pieces {
            for life in &lives {
                budget.add(life, 2, Some(Instant::now()));
            }
        }
        assert_eq!(budget.bytes(), 20_000);
        LOOKED_AT.set(0);
        tokio::time::advance(STALLED).await;
        let closed = budget.lock().close_down(budget.rule, STALLED);
        assert_eq!((closed.len(), budget.bytes()), (clients / 2, 10_000));
        assert_eq!(LOOKED_AT.get(), 2 * clients * pieces);
        drop(lives);
    }
}
