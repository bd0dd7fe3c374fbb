//! Random operations on an adapter and on [`MemoryStore`] side by side, which must give the same results.

use std::collections::BTreeSet;

use super::*;
use crate::port::{
    AgentRow, Append, BlobHash, Derived, IdempotencyKey, KeyChange, MEMORY_MODES, MEMORY_TYPES, Mark,
    MemoryChange, MemoryEntry, MemoryOrder, MemoryRow, MemorySearch, Mended, Millis, NamePattern, Place,
    Position, QuarantineReason, Recall, Rest, Retention, RunQuery, ShardWriter, Snapshot, Summary, entry_id,
};

const SEEDS: u64 = 12;
const STEPS: usize = 150;
/// Small numbers, so that operations collide.
const RUNS: u64 = 12;
const KEYS: u64 = 6;
const BLOBS: u64 = 5;
const TIMES: u64 = 40;

pub fn agrees_with_the_model<S: Subject>() {
    for seed in 0..SEEDS {
        let mut pair = Pair::<S>::fresh(seed);
        for step in 0..STEPS {
            let what = pair.step();
            pair.compare(&format!("seed {seed}, step {step}: {what}"));
        }
    }
}

/// A random generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn time(&mut self) -> Millis {
        Millis(self.below(TIMES) as i64)
    }

    fn labels(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut labels = Vec::new();
        if self.one_in(2) {
            labels.push(("team", if self.one_in(2) { "a" } else { "b" }));
        }
        if self.one_in(3) {
            labels.push(("tier", if self.one_in(2) { "a" } else { "x" }));
        }
        labels
    }

    fn summary(&mut self) -> Summary {
        Summary {
            status: self.below(3) as i32,
            outcome: self.below(2) as i32,
            updated_at: self.time(),
            finished_at: self.one_in(3).then(|| self.time()),
            tasks_total: self.below(9) as u32,
            tasks_settled: self.below(9) as u32,
        }
    }

    /// Rows of the append's events, rarely of another one.
    fn derived(&mut self, append: &Append) -> Vec<Derived> {
        let mut rows = Vec::new();
        for seq in append.first_seq..=append.last_seq() + u64::from(self.one_in(20)) {
            for n in 0..self.below(3) as u32 {
                let key = format!("k{}", self.below(4));
                rows.push(Derived { kind: self.below(2) as u16, ..derived(seq, n, &key) });
            }
        }
        rows
    }

    /// Changes of memory by the append's events, rarely by another one. Entries and votes meet.
    fn memory(&mut self, append: &Append) -> Vec<MemoryRow> {
        let mut rows = Vec::new();
        for seq in append.first_seq..=append.last_seq() + u64::from(self.one_in(20)) {
            for n in 0..self.below(3) as u32 {
                let entry = entry_id(run_id(self.below(RUNS)), Place { seq: self.below(6), n: 0 });
                let change = match self.below(8) {
                    0..4 => {
                        let mode = MEMORY_MODES[self.below(2) as usize].to_owned();
                        let entry = self.entry(mode);
                        MemoryChange::Entry(Box::new(entry))
                    }
                    4..6 => MemoryChange::Vote { entry, quarters: self.below(30) as i8 - 15 },
                    6 => MemoryChange::Forgotten { entry },
                    _ => MemoryChange::Back { to_seq: self.below(6) },
                };
                rows.push(memory_row(seq, n, change));
            }
        }
        rows
    }

    fn entry(&mut self, mode: String) -> MemoryEntry {
        MemoryEntry {
            session: if self.one_in(3) { "t" } else { "s" }.to_owned(),
            mode,
            kind: MEMORY_TYPES[self.below(3) as usize].to_owned(),
            at: self.time(),
            content: format!("Content {}", self.below(4)),
            digest: String::new(),
            tools: Vec::new(),
            files: Vec::new(),
            related_to: Vec::new(),
        }
    }

    fn retention(&mut self) -> Retention {
        Retention {
            keep: if self.one_in(3) { BTreeSet::from([run_id(self.below(RUNS))]) } else { BTreeSet::new() },
            held_by: None,
            finished_before: self.one_in(2).then(|| self.time()),
            max_log_bytes: self.one_in(2).then(|| self.below(2_000)),
            after: self.one_in(4).then(|| (self.time(), run_id(self.below(RUNS)))),
            looked_at: if self.one_in(2) { self.below(4) as u32 } else { u32::MAX },
            keys_before: if self.one_in(2) { self.time() } else { Millis(i64::MIN) },
            blobs_before: if self.one_in(2) { self.time() } else { Millis(i64::MIN) },
            batch: self.below(4) as u32,
            batch_bytes: [0, 1_000, u64::MAX][self.below(3) as usize],
        }
    }

    fn query(&mut self) -> RunQuery {
        let labels = if self.one_in(2) { self.labels() } else { Vec::new() };
        RunQuery {
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            status: self.one_in(4).then(|| self.below(3) as i32),
            outcome: self.one_in(4).then(|| self.below(2) as i32),
            kind: self.one_in(4).then(|| self.below(2) as i32),
            except_kind: self.one_in(4).then(|| self.below(2) as i32),
            unfinished: self.one_in(4),
            name: self.one_in(4).then(|| NamePattern::new(&self.below(10).to_string())),
            since: self.one_in(4).then(|| self.time()),
            until: self.one_in(4).then(|| self.time()),
            before: self.one_in(3).then(|| run_id(self.below(RUNS))),
            from: self.one_in(4).then(|| run_id(self.below(RUNS))),
            limit: self.below(8) as u32,
        }
    }
}

