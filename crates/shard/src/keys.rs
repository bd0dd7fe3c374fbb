//! Keys of starts whose runs live in another shard than their keys: where a start has a session and a key, its run lives
//! with the session. A key names one run, whatever session asks.
//!
//! The run's shard registers the key in the key's shard first, durably, and makes the run when it has heard what the key
//! names ([`KeyTalk`]). The words may come late, twice or never: it asks again until it hears something, its caller is gone,
//! or it gives up. So a death between the two leaves a key that names a run that never was. Whoever repeats the request
//! hears that run's name, and makes it: that it never was, the run's shard knows by its own row of the key, which it writes
//! with the run and which outlives it.
//!
//! Retention removes that row in its time, and then tells the greatest id of such a run: a run whose id is not greater may
//! have been, and is never made again. Its key is let go by the key's shard, which asks about old registrations at each
//! sweep. What the run's shard says to that counts only as long as nobody has asked for the key since
//! ([`Keys::words`]), for a run could be made meanwhile.

mod facts;
mod home;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use capataz_crew::Mono;
use capataz_crew::protocol::home;
use capataz_engine::planted::{self, Fault};
use capataz_store::{IdempotencyKey, Millis, RunId, ShardId};

use crate::ReplyId;
use crate::api::{Answer, Declined, StartReply, StartRequest};
use crate::outbox::Deferred;
use crate::requests::Caller;
use crate::sessions::key_stream;
use crate::shard::{Mode, Output, Shard};
use crate::timers::Timer;

pub use facts::{KeyFact, KeyQuery, find_keys};

/// The time after which a key's shard is asked again. Milliseconds.
const ASK_AGAIN_MS: i64 = 1_000;
/// The time after which a caller hears that the key's shard does not answer. Milliseconds.
const GIVE_UP_MS: i64 = 10_000;

/// What the shard of a key and the shard of its run say to each other.
#[derive(Clone, Debug)]
pub enum KeyTalk {
    /// Said to the key's shard: the key is to name this run, unless it names one already.
    Register { key: IdempotencyKey, run: RunId, ask: u64 },
    /// Said to the shard of whoever has asked: what the key names, durably.
    Registered { key: Bytes, asker: RunId, ask: u64, named: RunId, same_request: bool, word: u64 },
    /// Said to the shard of whoever has asked: not now.
    Declined { asker: RunId, ask: u64, declined: Declined },
    /// Said to the run's shard: the key has named the run for long. Answered with [`KeyTalk::Over`], or not at all.
    Asked { key: Bytes, run: RunId, word: u64 },
    /// Said to the key's shard: the run never was, or its key has been kept for long enough.
    Over { key: Bytes, run: RunId, word: u64 },
}

impl KeyTalk {
    /// An id in the shard that is to hear it.
    #[must_use]
    pub fn to(&self) -> RunId {
        match self {
            Self::Register { key, .. } => key_stream(&key.key),
            Self::Over { key, .. } => key_stream(key),
            Self::Registered { asker, .. } | Self::Declined { asker, .. } => *asker,
            Self::Asked { run, .. } => *run,
        }
    }
}

/// Which of the shards this is.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    pub(crate) shard: ShardId,
    pub(crate) shards: Vec<ShardId>,
}

impl Homes {
    fn is_here(&self, id: RunId) -> bool {
        home(id, &self.shards) == Some(self.shard)
    }

    fn are_many(&self) -> bool {
        self.shards.len() > 1
    }
}

/// A start whose run is made when its key is registered.
#[derive(Debug)]
struct Start {
    reply: ReplyId,
    request: Box<StartRequest>,
    absent: BTreeSet<String>,
    since: Mono,
}

impl Start {
    fn key(&self) -> Option<&IdempotencyKey> {
        self.request.key.as_ref()
    }
}

/// Why the store is read.
#[derive(Debug)]
enum Read {
    /// The key of the start with this ask names another run, by this word of the key's shard.
    Start { ask: u64, named: RunId, word: u64 },
    /// The key's shard has asked.
    Asked { key: Bytes, run: RunId, word: u64 },
    /// Registered keys of runs that are older than this are to be asked about.
    List { before: Millis },
}

/// What a shard remembers of keys, its own and those of other shards.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By the numbers of their asks.
    starts: BTreeMap<u64, Start>,
    reads: BTreeMap<u64, Read>,
    /// The newest word that was said of a key of this shard. Only an answer to it counts, and only until somebody asks for
    /// the key.
    words: BTreeMap<Bytes, u64>,
    /// The last key of the page that was looked at last.
    after: Option<Bytes>,
    numbers: u32,
}

