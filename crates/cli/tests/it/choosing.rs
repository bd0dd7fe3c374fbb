//! Questions of plans that are answered by a key where the run is watched, at a real terminal.

use std::path::{Path, PathBuf};
use std::process::Child;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use tempfile::TempDir;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

/// A task that fails when it is done for the first time, and another one after it.
const PLAN: &str = "
name = \"mending\"
on_high = \"pause\"
policy = { kind = \"continue_all\" }
[[waves]]
tasks = [{ name = \"mend\", agent = \"second-time\", severity = \"HIGH\" }]
[[waves]]
tasks = [{ name = \"after\", agent = \"quick\" }]
";

struct Work {
    served: Served,
    plan: PathBuf,
    _folder: TempDir,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let agent = |name: &str, does: &str| {
            format!("[[agents]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", \"{does}\"]\n")
        };
        let second = format!("test -e {0} && echo 1 || {{ touch {0}; exit 3; }}", mark.display());
        let agents = [agent("second-time", &second), agent("quick", "echo 2")];
        let plan = folder.path().join("plan.toml");
        std::fs::write(&plan, PLAN).unwrap();
        let served = Served::start(folder.path(), &agents.concat());
        Self { served, plan, _folder: folder }
    }

    fn runs_at(&self, terminal: &Terminal, options: &[&str]) -> Child {
        let arguments = ["run", path(&self.plan), "--addr", self.served.address()];
        terminal.starts(PROGRAM, &[&arguments[..], options].concat())
    }

    /// The answers that the newest run was given.
    async fn answers(&self) -> Vec<String> {
        let client = self.served.client().await;
        let runs = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs;
        let mut events = client.export_run(&runs[0].run_id).await.unwrap();
        let mut answers = Vec::new();
        while let Some(event) = events.next().await {
            if let Some(Body::QuestionAnswered(answered)) = event.unwrap().body {
                answers.push(answered.answer);
            }
        }
        answers
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn code(child: &mut Child) -> Option<i32> {
    child.wait().unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_failed_task_tried_again_and_the_view_goes_on() {
    let work = Work::new();
    let terminal = Terminal::new();
    let before = terminal.mode();
    let mut running = work.runs_at(&terminal, &[]);
    let shown = terminal.shows("? r: retry, s: skip, a: abort (mend)");
    assert!(shown.contains("? NON_RETRYABLE_ERROR (HIGH): mend: "), "{shown}");
    assert!(shown.contains("[s] Skip (not recommended); [a] Abort"), "{shown}");
    // A key of no option, and a word, answer nothing.
    terminal.press("x");
    terminal.press("ra");
    terminal.shows_after(shown.len(), "? r: retry, s: skip, a: abort (mend)");
    assert_eq!(work.answers().await, [""; 0]);
    // The view waits a second after what was typed, so that the end of a word is no answer.
    press_until(&terminal, "r", "[OK] mend was answered with retry.");
    assert_eq!(code(&mut running), Some(0), "{}", terminal.shown());
    // What a program has written comes from its terminal after its end, too.
    let shown = terminal.shows("✓ after  succeeded  ");
    assert!(shown.contains("✓ mend   succeeded  "), "{shown}");
    assert_eq!(work.answers().await, ["fix_manual"]);
    assert_eq!(terminal.mode(), before);
}

/// Presses the key until the text is there: a press soon after another one is none.
fn press_until(terminal: &Terminal, key: &str, text: &str) {
    let begin = std::time::Instant::now();
    while !terminal.shown().contains(text) {
        assert!(begin.elapsed() < std::time::Duration::from_secs(120), "{text} in\n{}", terminal.shown());
        terminal.press(key);
        terminal.shows_within(std::time::Duration::from_millis(1_500), text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_watches_a_run_in_spanish_in_forty_columns_skips_the_task() {
    let work = Work::new();
    let terminal = Terminal::of(24, 40);
    let detached = Terminal::new();
    assert_eq!(code(&mut work.runs_at(&detached, &["--detach"])), Some(0));
    let arguments = ["runs", "watch", "latest", "--lang", "es", "--addr", work.served.address()];
    let mut watching = terminal.starts(PROGRAM, &arguments);
    terminal.shows("? r: retry, s: skip, a: abort (mend)");
    terminal.press("S");
    terminal.shows("[OK] mend se respondió con skip.");
    assert_eq!(code(&mut watching), Some(0), "{}", terminal.shown());
    assert_eq!(work.answers().await, ["skip"]);
}
