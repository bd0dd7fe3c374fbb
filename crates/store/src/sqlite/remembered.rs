//! The memory of execution modes: writes, as parts of the writer's transactions, and reads.

use std::collections::BTreeMap;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter};

use super::error::{integer, unsigned};
use super::reader::{Readers, run_id};
use super::writer::cached;
use crate::port::{
    FoundEntry, MemoryChange, MemoryEntry, MemoryOf, MemoryOrder, MemoryPage, MemoryRow, MemorySearch,
    Millis, Place, Recall, RunId, StoreError, entry_id,
};
use crate::remembered::MEMORY_MODES;

const COLUMNS: &str = "entries.id, entries.run, entries.seq, entries.n, entries.relevance_score, entries.session_id,
    entries.context_mode, entries.type, entries.timestamp, entries.content, entries.digest, entries.context_tools,
    entries.context_files, entries.related_to";

/// What an entry's votes say, each of which is read for that.
const JUDGED: &str = "min(5.0, max(0.0, 1.0 +
    (SELECT total(quarters) FROM memory_marks WHERE memory_marks.entry = memory_entries.id) / 4.0))";

/// The same by their sum.
const JUDGED_BY_SUM: &str = "min(5.0, max(0.0, 1.0 +
    (SELECT total(quarters) FROM memory_votes WHERE memory_votes.entry = memory_entries.id) / 4.0))";

/// True where the sum of an entry's votes is there and is another one. Where there is none, the next vote makes it.
const MISCOUNTED: &str = "EXISTS (SELECT 1 FROM memory_votes AS sums WHERE sums.entry = memory_entries.id
    AND (sums.votes, sums.quarters) IS NOT (SELECT count(quarters), coalesce(sum(quarters), 0)
        FROM memory_marks WHERE memory_marks.entry = memory_entries.id))";

/// Votes on one entry that come or go.
#[derive(Clone, Copy, Default)]
struct Votes {
    number: i64,
    quarters: i64,
}

/// Writes the changes of a run, in their order.
pub(super) fn write(connection: &Connection, run: RunId, rows: &[MemoryRow]) -> rusqlite::Result<()> {
    for MemoryRow { place, change } in rows {
        match change {
            MemoryChange::Entry(entry) => insert(connection, run, *place, entry)?,
            MemoryChange::Vote { entry, quarters } => {
                mark(connection, run, *place, entry, Some(*quarters))?;
                count(connection, entry, Votes { number: 1, quarters: i64::from(*quarters) })?;
                judge(connection, entry)?;
            }
            MemoryChange::Forgotten { entry } => {
                mark(connection, run, *place, entry, None)?;
                cached(connection, "DELETE FROM memory_entries WHERE id = ?")?.execute([entry])?;
            }
            MemoryChange::Back { to_seq } => remove_after(connection, run, integer(*to_seq))?,
        }
    }
    Ok(())
}

/// Removes the changes of a run.
pub(super) fn remove(connection: &Connection, run: RunId) -> rusqlite::Result<()> {
    remove_after(connection, run, -1)
}

/// Removes the changes of a run's events after this one, and judges anew what it has voted on.
fn remove_after(connection: &Connection, run: RunId, seq: i64) -> rusqlite::Result<()> {
    let run = run.0.as_bytes();
    cached(connection, "DELETE FROM memory_entries WHERE run = ? AND seq > ?")?.execute(params![run, seq])?;
    let mut gone: BTreeMap<String, Votes> = BTreeMap::new();
    let removed = "DELETE FROM memory_marks WHERE run = ? AND seq > ? RETURNING entry, quarters";
    let mut removed = cached(connection, removed)?;
    let mut removed = removed.query(params![run, seq])?;
    while let Some(row) = removed.next()? {
        let votes = gone.entry(row.get(0)?).or_default();
        if let Some(quarters) = row.get::<_, Option<i64>>(1)? {
            votes.number -= 1;
            votes.quarters -= quarters;
        }
    }
    drop(removed);
    for (entry, votes) in gone {
        count(connection, &entry, votes)?;
        judge(connection, &entry)?;
    }
    Ok(())
}

fn insert(connection: &Connection, run: RunId, place: Place, entry: &MemoryEntry) -> rusqlite::Result<()> {
    let id = entry_id(run, place);
    if is_forgotten(connection, &id)? {
        return Ok(());
    }
    cached(
        connection,
        "INSERT INTO memory_entries (id, session_id, timestamp, type, content, context_mode, context_tools,
            context_files, related_to, created_at, run, seq, n, digest)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        id,
        entry.session,
        entry.at.0,
        entry.kind,
        entry.content,
        entry.mode,
        list(&entry.tools),
        list(&entry.files),
        list(&entry.related_to),
        entry.at.0.div_euclid(1_000),
        run.0.as_bytes(),
        integer(place.seq),
        place.n,
        entry.digest,
    ])?;
    // Votes may have been written before, where rows are written again.
    let voted = "SELECT EXISTS (SELECT 1 FROM memory_marks WHERE entry = ?1)
        OR EXISTS (SELECT 1 FROM memory_votes WHERE entry = ?1)";
    if cached(connection, voted)?.query_row([&id], |row| row.get(0))? {
        count_anew(connection, &id)?;
        judge(connection, &id)?;
    }
    Ok(())
}

