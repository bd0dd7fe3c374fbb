//! Streams that get lines and nothing else: a file, a terminal whose person wants no colours, and one whose cursor does not move.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

/// What every colour and every movement of the cursor begins with.
const ESCAPE: char = '\u{1b}';

/// What the daemon logs when it has started.
const READY: &str = "the daemon is ready";

/// A command line that starts a daemon in the folder, whatever the environment says of colours and of logs.
fn serve(folder: &Path, options: &str) -> String {
    let program = format!("env -u NO_COLOR -u CAPATAZ_LOG -u CAPATAZ_LANG LC_ALL=C {PROGRAM}");
    format!("cd {} && exec {program} serve --listen 127.0.0.1:0 --data-dir data {options}", folder.display())
}

#[test]
fn the_log_of_a_daemon_has_colours_in_a_file_only_where_they_are_asked_for() {
    for (options, has_colours) in [("", false), ("--color always", true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{} 2> log", serve(folder.path(), options))]);
        let mut serving = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(serving.stdout.take().unwrap());
        // It is told that the daemon listens after it was logged.
        stdout.read_line(&mut String::new()).unwrap();
        let process = serving.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        assert_eq!(serving.wait().unwrap().code(), Some(0), "{options:?}");
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.contains(READY), "{options:?}: {log}");
        assert_eq!(log.contains(ESCAPE), has_colours, "{options:?}: {log}");
    }
}

#[test]
fn a_daemon_on_a_terminal_has_no_colours_where_nobody_wants_them() {
    for (options, has_colours) in [("", true), ("--color never", false)] {
        let folder = tempfile::tempdir().unwrap();
        let terminal = Terminal::new();
        let mut serving = terminal.starts("sh", &["-c", &serve(folder.path(), options)]);
        terminal.shows(READY);
        terminal.shows("process agents");
        terminal.press("\u{3}");
        let shown = terminal.shows("stopping; press Ctrl-C again to force");
        assert_eq!(serving.wait().unwrap().code(), Some(0), "{options:?}");
        assert_eq!(shown.contains(ESCAPE), has_colours, "{options:?}: {shown:?}");
    }
}

#[test]
fn a_run_is_told_in_lines_on_a_terminal_whose_cursor_does_not_move() {
    let folder = tempfile::tempdir().unwrap();
    let crew = "[[agents]]\nname = \"echo\"\ncommand = [\"cat\"]\n";
    let served = Served::start(folder.path(), crew);
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, "name = \"nightly\"\n[[tasks]]\nname = \"a\"\nagent = \"echo\"\n").unwrap();
    for (kind, has_escapes) in [("dumb", false), ("xterm", true)] {
        let terminal = Terminal::of(24, 100);
        let run = format!("{PROGRAM} run {} --addr {}", plan.display(), served.address());
        let line = format!("env -u NO_COLOR -u CAPATAZ_BOXES TERM={kind} {run}; echo gone=$?");
        let mut shell = terminal.starts("sh", &["-c", &line]);
        let shown = terminal.shows("gone=0");
        assert!(shell.wait().unwrap().success());
        assert_eq!(shown.contains(ESCAPE), has_escapes, "{kind}: {shown:?}");
        if has_escapes {
            continue;
        }
        // The terminal ends each line with both.
        let lines = shown.replace("\r\n", "\n");
        assert!(!lines.contains('\r') && !lines.contains('\u{8}'), "{lines:?}");
        for step in [
            "run accepted: nightly",
            "  a  attempt 1 began (",
            "  a  succeeded in ",
            "run finished: succeeded",
            "look at it: capataz runs show ",
        ] {
            assert_eq!(lines.matches(step).count(), 1, "{step}: {lines}");
        }
    }
}
