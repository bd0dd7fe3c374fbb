//! The shard of a key: it says durably which run the key names, and lets go what nobody needs.

use bytes::Bytes;
use capataz_store::{Append, AppendOutcome, IdempotencyKey, KeyChange, Millis, RunId};

use super::facts::PAGE;
use super::{KeyQuery, KeyTalk, Read};
use crate::outbox::{Deferred, Pending};
use crate::requests::OVERLOADED;
use crate::shard::{Output, Shard};

/// Words that may be answered at most. One that is forgotten is said again.
const MOST_WORDS: usize = 4_096;

impl Shard {
    /// The key is to name a run of another shard.
    pub(super) fn register(&mut self, key: IdempotencyKey, run: RunId, ask: u64) {
        // Whatever was said of the key before, a run may now be made under it.
        self.keys.words.remove(&key.key);
        if self.overloaded() {
            let declined = OVERLOADED;
            return self.out(Output::Key(KeyTalk::Declined { asker: run, ask, declined }));
        }
        let registered = KeyTalk::Registered {
            key: key.key.clone(),
            asker: run,
            ask,
            named: run,
            same_request: true,
            word: 0,
        };
        let append = Append::of_key(run, KeyChange::Register(key));
        self.send_append(append, vec![Deferred::Key(registered)], None);
    }

    /// A change of a key is durable, or was refused.
    pub(crate) fn key_settled(&mut self, pending: Pending, outcome: &AppendOutcome) {
        for deferred in pending.deferred {
            let Deferred::Key(KeyTalk::Registered { key, asker, ask, .. }) = deferred else { continue };
            let (named, same_request) = match outcome {
                AppendOutcome::Committed(_) => (asker, true),
                AppendOutcome::KeyTaken { run, same_request } => (*run, *same_request),
                AppendOutcome::Conflict | AppendOutcome::PastGone | AppendOutcome::Fenced => continue,
            };
            let word = self.word(&key);
            self.out(Output::Key(KeyTalk::Registered { key, asker, ask, named, same_request, word }));
        }
    }

    /// The number of what is said of a key now.
    fn word(&mut self, key: &Bytes) -> u64 {
        if self.keys.words.len() >= MOST_WORDS {
            self.keys.words.clear();
        }
        let word = self.key_number();
        self.keys.words.insert(key.clone(), word);
        word
    }

    /// The shard of a run needs the key no longer, if nobody has asked for it since it was asked.
    pub(super) fn key_is_over(&mut self, key: Bytes, run: RunId, word: u64) {
        if self.keys.words.get(&key) == Some(&word) {
            self.keys.words.remove(&key);
            self.send_append(Append::of_key(run, KeyChange::Release(key)), Vec::new(), None);
        }
    }

    /// Retention is due: what is registered here and may be over is looked for.
    pub(crate) fn look_at_keys(&mut self, before: Millis) {
        let looks = self.keys.reads.values().any(|read| matches!(read, Read::List { .. }));
        if !looks && self.homes.are_many() {
            let after = self.keys.after.clone();
            self.read_keys(Read::List { before }, KeyQuery::After(after));
        }
    }

    /// Asks about the keys that were registered long ago for runs of other shards.
    pub(super) fn ask_about(&mut self, keys: Vec<(Vec<u8>, RunId)>, before: Millis) {
        let is_full = keys.len() >= PAGE;
        self.keys.after = keys.last().filter(|_| is_full).map(|(key, _)| Bytes::copy_from_slice(key));
        let old = |run: RunId| drawn_at(run) < before && !self.homes.is_here(run);
        let asked: Vec<(Vec<u8>, RunId)> = keys.into_iter().filter(|(_, run)| old(*run)).collect();
        for (key, run) in asked {
            let key = Bytes::from(key);
            let word = self.word(&key);
            self.out(Output::Key(KeyTalk::Asked { key, run, word }));
        }
    }
}

/// The time in a UUIDv7.
fn drawn_at(run: RunId) -> Millis {
    let at = run.0.as_u128() >> 80;
    Millis(i64::try_from(at).unwrap_or(i64::MAX))
}
