//! Keys of starts whose runs live in another shard than their keys: a key names one run, whoever dies between its
//! registration and its run.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_crew::Now;
use capataz_crew::protocol::home;
use capataz_engine::{Input as Command, Work};
use capataz_shard::driver::{Carried, Wire};
use capataz_shard::journal::{self, Errand, Queue, Scribe, Told, Work as Writing, errands};
use capataz_shard::shard::Config;
use capataz_shard::{
    Ages, Answer, Declined, Driver, Input, KeyTalk, Output, ReplyId, Request, StartReply, StartRequest,
    key_stream, run_id, session_stream,
};
use capataz_store::builders::keep;
use capataz_store::{
    BlobHash, IdempotencyKey, Mark, MemoryStore, Millis, Retention, RunId, RunQuery, ShardId, Store,
};
use uuid::Uuid;

use crate::support::{chances, start};

/// The time at which each world begins. Milliseconds.
const BEGINNING: i64 = 1_000_000;

/// What shards say to each other, of which some is held back.
#[derive(Default)]
struct Net {
    held: Vec<Carried>,
    holds: Option<fn(&KeyTalk) -> bool>,
}

impl Wire for Net {
    fn carry(&mut self, carried: Carried) -> Option<Carried> {
        match &carried {
            Carried::Key(talk) if self.holds.is_some_and(|holds| holds(talk)) => {
                self.held.push(carried);
                None
            }
            _ => Some(carried),
        }
    }
}

/// What a client asks for: always in the same words under the same name.
#[derive(Clone, Copy)]
struct Wish<'a> {
    session: Option<&'a str>,
    key: &'a str,
    text: &'a str,
}

/// A daemon that may die, and a disk that stays.
struct World {
    shards: Vec<ShardId>,
    config: Config,
    store: MemoryStore,
    core: Driver,
    scribe: Scribe,
    queue: Queue,
    net: Net,
    answers: BTreeMap<u64, Answer>,
    now: i64,
    marks: u32,
    numbers: u64,
}

impl World {
    fn new(shards: u32) -> Self {
        Self::with(shards, Config::default())
    }

    fn with(shards: u32, config: Config) -> Self {
        let shards: Vec<ShardId> = (0..shards).map(ShardId).collect();
        let store = MemoryStore::new();
        let mut world = Self {
            core: Driver::new(&config, shards.clone()),
            scribe: scribe(&store, 0),
            shards,
            config,
            store,
            queue: Queue::default(),
            net: Net::default(),
            answers: BTreeMap::new(),
            now: BEGINNING,
            marks: 0,
            numbers: 0,
        };
        world.die();
        world
    }

    /// The daemon dies with all that was on its way, and another one begins on what the disk holds.
    fn die(&mut self) {
        self.marks += 1_000;
        self.scribe = scribe(&self.store, self.marks);
        self.queue = Queue::default();
        self.net = Net::default();
        self.answers.clear();
        self.core = Driver::new(&self.config, self.shards.clone());
        for shard in self.shards.clone() {
            self.claim(shard);
        }
        self.write();
    }

    fn claim(&mut self, shard: ShardId) {
        self.queue.push(Writing::Claim { shard, touched: None });
    }

    /// One turn. What is to be written waits.
    fn input(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle_over(Now::alike(self.now), input, &mut self.net, &mut outputs);
        let mut read = Vec::new();
        for errand in errands(outputs.into_iter()) {
            match errand {
                Errand::Write(work) => {
                    self.queue.push(work);
                }
                Errand::Leave(Output::Reply { reply, answer }) => {
                    assert!(self.answers.insert(reply.0, answer).is_none(), "{reply:?} is answered twice");
                }
                Errand::Leave(Output::LoadSession { stream, load }) => {
                    let state = journal::take_up_session(&self.store, stream).unwrap();
                    read.push(Input::SessionLoaded { stream, load, state: Ok(state.map(Box::new)) });
                }
                Errand::Leave(Output::FindKeys { shard, number, query }) => {
                    let fact = journal::find_keys(&self.store, shard, &query);
                    read.push(Input::KeysFound { shard, number, fact });
                }
                Errand::Leave(_) => {}
            }
        }
        for read in read {
            self.input(read);
        }
    }

