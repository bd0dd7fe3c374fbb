//! [`SqliteStore`]: the embedded adapter, one database file and a folder of blobs.
//!
//! All writes go through one connection behind [`gate::Gate`], so that they never wait for each other inside SQLite.
//! Reads have connections of their own and never block the writer. Checkpoints run on a separate thread
//! ([`maintenance`]). There is one shard, [`SqliteStore::SHARD`].
//!
//! The file never shrinks; space that retention frees is reused.

pub mod backup;
mod blobs;
mod checksums;
mod connection;
mod derived;
mod eras;
mod error;
mod gate;
mod healing;
mod keys;
mod labels;
mod maintenance;
mod past;
mod probe;
mod reader;
mod remembered;
mod removing;
mod retention;
mod schema;
mod tails;
mod writer;

use std::fmt;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::folders;
use crate::port::{
    self, AgentRow, BlobHash, Bounds, Derived, DerivedRow, Extent, FoundEntry, History, KeyRow, LogRow, Mark,
    MemoryOf, MemoryPage, MemorySearch, Millis, Place, Position, Quarantine, Recall, RunId, RunQuery, RunRow,
    ShardId, ShardWriter, Snapshot, Store, StoreError, Unfinished,
};
use blobs::Blobs;
pub use checksums::Migrated;
use gate::Gate;
use maintenance::{Gauge, Maintenance};
use reader::Readers;

/// The name of the database file in the data folder.
pub const DATABASE_FILE: &str = "capataz.db";

/// The options of the store. The defaults suit a daemon.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The maximum wait for another process that holds the database.
    pub busy_timeout: Duration,
    /// The growth of the write-ahead log, in bytes, after which a checkpoint starts.
    pub checkpoint_bytes: u64,
    /// The size of the write-ahead log's file above which the file is truncated while it is not in use.
    pub wal_limit_bytes: u64,
    /// The page cache of the writer; each reader has a quarter of it. Memory mapping is not used, because a failing
    /// disk would end the process instead of the call, and the system's own cache serves as well.
    pub cache_bytes: u64,
    /// The number of reading connections that are kept open between reads: as many as read at once, because one that is opened
    /// reads the whole schema first.
    pub idle_readers: usize,
    /// The number of runs whose last event the writer remembers, to save a query. At most twice as many are kept.
    pub known_runs: usize,
    /// The maximum number of rows in one transaction of a migration.
    pub migration_rows: u32,
    /// The maximum number of pages (of 4 KiB), with which tests simulate a full disk.
    pub max_pages: Option<u32>,
    /// Whether nobody changes the database while it is open, so that it is read as it lies there, also where nothing can be
    /// written: nothing is locked, and nothing is made beside it. What only a write-ahead log has is not seen. For
    /// [`SqliteStore::open_as_it_is`] and [`backup::verify_with`]; whatever would write fails.
    pub immutable: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            checkpoint_bytes: 8 << 20,
            wal_limit_bytes: 64 << 20,
            cache_bytes: 16 << 20,
            idle_readers: 12,
            known_runs: 32_768,
            migration_rows: 2_000,
            max_pages: None,
            immutable: false,
        }
    }
}

