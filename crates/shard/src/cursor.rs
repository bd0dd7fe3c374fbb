//! Cursors: where a subscriber goes on, whether this log is the one that its cursor speaks of, and whether anything behind
//! it was removed meanwhile.
//!
//! What was removed before a stream began was never promised to its subscriber, and what is kept may lie before it in the
//! log. So a stream that begins with the oldest event begins at position 0, and each of its cursors says what had been
//! removed by then.

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_store::{Bounds, History, Mark, Position, Removals, ShardId};
use prost::Message;

/// A place in a shard's order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// Every append up to this position was delivered.
    pub position: Position,
    /// The append that was delivered in part, where there is one, and how many of its events.
    pub partial: Position,
    pub sent: u32,
}

impl Cursor {
    /// The newest position that it speaks of.
    fn reaches(self) -> Position {
        self.position.max(self.partial)
    }

    /// Behind the append at this position.
    #[must_use]
    pub fn behind(position: Position) -> Self {
        Self { position, partial: Position(0), sent: 0 }
    }
}

/// Why a subscriber cannot go on after its cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unservable {
    /// Retention has removed events after the cursor. Whoever goes on after `works` gets all that was kept of them.
    #[error("events after the cursor were removed by retention")]
    TooOld { works: Placed },
    /// The cursor speaks of events that this log does not have: it is that of a copy, or of what was lost when the data
    /// was restored. `valid` is the newest place of this log that whoever has the cursor has seen for certain.
    #[error("the cursor is not of this daemon's history: its data is a copy, or was restored")]
    OtherHistory { valid: Placed },
}

/// A cursor as it leaves the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Placed {
    pub cursor: Cursor,
    /// The mark of the claim under which the newest of its positions was written.
    pub mark: Mark,
    /// What retention had removed when the stream of this cursor began: that was never promised to its subscriber.
    pub removals: Removals,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With what comes next.
    Now,
    /// With the oldest event that is kept.
    Oldest,
    After(Placed),
}

/// Where a reader begins, and what retention had removed at the beginning of its subscriber's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Start {
    pub cursor: Cursor,
    pub removals: Removals,
}

impl Begin {
    /// Where a subscriber begins. `of_one_run` says that it reads a single run, which is there: retention removes runs
    /// whole, so that of this one nothing is missing.
    ///
    /// # Errors
    /// It would miss events, or takes the log for another one.
    pub fn check(self, bounds: Bounds, history: &History, of_one_run: bool) -> Result<Start, Unservable> {
        let removals = bounds.removals;
        match self {
            Self::Now => Ok(Start { cursor: Cursor::behind(bounds.newest), removals }),
            // What is kept lies on both sides of what was removed.
            Self::Oldest if planted::is(Fault::KeptHistorySkipped) => {
                Ok(Start { cursor: Cursor::behind(bounds.removed), removals })
            }
            Self::Oldest => Ok(Start { cursor: Cursor::default(), removals }),
            Self::After(placed) => {
                placed.check(bounds, history, of_one_run)?;
                Ok(Start { cursor: placed.cursor, removals: placed.removals })
            }
        }
    }
}

impl Placed {
    /// The cursor as it may leave the daemon.
    #[must_use]
    pub fn new(cursor: Cursor, history: &History, removals: Removals) -> Self {
        Self { cursor, mark: history.mark_of(cursor.reaches()).unwrap_or(Mark::NONE), removals }
    }

    /// The bytes that a subscriber is given.
    #[must_use]
    pub fn encode(self, shard: ShardId) -> Bytes {
        let Self { cursor, mark, removals } = self;
        let position = v1::ShardPosition {
            shard: shard.0,
            position: cursor.position.0,
            partial: cursor.partial.0,
            sent: cursor.sent,
            mark: mark.0,
            removals: removals.0,
        };
        v1::CursorState { positions: vec![position] }.encode_to_vec().into()
    }

    /// The cursor that these bytes are; `None` where they are not a cursor of this shard.
    #[must_use]
    pub fn decode(bytes: &[u8], shard: ShardId) -> Option<Self> {
        let state = v1::CursorState::decode(bytes).ok()?;
        let [position] = state.positions.as_slice() else { return None };
        let cursor = Cursor {
            position: Position(position.position),
            partial: Position(position.partial),
            sent: position.sent,
        };
        let is_of_shard = position.shard == shard.0;
        is_of_shard.then_some(Self {
            cursor,
            mark: Mark(position.mark),
            removals: Removals(position.removals),
        })
    }