    /// The writer does the first thing that waits. Whether there was one.
    fn write_once(&mut self) -> bool {
        let Some(job) = self.queue.next(1) else { return false };
        let mut told = Vec::new();
        self.scribe.carry_out(job, &mut told);
        for told in told {
            self.input(match told {
                Told::Committed { shard, outcomes } => Input::Committed { shard, outcomes },
                Told::Claimed { shard, recovered, .. } => Input::Recovered { shard, recovered },
                Told::Swept { shard, swept } => {
                    swept.unwrap();
                    Input::Swept { shard }
                }
                other => panic!("{other:?}"),
            });
        }
        true
    }

    fn write(&mut self) {
        while self.write_once() {}
    }

    /// What was held back arrives.
    fn let_go(&mut self) {
        self.net.holds = None;
        for carried in std::mem::take(&mut self.net.held) {
            self.input(Input::Carried(Box::new(carried)));
        }
    }

    /// Asks, and does not wait for the writer. The number of the reply.
    fn ask(&mut self, wish: Wish<'_>, wait: bool) -> (u64, RunId) {
        self.numbers += 1;
        let drawn =
            Uuid::from_u128(u128::from(self.now.unsigned_abs()) << 80 | u128::from(self.numbers) << 16);
        let run = run_id(RunId(drawn), wish.session, Some(wish.key.as_bytes()));
        let ask = v1::Ask {
            text: wish.text.to_owned(),
            session: wish.session.map(str::to_owned),
            request_id: Some(run.to_string()),
            ..v1::Ask::default()
        };
        let key = IdempotencyKey {
            key: wish.key.to_owned().into(),
            request: hash_of(&format!("{:?} {}", wish.session, wish.text)),
        };
        let request = StartRequest { key: Some(key), wait, ..start(run, Work::Ask(ask)) };
        let reply = self.numbers;
        self.input(Input::Request { reply: ReplyId(reply), request: Request::Start(Box::new(request)) });
        (reply, run)
    }

    /// Asks, and says how that was answered.
    fn start(&mut self, wish: Wish<'_>) -> Heard {
        let (reply, _) = self.ask(wish, false);
        self.write();
        self.heard(reply).unwrap()
    }

    /// What the caller has heard, if anything.
    fn heard(&self, reply: u64) -> Option<Heard> {
        Some(match self.answers.get(&reply)? {
            Answer::Start(Ok(StartReply::Started { run } | StartReply::Finished { run, .. })) => {
                Heard::Started(*run)
            }
            Answer::Start(Ok(StartReply::Existing { run })) => Heard::Existing(*run),
            Answer::Start(Ok(StartReply::KeyReused { run })) => Heard::Reused(*run),
            Answer::Start(Err(declined)) => Heard::Declined(declined.clone()),
            other => panic!("{other:?}"),
        })
    }

    fn finish(&mut self, run: RunId) {
        self.numbers += 1;
        let input = Command::Cancel { reason: String::new(), force: true, request_id: String::new() };
        let request = Request::Command { run, if_seq: None, input: Box::new(input) };
        self.input(Input::Request { reply: ReplyId(self.numbers), request });
        self.write();
        assert!(self.store.get_run(run).unwrap().unwrap().summary.finished_at.is_some());
    }

    fn sweep(&mut self, id: RunId, runs_before: i64, keys_before: i64) {
        let retention = Retention {
            finished_before: Some(Millis(runs_before)),
            keys_before: Millis(keys_before),
            ..keep()
        };
        let shard = self.home(id);
        self.input(Input::Sweep { shard, retention: Box::new(retention), ages: Ages::default() });
        self.write();
    }

    fn home(&self, id: RunId) -> ShardId {
        home(id, &self.shards).unwrap()
    }

    /// The run that the key names where it is at home.
    fn registered(&self, key: &str) -> Option<RunId> {
        let shard = self.home(key_stream(key.as_bytes()));
        self.store.key(shard, key.as_bytes()).unwrap().map(|row| row.run)
    }

    /// All runs that were ever made and not removed, but for sessions.
    fn runs(&self) -> Vec<RunId> {
        let except_kind = Some(v1::RunKind::Session as i32);
        let query = RunQuery { except_kind, limit: 100, ..RunQuery::default() };
        self.store.list_runs(&query).unwrap().into_iter().map(|row| row.run).collect()
    }
}

/// How a start was answered.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Started(RunId),
    Existing(RunId),
    Reused(RunId),
    Declined(Declined),
}

fn scribe(store: &MemoryStore, first: u32) -> Scribe {
    Scribe::new(Arc::new(store.clone()), chances(first + 1))
}

fn hash_of(text: &str) -> [u8; 32] {
    BlobHash::of(text.as_bytes()).0
}