/// A store in a data folder. Clones share their connections. Dropping the last clone or writer closes the files.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    // This field is dropped first, because its thread uses the gate. Where nobody writes, there is none.
    _maintenance: Option<Maintenance>,
    readers: Readers,
    gate: Arc<Gate>,
    blobs: Blobs,
    known_runs: usize,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteStore").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// The only shard of the embedded store. No other shard can be claimed, and reads of other shards find nothing.
    pub const SHARD: ShardId = ShardId(0);

    /// Opens the database in the data folder. It makes both if they are missing, and migrates an older format.
    ///
    /// The time does not depend on the size of the database, because the database is probed and not checked as a whole;
    /// only the first opening of an older format takes longer ([`SqliteStore::open_with_progress`]).
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for the format of a newer version; [`StoreError::Corrupt`] for a file that is not a
    /// database of this program, or whose end is missing; [`StoreError::Io`] if the folder cannot be written.
    pub fn open(folder: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with_progress(folder, options, &mut |_| ControlFlow::Continue(()))
    }

    /// Opens a database that is there and has the format of this version. Nothing is made and nothing is migrated.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`], and [`StoreError::Io`] for a folder without a database, and for one of an older
    /// format, or whose migration is not complete.
    pub fn open_as_it_is(folder: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE_FILE);
        probe::check_length(&database)?;
        schema::refuse_to_migrate(&database, &options)?;
        if options.immutable {
            return Self::open_immutable(folder, database, options);
        }
        Self::open(folder, options)
    }

    fn open_immutable(folder: &Path, database: PathBuf, options: SqliteOptions) -> Result<Self, StoreError> {
        let shared = Shared {
            folder: folder.to_owned(),
            _maintenance: None,
            blobs: Blobs::only_read(folder),
            readers: Readers::new(database.clone(), &options),
            known_runs: options.known_runs,
            gate: Arc::new(Gate::shut(database, options)?),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens the database like [`SqliteStore::open`], and tells `progress` of each step of a migration that takes time,
    /// once the step is durable. A migration that is interrupted, also by `progress`, goes on where it stood when the
    /// database is opened again; until it is complete, no version can use the database.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`], and [`StoreError::Closed`] if `progress` stops the migration.
    pub fn open_with_progress(
        folder: &Path,
        options: SqliteOptions,
        progress: &mut dyn FnMut(Migrated) -> ControlFlow<()>,
    ) -> Result<Self, StoreError> {
        folders::make(folder).map_err(error::io_failed("make the data folder"))?;
        let database = folder.join(DATABASE_FILE);
        let _making = look_before_opening(folder, &database)?;
        let gauge = Arc::new(Gauge::new(&options));
        let mut open = || Gate::open(database.clone(), options.clone(), Arc::clone(&gauge), progress);
        // SQLite takes one read that fails (EIO) for damage.
        let gate = match open() {
            Err(StoreError::Corrupt { .. }) => open(),
            opened => opened,
        };
        let gate = Arc::new(gate?);
        let maintenance = Maintenance::start(&database, &options, gauge, Arc::clone(&gate))?;
        let shared = Shared {
            folder: folder.to_owned(),
            _maintenance: Some(maintenance),
            blobs: Blobs::open(folder)?,
            readers: Readers::new(database, &options),
            gate,
            known_runs: options.known_runs,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Looks at what there is before SQLite does. A database that is not made yet is made by one at a time: by whoever has the lock
/// that this returns.
fn look_before_opening(folder: &Path, database: &Path) -> Result<Option<File>, StoreError> {
    let mut making = None;
    if probe::is_empty(database)? || probe::is_unmade(database)? {
        // Where there are no locks, nobody has one, and nothing is taken away.
        making = File::open(folder).and_then(|folder| folder.lock().map(|()| folder)).ok();
    }
    // Whoever had the lock before may have made it.
    if !probe::is_unmade(database)? {
        probe::check_length(database)?;
    } else if making.is_some() {
        probe::remove_log_of_unmade(database)?;
    }
    Ok(making)
}

impl Store for SqliteStore {
    fn claim(&self, shard: ShardId, mark: Mark) -> Result<Box<dyn ShardWriter>, StoreError> {
        if shard != Self::SHARD {
            let source = format!("there is no shard {}: the embedded store has one", shard.0);
            return Err(StoreError::Io { operation: port::CLAIM, source: source.into() });
        }
        Ok(Box::new(writer::SqliteWriter::claim(Arc::clone(&self.shared), mark)?))
    }

    fn history(&self, shard: ShardId) -> Result<History, StoreError> {
        if shard != Self::SHARD {
            return Ok(History::default());
        }
        self.shared.readers.history()
    }

    fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        if shard != Self::SHARD {
            return Ok(Vec::new());
        }
        self.shared.readers.read_log(after, max_rows, max_bytes)
    }

    fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.shared.readers.read_run(run, after_seq, max_rows, max_bytes)
    }

    fn extent(&self, run: RunId, seq: u64) -> Result<Option<Extent>, StoreError> {
        self.shared.readers.extent(run, seq)
    }

    fn bounds(&self, shard: ShardId) -> Result<Bounds, StoreError> {
        if shard != Self::SHARD {
            return Ok(Bounds::default());
        }
        self.shared.readers.bounds()
    }

    fn readings(&self, shard: ShardId) -> Result<Option<Bytes>, StoreError> {
        if shard != Self::SHARD {
            return Ok(None);
        }
        self.shared.readers.readings()
    }

    fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.shared.readers.get_run(run)
    }

    fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.shared.readers.list_runs(query)
    }

    fn listing_floor(&self, query: &RunQuery, runs: u32) -> Result<Option<RunId>, StoreError> {
        self.shared.readers.listing_floor(query, runs)
    }

    fn unfinished(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        if shard != Self::SHARD {
            return Ok(Vec::new());
        }
        self.shared.readers.unfinished(after, limit)
    }

    fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.shared.readers.snapshot(run)
    }

    fn quarantined(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Quarantine)>, StoreError> {
        if shard != Self::SHARD {
            return Ok(Vec::new());
        }
        self.shared.readers.quarantined(after, limit)
    }

    fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Result<Vec<DerivedRow>, StoreError> {
        self.shared.readers.derived(kind, key, after, limit)
    }

    fn key(&self, shard: ShardId, key: &[u8]) -> Result<Option<KeyRow>, StoreError> {
        if shard != Self::SHARD {
            return Ok(None);
        }
        self.shared.readers.key(key)
    }

    fn keys(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, RunId)>, StoreError> {
        if shard != Self::SHARD {
            return Ok(Vec::new());
        }
        self.shared.readers.keys(after, limit)
    }

    fn keys_removed(&self, shard: ShardId) -> Result<Option<RunId>, StoreError> {
        if shard != Self::SHARD {
            return Ok(None);
        }
        self.shared.readers.keys_removed()
    }

    fn derived_of(&self, run: RunId, after: Option<Place>, limit: usize) -> Result<Vec<Derived>, StoreError> {
        self.shared.readers.derived_of(run, after, limit)
    }

    fn recall(&self, wanted: &Recall<'_>) -> Result<Vec<FoundEntry>, StoreError> {
        self.shared.readers.recall(wanted)
    }

    fn memories(&self, search: &MemorySearch) -> Result<MemoryPage, StoreError> {
        self.shared.readers.memories(search)
    }

    fn memory_entry(&self, id: &str) -> Result<Option<FoundEntry>, StoreError> {
        self.shared.readers.memory_entry(id)
    }

    fn is_forgotten(&self, id: &str) -> Result<bool, StoreError> {
        self.shared.readers.is_forgotten(id)
    }

    fn memory_of(&self, run: RunId) -> Result<MemoryOf, StoreError> {
        self.shared.readers.memory_of(run)
    }

    fn strays(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.shared.readers.strays(after, limit)
    }

    fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.shared.readers.agents()
    }

    fn put_blob(&self, content: &[u8], now: Millis) -> Result<BlobHash, StoreError> {
        self.shared.blobs.put(&self.shared.gate, content, now)
    }

    fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError> {
        self.shared.blobs.read(blob, offset, length)
    }

    fn renew_blobs(&self, blobs: &[BlobHash], now: Millis) -> Result<Vec<BlobHash>, StoreError> {
        self.shared.blobs.renew(&self.shared.gate, blobs, now)
    }

    fn blob_size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError> {
        self.shared.blobs.size(blob)
    }
}