    fn check(self, bounds: Bounds, history: &History, of_one_run: bool) -> Result<(), Unservable> {
        let Self { cursor, mark, removals } = self;
        let works = |cursor| Self::new(cursor, history, bounds.removals);
        let reaches = cursor.reaches();
        let missed = !of_one_run && is_missed(cursor, removals, bounds);
        if reaches <= bounds.newest && (self.is_of(history) || planted::is(Fault::MarkNotChecked)) {
            return match missed {
                true => Err(Unservable::TooOld { works: works(cursor) }),
                false => Ok(()),
            };
        }
        // What was written here under its mark, and before, is what it speaks of.
        let era = history.eras().iter().find(|era| era.mark == mark);
        if era.is_none() && missed && history.mark_of(reaches).is_none() {
            // Nobody knows any more what was written there, so that it may have seen anything.
            return Err(Unservable::TooOld { works: works(Cursor::default()) });
        }
        let common = era.map(|era| era.last.unwrap_or(bounds.newest).min(bounds.newest));
        let seen = common.map_or(Position(0), |common| common.min(cursor.position));
        Err(Unservable::OtherHistory { valid: works(Cursor::behind(seen)) })
    }

    /// Whether its positions are of this history. A cursor without a mark may be behind what was forgotten here.
    fn is_of(self, history: &History) -> bool {
        let reaches = self.cursor.reaches();
        let is_forgotten = self.mark == Mark::NONE && history.mark_of(reaches).is_none();
        history.contains(self.mark, reaches) || is_forgotten
    }
}

