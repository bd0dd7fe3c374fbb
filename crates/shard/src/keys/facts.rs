//! What the store says of a shard's keys.

use bytes::Bytes;
use capataz_store::{RunId, ShardId, Store, StoreError};

/// Keys that are read at a time.
pub(super) const PAGE: usize = 256;

/// What a shard wants to know of its keys.
#[derive(Clone, Debug)]
pub enum KeyQuery {
    /// Whether this run of the shard was ever made, under this key.
    Run { key: Bytes, run: RunId },
    /// The keys after this one.
    After(Option<Bytes>),
}

/// What the store says of a shard's keys.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum KeyFact {
    /// The store could not be read.
    Unread,
    /// The run was made, and the key names it.
    Made,
    NeverMade,
    /// The run was made and removed, or never made: nobody knows any more.
    Forgotten,
    Listed(Vec<(Vec<u8>, RunId)>),
}

/// Finds out what a shard wants to know of its keys.
#[must_use]
pub fn find_keys(store: &dyn Store, shard: ShardId, query: &KeyQuery) -> KeyFact {
    let found = match query {
        KeyQuery::Run { key, run } => fact_of(store, shard, key, *run),
        KeyQuery::After(after) => store
            .keys(shard, after.as_deref(), PAGE)
            .map(|keys| KeyFact::Listed(keys.into_iter().map(|(key, run)| (key.to_vec(), run)).collect())),
    };
    found.unwrap_or_else(|error| {
        tracing::error!(shard = shard.0, error = &error as &dyn std::error::Error, "keys cannot be read");
        KeyFact::Unread
    })
}

fn fact_of(store: &dyn Store, shard: ShardId, key: &[u8], run: RunId) -> Result<KeyFact, StoreError> {
    // In this order: a key that is removed in between is noticed.
    let row = store.key(shard, key)?;
    let removed = store.keys_removed(shard)?;
    let may_be_gone = removed.is_some_and(|greatest| run <= greatest);
    Ok(match row {
        Some(row) if row.run == run => KeyFact::Made,
        // The key names another run of this shard: it will never name this one here.
        Some(_) => KeyFact::Forgotten,
        None if may_be_gone => KeyFact::Forgotten,
        None => KeyFact::NeverMade,
    })
}
