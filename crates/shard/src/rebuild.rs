//! Rows that follow from logs, held against the logs and made again: the columns of the run list, and derived rows.
//!
//! Every run and session of the list is folded from its first event on, never from a snapshot. What is stored and does not
//! follow is told, and written again where that is wanted, some runs in one transaction: whoever is stopped meanwhile
//! begins again, and finds less to do. A run whose log cannot be read, or that is quarantined, is left as it is. Nobody else
//! may work on the store.
//!
//! What a start fixes (a run's kind, name, labels and time of creation) follows from nothing, and is not looked at. When a
//! run that waits has to be looked at next depends on the time of its last append; of that, only what contradicts the log
//! is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use capataz_contracts::v1;
use capataz_store::{
    Derived, Mark, MemoryChange, MemoryOf, MemoryRow, Mended, Place, Rest, RunId, RunQuery, RunRow, ShardId,
    ShardWriter, Store, StoreError, Summary, entry_id, settled,
};

use crate::load::{Damage, LoadError, add_to_run, add_to_session, read_on};
use crate::projection;
use crate::recovery::may_rest;

/// Rows that are read at a time.
const PAGE: usize = 512;
/// Runs that are written again in one transaction.
const BATCH: usize = 128;

/// A row, or a column, that is not what follows from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub run: RunId,
    pub column: String,
    pub stored: String,
    pub derived: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, column, stored, derived } = self;
        write!(formatter, "run {run}: {column} is {stored}, and its log says {derived}")
    }
}

/// What was found up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Runs and sessions of the list, and runs that are not in it any more and have derived rows.
    pub runs: u64,
    /// Those with a difference.
    pub differing: u64,
    /// Those that were left as they are, because nothing is known of their logs.
    pub left: u64,
    /// Those that were written again, durably.
    pub mended: u64,
}

/// What is told on the way.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    Differs(&'a Difference),
    LeftAlone(&'a Damage),
    /// Some more runs were looked at, or written again.
    Progress(Totals),
}

/// Holds all rows against the logs, and changes nothing.
///
/// # Errors
/// The store cannot be read.
pub fn check(
    store: &dyn Store,
    shards: &[ShardId],
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Totals, StoreError> {
    Work { store, rests: rests(store, shards)?, writing: None, totals: Totals::default(), tell }.run()
}

/// Holds all rows of a shard against the logs, and writes again what does not follow. The shard is claimed, under a mark
/// that is drawn at random, if there is something to write.
///
/// # Errors
/// The store cannot be read or written. What was told as mended is.
pub fn rebuild(
    store: &dyn Store,
    shard: ShardId,
    draw: &mut dyn FnMut() -> Mark,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Totals, StoreError> {
    let writing = Writing { shard, draw, writer: None, batch: Vec::new() };
    let rests = rests(store, &[shard])?;
    Work { store, rests, writing: Some(writing), totals: Totals::default(), tell }.run()
}

/// The rests of unfinished runs, as they are stored.
fn rests(store: &dyn Store, shards: &[ShardId]) -> Result<BTreeMap<RunId, Rest>, StoreError> {
    let mut rests = BTreeMap::new();
    for shard in shards {
        let mut after = None;
        loop {
            let page = store.unfinished(*shard, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.run);
            rests.extend(page.into_iter().filter_map(|unfinished| Some((unfinished.run, unfinished.rest?))));
        }
    }
    Ok(rests)
}

/// What is to be written again, and who writes it.
struct Writing<'a> {
    shard: ShardId,
    draw: &'a mut dyn FnMut() -> Mark,
    writer: Option<Box<dyn ShardWriter>>,
    batch: Vec<Mended>,
}

impl Writing<'_> {
    /// Writes what waits; how many runs that were.
    fn write(&mut self, store: &dyn Store) -> Result<u64, StoreError> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(store.claim(self.shard, (self.draw)())?),
        };
        writer.mend(&self.batch)?;
        let written = self.batch.len() as u64;
        self.batch.clear();
        Ok(written)
    }
}

