//! The end of what a failed task has logged, under the box of its failure.

use crate::frame::{columns, truncated, visible};
use crate::paint::{Paint, Tone};
use crate::words::{fill, words};

/// Lines that are shown of a log.
const MOST_LINES: usize = 5;
/// Columns that are kept of a line.
const KEPT: usize = 200;
/// Columns of a line where nothing bounds them.
const COLUMNS: usize = 100;
/// What stands in front of a line.
const MARK: &str = "  | ";

/// A line of a log, such that a terminal only shows it: without control characters and sequences.
#[must_use]
pub fn plain(line: &str) -> String {
    let text = console::strip_ansi_codes(line);
    let is_shown = |character: &char| !character.is_control() || *character == '\t';
    let kept: String = text.chars().filter(is_shown).collect();
    visible(kept.trim_end())
}

/// The last lines of the log that are not blank, as [`plain`] has them.
#[must_use]
pub fn last_lines(log: &str) -> Vec<String> {
    let lines = capataz_contracts::log::lines(log).rev().map(|line| truncated(&plain(line), KEPT));
    let lines = lines.filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.take(MOST_LINES).collect();
    lines.reverse();
    lines
}

/// The lines under their title, as wide as the terminal at most.
#[must_use]
pub fn block(run: &str, task: &str, lines: &[String], paint: Paint) -> String {
    let columns = columns().unwrap_or(COLUMNS);
    let title = fill(words().errors.log, &[run, task]);
    let line = |line: &String| {
        paint.text(Tone::Faint, &format!("{MARK}{}", truncated(line, columns - MARK.len().min(columns))))
    };
    [title].into_iter().chain(lines.iter().map(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::within;
    use crate::words::Language;

    #[track_caller]
    fn check(log: &str, expected: &[&str]) {
        assert_eq!(last_lines(log), expected);
    }

    #[test]
    fn the_last_five_lines_are_kept_as_they_are_read() {
        check("", &[]);
        check(" \n\n", &[]);
        check("1\n2\n3\n4\n5\n6\n\n7\n \n", &["3", "4", "5", "6", "7"]);
        // What turns the direction of writing around is shown as what it is.
        check("a\u{202e}b\n", &["a\\u{202e}b"]);
        check("\u{1b}[31mred\u{1b}[0m\u{7}\u{8}\r\n 1%\r 100%\n", &["red", " 100%"]);
        check(&"x".repeat(300), &[&format!("{}…", "x".repeat(199))]);
    }

    #[test]
    fn lines_are_cut_to_the_width() {
        let lines = ["y".repeat(40), "short".to_owned()];
        let shown = within(20, || block("0199", "lint", &lines, Paint::OFF));
        let expected = format!("Its log (`capataz logs 0199 lint`):\n  | {}…\n  | short", "y".repeat(15));
        assert_eq!(shown, expected);
        let shown = Language::Spanish.within(|| block("0199", "lint", &lines, Paint::OFF));
        assert_eq!(shown.lines().next(), Some("Su registro (`capataz logs 0199 lint`):"));
        assert_eq!(shown.lines().nth(1), Some(format!("  | {}", "y".repeat(40)).as_str()));
    }
}
