//! The largest inputs that are accepted, and how long one turn with each of them takes.
//!
//! Times are those of the processor and not of the clock, and are compared with a floor of the same run: to read, copy and
//! write once as much JSON as the references of a wave may have to do with. The test prints them, the longest first.

use serde_json::Value;

use super::*;
use crate::input::{Computed, QueryAnswer, ResolvedInput, Routed};
use crate::query::Query;

/// Bytes and values that the references of one wave may have to do with (docs/limits.md).
const BYTES: usize = 8 * 1024 * 1024;
const VALUES: usize = 250_000;
/// How many floors the longest turn may last, compiled as tests are.
const FLOORS: u64 = 12;

/// The time that this thread has had of a processor, in nanoseconds.
fn used() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    said.split_whitespace().next().unwrap().parse().unwrap()
}

/// What is measured in one run of the test.
struct Turns {
    floor: u64,
    longest: Vec<(u64, String)>,
}

impl Turns {
    fn new() -> Self {
        let values = format!("[{}]", vec!["0"; VALUES].join(","));
        let text = format!("\"{}\"", "x".repeat(BYTES));
        let once = || {
            let before = used();
            for json in [&values, &text] {
                let value: Value = serde_json::from_str(json).unwrap();
                assert_eq!(serde_json::to_vec(&value.clone()).unwrap().len(), json.len());
            }
            used() - before
        };
        Self { floor: (0..3).map(|_| once()).min().unwrap(), longest: Vec::new() }
    }

    fn time<T>(&mut self, what: &str, act: impl FnOnce() -> T) -> T {
        let before = used();
        let done = act();
        self.longest.push((used() - before, what.to_owned()));
        done
    }

    /// Starts a run as a shard does with a request that was validated.
    fn start(&mut self, what: &str, work: Work) -> Bench {
        let request = StartRun { work, labels: BTreeMap::new(), parent: None, lineage: None };
        let (state, decision) = self.time(what, || start(SEED, request, Wall(START))).unwrap();
        let now = Timestamp(START);
        Bench { state, ledger: Ledger::default(), now, ahead: 0, last: Ok(decision), small: false }
    }

    fn input(&mut self, what: &str, bench: &mut Bench, input: Input) -> Decision {
        let now = bench.moment();
        let decided = self.time(what, || decide(&mut bench.state, input, now)).unwrap();
        bench.now = bench.now.plus(1);
        decided
    }

    /// Leases the task and completes it with this output; the time of the completion counts.
    fn complete(&mut self, what: &str, bench: &mut Bench, task: TaskRef, output: v1::Payload) -> Decision {
        self.report(what, bench, task, Report::Completed(output))
    }

    /// The same with any report.
    fn report(&mut self, what: &str, bench: &mut Bench, task: TaskRef, report: Report) -> Decision {
        let lease = Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: "w".to_owned(),
        };
        let now = bench.moment();
        decide(&mut bench.state, lease, now).unwrap();
        let (lease, _) = bench.state.lease_of(task).unwrap();
        self.input(what, bench, reported(task, lease, "w", report))
    }

    /// Says what took how long, and checks the longest of it.
    #[track_caller]
    fn check(mut self) {
        self.longest.sort();
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        println!("{:8.1} ms  the floor", milliseconds(self.floor));
        for (nanoseconds, what) in self.longest.iter().rev().take(12) {
            let floors = *nanoseconds as f64 / self.floor as f64;
            println!("{:8.1} ms  {floors:4.1} floors  {what}", milliseconds(*nanoseconds));
        }
        let (longest, what) = self.longest.last().unwrap();
        assert!(
            *longest <= FLOORS * self.floor,
            "{what}: {longest} ns, and the floor takes {} ns",
            self.floor
        );
    }
}

/// Waves of so many tasks, the second one with this input for each.
fn waves(first: usize, second: usize, input: impl Fn(usize) -> String) -> v1::Plan {
    let names = |letter: char, count: usize| {
        (0..count).map(|index| format!("{letter}{index:x}")).collect::<Vec<_>>().join(" ")
    };
    let mut plan = plan(&format!("continue_all: {} | {}", names('s', first), names('t', second)));
    for (index, task) in plan.waves[1].tasks.iter_mut().enumerate() {
        task.agent = "a".to_owned();
        task.input = Some(json(&input(index)));
    }
    Plan::materialise(&mut plan).unwrap();
    plan
}