/// Names of two sessions and a key that live in different shards, as far as there are so many.
fn names(world: &World) -> (String, String, String) {
    let numbered = |text: &'static str| (0..).map(move |number| format!("{text} {number}"));
    let key = "key 0".to_owned();
    let of_key = world.home(key_stream(key.as_bytes()));
    let of = |session: &String| world.home(session_stream(session));
    let first = numbered("session").find(|session| of(session) != of_key).unwrap();
    let many = world.shards.len() > 2;
    let differs = |session: &String| of(session) != of_key && of(session) != of(&first);
    let second =
        numbered("other").find(|session| differs(session) || !many && of(session) == of_key).unwrap();
    (first, second, key)
}

/// Does the same with two shards and with eight.
fn in_each_world(test: impl Fn(World)) {
    for shards in [2, 8] {
        test(World::new(shards));
    }
}

#[test]
fn a_key_names_one_run_whichever_session_asks() {
    in_each_world(|mut world| {
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let Heard::Started(run) = world.start(wish) else { panic!("it is not started") };
        assert_eq!(world.home(run), world.home(session_stream(&first)));
        assert_eq!(world.registered(&key), Some(run));
        for round in 0..2 {
            assert_eq!(world.start(wish), Heard::Existing(run), "round {round}");
            for session in [Some(&*second), Some(&*first), None] {
                let other = Wish { session, text: "something else", ..wish };
                assert_eq!(world.start(other), Heard::Reused(run), "round {round}, {session:?}");
            }
            world.die();
        }
        assert_eq!(world.runs(), [run]);
    });
}

#[test]
fn a_key_without_a_session_is_known_where_runs_of_sessions_register_theirs() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let Heard::Started(run) = world.start(Wish { session: None, key: &key, text: "a" }) else { panic!() };
        let other = Wish { session: Some(&first), key: &key, text: "a" };
        assert_eq!(world.start(other), Heard::Reused(run));
        assert_eq!(world.runs(), [run]);
    });
}

