//! What is said to whoever would change a run that has finished.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

const CREW: &str = "[[agents]]\nname = \"echo\"\ncommand = [\"cat\"]\n";

const PLAN: &str = "name = \"p\"\n[[tasks]]\nname = \"a\"\nagent = \"echo\"\n";

#[track_caller]
fn does(served: &Served, arguments: &[&str], exit: i32) -> Output {
    let mut program = Command::new(PROGRAM);
    program.env("LC_ALL", "C").env_remove("CAPATAZ_LANG").env_remove("CAPATAZ_BOXES").env_remove("COLUMNS");
    let output = program.args(["--addr", served.address()]).args(arguments).output().unwrap();
    let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(exit), "{arguments:?} {told:?}");
    output
}

/// The rows that say anything.
fn told(rows: &[String]) -> Vec<&str> {
    rows.iter().map(|row| row.trim_end()).filter(|row| !row.is_empty()).collect()
}

#[test]
fn a_cancel_of_a_finished_run_says_so_and_names_no_step_that_there_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let ran = does(&served, &["run", plan.to_str().unwrap(), "--json"], 0);
    let ran: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let run = ran["run_id"].as_str().unwrap();

    let lines = format!(
        "! RUN_FINISHED (MEDIUM): run {run} has finished\n  \
         -> Start a new run, or continue this one with `capataz runs continue` if it is that of a plan; \
         a finished run can no longer be changed.\n"
    );
    let spanish = format!(
        "! RUN_FINISHED (MEDIUM): la ejecución {run} ha terminado\n  \
         -> Inicie una ejecución nueva, o continúe esta con `capataz runs continue` si es la de un plan; \
         una terminada ya no se puede cambiar.\n"
    );
    // Nothing goes on by itself after it, and there is nothing to choose.
    let border = format!("+{}+\n", "-".repeat(54));
    let row = |text: &str| format!("|  {text:<52}|\n");
    let boxed = [
        border.clone(),
        row("WARNING: RUN_FINISHED"),
        border.clone(),
        row(&format!("run {run} has")),
        row("finished"),
        border,
    ]
    .concat();
    for (options, expected) in
        [(&[][..], &lines), (&["--force"], &lines), (&["--boxes"], &boxed), (&["--lang", "es"], &spanish)]
    {
        let arguments = [&["runs", "cancel", run][..], options].concat();
        let refused = does(&served, &arguments, 1);
        assert_eq!(String::from_utf8_lossy(&refused.stderr), *expected, "{options:?}");
        assert!(refused.stdout.is_empty(), "{options:?}");

        let terminal = Terminal::of(24, 200);
        let mut cancelling =
            terminal.starts(PROGRAM, &[&arguments[..], &["--addr", served.address()]].concat());
        assert_eq!(cancelling.wait().unwrap().code(), Some(1));
        let expected: Vec<&str> = expected.lines().collect();
        terminal.sees("the same on a terminal", |rows| told(rows) == expected);
    }
}
