//! The runs and the session that golden logs tell: something of everything, by the rules of this version.
//!
//! Each may begin with the decisions of a stored log and go on from there by itself, as a run does whose daemon is
//! replaced by a newer one.

mod ask;
mod mode;
mod pipeline;
mod plan;
mod script;
mod session;

pub use script::hash_of;

use std::collections::BTreeMap;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_engine::{
    Decision, Fork, Input, Moment, Report, RunState, StartRun, TaskRef, Wall, Work, decide, start,
};
use prost::Message;

use super::golden_told::{Facts, facts_of_run};

const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

/// A log, and where each of the decisions ends that wrote it.
#[derive(Clone, Default)]
pub struct Log {
    pub events: Vec<v1::Event>,
    /// Number of the last event of each decision.
    pub ends: Vec<u64>,
    /// What there is to be seen after each decision of this version.
    pub seen: Vec<Facts>,
}

/// What tells a log, beginning with so many decisions of the one given.
pub type Story = fn(seed: u64, before: &Log, decisions: usize) -> Log;

/// Every story by the name of its log.
pub const STORIES: &[(&str, Story)] = &[
    ("plan", plan::log),
    ("plan-given-up", plan::log_of_one_that_is_given_up),
    ("plan-that-is-billed", plan::log_of_one_that_is_billed),
    ("plan-vouched-for", plan::log_of_one_that_is_vouched_for),
    ("plan-at-its-deadlines", plan::log_of_one_at_its_deadlines),
    ("plan-taken-back", plan::log_of_one_that_is_taken_back),
    ("plan-that-goes-on", plan::log_of_one_that_goes_on),
    ("plan-forked", plan::log_of_one_that_is_forked),
    ("plan-of-runs", plan::log_of_runs),
    ("plan-of-a-session", plan::log_of_one_of_a_session),
    ("ask", ask::log),
    ("ask-stopped", ask::log_of_a_stopped_one),
    ("ask-unavailable", ask::log_of_an_unavailable_one),
    ("ask-to-and-fro", ask::log_of_one_that_is_handed_to_and_fro),
    ("session", session::log),
    ("session-of-any-json", session::log_of_any_json),
    ("session-of-plans", session::log_of_plans),
    ("session-of-modes", session::log_of_modes),
    ("session-that-forgets", session::log_that_forgets),
    ("pipeline", pipeline::log),
    ("mode", mode::log),
    ("mode-in-a-browser", mode::log_in_a_browser),
    ("mode-of-a-missed-tool", mode::log_of_a_missed_tool),
    ("mode-of-a-rejected-plan", mode::log_of_a_rejected_plan),
    ("script", script::log),
    ("script-halted", script::log_of_a_halted_one),
    ("script-lost", script::log_of_a_lost_one),
    ("script-given-up", script::log_of_one_that_is_given_up),
    ("script-interactive", script::log_of_an_interactive_one),
    ("script-idle", script::log_of_an_idle_one),
    ("script-put-away", script::log_of_one_that_is_put_away),
];

impl Log {
    pub fn decode(mut bytes: &[u8]) -> Vec<v1::Event> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            events.push(v1::Event::decode_length_delimited(&mut bytes).expect("an event can be read"));
        }
        events
    }

    pub fn encode(&self) -> Vec<u8> {
        self.events.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
    }

    fn add(&mut self, events: &Bytes) {
        self.events.extend(Self::decode(events));
        self.ends.push(self.events.len() as u64);
    }

    /// The events of the decision of this number, from 0.
    fn decision(&self, number: usize) -> &[v1::Event] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.events[begin as usize..self.ends[number] as usize]
    }
}

/// A run at work.
struct Run<'a> {
    state: RunState,
    now: i64,
    log: Log,
    before: &'a Log,
    /// So many decisions are taken from the log before.
    decisions: usize,
}

fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.to_owned().into())),
    }
}

impl<'a> Run<'a> {
    #[track_caller]
    fn start(seed: u64, work: Work, before: &'a Log, decisions: usize) -> Self {
        Self::start_at(seed, work, before, decisions, START)
    }

    #[track_caller]
    fn start_at(seed: u64, work: Work, before: &'a Log, decisions: usize, now: i64) -> Self {
        let labels = BTreeMap::from([("team".to_owned(), "core".to_owned())]);
        let parent = Some(v1::ParentRef {
            run_id: "parent".to_owned(),
            task: "start-child".to_owned(),
            lease: 3,
            ..v1::ParentRef::default()
        });
        let mut log = Log::default();
        let state = if decisions == 0 {
            let (state, decision) = start(seed, StartRun { work, labels, parent, lineage: None }, Wall(now))
                .expect("the run starts");
            log.add(&decision.events);
            state
        } else {
            log.events.extend_from_slice(before.decision(0));
            log.ends.push(log.events.len() as u64);
            RunState::fold(seed, log.events.clone()).expect("the beginning can be folded")
        };
        if decisions == 0 {
            log.seen.push(facts_of_run(&state));
        }
        Self { state, now, log, before, decisions }
    }

