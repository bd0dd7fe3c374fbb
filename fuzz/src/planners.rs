//! What planners of executions answer, in every situation in which they are asked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::json::{self, JSON_MEDIA_TYPE};
use capataz_contracts::v1::{self, ExecutionMode, connect_request::Frame, event::Body, payload::Data};
use capataz_contracts::validate::{self, INLINE_MAX};
use capataz_engine::{
    Answer, Computed, Decision, Input, Moment, Observing, Query, QueryAnswer, Refusal, Report, RunState,
    StartRun, TaskRef, Timestamp, ViewOptions, Wall, Wanted, Work, built_in_tool, decide, materialise_mode,
};
use capataz_judge::Schema;
use capataz_shard::feed;
use capataz_shard::phases::{self, Contents, Entry, Unread};
use prost::Message;

use crate::stored::{SEED, use_run};

const NOW: Moment = Moment { clock: Timestamp(1_000), wall: Wall(1_000) };
const WORKER: &str = "w";

/// What the executions may have done: by agents, and by what is built in.
const TOOLS: [&str; 7] =
    ["read", "send", "plan.run", "pipeline.run", "router.ask", "browser.navigate", "browser.observe"];
/// What the agents take.
const PARAMETERS: &str =
    r#"{"type":"object","required":["path"],"properties":{"path":{"type":"string","maxLength":64}}}"#;

/// A first answer with a plan.
const PLAN: &str = r#"{
    "planUpdate": {
        "type": "create",
        "steps": [
            {"id": "a", "description": "read it", "tool": "read", "parameters": {"path": "a"}},
            {"id": "b", "description": "read more", "tool": "read", "parameters": {"path": "b"}, "dependsOn": ["a"]}
        ],
        "estimatedTime": 2.5,
        "checkpoints": []
    },
    "nextAction": {"tool": "read", "parameters": {"path": "a"}, "stepIndex": 0},
    "replanRequired": false,
    "reasoning": "because",
    "confidence": 1
}"#;

/// An execution whose planner is asked, and the lease of the planner's worker.
struct Asked {
    state: RunState,
    task: TaskRef,
    lease: u64,
}

/// The situations in which planners answer by different contracts, or by the same one about something else.
const SITUATIONS: [fn() -> Option<Asked>; 5] = [
    asked_for_an_action,
    asked_for_a_plan,
    asked_amid_a_plan,
    asked_for_a_proposal,
    asked_about_an_approved_plan,
];

thread_local! {
    static JUDGE: Judge = Judge::default();
    static ASKED: Vec<Option<Asked>> = SITUATIONS.iter().map(|situation| situation()).collect();
}

/// An answer as a planner's worker gives it: it counts, or the planner is told what is wrong with it.
pub(crate) fn planner_answer(bytes: &[u8]) {
    ASKED.with(|situations| {
        for (place, asked) in situations.iter().enumerate() {
            assert!(asked.is_some(), "situation {place} comes about");
            if let Some(asked) = asked {
                hear(asked, bytes);
            }
        }
    });
}

fn hear(asked: &Asked, answer: &[u8]) {
    let (state, decided) = says(asked, answer);
    assert!(decided.is_ok(), "the worker is heard: {decided:?}");
    let events = decided.map(|decision| events_of(&decision)).unwrap_or_default();
    let mut folded = asked.state.clone();
    for event in &events {
        let _ = json::print("capataz.v1.Event", event);
        let applied = folded.apply(event.clone());
        assert!(applied.is_ok(), "{applied:?}: {event:?}");
    }
    assert!(folded.snapshot().ok() == state.snapshot().ok(), "the fold is the state");

    let rejected = events.iter().find_map(|event| match &event.body {
        Some(Body::OutputRejected(rejected)) => Some(rejected),
        _ => None,
    });
    assert!(rejected.is_none_or(|rejected| !rejected.violations.is_empty()), "{rejected:?}");
    let counted = answered(&events);
    // A longer one fails its attempt before anybody reads it.
    let is_read = answer.len() <= INLINE_MAX;
    assert_eq!(
        counted.is_some() != rejected.is_some(),
        is_read,
        "either it counts, or it is rejected: {events:?}"
    );
    let Some(counted) = counted else { return };
    use_run(state);
    let written = json::from_slice(answer).map(|value| value.to_string()).unwrap_or_default();
    if written.len() <= INLINE_MAX {
        let (_, again) = says(asked, written.as_bytes());
        let events = again.map(|decision| events_of(&decision)).unwrap_or_default();
        assert_eq!(answered(&events), Some(counted), "what counts counts as it is written: {written}");
    }
}

