//! Rows that follow from logs, in the data folder of a daemon that is not running: held against the logs, or made again.

use std::path::{Path, PathBuf};

use capataz_shard::rebuild::{self, Told, Totals};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{SqliteOptions, SqliteStore, StoreError};

use crate::SHARD;
use crate::lock::{DataLock, LockError};

/// Why a data folder was not looked through, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the database in {} could not be opened", data_dir.display())]
    Open {
        data_dir: PathBuf,
        #[source]
        source: StoreError,
    },
    /// What was told as mended is.
    #[error("the database in {} could not be looked through", data_dir.display())]
    Store {
        data_dir: PathBuf,
        #[source]
        source: StoreError,
    },
}

/// Holds the rows of a data folder against its logs, and writes again what does not follow, unless it is only to be
/// checked. A daemon can use the folder afterwards, and none can meanwhile.
///
/// # Errors
/// A daemon has the data folder; there is no database of this version in it; the database cannot be read or written.
pub fn rebuild(
    data_dir: &Path,
    only_check: bool,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Totals, RebuildError> {
    // The lock would make a folder that is not there.
    let has_database = data_dir.join(DATABASE_FILE).exists();
    let _lock = if has_database { Some(DataLock::take(data_dir)?) } else { None };
    let store = SqliteStore::open_as_it_is(data_dir, SqliteOptions::default())
        .map_err(|source| RebuildError::Open { data_dir: data_dir.to_owned(), source })?;
    let totals = match only_check {
        true => rebuild::check(&store, &[SHARD], tell),
        false => rebuild::rebuild(&store, SHARD, &mut capataz_runtime::draw, tell),
    };
    totals.map_err(|source| RebuildError::Store { data_dir: data_dir.to_owned(), source })
}
