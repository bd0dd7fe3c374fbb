//! A new run.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::browser::BROWSER_AGENT;
use capataz_contracts::v1::child_run::Work as Child;
use capataz_contracts::v1::{self, event::Body, run_accepted::Work as Accepted};
use capataz_contracts::{json, reference};
use capataz_policy::mode::browser;
use prost::Message;

use super::fork::{self, Fork};
use super::turn::{Turn, encode};
use super::{Decision, Refusal, advance};
use crate::fold::EVENT_FORMAT;
use crate::fold::state::{RunState, Wall};
use crate::machine::mode;
use crate::snapshot::as_bytes;

/// What a run is to do.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Work {
    /// Validated and materialised ([`Plan::materialise`](crate::Plan::materialise)).
    Plan(#[serde(with = "as_bytes::one")] v1::Plan),
    /// Validated, with its request id filled in.
    Ask(#[serde(with = "as_bytes::one")] v1::Ask),
    /// Validated and materialised, with its run's id filled in.
    Script(#[serde(with = "as_bytes::one")] Box<v1::Script>),
    /// Validated and materialised ([`materialise_pipeline`](crate::materialise_pipeline)).
    Pipeline(#[serde(with = "as_bytes::one")] v1::Pipeline),
    /// Validated and materialised ([`materialise_mode`](crate::materialise_mode)), with its run's id filled in.
    Mode(#[serde(with = "as_bytes::one")] Box<v1::ModeRun>),
    /// Another run, as it was.
    Fork(Box<Fork>),
}

/// What a run needs that is of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// The session that the run belongs to.
    pub session: Option<String>,
    /// The agents that it is known to need, those of the runs among its tasks as well.
    pub agents: BTreeSet<String>,
    pub commands: Vec<String>,
    pub resources: Vec<String>,
    /// Blobs that its inputs name.
    pub blobs: Vec<v1::BlobRef>,
}

impl Work {
    /// The work of a task that is a run: with the id of that run, and with the task's input.
    pub(super) fn of_child(run: v1::ChildRun, run_id: &str, input: Option<&v1::Payload>) -> Option<Self> {
        Some(match run.work? {
            Child::Plan(mut plan) => {
                // What is in it has been resolved: nothing of it is a reference of the child's.
                let input = input.map(literally);
                let first = plan.waves.first_mut().into_iter().flat_map(|wave| &mut wave.tasks);
                for task in first.filter(|task| task.input.is_none()) {
                    task.input.clone_from(&input);
                }
                Self::Plan(plan)
            }
            Child::Ask(mut ask) => {
                if ask.text.is_empty() {
                    ask.text = input.and_then(text_of)?;
                }
                ask.request_id.get_or_insert_with(|| run_id.to_owned());
                Self::Ask(ask)
            }
            Child::Script(mut script) => {
                run_id.clone_into(&mut script.run_id);
                Self::Script(Box::new(script))
            }
            Child::Pipeline(mut pipeline) => {
                // The default of a pipeline's input is null, and it has one of its own where the task has none.
                if let Some(input) = input {
                    pipeline.input = Some(input.clone());
                }
                Self::Pipeline(pipeline)
            }
        })
    }

    /// Its encoded size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Plan(plan) => plan.encoded_len(),
            Self::Ask(ask) => ask.encoded_len(),
            Self::Script(script) => script.encoded_len(),
            Self::Pipeline(pipeline) => pipeline.encoded_len(),
            Self::Mode(run) => run.encoded_len(),
            Self::Fork(fork) => usize::try_from(fork.state.bytes()).unwrap_or(usize::MAX),
        }
    }

    /// The work of a run that has another id than was drawn for it: what was filled in with that id has the other one.
    pub fn rename_run(&mut self, drawn: &str, run_id: &str) {
        match self {
            Self::Plan(_) | Self::Pipeline(_) => {}
            Self::Ask(ask) => {
                if ask.request_id.as_deref() == Some(drawn) {
                    ask.request_id = Some(run_id.to_owned());
                }
            }
            Self::Script(script) => run_id.clone_into(&mut script.run_id),
            Self::Mode(run) => run_id.clone_into(&mut run.run_id),
            Self::Fork(fork) => run_id.clone_into(&mut fork.run_id),
        }
    }

    /// What the run needs before it is started, and what of it depends on its kind.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        match self {
            Self::Plan(plan) => {
                needs.session.clone_from(&plan.session);
                needs.add_plan(plan);
            }
            // Whether the agent of a spec is known is seen when the spec is called: another spec may answer instead.
            Self::Ask(ask) => needs.session.clone_from(&ask.session),
            // Whose agents are gone by now waits for them, as the other run does. Its blobs the fork has with its past.
            Self::Fork(fork) => needs.add_blob(fork.input.as_ref()),
            Self::Script(_) => needs.add_browser(),
            Self::Pipeline(pipeline) => needs.add_pipeline(pipeline),
            Self::Mode(run) => {
                needs.session.clone_from(&run.session);
                needs.agents.insert(run.planner.clone());
                let served = run.tools.iter().filter(|tool| mode::built_in_tool(&tool.name).is_none());
                needs.agents.extend(served.map(|tool| tool.name.clone()));
                if run.tools.iter().any(|tool| browser::is_tool(&tool.name)) {
                    needs.add_browser();
                }
            }
        }
        needs
    }
}

