//! The list of runs, in pages of bounded work: what matches little is looked for in several of them.

use std::collections::BTreeMap;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_contracts::validate::{self, NAME_MAX};
use capataz_shard::SESSION_LABEL;
use capataz_shard::projection::{CHILD, child_key};
use capataz_store::{DerivedRow, Millis, NamePattern, Place, RunId, RunQuery, RunRow, Store, StoreError};
use prost::Message;
use tonic::Status;

use crate::status;

/// Runs that one page looks at.
pub(super) const LOOKED_AT: u32 = 5_000;
/// Bytes of one answer, below gRPC's 4 MiB.
pub(super) const MAX_ANSWER_BYTES: usize = 3 * 1024 * 1024;
/// Children that are read at a time.
const READ: usize = 256;
/// A run is accepted soon after its id was drawn, by the same clock: what was drawn so long before a time was accepted before
/// it.
const ACCEPTED_WITHIN: Duration = Duration::from_hours(1);

/// Runs, and the token of the next page where there is one.
type Page = (Vec<RunRow>, Option<RunId>);

/// What the name of a run is to be like.
pub(super) fn name(wanted: Option<&str>) -> Result<Option<NamePattern>, Status> {
    match wanted {
        Some(name) if name.chars().nth(NAME_MAX).is_some() => {
            Err(status::invalid_field("name", "length", format!("at most {NAME_MAX} characters")))
        }
        wanted => Ok(wanted.map(NamePattern::new)),
    }
}

/// The labels that a run is to have, with the one by which the runs of a session are found.
pub(super) fn labels(
    mut labels: BTreeMap<String, String>,
    session: Option<String>,
) -> Result<BTreeMap<String, String>, Status> {
    if let Some(session) = session {
        let violations = validate::session(&session);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        labels.insert(SESSION_LABEL.to_owned(), session);
    }
    Ok(labels)
}

/// Whether runs of this status are among those that have no end, which are found without a look at the others.
pub(super) fn is_unfinished(status: Option<i32>) -> bool {
    let ended = [v1::RunStatus::Unspecified as i32, v1::RunStatus::Finished as i32];
    status.is_some_and(|status| !ended.contains(&status))
}

/// As many of the items as a page has room for, in number and in bytes, and one at least; and whether there are others.
pub(super) fn fitting<T: Message>(
    items: impl Iterator<Item = T>,
    most: usize,
    most_bytes: usize,
) -> (Vec<T>, bool) {
    let mut page = Vec::new();
    let mut bytes = 0_usize;
    for item in items {
        bytes = bytes.saturating_add(item.encoded_len());
        if page.len() >= most || (bytes > most_bytes && !page.is_empty()) {
            return (page, true);
        }
        page.push(item);
    }
    (page, false)
}

/// The runs that match, newest first.
pub(super) fn of_runs(store: &dyn Store, query: RunQuery, looked_at: u32) -> Result<Page, StoreError> {
    let floor = store.listing_floor(&query, looked_at)?;
    let oldest = query.since.and_then(drawn_before);
    // Below the time that is asked for there is nothing to go on with.
    let floor = floor.filter(|floor| oldest.is_none_or(|oldest| oldest < *floor));
    let size = query.limit as usize;
    let query = RunQuery { from: floor.or(oldest), limit: query.limit.saturating_add(1), ..query };
    let mut rows = store.list_runs(&query)?;
    if rows.len() <= size {
        return Ok((rows, floor));
    }
    rows.truncate(size);
    let next = rows.last().map(|row| row.run);
    Ok((rows, next))
}

/// The children of a run that match, oldest first, after the one that the query names.
pub(super) fn of_children(
    store: &dyn Store,
    parent: RunId,
    query: RunQuery,
    looked_at: u32,
) -> Result<Page, StoreError> {
    let mut rows: Vec<RunRow> = Vec::new();
    let mut after = query.before.map(|run| (run, LAST));
    let mut left = looked_at as usize;
    loop {
        let page = store.derived(CHILD, &child_key(parent), after, READ.min(left))?;
        let is_last = page.len() < READ.min(left);
        for DerivedRow { run, row } in page {
            left -= 1;
            if let Some(row) = store.get_run(run)?.filter(|row| query.matches(row)) {
                if rows.len() >= query.limit as usize {
                    let next = rows.last().map(|row| row.run);
                    return Ok((rows, next));
                }
                rows.push(row);
            }
            after = Some((run, row.place));
        }
        if is_last || left == 0 {
            let next = after.map(|(run, _)| run).filter(|_| !is_last);
            return Ok((rows, next));
        }
    }
}

/// Behind every row of a run.
const LAST: Place = Place { seq: i64::MAX.unsigned_abs(), n: u32::MAX };

/// An id before which no run was accepted at this time or later; `None` if that is none.
fn drawn_before(since: Millis) -> Option<RunId> {
    let since = u64::try_from(since.0).ok()?;
    let within = u64::try_from(ACCEPTED_WITHIN.as_millis()).ok()?;
    // The first 48 bits of an id are the time.
    let bits = u128::from(since.saturating_sub(within).min((1 << 48) - 1)) << 80;
    Some(RunId(uuid::Uuid::from_u128(bits)))
}

