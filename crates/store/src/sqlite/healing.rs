//! What a failed sync leaves behind.
//!
//! After it the system takes for written what it could not write, so that no later sync writes it: whoever reads the file
//! finds what was written, and the disk does not have it. Commits after such a hole in the write-ahead log would be lost
//! with it, though their own syncs end well; so would pages of the database that a checkpoint had copied, once the log is
//! begun anew. So what may be missing is written again, byte for byte, and synced, before anything rests on it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::path::Path;

use rusqlite::Connection;

use super::error::{failed, io_failed};
use crate::port::StoreError;

const LOG_AGAIN: &str = "write the write-ahead log again";
/// Bytes that are written again at a time.
const PIECE: usize = 1 << 20;
/// The bytes before the first frame of the log, and those before each page in it.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// Writes the write-ahead log again, if there is one. Nobody appends to it or begins it anew meanwhile.
pub(super) fn log_again(connection: &Connection, log: &Path) -> Result<(), StoreError> {
    if !log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed(LOG_AGAIN))?;
    let written = whole_again(log);
    connection.execute_batch("ROLLBACK").map_err(failed(LOG_AGAIN))?;
    written.map_err(io_failed(LOG_AGAIN))
}

fn whole_again(path: &Path) -> io::Result<()> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    loop {
        file.seek(SeekFrom::Start(at))?;
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => piece.get(..read?).unwrap_or_default(),
        };
        if read.is_empty() {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(read)?;
        at += read.len() as u64;
    }
}

/// The file of the database, opened once. It is never closed: the locks that this process has on the database would go with any
/// descriptor of it that is.
#[derive(Default)]
pub(super) struct DatabaseFile(Option<ManuallyDrop<File>>);

impl DatabaseFile {
    /// Writes those pages of the database again that the log has in some version. Nobody may write a checkpoint meanwhile.
    pub(super) fn pages_again(&mut self, database: &Path, log: &Path) -> io::Result<()> {
        let file = match self.0.take() {
            Some(file) => file,
            None => ManuallyDrop::new(File::options().read(true).write(true).open(database)?),
        };
        every_page_again(self.0.insert(file), log)
    }
}

fn every_page_again(file: &mut File, log: &Path) -> io::Result<()> {
    let (bytes, pages) = pages_in(log)?;
    let length = file.metadata()?.len();
    let mut page = vec![0; bytes];
    for number in pages {
        let at = u64::from(number).saturating_sub(1) * bytes as u64;
        if at + bytes as u64 <= length {
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut page)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&page)?;
        }
    }
    file.sync_all()
}

/// The size of a page, and the numbers of the pages in the log, also in what is left of an earlier one.
fn pages_in(log: &Path) -> io::Result<(usize, BTreeSet<u32>)> {
    let mut log = io::BufReader::with_capacity(PIECE, File::open(log)?);
    let mut header = [0; LOG_HEADER];
    let mut pages = BTreeSet::new();
    if !is_read(&mut log, &mut header)? {
        return Ok((0, pages));
    }
    // The size of a page is a big-endian number of four bytes.
    let bytes = header.iter().skip(8).take(4).fold(0, |number, byte| number << 8 | usize::from(*byte));
    if !PAGE_SIZES.contains(&bytes) {
        return Ok((0, pages));
    }
    let mut frame = vec![0; FRAME_HEADER + bytes];
    while is_read(&mut log, &mut frame)? {
        if let Some(number) = frame.first_chunk() {
            pages.insert(u32::from_be_bytes(*number));
        }
    }
    Ok((bytes, pages))
}

/// Fills the buffer; false at the end of the file.
fn is_read(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::SqliteOptions;
    use crate::sqlite::connection::open_writing;

    #[test]
    fn what_is_written_again_is_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (database, log) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        let connection = open_writing(&database, &SqliteOptions::default()).unwrap();
        let rows =
            "CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(2000000)); PRAGMA wal_checkpoint(PASSIVE);
                    UPDATE t SET x = randomblob(9000)";
        connection.execute_batch(rows).unwrap();
        let before = (std::fs::read(&database).unwrap(), std::fs::read(&log).unwrap());
        let (bytes, pages) = pages_in(&log).unwrap();
        assert_eq!(bytes, 4096);
        assert!(pages.len() > 480, "{pages:?}");
        let mut file = DatabaseFile::default();
        file.pages_again(&database, &log).unwrap();
        log_again(&connection, &log).unwrap();
        assert_eq!((std::fs::read(&database).unwrap(), std::fs::read(&log).unwrap()), before);
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn however_often_pages_are_written_again_the_file_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let (database, log) = (path.join("a.db"), path.join("a.db-wal"));
        let connection = open_writing(&database, &SqliteOptions::default()).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let opened = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|of| std::fs::read_link(of.path()).is_ok_and(|path| path == database)).count()
        };
        let before = opened();
        {
            let mut file = DatabaseFile::default();
            for _ in 0..3 {
                file.pages_again(&database, &log).unwrap();
                assert_eq!(opened(), before + 1);
            }
        }
        assert_eq!(opened(), before + 1, "no lock has gone with it");
    }

    #[test]
    fn the_log_is_written_again_though_nothing_of_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (database, log) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        let connection = open_writing(&database, &SqliteOptions::default()).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&log).unwrap().set_modified(long_ago).unwrap();
        let written = || log.metadata().unwrap().modified().unwrap();
        assert_eq!(written(), long_ago);
        log_again(&connection, &log).unwrap();
        assert_ne!(written(), long_ago);
    }
}
