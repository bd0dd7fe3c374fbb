//! Draws the lines of [`super::screen`] at the bottom of a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::screen::Line;
use crate::output::Output;

/// How often the screen is drawn anew: often enough that tenths of seconds are seen to pass.
pub const FRAME: Duration = Duration::from_millis(100);

pub struct Live {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    /// Lines that will stay, above those that move.
    pending: Vec<String>,
    moving: ProgressStyle,
    still: ProgressStyle,
}

impl Live {
    pub fn new() -> Self {
        // The templates are constants; were one wrong, the line would show without what moves.
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
        };
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        // Lines are written over instead of cleared first, which would flicker.
        screen.set_move_cursor(true);
        Self {
            screen,
            bars: Vec::new(),
            pending: Vec::new(),
            moving: style("{spinner} {msg}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "),
            still: style("  {msg}"),
        }
    }

    /// Rows and columns of the terminal.
    pub fn size() -> (usize, usize) {
        let (rows, columns) = console::Term::stdout().size();
        (usize::from(rows), usize::from(columns))
    }

    /// Keeps a line for the next time the screen is drawn.
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

    /// Takes everything that moves off the screen.
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