fn blob_content(number: u64) -> Vec<u8> {
    vec![number as u8; 10 + number as usize]
}

struct Pair<S: Subject> {
    random: Random,
    model: MemoryStore,
    model_writer: Box<dyn ShardWriter>,
    subject: Option<S>,
    store: Option<S::Adapter>,
    writer: Option<Box<dyn ShardWriter>>,
    /// The number of claims, which is the mark of the newest one.
    claims: u32,
}

impl<S: Subject> Pair<S> {
    fn fresh(seed: u64) -> Self {
        let model = MemoryStore::new();
        let (subject, store, writer) = claimed::<S>();
        Self {
            random: Random(seed),
            model_writer: model.claim(SHARD, Mark(1)).unwrap(),
            claims: 1,
            model,
            subject: Some(subject),
            store: Some(store),
            writer: Some(writer),
        }
    }

    fn next_mark(&mut self) -> Mark {
        self.claims += 1;
        Mark(self.claims)
    }

    /// An append that is mostly valid.
    fn append(&mut self) -> Append {
        if self.random.one_in(12) {
            return self.change_of_key();
        }
        let number = self.random.below(RUNS);
        let known = self.model.get_run(run_id(number)).unwrap();
        let length = self.random.below(60) as usize;
        let mut append = match known {
            Some(row) if !self.random.one_in(8) => {
                let wrong = u64::from(self.random.one_in(10));
                let rest = self.random.one_in(3).then(|| {
                    let due_at = self.random.one_in(2).then(|| Millis(self.random.below(900) as i64));
                    Rest { due_at, due_in: self.random.below(900) as i64 }
                });
                Append { rest, ..more(number, row.last_seq + 1 + wrong, 1 + self.random.below(3) as u32) }
            }
            _ if self.random.one_in(12) => more(number, 1 + self.random.below(3), 1),
            _ if self.random.one_in(4) => {
                let (of, seq) = (self.random.below(RUNS), self.random.below(8));
                match self.random.one_in(3) {
                    true => fork(number, of, seq).key(&format!("k{}", self.random.below(KEYS)), 1),
                    false => fork(number, of, seq),
                }
            }
            _ => {
                let mut append = creation(number);
                if let Some(create) = &mut append.create {
                    create.kind = self.random.below(2) as i32;
                }
                if self.random.one_in(2) {
                    append = append.key(&format!("k{}", self.random.below(KEYS)), self.random.below(2) as u8);
                }
                self.random.labels().into_iter().fold(append, |append, (key, value)| append.label(key, value))
            }
        };
        append = append.events(vec![number as u8; length]);
        if self.random.one_in(2) {
            append = append.summary(self.random.summary());
        }
        append.derived = self.random.derived(&append);
        append.memory = self.random.memory(&append);
        if self.random.one_in(4) {
            append = append.names(BlobHash::of(&blob_content(self.random.below(BLOBS))));
        }
        append
    }

