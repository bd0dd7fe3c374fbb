//! The keys of the live view: the mode of the terminal while they are read, and which one was pressed.
//!
//! Keys come one by one, and unseen, only while the view lives and this process has the terminal in the foreground. The mode
//! before comes back with everything that ends or stops the view: its end, an error, a panic, a signal, Ctrl-Z. Ctrl-C
//! and Ctrl-Z stay signals; nothing but SIGKILL leaves the mode behind.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use rustix::termios::{tcflush, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::live;

/// As many bytes as a terminal keeps for its reader, so that all of what is pasted is read at once.
const MOST_TYPED: usize = 4096;

/// How long nothing may have been typed before a press: a key that is held down, and words that are meant for the shell, are
/// no wish for more time.
const QUIET: Duration = Duration::from_secs(1);

/// The terminal of this process, as long as a view reads its keys. A signal may come at any time, so it is one for all.
static TERMINAL: Mutex<Option<Mode<Stdin>>> = Mutex::new(None);

/// Whether SIGHUP and SIGTERM end the view alone: there is more to end in this process, and somebody else does that.
static IS_LEFT: AtomicBool = AtomicBool::new(false);
/// Tells the one view of this process that it ends.
static VIEW_ENDS: Notify = Notify::const_new();

/// The keys that are pressed while a view lives. They are looked for with every frame, so that nothing waits for them.
#[derive(Debug, Default)]
pub struct Keys {
    presses: Presses,
}

impl Keys {
    /// `None` where nobody can press one: the standard input is no terminal, or nothing could give its mode back.
    pub fn new() -> Option<Self> {
        (io::stdin().is_terminal() && heed_signals().is_ok()).then(Self::default)
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

    /// The letter whose key was pressed since this was asked last.
    pub fn pressed(&mut self) -> Option<char> {
        let terminal = terminal();
        let mode = terminal.as_ref().filter(|mode| mode.is_set && is_ours(&mode.terminal));
        let mut typed = [0; MOST_TYPED];
        // Somebody else may have changed the mode, in which a read would wait for a whole line. Where nothing can be read
        // any more, nothing was pressed.
        let count = mode
            .filter(|mode| is_readable(&mode.terminal))
            .and_then(|mode| rustix::io::read(&mode.terminal, &mut typed).ok());
        self.presses.one(typed.get(..count.unwrap_or(0)).unwrap_or_default(), Instant::now())
    }
}

/// Whether a read of the terminal would return at once.
fn is_readable(terminal: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// What was typed, and when it was typed last.
#[derive(Debug, Default)]
struct Presses {
    last: Option<Instant>,
}

impl Presses {
    /// The letter that was pressed, after a time in which nothing was typed.
    fn one(&mut self, typed: &[u8], now: Instant) -> Option<char> {
        if typed.is_empty() {
            return None;
        }
        let before = self.last.replace(now);
        letter(typed).filter(|_| before.is_none_or(|before| now.duration_since(before) >= QUIET))
    }
}

/// The letter whose key sends what was typed at once. What is pasted, and keys that send several bytes, are none; and what is
/// pressed faster than it is read is one press.
fn letter(typed: &[u8]) -> Option<char> {
    let first = typed.first().filter(|first| first.is_ascii_alphabetic())?;
    let is_one = typed.iter().all(|byte| byte.eq_ignore_ascii_case(first));
    is_one.then(|| char::from(first.to_ascii_lowercase()))
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
    /// The mode before has to come back.
    is_set: bool,
    /// Somebody may have changed the mode meanwhile.
    is_stale: bool,
}

impl<F: AsFd> Mode<F> {
    fn of(terminal: F) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut for_keys = before.clone();
        // Signals of the keyboard and the translation of the output stay.
        for_keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Else Ctrl-C throws away what was written and has not been shown, and with half of a drawing nobody knows where the
        // cursor is.
        for_keys.local_modes.insert(LocalModes::NOFLSH);
        // A read never waits.
        for_keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        for_keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        Ok(Self { terminal, before, for_keys, is_set: false, is_stale: false })
    }

    fn set(&mut self) {
        let is_stale = std::mem::take(&mut self.is_stale);
        if !self.is_set {
            // What was typed before anything was offered is no answer to it.
            let _ = tcflush(&self.terminal, QueueSelector::IFlush);
        }
        if !self.is_set || is_stale {
            self.is_set |= tcsetattr(&self.terminal, OptionalActions::Now, &self.for_keys).is_ok();
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

/// Whether another process has this terminal, as far as this one can know.
pub fn is_in_background(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group != getpgrp())
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

/// Gives the terminal its mode back for good.
pub fn close() {
    unset();
    end_pastes();
    *terminal() = None;
}

/// From now on every signal that would end or stop the process takes the view away first, and gives the terminal its mode back.
/// It stays so after the view, because a signal that once has a handler keeps it.
pub fn heed_signals() -> io::Result<()> {
    static ARE_HEEDED: AtomicBool = AtomicBool::new(false);
    heed_ends()?;
    if ARE_HEEDED.load(Ordering::Acquire) {
        return Ok(());
    }
    let (mut stop, mut go_on) = (of(Signal::TSTP)?, of(Signal::CONT)?);
    ARE_HEEDED.store(true, Ordering::Release);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = stop.recv() => stop_now(),
                // Whoever let the process go on may have changed the mode. The one before is owed all the same.
                Some(()) = go_on.recv() => {
                    if let Some(mode) = terminal().as_mut() {
                        mode.is_stale = true;
                    }
                }
                else => break,
            }
        }
    });
    Ok(())
}