/// The input as a template that gives this same input.
fn literally(input: &v1::Payload) -> v1::Payload {
    let Some(v1::payload::Data::Inline(bytes)) =
        input.data.as_ref().filter(|_| json::is_json(&input.media_type))
    else {
        return input.clone();
    };
    match serde_json::from_slice(bytes) {
        Ok(value) => v1::Payload {
            data: Some(v1::payload::Data::Inline(reference::escaped(value).to_string().into())),
            ..input.clone()
        },
        Err(_) => input.clone(),
    }
}

impl Needs {
    fn add_plan(&mut self, plan: &v1::Plan) {
        self.commands.extend(plan.commands.iter().cloned());
        self.resources.extend(plan.resources.iter().cloned());
        for task in plan.waves.iter().flat_map(|wave| &wave.tasks) {
            self.add_blob(task.input.as_ref());
            // Nobody is needed for what is taken over.
            if let Some(before) = &task.taken_over {
                self.blobs.extend(before.blobs.iter().cloned());
                continue;
            }
            let Some(run) = &task.run else {
                self.agents.insert(task.agent.clone());
                continue;
            };
            match &run.work {
                Some(Child::Plan(plan)) => self.add_plan(plan),
                Some(Child::Script(_)) => self.add_browser(),
                Some(Child::Pipeline(pipeline)) => self.add_pipeline(pipeline),
                Some(Child::Ask(_)) | None => {}
            }
        }
    }

    fn add_blob(&mut self, payload: Option<&v1::Payload>) {
        if let Some(v1::payload::Data::Blob(blob)) = payload.and_then(|payload| payload.data.as_ref()) {
            self.blobs.push(blob.clone());
        }
    }

    fn add_pipeline(&mut self, pipeline: &v1::Pipeline) {
        self.agents.extend(pipeline.phases.iter().map(|phase| phase.agent.clone()));
        self.add_blob(pipeline.input.as_ref());
    }

    fn add_browser(&mut self) {
        self.agents.insert(BROWSER_AGENT.to_owned());
    }
}

/// A text that an ask can have: JSON text, or plain text, that is not blank.
pub(super) fn text_of(payload: &v1::Payload) -> Option<String> {
    let Some(v1::payload::Data::Inline(bytes)) = &payload.data else { return None };
    let text = match json::is_json(&payload.media_type) {
        true => serde_json::from_slice(bytes).ok(),
        false => std::str::from_utf8(bytes).ok().map(str::to_owned),
    };
    text.filter(|text: &String| !text.trim().is_empty())
}

/// What a run is started with.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StartRun {
    pub work: Work,
    pub labels: BTreeMap<String, String>,
    #[serde(with = "as_bytes::option")]
    pub parent: Option<v1::ParentRef>,
    /// What it has of its ancestors; `None` where it has none.
    #[serde(with = "as_bytes::option")]
    pub lineage: Option<v1::Lineage>,
}

/// Starts a run: accepts it and begins its first wave, asks for its route, or opens its browser; or goes on with a fork.
///
/// # Errors
/// [`Refusal::Corrupt`] for a plan that was not materialised, [`Refusal::Outdated`] for a fork that may not be.
pub fn start(seed: u64, request: StartRun, now: Wall) -> Result<(RunState, Decision), Refusal> {
    let (kind, work) = match request.work {
        Work::Plan(plan) => (v1::RunKind::Plan, Accepted::Plan(plan)),
        Work::Ask(ask) => (v1::RunKind::Ask, Accepted::Ask(ask)),
        Work::Script(script) => (v1::RunKind::Script, Accepted::Script(*script)),
        Work::Pipeline(pipeline) => (v1::RunKind::Pipeline, Accepted::Pipeline(pipeline)),
        Work::Mode(run) => (v1::RunKind::Mode, Accepted::Mode(*run)),
        Work::Fork(fork) => return fork::start(seed, *fork, request.labels, now),
    };
    let accepted = v1::Event {
        seq: 1,
        at_ms: now.0,
        format: EVENT_FORMAT,
        elapsed_ms: 0,
        body: Some(Body::RunAccepted(Box::new(v1::RunAccepted {
            kind: kind.into(),
            labels: request.labels,
            parent: request.parent,
            lineage: request.lineage,
            work: Some(work),
        }))),
    };
    let mut buffer = Vec::new();
    encode(&accepted, &mut buffer);
    let mut state = RunState::begin(seed, accepted)?;
    let mut turn = Turn::beginning(&mut state, buffer);
    let handled = advance::advance(&mut turn);
    let decision = turn.finish(handled)?;
    Ok((state, decision))
}
