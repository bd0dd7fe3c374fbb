//! Answers of people and results of workers that wait until somebody has judged their values. Nothing of them is decided
//! before, and nothing is written down: after a restart of the daemon a caller has to say the answer again, under the same
//! request id, and the worker its result, which it keeps until it hears what became of it.

use std::collections::{BTreeMap, VecDeque};

use capataz_contracts::v1;
use capataz_crew::{ConnectionId, Lease, Mono};
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Judgement, Query, QueryAnswer, QueryId, Report, TaskRef, Verdict};
use capataz_store::RunId;

use crate::api::{Answer, Declined};
use crate::requests::OVERLOADED;
use crate::shard::{Mode, Output, ReplyId, Shard};
use crate::touched::Kept;
use crate::workers::task_of;

/// A command that waits for a verdict.
struct Waiting {
    reply: ReplyId,
    run: RunId,
    if_seq: Option<u64>,
    input: Box<engine::Input>,
}

/// A worker's result that waits for a verdict: one for each lease, however often it is said.
struct WaitingOutput {
    connection: ConnectionId,
    worker: String,
    lease: Lease,
    report: Report,
    log: String,
    usage: Option<v1::Usage>,
}

impl WaitingOutput {
    fn key(&self) -> LeaseKey {
        (self.lease.run, task_of(&self.lease), self.lease.token)
    }
}

type LeaseKey = (RunId, TaskRef, u64);

/// The outputs of a run that wait.
struct OfRun {
    count: usize,
    /// Since when there are any.
    since: Mono,
}

/// How long the deadlines of a run stand still for its judge. Milliseconds.
const HELD_MS: i64 = 30_000;

/// The answers that wait, by the numbers of their queries.
#[derive(Default)]
pub(crate) struct Judging {
    newest: u64,
    waiting: BTreeMap<u64, Waiting>,
    outputs: BTreeMap<u64, WaitingOutput>,
    by_lease: BTreeMap<LeaseKey, u64>,
    of_runs: BTreeMap<RunId, OfRun>,
    /// Outputs that are not being judged yet.
    queue: VecDeque<u64>,
    /// Values that are being judged, also those of callers that no longer wait.
    open: usize,
    open_outputs: usize,
}

/// Values of callers that may be judged or wait for their judge at once, each with its schema; and outputs that may be judged at
/// once.
const MAX_OPEN: usize = 64;

impl Judging {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Until when no deadline of the run's tasks passes, because a result of it is being judged.
    pub(crate) fn holds_until(&self, run: RunId) -> Option<Mono> {
        self.of_runs.get(&run).map(|of_run| of_run.since.plus(HELD_MS))
    }

    /// The caller no longer waits.
    pub(crate) fn forget(&mut self, reply: ReplyId) {
        self.waiting.retain(|_, waiting| waiting.reply != reply);
    }

    /// Nobody waits any more; the callers that did. Workers say their results again.
    pub(crate) fn abandon(&mut self) -> Vec<ReplyId> {
        self.outputs.clear();
        self.by_lease.clear();
        self.of_runs.clear();
        self.queue.clear();
        self.open_outputs = 0;
        std::mem::take(&mut self.waiting).into_values().map(|waiting| waiting.reply).collect()
    }

    fn add(&mut self, waiting: Waiting) -> QueryId {
        self.newest += 1;
        self.waiting.insert(self.newest, waiting);
        QueryId(self.newest)
    }

    fn take(&mut self, run: RunId, query: QueryId) -> Option<Waiting> {
        let mut number = query.0;
        if planted::is(Fault::VerdictOfAnotherValue) {
            let of_run = self.waiting.iter().find(|(_, waiting)| waiting.run == run);
            number = of_run.map_or(number, |(number, _)| *number);
        }
        let is_there = self.waiting.get(&number).is_some_and(|waiting| waiting.run == run);
        if is_there { self.waiting.remove(&number) } else { None }
    }

    /// The result waits. Nothing is added where the same one waits already: it is answered where it was said last.
    fn add_output(&mut self, waiting: WaitingOutput, now: Mono) {
        let key = waiting.key();
        if let Some(known) = self.by_lease.get(&key).and_then(|number| self.outputs.get_mut(number)) {
            known.connection = waiting.connection;
            return;
        }
        self.newest += 1;
        self.of_runs.entry(key.0).or_insert(OfRun { count: 0, since: now }).count += 1;
        self.by_lease.insert(key, self.newest);
        self.outputs.insert(self.newest, waiting);
        self.queue.push_back(self.newest);
    }

    fn take_output(&mut self, query: QueryId) -> Option<WaitingOutput> {
        let waiting = self.outputs.remove(&query.0)?;
        let key = waiting.key();
        self.by_lease.remove(&key);
        if let Some(of_run) = self.of_runs.get_mut(&key.0) {
            of_run.count = of_run.count.saturating_sub(1);
            if of_run.count == 0 {
                self.of_runs.remove(&key.0);
            }
        }
        Some(waiting)
    }
}

