//! The memory of execution modes: writes, as parts of the writer's transactions, and reads.

use std::collections::BTreeSet;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter};

use super::error::{integer, unsigned};
use super::reader::{Readers, run_id};
use super::writer::cached;
use crate::port::{
    FoundEntry, MemoryChange, MemoryEntry, MemoryOf, MemoryOrder, MemoryRow, MemorySearch, Millis, Place,
    Recall, RunId, StoreError, entry_id,
};
use crate::remembered::MEMORY_MODES;

const COLUMNS: &str = "entries.id, entries.run, entries.seq, entries.n, entries.relevance_score, entries.session_id,
    entries.context_mode, entries.type, entries.timestamp, entries.content, entries.digest, entries.context_tools,
    entries.context_files, entries.related_to";

/// What an entry's votes say.
const JUDGED: &str = "min(5.0, max(0.0, 1.0 +
    (SELECT total(quarters) FROM memory_marks WHERE memory_marks.entry = memory_entries.id) / 4.0))";

/// Writes the changes of a run, in their order.
pub(super) fn write(connection: &Connection, run: RunId, rows: &[MemoryRow]) -> rusqlite::Result<()> {
    for MemoryRow { place, change } in rows {
        match change {
            MemoryChange::Entry(entry) => insert(connection, run, *place, entry)?,
            MemoryChange::Vote { entry, quarters } => {
                mark(connection, run, *place, entry, Some(*quarters))?;
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
    let voted: BTreeSet<String> =
        cached(connection, "DELETE FROM memory_marks WHERE run = ? AND seq > ? RETURNING entry")?
            .query_map(params![run, seq], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
    voted.iter().try_for_each(|entry| judge(connection, entry))
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
    let voted = cached(connection, "SELECT EXISTS (SELECT 1 FROM memory_marks WHERE entry = ?)")?
        .query_row([&id], |row| row.get(0))?;
    if voted { judge(connection, &id) } else { Ok(()) }
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

/// Writes how relevant the entry is, if it is there.
fn judge(connection: &Connection, entry: &str) -> rusqlite::Result<()> {
    let statement = format!("UPDATE memory_entries SET relevance_score = {JUDGED} WHERE id = ?");
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

/// The query that lists the entries of one mode, newest first.
pub(super) fn of_one_mode(search: &MemorySearch) -> String {
    let mut conditions = String::new();
    if search.kind.is_some() {
        conditions += " AND type = ?";
    }
    if search.after.is_some() {
        conditions += " AND (timestamp, id) < (?, ?)";
    }
    if search.text.is_some() {
        conditions += " AND instr(lower(content), lower(?)) > 0";
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

    pub(super) fn memories(&self, search: &MemorySearch) -> Result<Vec<FoundEntry>, StoreError> {
        let modes: Vec<&str> = match &search.mode {
            Some(mode) => vec![mode],
            None => MEMORY_MODES.to_vec(),
        };
        let statement = format!(
            "SELECT {COLUMNS} FROM ({}) AS found JOIN memory_entries AS entries ON entries.id = found.id
             ORDER BY found.timestamp DESC, found.id DESC LIMIT ?",
            all_of(&vec![of_one_mode(search); modes.len()])
        );
        let limit = integer(search.limit as u64);
        self.read("list memory", |connection| {
            let mut values: Vec<&dyn ToSql> = Vec::new();
            for mode in &modes {
                values.extend([&search.session as &dyn ToSql, mode]);
                values.extend(search.kind.as_ref().map(|kind| kind as &dyn ToSql));
                if let Some((at, id)) = &search.after {
                    values.extend([&at.0 as &dyn ToSql, id]);
                }
                values.extend(search.text.as_ref().map(|text| text as &dyn ToSql));
                values.push(&limit);
            }
            values.push(&limit);
            cached(connection, &statement)?.query_map(params_from_iter(values), found)?.collect()
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
                "SELECT id FROM memory_entries WHERE run = ? AND relevance_score IS NOT {JUDGED} ORDER BY id"
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
