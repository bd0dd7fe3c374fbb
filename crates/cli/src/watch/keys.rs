//! The keys of the live view: the mode of the terminal while they are read, and whether the one key was pressed.
//!
//! Keys come one by one, and unseen, only while the view lives and this process has the terminal in the foreground. The mode
//! before comes back with everything that ends or stops the view: its end, an error, a panic, a signal, Ctrl-Z. Ctrl-C
//! and Ctrl-Z stay signals; nothing but SIGKILL leaves the mode behind.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use rustix::termios::{tcflush, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// As many bytes as a terminal keeps for its reader, so that all of what is pasted is read at once.
const MOST_TYPED: usize = 4096;

/// The terminal of this process, as long as a view reads its keys. A signal may come at any time, so it is one for all.
static TERMINAL: Mutex<Option<Mode<Stdin>>> = Mutex::new(None);

/// The keys that are pressed while a view lives. They are looked for with every frame, so that nothing waits for them.
#[derive(Debug)]
pub struct Keys(());

impl Keys {
    /// `None` where nobody can press one: the standard input is no terminal, or nothing could give its mode back.
    pub fn new() -> Option<Self> {
        (io::stdin().is_terminal() && heed_signals().is_ok()).then_some(Self(()))
    }

    /// Has the terminal give keys one by one from now on, where this process has it. Returns whether it does.
    pub fn listen(&self) -> bool {
        let mut terminal = terminal();
        let is_ours = is_ours(&io::stdin());
        if terminal.is_none() && is_ours {
            *terminal = Mode::of(io::stdin()).ok();
        }
        let Some(mode) = terminal.as_mut() else { return false };
        if is_ours {
            mode.set();
        } else {
            mode.is_set = false;
        }
        mode.is_set
    }

    /// Whether the key `e` was pressed since this was asked last.
    pub fn was_pressed(&self) -> bool {
        let terminal = terminal();
        let mode = terminal.as_ref().filter(|mode| mode.is_set && is_ours(&mode.terminal));
        let mut typed = [0; MOST_TYPED];
        // Such a read never waits. Where nothing can be read any more, nothing was pressed.
        let count = mode.and_then(|mode| rustix::io::read(&mode.terminal, &mut typed).ok());
        typed.get(..count.unwrap_or(0)).is_some_and(is_press)
    }
}

/// Whether what was typed at once is a press of the key `e`. What is pasted, and keys that send several bytes, are none; and
/// what is pressed faster than it is read is one press.
fn is_press(typed: &[u8]) -> bool {
    !typed.is_empty() && typed.iter().all(|byte| byte.eq_ignore_ascii_case(&b'e'))
}

impl Drop for Keys {
    fn drop(&mut self) {
        close();
    }
}

/// A terminal that can give keys one by one, and its mode before. Dropped, it has that mode again.
#[derive(Debug)]
struct Mode<F: AsFd> {
    terminal: F,
    before: Termios,
    for_keys: Termios,
    is_set: bool,
}

impl<F: AsFd> Mode<F> {
    fn of(terminal: F) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut for_keys = before.clone();
        // Signals of the keyboard and the translation of the output stay.
        for_keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read never waits.
        for_keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        for_keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        Ok(Self { terminal, before, for_keys, is_set: false })
    }

    fn set(&mut self) {
        if !self.is_set {
            // What was typed before anything was offered is no answer to it.
            let _ = tcflush(&self.terminal, QueueSelector::IFlush);
            self.is_set = tcsetattr(&self.terminal, OptionalActions::Now, &self.for_keys).is_ok();
        }
    }

    fn unset(&mut self) {
        if std::mem::take(&mut self.is_set) {
            // A terminal that is gone has no mode to give back.
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
        }
    }
}

impl<F: AsFd> Drop for Mode<F> {
    fn drop(&mut self) {
        self.unset();
    }
}

fn terminal() -> MutexGuard<'static, Option<Mode<Stdin>>> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process has its terminal in the foreground. Another one that reads from it, or changes it, is stopped.
fn is_ours(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}

