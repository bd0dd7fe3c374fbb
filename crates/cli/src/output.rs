//! The standard streams. Nothing else in this crate writes to the terminal, and nothing here panics when the reader of
//! a stream has gone.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
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
    /// Why stdout takes nothing more, where its reader has not gone.
    error: Option<io::Error>,
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
            error: None,
        }
    }

    /// Colours for stderr.
    pub fn error_paint(&self) -> Paint {
        self.error_paint
    }

    /// Returns whether the reader of stdout has gone, or stdout cannot be written. Further output is lost.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why stdout cannot be written. That its reader has gone is no error.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes nothing more to stdout, because of this error.
    fn close(&mut self, error: io::Error) {
        self.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.error = Some(error);
        }
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
        if self.closed {
            return;
        }
        if let Err(error) = flush(&mut io::stdout()) {
            self.close(error);
        }
    }

    /// Prints a line for people on stderr; the line is not part of the answer.
    pub fn note(&self, text: &str) {
        // A failure to write to stderr can be reported to nobody.
        let _ = write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        if let Err(error) = write_all(&mut io::stdout(), bytes) {
            self.close(error);
        }
    }
}

/// Writes all of the bytes, also to a stream that says that it has no room instead of waiting for it, as one does that another
/// process has made so.
fn write_all(stream: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) => wait_for_room(stream, error)?,
        }
    }
    Ok(())
}

fn flush(stream: &mut (impl Write + AsFd)) -> io::Result<()> {
    while let Err(error) = stream.flush() {
        wait_for_room(stream, error)?;
    }
    Ok(())
}

/// Waits until the stream may be tried again.
///
/// # Errors
/// The error, where it says more than that there is no room for now.
fn wait_for_room(stream: &impl AsFd, error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => match poll(&mut [PollFd::new(stream, PollFlags::OUT)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        },
        _ => Err(error),
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
