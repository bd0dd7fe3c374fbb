//! The standard streams. Nothing else in this crate writes to the terminal, and nothing here panics when the reader of
//! a stream has gone.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::args::Color;
use capataz_display::compact::Form;
use capataz_display::frame;
use capataz_display::paint::Paint;
use capataz_display::words::Language;

/// The standard streams of this process, and the form in which the user wants answers.
#[derive(Debug)]
pub struct Output {
    /// True when answers are JSON.
    pub json: bool,
    /// True when stdout is a terminal.
    pub terminal: bool,
    /// True when stdout is a terminal whose cursor moves.
    pub moves: bool,
    pub paint: Paint,
    /// The form of results and errors.
    pub form: Form,
    /// The language of people, for what they read wherever answers go to. All that is said with JSON is English.
    pub people: Language,
    error_paint: Paint,
    closed: bool,
}

impl Output {
    pub fn new(json: bool, boxes: bool, color: Color) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        if let Some(columns) = columns(out || err) {
            frame::fit(columns);
        }
        let paint = |automatic: bool| match color {
            Color::Always => Paint::ON,
            Color::Never => Paint::OFF,
            Color::Auto if automatic => Paint::ON,
            Color::Auto => Paint::OFF,
        };
        Self {
            json,
            terminal: out,
            moves: out && !is_dumb(),
            form: if boxes { Form::Boxes } else { Form::Compact },
            people: Language::current(),
            paint: paint(out && console::colors_enabled()),
            error_paint: paint(err && console::colors_enabled_stderr()),
            closed: false,
        }
    }

    /// Colours for stderr.
    pub fn error_paint(&self) -> Paint {
        self.error_paint
    }

    /// Returns whether the reader of stdout has gone. Further output is lost.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints one or more lines for people.
    pub fn line(&mut self, text: &str) {
        self.write(text.as_bytes());
        self.write(b"\n");
    }

    /// Prints a whole answer as JSON, indented when stdout is a terminal.
    pub fn document(&mut self, value: &Value) {
        let laid_out = self.terminal.then(|| serde_json::to_string_pretty(value).ok()).flatten();
        self.line(&laid_out.unwrap_or_else(|| value.to_string()));
    }

    /// Prints one of several answers, always on one line.
    pub fn record(&mut self, value: &Value) {
        self.line(&value.to_string());
        self.flush();
    }

    /// Prints the bytes unchanged, without a line break.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    pub fn flush(&mut self) {
        if io::stdout().flush().is_err() {
            self.closed = true;
        }
    }

    /// Prints a line for people on stderr; the line is not part of the answer.
    pub fn note(&self, text: &str) {
        // A failure to write to stderr can be reported to nobody.
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn write(&mut self, bytes: &[u8]) {
        if !self.closed && io::stdout().write_all(bytes).is_err() {
            self.closed = true;
        }
    }
}

/// Whether the terminal says of itself that its cursor does not move.
#[expect(clippy::disallowed_methods, reason = "the program reads its environment")]
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// The columns that people have: what `COLUMNS` says, else those of the terminal.
#[expect(clippy::disallowed_methods, reason = "the program reads its environment")]
fn columns(is_terminal: bool) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || {
        let either = [console::Term::stdout(), console::Term::stderr()];
        either.iter().find_map(console::Term::size_checked).map(|(_, columns)| usize::from(columns))
    };
    said.or_else(|| if is_terminal { of_terminal() } else { None })
}