/// What was made of the answer, where it counts.
fn answered(events: &[v1::Event]) -> Option<&v1::PlannerAnswered> {
    events.iter().find_map(|event| match &event.body {
        Some(Body::PlannerAnswered(answered)) => Some(answered),
        _ => None,
    })
}

fn events_of(decision: &Decision) -> Vec<v1::Event> {
    let events: Result<Vec<v1::Event>, _> = feed::split(&decision.events).map(v1::Event::decode).collect();
    events.unwrap_or_default()
}

/// What is judged and decided where the worker gives this back, as a daemon does it.
fn says(asked: &Asked, answer: &[u8]) -> (RunState, Result<Decision, Refusal>) {
    let (mut state, task, lease) = (asked.state.clone(), asked.task, asked.lease);
    let mut report = report_of(answer);
    while let Some(judgement) = state.report_to_judge(task, lease, WORKER, &report) {
        // Whoever knows all contents judges at once.
        let Ok(verdict) = JUDGE.with(|judge| phases::verdict(judgement, judge)) else { break };
        let verdict = Box::new(verdict);
        report = match report {
            Report::Completed(output) | Report::Judged(output, _) => Report::Judged(output, verdict),
            Report::Failed(error) | Report::Unread(error, _) => Report::Unread(error, verdict),
            Report::Cancelled(partial) => Report::Cancelled(partial),
        };
    }
    let decided = decide(&mut state, reported(task, lease, report), NOW);
    (state, decided)
}

/// The report that a frame with this answer becomes at the daemon's edge.
fn report_of(answer: &[u8]) -> Report {
    let output = Some(payload(Bytes::copy_from_slice(answer)));
    let frame = Frame::Completed(v1::Completed { output, ..v1::Completed::default() });
    match validate::worker_frame(frame, INLINE_MAX) {
        Frame::Completed(v1::Completed { output: Some(output), .. }) => Report::Completed(output),
        Frame::Failed(v1::Failed { error: Some(error), .. }) => Report::Failed(error),
        _ => Report::Cancelled(None),
    }
}

fn reported(task: TaskRef, lease: u64, report: Report) -> Input {
    Input::Report { task, lease, worker: WORKER.to_owned(), report, log: String::new(), usage: None }
}

fn payload(text: impl Into<Bytes>) -> v1::Payload {
    v1::Payload { media_type: JSON_MEDIA_TYPE.to_owned(), data: Some(Data::Inline(text.into())) }
}

/// A judge that knows no blobs and no memory, and keeps the contracts that it has compiled.
#[derive(Default)]
struct Judge(RefCell<BTreeMap<String, Arc<Schema>>>);

impl Contents for Judge {
    fn read(&self, _: &v1::BlobRef, _: usize) -> Result<Vec<u8>, Unread> {
        Err(Unread::Missing)
    }

    fn keep(&self, contents: &[u8]) -> Result<v1::BlobRef, Unread> {
        Ok(v1::BlobRef { blake3: "ab".repeat(32), size: contents.len() as u64, answer: None })
    }

    fn recall(&self, _: &Wanted) -> Result<Vec<Entry>, Unread> {
        Ok(Vec::new())
    }