#[test]
fn a_death_at_any_step_leaves_one_run_for_the_key() {
    for shards in [2, 8] {
        for steps in 0..6 {
            for loses_the_answer in [false, true] {
                let mut world = World::new(shards);
                let (first, second, key) = names(&world);
                let wish = Wish { session: Some(&first), key: &key, text: "hello" };
                if loses_the_answer {
                    world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
                }
                let (_, drawn) = world.ask(wish, false);
                let wrote = (0..steps).filter(|_| world.write_once()).count();
                world.die();
                let context = format!("{shards} shards, {wrote} writes, lost {loses_the_answer}");
                let registered = world.registered(&key);
                assert_eq!(registered, (wrote > 0).then_some(drawn), "{context}");
                // Another request comes first, to another session.
                let other = Wish { session: Some(&second), text: "something else", ..wish };
                let of_other = world.start(other);
                let again = world.start(wish);
                match registered {
                    // The key is that run's, also where the run never was: the same request makes it.
                    Some(run) => {
                        assert_eq!(
                            (of_other, again),
                            (Heard::Reused(run), Heard::Existing(run)),
                            "{context}"
                        );
                        assert_eq!(world.runs(), [run], "{context}");
                    }
                    None => {
                        let Heard::Started(run) = of_other else { panic!("{context}") };
                        assert_eq!((again, world.runs()), (Heard::Reused(run), vec![run]), "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_run_that_is_made_later_under_its_registered_id_calls_itself_by_that_id() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
        let (_, drawn) = world.ask(wish, false);
        world.write();
        world.die();
        // A caller that waits for the end hears that the run exists, and waits for that one.
        let (reply, other) = world.ask(wish, true);
        world.write();
        assert_ne!(other, drawn);
        assert_eq!(world.heard(reply), Some(Heard::Existing(drawn)));
        let state = journal::load(&world.store, drawn).unwrap();
        let Some((ask, _)) = state.ask_query().or_else(|| world.core.asks_for(drawn)) else { panic!() };
        assert_eq!(ask.request_id, Some(drawn.to_string()));
    });
}

#[test]
fn of_two_sessions_that_want_a_key_at_once_one_has_it() {
    in_each_world(|mut world| {
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let (one, _) = world.ask(wish, false);
        let (two, _) = world.ask(Wish { session: Some(&second), ..wish }, false);
        world.write();
        let told = (world.heard(one).unwrap(), world.heard(two).unwrap());
        let [run] = *world.runs() else { panic!("{:?}", world.runs()) };
        let expected = [(Heard::Started(run), Heard::Reused(run)), (Heard::Reused(run), Heard::Started(run))];
        assert!(expected.contains(&told), "{told:?}");
    });
}

#[test]
fn callers_with_the_same_request_at_once_come_to_one_run() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        // The answer to the first one comes last.
        world.net.holds =
            Some(|talk| matches!(talk, KeyTalk::Registered { named, asker, .. } if named == asker));
        let (one, run) = world.ask(wish, false);
        let (two, _) = world.ask(wish, false);
        world.write();
        assert_eq!(
            (world.heard(one), world.heard(two)),
            (Some(Heard::Started(run)), Some(Heard::Existing(run)))
        );
        world.let_go();
        world.write();
        assert_eq!(world.runs(), [run]);
    });
}

#[test]
fn a_start_that_is_refused_leaves_its_key_free() {
    let full = Config { max_unfinished_runs: 0, ..Config::default() };
    for shards in [2, 8] {
        let mut world = World::with(shards, full.clone());
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        assert!(matches!(world.start(wish), Heard::Declined(Declined::Overloaded { .. })));
        assert_eq!(world.registered(&key), None);
        world.config = Config::default();
        world.die();
        world.input(Input::Drain);
        assert_eq!(world.start(wish), Heard::Declined(Declined::Draining));
        assert_eq!(world.registered(&key), None);
        world.die();
        assert!(matches!(world.start(Wish { session: Some(&second), ..wish }), Heard::Started(_)));
    }
}

#[test]
fn a_start_that_is_refused_after_its_registration_is_made_when_it_is_repeated() {
    in_each_world(|mut world| {
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
        let (reply, run) = world.ask(wish, false);
        world.write();
        world.input(Input::Drain);
        world.let_go();
        world.write();
        assert_eq!(world.heard(reply), Some(Heard::Declined(Declined::Draining)));
        world.die();
        let other = Wish { session: Some(&second), text: "something else", ..wish };
        assert_eq!(world.start(other), Heard::Reused(run));
        assert_eq!(world.start(wish), Heard::Existing(run));
        assert_eq!(world.runs(), [run]);
    });
}

#[test]
fn a_start_whose_keys_shard_is_being_read_hears_so_at_once() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        world.input(Input::CommitFailed { shard: world.home(key_stream(key.as_bytes())) });
        let (reply, _) = world.ask(wish, false);
        assert_eq!(world.heard(reply), Some(Heard::Declined(Declined::Unavailable)));
        world.write();
        assert_eq!((world.registered(&key), world.runs()), (None, vec![]));
        assert!(matches!(world.start(wish), Heard::Started(_)));
    });
}

#[test]
fn a_key_is_asked_for_again_until_nobody_waits() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let again = |world: &mut World| {
            world.now = world.core.next_wake().unwrap().0;
            world.input(Input::Wake);
            world.write();
        };
        // The word is lost twice, and then its answer.
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Register { .. }));
        let (reply, run) = world.ask(wish, false);
        again(&mut world);
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
        again(&mut world);
        assert_eq!(world.heard(reply), None);
        world.net = Net::default();
        while world.heard(reply).is_none() {
            again(&mut world);
        }
        assert_eq!(world.heard(reply), Some(Heard::Started(run)));

        // Of one whose caller is gone nothing is made, whatever arrives.
        let wish = Wish { text: "later", key: &format!("{key} 0"), ..wish };
        world.net.holds = Some(|_| true);
        let (reply, gone) = world.ask(wish, false);
        world.input(Input::Forget { reply: ReplyId(reply), run: gone });
        world.let_go();
        world.write();
        assert_eq!((world.heard(reply), world.runs()), (None, vec![run]));

        // One that nobody answers hears that in the end.
        world.net.holds = Some(|_| true);
        let (reply, _) = world.ask(Wish { text: "never", key: &format!("{key} 1"), ..wish }, false);
        let asked_at = world.now;
        while world.heard(reply).is_none() && world.now < asked_at + 60_000 {
            again(&mut world);
        }
        assert_eq!(world.heard(reply), Some(Heard::Declined(Declined::Unavailable)));
    });
}

