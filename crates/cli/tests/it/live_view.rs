//! The live view of a run, as a person sees it at a real terminal: what is on the screen, and what is left of it afterwards.

use std::cell::Cell;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_display::frame::width;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// What only the rows of tasks at work have.
const OF_A_ROW: &str = "attempt 1/";

struct Work {
    served: Served,
    plan: PathBuf,
    folder: TempDir,
}

impl Work {
    /// A daemon whose agent `quick` succeeds at once, whose agent `broken` fails at once, and whose agents `gated` and `slow`
    /// wait until their gate is opened; so does the one with a name of 128 wide characters.
    fn with(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = |name: &str| {
            let gate = folder.path().join(name);
            assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
            format!("cat {} >&2; echo 1", gate.display())
        };
        let agent = |name: &str, does: &str| {
            format!(
                "[[agents]]\nname = \"{name}\"\nmax_concurrency = 12\n\
                 command = [\"/bin/sh\", \"-c\", \"{does}\"]\n"
            )
        };
        let agents = [
            agent("quick", "echo 1"),
            agent("broken", "exit 3"),
            agent("gated", &gate("gated")),
            agent("slow", &gate("slow")),
            agent(&"界".repeat(128), &gate("wide")),
        ];
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, plan).unwrap();
        let served = Served::start(folder.path(), &agents.concat());
        Self { served, plan: path, folder }
    }

    fn runs_at(&self, terminal: &Terminal, options: &[&str]) -> Child {
        let arguments = ["run", self.plan.to_str().unwrap(), "--addr", self.served.address()];
        terminal.starts(PROGRAM, &[&arguments[..], options].concat())
    }

    fn opens(&self, gate: &str) {
        drop(std::fs::OpenOptions::new().write(true).open(self.folder.path().join(gate)).unwrap());
    }
}

fn plan<'a>(tasks: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let mut plan = "name = \"nightly\"\n[policy]\nkind = \"continue_all\"\n".to_owned();
    for (name, agent) in tasks {
        write!(plan, "[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\nretry = {{ max_attempts = 1 }}\n")
            .unwrap();
    }
    plan
}

/// 28 tasks that succeed at once, one that fails, and two that are at work until their gates are opened.
fn thirty_one() -> String {
    let quick = (1..=28).map(|number| (format!("quick-{number}"), "quick"));
    let others = [("broken", "broken"), ("gated", "gated"), ("slow", "slow")];
    plan(quick.chain(others.map(|(name, agent)| (name.to_owned(), agent))))
}

fn has(rows: &[String], text: &str) -> bool {
    count(rows, text) > 0
}

fn count(rows: &[String], text: &str) -> usize {
    rows.iter().filter(|row| row.contains(text)).count()
}

/// The last rows that say anything.
fn last(rows: &[String], count: usize) -> Vec<String> {
    let said: Vec<&String> = rows.iter().filter(|row| !row.is_empty()).collect();
    said[said.len().saturating_sub(count)..].iter().map(|row| row.to_string()).collect()
}

fn code(child: &mut Child) -> Option<i32> {
    child.wait().unwrap().code()
}

#[test]
fn a_run_of_31_tasks_shows_those_at_work_and_leaves_its_report_alone() {
    let work = Work::with(&thirty_one());
    let terminal = Terminal::of(24, 100);
    let mut running = work.runs_at(&terminal, &["--boxes"]);
    terminal.sees("29 are done, and only the two at work have rows", |rows| {
        let are_at_work = has(rows, " gated ") && has(rows, " slow ") && count(rows, OF_A_ROW) == 2;
        has(rows, "29 of 31 done, 1 failed") && are_at_work && !has(rows, "quick-")
    });
    work.opens("gated");
    terminal.sees("30 are done, and the one at work has a row", |rows| {
        has(rows, "30 of 31 done, 1 failed") && has(rows, " slow ") && count(rows, OF_A_ROW) == 1
    });
    work.opens("slow");
    assert_eq!(code(&mut running), Some(0), "{}", terminal.shown());
    terminal.sees("the end of the report", |rows| has(rows, "capataz runs show"));
    let everything = terminal.everything();
    for of_the_view in [OF_A_ROW, "of 31 done", "Ctrl-C", "queued"] {
        assert!(!has(&everything, of_the_view), "{of_the_view}\n{everything:#?}");
    }
    let report: Vec<&String> =
        everything.iter().filter(|row| row.contains("PARALLEL EXECUTION COMPLETE")).collect();
    assert_eq!(report.len(), 1, "{everything:#?}");
    assert!(last(&everything, 1)[0].starts_with("look at it:"), "{everything:#?}");
    let (row, column, is_seen) = terminal.cursor();
    assert!(column == 0 && is_seen, "{row} {column}");
}