    fn tokens(&self, _: &str) -> u32 {
        0
    }

    fn now(&self) -> u64 {
        0
    }

    fn compiled(&self, schema: &str) -> Result<Arc<Schema>, v1::SchemaViolation> {
        let known = self.0.borrow().get(schema).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let compiled = capataz_judge::compiled(schema).map(Arc::new)?;
        self.0.borrow_mut().insert(schema.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

fn asked_for_an_action() -> Option<Asked> {
    asks(begins(ExecutionMode::Simple)?)
}

fn asked_for_a_plan() -> Option<Asked> {
    asks(begins(ExecutionMode::Planner)?)
}

/// The first of two steps is done.
fn asked_amid_a_plan() -> Option<Asked> {
    let (mut state, decided) = says(&asked_for_a_plan()?, PLAN.as_bytes());
    decided.ok()?;
    let (task, lease) = takes(&mut state)?;
    does(&mut state, reported(task, lease, Report::Completed(payload("{\"n\":1}"))))?;
    let (query, Query::Observe(_)) = state.open_query()? else { return None };
    let seen = Observing { as_expected: true, content: "all".to_owned(), digest: "few".to_owned() };
    does(&mut state, Input::Answered { query, answer: QueryAnswer::Computed(Computed::Observed(seen)) })?;
    asks(state)
}

fn asked_for_a_proposal() -> Option<Asked> {
    asks(begins(ExecutionMode::Supervised)?)
}

fn asked_about_an_approved_plan() -> Option<Asked> {
    let (mut state, decided) = says(&asked_for_a_proposal()?, PLAN.as_bytes());
    decided.ok()?;
    let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
    let question_id = state.view("run".to_owned(), options).questions.first()?.question_id.clone();
    let answer = Answer::from("approve");
    does(&mut state, Input::Resolve { question_id, answer, request_id: "approve".to_owned() })?;
    asks(state)
}

fn begins(mode: ExecutionMode) -> Option<RunState> {
    let mut run = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(mode.into()),
        planner: "brain".to_owned(),
        tools: TOOLS.map(tool).to_vec(),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut run).ok()?;
    let start =
        StartRun { work: Work::Mode(Box::new(run)), labels: BTreeMap::new(), parent: None, lineage: None };
    let (state, _) = capataz_engine::start(SEED, start, NOW.wall).ok()?;
    Some(state)
}

fn tool(name: &str) -> v1::ModeTool {
    let built_in = built_in_tool(name);
    v1::ModeTool {
        name: name.to_owned(),
        undoable: built_in.as_ref().map_or(name == "read", |tool| tool.undoable),
        needs_approval: name == "send",
        input_schema: built_in.map_or_else(|| PARAMETERS.to_owned(), |tool| tool.input_schema),
        ..v1::ModeTool::default()
    }
}

/// The prompt is made, and a worker has it.
fn asks(mut state: RunState) -> Option<Asked> {
    let (query, Query::Prompt(asked)) = state.open_query()? else { return None };
    let computed = Computed::Prompt {
        prompt: payload(asked.prompt.clone()),
        recalled: v1::Recalled::default(),
        absent: Vec::new(),
    };
    does(&mut state, Input::Answered { query, answer: QueryAnswer::Computed(computed) })?;
    let (task, lease) = takes(&mut state)?;
    Some(Asked { state, task, lease })
}

/// A worker takes the one task that waits.
fn takes(state: &mut RunState) -> Option<(TaskRef, u64)> {
    let task = state.queued().next()?;
    let lease = Input::Lease {
        task,
        worker: WORKER.to_owned(),
        mark: 0,
        output_schema: None,
        cancel_is_final: false,
    };
    does(state, lease)?;
    let (lease, _) = state.lease_of(task)?;
    Some((task, lease))
}

fn does(state: &mut RunState, input: Input) -> Option<Decision> {
    decide(state, input, NOW).ok()
}