/// An output that has 32 KiB within a text: a list of so many of these, or one text.
fn output(item: &str) -> v1::Payload {
    let room = 32 * 1024 - 64;
    let escaped = item.matches(['"', '\\']).count();
    json(&match item {
        "text" => format!("\"{}\"", "x".repeat(room)),
        item => format!("[{}]", vec![item; room / (item.len() + 1 + escaped)].join(",")),
    })
}

/// A plan of one wave under this policy: tasks of these names with agents of the same ones, and then as many others as a plan has
/// room for.
fn widest(policy: &str, named: &[String]) -> v1::Plan {
    let others = (0..40_000).map(|index| format!("{index:x}"));
    let names: Vec<String> = named.iter().cloned().chain(others).collect();
    let mut widest = plan(&format!("{policy}{}", names.join(" ")));
    for task in &mut widest.waves[0].tasks[named.len()..] {
        task.agent = "a".to_owned();
    }
    while Plan::materialise(&mut widest.clone()).is_err() {
        let tasks = widest.waves[0].tasks.len();
        widest.waves[0].tasks.truncate(tasks * 9 / 10);
    }
    Plan::materialise(&mut widest).unwrap();
    println!("{} tasks", widest.waves[0].tasks.len());
    widest
}

#[test]
fn a_plan_of_as_many_tasks_as_there_may_be_is_begun_and_cancelled_in_one_turn_each() {
    let mut turns = Turns::new();
    let mut bench = turns.start("the widest plan begins", Work::Plan(widest("", &[])));
    let task = TaskRef { wave: 0, task: 7 };
    turns.complete("one of very many tasks ends", &mut bench, task, json("1"));
    let cancel = Input::Cancel { reason: String::new(), force: false, request_id: "c".to_owned() };
    turns.input("the widest plan is cancelled", &mut bench, cancel);
    assert!(bench.state.is_finished());
    turns.check();
}

/// What the policy says with each result of the decision.
fn evaluations(decision: &Decision) -> Vec<v1::Evaluation> {
    let of_result = |event: v1::Event| match event.body {
        Some(Body::TaskSettled(settled)) => settled.evaluation,
        _ => None,
    };
    events_of(decision).into_iter().filter_map(of_result).collect()
}

/// As many failures as an evaluation names at most.
const NAMED: u32 = 20;
/// Bytes of the event of a cancelled task that never began, at most. 22 bytes for the event: 2 of its length, 4 of its number, 7
/// of its time, 2 of its format, 3 of the run's own time, and 4 before the result. 68 bytes for the result: 4 of the task, 2 each
/// of its activation, its state, its status and its severity, and 56 of the error with 16 of TASK_CANCELLED, 34 of "cancelled: the
/// run was cancelled", 2 each of its severity and that the run can go on, and 2 before it. 46 bytes for the evaluation: 2 each for
/// that the run goes on and for the policy, 4 of the count, 36 of "continue_all goes on: 0/40000 (0%)", and 2 before it.
const CANCELLED: usize = 22 + 68 + 46;
/// Bytes of the request and of the end of the run.
const AROUND: usize = 200;

#[test]
fn a_plan_of_as_many_tasks_as_there_may_be_whose_first_ones_have_failed_is_cancelled_in_few_bytes() {
    let mut turns = Turns::new();
    let names: Vec<String> = (0..NAMED).map(|index| format!("{index:0>128}")).collect();
    let plan = widest("continue_all: ", &names);
    let left = plan.waves[0].tasks.len() - names.len();
    let mut bench = turns.start("the widest plan with long names begins", Work::Plan(plan));
    let mut named = Vec::new();
    for task in 0..NAMED {
        let (task, report) = (TaskRef { wave: 0, task }, Report::Failed(failure("TESTS_FAILED")));
        named = evaluations(&turns.report("one of the first tasks fails", &mut bench, task, report));
    }
    let [last] = named.as_slice() else { panic!("{named:?}") };
    assert_eq!((&last.failed_agents, &last.optional_failures), (&names, &names));
    let cancel = Input::Cancel { reason: String::new(), force: false, request_id: "c".to_owned() };
    let cancelled = turns.input("the widest plan is cancelled after failures", &mut bench, cancel);
    assert!(bench.state.is_finished());
    let told = evaluations(&cancelled);
    assert_eq!(told.len(), left);
    assert!(told.iter().all(|one| one.failed_agents.is_empty() && one.optional_failures.is_empty()));
    let bytes = cancelled.events.len();
    assert!(bytes <= left * CANCELLED + AROUND, "{bytes} bytes for {left} tasks");
    turns.check();
}