impl Shard {
    /// The answer waits until its value is judged.
    pub(crate) fn await_verdict(
        &mut self,
        reply: ReplyId,
        run: RunId,
        if_seq: Option<u64>,
        input: engine::Input,
        judgement: Judgement,
    ) {
        if self.judging.open >= MAX_OPEN {
            return self.reply(reply, Answer::Command(Err(OVERLOADED)));
        }
        self.judging.open += 1;
        let query = self.judging.add(Waiting { reply, run, if_seq, input: Box::new(input) });
        self.out(Output::Query { run, query, asked: Query::Judge(Box::new(judgement)) });
    }

    /// A value was judged: the answer that has it is a command again, now with the verdict. Whether the verdict is on the
    /// value and the revision that count now, the engine says; where it is not, they are judged anew.
    pub(crate) fn judged(&mut self, run: RunId, query: QueryId, verdict: Verdict) {
        if verdict.judged.purpose.is_output() {
            return self.output_judged(query, verdict);
        }
        self.judging.open = self.judging.open.saturating_sub(1);
        // A second answer to a query finds nothing.
        let Some(waiting) = self.judging.take(run, query) else { return };
        let Waiting { reply, run, if_seq, mut input } = waiting;
        if self.mode != Mode::Running {
            return self.reply(reply, Answer::Command(Err(Declined::Unavailable)));
        }
        if let engine::Input::Resolve { answer, .. } = &mut *input {
            answer.verdict = Some(Box::new(verdict));
        }
        self.command(reply, run, if_seq, *input);
    }

    /// The worker's result waits until its output is judged, or until it is known what the next attempt is given.
    pub(crate) fn await_judge(
        &mut self,
        connection: ConnectionId,
        worker: &str,
        lease: Lease,
        report: Report,
        (log, usage): (String, Option<v1::Usage>),
    ) {
        // Who has a result has had the assignment.
        let key = (lease.run, task_of(&lease), lease.token);
        self.leases.heard(connection, key, self.now.mono);
        let worker = worker.to_owned();
        let waiting = WaitingOutput { connection, worker, lease, report, log, usage };
        self.judging.add_output(waiting, self.now.mono);
        self.judge_next();
    }

    /// Has as many outputs judged as may be at once. What is to be judged is said only now: the others hold no schema.
    fn judge_next(&mut self) {
        while self.judging.open_outputs < MAX_OPEN
            && let Some(number) = self.judging.queue.pop_front()
        {
            let Some(waiting) = self.judging.outputs.get(&number) else { continue };
            let (lease, worker) = (&waiting.lease, waiting.worker.as_str());
            let slot = self.runs.get(lease.run);
            let judgement = slot.and_then(|slot| {
                slot.state.report_to_judge(task_of(lease), lease.token, worker, &waiting.report)
            });
            let run = lease.run;
            match judgement {
                Some(judgement) => {
                    self.judging.open_outputs += 1;
                    let asked = Query::Judge(Box::new(judgement));
                    self.out(Output::Query { run, query: QueryId(number), asked });
                }
                // Its lease is over.
                None => self.hear_unjudged(number),
            }
        }
    }

    /// Where the worker is now: it may have come back over another connection since it said its result.
    fn connection_of(&self, waiting: &WaitingOutput) -> ConnectionId {
        let (run, task, token) = waiting.key();
        self.leases.connection_of(run, task, token).unwrap_or(waiting.connection)
    }

    /// The worker's result needs no verdict any more.
    fn hear_unjudged(&mut self, number: u64) {
        let Some(waiting) = self.judging.take_output(QueryId(number)) else { return };
        let connection = self.connection_of(&waiting);
        let WaitingOutput { worker, lease, report, log, usage, .. } = waiting;
        let run = lease.run;
        self.report(connection, &worker, lease, report, log, usage);
        self.arm(run);
    }

    /// An output was judged: the worker's result is heard, now with the verdict.
    fn output_judged(&mut self, query: QueryId, verdict: Verdict) {
        match self.mode {
            Mode::Running => {}
            Mode::Recovering => {
                let Some(waiting) = self.judging.outputs.get(&query.0) else { return };
                let (run, answer) = (waiting.lease.run, Box::new(QueryAnswer::Judged(verdict)));
                return self.keep(Kept::Answered { run, query, answer });
            }
            Mode::Fenced => return,
        }
        // A second answer to a query finds nothing.
        let Some(waiting) = self.judging.take_output(query) else { return };
        self.judging.open_outputs = self.judging.open_outputs.saturating_sub(1);
        self.judge_next();
        let connection = self.connection_of(&waiting);
        let WaitingOutput { worker, lease, report, log, usage, .. } = waiting;
        let (run, verdict) = (lease.run, Box::new(verdict));
        let report = match report {
            Report::Completed(output) | Report::Judged(output, _) => Report::Judged(output, verdict),
            Report::Failed(error) | Report::Unread(error, _) => Report::Unread(error, verdict),
            report @ Report::Cancelled(_) => report,
        };
        self.report(connection, &worker, lease, report, log, usage);
        // Its deadlines stood still.
        self.arm(run);
    }
}
