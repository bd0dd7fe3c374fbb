//! A session: asks with all that they may leave behind, more than its history holds, and a transition that its user
//! accepts.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::session::{SessionState, choose_mode, forget, import, record};
use capataz_engine::{Input, Report, TaskRef, Wall, Work};
use serde_json::json;

use super::{Log, MINUTE, Run, SECOND, START};
use crate::golden_told::facts_of_session;

struct Session<'a> {
    state: Option<Box<SessionState>>,
    now: i64,
    log: Log,
    before: &'a Log,
    decisions: usize,
}

impl Session<'_> {
    /// Folds the next decision of the log before, where there is one that is to be taken from there.
    fn goes_on_as_before(&mut self) -> bool {
        let number = self.log.ends.len();
        if number >= self.decisions {
            return false;
        }
        self.log.events.extend_from_slice(self.before.decision(number));
        self.log.ends.push(self.log.events.len() as u64);
        let state = SessionState::fold(self.log.events.clone()).expect("the beginning can be folded");
        self.state = Some(Box::new(state));
        true
    }

    /// An ask of the session, from its turn to its end. `tells` has its spec answer.
    #[track_caller]
    fn asks(&mut self, request: &str, language: &str, tells: impl FnOnce(&mut Run<'_>)) {
        let preferences = BTreeMap::from([("language".to_owned(), language.to_owned())]);
        self.asks_as(request, v1::Ask { preferences, ..v1::Ask::default() }, tells);
    }

    #[track_caller]
    fn asks_as(&mut self, request: &str, ask: v1::Ask, tells: impl FnOnce(&mut Run<'_>)) {
        self.now += SECOND;
        let context = self.state.as_ref().map(|state| state.context(Wall(self.now)));
        let context = context.unwrap_or_default();
        let ask = v1::Ask {
            text: format!("{request}: Me siento perdido"),
            session: Some("talk".to_owned()),
            request_id: Some(request.to_owned()),
            ..ask
        };
        let spec = context.current_spec.clone().unwrap_or_else(|| "wave".to_owned());
        let nothing = Log::default();
        let mut run = Run::start_at(1, Work::Ask(ask), &nothing, 0, self.now);
        run.does(Input::SessionTurn { context });
        run.is_routed_to(&spec);
        tells(&mut run);
        assert!(run.state.is_finished());
        self.now = run.now;
        if !self.goes_on_as_before() {
            let decision = record(&mut self.state, &run.state, &format!("run of {request}"));
            let decision = decision.expect("the state is valid");
            self.log.add(&decision.expect("the ask adds to its session").events);
            self.is_seen();
        }
    }

    #[track_caller]
    fn accepts(&mut self, request: &str) {
        self.now += SECOND;
        if !self.goes_on_as_before() {
            let state = self.state.as_mut().expect("the session is open");
            let (_, decision) = state.accept(request, Wall(self.now)).expect("it was suggested");
            self.log.add(&decision.map(|decision| decision.events).unwrap_or_default());
            self.is_seen();
        }
    }

    #[track_caller]
    fn imports(&mut self, state: &serde_json::Value) {
        self.now += SECOND;
        if !self.goes_on_as_before() {
            let repairs = vec!["added updated_at".to_owned()];
            let imported = import(&mut self.state, "shop", &state.to_string(), repairs, Wall(self.now));
            let decision = imported.and_then(|imported| imported.decision).expect("the state is another one");
            self.log.add(&decision.events);
            self.is_seen();
        }
    }

    /// The plan at work tells its session how far it is.
    #[track_caller]
    fn hears(&mut self, run: &Run<'_>) {
        if !self.goes_on_as_before() {
            let decision =
                record(&mut self.state, &run.state, "run of the plan").expect("the state is valid");
            self.log.add(&decision.expect("the plan has come further").events);
            self.is_seen();
        }
    }

    fn is_seen(&mut self) {
        self.log.seen.push(facts_of_session(self.state.as_ref().expect("the session is open")));
    }
}

/// Every ask has to be told also where the session's own decision is taken from the log before: what the session is
/// given by it is the same.
pub fn log(_seed: u64, before: &Log, decisions: usize) -> Log {
    let log = Log::default();
    let mut session = Session { state: None, now: START, log, before, decisions };
    session.asks("r1", "es", |run| run.suggests("kiro", 0.7, false));
    session.accepts("r1");
    session.accepts("r1");
    session.asks("r2", "en", |run| {
        run.suggests("sage", 0.95, true);
        run.is_routed_to("sage");
        // Suppressed: that would lead back within a minute.
        run.suggests("kiro", 0.95, true);
    });
    session.asks("r3", "en", |run| {
        run.replies_with_error("FATAL_ERROR", false, Some("wave"));
        run.is_routed_to("wave");
        run.suggests("sage", 0.65, false);
    });
    session.asks("r4", "en", |run| {
        run.replies_with_error("VALIDATION_ERROR", false, None);
    });
    session.now += MINUTE;
    for number in 5..=14 {
        session.asks(&format!("r{number}"), "es", |run| {
            run.replies(|answer| {
                answer["context_update"] = json!({ "custom": { format!("key-{number}"): number } });
            });
        });
    }
    session.accepts("r3");
    session.asks("r15", "es", |run| {
        // Longer than what a session keeps of a message.
        run.replies(|answer| answer["response"]["text"] = json!("á".repeat(3_000)));
    });
    session.log
}

/// A session whose asks and answers say all kinds of JSON values, and more than a context has room for.
pub fn log_of_any_json(_seed: u64, before: &Log, decisions: usize) -> Log {
    let log = Log::default();
    let mut session = Session { state: None, now: START, log, before, decisions };
    let prefers = |preferences: serde_json::Value| v1::Ask {
        preferences: BTreeMap::from([("language".to_owned(), "es".to_owned())]),
        preferences_json: Some(preferences.to_string()),
        ..v1::Ask::default()
    };
    session.asks_as(
        "r1",
        prefers(json!({ "hour": 7, "tone": null, "topics": ["sea", { "far": true }] })),
        |run| {
            run.replies(|answer| {
                answer["context_update"] =
                    json!({ "custom": { "deep": [1, [null, { "a": {} }]], "large": "x".repeat(300_000) } });
            });
        },
    );
    // A text takes the place of a number, and a number that of a text.
    session.asks_as("r2", prefers(json!({ "hour": "seven", "language": 1 })), |run| {
        run.replies(|answer| answer["context_update"] = json!({ "custom": { "deep": null } }));
    });
    session.log
}

/// A session whose state is imported, followed by a plan, and imported again.
pub fn log_of_plans(_seed: u64, before: &Log, decisions: usize) -> Log {
    let log = Log::default();
    let mut session = Session { state: None, now: START, log, before, decisions };
    session.imports(&json!({
        "version": "1.0.0",
        "updated_at": "2023-11-14T22:00:00Z",
        "context": { "project_type": "brownfield", "tech_stack": ["nextjs", "prisma"] },
        "history": [{ "command": "plan", "completed_at": "2023-11-14T21:50:00Z", "result": "created" }],
        "of_ours": { "kept": [1, null, true] },
    }));
    let nothing = Log::default();
    let plan = super::plan::of_a_session();
    let mut run = Run::start_at(1, Work::Plan(plan), &nothing, 0, session.now);
    run.does(Input::SessionTurn { context: v1::SessionContext::default() });
    session.hears(&run);
    let first = TaskRef { wave: 0, task: 0 };
    let lease = run.takes(first, "w1");
    run.says(first, lease, "w1", Report::Failed(super::plan::failure("TESTS_FAILED")));
    session.hears(&run);
    run.answers("skip");
    session.hears(&run);
    let second = TaskRef { wave: 1, task: 0 };
    let lease = run.takes(second, "w1");
    run.says(second, lease, "w1", Report::Completed(super::json("1")));
    session.hears(&run);
    session.now = run.now;
    session.imports(&json!({ "version": "1.1.0", "updated_at": "2023-11-14T23:00:00Z" }));
    session.log
}

/// A session that has one mode after the other.
pub fn log_of_modes(_seed: u64, before: &Log, decisions: usize) -> Log {
    let log = Log::default();
    let mut session = Session { state: None, now: START, log, before, decisions };
    session.chooses(v1::ExecutionMode::Supervised);
    session.chooses(v1::ExecutionMode::Planner);
    session.log
}

/// A session some of whose memory a person wants forgotten.
pub fn log_that_forgets(_seed: u64, before: &Log, decisions: usize) -> Log {
    let log = Log::default();
    let mut session = Session { state: None, now: START, log, before, decisions };
    session
        .forgets(&["01890000-0000-7000-8000-000000000001-8-0", "01890000-0000-7000-8000-000000000001-9-0"]);
    session.forgets(&["01890000-0000-7000-8000-000000000002-8-0"]);
    session.log
}

impl Session<'_> {
    #[track_caller]
    fn forgets(&mut self, entries: &[&str]) {
        self.now += SECOND;
        if !self.goes_on_as_before() {
            let entries = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let forgotten = forget(&mut self.state, "shop", entries, Wall(self.now));
            self.log.add(&forgotten.expect("it is forgotten").decision.events);
            self.is_seen();
        }
    }

    #[track_caller]
    fn chooses(&mut self, mode: v1::ExecutionMode) {
        self.now += SECOND;
        if !self.goes_on_as_before() {
            let chosen = choose_mode(&mut self.state, "shop", mode, Wall(self.now));
            let decision = chosen.and_then(|chosen| chosen.decision);
            self.log.add(&decision.expect("it is another mode").events);
            self.is_seen();
        }
    }
}
