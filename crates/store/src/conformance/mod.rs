//! The rules of the port, each a function that panics if an adapter breaks the rule. All adapters share one suite:
//! [`conformance_suite!`](crate::conformance_suite) makes a test of each rule.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a rule that is broken is a test that fails"
)]

mod blobs;
mod build;
mod commit;
mod model;
mod reading;
mod recovery;
mod retention;
mod runs;

pub use blobs::*;
pub use build::*;
pub use commit::*;
pub use model::agrees_with_the_model;
pub use reading::*;
pub use recovery::*;
pub use retention::*;
pub use runs::*;

use crate::memory::MemoryStore;
use crate::port::{ShardId, Store};
use crate::sqlite::{SqliteOptions, SqliteStore};

/// The shard on which the rules are tested.
pub const SHARD: ShardId = ShardId(0);

/// An adapter under test with a place for its data.
pub trait Subject {
    type Adapter: Store + Clone;

    /// An empty store at a place of its own.
    fn fresh() -> Self;

    fn store(&self) -> Self::Adapter;

    /// The state that the next process finds if this one ends now. Stores and writers that were made before are not
    /// used again.
    fn reopened(self) -> Self;
}

/// [`MemoryStore`] as a subject.
#[derive(Debug)]
pub struct MemorySubject(MemoryStore);

impl Subject for MemorySubject {
    type Adapter = MemoryStore;

    fn fresh() -> Self {
        Self(MemoryStore::new())
    }

    fn store(&self) -> MemoryStore {
        self.0.clone()
    }

    fn reopened(self) -> Self {
        Self(self.0.checkpoint())
    }
}

/// [`SqliteStore`] in a temporary folder as a subject.
#[derive(Debug)]
pub struct SqliteSubject {
    store: SqliteStore,
    folder: tempfile::TempDir,
}

impl SqliteSubject {
    fn open(folder: tempfile::TempDir) -> Self {
        // The limit is small, so that checkpoints are part of every rule.
        let options = SqliteOptions { checkpoint_bytes: 64 << 10, known_runs: 4, ..SqliteOptions::default() };
        Self { store: SqliteStore::open(folder.path(), options).unwrap(), folder }
    }
}

impl Subject for SqliteSubject {
    type Adapter = SqliteStore;

    fn fresh() -> Self {
        Self::open(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }

    fn reopened(self) -> Self {
        let Self { store, folder } = self;
        drop(store);
        Self::open(folder)
    }
}

/// Makes a `#[test]` of each rule for a [`Subject`].
#[macro_export]
macro_rules! conformance_suite {
    ($subject:ty) => {
        $crate::conformance_suite!($subject:
            an_append_that_does_not_follow_is_a_conflict,
            a_malformed_append_is_a_conflict,
            a_run_is_created_once,
            a_taken_key_names_its_run,
            a_refusal_leaves_its_neighbours,
            joined_appends_stand_or_fall_together,
            appends_of_one_commit_see_each_other,
            an_older_epoch_is_fenced,
            epochs_grow,
            positions_grow_without_gaps,
            concurrent_readers_see_whole_commits_in_order,
            log_pages_are_bounded,
            run_pages_begin_where_asked,
            nothing_is_found_in_an_empty_store,
            the_run_list_shows_the_last_summary,
            listing_pages_newest_first,
            listing_filters_by_all_that_is_set,
            unfinished_runs_are_listed_until_they_finish,
            a_snapshot_replaces_the_earlier_one,
            agents_are_kept_until_forgotten,
            a_blob_is_read_in_parts,
            retention_by_age_takes_finished_runs_only,
            retention_by_size_takes_the_first_finished,
            retention_is_bounded,
            retention_leaves_what_is_in_use,
            retention_takes_all_of_a_run,
            keys_outlive_their_run,
            keys_go_before_their_run_where_asked,
            blobs_go_when_old_and_unreferenced,
            positions_are_not_used_again_after_retention,
            reopening_keeps_everything,
            a_commit_after_reopening_goes_on,
            agrees_with_the_model,
        );
    };
    ($subject:ty: $($rule:ident,)*) => {
        $(
            #[test]
            fn $rule() {
                $crate::conformance::$rule::<$subject>();
            }
        )*
    };
}
