//! A terminal with a person at it: what the program shows there, the keys that are pressed, and the terminal's mode.

#![allow(dead_code, reason = "each of the two test programs uses its part of it")]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode as FileMode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// How long something may take before the test counts as failed.
const AT_MOST: Duration = Duration::from_secs(120);

/// Lines that have left the screen at its top, and are kept.
const SCROLLED: usize = 20_000;

/// What the program has written.
struct Shown {
    text: String,
    /// What a person sees of it.
    screen: vt100::Parser,
}

pub struct Terminal {
    /// The side of the person.
    person: File,
    /// The side of the program. It stays open, so that the terminal outlives the program.
    program: File,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

impl Terminal {
    pub fn new() -> Self {
        Self::of(40, 120)
    }

    /// A terminal with so many rows and columns.
    pub fn of(rows: u16, columns: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let path = ptsname(&controller, Vec::new()).unwrap();
        let program = File::from(open(path, OFlags::RDWR | OFlags::NOCTTY, FileMode::empty()).unwrap());
        tcsetwinsize(&program, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let person = File::from(controller);
        let screen = vt100::Parser::new(lines(rows), lines(columns), SCROLLED);
        let shown = Arc::new((Mutex::new(Shown { text: String::new(), screen }), Condvar::new()));
        let (mut reads, into) = (person.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reads.read(&mut bytes) {
                let mut shown = into.0.lock().unwrap_or_else(PoisonError::into_inner);
                shown.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                shown.screen.process(&bytes[..count]);
                into.1.notify_all();
            }
        });
        Self { person, program, shown }
    }

    /// The program's side as one of its standard streams.
    pub fn stream(&self) -> Stdio {
        self.program.try_clone().unwrap().into()
    }

    /// Starts the program with all of its streams at this terminal, which it has in the foreground.
    pub fn starts(&self, program: &str, arguments: &[&str]) -> Child {
        self.command(program, arguments).spawn().unwrap()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments).env("LC_ALL", "C").env("TERM", "xterm");
        // What the developer's own terminal has says nothing of this one.
        for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CAPATAZ_LANG", "CAPATAZ_BOXES"]
        {
            command.env_remove(variable);
        }
        command.stdin(self.stream()).stdout(self.stream()).stderr(self.stream());
        command
    }

    /// The same in a folder, after the prompt at which a person has typed it so.
    pub fn starts_in(&self, folder: &Path, typed: &str, program: &str, arguments: &[&str]) -> Child {
        (&self.program).write_all(format!("\x1b[32m$\x1b[m {typed}\n").as_bytes()).unwrap();
        let mut command = self.command(program, arguments);
        command.current_dir(folder).spawn().unwrap()
    }

    /// Calls the function with what a person sees.
    pub fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.shown.0.lock().unwrap().screen.screen())
    }

    pub fn press(&self, keys: &str) {
        (&self.person).write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was shown until now.
    pub fn shown(&self) -> String {
        self.shown.0.lock().unwrap().text.clone()
    }

    /// Waits until the text is shown, and returns what came before it and what is shown with it.
    pub fn shows(&self, text: &str) -> String {
        self.shows_after(0, text)
    }

    /// The same of what is shown after so many bytes.
    pub fn shows_after(&self, bytes: usize, text: &str) -> String {
        let (shown, changed) = &*self.shown;
        let has = |shown: &Shown| shown.text.get(bytes..).is_some_and(|shown| shown.contains(text));
        let lacks = |shown: &mut Shown| !has(shown);
        let (shown, _) = changed.wait_timeout_while(shown.lock().unwrap(), AT_MOST, lacks).unwrap();
        assert!(has(&shown), "{text:?} in\n{}", shown.text);
        shown.text.clone()
    }

    /// Waits no longer than this until the text is shown.
    pub fn shows_within(&self, time: Duration, text: &str) {
        let (shown, changed) = &*self.shown;
        let lacks = |shown: &mut Shown| !shown.text.contains(text);
        drop(changed.wait_timeout_while(shown.lock().unwrap(), time, lacks).unwrap());
    }

    /// Waits until the rows that a person sees are so, and returns them.
    pub fn sees(&self, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (shown, changed) = &*self.shown;
        let differs = |shown: &mut Shown| !so(&rows(shown));
        let (shown, _) = changed.wait_timeout_while(shown.lock().unwrap(), AT_MOST, differs).unwrap();
        let rows = rows(&shown);
        assert!(so(&rows), "{what}:\n{}", rows.join("\n"));
        rows
    }

    /// The rows that a person sees.
    pub fn screen(&self) -> Vec<String> {
        rows(&self.shown.0.lock().unwrap())
    }

    /// The rows that a person sees, and above them those that have left the screen at its top.
    pub fn everything(&self) -> Vec<String> {
        let mut shown = self.shown.0.lock().unwrap();
        let screen = shown.screen.screen_mut();
        let mut everything = Vec::new();
        for above in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(above);
            let (_, columns) = screen.size();
            everything.extend(screen.rows(0, columns.get()).next());
        }
        screen.set_scrollback(0);
        everything.extend(rows(&shown));
        everything
    }

    /// The row and the column of the cursor, and whether it is seen.
    pub fn cursor(&self) -> (u16, u16, bool) {
        let shown = self.shown.0.lock().unwrap();
        let (row, column) = shown.screen.screen().cursor_position();
        (row, column, !shown.screen.screen().hide_cursor())
    }

    /// Gives the terminal so many rows and columns.
    pub fn resize(&self, rows: u16, columns: u16) {
        let mut shown = self.shown.0.lock().unwrap();
        tcsetwinsize(&self.program, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        shown.screen.screen_mut().set_size(lines(rows), lines(columns));
    }

    pub fn mode(&self) -> Mode {
        Mode(tcgetattr(&self.program).unwrap())
    }

    /// Waits until the terminal has this mode.
    pub fn comes_to(&self, mode: &Mode) {
        let since = Instant::now();
        while self.mode() != *mode {
            assert!(since.elapsed() < AT_MOST, "{mode:?} and not {:?}", self.mode());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn lines(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn rows(shown: &Shown) -> Vec<String> {
    let screen = shown.screen.screen();
    screen.rows(0, screen.size().1.get()).collect()
}

/// The mode of a terminal, which can be compared.
pub struct Mode(Termios);

impl PartialEq for Mode {
    fn eq(&self, other: &Self) -> bool {
        let parts = |Self(mode): &Self| format!("{mode:?}");
        parts(self) == parts(other)
    }
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.0.local_modes)
    }
}
