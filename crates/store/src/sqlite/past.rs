//! The past that a run takes over from another one: copies of its rows, and its claims on blobs.

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::error::integer;
use super::reader;
use super::removing::IS_THERE;
use super::writer::{SqliteWriter, cached, inserting};
use crate::checksum::Sealed;
use crate::port::{Past, RunId};

/// A row of a past.
pub(super) struct PastRow {
    first_seq: u64,
    count: u32,
    events: Bytes,
}

/// The rows of a past, in order; `None` where they are not there, are not whole, or do not end with its event.
pub(super) fn rows(connection: &Connection, past: Past) -> rusqlite::Result<Option<Vec<PastRow>>> {
    let mut statement = cached(
        connection,
        &format!(
            "SELECT {} FROM log WHERE run = ?1 AND first_seq <= ?2 AND {IS_THERE} ORDER BY first_seq",
            reader::LOG_COLUMNS
        ),
    )?;
    let mut found = statement.query(params![past.of.0.as_bytes(), integer(past.seq)])?;
    let (mut rows, mut next) = (Vec::new(), 1);
    while let Some(row) = found.next()? {
        let row = reader::log_row(row)?;
        let Some(events) = row.events.filter(|_| row.first_seq == next) else { return Ok(None) };
        next = next.saturating_add(row.count.into());
        rows.push(PastRow { first_seq: row.first_seq, count: row.count, events });
    }
    Ok((past.seq > 0 && next == past.seq.saturating_add(1)).then_some(rows))
}

impl SqliteWriter {
    /// Copies these rows of the past to the new run, and its claims on blobs.
    pub(super) fn inherit(
        &mut self,
        connection: &Connection,
        run: RunId,
        past: Past,
        rows: &[PastRow],
    ) -> rusqlite::Result<()> {
        let mut inserting = inserting(connection)?;
        for PastRow { first_seq, count, events } in rows {
            let (first_seq, count, position) = (*first_seq, *count, self.next_position());
            self.insert(
                &mut inserting,
                &Sealed { position, run, first_seq, count, events, inherited: true },
            )?;
        }
        cached(
            connection,
            "INSERT INTO blob_refs (run, hash) SELECT ?1, hash FROM blob_refs WHERE run = ?2",
        )?
        .execute(params![run.0.as_bytes(), past.of.0.as_bytes()])?;
        cached(
            connection,
            "UPDATE blobs SET refs = refs + 1 WHERE hash IN (SELECT hash FROM blob_refs WHERE run = ?)",
        )?
        .execute([run.0.as_bytes()])
        .map(drop)
    }
}