#[test]
fn a_wave_that_refers_to_as_much_as_it_may_begins_in_one_turn() {
    let mut turns = Turns::new();
    for item in ["text", "0", "[]", "{\"\":0}", "\"\\n\"", "0.1e-5"] {
        let plan = waves(300, 300, |index| format!("[\"${{tasks.s{index:x}.output}}\"]"));
        let mut bench = turns.start("", Work::Plan(plan));
        for task in 0..300 {
            let task = TaskRef { wave: 0, task };
            turns.complete(&format!("a wave with outputs of {item}"), &mut bench, task, output(item));
        }
        assert_eq!(bench.state.current_wave(), 1);
    }
    turns.check();
}

#[test]
fn a_wave_whose_references_are_too_much_is_refused_in_one_turn() {
    let mut turns = Turns::new();
    for item in ["text", "0", "[]", "{\"\":0}"] {
        let twice = "[\"${tasks.s0.output}\",\"${tasks.s0.output}\"]".to_owned();
        let mut bench = turns.start("", Work::Plan(waves(1, 10_000, |_| twice.clone())));
        let task = TaskRef { wave: 0, task: 0 };
        turns.complete(
            &format!("10,000 inputs of {item} that are too large"),
            &mut bench,
            task,
            output(item),
        );
        let (query, Query::Resolve(asked)) = bench.state.open_query().unwrap() else { panic!() };
        let refused = |(task, _)| ResolvedInput { task, input: None, reason: "too much".to_owned() };
        let resolved = asked.inputs.into_iter().map(refused).collect::<Vec<_>>();
        assert_eq!(resolved.len(), 10_000);
        let answer = QueryAnswer::Computed(Computed::Resolved(resolved));
        turns.input("10,000 inputs could not be made", &mut bench, Input::Answered { query, answer });
        assert_eq!(bench.state.current_wave(), 1);
    }
    turns.check();
}

#[test]
fn a_wave_that_reads_very_many_large_outputs_outside_begins_in_one_turn() {
    let mut turns = Turns::new();
    for item in ["text", "\"\\n\""] {
        let twice =
            |index: usize| format!("[\"${{tasks.s{index:x}.output}}\",\"${{tasks.s{index:x}.output}}\"]");
        let mut bench = turns.start("", Work::Plan(waves(2_000, 2_000, twice)));
        for task in 0..2_000 {
            let task = TaskRef { wave: 0, task };
            turns.complete(&format!("64 MB of outputs of {item}"), &mut bench, task, output(item));
        }
        let (query, Query::Resolve(asked)) = bench.state.open_query().unwrap() else { panic!() };
        let given = |(task, _)| ResolvedInput { task, input: Some(json("1")), reason: String::new() };
        let answer = Computed::Resolved(asked.inputs.into_iter().map(given).collect());
        let answer = Input::Answered { query, answer: QueryAnswer::Computed(answer) };
        turns.input("2,000 inputs were made outside", &mut bench, answer);
        assert_eq!(bench.state.queued().count(), 2_000);
    }
    turns.check();
}