    /// A change of a key, mostly for a run that this shard does not have.
    fn change_of_key(&mut self) -> Append {
        let run =
            run_id(if self.random.one_in(6) { self.random.below(RUNS) } else { RUNS + self.random.below(3) });
        let key = format!("k{}", self.random.below(KEYS));
        let change = match self.random.one_in(3) {
            true => KeyChange::Release(key.into()),
            false => {
                let request = [self.random.below(2) as u8; 32];
                KeyChange::Register(IdempotencyKey { key: key.into(), request })
            }
        };
        Append::of_key(run, change)
    }

    /// Performs one operation on both stores, and returns its description.
    fn step(&mut self) -> String {
        let choice = self.random.below(111);
        let writer = self.writer.as_mut().unwrap();
        match choice {
            0..60 => {
                let mut appends: Vec<Append> = (0..=self.random.below(3)).map(|_| self.append()).collect();
                for place in 1..appends.len() {
                    let next = &appends[place];
                    let keyed =
                        next.key.is_some() || next.create.as_ref().is_some_and(|create| create.key.is_some());
                    let joins = self.random.one_in(3) && !keyed;
                    let fresh = appends[..place].iter().all(|earlier| earlier.run != next.run);
                    appends[place - 1].joined = joins && fresh;
                }
                let expected = self.model_writer.commit(&appends).unwrap();
                assert_eq!(self.writer.as_mut().unwrap().commit(&appends).unwrap(), expected, "{appends:#?}");
                format!("{expected:?} for {appends:#?}")
            }
            60..68 => {
                let run = run_id(self.random.below(RUNS));
                let format = self.random.below(3) as u32;
                let snapshot = Snapshot { seq: self.random.below(9), format, state: vec![7; 9].into() };
                self.model_writer.put_snapshot(run, &snapshot).unwrap();
                writer.put_snapshot(run, &snapshot).unwrap();
                format!("snapshot of {run}")
            }
            68..72 => {
                let name = format!("agent {}", self.random.below(3));
                let agent = AgentRow { name, agent: vec![1; 3].into(), last_seen: self.random.time() };
                self.model_writer.put_agents(std::slice::from_ref(&agent)).unwrap();
                writer.put_agents(std::slice::from_ref(&agent)).unwrap();
                format!("{agent:?}")
            }
            72..74 => {
                let names = [(); 2].map(|()| format!("agent {}", self.random.below(3)));
                assert_eq!(
                    writer.forget_agents(&names).unwrap(),
                    self.model_writer.forget_agents(&names).unwrap()
                );
                format!("forget {names:?}")
            }
            74..82 => {
                let content = blob_content(self.random.below(BLOBS));
                let now = self.random.time();
                self.model.put_blob(&content, now).unwrap();
                self.store.as_ref().unwrap().put_blob(&content, now).unwrap();
                format!("put {} at {now:?}", BlobHash::of(&content))
            }
            82..94 => {
                let retention = self.random.retention();
                let expected = self.model_writer.sweep(&retention).unwrap();
                assert_eq!(writer.sweep(&retention).unwrap(), expected, "{retention:?}");
                format!("{expected:?} by {retention:?}")
            }
            94..97 => {
                let mark = self.next_mark();
                let mut old_model =
                    std::mem::replace(&mut self.model_writer, self.model.claim(SHARD, mark).unwrap());
                let new = self.store.as_ref().unwrap().claim(SHARD, mark).unwrap();
                let mut old = self.writer.replace(new).unwrap();
                let append = [self.append()];
                assert_eq!(old.commit(&append).unwrap(), old_model.commit(&append).unwrap());
                "claim".to_owned()
            }
            100..102 => {
                let position = Position(self.random.below(self.model.bounds(SHARD).unwrap().newest.0 + 2));
                self.model.damage(SHARD, position);
                self.subject.as_ref().unwrap().damage(position);
                format!("damage {position:?}")
            }
            102 => {
                let run = run_id(self.random.below(RUNS));
                self.model.damage_snapshot(run);
                self.subject.as_ref().unwrap().damage_snapshot(run);
                format!("damage the snapshot of {run}")
            }
            103..106 => {
                let run = run_id(self.random.below(RUNS));
                let reasons =
                    [QuarantineReason::Damaged, QuarantineReason::Panicked, QuarantineReason::Conflicted];
                let mut reason = quarantine(reasons[self.random.below(3) as usize], self.random.below(9), 7);
                reason.position = self.random.one_in(2).then(|| Position(self.random.below(99)));
                self.model_writer.quarantine(run, &reason).unwrap();
                writer.quarantine(run, &reason).unwrap();
                format!("quarantine of {run}: {reason:?}")
            }
            106..108 => {
                let run = run_id(self.random.below(RUNS));
                assert_eq!(writer.release(run).unwrap(), self.model_writer.release(run).unwrap());
                format!("release of {run}")
            }
            108..110 => {
                let run = run_id(self.random.below(RUNS));
                let last_seq = self.model.get_run(run).unwrap().map_or(3, |row| row.last_seq);
                let all = Append { first_seq: 1, count: last_seq as u32, ..more(0, 1, 1) };
                let mended = Mended {
                    run,
                    last_seq,
                    summary: self.random.summary(),
                    rest: self.random.one_in(2).then_some(Rest::ON_INPUT),
                    derived: self
                        .random
                        .derived(&all)
                        .into_iter()
                        .filter(|row| row.place.seq <= last_seq)
                        .collect(),
                    memory: self
                        .random
                        .memory(&all)
                        .into_iter()
                        .filter(|row| row.place.seq <= last_seq)
                        .collect(),
                };
                self.model_writer.mend(std::slice::from_ref(&mended)).unwrap();
                writer.mend(std::slice::from_ref(&mended)).unwrap();
                format!("{mended:?}")
            }
            110 => {
                let row = derived(1 + self.random.below(3), 9, "k1");
                let run = run_id(RUNS + self.random.below(3));
                if self.model.derived_of(run, None, ALL).unwrap().is_empty() {
                    self.model.disturb_derived(run, row.place, Some(row.clone()));
                    self.subject.as_ref().unwrap().leave_derived(run, &row);
                }
                format!("a stray row of {run}")
            }
            _ => {
                self.writer = None;
                self.store = None;
                let subject = self.subject.take().unwrap().reopened();
                let store = subject.store();
                let mark = self.next_mark();
                self.writer = Some(store.claim(SHARD, mark).unwrap());
                self.store = Some(store);
                self.subject = Some(subject);
                self.model = self.model.checkpoint();
                self.model_writer = self.model.claim(SHARD, mark).unwrap();
                "reopen".to_owned()
            }
        }
    }