impl Keys {
    /// Starts that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.starts.len()
    }

    /// Whether a start of this shard waits that may come to have this key.
    fn is_awaited(&self, key: &[u8]) -> bool {
        self.starts.values().any(|start| start.key().is_some_and(|of| of.key == key))
    }

    /// The ask of the start that would make this run.
    fn ask_of(&self, run: RunId) -> Option<u64> {
        self.starts.iter().find(|(_, start)| start.request.run == run).map(|(ask, _)| *ask)
    }
}

impl Shard {
    /// A number that no claim of this shard has ever given.
    fn key_number(&mut self) -> u64 {
        self.keys.numbers = self.keys.numbers.wrapping_add(1);
        u64::from(self.mark()) << 32 | u64::from(self.keys.numbers)
    }

    /// Whether the start's key lives in another shard than its run.
    pub(crate) fn is_registered_elsewhere(&self, request: &StartRequest) -> bool {
        request.key.as_ref().is_some_and(|key| !self.homes.is_here(key_stream(&key.key)))
    }

    /// Registers the key of a start, whose run is made afterwards. What would be refused then is refused before, so that
    /// the key stays free.
    ///
    /// # Errors
    /// What the caller is answered at once, for nothing was started.
    pub(crate) fn start_elsewhere(
        &mut self,
        reply: ReplyId,
        request: StartRequest,
        absent: &BTreeSet<String>,
    ) -> Result<(), Answer> {
        self.may_start(Caller::Starts(reply), &request)?;
        let run = request.run;
        self.accepted(run, request.start.clone())?;
        let ask = self.key_number();
        let start = Start { reply, request: Box::new(request), absent: absent.clone(), since: self.now.mono };
        self.keys.starts.insert(ask, start);
        self.ask_for_key(ask);
        if planted::is(Fault::KeyRegisteredAfterItsRun)
            && let Some(start) = self.end_start(ask)
        {
            self.make(start, run);
        }
        Ok(())
    }

    fn ask_for_key(&mut self, ask: u64) {
        let Some(start) = self.keys.starts.get(&ask) else { return };
        let (Some(key), run) = (start.key().cloned(), start.request.run) else { return };
        self.timers.set(Timer::Key(ask), self.now.mono.plus(ASK_AGAIN_MS));
        self.out(Output::Key(KeyTalk::Register { key, run, ask }));
    }

    /// The key's shard has said nothing for a while.
    pub(crate) fn key_is_missing(&mut self, ask: u64) {
        let Some(start) = self.keys.starts.get(&ask) else { return };
        if self.now.mono.since(start.since) < GIVE_UP_MS {
            return self.ask_for_key(ask);
        }
        if let Some(start) = self.end_start(ask) {
            self.reply(start.reply, Answer::Start(Err(Declined::Unavailable)));
        }
    }

    fn end_start(&mut self, ask: u64) -> Option<Start> {
        self.timers.cancel(Timer::Key(ask));
        self.keys.starts.remove(&ask)
    }

    /// The caller no longer waits. A key that was registered for it stays, for whoever repeats the request.
    pub(crate) fn forget_start(&mut self, reply: ReplyId) {
        let asks = self.keys.starts.iter().filter(|(_, start)| start.reply == reply).map(|(ask, _)| *ask);
        for ask in asks.collect::<Vec<_>>() {
            self.end_start(ask);
        }
    }

    /// Everybody whose start waits hears that nobody knows.
    pub(crate) fn abandon_keys(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.keys.numbers = keys.numbers;
        for start in keys.starts.into_values() {
            self.reply(start.reply, Answer::Start(Err(Declined::Unavailable)));
        }
    }

    /// What the shard of a key or of a run has said.
    pub(crate) fn key_talk(&mut self, talk: KeyTalk) {
        if self.mode != Mode::Running {
            // Whoever waits need not wait for this shard to be read. Anybody else asks again.
            if let KeyTalk::Register { run: asker, ask, .. } = talk {
                let declined = Declined::Unavailable;
                self.out(Output::Key(KeyTalk::Declined { asker, ask, declined }));
            }
            return;
        }
        match talk {
            KeyTalk::Register { key, run, ask } => self.register(key, run, ask),
            KeyTalk::Registered { key, asker, ask, named, same_request, word } => {
                let start = self.keys.starts.get(&ask);
                if start.is_some_and(|start| start.request.run == asker) {
                    self.registered(key, ask, named, same_request, word);
                }
            }
            KeyTalk::Declined { asker, ask, declined } => {
                let start = self.keys.starts.get(&ask);
                if start.is_some_and(|start| start.request.run == asker)
                    && let Some(start) = self.end_start(ask)
                {
                    self.reply(start.reply, Answer::Start(Err(declined)));
                }
            }
            KeyTalk::Asked { key, run, word } => {
                if self.may_be_over(&key, run) {
                    let query = KeyQuery::Run { key: key.clone(), run };
                    self.read_keys(Read::Asked { key, run, word }, query);
                }
            }
            KeyTalk::Over { key, run, word } => self.key_is_over(key, run, word),
        }
    }

