//! A data folder after a cut, held against what was acknowledged before it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use capataz_store::conformance::{ALL, SHARD, creation, everything, keep};
use capataz_store::sqlite::backup;
use capataz_store::{
    Append, AppendOutcome, BlobHash, LogRow, Mark, Millis, Position, Retention, RunRow, SqliteStore, Store,
    StoreError,
};

use crate::facts::Known;
use crate::work::{Payload, id_of, number_of, options};

/// A run that is begun to show that the store goes on.
const NEW_RUN: u64 = 1 << 40;

/// The folders of blobs, one of which each sweep looks through.
const FOLDERS: usize = 256;

/// What was promised and does not hold, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl From<StoreError> for Violation {
    fn from(error: StoreError) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Self(format!("{error}: {source}"))
    }
}

macro_rules! require {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(Violation(format!($($words)+)));
        }
    };
}

/// Opens the store in the folder, looks everything through, and goes on with it: the folder is changed.
///
/// # Errors
/// The first promise that does not hold.
pub fn look(data: &Path, known: &Known) -> Result<(), Violation> {
    {
        let store = SqliteStore::open(data, options())?;
        let found = Found::read(&store)?;
        found.is_whole(&store, known)?;
        found.has_what_was_told(&store, known)?;
        goes_on(&store)?;
        sweeps_to_the_last_file(&store, data, &found)?;
    }
    let looked_at = backup::verify(data, &mut |_| ControlFlow::Continue(()))?;
    let is_whole = looked_at.missing.is_empty() && looked_at.damaged.is_empty();
    require!(is_whole, "blobs that runs name are missing or damaged: {looked_at:?}");
    let store = SqliteStore::open_as_it_is(data, options())?;
    require!(store.get_run(id_of(NEW_RUN))?.is_some(), "a run that was begun after the cut is gone");
    Ok(())
}

/// All that the store has.
struct Found {
    log: Vec<LogRow>,
    listed: BTreeMap<u64, RunRow>,
    payloads: Vec<Payload>,
}

impl Found {
    fn read(store: &SqliteStore) -> Result<Self, Violation> {
        let log = store.read_log(SHARD, Position(0), ALL, usize::MAX)?;
        let rows = store.list_runs(&everything())?;
        let mut payloads = Vec::with_capacity(log.len());
        for row in &log {
            let payload = row.events.as_ref().and_then(Payload::parse);
            let of_row =
                |payload: &Payload| payload.run == number_of(row.run) && payload.first_seq == row.first_seq;
            match payload.filter(of_row) {
                Some(payload) => payloads.push(payload),
                None => {
                    return Err(Violation(format!("the row at {} is not what was written", row.position.0)));
                }
            }
        }
        let listed = rows.into_iter().map(|row| (number_of(row.run), row)).collect();
        Ok(Self { log, listed, payloads })
    }

    /// Runs have no gaps, commits are there whole, and every list says what the log says.
    fn is_whole(&self, store: &SqliteStore, known: &Known) -> Result<(), Violation> {
        let mut ends = BTreeMap::new();
        for row in &self.log {
            let end = ends.entry(number_of(row.run)).or_insert(0);
            require!(row.first_seq == *end + 1, "run {} has {} after {end}", row.run, row.first_seq);
            *end += u64::from(row.count);
        }
        require!(
            self.log.is_sorted_by(|earlier, later| earlier.position < later.position),
            "positions do not grow"
        );
        let listed: BTreeMap<u64, u64> = self.listed.iter().map(|(run, row)| (*run, row.last_seq)).collect();
        require!(listed == ends, "the list of runs has {listed:?}, the log {ends:?}");
        let mut batches: BTreeMap<u64, (u64, BTreeSet<u64>)> = BTreeMap::new();
        for payload in &self.payloads {
            let (of, seen) = batches.entry(payload.batch).or_default();
            *of = payload.of;
            seen.insert(payload.index);
        }
        for (batch, (of, seen)) in batches {
            let may_be_parts = batch <= known.swept_batch;
            require!(
                may_be_parts || seen.len() as u64 == of,
                "of commit {batch} only {seen:?} of {of} are there"
            );
        }
        let unfinished: Vec<u64> =
            store.unfinished(SHARD, None, ALL)?.iter().map(|unfinished| number_of(unfinished.run)).collect();
        let open = self.listed.iter().filter(|(_, row)| row.summary.finished_at.is_none());
        let open: Vec<u64> = open.map(|(run, _)| *run).collect();
        require!(unfinished == open, "unfinished are {unfinished:?}, and the list says {open:?}");
        let bounds = store.bounds(SHARD)?;
        let newest = self.log.last().map_or(Position(0), |row| row.position);
        require!(
            bounds.newest >= newest,
            "the newest position is {:?}, and there is {newest:?}",
            bounds.newest
        );
        Ok(())
    }

