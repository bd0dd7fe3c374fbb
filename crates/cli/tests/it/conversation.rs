//! A conversation at a real terminal: the line is edited, completed, and there again; and the terminal is afterwards what it
//! was before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");
const UP: &str = "\x1b[A";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

struct Talk {
    terminal: Terminal,
    child: Child,
}

impl Talk {
    /// A conversation that waits for its first line.
    fn begin(served: &Served, states: &Path) -> Self {
        let terminal = Terminal::new();
        let states = format!("XDG_STATE_HOME={}", states.display());
        let child =
            terminal.starts("env", &[&states, PROGRAM, "ask", "--session", "s", "--addr", served.address()]);
        let talk = Self { terminal, child };
        talk.line("> ");
        talk
    }

    /// Waits until the line that is typed looks so. What is typed before a line can be typed may belong to none.
    fn line(&self, expected: &str) {
        self.terminal.sees(expected, |rows| {
            rows.iter().rfind(|row| !row.is_empty()).is_some_and(|row| row.trim_end() == expected.trim_end())
        });
    }

    fn ended(mut self) -> (Terminal, Option<i32>) {
        let code = self.child.wait().unwrap().code();
        (self.terminal, code)
    }
}

#[test]
fn a_person_edits_completes_and_repeats_lines_and_leaves_the_terminal_as_it_was() {
    let (folder, states) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let served = Served::start(folder.path(), &format!("specs_dir = {specs:?}\n"));
    let before = Terminal::new().mode();

    let talk = Talk::begin(&served, states.path());
    assert_ne!(talk.terminal.mode(), before, "keys are read one by one");
    talk.terminal.press("Me siento perdida\x7fo");
    talk.line("> Me siento perdido");
    talk.terminal.press("\r");
    talk.terminal.shows("whispers-of-the-wave | intent emotional_support");
    talk.line("> ");
    talk.terminal.press(" a line that is nobody's business\x15/sp\t");
    talk.line("> /spec");
    talk.terminal.press("kir\t");
    talk.line("> /spec kiro-adaptive-assistance");
    talk.terminal.press("\r");
    talk.terminal.shows("the next message goes to kiro-adaptive-assistance");
    talk.line("> ");
    talk.terminal.press(&format!("{UP}{UP}"));
    talk.line("> Me siento perdido");
    talk.terminal.press(CTRL_C);
    talk.terminal.shows("once more to leave");
    talk.line("> ");
    talk.terminal.press(CTRL_D);
    let (terminal, code) = talk.ended();
    assert_eq!(code, Some(0));
    assert_eq!(terminal.mode(), before);

    // Lines of before are there for the next conversation, and for nobody else.
    let history = states.path().join("capataz/ask-history");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("Me siento perdido") && !kept.contains("nobody's business"), "{kept}");
    let talk = Talk::begin(&served, states.path());
    talk.terminal.press(UP);
    talk.line("> /spec kiro-adaptive-assistance");
    talk.terminal.press(CTRL_C);
    talk.terminal.shows("once more to leave");
    talk.line("> ");
    talk.terminal.press(CTRL_C);
    assert_eq!(talk.ended().1, Some(130));

    // Whatever ends the conversation.
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let talk = Talk::begin(&served, states.path());
        // The program has taken the place of `env`.
        kill_process(Pid::from_child(&talk.child), signal).unwrap();
        let (terminal, ended) = talk.ended();
        assert_eq!((ended, terminal.mode() == before), (Some(code), true));
        // And it does not tell what is pasted any more.
        let began = terminal.shown().rfind("\x1b[?2004h").unwrap();
        terminal.shows_after(began, "\x1b[?2004l");
    }
}
