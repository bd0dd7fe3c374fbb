//! Cursors: where a subscriber goes on, and whether this log is the one that its cursor speaks of.

use capataz_engine::planted::{self, Fault};
use capataz_store::{Bounds, History, Mark, Position};

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
    /// Retention has removed events after the cursor.
    #[error("events after the cursor were removed by retention")]
    TooOld { oldest: Placed },
    /// The cursor speaks of events that this log does not have: it is that of a copy, or of what was lost when the data
    /// was restored. `valid` is the newest place of this log that whoever has the cursor has seen for certain.
    #[error("the cursor is not of this daemon's history: its data is a copy, or was restored")]
    OtherHistory { valid: Placed },
}

/// A cursor with the mark of the claim under which the newest of its positions was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Placed {
    pub cursor: Cursor,
    pub mark: Mark,
}

impl Placed {
    /// The cursor as it may leave the daemon.
    #[must_use]
    pub fn new(cursor: Cursor, history: &History) -> Self {
        Self { cursor, mark: history.mark_of(cursor.reaches()).unwrap_or(Mark::NONE) }
    }

    /// Where a subscriber goes on, and at the default, begins.
    ///
    /// # Errors
    /// It would miss events, or takes the log for another one.
    pub fn check(self, bounds: Bounds, history: &History) -> Result<Cursor, Unservable> {
        let oldest = Cursor::behind(bounds.removed);
        let Self { cursor, mark } = self;
        if cursor == Cursor::default() {
            return Ok(oldest);
        }
        if cursor.position < bounds.removed {
            return Err(Unservable::TooOld { oldest: Self::new(oldest, history) });
        }
        let reaches = cursor.reaches();
        let is_ours = history.contains(mark, reaches) || planted::is(Fault::MarkNotChecked);
        if is_ours && reaches <= bounds.newest {
            return Ok(cursor);
        }
        // What was written here under its mark, and before, is what it speaks of.
        let era = history.eras().iter().find(|era| era.mark == mark);
        let common = era.map(|era| era.last.unwrap_or(bounds.newest).min(bounds.newest));
        let seen = common.map_or(Position(0), |common| common.min(cursor.position));
        let valid = Cursor::behind(seen.max(bounds.removed));
        Err(Unservable::OtherHistory { valid: Self::new(valid, history) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Claims with the marks 7, 8 and 9, before the positions 1, 11 and 21; 25 is the newest.
    fn history() -> History {
        let mut history = History::default();
        for (mark, newest) in [(7, 0), (8, 10), (9, 20)] {
            history.begin(Mark(mark), Position(newest)).unwrap();
        }
        history
    }

    fn check(mark: u32, cursor: Cursor, removed: u64) -> Result<Cursor, Unservable> {
        let bounds = Bounds { newest: Position(25), removed: Position(removed) };
        Placed { cursor, mark: Mark(mark) }.check(bounds, &history())
    }

    fn behind(position: u64) -> Cursor {
        Cursor::behind(Position(position))
    }

    #[track_caller]
    fn refused(mark: u32, cursor: Cursor, removed: u64) -> Placed {
        match check(mark, cursor, removed) {
            Err(Unservable::OtherHistory { valid }) => {
                assert_eq!(check(valid.mark.0, valid.cursor, removed), Ok(valid.cursor), "what works, works");
                valid
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cursor_of_this_history_goes_on_where_it_was() {
        for (mark, position) in [(7, 1), (7, 10), (8, 11), (9, 21), (9, 25)] {
            let cursor = behind(position);
            assert_eq!(Placed::new(cursor, &history()), Placed { cursor, mark: Mark(mark) });
            assert_eq!(check(mark, cursor, 0), Ok(cursor));
        }
        assert_eq!(check(0, Cursor::default(), 0), Ok(Cursor::default()), "the beginning is everybody's");
        assert_eq!(check(5, Cursor::default(), 12), Ok(behind(12)), "and lies behind what was removed");
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
        // What nobody can have any more is no place to go on.
        assert_eq!(refused(6, behind(23), 15).cursor, behind(15));
    }

    #[test]
    fn a_cursor_behind_the_floor_is_too_old_whatever_its_history() {
        for mark in [6, 7] {
            let oldest = Placed { cursor: behind(12), mark: Mark(8) };
            assert_eq!(check(mark, behind(5), 12), Err(Unservable::TooOld { oldest }));
        }
        assert_eq!(check(8, behind(12), 12), Ok(behind(12)));
    }
}
