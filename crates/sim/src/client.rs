//! Clients: they start, wait, command, and repeat what they got no answer to.

use std::rc::Rc;

use capataz_engine::{Input as Command, Work};
use capataz_shard::forks::fork_id;
use capataz_shard::{
    Answer, Declined, ImportSession, Input, ReplyId, Request, StartReply, StartRequest, run_id,
    session_stream,
};
use capataz_store::{IdempotencyKey, RunId};

use crate::daemon::answer_number;
use crate::invariant::{Invariant, Violation};
use crate::plans::Template;
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

/// What a client wants.
#[derive(Clone, Debug)]
pub enum Wish {
    Start { template: Rc<Template>, wait: bool },
    Wait { run: RunId },
    Command { run: RunId, if_seq: Option<u64>, input: Box<Command> },
    Accept { session: String, request_id: String },
    Import { session: String, state: String, repairs: Vec<String> },
    Choose { session: String, mode: i32 },
    Forget { session: String, entry_ids: Vec<String> },
    Health { run: RunId },
    List,
    Check { agents: Vec<String> },
}

impl Wish {
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Wait { run } | Self::Command { run, .. } | Self::Health { run } => Some(*run),
            Self::Start { .. }
            | Self::Accept { .. }
            | Self::Import { .. }
            | Self::Choose { .. }
            | Self::Forget { .. }
            | Self::List
            | Self::Check { .. } => None,
        }
    }

    /// Whether it may be sent again when nobody knows what became of it.
    fn may_repeat(&self) -> bool {
        match self {
            Self::Start { template, .. } => template.key.is_some(),
            Self::Command { input, .. } => !input.request_id().is_empty(),
            Self::Wait { .. }
            | Self::Accept { .. }
            | Self::Import { .. }
            | Self::Choose { .. }
            | Self::Forget { .. }
            | Self::Health { .. }
            | Self::List
            | Self::Check { .. } => true,
        }
    }
}

/// One wish and how far it has come.
#[derive(Debug)]
pub struct Op {
    pub wish: Wish,
    pub done: bool,
    /// Asked by people who look after runs.
    pub caring: bool,
}

/// A request that the daemon has.
#[derive(Debug)]
pub struct Asked {
    pub op: usize,
    /// The id that its run would have.
    pub created: Option<RunId>,
    /// Whether the session was there when the request came, and whether it suggested the transition.
    pub knew_session: bool,
    pub knew_suggestion: bool,
    /// Somebody has asked for something else under the same request id.
    pub is_reused: bool,
    /// The agent that the configuration was without when the request came.
    pub unnamed: Option<&'static str>,
}

/// What a client hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// The daemon said that it did nothing.
    Later,
    /// No answer, or one that says that nobody knows.
    Unknown,
}

impl World {
    pub(crate) fn want(&mut self, wish: Wish, caring: bool) {
        let op = self.ops.len();
        // An impatient client sends what it may repeat twice.
        let is_ask =
            matches!(&wish, Wish::Start { template, .. } if matches!(template.start.work, Work::Ask(_)));
        let twice = wish.may_repeat() && self.strikes(if is_ask { 150 } else { 40 });
        let may_give_up = matches!(wish, Wish::Wait { .. } | Wish::Start { wait: true, .. });
        self.ops.push(Op { wish, done: false, caring });
        for _ in 0..1 + usize::from(twice) {
            let delay = self.rng.delay(self.scenario.network_usual, 2_000);
            self.after(delay, Action::Ask { op });
        }
        if may_give_up && self.strikes(200) {
            let delay = self.rng.between(500, 20_000);
            self.after(delay, Action::GiveUp { op });
        }
    }

