//! A plan: retries, a lost lease, refused results, questions, a pause, an extension, an early end, a cancel.

use capataz_contracts::v1;
use capataz_engine::{Answer, ChildNews, Input, Plan, Report, TaskRef, Work};

use super::{Log, MINUTE, Run, SECOND, json};

fn task(name: &str) -> v1::Task {
    v1::Task { name: name.to_owned(), agent: format!("{name}-agent"), ..v1::Task::default() }
}

pub fn failure(code: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: "exit code 1".to_owned(), ..v1::Error::default() }
}

fn policy(kind: v1::AggregationKind) -> v1::AggregationPolicy {
    v1::AggregationPolicy { kind: kind as i32, ..v1::AggregationPolicy::default() }
}

fn plan() -> v1::Plan {
    let once = v1::Task { effect: Some(v1::Effect::AtMostOnce as i32), ..task("publish") };
    let slow = v1::Task {
        timeouts: Some(v1::TimeoutPolicy { timeout_ms: Some(5 * MINUTE), ..v1::TimeoutPolicy::default() }),
        ..task("slow")
    };
    let report = v1::Task {
        input: Some(json(r#"{"built":"${tasks.build.output}","n":"${tasks.build.output.n}"}"#)),
        critical: true,
        retry: Some(v1::RetryPolicy {
            delays_ms: vec![100],
            jitter: Some(true),
            ..v1::RetryPolicy::default()
        }),
        ..task("report")
    };
    let broken = v1::Task { input: Some(json(r#""${tasks.build.output.missing}""#)), ..task("broken") };
    let early = v1::AggregationPolicy {
        quorum_threshold: Some(0.25),
        stop_when_decided: Some(true),
        ..policy(v1::AggregationKind::Quorum)
    };
    v1::Plan {
        name: "golden".to_owned(),
        waves: vec![
            v1::Wave {
                name: Some("first".to_owned()),
                tasks: vec![task("build"), task("test"), once, slow],
                policy: Some(policy(v1::AggregationKind::ContinueAll)),
            },
            v1::Wave {
                name: None,
                tasks: vec![report, broken, task("rest"), task("idle")],
                policy: Some(early),
            },
            v1::Wave { name: None, tasks: vec![task("last"), task("never")], policy: None },
            v1::Wave { name: None, tasks: vec![task("unreached")], policy: None },
        ],
        policy: Some(policy(v1::AggregationKind::CriticalPath)),
        on_high: Some(v1::OnHigh::Pause as i32),
        ..v1::Plan::default()
    }
}

impl Run<'_> {
    fn at(&self, name: &str) -> TaskRef {
        self.state.plan().find(name).expect("the task is in the plan")
    }

    #[track_caller]
    fn lease(&mut self, name: &str) -> u64 {
        self.takes(self.at(name), &format!("{name}-worker"))
    }

    #[track_caller]
    fn reports(&mut self, name: &str, lease: u64, report: Report) {
        let (task, worker) = (self.at(name), format!("{name}-worker"));
        self.does(Input::Report { task, lease, worker, report, log: format!("log of {name}"), usage: None });
    }

    #[track_caller]
    fn completes(&mut self, name: &str, lease: u64, output: &str) {
        self.reports(name, lease, Report::Completed(json(output)));
    }

    #[track_caller]
    fn fails(&mut self, name: &str, lease: u64, code: &str) {
        self.reports(name, lease, Report::Failed(failure(code)));
    }

    /// Something is heard of the run that the task is.
    #[track_caller]
    fn hears(&mut self, name: &str, news: ChildNews) {
        let task = self.at(name);
        let run_id = self.state.child(task).expect("the task waits for its run").run.to_owned();
        self.does(Input::Child { task, run_id, news });
    }

    #[track_caller]
    fn takes_back(&mut self, name: &str, cascade: bool) {
        self.does(taking_back(name, cascade));
    }

    #[track_caller]
    fn loses(&mut self, name: &str, lease: u64) {
        self.loses_lease(self.at(name), lease, v1::LeaseLossReason::Silent);
    }
}

pub fn log(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut plan = plan();
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    first_wave(&mut run);
    second_wave(&mut run);
    run.lease("last");
    run.after(SECOND);
    run.does(Input::Cancel { reason: "enough".to_owned(), force: false, request_id: "cancel".to_owned() });
    run.after(MINUTE);
    run.ends(v1::RunOutcome::Cancelled)
}

/// A task that fails in every attempt, one whose workers are lost one after the other, and one whose late result is
/// refused, and recorded once.
pub fn log_of_one_that_is_given_up(seed: u64, before: &Log, decisions: usize) -> Log {
    let wave = v1::Wave { tasks: vec![task("fails"), task("is-lost"), task("late")], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "given up".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    run.does(Input::AgentAbsent { task: run.at("fails") });
    run.refuses(Input::AgentAbsent { task: run.at("fails") });
    for _ in 0..3 {
        let lease = run.lease("fails");
        run.after(SECOND);
        run.fails("fails", lease, "NETWORK_ERROR");
        run.after(2 * SECOND);
    }
    for _ in 0..5 {
        let lease = run.lease("is-lost");
        run.loses("is-lost", lease);
    }
    let lost = run.lease("late");
    run.loses("late", lost);
    let lease = run.lease("late");
    run.completes("late", lost, "1");
    run.completes("late", lost, "1");
    run.completes("late", lease, "2");
    run.ends(v1::RunOutcome::Failed)
}

/// A task whose attempts say what they used of models, the one that fails as well.
pub fn log_of_one_that_is_billed(seed: u64, before: &Log, decisions: usize) -> Log {
    let wave = v1::Wave { tasks: vec![task("asks")], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "billed".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    for (report, tokens) in
        [(Report::Failed(failure("NETWORK_ERROR")), 1_000), (Report::Completed(json("1")), 20)]
    {
        let lease = run.lease("asks");
        let cost = Some(v1::Cost { nanos: tokens * 250, currency: "EUR".to_owned() });
        let usage = Some(v1::Usage { input_tokens: Some(tokens), cost, ..v1::Usage::default() });
        let (task, worker) = (run.at("asks"), "asks-worker".to_owned());
        run.does(Input::Report { task, lease, worker, report, log: String::new(), usage });
        run.after(2 * SECOND);
    }
    run.ends(v1::RunOutcome::Succeeded)
}

/// A task of unknown outcome whose worker comes back too late, and for whose output a person vouches.
pub fn log_of_one_that_is_vouched_for(seed: u64, before: &Log, decisions: usize) -> Log {
    let once = v1::Task { effect: Some(v1::Effect::AtMostOnce.into()), ..task("pays") };
    let wave = v1::Wave { tasks: vec![once], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "vouched for".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    let lease = run.lease("pays");
    run.loses("pays", lease);
    run.after(SECOND);
    run.completes("pays", lease, "1");
    run.refuses(answer(&run, Some(1)));
    run.does(answer(&run, Some(2)));
    run.ends(v1::RunOutcome::Succeeded)
}

/// A task that gets more time, begins again, and is ended with what it has.
pub fn log_of_one_at_its_deadlines(seed: u64, before: &Log, decisions: usize) -> Log {
    let wave = v1::Wave { tasks: vec![task("slow")], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "at its deadlines".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(MINUTE), ..v1::TimeoutPolicy::default() });
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    run.lease("slow");
    run.after(MINUTE);
    run.answers("extend");
    run.after(15 * MINUTE);
    run.answers("retry");
    let lease = run.lease("slow");
    run.after(MINUTE);
    run.answers("terminate");
    run.reports("slow", lease, Report::Cancelled(Some(json("\"half\""))));
    run.ends(v1::RunOutcome::Failed)
}

/// A task that is taken back at work, and later again with all that was built on it: of the second wave one task has
/// succeeded, one is at work, one waits, and one has failed.
pub fn log_of_one_that_is_taken_back(seed: u64, before: &Log, decisions: usize) -> Log {
    let built = v1::Task { input: Some(json(r#""${tasks.base.output}""#)), ..task("built") };
    let first = v1::Wave { tasks: vec![task("base"), task("beside")], ..v1::Wave::default() };
    let tasks = vec![built, task("works"), task("waits"), task("fails")];
    let second =
        v1::Wave { tasks, policy: Some(policy(v1::AggregationKind::ContinueAll)), ..v1::Wave::default() };
    let mut plan =
        v1::Plan { name: "taken back".to_owned(), waves: vec![first, second], ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    run.lease("base");
    let beside = run.lease("beside");
    run.takes_back("base", false);
    run.after(SECOND);
    let base = run.lease("base");
    run.completes("base", base, "1");
    run.completes("beside", beside, "\"kept\"");
    let built = run.lease("built");
    run.completes("built", built, "\"of 1\"");
    run.lease("works");
    let fails = run.lease("fails");
    run.fails("fails", fails, "TESTS_FAILED");
    run.after(SECOND);
    let request_id = "alone".to_owned();
    run.refuses(Input::Rollback { task: "base".to_owned(), cascade: false, request_id });
    run.takes_back("base", true);
    let base = run.lease("base");
    run.completes("base", base, "2");
    for name in ["built", "works", "waits", "fails"] {
        let lease = run.lease(name);
        run.completes(name, lease, "\"of 2\"");
    }
    run.ends(v1::RunOutcome::Succeeded)
}

/// A run that goes on where another one has ended: of its tasks one stands, one failed before, and what refers to that one
/// is done again, as is what is taken back.
pub fn log_of_one_that_goes_on(seed: u64, before: &Log, decisions: usize) -> Log {
    let stands = |name: &str| v1::Task {
        taken_over: Some(v1::TakenOver {
            output: Some(json(&format!("\"{name} before\""))),
            ..v1::TakenOver::default()
        }),
        ..task(name)
    };
    let refers = |name: &str, to: &str| {
        let input = Some(json(&format!(r#"{{"from":"${{tasks.{to}.output}}"}}"#)));
        let before =
            stands(name).taken_over.map(|before| v1::TakenOver { refers_to: vec![to.to_owned()], ..before });
        v1::Task { input, taken_over: before, ..task(name) }
    };
    let waves = [
        vec![stands("kept"), task("failed")],
        vec![refers("of-kept", "kept"), refers("of-failed", "failed")],
        vec![refers("last", "of-kept")],
        vec![task("end")],
    ];
    let waves = waves.map(|tasks| v1::Wave { tasks, ..v1::Wave::default() }).to_vec();
    let mut plan = v1::Plan { name: "goes on".to_owned(), waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    plan.continues = Some("0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10".to_owned());
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    run.after(SECOND);
    for name in ["failed", "of-failed"] {
        let lease = run.lease(name);
        run.completes(name, lease, "\"now\"");
    }
    run.takes_back("of-kept", true);
    for name in ["of-kept", "last", "end"] {
        let lease = run.lease(name);
        run.completes(name, lease, "\"again\"");
    }
    run.ends(v1::RunOutcome::Succeeded)
}

fn taking_back(name: &str, cascade: bool) -> Input {
    let request_id = format!("take back {name} {cascade}");
    Input::Rollback { task: name.to_owned(), cascade, request_id }
}

/// Tasks that are runs: one is tried twice, one is detached, and one is cancelled with its parent.
pub fn log_of_runs(seed: u64, before: &Log, decisions: usize) -> Log {
    let child = |name: &str, detached| {
        let inner = v1::Wave { tasks: vec![task("inner")], ..v1::Wave::default() };
        let inner = v1::Plan { name: "child".to_owned(), waves: vec![inner], ..v1::Plan::default() };
        let work = Some(v1::child_run::Work::Plan(inner));
        let run = v1::ChildRun { work, detached, ..v1::ChildRun::default() };
        v1::Task { agent: String::new(), run: Some(Box::new(run)), ..task(name) }
    };
    let tasks = vec![child("again", false), child("goes-on", true), child("stops", false)];
    let wave = v1::Wave { tasks, ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "of runs".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    let error = v1::Error { code: "NETWORK_ERROR".to_owned(), ..v1::Error::default() };
    run.hears("again", ended(v1::RunOutcome::Failed, Some(error)));
    run.hears("goes-on", ChildNews::Started);
    run.after(2 * SECOND);
    run.hears("again", ended(v1::RunOutcome::Succeeded, None));
    run.does(Input::Cancel { reason: "enough".to_owned(), force: false, request_id: "cancel".to_owned() });
    run.after(MINUTE);
    run.hears("stops", ended(v1::RunOutcome::Cancelled, None));
    run.ends(v1::RunOutcome::Cancelled)
}

fn ended(outcome: v1::RunOutcome, error: Option<v1::Error>) -> ChildNews {
    ChildNews::Ended {
        outcome: Some(outcome),
        error,
        output: Some(json("{\"run\":\"result\"}")),
        blobs: Vec::new(),
    }
}

/// The answer that a task is done, and what it gave back, by somebody who has seen this revision of the question.
fn answer(run: &Run<'_>, revision: Option<u32>) -> Input {
    let answer =
        Answer { option: "succeeded".to_owned(), value: Some(json("2")), revision, ..Answer::default() };
    Input::Resolve { question_id: run.newest_question(), answer, request_id: "vouch".to_owned() }
}

/// A retry, a lost lease, a refused result, an unknown outcome, a timeout that is extended, a failure that is run anew.
fn first_wave(run: &mut Run<'_>) {
    run.does(Input::AgentAbsent { task: run.at("build") });
    let build = run.lease("build");
    let test = run.lease("test");
    let publish = run.lease("publish");
    let slow = run.lease("slow");
    run.fails("build", build, "NETWORK_ERROR");
    run.after(SECOND);
    let build = run.lease("build");
    run.loses("build", build);
    let again = run.lease("build");
    run.completes("build", build, "\"too late\"");
    run.completes("build", again, r#"{"n":7}"#);
    run.does(Input::Pause { request_id: "pause".to_owned() });
    run.fails("test", test, "TESTS_FAILED");
    run.does(Input::Resume { request_id: "resume".to_owned() });
    run.answers("fix_manual");
    let test = run.lease("test");
    run.loses("publish", publish);
    run.after(MINUTE);
    run.answers("succeeded");
    run.after(4 * MINUTE + 5 * SECOND);
    run.does(Input::Extend { task: "slow".to_owned(), by_ms: 15 * MINUTE, request_id: "extend".to_owned() });
    run.completes("test", test, "\"ok\"");
    run.after(15 * MINUTE);
    run.reports("slow", slow, Report::Cancelled(Some(json("\"half\""))));
    run.answers("terminate");
}

/// An input that cannot be resolved, one that can, and an early end.
fn second_wave(run: &mut Run<'_>) {
    run.answers("skip");
    let report = run.lease("report");
    let rest = run.lease("rest");
    run.fails("report", report, "RATE_LIMIT");
    run.after(SECOND);
    let report = run.lease("report");
    run.completes("report", report, "[1,2]");
    run.reports("rest", rest, Report::Cancelled(None));
}

/// A run that is forked while one task waits for its next attempt, one is at work, and one that may be done once only is.
pub fn log_of_one_that_is_forked(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut plan = v1::Plan {
        name: "golden".to_owned(),
        waves: vec![v1::Wave {
            tasks: ["done", "waits", "works", "once"].map(task).to_vec(),
            ..v1::Wave::default()
        }],
        policy: Some(policy(v1::AggregationKind::ContinueAll)),
        ..v1::Plan::default()
    };
    let once = plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks).filter(|task| task.name == "once");
    once.for_each(|task| task.effect = Some(v1::Effect::AtMostOnce as i32));
    Plan::materialise(&mut plan).expect("the plan is valid");
    let mut run = Run::start(seed, Work::Plan(plan), before, decisions);
    let [done, waits, works, once] = [0, 1, 2, 3].map(|task| TaskRef { wave: 0, task });
    let lease = run.takes(done, "w1");
    run.says(done, lease, "w1", Report::Completed(json("{\"n\":1}")));
    let lease = run.takes(waits, "w1");
    run.says(waits, lease, "w1", Report::Failed(failure("NETWORK_ERROR")));
    run.takes(works, "w1");
    run.takes(once, "w2");
    run.forks(seed);
    run.answers("succeeded");
    run.after(MINUTE);
    for task in [waits, works] {
        let lease = run.takes(task, "w3");
        run.says(task, lease, "w3", Report::Completed(json("2")));
    }
    run.ends(v1::RunOutcome::Succeeded)
}

/// A plan of a session: it waits for its turn, and then for a person.
pub fn log_of_one_of_a_session(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut run = Run::start(seed, Work::Plan(of_a_session()), before, decisions);
    run.after(MINUTE);
    run.does(Input::SessionTurn { context: v1::SessionContext::default() });
    let task = TaskRef { wave: 0, task: 0 };
    let lease = run.takes(task, "w1");
    run.says(task, lease, "w1", Report::Failed(failure("TESTS_FAILED")));
    run.answers("skip");
    let task = TaskRef { wave: 1, task: 0 };
    let lease = run.takes(task, "w1");
    run.says(task, lease, "w1", Report::Completed(json("1")));
    run.ends(v1::RunOutcome::SucceededWithFailures)
}

/// Two waves of one task each, of which the first may fail.
pub fn of_a_session() -> v1::Plan {
    let mut plan = v1::Plan {
        name: "golden".to_owned(),
        waves: ["review", "report"]
            .map(|name| v1::Wave { tasks: vec![task(name)], ..v1::Wave::default() })
            .to_vec(),
        policy: Some(policy(v1::AggregationKind::ContinueAll)),
        on_high: Some(v1::OnHigh::Pause as i32),
        session: Some("shop".to_owned()),
        ..v1::Plan::default()
    };
    Plan::materialise(&mut plan).expect("the plan is valid");
    plan
}