/// Whether somebody who goes on after the cursor misses what was there when its stream began: retention has removed
/// something since, and something behind the cursor.
pub(crate) fn is_missed(cursor: Cursor, removals: Removals, bounds: Bounds) -> bool {
    cursor.position < bounds.removed
        && removals != bounds.removals
        && !planted::is(Fault::RemovedEventsSkipped)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use capataz_store::Era;

    use super::*;

    /// Claims with the marks 7, 8 and 9, before the positions 1, 11 and 21; 25 is the newest.
    fn history() -> History {
        let mut history = History::default();
        for (mark, newest) in [(7, 0), (8, 10), (9, 20)] {
            history.begin(Mark(mark), Position(newest)).unwrap();
        }
        history
    }

    const NOW: Removals = Removals(5);

    fn at(mark: u32, cursor: Cursor, removals: Removals) -> Placed {
        Placed { cursor, mark: Mark(mark), removals }
    }

    fn bounds(removed: u64) -> Bounds {
        Bounds { newest: Position(25), removed: Position(removed), removals: NOW, bytes: 0 }
    }

    /// The check of a cursor whose stream began before anything was removed.
    fn check(mark: u32, cursor: Cursor, removed: u64) -> Result<Cursor, Unservable> {
        check_placed(at(mark, cursor, Removals::default()), removed)
    }

    fn check_placed(placed: Placed, removed: u64) -> Result<Cursor, Unservable> {
        Begin::After(placed).check(bounds(removed), &history(), false).map(|start| {
            assert_eq!(start.removals, placed.removals);
            start.cursor
        })
    }

    fn behind(position: u64) -> Cursor {
        Cursor::behind(Position(position))
    }

    #[track_caller]
    fn refused(mark: u32, cursor: Cursor, removed: u64) -> Placed {
        match check(mark, cursor, removed) {
            Err(Unservable::OtherHistory { valid }) => {
                assert_eq!(check_placed(valid, removed), Ok(valid.cursor), "what works, works");
                valid
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cursor_of_this_history_goes_on_where_it_was() {
        for (mark, position) in [(7, 1), (7, 10), (8, 11), (9, 21), (9, 25)] {
            let cursor = behind(position);
            assert_eq!(Placed::new(cursor, &history(), NOW), at(mark, cursor, NOW));
            assert_eq!(check(mark, cursor, 0), Ok(cursor));
        }
        assert_eq!(
            check(0, Cursor::default(), 0),
            Ok(Cursor::default()),
            "before everything, nothing was seen"
        );
    }

    #[test]
    fn a_stream_begins_with_the_oldest_event_that_is_kept_whatever_was_removed() {
        let start = |begin: Begin| begin.check(bounds(12), &history(), false);
        assert_eq!(start(Begin::Oldest), Ok(Start { cursor: Cursor::default(), removals: NOW }));
        assert_eq!(start(Begin::Now), Ok(Start { cursor: behind(25), removals: NOW }));
        // A cursor that is handed out on the way works as long as nothing more is removed.
        for position in [0, 3, 11, 12] {
            let placed = Placed::new(behind(position), &history(), NOW);
            assert_eq!(check_placed(placed, 12), Ok(behind(position)));
        }
    }

    #[test]
    fn a_cursor_of_a_copy_is_refused_with_the_last_place_that_both_have() {
        // The copy went on under the mark 8 after position 20, or under one that nobody here knows.
        assert_eq!(refused(8, behind(23), 0).cursor, behind(20));
        assert_eq!(refused(6, behind(23), 0).cursor, Cursor::default());
        assert_eq!(refused(6, behind(3), 0).cursor, Cursor::default());
        // Under the mark of the present claim, more than there is.
        assert_eq!(refused(9, behind(26), 0).cursor, behind(25));
        // A part of what lies ahead was seen, and of what lies between, nothing.
        let partial = Cursor { position: Position(14), partial: Position(22), sent: 1 };
        assert_eq!(refused(8, partial, 0).cursor, behind(14));
        // What is kept in spite of retention may be new to it.
        assert_eq!(refused(6, behind(23), 15).cursor, Cursor::default());
        assert_eq!(refused(6, behind(5), 12).cursor, Cursor::default());
    }

    #[test]
    fn a_cursor_is_too_old_where_something_behind_it_was_removed_since_and_is_told_what_works() {
        for cursor in [behind(0), behind(5), Cursor { position: Position(5), partial: Position(7), sent: 2 }]
        {
            let mark = if cursor.position == Position(0) { 0 } else { 7 };
            let works = at(mark, cursor, NOW);
            assert_eq!(
                check(mark, cursor, 12),
                Err(Unservable::TooOld { works }),
                "nobody repeats what was seen"
            );
            assert_eq!(check_placed(works, 12), Ok(cursor));
        }
        assert_eq!(check(8, behind(12), 12), Ok(behind(12)), "all that was removed lies before it");
    }

    #[test]
    fn a_cursor_of_one_run_is_never_too_old_while_the_run_is_there() {
        let start = |mark, cursor| {
            Begin::After(at(mark, cursor, Removals::default())).check(bounds(12), &history(), true)
        };
        assert_eq!(start(7, behind(5)).map(|start| start.cursor), Ok(behind(5)));
        assert!(
            matches!(start(6, behind(5)), Err(Unservable::OtherHistory { .. })),
            "unless it is of another history"
        );
    }

    #[test]
    fn where_a_cursor_lies_in_what_was_forgotten_all_that_is_kept_works() {
        let mut history = History::new(vec![era(8, 11, Some(20)), era(9, 21, None)]);
        let check =
            |placed: Placed, history: &History| Begin::After(placed).check(bounds(12), history, false);
        let Err(Unservable::TooOld { works }) = check(at(7, behind(5), Removals::default()), &history) else {
            panic!("nobody knows what it has seen");
        };
        assert_eq!(works, at(0, Cursor::default(), NOW));
        assert_eq!(check(works, &history).map(|start| start.cursor), Ok(Cursor::default()));
        // What was handed out where nobody knows the claim any more goes on there.
        let placed = Placed::new(behind(5), &history, NOW);
        assert_eq!(placed.mark, Mark::NONE);
        assert_eq!(check(placed, &history).map(|start| start.cursor), Ok(behind(5)));
        history.begin(Mark(10), Position(25)).unwrap();
        assert_eq!(check(placed, &history).map(|start| start.cursor), Ok(behind(5)));
    }

    fn era(mark: u32, first: u64, last: Option<u64>) -> Era {
        Era { mark: Mark(mark), first: Position(first), last: last.map(Position) }
    }
}