    fn compare_memory(random: &mut Random, model: &MemoryStore, store: &S::Adapter, context: &str) {
        let limit = random.below(6) as usize;
        let wanted = Recall {
            session: if random.one_in(3) { "t" } else { "s" },
            mode: MEMORY_MODES[random.below(2) as usize],
            kinds: &MEMORY_TYPES[random.below(3) as usize..],
            since: random.time(),
            order: [MemoryOrder::NewestFirst, MemoryOrder::MostRelevantFirst][random.below(2) as usize],
            limit,
        };
        let expected = model.recall(&wanted).unwrap();
        assert_eq!(store.recall(&wanted).unwrap(), expected, "{context}, {wanted:?}");
        let place = Place { seq: random.below(6), n: random.below(3) as u32 };
        let (run, id) = (run_id(random.below(RUNS)), entry_id(run_id(random.below(RUNS)), place));
        let search = MemorySearch {
            session: wanted.session.to_owned(),
            mode: random.one_in(2).then(|| wanted.mode.to_owned()),
            kind: random.one_in(3).then(|| MEMORY_TYPES[0].to_owned()),
            text: random.one_in(3).then(|| "CONTENT 1".to_owned()),
            after: random.one_in(2).then(|| (random.time(), id.clone())),
            limit,
            looked_at: random.below(8) as usize,
        };
        let expected = model.memories(&search).unwrap();
        assert_eq!(store.memories(&search).unwrap(), expected, "{context}, {search:?}");
        assert_eq!(store.memory_entry(&id).unwrap(), model.memory_entry(&id).unwrap(), "{context}");
        assert_eq!(store.is_forgotten(&id).unwrap(), model.is_forgotten(&id).unwrap(), "{context}");
        assert_eq!(store.memory_of(run).unwrap(), model.memory_of(run).unwrap(), "{context}");
    }

