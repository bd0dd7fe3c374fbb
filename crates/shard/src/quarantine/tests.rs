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

/// A shard that was claimed and has nothing.
fn shard() -> Shard {
    let mut shard = Shard::new(Config::default(), ShardId(0), vec![ShardId(0)]);
    shard.decide = faulty;
    let recovered = Recovered { epoch: capataz_store::Epoch(1), ..Recovered::default() };
    turn(&mut shard, Input::Recovered(recovered));
    shard
}

fn turn(shard: &mut Shard, input: Input) -> Vec<Output> {
    let mut outputs = Vec::new();
    shard.handle(Now::alike(1_000), input, &mut outputs);
    shard.end_turn(&mut outputs);
    outputs
}

fn plan(name: &str) -> Work {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..v1::Task::default() };
    let waves = vec![v1::Wave { tasks: vec![task], ..v1::Wave::default() }];
    let mut plan = v1::Plan { name: name.to_owned(), waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    Work::Plan(plan)
}

/// A fork of run 7, whose plan has this name.
fn fork(number: u128, name: &str) -> Work {
    let start = StartRun { work: plan(name), labels: Default::default(), parent: None, lineage: None };
    let (state, _) = engine::start(7, start, engine::Wall(1_000)).unwrap();
    let (of, run_id) = (run(7).to_string(), run(number).to_string());
    Work::Fork(Box::new(engine::Fork { of, run_id, state: Box::new(state), input: None }))
}

fn start(number: u128, work: Work, wait: bool) -> Input {
    let start = StartRun { work, labels: Default::default(), parent: None, lineage: None };
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
    let mut shard = shard();
    turn(&mut shard, start(1, plan("bad"), true));
    turn(&mut shard, start(2, plan("good"), false));
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

/// A run may go into quarantine before it is there: its creation is on its way, and is refused as any other.
#[test]
fn whoever_starts_a_run_hears_once_that_there_is_none_where_it_was_quarantined_before_it_is_refused() {
    let taken = |same_request| AppendOutcome::KeyTaken { run: run(7), same_request };
    for (work, refused) in
        [(plan("bad"), taken(true)), (plan("bad"), taken(false)), (fork(1, "bad"), AppendOutcome::PastGone)]
    {
        for wait in [false, true] {
            let mut shard = shard();
            turn(&mut shard, start(1, work.clone(), wait));
            let outputs = turn(&mut shard, pause(3, 1));
            let damaged = replies(&outputs).into_iter().filter(|(reply, answer)| {
                *reply == 1 && matches!(answer, Answer::Start(Err(Declined::Damaged(_))))
            });
            // Whoever waits for the end hears of the damage at once, and nothing more.
            assert_eq!(damaged.count(), usize::from(wait), "{refused:?}");
            let outputs = turn(&mut shard, Input::Committed { outcomes: vec![refused.clone()] });
            let said = replies(&outputs);
            match wait {
                true => assert!(said.is_empty(), "{refused:?}: {said:?}"),
                // The other caller waits for the run to be there, which it never will be.
                false => assert!(
                    matches!(said[..], [(1, Answer::Start(Err(Declined::Unavailable)))]),
                    "{refused:?}: {said:?}"
                ),
            }
            let reads = |output: &Output| matches!(output, Output::Restart { .. });
            assert!(!outputs.iter().any(reads), "{refused:?}: the log is as the shard believes");
        }
    }
}