struct Work<'a, 'w> {
    store: &'a dyn Store,
    rests: BTreeMap<RunId, Rest>,
    writing: Option<Writing<'w>>,
    totals: Totals,
    tell: &'a mut dyn FnMut(Told<'_>),
}

impl Work<'_, '_> {
    fn run(mut self) -> Result<Totals, StoreError> {
        let mut before = None;
        loop {
            let limit = u32::try_from(PAGE).unwrap_or(u32::MAX);
            let page = self.store.list_runs(&RunQuery { before, limit, ..RunQuery::default() })?;
            let Some(last) = page.last() else { break };
            before = Some(last.run);
            for row in &page {
                self.look_at(row)?;
            }
            (self.tell)(Told::Progress(self.totals));
        }
        self.look_for_strays()?;
        self.write()?;
        (self.tell)(Told::Progress(self.totals));
        Ok(self.totals)
    }

    fn look_at(&mut self, row: &RunRow) -> Result<(), StoreError> {
        self.totals.runs += 1;
        let stored = self.rests.get(&row.run).copied();
        let mended = match follows(self.store, row, stored) {
            Ok(mended) => mended,
            Err(LoadError::Damaged(damage)) => {
                self.totals.left += 1;
                (self.tell)(Told::LeftAlone(&damage));
                return Ok(());
            }
            Err(LoadError::Store(error)) => return Err(error),
        };
        let mut differences = differences_of_row(row, stored, &mended);
        match all_derived(self.store, row.run) {
            Ok(stored) => differences.extend(differences_of_derived(row.run, &stored, &mended.derived)),
            // What cannot be read as rows is not a row.
            Err(StoreError::Corrupt { detail }) => differences.push(Difference {
                run: row.run,
                column: "derived rows".to_owned(),
                stored: detail,
                derived: format!("{} rows", mended.derived.len()),
            }),
            Err(error) => return Err(error),
        }
        match self.store.memory_of(row.run) {
            Ok(stored) => differences.extend(self.differences_of_memory(row.run, &stored, &mended.memory)?),
            Err(StoreError::Corrupt { detail }) => differences.push(Difference {
                run: row.run,
                column: "memory".to_owned(),
                stored: detail,
                derived: format!("{} rows", mended.memory.len()),
            }),
            Err(error) => return Err(error),
        }
        self.take(&differences, mended)
    }

    /// What was forgotten is not there, whatever the run's own log says.
    fn differences_of_memory(
        &self,
        run: RunId,
        stored: &MemoryOf,
        derived: &[MemoryRow],
    ) -> Result<Vec<Difference>, StoreError> {
        let mut expected = BTreeMap::new();
        for row in settled(derived) {
            let is_gone = match &row.change {
                MemoryChange::Entry(_) => self.store.is_forgotten(&entry_id(run, row.place))?,
                _ => false,
            };
            if !is_gone {
                expected.insert(row.place, row.change);
            }
        }
        let stored_rows: BTreeMap<Place, MemoryChange> =
            stored.rows.iter().map(|row| (row.place, row.change.clone())).collect();
        let told = |change: Option<&MemoryChange>| match change {
            Some(MemoryChange::Entry(entry)) => {
                format!("{} of {}: {:?}", entry.kind, entry.session, entry.content)
            }
            Some(change) => format!("{change:?}"),
            None => "nothing".to_owned(),
        };
        let places: BTreeSet<Place> = stored_rows.keys().chain(expected.keys()).copied().collect();
        let rows =
            places.into_iter().filter(|place| stored_rows.get(place) != expected.get(place)).map(|place| {
                Difference {
                    run,
                    column: format!("row {}.{} in memory", place.seq, place.n),
                    stored: told(stored_rows.get(&place)),
                    derived: told(expected.get(&place)),
                }
            });
        let judged = stored.misjudged.iter().map(|entry| Difference {
            run,
            column: format!("the relevance of {entry}"),
            stored: "another one".to_owned(),
            derived: "what its votes say".to_owned(),
        });
        Ok(rows.chain(judged).collect())
    }