#[test]
fn a_pipeline_has_its_phases_in_the_heading() {
    let work = Work::with("");
    let pipeline = work.folder.path().join("review.toml");
    let phase = |name: &str, agent: &str| format!("[[phases]]\nname = \"{name}\"\nagent = \"{agent}\"\n");
    let phases = [phase("read", "quick"), phase("tell", "gated"), phase("check", "slow")].concat();
    std::fs::write(&pipeline, format!("name = \"review\"\n{phases}")).unwrap();
    let terminal = Terminal::of(24, 100);
    let arguments =
        ["pipeline", "run", pipeline.to_str().unwrap(), "--input", "a=b", "--addr", work.served.address()];
    let mut running = terminal.starts(PROGRAM, &arguments);
    terminal.sees("one phase is done, and the second one at work", |rows| {
        has(rows, "review: 1 of 3 done, 0 failed") && has(rows, "tell in progress") && has(rows, OF_A_ROW)
    });
    work.opens("gated");
    terminal.sees("two are done", |rows| has(rows, "review: 2 of 3 done, 0 failed"));
    work.opens("slow");
    assert_eq!(code(&mut running), Some(0), "{}", terminal.shown());
    terminal.sees("the end of the report", |rows| has(rows, "capataz runs show"));
    assert!(!has(&terminal.everything(), "of 3 done"), "{:#?}", terminal.everything());
}

#[test]
fn a_run_is_quiet_where_only_its_end_is_waited_for() {
    let work = Work::with(&plan([("a".to_owned(), "gated")]));
    let terminal = Terminal::of(24, 80);
    let mut running = work.runs_at(&terminal, &["--wait"]);
    terminal.shows("Started ");
    // A view that was begun later is drawn by now, and again.
    let other = Terminal::of(24, 80);
    let mut watching = other.starts(PROGRAM, &["runs", "watch", "latest", "--addr", work.served.address()]);
    let drawn = other.shows(OF_A_ROW);
    other.shows_after(drawn.len(), OF_A_ROW);
    work.opens("gated");
    assert_eq!((code(&mut running), code(&mut watching)), (Some(0), Some(0)));
    let shown = terminal.shows("capataz runs show");
    for of_the_view in ["\u{1b}[J", "\u{1b}[?25l", OF_A_ROW, "done"] {
        assert!(!shown.contains(of_the_view), "{of_the_view:?} in {shown:?}");
    }

    // Elsewhere it is as quiet, and without it each step has a line that a log can hold.
    std::fs::write(&work.plan, plan([("a".to_owned(), "quick")])).unwrap();
    let said = |options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["run", work.plan.to_str().unwrap(), "--addr", work.served.address()]).args(options);
        let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let quiet = said(&["--wait"]);
    assert!(quiet.contains("capataz runs show"), "{quiet}");
    assert!(!quiet.contains("attempt 1 began") && !quiet.contains('\u{1b}'), "{quiet}");
    let told = said(&[]);
    for step in
        ["run accepted: nightly", "  a  attempt 1 began (", "  a  succeeded in ", "run finished: succeeded"]
    {
        assert!(told.contains(step), "{step} in\n{told}");
    }
    assert!(!told.contains('\u{1b}') && !told.contains('\r'), "{told}");
    assert!(told.contains("\n✓ a  succeeded  "), "{told}");
}

#[test]
fn the_view_fits_a_terminal_that_is_resized_while_it_runs() {
    let work = Work::with(&plan((1..=11).map(|number| (format!("gated-{number}"), "gated"))));
    let terminal = Terminal::of(40, 120);
    let mut running = work.runs_at(&terminal, &[]);
    terminal.sees("ten rows at most", |rows| has(rows, "… and 2 more") && count(rows, OF_A_ROW) == 9);
    for (rows, columns) in [(40, 50), (12, 50), (12, 24), (5, 24), (30, 90), (40, 120)] {
        terminal.resize(rows, columns);
        let fits = |seen: &[String]| {
            let heads = count(seen, "0 of 11 done") + count(seen, "0/11");
            let more = seen.iter().find(|row| row.contains("… and"));
            let tasks = seen.iter().filter(|row| row.contains(" gated-") && !row.contains("e: 15m")).count();
            let hidden = more.and_then(|row| row.split(' ').filter_map(|word| word.parse().ok()).next());
            heads == 1 && tasks > 0 && tasks + hidden.unwrap_or(0) == 11
        };
        let seen = terminal.sees(&format!("{rows} rows of {columns}"), fits);
        assert_eq!(seen.len(), usize::from(rows));
    }
    terminal.press("\u{3}");
    assert_eq!(code(&mut running), Some(130));
    terminal.sees("no rows", |rows| !has(rows, "gated-") && has(rows, "goes on without you"));
}

