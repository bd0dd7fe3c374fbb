//! Data folders of the versions before: their runs are what they were, those that had not ended go on, and keys still
//! name them. The folders are `fixtures/data-format-1` and `fixtures/data-format-2`; how they were made is said there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use capataz_client::Client;
use capataz_contracts::json;
use capataz_contracts::v1::{self, event::Body};
use capataz_daemon::{Clock, Config, Overrides, ShimCommand};
use serde_json::{Map, Value};

use crate::data_folder::{
    Daemon, LOOK_AGAIN, Made, Mood, PATIENCE, WHISPERS, asked_for, copy, crew, fixture, home, pretty, until,
    view,
};

/// Runs that stay as they are until somebody does something, at the least for the time in which a worker may come back.
const AT_REST: [&str; 14] = [
    // The worker of these two may still come back.
    "plan-leased",
    "plan-once",
    "plan-ended",
    "plan-failed",
    "plan-cancelled",
    "plan-waiting",
    "plan-paused",
    "plan-paused-in-backoff",
    "plan-queued",
    "ask-ended",
    "ask-suggested",
    "ask-accepted",
    "ask-held",
    "ask-behind",
];
/// Runs that have nothing to wait for, also at rest.
const SCRIPTS_AT_REST: [&str; 3] = ["script-ended", "script-failed", "script-waiting"];
/// Runs with something that is overdue, or of which the next daemon knows that it is lost: a delay, a call that nobody
/// takes, a session that nobody uses, a browser.
const OVERDUE: [&str; 4] = ["plan-in-backoff", ASK_OVERDUE, "script-at-work", "script-session"];
/// Its first call is overdue. The version that made the folder failed the next call where the daemon had not read its
/// specs yet ("no specs are loaded"); this one waits for them. So only the first call is compared.
const ASK_OVERDUE: &str = "ask-overdue";
/// What is recorded instead of a time after the last kill: it is that of the test.
const LATER: &str = "after the kill";
/// Time between the kill and the restart, as when the runs were recorded: a moved session has settled by then, and no
/// deadline of what was at work has passed. Milliseconds.
const RESTARTED_AFTER_MS: i64 = 600_000;
const SESSIONS: [&str; 4] = ["talk", "moved", "long", "held"];

/// Fields of questions that the versions before format 3 did not have.
const SINCE: [&str; 5] = ["about", "holds", "purpose", "revision", "value"];

/// What older versions did not write: what the router alone would choose where a session is held, how far an action was
/// that failed, how many tasks are in each state, and whether another run may go on with what is left.
const NEW: [&str; 4] = ["alone", "debug_message", "may_be_continued", "state_counts"];

/// What the version that made the folder says of it, after a restart.
#[derive(Default)]
struct Recorded(Map<String, Value>);

impl Recorded {
    /// Holds what is seen to what was recorded; records it instead where that is asked for.
    #[track_caller]
    fn check(&mut self, place: String, seen: Value) {
        if is_recording() {
            self.0.insert(place, seen);
        } else {
            let (seen, recorded) = (comparable(&place, seen), comparable(&place, self.0[&place].clone()));
            assert_eq!(pretty(&seen), pretty(&recorded), "{place}");
        }
    }
}

/// What this version decides as the recorded one did. In a held session the router's own choice is a suggestion now, and a
/// prominent one goes before the subtle one of the spec.
fn comparable(place: &str, mut value: Value) -> Value {
    if place.starts_with("ask-behind")
        && let Some(ask) = value.get_mut("ask").and_then(Value::as_object_mut)
    {
        ask.remove("transition");
        // It is routed when its turn comes, by what this version makes of the specs and of its text.
        for number in ["alternatives", "confidence", "confidence_breakdown", "language"] {
            ask.get_mut("routing").and_then(Value::as_object_mut).map(|routing| routing.remove(number));
        }
    }
    if place.starts_with("session held")
        && let Some(Value::Array(suggestions)) = value.get_mut("suggestions")
    {
        for suggestion in suggestions.iter_mut().filter(|suggestion| suggestion["at_ms"] == LATER) {
            suggestion["transition"] = Value::Null;
        }
    }
    // A browser that is lost leaves the snapshot of the last state as well.
    if place.starts_with("script-session")
        && let Some(Value::Array(evidence)) = value.pointer_mut("/script/error/evidence_refs")
    {
        evidence.retain(|reference| reference["kind"] != "dom_snapshot_partial");
    }
    // An action is counted of which a person says that it is done, and an event more tells of it.
    if place == "script-waiting: ended"
        && let Some(Value::Object(script)) = value.get_mut("script")
    {
        script.remove("succeeded");
        script.get_mut("error").and_then(Value::as_object_mut).map(|error| error.remove("seq"));
    }
    value
}

