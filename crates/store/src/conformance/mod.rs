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
mod derived;
mod histories;
mod keys;
mod model;
mod past;
mod quarantine;
mod reading;
mod recovery;
mod remembered;
mod retention;
mod runs;
mod whole;

pub use blobs::*;
pub use build::*;
pub use commit::*;
pub use derived::*;
pub use histories::*;
pub use keys::*;
pub use model::agrees_with_the_model;
pub use past::*;
pub use quarantine::*;
pub use reading::*;
pub use recovery::*;
pub use remembered::*;
pub use retention::*;
pub use runs::*;
pub use whole::*;

pub use crate::builders::*;
use crate::memory::MemoryStore;
use crate::port::{Derived, Position, RunId, ShardId, Store};
use crate::sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore};

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

    /// This place and a copy of it, as somebody makes who copies the data while nobody uses it.
    fn copied(self) -> (Self, Self)
    where
        Self: Sized;

    /// Damages the row at a position, without the store's knowledge. A second call makes it whole again.
    fn damage(&self, position: Position);

    /// Damages the snapshot of a run, if there is one. A second call makes it whole again.
    fn damage_snapshot(&self, run: RunId);

    /// Leaves a derived row there, without the store's knowledge.
    fn leave_derived(&self, run: RunId, row: &Derived);
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

    fn copied(self) -> (Self, Self) {
        let copy = Self(self.0.checkpoint());
        (self, copy)
    }

    fn damage(&self, position: Position) {
        self.0.damage(SHARD, position);
    }

    fn damage_snapshot(&self, run: RunId) {
        self.0.damage_snapshot(run);
    }

    fn leave_derived(&self, run: RunId, row: &Derived) {
        self.0.disturb_derived(run, row.place, Some(row.clone()));
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

    /// Changes the database behind the store's back.
    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) {
        let database = rusqlite::Connection::open(self.folder.path().join(DATABASE_FILE)).unwrap();
        database.busy_timeout(SqliteOptions::default().busy_timeout).unwrap();
        database.execute(sql, parameters).unwrap();
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

    fn copied(self) -> (Self, Self) {
        let Self { store, folder } = self;
        drop(store);
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(folder.path().join(DATABASE_FILE), copy.path().join(DATABASE_FILE)).unwrap();
        (Self::open(folder), Self::open(copy))
    }

    fn damage(&self, position: Position) {
        self.execute("UPDATE log SET checksum = ~checksum WHERE position = ?", [position.0.cast_signed()]);
    }

    fn damage_snapshot(&self, run: RunId) {
        self.execute("UPDATE snapshots SET checksum = ~checksum WHERE run = ?", [run.0.as_bytes()]);
    }

    fn leave_derived(&self, run: RunId, row: &Derived) {
        let Derived { place, kind, key, value } = row;
        let seq = place.seq.cast_signed();
        self.execute(
            "INSERT INTO derived (run, seq, n, kind, key, value) VALUES (?, ?, ?, ?, ?, ?)",
            rusqlite::params![run.0.as_bytes(), seq, place.n, kind, &key[..], &value[..]],
        );
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
            a_registered_key_names_its_run_and_is_nobodys_event,
            a_key_of_a_run_is_not_registered_for_another,
            a_registered_key_stays_until_it_is_released,
            a_change_of_a_key_has_nothing_else,
            retention_says_whose_keys_it_has_removed,
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
            listing_filters_by_name_time_and_end,
            a_listing_has_a_floor,
            unfinished_runs_are_listed_until_they_finish,
            a_run_rests_as_its_last_append_says,
            a_snapshot_replaces_the_earlier_one,
            agents_are_kept_until_forgotten,
            a_blob_is_read_in_parts,
            retention_by_age_takes_finished_runs_only,
            a_run_stays_while_a_run_that_it_names_is_unfinished,
            retention_by_size_takes_the_first_finished,
            retention_is_bounded,
            a_sweep_ends_at_its_bytes_and_takes_at_least_one_row,
            a_run_of_which_only_a_part_is_removed_is_there_for_nobody,
            a_large_run_that_somebody_removes_goes_in_parts,
            a_run_may_begin_anew_while_rows_of_its_namesake_are_left,
            what_was_removed_has_a_number_of_its_own,
            retention_leaves_what_is_in_use,
            a_sweep_looks_at_so_many_runs_and_says_where_to_go_on,
            a_sweep_that_ends_at_its_batch_says_where_to_go_on,
            retention_takes_all_of_a_run,
            keys_outlive_their_run,
            keys_go_before_their_run_where_asked,
            blobs_go_when_old_and_unreferenced,
            a_blob_that_is_renewed_is_as_young_as_one_that_is_put,
            positions_are_not_used_again_after_retention,
            reopening_keeps_everything,
            a_commit_after_reopening_goes_on,
            a_damaged_row_is_a_row_without_events,
            a_damaged_snapshot_is_none,
            a_damaged_run_is_removed_like_any_other,
            each_claim_begins_an_era,
            a_mark_is_drawn_once,
            copies_that_are_both_used_have_two_histories,
            an_earlier_state_that_is_restored_does_not_know_its_future,
            an_era_is_forgotten_when_nothing_is_left_of_it,
            each_sweep_looks_at_some_eras,
            a_run_is_quarantined_until_it_is_released,
            readings_are_kept_until_others_are_put_down,
            a_run_that_has_finished_or_is_quarantined_is_removed_by_itself,
            a_run_that_an_unfinished_one_needs_is_not_removed,
            quarantined_runs_are_listed_in_pages,
            a_quarantine_goes_with_its_run,
            derived_rows_are_durable_with_their_events,
            an_append_with_rows_of_other_events_is_a_conflict,
            derived_rows_are_found_by_kind_and_whole_key_in_pages,
            derived_rows_go_with_their_run,
            rows_that_are_written_again_replace_what_is_there,
            derived_rows_without_a_run_are_strays_until_they_are_mended,
            what_is_remembered_is_durable_with_its_event,
            memory_of_other_events_types_or_modes_is_a_conflict,
            recall_is_of_a_session_a_mode_types_and_a_time,
            the_most_relevant_is_recalled_first_and_equal_ones_by_their_ids,
            relevance_is_from_0_to_5_whatever_order_the_votes_have,
            what_was_forgotten_is_not_written_again,
            a_run_that_goes_back_takes_back_its_own_memory,
            memory_goes_with_its_run,
            what_is_forgotten_outlives_the_run_that_it_is_of,
            memory_that_is_written_again_replaces_what_is_there,
            memory_is_listed_newest_first_in_pages,
            a_search_of_memory_looks_at_so_many_entries_and_says_where_to_go_on,
            a_run_begins_with_the_log_of_another,
            a_past_is_measured_without_its_events,
            a_past_ends_with_a_whole_row_that_is_there,
            a_past_outlives_the_run_that_it_was,
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