#[test]
fn of_many_failures_the_first_twenty_are_told_in_whole_and_the_others_in_a_line() {
    let first = "[[waves]]\nname = \"first\"\n[[waves.tasks]]\nname = \"a\"\nagent = \"gated\"\n";
    let mut plan = format!(
        "name = \"nightly\"\n[policy]\nkind = \"continue_all\"\n{first}[[waves]]\nname = \"second\"\n"
    );
    for number in 1..=25 {
        write!(plan, "[[waves.tasks]]\nname = \"bad-{number}\"\nagent = \"broken\"\n").unwrap();
    }
    let work = Work::with(&plan);
    let terminal = Terminal::of(24, 100);
    let mut running = work.runs_at(&terminal, &[]);
    terminal.sees("the first wave", |rows| has(rows, OF_A_ROW));
    work.opens("gated");
    running.wait().unwrap();
    terminal.sees("the end of the report", |rows| has(rows, "look at it: capataz runs show"));
    let everything = terminal.everything();
    let told = |rows: &[String]| rows.iter().filter(|row| row.starts_with("✗ NON_RETRYABLE_ERROR")).count();
    let from = everything.iter().position(|row| row.starts_with("From here on, an error has one line; "));
    let (before, after) = everything.split_at(from.unwrap_or_default());
    assert_eq!((told(before), count(before, "failed after")), (20, 0), "{everything:#?}");
    assert_eq!(count(after, "failed after"), 5, "{everything:#?}");
    assert_eq!(count(&everything, "From here on"), 1, "{everything:#?}");
    // The report has all of them, each in its line.
    let lines =
        (1..=25).filter(|number| everything.iter().any(|row| row.starts_with(&format!("✗ bad-{number} "))));
    assert_eq!(lines.count(), 25, "{everything:#?}");
}

#[test]
fn ctrl_c_takes_the_rows_away_and_leaves_the_cursor_on_a_fresh_line() {
    let work = Work::with(&thirty_one());
    let terminal = Terminal::of(24, 100);
    let mut running = work.runs_at(&terminal, &[]);
    terminal.sees("29 are done", |rows| has(rows, "29 of 31 done"));
    terminal.press("\u{3}");
    assert_eq!(code(&mut running), Some(130), "{}", terminal.shown());
    let seen = terminal.sees("how to stop it", |rows| has(rows, "stop it:"));
    for of_the_view in [OF_A_ROW, "of 31 done", "^C", "queued"] {
        assert!(!has(&seen, of_the_view), "{of_the_view}\n{seen:#?}");
    }
    let said = last(&seen, 3);
    assert_eq!(said[0], "The run goes on without you.");
    assert!(said[1].starts_with("watch it:") && said[2].starts_with("stop it:"), "{seen:#?}");
    let (row, column, is_seen) = terminal.cursor();
    assert!(column == 0 && is_seen && seen[usize::from(row)].is_empty(), "{row} {column}\n{seen:#?}");
    assert_eq!(seen[usize::from(row) - 1], said[2]);
}

#[test]
fn signals_that_end_the_view_take_its_rows_away_too() {
    let work = Work::with(&plan([("a".to_owned(), "gated")]));
    let terminal = Terminal::of(24, 100);
    let mut running = work.runs_at(&terminal, &[]);
    terminal.sees("its row", |rows| has(rows, OF_A_ROW));
    terminal.press("\u{1c}");
    assert_eq!(code(&mut running), Some(131));
    let seen = terminal.sees("no row", |rows| !has(rows, OF_A_ROW));
    let (row, column, is_seen) = terminal.cursor();
    assert!(column == 0 && is_seen && seen[usize::from(row)].is_empty(), "{row} {column}\n{seen:#?}");
}

#[test]
fn twenty_columns_have_the_counts_and_the_tasks() {
    let work = Work::with(&thirty_one());
    let terminal = Terminal::of(30, 20);
    let mut running = work.runs_at(&terminal, &[]);
    let seen = terminal.sees("the counts, and the two at work", |rows| {
        has(rows, "29/31 ✗1") && has(rows, " gated ") && has(rows, " slow ") && !has(rows, "quick-")
    });
    let begin = seen.iter().position(|row| row.contains("29/31")).unwrap();
    let view = &seen[begin..];
    assert!(has(view, "gated") && has(view, "slow"), "{view:#?}");
    // A row that were too wide would go on in the next one.
    assert!(last(view, 30).len() <= 8, "{view:#?}");
    terminal.press("\u{3}");
    assert_eq!(code(&mut running), Some(130));
    terminal.sees("no rows", |rows| !has(rows, "29/31") && has(rows, "out you."));
}