    /// The request reaches the daemon.
    pub(crate) fn ask(&mut self, op: usize) -> Result<(), Violation> {
        let Some(asked) = self.ops.get(op).filter(|asked| !asked.done) else { return Ok(()) };
        let wish = asked.wish.clone();
        if self.daemon.core.is_none() {
            let delay = self.rng.between(100, 1_500);
            self.after(delay, Action::Heard { op, verdict: Verdict::Later });
            return Ok(());
        }
        let id = self.draw_id();
        let created = match &wish {
            Wish::Start { template, .. } => {
                let drawn = self.draw_run_id(id, template.session().as_deref(), template.key.as_deref());
                Some(template.fork.as_ref().map_or(drawn, |of| fork_id(drawn, of.run)))
            }
            _ => None,
        };
        let start = match (&wish, created) {
            (Wish::Start { template, .. }, Some(run)) => match &template.fork {
                None => Some(template.start_of(created)),
                Some(of) => match self.fork_start(template, of, run) {
                    Some(start) => Some(start),
                    None => return self.heard(op, Verdict::Done),
                },
            },
            _ => None,
        };
        let reply = ReplyId(id);
        let known = match &wish {
            Wish::Accept { session, request_id } => {
                self.model.session(session_stream(session)).map(|session| session.suggests(request_id))
            }
            _ => None,
        };
        let knew_suggestion = known.unwrap_or(false);
        let is_reused = self.is_reused(op, &wish);
        let asked = Asked {
            op,
            created,
            knew_session: known.is_some(),
            knew_suggestion,
            is_reused,
            unnamed: self.naming.unnamed(),
        };
        self.asked.insert(reply, asked);
        let request = match wish {
            Wish::Start { template, wait } => Request::Start(Box::new(StartRequest {
                run: created.unwrap_or(RunId::MIN),
                start: start.unwrap_or_else(|| template.start_of(created)),
                session: template.session(),
                agents: template.agents.clone(),
                commands: Vec::new(),
                resources: Vec::new(),
                key: template.key.clone().map(|key| IdempotencyKey { key, request: template.digest }),
                wait,
                blobs: Vec::new(),
            })),
            Wish::Wait { run } => Request::Wait { run },
            Wish::Command { run, if_seq, input } => Request::Command { run, if_seq, input },
            Wish::Accept { session, request_id } => Request::AcceptTransition { session, request_id },
            Wish::Import { session, state, repairs } => {
                Request::ImportSession(Box::new(ImportSession { session, state, repairs }))
            }
            Wish::Choose { session, mode } => Request::ChooseMode { session, mode },
            Wish::Forget { session, entry_ids } => Request::Forget { session, entry_ids },
            Wish::Health { run } => Request::Health { run },
            Wish::List if op.is_multiple_of(2) => Request::ListAgents { after: None, most: 500 },
            Wish::List => {
                let names = vec![crate::scenario::agent_name(0), "nobody-knows-it".to_owned()];
                Request::Agents { names, run: RunId(uuid::Uuid::from_u128(1)) }
            }
            Wish::Check { agents } => {
                Request::CheckAgents { agents, commands: Vec::new(), resources: Vec::new() }
            }
        };
        self.deliver(Input::Request { reply, request })
    }

    /// Whether the wish has the request id of another one.
    fn is_reused(&self, op: usize, wish: &Wish) -> bool {
        let id_of = |wish: &Wish| match wish {
            Wish::Command { run, input, .. } if !input.request_id().is_empty() => {
                Some((*run, input.request_id().to_owned()))
            }
            _ => None,
        };
        let Some(id) = id_of(wish) else { return false };
        self.ops
            .iter()
            .enumerate()
            .any(|(other, asked)| other != op && id_of(&asked.wish).as_ref() == Some(&id))
    }

    /// UUIDv7: the time, then what makes it unique; at home where its session or its key is.
    fn draw_run_id(&mut self, number: u64, session: Option<&str>, key: Option<&[u8]>) -> RunId {
        let time = u128::from((self.now + self.skew).unsigned_abs()) << 80;
        let random =
            u128::from(self.rng.draw()) & 0x3FFF_0000_0000_FFFF | u128::from(number & 0xFFFF_FFFF) << 16;
        run_id(RunId(uuid::Uuid::from_u128(time | 0x7 << 76 | 0x8 << 60 | random)), session, key)
    }

