//! What a turn takes, counted and not timed: how often memory is asked for while an input is handled, and for how many bytes.
//! An input that is twice as large takes about twice as much; where each of its parts had to do with all others, it would
//! take four times as much.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::{
    Decision, Input, Moment, Plan, Report, RunState, StartRun, TaskRef, Wall, Work, decide, start,
};

const SEED: u64 = 7;
const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;

/// Tasks of the smaller one of two plans.
const TASKS: usize = 2_000;

/// How often a turn asked for memory, and for how much.
#[derive(Debug)]
struct Taken {
    times: u64,
    bytes: u64,
}

fn count<T>(turn: impl FnOnce() -> T) -> (T, Taken) {
    let mut done = None;
    let counted = allocation_counter::measure(|| done = Some(turn()));
    (done.unwrap(), Taken { times: counted.count_total, bytes: counted.bytes_total })
}

/// Compares a turn that has to do with so many tasks with one that has to do with twice as many. A list that grows asks for
/// twice what it had, so that bytes may be a little more than twice as many.
#[track_caller]
fn check(turn: impl Fn(usize) -> Taken) {
    // What is made once in a process is made now.
    turn(10);
    let (one, twice) = (turn(TASKS), turn(2 * TASKS));
    assert!(one.times > 0 && one.bytes > TASKS as u64, "memory is counted: {one:?}");
    assert!(4 * twice.times <= 9 * one.times, "{one:?}, and of twice the size {twice:?}");
    assert!(twice.bytes <= 3 * one.bytes, "{one:?}, and of twice the size {twice:?}");
}

fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.to_owned().into())),
    }
}

/// A wave of so many tasks, each with this input.
fn wave(letter: char, tasks: usize, input: impl Fn(usize) -> Option<String>) -> v1::Wave {
    let task = |index: usize| v1::Task {
        name: format!("{letter}{index:04}"),
        agent: "a".to_owned(),
        input: input(index).map(|input| json(&input)),
        ..v1::Task::default()
    };
    v1::Wave { tasks: (0..tasks).map(task).collect(), ..v1::Wave::default() }
}

/// Waves of which each begins, however the one before it has ended.
fn plan(waves: Vec<v1::Wave>) -> v1::Plan {
    let kind = v1::AggregationKind::ContinueAll.into();
    let policy = Some(v1::AggregationPolicy { kind, ..v1::AggregationPolicy::default() });
    let timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..v1::TimeoutPolicy::default() });
    let mut plan = v1::Plan { name: "p".to_owned(), policy, timeouts, waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    plan
}

struct Run {
    state: RunState,
    now: i64,
}

impl Run {
    fn start(work: Work) -> Self {
        let request = StartRun { work, labels: BTreeMap::new(), parent: None, lineage: None };
        let (state, _) = start(SEED, request, Wall(START)).unwrap();
        Self { state, now: START }
    }

    fn does(&mut self, input: Input) -> Decision {
        decide(&mut self.state, input, Moment::first(Wall(self.now))).unwrap()
    }

    fn lease(&mut self, task: TaskRef) {
        let (worker, output_schema) = ("w".to_owned(), None);
        self.does(Input::Lease { task, worker, mark: 0, output_schema, cancel_is_final: false });
    }

    /// Leases the task and completes it; what the completion takes counts.
    fn complete(&mut self, task: u32) -> Taken {
        let task = TaskRef { wave: 0, task };
        self.lease(task);
        let (lease, _) = self.state.lease_of(task).unwrap();
        let (worker, report) = ("w".to_owned(), Report::Completed(json("[1,2]")));
        let input = Input::Report { task, lease, worker, report, log: String::new(), usage: None };
        count(|| self.does(input)).1
    }
}

#[test]
fn a_plan_of_twice_as_many_tasks_takes_about_twice_as_much_to_begin_and_to_cancel() {
    check(|tasks| {
        let work = Work::Plan(plan(vec![wave('s', tasks, |_| None)]));
        let (run, taken) = count(|| Run::start(work));
        assert_eq!(run.state.queued().count(), tasks);
        taken
    });
    check(|tasks| {
        let mut run = Run::start(Work::Plan(plan(vec![wave('s', tasks, |_| None)])));
        let cancel = Input::Cancel { reason: String::new(), force: false, request_id: "c".to_owned() };
        let (_, taken) = count(|| run.does(cancel));
        assert!(run.state.is_finished());
        taken
    });
}

#[test]
fn a_wave_of_twice_as_many_references_takes_about_twice_as_much_to_begin() {
    // All of them to one output.
    check(|tasks| {
        let input = |_: usize| Some("[\"${tasks.s0000.output}\"]".to_owned());
        let waves = vec![wave('s', 1, |_| None), wave('t', tasks, input)];
        let mut run = Run::start(Work::Plan(plan(waves)));
        let taken = run.complete(0);
        assert_eq!(run.state.queued().count(), tasks);
        taken
    });
    // Each to an output of its own.
    check(|tasks| {
        let input = |index: usize| Some(format!("[\"${{tasks.s{index:04}.output}}\"]"));
        let waves = vec![wave('s', tasks, |_| None), wave('t', tasks, input)];
        let mut run = Run::start(Work::Plan(plan(waves)));
        for task in 1..u32::try_from(tasks).unwrap() {
            run.complete(task);
        }
        let taken = run.complete(0);
        assert_eq!(run.state.queued().count(), tasks);
        taken
    });
}

#[test]
fn twice_as_many_tasks_that_time_out_together_take_about_twice_as_much() {
    check(|tasks| {
        let mut run = Run::start(Work::Plan(plan(vec![wave('s', tasks, |_| None)])));
        for task in 0..u32::try_from(tasks).unwrap() {
            run.lease(TaskRef { wave: 0, task });
        }
        run.now += SECOND;
        let (decision, taken) = count(|| run.does(Input::Tick { observed: BTreeMap::new() }));
        assert!(decision.count as usize >= tasks, "something is told of each of them");
        taken
    });
}