fn mark(
    connection: &Connection,
    run: RunId,
    place: Place,
    entry: &str,
    quarters: Option<i8>,
) -> rusqlite::Result<()> {
    cached(connection, "INSERT INTO memory_marks (run, seq, n, entry, quarters) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![run.0.as_bytes(), integer(place.seq), place.n, entry, quarters])
        .map(drop)
}

/// Adds votes that have come, or takes away those that are gone. An entry has a sum of its votes from its first vote on, or
/// from the first one since there are sums.
fn count(connection: &Connection, entry: &str, votes: Votes) -> rusqlite::Result<()> {
    let Votes { number, quarters } = votes;
    let add = "UPDATE memory_votes SET votes = votes + ?2, quarters = quarters + ?3 WHERE entry = ?1";
    if cached(connection, add)?.execute(params![entry, number, quarters])? == 0 {
        return count_anew(connection, entry);
    }
    if number < 0 {
        cached(connection, "DELETE FROM memory_votes WHERE entry = ? AND votes = 0")?.execute([entry])?;
    }
    Ok(())
}

/// Sums the votes on an entry by reading each of them.
fn count_anew(connection: &Connection, entry: &str) -> rusqlite::Result<()> {
    cached(connection, "DELETE FROM memory_votes WHERE entry = ?")?.execute([entry])?;
    let sum = "INSERT INTO memory_votes (entry, votes, quarters)
        SELECT entry, count(*), sum(quarters) FROM memory_marks
        WHERE entry = ? AND quarters IS NOT NULL GROUP BY entry";
    cached(connection, sum)?.execute([entry]).map(drop)
}

/// Writes how relevant the entry is, if it is there.
fn judge(connection: &Connection, entry: &str) -> rusqlite::Result<()> {
    let statement = format!("UPDATE memory_entries SET relevance_score = {JUDGED_BY_SUM} WHERE id = ?");
    cached(connection, &statement)?.execute([entry]).map(drop)
}

fn is_forgotten(connection: &Connection, entry: &str) -> rusqlite::Result<bool> {
    cached(connection, "SELECT EXISTS (SELECT 1 FROM memory_marks WHERE entry = ? AND quarters IS NULL)")?
        .query_row([entry], |row| row.get(0))
}

/// The query that finds the entries of one type in their order. Each type is read from its own part of an index, to the
/// limit.
pub(super) fn of_one_kind(order: MemoryOrder) -> String {
    let order = match order {
        MemoryOrder::NewestFirst => "timestamp DESC, id",
        MemoryOrder::MostRelevantFirst => "relevance_score DESC, id",
    };
    format!(
        "SELECT id, timestamp, relevance_score FROM memory_entries
         WHERE session_id = ? AND context_mode = ? AND type = ? AND timestamp > ? ORDER BY {order} LIMIT ?"
    )
}

/// The query that lists the entries of one mode, newest first, whatever they say.
pub(super) fn of_one_mode(search: &MemorySearch) -> String {
    let mut conditions = String::new();
    if search.kind.is_some() {
        conditions += " AND type = ?";
    }
    if search.after.is_some() {
        conditions += " AND (timestamp, id) < (?, ?)";
    }
    format!(
        "SELECT id, timestamp FROM memory_entries WHERE session_id = ? AND context_mode = ?{conditions}
         ORDER BY timestamp DESC, id DESC LIMIT ?"
    )
}

/// Each of the queries, and its rows in one list.
fn all_of(queries: &[String]) -> String {
    let all: Vec<String> = queries.iter().map(|query| format!("SELECT * FROM ({query})")).collect();
    all.join(" UNION ALL ")
}

impl Readers {
    pub(super) fn recall(&self, wanted: &Recall<'_>) -> Result<Vec<FoundEntry>, StoreError> {
        if wanted.kinds.is_empty() {
            return Ok(Vec::new());
        }
        let queries = vec![of_one_kind(wanted.order); wanted.kinds.len()];
        let order = match wanted.order {
            MemoryOrder::NewestFirst => "found.timestamp DESC, found.id",
            MemoryOrder::MostRelevantFirst => "found.relevance_score DESC, found.id",
        };
        let statement = format!(
            "SELECT {COLUMNS} FROM ({}) AS found JOIN memory_entries AS entries ON entries.id = found.id
             ORDER BY {order} LIMIT ?",
            all_of(&queries)
        );
        let limit = integer(wanted.limit as u64);
        self.read("recall", |connection| {
            let mut values: Vec<&dyn ToSql> = Vec::new();
            for kind in wanted.kinds {
                values.extend([&wanted.session as &dyn ToSql, &wanted.mode, kind, &wanted.since.0, &limit]);
            }
            values.push(&limit);
            cached(connection, &statement)?.query_map(params_from_iter(values), found)?.collect()
        })
    }

    /// Looks at entries in their order, one by one, until so many are found or were looked at.
    pub(super) fn memories(&self, search: &MemorySearch) -> Result<MemoryPage, StoreError> {
        let modes: Vec<&str> = match &search.mode {
            Some(mode) => vec![mode],
            None => MEMORY_MODES.to_vec(),
        };
        let in_order = format!(
            "SELECT id, timestamp FROM ({}) ORDER BY timestamp DESC, id DESC LIMIT ?",
            all_of(&vec![of_one_mode(search); modes.len()])
        );
        let with_text = format!(
            "SELECT {COLUMNS} FROM memory_entries AS entries
             WHERE id = ?1 AND (?2 IS NULL OR instr(lower(content), lower(?2)) > 0)"
        );
        // Without a text, each that is looked at is found. One more says whether there are others.
        let most = if search.text.is_some() { search.looked_at } else { search.looked_at.min(search.limit) };
        let limit = integer((most as u64).saturating_add(1));
        self.read("list memory", |connection| {
            let mut values: Vec<&dyn ToSql> = Vec::new();
            for mode in &modes {
                values.extend([&search.session as &dyn ToSql, mode]);
                values.extend(search.kind.as_ref().map(|kind| kind as &dyn ToSql));
                if let Some((at, id)) = &search.after {
                    values.extend([&at.0 as &dyn ToSql, id]);
                }
                values.push(&limit);
            }
            values.push(&limit);
            let mut in_order = cached(connection, &in_order)?;
            let mut in_order = in_order.query(params_from_iter(values))?;
            let mut with_text = cached(connection, &with_text)?;
            let mut page = MemoryPage::default();
            let (mut looked_at, mut last) = (0, None);
            while let Some(row) = in_order.next()? {
                if looked_at >= most || page.entries.len() >= search.limit {
                    page.next = last;
                    break;
                }
                looked_at += 1;
                let (id, at): (String, i64) = (row.get(0)?, row.get(1)?);
                page.entries.extend(with_text.query_row(params![id, search.text], found).optional()?);
                last = Some((Millis(at), id));
            }
            Ok(page)
        })
    }

    pub(super) fn memory_entry(&self, id: &str) -> Result<Option<FoundEntry>, StoreError> {
        self.read("read an entry of memory", |connection| {
            cached(connection, &format!("SELECT {COLUMNS} FROM memory_entries AS entries WHERE id = ?"))?
                .query_row([id], found)
                .optional()
        })
    }

    pub(super) fn is_forgotten(&self, id: &str) -> Result<bool, StoreError> {
        self.read("look for what was forgotten", |connection| is_forgotten(connection, id))
    }

    pub(super) fn memory_of(&self, run: RunId) -> Result<MemoryOf, StoreError> {
        self.read("read the memory of a run", |connection| {
            let bytes = run.0.as_bytes();
            let entries = format!("SELECT {COLUMNS} FROM memory_entries AS entries WHERE run = ?");
            let mut rows: Vec<MemoryRow> = cached(connection, &entries)?
                .query_map([bytes], |row| {
                    let FoundEntry { place, entry, .. } = found(row)?;
                    Ok(MemoryRow { place, change: MemoryChange::Entry(Box::new(entry)) })
                })?
                .collect::<rusqlite::Result<_>>()?;
            let marks = cached(connection, "SELECT seq, n, entry, quarters FROM memory_marks WHERE run = ?")?
                .query_map([bytes], marked)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            rows.extend(marks);
            rows.sort_by_key(|row| row.place);
            let misjudged = format!(
                "SELECT id FROM memory_entries
                 WHERE run = ? AND (relevance_score IS NOT {JUDGED} OR {MISCOUNTED}) ORDER BY id"
            );
            let misjudged = cached(connection, &misjudged)?
                .query_map([bytes], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(MemoryOf { rows, misjudged })
        })
    }
}

fn marked(row: &Row<'_>) -> rusqlite::Result<MemoryRow> {
    let place = Place { seq: unsigned(row, 0)?, n: row.get(1)? };
    let entry = row.get(2)?;
    let change = match row.get(3)? {
        Some(quarters) => MemoryChange::Vote { entry, quarters },
        None => MemoryChange::Forgotten { entry },
    };
    Ok(MemoryRow { place, change })
}

fn found(row: &Row<'_>) -> rusqlite::Result<FoundEntry> {
    Ok(FoundEntry {
        id: row.get(0)?,
        run: run_id(row, 1)?,
        place: Place { seq: unsigned(row, 2)?, n: row.get(3)? },
        relevance: row.get(4)?,
        entry: MemoryEntry {
            session: row.get(5)?,
            mode: row.get(6)?,
            kind: row.get(7)?,
            at: Millis(row.get(8)?),
            content: row.get(9)?,
            digest: row.get(10)?,
            tools: names(row, 11)?,
            files: names(row, 12)?,
            related_to: names(row, 13)?,
        },
    })
}

/// A list of names as a column: JSON, as the seed's default `'[]'` has it.
fn list(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use uuid::Uuid;

    use super::*;
    use crate::sqlite::schema::migrate;

    const OWNER: RunId = RunId(Uuid::nil());

    fn of_event(seq: u64, change: MemoryChange) -> MemoryRow {
        MemoryRow { place: Place { seq, n: 0 }, change }
    }

    /// A database with one entry, and its id.
    fn with_an_entry() -> (Connection, String) {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let entry = MemoryEntry {
            session: "s".to_owned(),
            mode: MEMORY_MODES[0].to_owned(),
            kind: "success".to_owned(),
            at: Millis(1),
            content: "it works".to_owned(),
            digest: String::new(),
            tools: Vec::new(),
            files: Vec::new(),
            related_to: Vec::new(),
        };
        let row = of_event(1, MemoryChange::Entry(Box::new(entry)));
        write(&connection, OWNER, &[row]).unwrap();
        (connection, entry_id(OWNER, Place { seq: 1, n: 0 }))
    }

    /// The run of this number votes.
    fn vote(connection: &Connection, run: u64, entry: &str, quarters: i8) {
        let change = MemoryChange::Vote { entry: entry.to_owned(), quarters };
        write(connection, RunId(Uuid::from_u128(run.into())), &[of_event(1, change)]).unwrap();
    }

    fn relevance(connection: &Connection) -> f64 {
        connection.query_row("SELECT relevance_score FROM memory_entries", [], |row| row.get(0)).unwrap()
    }

    /// The steps that SQLite takes meanwhile.
    fn steps(connection: &mut Connection, work: impl FnOnce(&Connection)) -> u64 {
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let counts = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(counts)).unwrap();
        work(connection);
        connection.progress_handler(0, None::<fn() -> bool>).unwrap();
        steps.load(Ordering::Relaxed)
    }

    #[test]
    fn a_vote_costs_the_same_however_many_came_before_it_and_so_does_taking_it_back() {
        let costs = |votes: u64| {
            let (mut connection, entry) = with_an_entry();
            (1..=votes).for_each(|run| vote(&connection, run, &entry, if run % 2 == 0 { 1 } else { -1 }));
            let comes = steps(&mut connection, |connection| vote(connection, votes + 1, &entry, 2));
            assert_eq!(relevance(&connection).to_bits(), 1.5_f64.to_bits());
            let last = RunId(Uuid::from_u128(u128::from(votes + 1)));
            let goes = steps(&mut connection, |connection| remove(connection, last).unwrap());
            assert_eq!(relevance(&connection).to_bits(), 1.0_f64.to_bits());
            (comes, goes)
        };
        let (few, many) = (costs(10), costs(1_000));
        assert!(many.0 <= few.0 + few.0 / 4, "{many:?} steps, and {few:?}");
        assert!(many.1 <= few.1 + few.1 / 4, "{many:?} steps, and {few:?}");
    }

    #[test]
    fn votes_from_before_there_were_sums_count() {
        let (connection, entry) = with_an_entry();
        (1..=6).for_each(|run| vote(&connection, run, &entry, 1));
        connection.execute("DELETE FROM memory_votes", []).unwrap();
        vote(&connection, 7, &entry, 1);
        assert_eq!(relevance(&connection).to_bits(), 2.75_f64.to_bits());
        connection.execute("DELETE FROM memory_votes", []).unwrap();
        remove(&connection, RunId(Uuid::from_u128(3))).unwrap();
        assert_eq!(relevance(&connection).to_bits(), 2.5_f64.to_bits());
    }

    #[test]
    fn a_sum_goes_with_the_last_vote() {
        let (connection, entry) = with_an_entry();
        let sums = || -> u32 {
            connection.query_row("SELECT count(*) FROM memory_votes", [], |row| row.get(0)).unwrap()
        };
        (1..=2).for_each(|run| vote(&connection, run, &entry, 1));
        assert_eq!(sums(), 1);
        (1..=2).for_each(|run| remove(&connection, RunId(Uuid::from_u128(run))).unwrap());
        assert_eq!(sums(), 0);
    }
}
