//! Rows that follow from logs, in the data folder of a daemon that is not running: held against the logs, or made again. And
//! the names that such a daemon would know.

use std::path::{Path, PathBuf};

use capataz_contracts::v1;
use capataz_policy::registry::Registry;
use capataz_shard::rebuild::{self, Told, Totals};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{SqliteOptions, SqliteStore, Store as _, StoreError};

use crate::lock::{DataLock, LockError};
use crate::{Config, SHARD, known_agents};

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
    let _lock = if has_database(data_dir) { Some(DataLock::take(data_dir)?) } else { None };
    let store = opened(data_dir)?;
    let totals = match only_check {
        true => rebuild::check(&store, &[SHARD], tell),
        false => rebuild::rebuild(&store, SHARD, &mut capataz_runtime::draw, tell),
    };
    totals.map_err(|source| RebuildError::Store { data_dir: data_dir.to_owned(), source })
}

fn has_database(data_dir: &Path) -> bool {
    data_dir.join(DATABASE_FILE).exists()
}

fn opened(data_dir: &Path) -> Result<SqliteStore, RebuildError> {
    SqliteStore::open_as_it_is(data_dir, SqliteOptions::default())
        .map_err(|source| RebuildError::Open { data_dir: data_dir.to_owned(), source })
}

/// Which of these names a daemon with this configuration would know: no daemon is started for it, and no folder made.
///
/// # Errors
/// A daemon has the data folder; its database is not of this version, or cannot be read.
pub fn check_names(
    config: &Config,
    names: &v1::CheckAgentsRequest,
) -> Result<v1::CheckAgentsResponse, RebuildError> {
    let configured = known_agents(config).into_iter().map(|known| (known.agent.name, known.agent.category));
    let mut registry = Registry {
        agents: configured.collect(),
        commands: config.commands.iter().cloned().collect(),
        resources: config.resources.iter().cloned().collect(),
    };
    let data_dir = &config.data_dir;
    if has_database(data_dir) {
        let _lock = DataLock::take(data_dir)?;
        // Workers that have served one name it until it is forgotten.
        let remembered = opened(data_dir)?.agents();
        let remembered =
            remembered.map_err(|source| RebuildError::Store { data_dir: data_dir.clone(), source })?;
        registry.agents.extend(remembered.into_iter().map(|agent| (agent.name, String::new())));
    }
    Ok(registry.check_all(&names.agents, &names.commands, &names.resources).to_proto())
}