#[test]
fn a_run_that_retention_has_removed_is_never_made_again() {
    in_each_world(|mut world| {
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let Heard::Started(run) = world.start(wish) else { panic!() };
        world.finish(run);
        let later = world.now + 1;
        world.sweep(run, later, i64::MIN);
        assert_eq!((world.runs(), world.start(wish)), (vec![], Heard::Existing(run)));
        // Its key goes, first where the run was. What the key's shard still says of it is not believed.
        world.now += 1_000;
        world.sweep(run, later, later);
        assert_eq!(world.registered(&key), Some(run));
        let told = world.start(wish);
        let Heard::Started(next) = told else { panic!("{told:?}") };
        assert_ne!(next, run);
        assert_eq!((world.registered(&key), world.runs()), (Some(next), vec![next]));
        let other = Wish { session: Some(&second), text: "something else", ..wish };
        assert_eq!(world.start(other), Heard::Reused(next));
    });
}

#[test]
fn a_registered_key_is_let_go_when_its_run_no_longer_needs_it() {
    in_each_world(|mut world| {
        let (first, second, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let Heard::Started(run) = world.start(wish) else { panic!() };
        let of_key = key_stream(key.as_bytes());
        let much_later = world.now + 1_000_000;
        world.sweep(of_key, i64::MIN, much_later);
        assert_eq!(world.registered(&key), Some(run), "the run is at work");
        world.finish(run);
        world.sweep(of_key, i64::MIN, much_later);
        assert_eq!(world.registered(&key), Some(run), "the run's shard keeps its own row");
        world.sweep(run, i64::MIN, much_later);
        world.sweep(of_key, i64::MIN, BEGINNING);
        assert_eq!(world.registered(&key), Some(run), "nobody asks about what is not old");
        world.sweep(of_key, i64::MIN, much_later);
        assert_eq!(world.registered(&key), None);
        let other = Wish { session: Some(&second), text: "something else", ..wish };
        assert!(matches!(world.start(other), Heard::Started(_)));
    });
}

#[test]
fn a_key_whose_run_never_was_is_let_go_when_it_is_old() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
        let (_, run) = world.ask(wish, false);
        world.write();
        world.net.holds = None;
        let of_key = key_stream(key.as_bytes());
        let later = world.now + 1;
        // The caller still waits, and asks again.
        world.sweep(of_key, i64::MIN, later);
        assert_eq!(world.registered(&key), Some(run));
        world.die();
        world.sweep(of_key, i64::MIN, later);
        assert_eq!(world.registered(&key), None);
    });
}

/// The run's shard says that a run never was, and somebody makes it before that arrives.
#[test]
fn a_key_is_not_let_go_on_a_word_that_is_outdated() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Registered { .. }));
        let (_, run) = world.ask(wish, false);
        world.write();
        world.die();
        world.net.holds = Some(|talk| matches!(talk, KeyTalk::Over { .. }));
        let later = world.now + 1;
        world.sweep(key_stream(key.as_bytes()), i64::MIN, later);
        assert_eq!(world.net.held.len(), 1, "{:?}", world.net.held);
        // It is on its way when the key is asked for, and arrives before or after the answer is durable.
        let (reply, _) = world.ask(wish, false);
        world.let_go();
        world.write();
        assert_eq!(world.heard(reply), Some(Heard::Existing(run)));
        assert_eq!((world.registered(&key), world.runs()), (Some(run), vec![run]));
    });
}

#[test]
fn a_daemon_that_has_lost_the_runs_shard_makes_nothing_under_a_key_that_it_registered() {
    in_each_world(|mut world| {
        let (first, _, key) = names(&world);
        let wish = Wish { session: Some(&first), key: &key, text: "hello" };
        let (reply, run) = world.ask(wish, false);
        assert!(world.write_once(), "the key is registered");
        // Another daemon takes the run's shard over before the run is durable.
        world.store.claim(world.home(run), Mark(u32::MAX)).unwrap();
        world.write();
        assert_eq!(world.heard(reply), Some(Heard::Declined(Declined::Unavailable)));
        assert_eq!((world.registered(&key), world.runs()), (Some(run), vec![]));
        world.die();
        assert_eq!(world.start(wish), Heard::Existing(run));
        assert_eq!(world.runs(), [run]);
    });
}

#[test]
fn a_daemon_of_one_shard_registers_nothing() {
    let mut world = World::new(1);
    let wish = Wish { session: Some("session"), key: "key", text: "hello" };
    let (reply, run) = world.ask(wish, false);
    assert!(world.write_once());
    assert_eq!(world.heard(reply), Some(Heard::Started(run)), "one commit is enough");
    let other = Wish { session: Some("another one"), text: "something else", ..wish };
    assert_eq!(world.start(other), Heard::Reused(run));
}
