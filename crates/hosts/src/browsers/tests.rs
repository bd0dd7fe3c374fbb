//! Browsers that are put away, with an inbox in the place of a Chromium.

use std::pin::pin;

use capataz_executor::chromium::ShimOptions;
use capataz_store::MemoryStore;

use super::*;
use crate::protocol::Lease;
use crate::serve::{News, Serve};

const RUN: &str = "00000000-0000-7000-8000-000000000001";

struct Bench {
    browsers: Arc<Browsers>,
    /// What is asked of the one browser that is open.
    asked: mpsc::Receiver<Command>,
    _data_dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(BrowserConfig::default())
    }

    fn with(config: BrowserConfig) -> Self {
        let data_dir = tempfile::tempdir().expect("a folder");
        let browsers = Browsers::new(Surroundings {
            config,
            data_dir: data_dir.path().to_owned(),
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(|| 0),
            shim: ShimOptions { command: Default::default(), locks_folder: data_dir.path().join("locks") },
            secrets: Arc::new(|_: &str| None),
        });
        let browsers = browsers.expect("nothing is in the way");
        let (inbox, asked) = mpsc::channel(1);
        let about = About {
            name: "form".to_owned(),
            interactive: false,
            opened_at_ms: 0,
            process_id: 0,
            browser: "Chromium 148".to_owned(),
            attached: false,
            policy: v1::ScriptPolicy::default(),
        };
        browsers.handles().insert(RUN.to_owned(), Handle { inbox, about: Arc::new(about) });
        Self { browsers, asked, _data_dir: data_dir }
    }

    fn keep(&self) {
        Arc::clone(&self.browsers).keep_browser(RUN.to_owned());
    }

    /// The next thing that is asked of the browser is to be put away; this is what it says.
    async fn is_put_away(&mut self, answer: Result<(), String>) {
        match self.asked.recv().await {
            Some(Command::PutAway { reply }) => reply.send(answer).expect("somebody waits for it"),
            _ => panic!("it is not put away"),
        }
    }

    async fn cannot_be_put_away(&mut self) {
        self.is_put_away(Err("the page is busy".to_owned())).await;
    }

    /// Waits until a try has failed, and begins the next one.
    async fn tries_again(&self) {
        while self.browsers.away.failures().is_empty() {
            tokio::task::yield_now().await;
        }
        Arc::clone(&self.browsers).sweep().await;
    }
}

fn reporter() -> Reporter {
    Reporter::new(Lease::from(v1::LeaseRef::default()), Arc::new(News::default()))
}

fn restores() -> v1::BrowserTask {
    v1::BrowserTask {
        activity: v1::BrowserActivity::Open as i32,
        restore: true,
        ..v1::BrowserTask::default()
    }
}

#[tokio::test]
async fn whoever_opens_a_browser_that_is_to_be_put_away_waits_until_that_is_done() {
    let mut bench = Bench::new();
    bench.keep();
    // It is told again to a worker that comes back.
    bench.keep();
    let browsers = Arc::clone(&bench.browsers);
    let (task, reporter) = (restores(), reporter());
    let mut opens = pin!(browsers.open(RUN, &task, &reporter));
    // It was told in one turn, and neither has begun.
    tokio::select! {
        biased;
        _ = &mut opens => panic!("the browser is not put away yet"),
        () = std::future::ready(()) => {}
    }
    bench.cannot_be_put_away().await;
    let serves = async {
        match bench.asked.recv().await {
            Some(Command::Answer { reply }) => reply.send(()).expect("somebody waits for it"),
            _ => panic!("it is put away once"),
        }
    };
    let (opened, ()) = tokio::join!(opens, serves);
    assert!(opened.expect("it has stayed open").keeps);
    assert_eq!(bench.browsers.away.failures(), Vec::<String>::new(), "it is in use again");
}

#[tokio::test]
async fn what_cannot_be_put_away_is_tried_again() {
    let mut bench = Bench::new();
    bench.keep();
    bench.cannot_be_put_away().await;
    bench.tries_again().await;
    bench.is_put_away(Ok(())).await;
    bench.browsers.away.settled(RUN).await;
    Arc::clone(&bench.browsers).sweep().await;
    tokio::task::yield_now().await;
    assert!(bench.asked.try_recv().is_err(), "nothing is left to be done");
}

#[tokio::test]
async fn a_browser_that_cannot_be_put_away_is_closed_in_the_end_and_lost() {
    let mut bench = Bench::new();
    bench.keep();
    bench.cannot_be_put_away().await;
    for _ in 1..away::TRIES {
        assert!(bench.browsers.handle(RUN).is_some(), "it stays open until the next try");
        bench.tries_again().await;
        bench.cannot_be_put_away().await;
    }
    assert!(bench.asked.recv().await.is_none(), "nobody can reach it any more, so it closes");
    let outcome = bench.browsers.outcome(RUN, restores(), &reporter()).await;
    assert_eq!(outcome.error.map(|error| error.error_code).as_deref(), Some(code::BROWSER_LOST));
}

#[tokio::test]
async fn a_run_that_has_ended_has_nothing_to_be_put_away() {
    let mut bench = Bench::new();
    bench.keep();
    bench.cannot_be_put_away().await;
    while bench.browsers.away.failures().is_empty() {
        tokio::task::yield_now().await;
    }
    bench.browsers.forget(RUN);
    assert_eq!(bench.browsers.away.failures(), Vec::<String>::new());
}

#[tokio::test]
async fn a_run_for_which_there_is_no_browser_has_lost_it_with_the_code_that_says_why() {
    let program = Some(PathBuf::from("/nowhere/chromium"));
    let bench = Bench::with(BrowserConfig { program, ..BrowserConfig::default() });
    bench.browsers.handles().clear();
    let task = v1::BrowserTask { activity: v1::BrowserActivity::Open as i32, ..v1::BrowserTask::default() };
    let outcome = bench.browsers.outcome(RUN, task, &reporter()).await;
    let error = outcome.error.expect("nothing can be opened");
    assert_eq!(error.error_code, "BROWSER_LOST");
    let details: serde_json::Value =
        serde_json::from_str(error.details.as_deref().unwrap_or_default()).unwrap_or_default();
    assert_eq!(details["original_code"], "BROWSER_NOT_FOUND", "{}", error.message);
    assert!(!error.message.contains('{'), "words, and no value of the program: {}", error.message);
    // With what the engine adds it has everything that its code asks for (seed 002, sections 2 to 6).
    let of_engine =
        v1::ExecutorError { seq: 1, step_index: Some(0), action_id: "browser:open".to_owned(), ..error };
    let of_engine = v1::ExecutorError { action_kind: v1::ActionKind::Navigate.into(), ..of_engine };
    assert_eq!(capataz_policy::obligations::violations(&of_engine), []);
}
