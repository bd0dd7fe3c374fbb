//! Quick checks of a database when it is opened. Their cost does not depend on its size. Damage in the middle is found
//! by the first read that meets it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::{failed, io_failed};
use crate::port::StoreError;

const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The bytes before each page in the write-ahead log.
const FRAME_HEADER: u64 = 24;

/// Compares the length of the file with the length in its header.
///
/// Pages may be missing from the file as long as the write-ahead log has them. With a rollback journal beside it, the file was
/// being made when the power was cut, before it had a write-ahead log: SQLite takes back what there is of it.
pub(super) fn check_length(database: &Path) -> Result<(), StoreError> {
    let look = io_failed("look at the database file");
    let length = file_length(database).map_err(&look)?;
    let wal_length = file_length(&beside(database, "-wal")).map_err(&look)?;
    if wal_length == 0 && file_length(&beside(database, "-journal")).map_err(&look)? > 0 {
        return Ok(());
    }
    if length == 0 {
        // A database with a write-ahead log is never empty. SQLite would discard the log of an empty file.
        return if wal_length == 0 {
            Ok(())
        } else {
            corrupt("the file is empty, but its write-ahead log is not")
        };
    }
    let mut header = [0; HEADER];
    match File::open(database).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return corrupt("the file ends within its header");
        }
        Err(error) => return Err(look(error)),
    }
    if !header.starts_with(MAGIC) {
        return corrupt("the file is not an SQLite database");
    }
    let page = match number(&header, 16, 2) {
        1 => 65_536,
        bytes => bytes,
    };
    // The header's number of pages is valid only if it was written together with the change counter.
    let pages = number(&header, 28, 4);
    if page == 0 || number(&header, 24, 4) != number(&header, 92, 4) {
        return Ok(());
    }
    let in_wal = wal_length / (page + FRAME_HEADER);
    if length / page + in_wal < pages {
        return corrupt(&format!("the file has {} of its {pages} pages", length / page));
    }
    Ok(())
}

/// Reads the end of each table, which contains the newest rows.
pub(super) fn check_tables(connection: &Connection) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare(
            "SELECT (SELECT max(position) FROM log), (SELECT max(run) FROM runs), (SELECT max(key) FROM keys),
                (SELECT max(run) FROM log), (SELECT max(key) FROM run_labels), (SELECT max(shard) FROM shards),
                (SELECT max(name) FROM agents), (SELECT max(hash) FROM blobs), (SELECT max(id) FROM snapshots),
                (SELECT max(first) FROM eras), (SELECT max(run) FROM quarantined),
                (SELECT max(position) FROM earlier_checksums), (SELECT max(run) FROM derived),
                (SELECT max(run) FROM removing)",
        )
        .map_err(failed("probe the database"))?;
    statement.query_row([], |_| Ok(())).map_err(failed("probe the database"))
}

fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

fn file_length(path: &Path) -> std::io::Result<u64> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Reads a big-endian number from the header.
fn number(header: &[u8; HEADER], at: usize, length: usize) -> u64 {
    header.iter().skip(at).take(length).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn corrupt(detail: &str) -> Result<(), StoreError> {
    Err(StoreError::Corrupt { detail: detail.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_cut_off_while_it_was_made_is_sound_with_its_rollback_journal_alone() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("capataz.db");
        // The first sector of a page of 4,096 bytes, the only one; the change counter is the same in both places.
        let mut sector = [0_u8; 512];
        sector[..16].copy_from_slice(MAGIC);
        sector[16..18].copy_from_slice(&4_096_u16.to_be_bytes());
        sector[28..32].copy_from_slice(&1_u32.to_be_bytes());
        fs::write(&database, sector).unwrap();
        let detail = |checked: Result<(), StoreError>| match checked {
            Err(StoreError::Corrupt { detail }) => detail,
            other => panic!("{other:?}"),
        };
        assert_eq!(detail(check_length(&database)), "the file has 0 of its 1 pages");
        fs::write(beside(&database, "-journal"), [7; 512]).unwrap();
        assert!(check_length(&database).is_ok());
        fs::write(&database, [7; 12]).unwrap();
        assert!(check_length(&database).is_ok());
        // A file with a write-ahead log has no such journal any more, whatever lies there.
        fs::write(beside(&database, "-wal"), [7; 32]).unwrap();
        assert_eq!(detail(check_length(&database)), "the file ends within its header");
    }
}