#[test]
fn the_largest_ask_script_and_answer_take_one_turn_each() {
    let mut turns = Turns::new();
    let text = "palabra ".repeat(2_000);
    let ask = v1::Ask {
        text,
        request_id: Some("r".to_owned()),
        session: Some("s".to_owned()),
        ..v1::Ask::default()
    };
    let mut bench = turns.start("the largest ask begins", Work::Ask(ask));
    let message = v1::SessionMessage { text: "x".repeat(4 * 1024), ..v1::SessionMessage::default() };
    let context = v1::SessionContext { history: vec![message; 20], ..v1::SessionContext::default() };
    turns.input("the largest session comes to an ask", &mut bench, Input::SessionTurn { context });
    let action = |index: usize| v1::Action {
        id: format!("a{index}"),
        kind: v1::ActionKind::Fill as i32,
        value: Some("x".repeat(900)),
        ..v1::Action::default()
    };
    let actions = (0..1_000).map(action).collect();
    let script =
        v1::Script { name: "s".to_owned(), actions, run_id: "r".to_owned(), ..v1::Script::default() };
    turns.start("the largest script begins", Work::Script(Box::new(script)));
    let mut bench = Bench::plan("once@once").lease("once", "w1").loses("once");
    bench.small = false;
    let question =
        bench.state.view(String::new(), ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 });
    let answer = Answer { value: Some(output("0")), ..Answer::from("succeeded") };
    let input = Input::Resolve {
        question_id: question.questions[0].question_id.clone(),
        answer,
        request_id: "r".to_owned(),
    };
    turns.input("the largest answer", &mut bench, input);
    assert!(bench.state.is_finished());
    turns.check();
}

/// As many tasks as a plan may have, in as many waves, all of which but the last one have succeeded before.
#[test]
fn all_that_a_plan_can_take_over_is_taken_over_in_one_turn() {
    let mut turns = Turns::new();
    let waves: Vec<v1::Wave> = (0..1_000)
        .map(|wave| {
            let tasks = (0..50).map(|task| v1::Task {
                name: format!("{wave:x}-{task:x}"),
                agent: "a".to_owned(),
                ..v1::Task::default()
            });
            v1::Wave { tasks: tasks.collect(), ..v1::Wave::default() }
        })
        .collect();
    let mut plan = v1::Plan { name: "largest".to_owned(), waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    plan.continues = Some("0199".to_owned());
    for task in plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
        task.taken_over = Some(v1::TakenOver::default());
    }
    plan.waves[999].tasks[49].taken_over = None;
    let bench = turns.start("49,999 tasks are taken over", Work::Plan(plan));
    assert_eq!(bench.state.progress(), (49_999, 50_000));
    turns.check();
}

/// The answer of a spec that takes longest of those that have a mebibyte: what it wants to be kept are so many values. With
/// a `fallback` it is a failure.
fn largest_answer(bench: &Bench, item: &str, fallback: Option<&str>) -> v1::Payload {
    let custom = format!("[{}]", vec![item; 780_000 / (item.len() + 1)].join(","));
    let small = format!("[{}]", vec![item; 250_000 / (item.len() + 1)].join(","));
    let outcome = match fallback {
        None => r#""success":true,"response":{"text":"t","format":"text"}"#.to_owned(),
        Some(spec) => format!(
            r#""success":false,"error":{{"code":"OWN","message":"m","recoverable":false,"fallback_spec":"{spec}"}}"#
        ),
    };
    let assignment = bench.state.assignment(TaskRef { wave: bench.state.current_wave(), task: 0 }).unwrap();
    let Some(v1::payload::Data::Inline(request)) = assignment.input.and_then(|input| input.data.clone())
    else {
        panic!("a request is inline")
    };
    let request: Value = serde_json::from_slice(&request).unwrap();
    let answer = format!(
        r#"{{{outcome},"spec":{},"request_id":{},"timestamp":1,
        "metadata":{{"processing_time_ms":1,"confidence":0.5}},
        "context_update":{{"custom":{{"a":{small},"b":{custom}}}}}}}"#,
        request["spec"], request["id"],
    );
    assert!(answer.len() > 1_000_000 && answer.len() <= 1024 * 1024, "{}", answer.len());
    super::asks::large(answer.as_bytes())
}

fn asked_in_session(turns: &mut Turns) -> Bench {
    let ask = v1::Ask {
        text: "t".to_owned(),
        request_id: Some("r".to_owned()),
        session: Some("s".to_owned()),
        spec: Some("kiro".to_owned()),
        ..v1::Ask::default()
    };
    let mut bench = turns.start("", Work::Ask(ask));
    turns.input("", &mut bench, Input::SessionTurn { context: v1::SessionContext::default() });
    bench
}

