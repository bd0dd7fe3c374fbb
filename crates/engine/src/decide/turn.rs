//! One turn of a run: events are emitted, applied and encoded in one step, so that the rest of the turn sees them.

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::lifecycle::{self, TaskState};
use prost::Message;

use super::Refusal;
use crate::effect::Effect;
use crate::fold::EVENT_FORMAT;
use crate::fold::state::{CorruptLog, Moment, RunState};
use crate::input::{Input, TaskRef};
use crate::plan::Task;
use crate::planted::{self, Fault};

/// What one input did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Sequence number of the first event.
    pub first_seq: u64,
    /// Number of events; 0 where the input was a repetition.
    pub count: u32,
    /// The events, each with a varint length before it.
    pub events: Bytes,
    pub effects: Vec<Effect>,
    /// Number of the event that records the user's request, now or when it first came.
    pub request_seq: Option<u64>,
}

pub(crate) struct Turn<'a> {
    pub(crate) state: &'a mut RunState,
    pub(crate) now: Moment,
    /// The log that came with the report of this turn; goes into the event that records the report.
    pub(crate) log: String,
    /// The usage that came with the report; goes into the same event.
    pub(crate) usage: Option<v1::Usage>,
    buffer: Vec<u8>,
    first_seq: u64,
    count: u32,
    effects: Vec<Effect>,
    request_seq: Option<u64>,
    fault: Option<CorruptLog>,
}

impl<'a> Turn<'a> {
    /// Time never goes backwards within a run, whatever the clocks do.
    pub(crate) fn new(state: &'a mut RunState, now: Moment) -> Self {
        let now = now.max(state.last);
        let first_seq = state.seq + 1;
        Self {
            state,
            now,
            log: String::new(),
            usage: None,
            buffer: Vec::new(),
            first_seq,
            count: 0,
            effects: Vec::new(),
            request_seq: None,
            fault: None,
        }
    }

    /// The turn of a run that has just begun with `accepted`, its first event.
    pub(crate) fn beginning(state: &'a mut RunState, accepted: Vec<u8>) -> Self {
        let now = state.last;
        let mut turn = Self::new(state, now);
        turn.first_seq = 1;
        turn.count = 1;
        turn.buffer = accepted;
        turn
    }

    /// Number that the next event will have.
    pub(crate) fn next_seq(&self) -> u64 {
        self.state.seq + 1
    }

    pub(crate) fn emit(&mut self, body: Body) {
        if self.fault.is_some() {
            return;
        }
        let event = v1::Event {
            seq: self.next_seq(),
            at_ms: self.now.wall.0,
            format: EVENT_FORMAT,
            elapsed_ms: self.now.clock.0.saturating_sub(self.state.created_at.0),
            body: Some(body),
        };
        encode(&event, &mut self.buffer);
        self.count += 1;
        self.fault = self.state.apply(event).err();
    }

    /// What the clock on the wall will say, so many milliseconds from now, if nobody sets it.
    pub(crate) fn wall_in(&self, milliseconds: i64) -> i64 {
        self.now.wall.0.saturating_add(milliseconds)
    }

    /// Emits the event that records a user's request.
    pub(crate) fn emit_request(&mut self, body: Body) {
        self.request_seq = Some(self.next_seq());
        self.emit(body);
    }

    pub(crate) fn request_seq(&self) -> Option<u64> {
        self.request_seq
    }

    pub(crate) fn set_request_seq(&mut self, seq: Option<u64>) {
        self.request_seq = seq;
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn notice(&mut self, kind: v1::NoticeKind, notice: v1::Error, task: Option<TaskRef>) {
        self.emit(Body::Notice(v1::Notice {
            notice: Some(notice),
            wave: task.map(|task| task.wave),
            task: task.map(|task| task.task),
            kind: kind.into(),
        }));
    }

    /// Returns whether this user's request was carried out before.
    pub(crate) fn repeats(&mut self, input: &Input) -> Result<bool, Refusal> {
        self.request_seq = self.state.repeated(input)?;
        Ok(self.request_seq.is_some())
    }

    /// Finds a task of the plan by its name.
    pub(crate) fn find(&self, name: &str) -> Result<TaskRef, Refusal> {
        self.state.plan.find(name).ok_or_else(|| {
            let known: Vec<&str> = self.state.plan.references().map(|(_, task)| task.name.as_str()).collect();
            Refusal::Rule(Box::new(lifecycle::task_not_found(name, known)))
        })
    }

    /// The task's next state, where the lifecycle allows it (seed 000, contract 2). A task stays ACTIVE between attempts.
    ///
    /// # Errors
    /// INVALID_STATE_TRANSITION; nothing decides so.
    pub(crate) fn enters(&self, task: TaskRef, to: TaskState) -> Result<TaskState, Refusal> {
        let from = self.state.activity(task).ok_or(Refusal::Outdated)?.state;
        let in_init = from == TaskState::Init && to == TaskState::Complete;
        let unasked = planted::is(Fault::LifecycleNotAsked) || in_init && planted::is(Fault::CompletedInInit);
        if from == to || unasked {
            return Ok(to);
        }
        lifecycle::transition(from, to).map_err(|error| Refusal::Rule(Box::new(error)))
    }

    pub(crate) fn declared(&self, task: TaskRef) -> Result<&Task, Refusal> {
        self.state.plan.task(task).ok_or(Refusal::Outdated)
    }

    pub(crate) fn refuse_finished(&self) -> Result<(), Refusal> {
        if self.state.is_finished() { Err(Refusal::RunFinished) } else { Ok(()) }
    }

    /// Returns whether the engine wrote an event that it cannot fold; nothing is emitted after it.
    pub(crate) fn is_broken(&self) -> bool {
        self.fault.is_some()
    }

    pub(crate) fn finish(self, handled: Result<(), Refusal>) -> Result<Decision, Refusal> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        match handled {
            // The state has changed, but the log has not.
            Err(_) if self.count > 0 => {
                let detail = "a decision was refused after its first event";
                return Err(CorruptLog { seq: self.state.seq, detail }.into());
            }
            handled => handled?,
        }
        Ok(Decision {
            first_seq: self.first_seq,
            count: self.count,
            events: self.buffer.into(),
            effects: self.effects,
            request_seq: self.request_seq,
        })
    }
}

/// Appends an event with its length before it.
pub(crate) fn encode(event: &v1::Event, buffer: &mut Vec<u8>) {
    let length = event.encoded_len();
    buffer.reserve(length + prost::length_delimiter_len(length));
    prost::encoding::encode_varint(length as u64, buffer);
    event.encode_raw(buffer);
}
