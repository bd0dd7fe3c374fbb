//! Answers of people that wait until somebody has judged their values. Nothing of them is decided before, and nothing is
//! written down: who restarts the daemon has to say the answer again, under the same request id.

use std::collections::BTreeMap;

use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Judgement, Query, QueryId, Verdict};
use capataz_store::RunId;

use crate::api::{Answer, Declined};
use crate::requests::OVERLOADED;
use crate::shard::{Mode, Output, ReplyId, Shard};

/// A command that waits for a verdict.
struct Waiting {
    reply: ReplyId,
    run: RunId,
    if_seq: Option<u64>,
    input: Box<engine::Input>,
}

/// The answers that wait, by the numbers of their queries.
#[derive(Default)]
pub(crate) struct Judging {
    newest: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Values that are being judged, also those of callers that no longer wait.
    open: usize,
}

/// Values that may be judged or wait for their judge at once, each with its schema.
const MAX_OPEN: usize = 64;

impl Judging {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The caller no longer waits.
    pub(crate) fn forget(&mut self, reply: ReplyId) {
        self.waiting.retain(|_, waiting| waiting.reply != reply);
    }

    /// Nobody waits any more; those who did.
    pub(crate) fn abandon(&mut self) -> Vec<ReplyId> {
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
}