    /// Finds derived rows of runs that are gone.
    fn look_for_strays(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.store.strays(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(*last);
            for run in page {
                self.totals.runs += 1;
                let stray = Difference {
                    run,
                    column: "derived rows".to_owned(),
                    stored: "there".to_owned(),
                    derived: "that there is no such run".to_owned(),
                };
                let (summary, derived) = (Summary::default(), Vec::new());
                let memory = Vec::new();
                self.take(&[stray], Mended { run, last_seq: 0, summary, rest: None, derived, memory })?;
            }
        }
    }

    fn take(&mut self, differences: &[Difference], mended: Mended) -> Result<(), StoreError> {
        if differences.is_empty() {
            return Ok(());
        }
        self.totals.differing += 1;
        for difference in differences {
            (self.tell)(Told::Differs(difference));
        }
        let Some(writing) = &mut self.writing else { return Ok(()) };
        writing.batch.push(mended);
        if writing.batch.len() >= BATCH {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let written = writing.write(self.store)?;
        if written > 0 {
            self.totals.mended += written;
            (self.tell)(Told::Progress(self.totals));
        }
        Ok(())
    }
}

/// All that follows from the log of a run or a session.
fn follows(store: &dyn Store, row: &RunRow, rest: Option<Rest>) -> Result<Mended, LoadError> {
    let run = row.run;
    if let Some(quarantine) = &row.quarantine {
        return Err(LoadError::Damaged(Damage::of_quarantine(run, quarantine)));
    }
    let (mut derived, mut memory) = (Vec::new(), Vec::new());
    let nothing = || LoadError::Damaged(Damage::of_nothing(run));
    if row.kind == v1::RunKind::Session as i32 {
        let state = read_on(store, run, None, 0, |state, event| {
            derived.extend(projection::derived(&event));
            memory.extend(projection::memory(run, &event));
            add_to_session(state, event)
        })?;
        let state = state.ok_or_else(nothing)?;
        let summary = projection::listed_session(&state);
        return Ok(Mended { run, last_seq: state.seq(), summary, rest: None, derived, memory });
    }
    let mut last = None;
    let state = read_on(store, run, None, 0, |state, event| {
        derived.extend(projection::derived(&event));
        memory.extend(projection::memory(run, &event));
        last = projection::ends(&event).then_some(event.seq).or(last);
        add_to_run(run, state, event)
    })?;
    let state = state.ok_or_else(nothing)?;
    derived.extend(last.and_then(|seq| projection::ended(&state, seq)));
    // What follows from inherited events, the other run has.
    let inherited = state.forked_from().map_or(0, |(_, seq)| seq);
    derived.retain(|row| row.place.seq > inherited);
    memory.retain(|row| row.place.seq > inherited);
    // A run that has something in work, or a deadline that nobody knows, is looked at with the next claim.
    let holds = |rest: &Rest| may_rest(&state) && rest.due_at.is_some() == state.next_deadline().is_some();
    let rest = rest.filter(holds);
    Ok(Mended { run, last_seq: state.seq(), summary: projection::listed(&state), rest, derived, memory })
}

fn all_derived(store: &dyn Store, run: RunId) -> Result<Vec<Derived>, StoreError> {
    let mut rows: Vec<Derived> = Vec::new();
    loop {
        let page = store.derived_of(run, rows.last().map(|row| row.place), PAGE)?;
        let is_last = page.len() < PAGE;
        rows.extend(page);
        if is_last {
            return Ok(rows);
        }
    }
}

fn differences_of_row(row: &RunRow, rest: Option<Rest>, mended: &Mended) -> Vec<Difference> {
    let (stored, derived) =
        (columns(&row.summary, row.last_seq, rest), columns(&mended.summary, mended.last_seq, mended.rest));
    let columns = stored.into_iter().zip(derived);
    columns
        .filter(|((_, stored), (_, derived))| stored != derived)
        .map(|((column, stored), (_, derived))| Difference {
            run: row.run,
            column: column.to_owned(),
            stored,
            derived,
        })
        .collect()
}

fn columns(summary: &Summary, last_seq: u64, rest: Option<Rest>) -> [(&'static str, String); 8] {
    let Summary { status, outcome, updated_at, finished_at, tasks_total, tasks_settled } = summary;
    let none = || "nothing".to_owned();
    let rest = rest.map_or_else(none, |rest| match rest.due_at {
        Some(at) => format!("until {}", at.0),
        None => "until an input".to_owned(),
    });
    [
        ("status", status.to_string()),
        ("outcome", outcome.to_string()),
        ("updated_at", updated_at.0.to_string()),
        ("finished_at", finished_at.map_or_else(none, |at| at.0.to_string())),
        ("tasks_total", tasks_total.to_string()),
        ("tasks_settled", tasks_settled.to_string()),
        ("last_seq", last_seq.to_string()),
        ("rest", rest),
    ]
}

fn differences_of_derived(run: RunId, stored: &[Derived], derived: &[Derived]) -> Vec<Difference> {
    let by_place = |rows: &[Derived]| -> BTreeMap<Place, Derived> {
        rows.iter().map(|row| (row.place, row.clone())).collect()
    };
    let (stored, derived) = (by_place(stored), by_place(derived));
    let mut places: Vec<Place> = stored.keys().chain(derived.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    let told = |row: Option<&Derived>| match row {
        Some(row) => format!(
            "kind {}, key {}, {} bytes {}",
            row.kind,
            row.key.escape_ascii(),
            row.value.len(),
            row.value.escape_ascii()
        ),
        None => "nothing".to_owned(),
    };
    places
        .into_iter()
        .filter(|place| stored.get(place) != derived.get(place))
        .map(|place| Difference {
            run,
            column: format!("derived row {}.{}", place.seq, place.n),
            stored: told(stored.get(&place)),
            derived: told(derived.get(&place)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use capataz_store::builders::beginning;
    use capataz_store::{Append, AppendOutcome, MemoryEntry, MemoryStore, Millis};

    use super::*;

    #[test]
    fn an_entry_of_memory_is_expected_unless_it_was_forgotten() {
        let [run, session] = [1, 2].map(|number| RunId(uuid::Uuid::from_u128(number)));
        let entry = |n| MemoryRow {
            place: Place { seq: 3, n },
            change: MemoryChange::Entry(Box::new(MemoryEntry {
                session: "shop".to_owned(),
                mode: "simple".to_owned(),
                kind: "error".to_owned(),
                at: Millis(1),
                content: "what was learnt".to_owned(),
                digest: String::new(),
                tools: Vec::new(),
                files: Vec::new(),
                related_to: Vec::new(),
            })),
        };
        let derived = [entry(0), entry(1)];
        let forgotten = MemoryRow {
            place: Place { seq: 1, n: 0 },
            change: MemoryChange::Forgotten { entry: entry_id(run, derived[1].place) },
        };
        let store = MemoryStore::new();
        let mut writer = store.claim(ShardId(0), Mark(1)).unwrap();
        let outcomes = writer.commit(&[Append { memory: vec![forgotten], ..beginning(session) }]).unwrap();
        assert!(matches!(outcomes[..], [AppendOutcome::Committed(_)]), "{outcomes:?}");

        let mut tell = |_: Told<'_>| {};
        let (rests, totals) = (BTreeMap::new(), Totals::default());
        let work = Work { store: &store, rests, writing: None, totals, tell: &mut tell };
        let differing = |stored: &[MemoryRow]| -> Vec<String> {
            let stored = MemoryOf { rows: stored.to_vec(), ..MemoryOf::default() };
            let differences = work.differences_of_memory(run, &stored, &derived).unwrap();
            differences.into_iter().map(|difference| difference.column).collect()
        };
        assert_eq!(differing(&derived[..1]), [""; 0]);
        assert_eq!(differing(&derived), ["row 3.1 in memory"]);
        assert_eq!(differing(&[]), ["row 3.0 in memory"]);
    }
}