/// The same for the signals that end the process.
fn heed_ends() -> io::Result<()> {
    static ARE_HEEDED: AtomicBool = AtomicBool::new(false);
    if ARE_HEEDED.load(Ordering::Acquire) {
        return Ok(());
    }
    let (mut hangup, mut quit, mut terminate) = (of(Signal::HUP)?, of(Signal::QUIT)?, of(Signal::TERM)?);
    ARE_HEEDED.store(true, Ordering::Release);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => end_or_leave(Signal::HUP),
                Some(()) = quit.recv() => end(Signal::QUIT),
                Some(()) = terminate.recv() => end_or_leave(Signal::TERM),
                else => break,
            }
        }
    });
    Ok(())
}

fn of(kind: Signal) -> io::Result<tokio::signal::unix::Signal> {
    signal(SignalKind::from_raw(kind.as_raw()))
}

/// A terminal whose mode somebody else changes, to edit lines. The mode that it has now comes back with the end of this, with
/// every signal that ends the process, and once more with [`close`]. A signal that stops the process is the other one's matter.
#[derive(Debug)]
pub struct Lent(());

/// Somebody else may have had the terminal tell what is pasted from what is typed.
static TELLS_PASTES: AtomicBool = AtomicBool::new(false);
const TELL_NO_PASTES: &[u8] = b"\x1b[?2004l";

impl Lent {
    /// # Errors
    /// The standard input is no terminal, or its signals cannot be heard.
    pub fn new() -> io::Result<Self> {
        heed_ends()?;
        // From here on Ctrl-C ends nothing by itself, wherever it is pressed.
        let _ = of(Signal::INT)?;
        let mut mode = Mode::of(io::stdin())?;
        mode.is_set = true;
        *terminal() = Some(mode);
        TELLS_PASTES.store(true, Ordering::Release);
        Ok(Self(()))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mode) = terminal().as_mut() {
            unset_where_ours(mode);
            // A thread that is about to read a line may still change it.
            mode.is_set = true;
        }
        end_pastes();
    }
}

fn end_pastes() {
    if TELLS_PASTES.load(Ordering::Acquire) {
        // A terminal that is gone shows nothing.
        let _ = rustix::io::write(io::stdout(), TELL_NO_PASTES);
    }
}

/// From now on SIGHUP and SIGTERM take the view away, and somebody else, who hears them too, ends the process.
pub fn leave_the_end() {
    IS_LEFT.store(true, Ordering::Release);
}

/// Waits until a signal ends the view, and not the process.
pub async fn view_ends() {
    VIEW_ENDS.notified().await;
}

/// Takes the view away, where there is one, and gives the terminal its mode back.
pub fn give_back() {
    live::take_away();
    close();
}

fn end_or_leave(signal: Signal) {
    if !IS_LEFT.load(Ordering::Acquire) {
        end(signal);
    }
    give_back();
    VIEW_ENDS.notify_one();
}

/// Ends the process with the code that a shell reports of one which the signal has ended.
fn end(signal: Signal) -> ! {
    give_back();
    std::process::exit(128 + signal.as_raw());
}

/// Stops the process, as Ctrl-Z asks. The view takes the keys again with its next frame in the foreground.
fn stop_now() {
    live::take_away();
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
        for (press, key) in [("e", 'e'), ("E", 'e'), ("ee", 'e'), ("r", 'r'), ("Ss", 's')] {
            assert_eq!(letter(press.as_bytes()), Some(key), "{press:?}");
        }
        // Nothing, words, what the key in the middle of a number pad sends, a letter of two bytes, Ctrl-E, and no letters.
        for typed in ["", "delete", "\u{1b}[E", "é", "\u{5}", "e\n", "1", "\n"] {
            assert_eq!(letter(typed.as_bytes()), None, "{typed:?}");
        }
    }

    #[test]
    fn a_key_that_is_held_and_words_for_the_shell_are_no_presses() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut presses = Presses::default();
        assert_eq!(presses.one(b"e", at(0)), Some('e'));
        // Held down, it comes again and again, and counts once.
        for ms in (500..2_000).step_by(30) {
            assert_eq!(presses.one(b"e", at(ms)), None, "{ms}");
        }
        assert_eq!(presses.one(b"", at(2_500)), None, "nothing was typed");
        assert_eq!(presses.one(b"e", at(2_980)), Some('e'), "a second after the last one");
        assert_eq!(presses.one(b"mak", at(9_000)), None);
        assert_eq!(presses.one(b"e", at(9_100)), None, "a part of a word");
    }

    #[test]
    fn a_mode_that_somebody_may_have_changed_is_set_again_and_the_one_before_still_comes_back() {
        let (controller, user) = pseudoterminal();
        let mut mode = Mode::of(&user).expect("a terminal");
        mode.set();
        tcsetattr(&user, OptionalActions::Now, &mode.before).expect("somebody changes it");
        mode.set();
        assert!(sees_lines(&controller), "nobody has said so");
        mode.is_stale = true;
        mode.set();
        assert!(!sees_lines(&controller));
        mode.is_stale = true;
        drop(mode);
        assert!(sees_lines(&controller));
    }

    #[test]
    fn a_terminal_that_gives_lines_again_holds_nobody_up() {
        let (controller, user) = pseudoterminal();
        assert!(sees_lines(&controller));
        assert!(!is_readable(&user));
        rustix::io::write(&controller, b"e").expect("room");
        assert!(!is_readable(&user), "half of a line");
        rustix::io::write(&controller, b"\n").expect("room");
        assert!(is_readable(&user));
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
            assert!(modes.contains(LocalModes::NOFLSH), "and take nothing away that was written");
            std::panic::resume_unwind(Box::new("the view panics"));
        }));
        assert_eq!(panicked.expect_err("a panic").downcast_ref(), Some(&"the view panics"));
        assert!(sees_lines(&controller));
    }
}