/// Answers what the ask wants to know of the router.
fn route(turns: &mut Turns, bench: &mut Bench, spec: &str) {
    let target = Ok(super::asks::found(spec));
    let routed = Routed { spec: spec.to_owned(), target, rerouted: false, default_spec: None };
    let (query, _) = bench.state.open_query().unwrap();
    let answer = QueryAnswer::Routed(routed);
    turns.input(&format!("a call of {spec}"), bench, Input::Answered { query, answer });
}

/// What each of them wants to be kept is gone by again with each call.
#[test]
fn specs_that_fail_with_the_largest_answers_take_one_turn_each() {
    let mut turns = Turns::new();
    let mut bench = asked_in_session(&mut turns);
    for (spec, fallback) in [("kiro", Some("sage")), ("sage", Some("wave")), ("wave", None)] {
        route(&mut turns, &mut bench, spec);
        let output = largest_answer(&bench, "\"\\n\"", fallback);
        let task = TaskRef { wave: bench.state.current_wave(), task: 0 };
        turns.complete(&format!("the answer of {spec}"), &mut bench, task, output);
    }
    assert_eq!(bench.state.outcome(), Some(v1::RunOutcome::Succeeded));
    turns.check();
}

#[test]
fn the_largest_answer_of_a_spec_takes_one_turn() {
    let mut turns = Turns::new();
    for item in ["0", "[]", "\"\\n\""] {
        let mut bench = asked_in_session(&mut turns);
        route(&mut turns, &mut bench, "kiro");
        let output = largest_answer(&bench, item, None);
        let task = TaskRef { wave: bench.state.current_wave(), task: 0 };
        turns.complete(&format!("a spec's answer of {item}"), &mut bench, task, output);
        assert_eq!(bench.state.outcome(), Some(v1::RunOutcome::Succeeded));
        let mut session = None;
        turns.time(&format!("what a session keeps of an answer of {item}"), || {
            crate::session::record(&mut session, &bench.state, "run").unwrap()
        });
        turns.time(&format!("the result of an answer of {item}"), || bench.state.result(usize::MAX));
        assert_eq!(
            bench.state.result(0).unwrap().ask().unwrap().left_out.as_ref().unwrap().keys,
            ["custom.b"]
        );
    }
    turns.check();
}

#[test]
fn as_many_tasks_as_time_out_together_are_asked_about_and_settled_in_one_turn_each() {
    let mut turns = Turns::new();
    let names: Vec<String> = (0..10_000).map(|index| format!("{index:x}")).collect();
    let mut plan = plan(&format!("continue_all: {}", names.join(" ")));
    plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..Default::default() });
    for task in &mut plan.waves[0].tasks {
        task.agent = "a".to_owned();
    }
    Plan::materialise(&mut plan).unwrap();
    let mut bench = turns.start("10,000 tasks with one deadline begin", Work::Plan(plan));
    for task in 0..10_000 {
        let task = TaskRef { wave: 0, task };
        let (output_schema, worker) = (None, "w".to_owned());
        let lease = Input::Lease { output_schema, cancel_is_final: false, mark: 0, task, worker };
        let now = bench.moment();
        decide(&mut bench.state, lease, now).unwrap();
    }
    bench.now = bench.now.plus(SECOND);
    turns.input("10,000 deadlines", &mut bench, Input::Tick { observed: BTreeMap::new() });
    assert_eq!(bench.state.open_questions().count(), 10_000);
    let question_id = bench.open()[5_000].clone();
    let answer = Answer::from("terminate");
    let input = Input::Resolve { question_id, answer, request_id: "r".to_owned() };
    turns.input("one of 10,000 questions is answered", &mut bench, input);
    bench.now = bench.now.plus(10 * SECOND);
    turns.input("the end of 10,000 graces", &mut bench, Input::Tick { observed: BTreeMap::new() });
    assert!(bench.state.is_finished());
    turns.check();
}