fn is_recording() -> bool {
    asked_for("CAPATAZ_RECORD_DATA_FORMAT").is_some()
}

/// What depends on the clock of the test:
/// - `*_at_ms`, `at_ms` and `deadline_ms` where they are later than the kill, but for deadlines of what began before it;
/// - `created_at` of an executor's error, which has no other time beside it;
/// - `duration_ms` of a result;
/// - `timestamp` of an answer that a spec gave after it.
///
/// And what only questions, routings and errors have that a newer version has made.
fn without_time(value: Value, killed_at: i64) -> Value {
    match value {
        Value::Object(fields) => {
            let is_question = fields.contains_key("question_id");
            let is_new = |name: &str| is_question && SINCE.contains(&name) || NEW.contains(&name);
            let fields = fields.into_iter().filter(|(name, _)| !is_new(name));
            let mut fields: Map<String, Value> = fields.collect();
            // Later versions give the number of the event a tag.
            if let Some(Value::String(id)) = fields.get_mut("question_id") {
                id.truncate(id.find('-').unwrap_or(id.len()));
            }
            let is_later = |value: &Value| value.as_i64().is_some_and(|at| at > killed_at);
            let began_later = fields.get("started_at_ms").is_some_and(is_later);
            let field = |(name, value): (String, Value)| {
                let moment = name == "at_ms" || name.ends_with("_at_ms") || name == "timestamp";
                let depends = (moment && is_later(&value))
                    || (name == "deadline_ms" && began_later)
                    || ["created_at", "duration_ms"].contains(&name.as_str());
                (name, if depends { LATER.into() } else { without_time(value, killed_at) })
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| without_time(item, killed_at)).collect())
        }
        other => other,
    }
}

struct Folder {
    format: u32,
    made: Made,
    recorded: Recorded,
    daemon: Opened,
    client: Client,
}

/// The daemon over the copied folder.
enum Opened {
    /// This version's. It takes it to be just after the kill, for the deadlines of what was at work pass otherwise.
    Own(Box<capataz_daemon::Daemon>),
    /// The program of another version, which has no other time than the system's.
    Program(Daemon),
}

impl Opened {
    async fn start(folder: &Path, format: u32, killed_at: i64) -> Self {
        if asked_for("CAPATAZ_DATA_FORMAT_PROGRAM").is_some() {
            return Self::Program(Daemon::start(folder, format));
        }
        let overrides = Overrides {
            listen: Some("127.0.0.1:0".to_owned()),
            data_dir: Some(folder.join("data")),
            specs_dir: None,
        };
        let settings = folder.join("capataz.toml");
        fs::write(&settings, crate::data_folder::config(format)).unwrap();
        let mut config = Config::load(Some(&settings), overrides).unwrap();
        let began = tokio::time::Instant::now();
        config.clock = Clock::new(move || {
            let since = i64::try_from(began.elapsed().as_millis()).unwrap();
            killed_at + RESTARTED_AFTER_MS + since
        });
        config.shim =
            Some(ShimCommand { program: env!("CARGO_BIN_EXE_capataz").into(), args: vec!["__shim".into()] });
        Self::Own(Box::new(capataz_daemon::Daemon::start(config).await.unwrap()))
    }

    fn url(&self) -> String {
        match self {
            Self::Own(daemon) => format!("http://{}", daemon.address()),
            Self::Program(daemon) => daemon.url(),
        }
    }
}

impl Folder {
    async fn open(folder: &Path, format: u32) -> Self {
        copy(&fixture(format).join("data"), &folder.join("data"));
        let recorded = match is_recording() {
            true => Recorded::default(),
            false => {
                let text =
                    fs::read_to_string(fixture(format).join("runs.json")).expect("the fixture is there");
                Recorded(serde_json::from_str(&text).unwrap())
            }
        };
        let made = Made::read(format);
        let daemon = Opened::start(folder, format, made.killed_at).await;
        let client = Client::connect(&daemon.url()).await.unwrap();
        Self { format, made, recorded, daemon, client }
    }

