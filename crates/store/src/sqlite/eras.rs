//! The eras of the shard: a row for each claim under which something was written, and one for the newest claim.

use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{integer, unsigned};
use super::writer::cached;
use crate::port::{Mark, Position, Unmarked};

/// Begins the era of a claim; see [`crate::History::begin`], of which this is the same on a table.
pub(super) fn begin(
    connection: &Connection,
    mark: Mark,
    newest: Position,
) -> rusqlite::Result<Result<(), Unmarked>> {
    if mark == Mark::NONE {
        return Ok(Err(Unmarked::Zero));
    }
    let shard = SqliteStore::SHARD.0;
    cached(connection, "DELETE FROM eras WHERE shard = ? AND first > ?")?
        .execute(params![shard, integer(newest.0)])?;
    let known = cached(connection, "SELECT 1 FROM eras WHERE shard = ? AND mark = ?")?
        .exists(params![shard, mark.0])?;
    if known {
        return Ok(Err(Unmarked::Known));
    }
    cached(connection, "UPDATE eras SET last = ? WHERE shard = ? AND last IS NULL")?
        .execute(params![integer(newest.0), shard])?;
    cached(connection, "INSERT INTO eras (shard, first, mark) VALUES (?, ?, ?)")?.execute(params![
        shard,
        integer(newest.0.saturating_add(1)),
        mark.0
    ])?;
    Ok(Ok(()))
}

/// Forgets eras of which nothing is left, among the `batch` eras after `after`. Returns where the next sweep begins.
pub(super) fn sweep(connection: &Connection, after: Position, batch: u32) -> rusqlite::Result<Position> {
    let shard = SqliteStore::SHARD.0;
    let eras = cached(
        connection,
        "SELECT first, last IS NOT NULL AND last < (SELECT removed FROM shards WHERE shard = ?1)
             AND NOT EXISTS (SELECT 1 FROM log WHERE position BETWEEN eras.first AND eras.last)
         FROM eras WHERE shard = ?1 AND first > ?2 ORDER BY first LIMIT ?3",
    )?
    .query_map(params![shard, integer(after.0), batch], |row| {
        Ok((unsigned(row, 0)?, row.get::<_, bool>(1)?))
    })?
    .collect::<rusqlite::Result<Vec<_>>>()?;
    for (first, _) in eras.iter().filter(|(_, over)| *over) {
        cached(connection, "DELETE FROM eras WHERE shard = ? AND first = ?")?
            .execute(params![shard, integer(*first)])?;
    }
    Ok(match eras.last() {
        Some((first, _)) if eras.len() == batch as usize => Position(*first),
        None if batch == 0 => after,
        _ => Position(0),
    })
}