    fn compare(&mut self, context: &str) {
        let Self { random, model, store, .. } = self;
        let store = store.as_ref().unwrap();
        assert_eq!(store.bounds(SHARD).unwrap(), model.bounds(SHARD).unwrap(), "{context}");
        let after = Position(random.below(model.bounds(SHARD).unwrap().newest.0 + 2));
        let (rows, bytes) = (random.below(40) as usize, random.below(900) as usize);
        let expected = model.read_log(SHARD, after, rows, bytes).unwrap();
        assert_eq!(store.read_log(SHARD, after, rows, bytes).unwrap(), expected, "{context}");
        let run = run_id(random.below(RUNS));
        let after = random.below(12);
        let expected = model.read_run(run, after, rows, bytes).unwrap();
        assert_eq!(store.read_run(run, after, rows, bytes).unwrap(), expected, "{context}");
        assert_eq!(store.get_run(run).unwrap(), model.get_run(run).unwrap(), "{context}");
        assert_eq!(store.snapshot(run).unwrap(), model.snapshot(run).unwrap(), "{context}");
        let query = random.query();
        let expected = model.list_runs(&query).unwrap();
        assert_eq!(store.list_runs(&query).unwrap(), expected, "{context}, {query:?}");
        let runs = random.below(6) as u32;
        let expected = model.listing_floor(&query, runs).unwrap();
        assert_eq!(store.listing_floor(&query, runs).unwrap(), expected, "{context}, {query:?}, {runs}");
        assert_eq!(store.history(SHARD).unwrap(), model.history(SHARD).unwrap(), "{context}");
        let after = random.one_in(2).then_some(run);
        let limit = random.below(6) as usize;
        let expected = model.quarantined(SHARD, after, limit).unwrap();
        assert_eq!(store.quarantined(SHARD, after, limit).unwrap(), expected, "{context}");
        let expected = model.unfinished(SHARD, after, limit).unwrap();
        assert_eq!(store.unfinished(SHARD, after, limit).unwrap(), expected, "{context}");
        let (kind, key) = (random.below(2) as u16, format!("k{}", random.below(4)));
        let place = Place { seq: random.below(5), n: random.below(3) as u32 };
        let after = random.one_in(2).then_some((run, place));
        let expected = model.derived(kind, key.as_bytes(), after, limit).unwrap();
        assert_eq!(store.derived(kind, key.as_bytes(), after, limit).unwrap(), expected, "{context}");
        let after = random.one_in(2).then_some(place);
        let expected = model.derived_of(run, after, limit).unwrap();
        assert_eq!(store.derived_of(run, after, limit).unwrap(), expected, "{context}");
        Self::compare_memory(random, model, store, context);
        let after = random.one_in(2).then_some(run);
        assert_eq!(store.strays(after, limit).unwrap(), model.strays(after, limit).unwrap(), "{context}");
        let key = format!("k{}", random.below(KEYS));
        let expected = model.key(SHARD, key.as_bytes()).unwrap();
        assert_eq!(store.key(SHARD, key.as_bytes()).unwrap(), expected, "{context}");
        let after = random.one_in(2).then_some(key.as_bytes());
        let expected = model.keys(SHARD, after, limit).unwrap();
        assert_eq!(store.keys(SHARD, after, limit).unwrap(), expected, "{context}");
        assert_eq!(store.keys_removed(SHARD).unwrap(), model.keys_removed(SHARD).unwrap(), "{context}");
        assert_eq!(store.agents().unwrap(), model.agents().unwrap(), "{context}");
        let blob = BlobHash::of(&blob_content(random.below(BLOBS)));
        let expected = model.read_blob(blob, 3, 9).unwrap();
        assert_eq!(store.read_blob(blob, 3, 9).unwrap(), expected, "{context}");
        assert_eq!(store.blob_size(blob).unwrap(), model.blob_size(blob).unwrap(), "{context}");
    }
}
