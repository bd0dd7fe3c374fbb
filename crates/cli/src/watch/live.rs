//! Draws the lines of [`super::screen`] at the bottom of a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::screen::Line;
use crate::output::Output;

/// The interval between two drawings, short enough to show tenths of seconds passing.
pub const FRAME: Duration = Duration::from_millis(100);

pub struct Live {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    /// Lines that will stay on the screen, above those that move.
    pending: Vec<String>,
    moving: ProgressStyle,
    still: ProgressStyle,
}

impl Live {
    pub fn new() -> Self {
        // The templates are constants. An invalid template would only lose the moving part of the line.
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
        };
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        // Lines are overwritten instead of cleared first, which would flicker.
        screen.set_move_cursor(true);
        Self {
            screen,
            bars: Vec::new(),
            pending: Vec::new(),
            moving: style("{spinner} {msg}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "),
            still: style("  {msg}"),
        }
    }

    /// The terminal's size as rows and columns.
    pub fn size() -> (usize, usize) {
        let (rows, columns) = console::Term::stdout().size();
        (usize::from(rows), usize::from(columns))
    }

    /// Keeps a line for the next drawing.
    pub fn keep(&mut self, line: String) {
        self.pending.push(line);
    }

    pub fn draw(&mut self, lines: &[Line], out: &mut Output) {
        self.print_pending(out);
        while self.bars.len() > lines.len() {
            if let Some(bar) = self.bars.pop() {
                bar.finish_and_clear();
                self.screen.remove(&bar);
            }
        }
        while self.bars.len() < lines.len() {
            self.bars.push(self.screen.add(ProgressBar::new_spinner()));
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_style(if line.spins { self.moving.clone() } else { self.still.clone() });
            bar.set_message(line.text.clone());
            bar.tick();
        }
    }

    /// Removes the moving lines from the screen.
    pub fn clear(&mut self, out: &mut Output) {
        self.draw(&[], out);
    }

    fn print_pending(&mut self, out: &mut Output) {
        if self.pending.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.pending).join("\n");
        self.screen.suspend(|| {
            out.line(&text);
            out.flush();
        });
    }
}
