//! The memory of execution modes (seed 004): its entries, what is thought of them, and how they are found.
//!
//! Like [derived rows](crate::derived) they follow from events, are written with them and go with their run.

use crate::port::{Millis, Place, RunId};

/// What an entry can be (seed 004, `memory_entries.type`; CONTRACTS §5 adds `pattern`).
pub const MEMORY_TYPES: [&str; 7] =
    ["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"];
/// The modes of which an entry can be (seed 004, `memory_entries.context_mode`).
pub const MEMORY_MODES: [&str; 3] = ["simple", "planner", "supervised"];
/// The maximum length of what an entry, or its session, is called, in bytes.
pub const MAX_MEMORY_NAME: usize = 256;

/// How relevant an entry is of itself, in quarters.
const RELEVANCE: i64 = 4;
/// The most that it can be, in quarters.
const RELEVANCE_MAX: i64 = 20;

/// What an event changes in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    pub place: Place,
    pub change: MemoryChange,
}

/// A change of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// There is a new entry. Its id is [`entry_id`] of the run and the place.
    Entry(Box<MemoryEntry>),
    /// The entry of this id is more relevant, or less, by so many quarters, whether it is there or not.
    Vote { entry: String, quarters: i8 },
    /// A person wants the entry of this id forgotten: it is not there any more, whenever it was or will be written.
    Forgotten { entry: String },
    /// The run has gone back: what its events after this number have changed is undone.
    Back { to_seq: u64 },
}

/// An entry of memory (seed 004, `memory_entries`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEntry {
    pub session: String,
    /// One of [`MEMORY_MODES`].
    pub mode: String,
    /// One of [`MEMORY_TYPES`].
    pub kind: String,
    /// The time of its event.
    pub at: Millis,
    pub content: String,
    /// The same in few tokens.
    pub digest: String,
    pub tools: Vec<String>,
    pub files: Vec<String>,
    /// Ids of entries that it is about.
    pub related_to: Vec<String>,
}

/// An entry as it is found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    pub id: String,
    pub run: RunId,
    pub place: Place,
    /// 1, and a quarter more or less for each quarter of its votes, from 0 to 5.
    pub relevance: f64,
    pub entry: MemoryEntry,
}

/// Which entries of a session are recalled (seed 004, `getRelevantMemory`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall<'a> {
    pub session: &'a str,
    pub mode: &'a str,
    /// The types that are wanted, each once.
    pub kinds: &'a [&'a str],
    /// Only entries after this moment.
    pub since: Millis,
    pub order: MemoryOrder,
    pub limit: usize,
}

/// The order in which entries are recalled; equal ones by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOrder {
    NewestFirst,
    MostRelevantFirst,
}

/// Which entries of a session are listed, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySearch {
    pub session: String,
    pub mode: Option<String>,
    pub kind: Option<String>,
    /// Text that the content has, whatever the case of its ASCII letters.
    pub text: Option<String>,
    /// Only entries that come after this one in the order of a listing: its time and its id.
    pub after: Option<(Millis, String)>,
    /// Entries that are found.
    pub limit: usize,
    /// Entries that are looked at for that, whether they have the text or not.
    pub looked_at: usize,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryPage {
    pub entries: Vec<FoundEntry>,
    /// The last entry that was looked at, where there are more after it: a search [after](MemorySearch::after) it goes on there.
    pub next: Option<(Millis, String)>,
}

/// What is stored of a run's, or a session's, changes of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryOf {
    /// In the order of their places. What the run went back on, and what was forgotten, is not there.
    pub rows: Vec<MemoryRow>,
    /// Ids of its entries whose stored relevance is not what their votes say.
    pub misjudged: Vec<String>,
}

/// The id of the entry that an event leaves.
#[must_use]
pub fn entry_id(run: RunId, place: Place) -> String {
    format!("{run}-{}-{}", place.seq, place.n)
}

/// How relevant an entry with these votes is, in quarters.
pub(crate) fn relevance(votes: i64) -> i64 {
    votes.saturating_add(RELEVANCE).clamp(0, RELEVANCE_MAX)
}

/// The changes that are left when those that were gone back on are taken away.
#[must_use]
pub fn settled(rows: &[MemoryRow]) -> Vec<MemoryRow> {
    let mut left: Vec<MemoryRow> = Vec::new();
    for row in rows {
        match row.change {
            MemoryChange::Back { to_seq } => left.retain(|earlier| earlier.place.seq <= to_seq),
            _ => left.push(row.clone()),
        }
    }
    left
}

/// Returns whether the changes are of events from `first_seq` to `last_seq`, in order and each once, and can be stored.
pub(crate) fn are_well_formed(rows: &[MemoryRow], first_seq: u64, last_seq: u64) -> bool {
    rows.is_sorted_by(|row, next| row.place < next.place)
        && rows
            .iter()
            .all(|row| (first_seq..=last_seq).contains(&row.place.seq) && is_well_formed(&row.change))
}

fn is_well_formed(change: &MemoryChange) -> bool {
    let names = |name: &str| !name.is_empty() && name.len() <= MAX_MEMORY_NAME;
    match change {
        MemoryChange::Entry(entry) => {
            MEMORY_TYPES.contains(&entry.kind.as_str())
                && MEMORY_MODES.contains(&entry.mode.as_str())
                && names(&entry.session)
        }
        MemoryChange::Vote { entry, .. } | MemoryChange::Forgotten { entry } => names(entry),
        MemoryChange::Back { .. } => true,
    }
}