    fn has_what_was_told(&self, store: &SqliteStore, known: &Known) -> Result<(), Violation> {
        let mut kept_blobs = BTreeSet::new();
        for (number, run) in &known.runs {
            let row = self.listed.get(number);
            if row.is_none() && known.may_be_gone(run) {
                continue;
            }
            let last_seq = row.map(|row| row.last_seq);
            require!(
                last_seq >= Some(run.last_seq),
                "of run {number} events up to {} were acknowledged, and {last_seq:?} are there",
                run.last_seq
            );
            let finished_at = row.and_then(|row| row.summary.finished_at).map(|at| at.0);
            require!(
                run.finished_at.is_none() || finished_at == run.finished_at,
                "the end of run {number} was acknowledged, and it has {finished_at:?}"
            );
            kept_blobs.extend(&run.blobs);
            if let Some(key) = run.key.as_ref().filter(|_| !known.may_be_gone(run)) {
                let found = store.key(SHARD, key.as_bytes())?;
                require!(
                    found.is_some_and(|row| row.run == id_of(*number)),
                    "the key of run {number} names {found:?}"
                );
            }
        }
        self.has_what_can_be_taken_back(store, known)?;
        let young = known.blobs.iter().filter(|(_, at)| **at >= known.swept_before);
        for hash in young.map(|(hash, _)| *hash).chain(kept_blobs) {
            has_blob(store, hash)?;
        }
        for hash in self.payloads.iter().flat_map(|payload| &payload.blobs) {
            has_blob(store, *hash)?;
        }
        Ok(())
    }

    fn has_what_can_be_taken_back(&self, store: &SqliteStore, known: &Known) -> Result<(), Violation> {
        let agents: BTreeSet<String> = store.agents()?.into_iter().map(|agent| agent.name).collect();
        for (name, is_there) in &known.agents {
            let found = agents.contains(name);
            require!(
                is_there.is_none_or(|is_there| is_there == found),
                "{name}: {is_there:?}, found {found}"
            );
        }
        for (run, is_there) in &known.quarantined {
            let Some(row) = self.listed.get(run) else { continue };
            let found = row.quarantine.is_some();
            require!(
                is_there.is_none_or(|is_there| is_there == found),
                "run {run} is in quarantine: {is_there:?}, found {found}"
            );
        }
        for ((key, run), is_there) in &known.registered {
            let found = store.key(SHARD, key.as_bytes())?.is_some_and(|row| row.run == id_of(*run));
            require!(
                is_there.is_none_or(|is_there| is_there == found),
                "{key} names run {run}: {is_there:?}, found {found}"
            );
        }
        Ok(())
    }
}

fn has_blob(store: &SqliteStore, hash: BlobHash) -> Result<(), Violation> {
    let content = store.read_blob(hash, 0, usize::MAX)?;
    let is_whole = content.as_ref().is_some_and(|content| BlobHash::of(content) == hash);
    let found = content.map(|content| content.len());
    require!(is_whole, "the blob {hash} has {found:?} bytes, which are not what was put");
    Ok(())
}

/// The store takes new work.
fn goes_on(store: &SqliteStore) -> Result<(), Violation> {
    let mut writer = store.claim(SHARD, Mark(u32::MAX))?;
    let appends: [Append; 1] = [creation(NEW_RUN)];
    let outcomes = writer.commit(&appends)?;
    let is_committed = matches!(outcomes.as_slice(), [AppendOutcome::Committed(_)]);
    require!(is_committed, "a new run was refused: {outcomes:?}");
    let hash = store.put_blob(b"after the cut", Millis(i64::MAX - 1))?;
    has_blob(store, hash)
}

/// Every file of a blob is known to the store, so that a sweep finds it: afterwards there are those that runs name.
fn sweeps_to_the_last_file(store: &SqliteStore, data: &Path, found: &Found) -> Result<(), Violation> {
    let mut writer = store.claim(SHARD, Mark(u32::MAX - 1))?;
    let retention = Retention { blobs_before: Millis(i64::MAX), batch: u32::MAX, ..keep() };
    for _ in 0..FOLDERS {
        writer.sweep(&retention)?;
    }
    let named: BTreeSet<String> =
        found.payloads.iter().flat_map(|payload| &payload.blobs).map(BlobHash::to_string).collect();
    let left: BTreeSet<String> =
        files(&data.join("blobs")).into_iter().filter(|name| name != "in-use").collect();
    require!(left == named, "after a sweep these blobs are there: {left:?}; and runs name {named:?}");
    Ok(())
}

/// The names of the files in a folder and those below it.
fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => names.extend(files(&entry.path())),
            false => names.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    names
}