    #[track_caller]
    fn does(&mut self, input: Input) {
        let number = self.log.ends.len();
        if number < self.decisions {
            for event in self.before.decision(number) {
                self.state.apply(event.clone()).expect("the event can be folded");
                self.log.events.push(event.clone());
            }
            self.log.ends.push(self.log.events.len() as u64);
            return;
        }
        let now = Moment::first(Wall(self.now));
        let Decision { events, .. } = decide(&mut self.state, input, now).expect("nothing is refused");
        self.log.add(&events);
        self.log.seen.push(facts_of_run(&self.state));
    }

    /// From here on it is a run of its own.
    #[track_caller]
    fn forks(&mut self, seed: u64) {
        let number = self.log.ends.len();
        if number < self.decisions {
            return self.does(Input::Tick { observed: BTreeMap::new() });
        }
        let (of, run_id) = ("run".to_owned(), "fork".to_owned());
        let fork = Fork { of, run_id, state: Box::new(self.state.clone()), input: None };
        let labels = BTreeMap::from([("try".to_owned(), "2".to_owned())]);
        let request = StartRun { work: Work::Fork(Box::new(fork)), labels, parent: None, lineage: None };
        let (state, decision) = start(seed, request, Wall(self.now)).expect("it may be forked");
        self.state = state;
        self.log.add(&decision.events);
        self.log.seen.push(facts_of_run(&self.state));
    }

    /// The input belongs to the decision before, as a version told the story that needed no such input.
    #[track_caller]
    fn goes_on(&mut self, input: Input) {
        let now = Moment::first(Wall(self.now));
        let Decision { events, .. } = decide(&mut self.state, input, now).expect("nothing is refused");
        self.log.events.extend(Log::decode(&events));
        *self.log.ends.last_mut().expect("a decision came before") = self.log.events.len() as u64;
        *self.log.seen.last_mut().expect("a decision came before") = facts_of_run(&self.state);
    }

    /// The input changes nothing, and is not a decision.
    #[track_caller]
    fn refuses(&self, input: Input) {
        let now = Moment::first(Wall(self.now));
        decide(&mut self.state.clone(), input, now).expect_err("it is refused");
    }

    /// The task that began last.
    fn newest(&self) -> TaskRef {
        let options = capataz_engine::ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
        TaskRef { wave: self.state.view(String::new(), options).wave, task: 0 }
    }

    #[track_caller]
    fn takes(&mut self, task: TaskRef, worker: &str) -> u64 {
        self.does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: worker.to_owned(),
        });
        self.state.lease_of(task).expect("the task is leased").0
    }

    #[track_caller]
    fn says(&mut self, task: TaskRef, lease: u64, worker: &str, report: Report) {
        let log = format!("log of {worker}");
        self.does(Input::Report { task, lease, worker: worker.to_owned(), report, log, usage: None });
    }

    #[track_caller]
    fn loses_lease(&mut self, task: TaskRef, lease: u64, reason: v1::LeaseLossReason) {
        self.does(Input::LeaseLost { task, lease, reason });
    }

    fn after(&mut self, milliseconds: i64) {
        let end = self.now + milliseconds;
        while let Some(next) = self.state.next_deadline().filter(|next| next.0 <= end) {
            self.now = self.now.max(next.0);
            self.does(Input::Tick { observed: BTreeMap::new() });
        }
        self.now = end;
    }

    fn stands_still(&mut self, milliseconds: i64) {
        self.does(Input::Pause { request_id: format!("pause-{}", self.now) });
        self.after(milliseconds);
        self.does(Input::Resume { request_id: format!("resume-{}", self.now) });
    }

    fn newest_question(&self) -> String {
        let options = capataz_engine::ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
        let questions = self.state.view(String::new(), options).questions;
        // A story that an older version has told does not speak of deadlines where it can speak of something else.
        let at_deadline = |asked: &&v1::Question| asked.purpose() == v1::QuestionPurpose::Timeout;
        let other = questions.iter().rfind(|asked| !at_deadline(asked));
        other.or(questions.last()).expect("there is a question").question_id.clone()
    }

    /// Answers the newest question.
    #[track_caller]
    fn answers(&mut self, answer: &str) {
        let question_id = self.newest_question();
        self.does(Input::Resolve {
            question_id,
            answer: answer.into(),
            request_id: format!("answer-{answer}"),
        });
    }

    #[track_caller]
    fn ends(self, outcome: v1::RunOutcome) -> Log {
        assert_eq!(self.state.outcome(), Some(outcome));
        self.log
    }
}
