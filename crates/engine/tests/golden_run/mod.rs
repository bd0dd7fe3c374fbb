//! The run that the golden log tells: something of everything.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::{Input, Plan, Report, RunState, StartRun, TaskRef, Timestamp, Work, decide, start};

const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

struct Run {
    state: RunState,
    now: i64,
    log: Vec<u8>,
}

fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.to_owned().into())),
    }
}

fn task(name: &str) -> v1::Task {
    v1::Task { name: name.to_owned(), agent: format!("{name}-agent"), ..v1::Task::default() }
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

impl Run {
    #[track_caller]
    fn does(&mut self, input: Input) {
        let decision = decide(&mut self.state, input, Timestamp(self.now)).expect("nothing is refused");
        self.log.extend_from_slice(&decision.events);
    }

    fn at(&self, name: &str) -> TaskRef {
        self.state.plan().find(name).expect("the task is in the plan")
    }

    #[track_caller]
    fn lease(&mut self, name: &str) -> u64 {
        let task = self.at(name);
        self.does(Input::Lease { task, worker: format!("{name}-worker") });
        self.state.lease_of(task).expect("the task is leased").0
    }

    #[track_caller]
    fn reports(&mut self, name: &str, lease: u64, report: Report) {
        let (task, worker) = (self.at(name), format!("{name}-worker"));
        self.does(Input::Report { task, lease, worker, report, log: format!("log of {name}") });
    }

    #[track_caller]
    fn completes(&mut self, name: &str, lease: u64, output: &str) {
        self.reports(name, lease, Report::Completed(json(output)));
    }

    #[track_caller]
    fn fails(&mut self, name: &str, lease: u64, code: &str) {
        let error =
            v1::Error { code: code.to_owned(), message: "exit code 1".to_owned(), ..v1::Error::default() };
        self.reports(name, lease, Report::Failed(error));
    }

    #[track_caller]
    fn loses(&mut self, name: &str, lease: u64) {
        let task = self.at(name);
        self.does(Input::LeaseLost { task, lease, reason: v1::LeaseLossReason::Silent });
    }

    fn after(&mut self, milliseconds: i64) {
        let end = self.now + milliseconds;
        while let Some(next) = self.state.next_deadline().filter(|next| next.0 <= end) {
            self.now = self.now.max(next.0);
            self.does(Input::Tick { observed: BTreeMap::new() });
        }
        self.now = end;
    }

    /// Answers the newest question.
    #[track_caller]
    fn answers(&mut self, answer: &str) {
        let options = capataz_engine::ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
        let questions = self.state.view(String::new(), options).questions;
        let question_id = questions.last().expect("there is a question").question_id.clone();
        self.does(Input::Resolve {
            question_id,
            answer: answer.to_owned(),
            request_id: format!("answer-{answer}"),
        });
    }
}

/// The events of the run, each with its length before it.
pub fn log(seed: u64) -> Vec<u8> {
    let mut plan = plan();
    Plan::materialise(&mut plan).expect("the plan is valid");
    let labels = BTreeMap::from([("team".to_owned(), "core".to_owned())]);
    let parent =
        Some(v1::ParentRef { run_id: "parent".to_owned(), task: "start-child".to_owned(), lease: 3 });
    let (state, decision) =
        start(seed, StartRun { work: Work::Plan(plan), labels, parent }, Timestamp(START))
            .expect("the run starts");
    let mut run = Run { state, now: START, log: decision.events.to_vec() };
    first_wave(&mut run);
    second_wave(&mut run);
    run.lease("last");
    run.after(SECOND);
    run.does(Input::Cancel { reason: "enough".to_owned(), force: false, request_id: "cancel".to_owned() });
    run.after(MINUTE);
    assert!(run.state.is_finished());
    run.log
}

/// A retry, a lost lease, a refused result, an unknown outcome, a timeout that is extended, a failure that is run anew.
fn first_wave(run: &mut Run) {
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
fn second_wave(run: &mut Run) {
    run.answers("skip");
    let report = run.lease("report");
    let rest = run.lease("rest");
    run.fails("report", report, "RATE_LIMIT");
    run.after(SECOND);
    let report = run.lease("report");
    run.completes("report", report, "[1,2]");
    run.reports("rest", rest, Report::Cancelled(None));
}
