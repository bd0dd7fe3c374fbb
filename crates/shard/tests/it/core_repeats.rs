//! The core by itself, over appends that the test answers.

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::Input as Command;
use capataz_shard::shard::Config;
use capataz_shard::{Answer, AppendId, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest};
use capataz_store::{Append, AppendOutcome, IdempotencyKey, Position, RunId};

use crate::support::{SHARD, hello, one_task, recovered, run, start};

const WORKER: ConnectionId = ConnectionId(1);

struct Bench {
    core: Driver,
    appends: Vec<(AppendId, Append)>,
    outputs: Vec<Output>,
}

impl Bench {
    /// A core with nothing in it but a worker that has one slot.
    fn new() -> Self {
        let mut bench = Self {
            core: Driver::new(&Config::default(), vec![SHARD]),
            appends: Vec::new(),
            outputs: Vec::new(),
        };
        bench.input(recovered(1, None));
        bench.input(hello(WORKER, "echo", 1));
        bench
    }

    fn input(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(1_000), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Append { id, append, .. } => self.appends.push((id, append)),
                output => self.outputs.push(output),
            }
        }
    }

    fn say(&mut self, frame: Say) {
        self.input(Input::Frame { connection: WORKER, frame });
    }

    fn start(&mut self, reply: u64, run: RunId, key: &'static str) {
        let key = IdempotencyKey { key: key.into(), request: [0; 32] };
        let request = StartRequest { key: Some(key), ..start(run, one_task("echo")) };
        let request = Request::Start(Box::new(request));
        self.input(Input::Request { reply: ReplyId(reply), request });
    }

    /// The runs of the appends in flight, in their order.
    fn in_flight(&self) -> Vec<RunId> {
        self.appends.iter().map(|(_, append)| append.run).collect()
    }

    fn answer(&mut self, outcomes: Vec<AppendOutcome>) {
        self.appends.drain(..outcomes.len());
        self.input(Input::Committed { shard: SHARD, outcomes });
    }

    /// Leases of the assignments that the worker was sent.
    fn assigned(&self) -> Vec<v1::LeaseRef> {
        let assignments = self.outputs.iter().filter_map(|output| match output {
            Output::Frame { frame: Hear::Assignment(assignment), .. } => assignment.lease.clone(),
            _ => None,
        });
        assignments.collect()
    }
}

fn committed(position: u64) -> AppendOutcome {
    AppendOutcome::Committed(Position(position))
}

/// A start that is repeated under its key makes a run that never was. What that run did before its creation was refused
/// (here it got the slot that came free) must not pass for damage of the log, for which every stream would be closed.
#[test]
fn a_repeated_start_whose_copy_was_leased_disturbs_nobody() {
    let (first, copy) = (run(1), run(2));
    let mut bench = Bench::new();
    bench.start(1, first, "key");
    bench.answer(vec![committed(1)]);
    let lease = bench.assigned().pop();

    bench.say(Say::Completed(v1::Completed { lease, ..Default::default() }));
    bench.start(2, copy, "key");
    assert_eq!(bench.in_flight(), [first, copy]);
    bench.answer(vec![committed(2)]);
    assert_eq!(bench.in_flight(), [copy, copy], "it is leased the slot that is free, durably");
    let taken = AppendOutcome::KeyTaken { run: first, same_request: true };
    bench.answer(vec![taken, AppendOutcome::Conflict]);

    let existing = bench.outputs.iter().any(|output| {
        matches!(output, Output::Reply { reply: ReplyId(2), answer: Answer::Start(Ok(StartReply::Existing { run })) } if *run == first)
    });
    assert!(existing, "{:?}", bench.outputs);
    let disturbed =
        bench.outputs.iter().any(|output| matches!(output, Output::Restart { .. } | Output::Close { .. }));
    assert!(!disturbed, "{:?}", bench.outputs);

    // The slot is free again.
    bench.start(3, run(3), "another key");
    bench.answer(vec![committed(3)]);
    let runs: Vec<String> = bench.assigned().into_iter().map(|lease| lease.run_id).collect();
    assert_eq!(runs, [first.to_string(), run(3).to_string()]);
}

/// The same, where nobody knows what became of what the copy did: its lease was told to no worker, so none is to hear that
/// it is over.
#[test]
fn a_lease_of_a_copy_that_never_was_is_revoked_from_nobody() {
    let (first, copy) = (run(1), run(2));
    let mut bench = Bench::new();
    bench.start(1, first, "key");
    bench.answer(vec![committed(1)]);
    let lease = bench.assigned().pop();
    bench.say(Say::Completed(v1::Completed { lease, ..Default::default() }));
    bench.answer(vec![committed(2)]);
    bench.start(2, copy, "key");
    let cancel = Command::Cancel { reason: "no".to_owned(), force: true, request_id: "c".to_owned() };
    let request = Request::Command { run: copy, if_seq: None, input: Box::new(cancel) };
    bench.input(Input::Request { reply: ReplyId(3), request });
    assert_eq!(bench.in_flight(), [copy, copy], "it is leased with its creation, and its lease has ended");

    bench.answer(vec![AppendOutcome::KeyTaken { run: first, same_request: true }]);
    bench.input(Input::CommitFailed { shard: SHARD });
    let touched = bench.outputs.iter().find_map(|output| match output {
        Output::Restart { touched, .. } => Some(touched.clone()),
        _ => None,
    });
    assert!(touched.is_some());
    bench.appends.clear();
    bench.input(recovered(2, touched));

    let told = |output: &&Output| matches!(output, Output::Frame { frame: Hear::LeaseRevoked(_), .. });
    assert_eq!(bench.outputs.iter().find(told).map(|output| format!("{output:?}")), None);
    // The slot is free again.
    bench.start(4, run(3), "another key");
    bench.answer(vec![committed(3)]);
    let runs: Vec<String> = bench.assigned().into_iter().map(|lease| lease.run_id).collect();
    assert_eq!(runs, [first.to_string(), run(3).to_string()]);
}
