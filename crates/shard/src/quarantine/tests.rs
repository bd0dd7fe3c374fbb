use std::collections::BTreeSet;

use capataz_crew::Now;
use capataz_engine::{self as engine, Moment, Plan, RunState, StartRun, Work};
use capataz_store::{AppendOutcome, Position, QuarantineReason, RunId, ShardId};

use crate::api::{CommandReply, Request, StartReply, StartRequest};
use crate::shard::{Config, Input, Recovered, ReplyId};

use super::*;

/// The engine, with a fault that one run meets.
fn faulty(
    state: &mut RunState,
    input: engine::Input,
    now: Moment,
) -> Result<engine::Decision, engine::Refusal> {
    let pauses = matches!(input, engine::Input::Pause { .. });
    let decided = engine::decide(state, input, now);
    assert!(!pauses || state.plan().name != "bad", "the state is half changed");
    decided
}

fn turn(shard: &mut Shard, input: Input) -> Vec<Output> {
    let mut outputs = Vec::new();
    shard.handle(Now::alike(1_000), input, &mut outputs);
    shard.end_turn(&mut outputs);
    outputs
}

fn start(number: u128, name: &str, wait: bool) -> Input {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..v1::Task::default() };
    let waves = vec![v1::Wave { tasks: vec![task], ..v1::Wave::default() }];
    let mut plan = v1::Plan { name: name.to_owned(), waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    let start = StartRun { work: Work::Plan(plan), labels: Default::default(), parent: None, lineage: None };
    let request = StartRequest { agents: BTreeSet::new(), wait, ..StartRequest::new(run(number), start) };
    let reply = ReplyId(u64::try_from(number).unwrap());
    Input::Request { reply, request: Request::Start(Box::new(request)), absent: BTreeSet::new() }
}

fn run(number: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(number))
}

fn pause(reply: u64, number: u128) -> Input {
    let input = Box::new(engine::Input::Pause { request_id: "p".to_owned() });
    let request = Request::Command { run: run(number), if_seq: None, input };
    Input::Request { reply: ReplyId(reply), request, absent: BTreeSet::new() }
}

fn replies(outputs: &[Output]) -> Vec<(u64, &Answer)> {
    let reply = |output| match output {
        &Output::Reply { reply, ref answer } => Some((reply.0, answer)),
        _ => None,
    };
    outputs.iter().filter_map(reply).collect()
}

#[test]
fn a_decision_that_panics_costs_its_own_run_alone() {
    let mut shard = Shard::new(Config::default(), ShardId(0), vec![ShardId(0)]);
    shard.decide = faulty;
    let recovered = Recovered { epoch: capataz_store::Epoch(1), ..Recovered::default() };
    turn(&mut shard, Input::Recovered(recovered));
    turn(&mut shard, start(1, "bad", true));
    turn(&mut shard, start(2, "good", false));
    let committed = vec![AppendOutcome::Committed(Position(1)), AppendOutcome::Committed(Position(2))];
    let outputs = turn(&mut shard, Input::Committed { outcomes: committed });
    assert!(matches!(replies(&outputs)[..], [(2, Answer::Start(Ok(StartReply::Started { .. })))]));

    let outputs = turn(&mut shard, pause(3, 1));
    let said = replies(&outputs);
    let [
        (3, Answer::Command(Err(Declined::Damaged(told)))),
        (1, Answer::Start(Err(Declined::Damaged(waited)))),
    ] = said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(told, waited);
    assert_eq!((told.run, told.reason), (run(1), QuarantineReason::Panicked));
    let put_down: Vec<_> =
        outputs.iter().filter(|output| matches!(output, Output::Quarantine { .. })).collect();
    let [Output::Quarantine { run: of, quarantine }] = put_down[..] else { panic!("{put_down:?}") };
    assert_eq!((*of, quarantine), (run(1), &told.quarantine(Millis(1_000))));
    assert!(quarantine.detail.contains("half changed"), "{}", quarantine.detail);
    let leaves = |output: &Output| matches!(output, Output::Append { .. } | Output::Restart { .. });
    assert!(!outputs.iter().any(leaves), "what was half decided is nowhere");

    assert!(shard.run(run(1)).is_none());
    let outputs = turn(&mut shard, pause(4, 1));
    assert!(matches!(replies(&outputs)[..], [(4, Answer::Command(Ok(CommandReply::NotActive { .. })))]));
    turn(&mut shard, pause(5, 2));
    let outputs =
        turn(&mut shard, Input::Committed { outcomes: vec![AppendOutcome::Committed(Position(3))] });
    assert!(matches!(replies(&outputs)[..], [(5, Answer::Command(Ok(CommandReply::Done { .. })))]));
}
