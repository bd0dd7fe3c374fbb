//! Quick checks of a database when it is opened. Their cost does not depend on its size. Damage in the middle is found
//! by the first read that meets it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::{failed, io_failed};
use crate::folders;
use crate::port::StoreError;

const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The beginning of a rollback journal (SQLite's file format, section 3).
const JOURNAL_HEADER: usize = 28;
const JOURNAL_MAGIC: &[u8] = &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The bytes before each page in the write-ahead log.
const FRAME_HEADER: u64 = 24;

/// Whether the power was cut while the file was made: SQLite takes back what there is of it, and makes it anew.
///
/// That takes the journal of a database that had no page before, and a file of one page at most. SQLite syncs the one before it
/// writes the other, and what Capataz writes comes after both, to the write-ahead log: with its first sync the journal is gone
/// for good.
pub(super) fn is_unmade(database: &Path) -> Result<bool, StoreError> {
    let look = io_failed("look at the database file");
    let mut header = [0; JOURNAL_HEADER];
    match File::open(beside(database, "-journal")).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
            return Ok(false);
        }
        Err(error) => return Err(look(error)),
    }
    let [pages_before, page] = [16, 24].map(|at| number(&header, at, 4));
    let length = file_length(database).map_err(&look)?;
    Ok(header.starts_with(JOURNAL_MAGIC) && pages_before == 0 && length <= page)
}

/// Removes the write-ahead log of a database that [is unmade](is_unmade), for good, before SQLite has a look at it. SQLite would
/// remove the journal and then the log, with no sync of the folder between the two: a cut after which the one is gone and the
/// other is not leaves an empty file with a log, as does one failure of the disk. Nobody can tell that from a database that is lost.
///
/// Nothing that anybody was told of is in this log. Whatever is written to it counts once the log was synced, and its first sync is
/// one of the folder, after which no cut brings the journal back. Nor does a store open before it has synced the folder itself,
/// with the name of its blobs. Nobody else may be making the database meanwhile: that one's journal is there as well.
pub(super) fn remove_log_of_unmade(database: &Path) -> Result<(), StoreError> {
    let remove = || {
        for ending in ["-wal", "-shm"] {
            match fs::remove_file(beside(database, ending)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        database.parent().map_or(Ok(()), folders::sync)
    };
    remove().map_err(io_failed("begin the database anew"))
}

/// Whether there is nothing in the file, or no file.
pub(super) fn is_empty(database: &Path) -> Result<bool, StoreError> {
    file_length(database).map(|length| length == 0).map_err(io_failed("look at the database file"))
}

/// Compares the length of the file with the length in its header.
///
/// Pages may be missing from the file as long as the write-ahead log has them.
pub(super) fn check_length(database: &Path) -> Result<(), StoreError> {
    let look = io_failed("look at the database file");
    let length = file_length(database).map_err(&look)?;
    let wal_length = file_length(&beside(database, "-wal")).map_err(&look)?;
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
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Reads a big-endian number from the header.
fn number(header: &[u8], at: usize, length: usize) -> u64 {
    header.iter().skip(at).take(length).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn corrupt(detail: &str) -> Result<(), StoreError> {
    Err(StoreError::Corrupt { detail: detail.to_owned() })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore};

    /// The journal of a database that had so many pages of 4,096 bytes before, as SQLite writes it first: no page is in it.
    fn journal(pages: u32) -> Vec<u8> {
        let numbers = [0, 7, pages, 512, 4_096];
        let mut sector: Vec<u8> =
            JOURNAL_MAGIC.iter().copied().chain(numbers.map(u32::to_be_bytes).concat()).collect();
        sector.resize(512, 0);
        sector
    }

    /// The beginning of a database of so many pages of 4,096 bytes; the change counter is the same in both places.
    fn database(pages: u32, length: usize) -> Vec<u8> {
        let mut file = vec![0; length];
        file[..16].copy_from_slice(MAGIC);
        file[16..18].copy_from_slice(&4_096_u16.to_be_bytes());
        file[28..32].copy_from_slice(&pages.to_be_bytes());
        file
    }

    fn opened(file: &[u8], beside_it: &[(&str, &[u8])]) -> (TempDir, Result<SqliteStore, StoreError>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        fs::write(&path, file).unwrap();
        for (ending, bytes) in beside_it {
            fs::write(beside(&path, ending), bytes).unwrap();
        }
        let store = SqliteStore::open(folder.path(), SqliteOptions::default());
        (folder, store)
    }

    #[test]
    fn a_file_of_which_the_power_was_cut_while_it_was_made_is_made_anew() {
        let first = journal(0);
        for length in [0, 512, 4_096] {
            let file = if length == 0 { Vec::new() } else { database(1, length) };
            let (_folder, store) = opened(&file, &[("-journal", &first)]);
            assert!(store.is_ok(), "{length}: {store:?}");
            // The write-ahead log of the next step, of which nothing was synced.
            let (_folder, store) = opened(&file, &[("-journal", &first), ("-wal", &[0; 32])]);
            assert!(store.is_ok(), "{length}: {store:?}");
        }
    }

    /// SQLite removes the journal before it fails at such a log. With a log and without a journal, the empty file that it leaves
    /// counts as a database that is lost.
    #[test]
    fn a_file_is_made_anew_only_once_there_is_no_log_beside_it() {
        for length in [0, 4_096] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(DATABASE_FILE);
            let [log, index] = ["-wal", "-shm"].map(|ending| beside(&path, ending));
            fs::write(&path, &database(1, 4_096)[..length]).unwrap();
            fs::write(beside(&path, "-journal"), journal(0)).unwrap();
            fs::create_dir(&log).unwrap();
            for _ in 0..2 {
                let store = SqliteStore::open(folder.path(), SqliteOptions::default());
                assert!(matches!(store, Err(StoreError::Io { .. })), "{length}: {store:?}");
                assert!(is_unmade(&path).unwrap(), "{length}: all is as it was");
            }
            fs::remove_dir(&log).unwrap();
            fs::write(&log, [7_u8; 40_000]).unwrap();
            fs::write(&index, [7_u8; 32_768]).unwrap();
            remove_log_of_unmade(&path).unwrap();
            assert!(is_unmade(&path).unwrap() && !log.exists() && !index.exists(), "{length}");
            fs::write(&log, [7_u8; 40_000]).unwrap();
            SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_damaged_whatever_journal_lies_beside_it() {
        let (short, long) = (database(1, 512), database(10, 40_000));
        let (of_none, of_ten, other) = (journal(0), journal(10), vec![7; 512]);
        // A copy that was not finished has a journal of a database without pages, and more than one page.
        let cases: [(&[u8], &[u8]); 6] = [
            (&short, &[]),
            (&short, &of_ten),
            (&short, &other),
            (&long, &[]),
            (&long, &of_none),
            (&long, &other),
        ];
        for (case, (file, journal)) in cases.into_iter().enumerate() {
            let (folder, store) = opened(file, &[("-journal", journal)]);
            assert!(matches!(store, Err(StoreError::Corrupt { .. })), "{case}: {store:?}");
            assert_eq!(
                fs::read(folder.path().join(DATABASE_FILE)).unwrap(),
                file,
                "{case}: it stays as it is"
            );
        }
    }
}