/// Names of tasks have no wide characters, and all others may: those of the plan, of its waves and of agents.
#[test]
fn five_thousand_tasks_with_names_of_128_characters_have_ten_rows() {
    let name = |number: usize| format!("{}{number:04}", "x".repeat(124));
    let wide = "界".repeat(128);
    let plan = plan((0..5_000).map(|number| (name(number), &*wide)));
    let plan = plan.replacen("[[tasks]]", &format!("[[waves]]\nname = \"{wide}\"\n[[tasks]]"), 1);
    let plan = plan.replace("[[tasks]]", "[[waves.tasks]]");
    let work = Work::with(&plan.replace("nightly", &wide));
    let terminal = Terminal::of(24, 80);
    let mut running = work.runs_at(&terminal, &[]);
    let seen =
        terminal.sees("twelve at work", |rows| has(rows, "… and 3 more") && count(rows, "x…  界界") == 9);
    assert!(has(&seen, "0 of 5000 done, 0 failed") && has(&seen, "4988 queued"), "{seen:#?}");
    assert_eq!(count(&seen, "界…: 0 of 5000"), 1, "{seen:#?}");
    assert!(seen.iter().all(|row| width(row) < 80), "{seen:#?}");
    terminal.press("\u{3}");
    assert_eq!(code(&mut running), Some(130));
    let seen = terminal.sees("no rows", |rows| !has(rows, "x…") && has(rows, "without you"));
    assert!(!has(&seen, "queued"), "{seen:#?}");
    assert!(!has(&terminal.everything(), "界"), "and nothing has left the screen at its top");
}

/// A worker that serves `failing`: a hundred tasks at once, all of which fail when the gate is opened.
async fn failing(work: &Work, gate: watch::Receiver<bool>) -> tokio::task::JoinHandle<()> {
    let fail = move |_: Task| {
        let mut gate = gate.clone();
        async move {
            let _ = gate.wait_for(|is_open| *is_open).await;
            Err::<TaskOutput, _>(TaskError::new("BROKEN", "it is broken"))
        }
    };
    let worker = Worker::new(work.served.url()).id("w1").slots(100).agent("failing", fail);
    let worker = tokio::spawn(async move { drop(worker.run_until(std::future::pending::<()>()).await) });
    let client = work.served.client().await;
    let is_known = async {
        let names =
            async || client.list_agents().await.unwrap().into_iter().filter_map(|status| status.agent);
        while !names().await.any(|agent| agent.name == "failing") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, is_known).await.unwrap();
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_failures_have_a_line_each_above_a_view_that_stays_as_low_as_it_was() {
    const TASKS: usize = 5_000;
    let work = Work::with(&plan((0..TASKS).map(|number| (format!("t{number}"), "failing"))));
    let (open, gate) = watch::channel(false);
    let worker = failing(&work, gate).await;
    let terminal = Terminal::of(24, 100);
    let begun = Instant::now();
    let mut running = work.runs_at(&terminal, &[]);
    // What a key does is told of a run whose history was read.
    terminal.sees("a hundred at work", |rows| {
        let counts = ["nightly: 0 of 5000 done, 0 failed", "… and 91 more", "4900 queued", "15m more"];
        counts.iter().all(|text| has(rows, text))
    });
    open.send_replace(true);
    let highest = Cell::new(0);
    terminal.sees("the end of the report", |rows| {
        let view = rows.iter().skip_while(|row| !row.contains(" of 5000 done"));
        let height = view.filter(|row| !row.is_empty()).count();
        highest.set(highest.get().max(height));
        has(rows, "look at it: capataz runs show")
    });
    running.wait().unwrap();
    // How far the run is, how far its wave is, ten tasks, how many wait, and what a key does.
    assert!((1..=14).contains(&highest.get()), "{}", highest.get());
    let everything = terminal.everything();
    // The first twenty are told in whole.
    assert_eq!(count(&everything, "failed after"), TASKS - 20);
    assert_eq!(count(&everything, "From here on, an error has one line; "), 1);
    assert!(!has(&everything, " queued") && !has(&everything, "… and 91 more"), "the view has gone");
    // A line for each failure, twenty errors in whole and the report, and ten times a second the rows of the view.
    let views = 10 * (begun.elapsed().as_secs() + 1);
    let most = 200 * TASKS + 100_000 + 14 * 250 * usize::try_from(views).unwrap();
    let written = terminal.shown().len();
    assert!(written < most, "{written} bytes, and not {most}");
    worker.abort();
}
