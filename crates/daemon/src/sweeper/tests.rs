use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;

use capataz_contracts::v1;
use capataz_crew::{Known, KnownAgent};
use capataz_engine::{Plan, StartRun, Work};
use capataz_runtime::Options;
use capataz_shard::StartRequest;
use capataz_store::builders::{Shape, beginning, everything};
use capataz_store::{Append, AppendOutcome, Mark, RunId, SqliteOptions, SqliteStore, Store};
use uuid::Uuid;

use super::*;

/// The greater the number of a run, the later it has ended, and the smaller is its id.
fn id(number: u32) -> RunId {
    RunId(Uuid::from_u128(10_000 - u128::from(number)))
}

/// A run that has ended, with 100 bytes of events.
fn ended(number: u32) -> Append {
    let at = number.into();
    beginning(id(number)).created_at(at).events(vec![0_u8; 100]).ended_at(at)
}

#[tokio::test]
async fn runs_that_come_faster_than_one_transaction_removes_them_stay_within_the_limit_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    // There is room for 150 runs, and not for one more. Nothing goes because it is old.
    let config = RetentionConfig {
        finished_runs: None,
        max_log_bytes: Some(15_050),
        idempotency_keys: Duration::from_secs(3_600),
        unused_blobs: Duration::from_secs(3_600),
        believe_clock: false,
    };
    for round in 0..5 {
        let first = 600 * round;
        let mut writer = store.claim(SHARD, Mark(1 + round)).unwrap();
        let runs: Vec<Append> = (first..first + 600).map(ended).collect();
        let outcomes = writer.commit(&runs).unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::Committed(_))));
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let runtime =
            Runtime::start(vec![SHARD], shared, Known::default(), Options::default()).await.unwrap();
        sweep(&runtime, &config).await;
        assert_eq!(store.bounds(SHARD).unwrap().bytes, 15_000, "round {round}");
        let left = store.list_runs(&everything()).unwrap();
        let left: BTreeSet<RunId> = left.into_iter().map(|row| row.run).collect();
        let newest: BTreeSet<RunId> = (first + 450..first + 600).map(id).collect();
        assert_eq!(left, newest, "round {round}");
    }
}

#[tokio::test]
async fn a_log_that_is_too_large_again_after_a_sweep_is_swept_on_as_long_as_something_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let config = RetentionConfig {
        finished_runs: None,
        max_log_bytes: Some(1_000),
        idempotency_keys: Duration::from_secs(3_600),
        unused_blobs: Duration::from_secs(3_600),
        believe_clock: false,
    };
    let mut writer = store.claim(SHARD, Mark(1)).unwrap();
    let outcomes = writer.commit(&[ended(1), ended(2)]).unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::Committed(_))));
    let agent = v1::Agent { name: "a".to_owned(), kind: v1::AgentKind::Task.into(), ..v1::Agent::default() };
    let known = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    let known = Known { agents: vec![known], ..Known::default() };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let runtime = Runtime::start(vec![SHARD], shared, known, Options::default()).await.unwrap();
    // A run that waits for a worker is larger than the limit, so that the log is too large whatever goes.
    let data = Some(v1::payload::Data::Inline(vec![b'x'; 2_000].into()));
    let input = Some(v1::Payload { media_type: "text/plain".to_owned(), data });
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), input, ..v1::Task::default() };
    let wave = v1::Wave { tasks: vec![task], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    let start = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
    runtime.start_run(StartRequest::new(id(9_000), start)).await.unwrap();
    assert!(sweep(&runtime, &config).await.has_shrunk, "two runs have ended");
    assert!(is_too_large(&runtime, Some(1_000)).await);
    assert!(!sweep(&runtime, &config).await.has_shrunk, "what is left has not ended");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Its lines so far, each of which begins with its level.
    fn lines(&self) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        log.lines().map(|line| line.trim_start().to_owned()).collect()
    }
}

#[tokio::test]
async fn the_log_says_once_that_retention_stands_still_and_once_that_it_goes_on() {
    let log = Log::default();
    let to_log = log.clone();
    let lines = tracing_subscriber::fmt().without_time().with_ansi(false);
    let lines = lines.with_writer(move || to_log.clone()).finish();
    let _listens = tracing::subscriber::set_default(lines);
    let (health, _) = Health::serves().await;
    let mut telling = Telling { health, is_going: true };
    telling.of(FAR_BEHIND_MS - 1).await;
    assert!(log.lines().is_empty(), "{:?}", log.lines());
    for behind_ms in [FAR_BEHIND_MS, FAR_BEHIND_MS + 1] {
        telling.of(behind_ms).await;
    }
    let told = log.lines();
    let [line] = &told[..] else { panic!("{told:?}") };
    assert!(line.starts_with("WARN "), "{line}");
    assert!(line.contains("retention removes nothing"), "{line}");
    // A day.
    assert!(line.ends_with("behind_ms=86400000"), "{line}");
    for behind_ms in [FAR_BEHIND_MS - 1, 0] {
        telling.of(behind_ms).await;
    }
    let told = log.lines();
    let [_, line] = &told[..] else { panic!("{told:?}") };
    assert!(line.starts_with("INFO "), "{line}");
    assert!(line.ends_with("retention goes by the clock on the wall again"), "{line}");
}

#[test]
fn a_sweep_that_removes_only_what_another_one_has_left_is_told() {
    let nothing = Swept::default();
    assert!(!has_removed(&nothing));
    assert!(!has_removed(&Swept { unreadable: 1, ..nothing }), "the store tells of it where it tries again");
    assert!(has_removed(&Swept { bytes: 1, ..nothing }));
    assert!(has_removed(&Swept { runs: 1, ..nothing }));
}

#[test]
fn a_sweep_is_of_runs_or_of_blobs() {
    // Every age is another one, so that none of them can stand for another.
    let config = RetentionConfig {
        finished_runs: Some(Duration::from_secs(3)),
        max_log_bytes: Some(7),
        idempotency_keys: Duration::from_secs(4),
        unused_blobs: Duration::from_secs(5),
        believe_clock: true,
    };
    let [(runs, of_runs), (blobs, of_blobs)] = rules(&config);
    let ages = Ages { finished_runs: Some(3_000), keys: Some(4_000), blobs: None, believes_clock: true };
    assert_eq!((runs.max_log_bytes, of_runs), (Some(7), ages));
    let ages = Ages { finished_runs: None, keys: None, blobs: Some(5_000), believes_clock: true };
    assert_eq!((blobs.max_log_bytes, of_blobs), (None, ages));
    for rule in [runs, blobs] {
        assert_eq!(rule.finished_before, None, "the shard says so");
        assert_eq!((rule.keys_before, rule.blobs_before), (Millis(i64::MIN), Millis(i64::MIN)));
    }
}