/// Gives the terminal the mode back that it had before the first key.
fn unset() {
    if let Some(mode) = terminal().as_mut() {
        unset_where_ours(mode);
    }
}

fn unset_where_ours(mode: &mut Mode<Stdin>) {
    // In the background the shell has given the terminal the mode that it wants.
    mode.is_set &= is_ours(&mode.terminal);
    mode.unset();
}

fn close() {
    unset();
    *terminal() = None;
}

/// From now on every signal that would end or stop the process gives the terminal its mode back first. It stays so after the
/// view, because a signal that once has a handler keeps it.
fn heed_signals() -> io::Result<()> {
    static ARE_HEEDED: AtomicBool = AtomicBool::new(false);
    if ARE_HEEDED.load(Ordering::Acquire) {
        return Ok(());
    }
    let of = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw()));
    let (mut hangup, mut quit, mut terminate) = (of(Signal::HUP)?, of(Signal::QUIT)?, of(Signal::TERM)?);
    let (mut stop, mut go_on) = (of(Signal::TSTP)?, of(Signal::CONT)?);
    ARE_HEEDED.store(true, Ordering::Release);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => end(Signal::HUP),
                Some(()) = quit.recv() => end(Signal::QUIT),
                Some(()) = terminate.recv() => end(Signal::TERM),
                Some(()) = stop.recv() => stop_now(),
                // Whoever let the process go on may have changed the mode.
                Some(()) = go_on.recv() => {
                    if let Some(mode) = terminal().as_mut() {
                        mode.is_set = false;
                    }
                }
                else => break,
            }
        }
    });
    Ok(())
}

/// Ends the process with the code that a shell reports of one which the signal has ended.
fn end(signal: Signal) {
    close();
    std::process::exit(128 + signal.as_raw());
}

/// Stops the process, as Ctrl-Z asks. The view takes the keys again with its next frame in the foreground.
fn stop_now() {
    let mut terminal = terminal();
    if let Some(mode) = terminal.as_mut() {
        unset_where_ours(mode);
    }
    // SIGTSTP has a handler now, and SIGSTOP would stop a process too that no shell can let go on. This one has no handler,
    // and like SIGTSTP it does nothing there.
    let _ = kill_process(getpid(), Signal::TTOU);
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::fs::{Mode as FileMode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    fn pseudoterminal() -> (impl AsFd, File) {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
        grantpt(&controller).expect("access to it");
        unlockpt(&controller).expect("it can be opened");
        let path = ptsname(&controller, Vec::new()).expect("its name");
        let user = open(path, OFlags::RDWR | OFlags::NOCTTY, FileMode::empty()).expect("its other side");
        (controller, user.into())
    }

    fn sees_lines(terminal: &impl AsFd) -> bool {
        let modes = tcgetattr(terminal).expect("a mode").local_modes;
        modes.contains(LocalModes::ISIG) && modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    #[test]
    fn only_the_key_itself_is_a_press_of_it() {
        for press in ["e", "E", "ee"] {
            assert!(is_press(press.as_bytes()), "{press:?}");
        }
        // Nothing, words, what the key in the middle of a number pad sends, a letter of two bytes, and Ctrl-E.
        for typed in ["", "x", "delete", "\u{1b}[E", "é", "\u{5}", "e\n"] {
            assert!(!is_press(typed.as_bytes()), "{typed:?}");
        }
    }

    #[test]
    fn the_mode_of_the_terminal_comes_back_after_a_panic_too() {
        let (controller, user) = pseudoterminal();
        assert!(sees_lines(&controller), "so it begins");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut mode = Mode::of(&user).expect("a terminal");
            mode.set();
            let modes = tcgetattr(&controller).expect("a mode").local_modes;
            assert!(!modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
            assert!(modes.contains(LocalModes::ISIG), "Ctrl-C and Ctrl-Z stay signals");
            std::panic::resume_unwind(Box::new("the view panics"));
        }));
        assert_eq!(panicked.expect_err("a panic").downcast_ref(), Some(&"the view panics"));
        assert!(sees_lines(&controller));
    }
}
