//! Draws the lines of [`super::view`] at the bottom of a terminal.
//!
//! Between two drawings the cursor is, unseen, at the beginning of the first of these lines: what the terminal has from there on
//! is the view, however it has broken the lines anew when it was resized. So whatever ends the view can take it away without
//! knowing how high it is.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use console::measure_text_width;

use super::keys::is_in_background;
use super::screen::Line;
use crate::output::Output;

/// The interval between two drawings, short enough to show tenths of seconds passing.
pub const FRAME: Duration = Duration::from_millis(100);

/// What moves in front of the lines of tasks at work, a drawing each.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Takes away what the terminal shows from the cursor on.
const ERASE: &str = "\r\u{1b}[J";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const ERASE_REST_OF_LINE: &str = "\u{1b}[K";

/// Whether the terminal of this process shows a view. A signal may come at any time, so it is one for all.
static IS_DRAWN: Mutex<bool> = Mutex::new(false);

fn is_drawn() -> MutexGuard<'static, bool> {
    IS_DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the view away, where there is one, and leaves the cursor where it began.
pub fn take_away() {
    if std::mem::take(&mut *is_drawn()) {
        let mut stdout = io::stdout();
        // A terminal that is gone shows nothing any more.
        let _ = write!(stdout, "{ERASE}{SHOW_CURSOR}").and_then(|()| stdout.flush());
    }
}

/// The view of one run. Dropped, it is gone from the terminal.
#[derive(Debug, Default)]
pub struct Live {
    /// Lines that will stay on the screen, above those that move.
    pending: Vec<String>,
    drawings: usize,
}

impl Live {
    /// The terminal's size as rows and columns.
    pub fn size() -> (usize, usize) {
        let (rows, columns) = console::Term::stdout().size();
        (usize::from(rows), usize::from(columns))
    }

    /// Keeps a line for the next drawing.
    pub fn keep(&mut self, line: String) {
        self.pending.push(line);
    }

    /// Shows these lines instead of those before.
    pub fn draw(&mut self, lines: &[Line], out: &mut Output) {
        // In the background the terminal is another one's.
        if !is_in_background(&io::stdout()) {
            self.drawings = self.drawings.wrapping_add(1);
            let (rows, columns) = Self::size();
            self.replace(&drawing(lines, self.drawings, rows, columns), out);
        }
    }

    /// Removes the moving lines from the screen.
    pub fn clear(&mut self, out: &mut Output) {
        self.replace("", out);
    }

    fn replace(&mut self, drawing: &str, out: &mut Output) {
        let mut is_drawn = is_drawn();
        let mut text = String::new();
        if *is_drawn && (drawing.is_empty() || !self.pending.is_empty()) {
            text.push_str(ERASE);
        }
        for line in self.pending.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        match (*is_drawn, drawing.is_empty()) {
            (true, true) => text.push_str(SHOW_CURSOR),
            (false, false) => text.push_str(HIDE_CURSOR),
            _ => {}
        }
        *is_drawn = !drawing.is_empty();
        text.push_str(drawing);
        out.raw(text.as_bytes());
        out.flush();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        take_away();
    }
}

/// The lines, as many as there are rows for, over those before; then the cursor goes back to the first of them.
fn drawing(lines: &[Line], drawings: usize, rows: usize, columns: usize) -> String {
    let columns = columns.max(1);
    let spinner = SPINNER.get(drawings % SPINNER.len()).copied().unwrap_or_default();
    let mut text = String::new();
    let mut height = 0;
    for line in lines {
        let mark = if line.spins { spinner } else { " " };
        let shown = format!("{mark} {}", line.text);
        let width = measure_text_width(&shown);
        // A line that is too long goes on in the next row, so that what it says can be copied.
        let takes = line.height(columns);
        if height > 0 && height + takes > rows.saturating_sub(1) {
            break;
        }
        text.push_str(if height > 0 { "\n" } else { "\r" });
        if width < columns {
            text.push_str(&shown);
            text.push_str(ERASE_REST_OF_LINE);
        } else {
            // Behind a full row, what erases the rest of it would erase its last character.
            text.push_str("\u{1b}[J");
            text.push_str(&shown);
        }
        height += takes;
    }
    if lines.last().is_some_and(|line| measure_text_width(&line.text) + 2 < columns) {
        text.push_str("\u{1b}[J");
    }
    match height {
        0 => {}
        1 => text.push('\r'),
        _ => text.push_str(&format!("\r\u{1b}[{}A", height - 1)),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { spins: false, text: text.to_owned() }
    }

    #[test]
    fn the_cursor_goes_back_to_the_first_of_the_lines() {
        let working = Line { spins: true, text: "a".to_owned() };
        let shown = drawing(&[line("head"), working], 3, 24, 80);
        assert_eq!(shown, "\r  head\u{1b}[K\n⠸ a\u{1b}[K\u{1b}[J\r\u{1b}[1A");
        assert_eq!(drawing(&[line("head")], 3, 24, 80), "\r  head\u{1b}[K\u{1b}[J\r");
        assert_eq!(drawing(&[], 3, 24, 80), "");
    }

    #[test]
    fn a_line_that_is_too_long_counts_by_its_rows() {
        // 2 columns in front and 18 of text are 2 rows of 10.
        let shown = drawing(&[line("head"), line(&"x".repeat(18))], 0, 24, 10);
        assert!(shown.ends_with(&format!("\n\u{1b}[J  {}\r\u{1b}[2A", "x".repeat(18))), "{shown:?}");
        // And there are never more rows than the terminal has, but for one that stays free.
        let shown = drawing(&[line("head"), line("task"), line(&"x".repeat(18))], 0, 4, 10);
        assert!(shown.contains("task") && !shown.contains('x'), "{shown:?}");
    }

    #[test]
    fn colours_take_no_columns() {
        let shown = drawing(&[line("\u{1b}[1mbold\u{1b}[0m")], 0, 24, 7);
        assert!(shown.ends_with("\u{1b}[J\r"), "{shown:?}");
    }
}