#[cfg(test)]
mod tests {
    use capataz_store::builders::{Shape, beginning};
    use capataz_store::{Mark, MemoryStore, Summary};

    use super::*;
    use crate::SHARD;

    /// An hour, in milliseconds.
    const HOUR: i64 = 3_600_000;

    /// A run whose id was drawn at the hour, and that was accepted a second after it.
    fn run(hour: i64) -> RunId {
        RunId(uuid::Uuid::from_u128(u128::try_from(hour * HOUR).unwrap() << 80 | 7))
    }

    /// Runs that were accepted in these hours, with their names; those with a parent are children of run 1.
    fn store(runs: &[(i64, &str)], has_parent: bool) -> MemoryStore {
        let store = MemoryStore::new();
        let mut writer = store.claim(SHARD, Mark(1)).unwrap();
        let creation = |(hour, name): &(i64, &str)| {
            let creation = beginning(run(*hour)).named(name).created_at(hour * HOUR + 1_000);
            let creation = creation.summary(Summary::default());
            if has_parent { creation.derives(CHILD, child_key(run(1))) } else { creation }
        };
        writer.commit(&runs.iter().map(creation).collect::<Vec<_>>()).unwrap();
        store
    }

    fn of(name: &str, limit: u32, before: Option<i64>) -> RunQuery {
        RunQuery { name: Some(NamePattern::new(name)), limit, before: before.map(run), ..RunQuery::default() }
    }

    #[track_caller]
    fn check(page: Result<Page, StoreError>, hours: &[i64], next: Option<i64>) {
        let (rows, token) = page.unwrap();
        let rows: Vec<RunId> = rows.into_iter().map(|row| row.run).collect();
        assert_eq!(rows, hours.iter().copied().map(run).collect::<Vec<_>>());
        assert_eq!(token, next.map(run));
    }

    const NAMES: [(i64, &str); 6] = [(2, "a"), (3, "b"), (4, "b"), (5, "b"), (6, "a"), (7, "a")];

    #[test]
    fn a_page_looks_at_so_many_runs_and_the_next_one_goes_on_there() {
        let store = store(&NAMES, false);
        // It is full, and one more is known of.
        check(of_runs(&store, of("a", 1, None), 9), &[7], Some(7));
        check(of_runs(&store, of("a", 2, None), 9), &[7, 6], Some(6));
        check(of_runs(&store, of("a", 3, None), 9), &[7, 6, 2], None);
        // It looked at 7, 6 and 5; then at 4, 3 and 2.
        check(of_runs(&store, of("a", 9, None), 3), &[7, 6], Some(5));
        check(of_runs(&store, of("a", 9, Some(5)), 3), &[2], Some(2));
        check(of_runs(&store, of("a", 9, Some(2)), 3), &[], None);
        // It looked at 5 and 4.
        check(of_runs(&store, of("a", 9, Some(6)), 2), &[], Some(4));
    }

    #[test]
    fn what_was_drawn_long_before_the_time_asked_for_is_not_looked_at() {
        let store = store(&NAMES, false);
        let since = |time| RunQuery { since: Some(Millis(time)), ..of("*", 9, None) };
        check(of_runs(&store, since(6 * HOUR + 1_000), 9), &[7, 6], None);
        check(of_runs(&store, since(6 * HOUR + 1_001), 9), &[7], None);
        check(of_runs(&store, since(6 * HOUR + 1_001), 1), &[7], Some(7));
        // It looked at 7 and 6; 5 was drawn more than an hour before.
        check(of_runs(&store, since(6 * HOUR + 1_001), 2), &[7], Some(6));
        check(of_runs(&store, RunQuery { before: Some(run(6)), ..since(6 * HOUR + 1_001) }, 1), &[], None);
        check(of_runs(&store, since(i64::MIN), 9), &[7, 6, 5, 4, 3, 2], None);
        check(of_runs(&store, since(i64::MAX), 9), &[], None);
    }

    #[test]
    fn a_page_of_children_looks_at_so_many_as_well() {
        let store = store(&NAMES, true);
        let page = |query, looked_at| of_children(&store, run(1), query, looked_at);
        check(page(of("a", 1, None), 9), &[2], Some(2));
        check(page(of("a", 2, Some(2)), 9), &[6, 7], None);
        check(page(of("a", 9, None), 4), &[2], Some(5));
        check(page(of("a", 9, Some(5)), 2), &[6, 7], Some(7));
        check(page(of("a", 9, Some(7)), 2), &[], None);
        check(of_children(&store, run(2), of("*", 9, None), 9), &[], None);
    }

    #[test]
    fn a_name_has_a_length_and_only_some_statuses_have_no_end() {
        assert!(name(Some(&"ñ".repeat(128))).is_ok_and(|name| name.is_some()));
        assert!(name(Some(&"ñ".repeat(129))).is_err());
        assert!(name(None).is_ok_and(|name| name.is_none()));
        let statuses =
            [None, Some(0), Some(v1::RunStatus::Waiting as i32), Some(v1::RunStatus::Finished as i32)];
        assert_eq!(statuses.map(is_unfinished), [false, false, true, false]);
    }
}
