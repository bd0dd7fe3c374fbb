//! Logs of work, as whoever looks at a terminal would read them, and the end of one that is still written.

use crate::v1::LogTail;

/// Bytes of a line that an end of a log holds.
pub const LINE_MAX: usize = 1024;
/// Bytes of the lines that an end of a log holds.
pub const TAIL_MAX: usize = 4 * 1024;

/// The lines of a log.
///
/// A carriage return begins its line anew, as progress bars do, and the one before a line break belongs to that.
pub fn lines(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    log.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit_once('\r').map_or(line, |(_, last)| last)
    })
}

/// The line as an end of a log holds it.
#[must_use]
pub fn shortened(line: &str) -> &str {
    line.get(..line.floor_char_boundary(LINE_MAX)).unwrap_or(line)
}

impl LogTail {
    /// Adds what was logged: one line, or several.
    pub fn push(&mut self, logged: &str) {
        for line in lines(logged) {
            self.lines = self.lines.saturating_add(1);
            self.text.push_str(shortened(line));
            self.text.push('\n');
            // Each byte moves once.
            if self.text.len() > 2 * TAIL_MAX {
                self.drop_first();
            }
        }
        self.drop_first();
    }

    /// The end of a log that somebody else has written: such that all that is promised of one is true.
    #[must_use]
    pub fn checked(self) -> Self {
        // What is more than may be held is not looked at.
        let looked_at = self.text.ceil_char_boundary(self.text.len().saturating_sub(2 * TAIL_MAX));
        let mut tail = Self::default();
        tail.push(self.text.get(looked_at..).unwrap_or_default());
        tail.lines = tail.lines.max(self.lines);
        tail
    }

    /// The lines after those that were seen, and how many of them are not here any more.
    #[must_use]
    pub fn after(&self, seen: u64) -> (u64, Vec<&str>) {
        let held = self.text.lines().count();
        let fresh = self.lines.saturating_sub(seen);
        let skipped = usize::try_from(fresh).map_or(0, |fresh| held.saturating_sub(fresh));
        (fresh.saturating_sub(held as u64), self.text.lines().skip(skipped).collect())
    }

    fn drop_first(&mut self) {
        let surplus = self.text.len().saturating_sub(TAIL_MAX);
        if surplus > 0 {
            let bytes = self.text.as_bytes();
            let end = bytes.iter().enumerate().find(|(at, byte)| **byte == b'\n' && at + 1 >= surplus);
            self.text.drain(..end.map_or(bytes.len(), |(at, _)| at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_a_terminal_shows() {
        let read: Vec<&str> = lines("one\r\n 1%\r 50%\r100%\r\n\nlast\rend").collect();
        assert_eq!(read, ["one", "100%", "", "end"]);
        assert_eq!(lines("").count(), 0);
    }

    #[test]
    fn whoever_looks_again_gets_what_is_new_and_the_number_of_what_was_missed() {
        let mut tail = LogTail::default();
        assert_eq!(tail.after(0), (0, vec![]));
        tail.push("one\ntwo");
        assert_eq!(tail.after(0), (0, vec!["one", "two"]));
        tail.push("three");
        assert_eq!(tail.after(2), (0, vec!["three"]));
        assert_eq!(tail.after(3), (0, vec![]));
        // Of another log, or of one that was begun anew: nothing is new.
        assert_eq!(tail.after(9), (0, vec![]));
        // 41 lines of 100 bytes do not fit into 4,096.
        for number in 0..41 {
            tail.push(&format!("{number:099}"));
        }
        let (missed, fresh) = tail.after(3);
        assert_eq!((tail.lines, missed, fresh.len(), tail.text.len()), (44, 1, 40, 4_000));
    }

    #[test]
    fn no_line_is_too_long_and_none_is_cut_within_a_character() {
        let mut tail = LogTail::default();
        tail.push(&"ñ".repeat(5_000));
        assert_eq!((tail.lines, tail.text.len()), (1, 1_025));
        tail.push(&format!("x{}", "ñ".repeat(5_000)));
        assert_eq!(tail.text.lines().map(str::len).collect::<Vec<_>>(), [1_024, 1_023]);
    }

    #[test]
    fn what_others_say_is_made_true() {
        let said = LogTail { lines: 1, text: "one\ntwo\r\nthree".to_owned() };
        assert_eq!(said.checked(), LogTail { lines: 3, text: "one\ntwo\nthree\n".to_owned() });
        let said = LogTail { lines: u64::MAX, text: "x\n".repeat(1_000_000) };
        let checked = said.checked();
        assert_eq!((checked.lines, checked.text.len()), (u64::MAX, TAIL_MAX));
    }
}