    /// An answer leaves the daemon.
    pub(crate) fn answered(&mut self, reply: ReplyId, answer: Answer) -> Result<(), Violation> {
        self.trace.fact(Fact::Reply, reply.0, answer_number(&answer));
        let Some(asked) = self.asked.remove(&reply) else {
            let forgotten = self.forgotten.remove(&reply);
            return Invariant::EveryRequestAnswered
                .check(forgotten, || format!("{reply:?} is answered again: {answer:?}"));
        };
        let Some(op) = self.ops.get(asked.op) else { return Ok(()) };
        let is_damaged = self.says_damaged(&answer)? || self.has_damaged_base(&op.wish, &answer);
        if !is_damaged {
            self.model.check_answer(&op.wish, &asked, &answer)?;
        }
        let declined = match &answer {
            Answer::Start(reply) => reply.as_ref().err(),
            Answer::Wait(reply) => reply.as_ref().err(),
            Answer::Health(reply) => reply.as_ref().err(),
            Answer::Command(reply) => reply.as_ref().err(),
            Answer::Transition(reply) => reply.as_ref().err(),
            Answer::Imported(reply) => reply.as_ref().err(),
            Answer::Chosen(reply) => reply.as_ref().err(),
            Answer::Forgotten(reply) => reply.as_ref().err(),
            Answer::Deleted(reply) => reply.as_ref().err(),
            Answer::Released(reply) => reply.as_ref().err(),
            Answer::Checked(_) | Answer::Agents(..) => None,
        };
        let mut verdict = match declined {
            Some(Declined::Unavailable) => Verdict::Unknown,
            Some(Declined::Overloaded { .. } | Declined::Draining) => Verdict::Later,
            // It was started, or will be worked on again.
            Some(Declined::Damaged(_)) => Verdict::Unknown,
            None if is_damaged => Verdict::Unknown,
            None => Verdict::Done,
        };
        if self.strikes(self.scenario.lost_answers) {
            verdict = Verdict::Unknown;
        }
        let delay = self.rng.delay(self.scenario.network_usual, 2_000);
        self.after(delay, Action::Heard { op: asked.op, verdict });
        Ok(())
    }

    /// What was to be forked cannot be copied, because its bytes are damaged.
    fn has_damaged_base(&self, wish: &Wish, answer: &Answer) -> bool {
        let Wish::Start { template, .. } = wish else { return false };
        let damaged = template.fork.as_ref().is_some_and(|of| self.damages.was_damaged(of.run));
        damaged && matches!(answer, Answer::Start(Ok(StartReply::BaseGone)))
    }

    /// A client hears of its request, or that its connection is gone.
    pub(crate) fn heard(&mut self, op: usize, verdict: Verdict) -> Result<(), Violation> {
        let Some(asked) = self.ops.get_mut(op).filter(|asked| !asked.done) else { return Ok(()) };
        asked.done = match verdict {
            Verdict::Done => true,
            Verdict::Later => false,
            Verdict::Unknown => !asked.wish.may_repeat(),
        };
        if !asked.done {
            let delay = self.rng.between(100, 3_000);
            self.after(delay, Action::Ask { op });
        }
        Ok(())
    }

    /// A client that waits hangs up.
    pub(crate) fn give_up(&mut self, op: usize) -> Result<(), Violation> {
        let reply =
            self.asked.iter().find(|(_, asked)| asked.op == op).map(|(reply, asked)| (*reply, asked.created));
        let Some((reply, created)) = reply else { return Ok(()) };
        let Some(wish) = self.ops.get_mut(op) else { return Ok(()) };
        let Some(run) = created.or(wish.wish.run()) else { return Ok(()) };
        wish.done = true;
        self.asked.remove(&reply);
        self.forgotten.insert(reply);
        self.deliver(Input::Forget { reply, run })
    }

    /// The daemon died: everybody who waits for it hears that nobody knows.
    pub(crate) fn nobody_answers(&mut self) {
        self.forgotten.clear();
        for asked in std::mem::take(&mut self.asked).into_values() {
            let delay = self.rng.between(1, 300);
            self.after(delay, Action::Heard { op: asked.op, verdict: Verdict::Unknown });
        }
    }
}