    #[track_caller]
    fn run(&self, case: &str) -> String {
        self.made.cases[case].run.clone()
    }

    async fn seen(&self, case: &str) -> Value {
        let mut seen = view(&self.client, &self.run(case)).await;
        // What the older versions did not show.
        seen.notices.clear();
        for task in seen.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            task.attempts.clear();
            task.health_checks = None;
            task.waits_for = None;
        }
        let seen = json::print("capataz.v1.Run", &seen);
        let compared = if case == ASK_OVERDUE { seen["waves"][0].clone() } else { seen };
        without_time(compared, self.made.killed_at)
    }

    async fn is_as_it_was(&mut self, case: &str) {
        let seen = self.seen(case).await;
        self.recorded.check(format!("{case}: restarted"), seen);
    }

    /// Overdue timers fire, and lost browsers are found lost, in a time that nobody promises.
    async fn becomes_what_it_became(&mut self, case: &str) {
        let place = format!("{case}: restarted");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut before = Value::Null;
        let mut same = 0;
        loop {
            let seen = self.seen(case).await;
            same = if seen == before { same + 1 } else { 0 };
            // A recording has nothing to compare with but what stays.
            let is_there =
                if is_recording() { same == 300 } else { self.recorded.0.get(&place) == Some(&seen) };
            if is_there || tokio::time::Instant::now() > deadline {
                return self.recorded.check(place, seen);
            }
            before = seen;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn session_is_as_it_was(&mut self, session: &str, when: &str) {
        let Ok(seen) = self.client.get_session(session).await else {
            // Nothing was said in it yet.
            return self.recorded.check(format!("session {session}: {when}"), Value::Null);
        };
        let seen = without_time(json::print("capataz.v1.Session", &seen), self.made.killed_at);
        self.recorded.check(format!("session {session}: {when}"), seen);
    }

    async fn list(&self) -> Vec<v1::Run> {
        let request = v1::ListRunsRequest { page_size: 500, ..Default::default() };
        self.client.list_runs(request).await.unwrap().runs
    }

    /// The same key and request name the same run, whatever has become of it.
    async fn keys_name_their_runs(&self) {
        for (name, case) in &self.made.cases {
            let Some(request) = case.request.clone() else { continue };
            let mut other = request.clone();
            let started = self.client.start_run(request).await.unwrap();
            assert_eq!((started.run_id, started.created), (case.run.clone(), false), "{name}");
            other.labels.insert("another".to_owned(), "request".to_owned());
            assert!(self.client.start_run(other).await.is_err(), "{name}");
        }
    }

    async fn resumes(&self, case: &str) {
        let request = v1::ResumeRunRequest { run_id: self.run(case), ..Default::default() };
        self.client.resume_run(request).await.unwrap();
    }

    async fn answers(&self, case: &str, answer: &str) {
        let run = self.run(case);
        let asks = |run: &v1::Run| run.questions.iter().any(|question| question.answer.is_none());
        let waiting = until("it asks", &self.client, &run, asks).await;
        let question = waiting.questions.iter().find(|question| question.answer.is_none()).unwrap();
        let request = v1::ResolveRequest {
            run_id: run,
            question_id: question.question_id.clone(),
            answer: answer.to_owned(),
            ..Default::default()
        };
        self.client.resolve(request).await.unwrap();
    }

    async fn ends_as_it_ended(&mut self, case: &str) {
        let run = self.run(case);
        let result = self.client.wait_run(&run, Some(PATIENCE)).await.unwrap();
        assert!(result.is_some(), "{case} ends in time");
        let result = result.unwrap_or_default();
        let result = json::print("capataz.v1.RunResult", &result);
        let compared = if case == ASK_OVERDUE { result["ask"]["calls"][0].clone() } else { result };
        let result = without_time(compared, self.made.killed_at);
        self.recorded.check(format!("{case}: ended"), result);
        let mut events = self.client.export_run(&run).await.unwrap();
        let (mut seq, mut finished) = (0, 0);
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            seq += 1;
            assert_eq!(event.seq, seq, "{case}: no gap and nothing twice");
            finished += usize::from(matches!(event.body, Some(Body::RunFinished(_))));
        }
        assert_eq!(finished, 1, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_data_format_1_has_the_same_runs_and_they_go_on() {
    has_the_same_runs_and_they_go_on(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_data_format_2_has_the_same_runs_and_they_go_on() {
    has_the_same_runs_and_they_go_on(2).await;
}

async fn has_the_same_runs_and_they_go_on(format: u32) {
    let temporary = tempfile::tempdir().unwrap();
    if asked_for("CAPATAZ_MAKE_DATA_FORMAT").is_some() {
        return crate::data_folder::make::make(temporary.path(), format).await;
    }
    let mut folder = Folder::open(temporary.path(), format).await;
    for case in AT_REST.into_iter().chain(SCRIPTS_AT_REST) {
        folder.is_as_it_was(case).await;
    }
    for session in ["talk", "moved", "long"] {
        folder.session_is_as_it_was(session, "restarted").await;
    }
    for case in OVERDUE {
        folder.becomes_what_it_became(case).await;
    }
    let named = AT_REST.into_iter().chain(SCRIPTS_AT_REST).chain(OVERDUE);
    assert_eq!(named.collect::<std::collections::BTreeSet<_>>().len(), folder.made.cases.len(), "every case");
    folder.keys_name_their_runs().await;
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for run in folder.list().await.into_iter().filter(|run| run.run_id != folder.run(ASK_OVERDUE)) {
        // A lease whose worker does not come back becomes a question, sooner or later.
        let outcome = run.outcome.map_or("goes on".to_owned(), |_| format!("{:?}", run.outcome()));
        *runs.entry(format!("{:?} {outcome}", run.kind())).or_default() += 1;
    }
    let runs = runs.into_iter().map(|(what, count)| (what, count.into())).collect();
    folder.recorded.check("runs".to_owned(), Value::Object(runs));

    let (_crew, _home) = (crew(&folder.daemon.url(), Mood::Good), home(&folder.daemon.url()));
    crate::data_folder::until_served(&folder.client, &["crew", "home"]).await;
    for case in ["plan-paused", "plan-paused-in-backoff", "ask-held"] {
        folder.resumes(case).await;
    }
    folder.answers("plan-waiting", "fix_manual").await;
    folder.answers("plan-once", "retry").await;
    folder.answers("script-waiting", "succeeded").await;
    folder.answers("script-at-work", "failed").await;
    accepts_what_was_suggested(&folder.client).await;
    for case in folder.made.cases.keys().cloned().collect::<Vec<_>>() {
        folder.ends_as_it_ended(&case).await;
    }
    for session in SESSIONS {
        folder.session_is_as_it_was(session, "ended").await;
    }
    folder.keys_name_their_runs().await;
    if is_recording() {
        fs::write(fixture(folder.format).join("runs.json"), pretty(&Value::Object(folder.recorded.0)))
            .unwrap();
    }
    if let Opened::Own(daemon) = folder.daemon {
        drop(folder.client);
        daemon.shutdown().await;
        rows_can_be_made_again(&temporary.path().join("data"));
    }
}

/// Rows of the version before may be those of earlier events. After a rebuild all follow from their logs.
fn rows_can_be_made_again(data_dir: &Path) {
    let totals = capataz_daemon::rebuild(data_dir, false, &mut |_| ()).unwrap();
    assert_eq!((totals.left, totals.mended), (0, totals.differing), "{totals:?}");
    let again = capataz_daemon::rebuild(data_dir, true, &mut |_| ()).unwrap();
    assert_eq!((again.runs, again.differing), (totals.runs, 0), "{again:?}");
}

/// The suggestion that is open is accepted; the one that was accepted before is the same again.
async fn accepts_what_was_suggested(client: &Client) {
    let talk = client.get_session("talk").await.unwrap();
    let suggested = &talk.suggestions[0];
    let accepted = client.accept_transition("talk", &suggested.request_id).await.unwrap();
    assert_eq!(accepted.seq, talk.seq + 1);
    let moved = client.get_session("moved").await.unwrap();
    assert_eq!(moved.context.unwrap().current_spec.as_deref(), Some(WHISPERS));
    assert_eq!(moved.suggestions, []);
}