    /// What the key of a start names, durably.
    fn registered(&mut self, key: Bytes, ask: u64, named: RunId, same_request: bool, word: u64) {
        let own = self.keys.starts.get(&ask).map(|start| start.request.run);
        if !same_request {
            if let Some(start) = self.end_start(ask) {
                self.reply(start.reply, StartReply::KeyReused { run: named });
            }
        } else if own == Some(named) || self.is_made(named) || self.keys.ask_of(named).is_some() {
            self.make_named(ask, named);
        } else {
            self.read_keys(Read::Start { ask, named, word }, KeyQuery::Run { key, run: named });
        }
    }

    /// The run that the key of this start names was never made before, or is here.
    fn make_named(&mut self, ask: u64, named: RunId) {
        let Some(start) = self.end_start(ask) else { return };
        // Whoever has drawn its id makes it, where that caller still waits.
        if start.request.run != named
            && let Some(first) = self.keys.ask_of(named).and_then(|ask| self.end_start(ask))
        {
            self.make(first, named);
        }
        self.make(start, named);
    }

    /// Whether the run is unfinished, in memory or at rest.
    fn is_made(&self, run: RunId) -> bool {
        self.runs.contains(run) || self.resting.contains(run)
    }

    /// Makes the run of a start whose key is registered, under the id that the key names.
    fn make(&mut self, start: Start, named: RunId) {
        let Start { reply, mut request, absent, .. } = start;
        if self.runs.contains(named) {
            // It may not be durable yet.
            let existing = Deferred::Reply(reply, StartReply::Existing { run: named }.into());
            return self.outbox.batch(named).deferred.push(existing);
        }
        if self.resting.contains(named) {
            return self.reply(reply, StartReply::Existing { run: named });
        }
        let caller = match request.run == named {
            true => Caller::Starts(reply),
            false => Caller::Repeats(reply),
        };
        request.start.work.rename_run(&request.run.to_string(), &named.to_string());
        request.run = named;
        let started = self.may_start(caller, &request).and_then(|()| self.begin(caller, *request, &absent));
        if let Err(answer) = started {
            self.reply(reply, answer);
        }
    }

    fn read_keys(&mut self, read: Read, query: KeyQuery) {
        let number = self.key_number();
        self.keys.reads.insert(number, read);
        self.out(Output::FindKeys { number, query });
    }

    /// The shell has read what was wanted of the keys.
    pub(crate) fn keys_found(&mut self, number: u64, fact: KeyFact) {
        let Some(read) = self.keys.reads.remove(&number).filter(|_| self.mode == Mode::Running) else {
            return;
        };
        match (read, fact) {
            (Read::Start { ask, named, .. }, KeyFact::Made) => {
                if let Some(start) = self.end_start(ask) {
                    self.reply(start.reply, StartReply::Existing { run: named });
                }
            }
            (Read::Start { ask, named, .. }, KeyFact::NeverMade) => self.make_named(ask, named),
            (Read::Start { ask, named, word }, KeyFact::Forgotten) => {
                let key = self.keys.starts.get(&ask).and_then(Start::key).map(|key| key.key.clone());
                if let Some(key) = key {
                    self.out(Output::Key(KeyTalk::Over { key, run: named, word }));
                    self.ask_for_key(ask);
                }
            }
            (Read::Asked { key, run, word }, KeyFact::NeverMade | KeyFact::Forgotten) => {
                if self.may_be_over(&key, run) {
                    self.out(Output::Key(KeyTalk::Over { key, run, word }));
                }
            }
            (Read::List { before }, KeyFact::Listed(keys)) => self.ask_about(keys, before),
            // Whoever waits asks again, and so does the next sweep.
            (Read::Start { .. } | Read::Asked { .. } | Read::List { .. }, _) => {}
        }
    }

    /// Whether nothing in memory speaks for the run, or may come to.
    fn may_be_over(&self, key: &[u8], run: RunId) -> bool {
        !self.is_made(run) && !self.keys.is_awaited(key)
    }
}
