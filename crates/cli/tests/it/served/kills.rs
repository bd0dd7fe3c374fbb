//! A daemon that is killed with SIGKILL at each kind of event of its executions, as soon as the event is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capataz_client::{Client, Delivery, EventStream};
use capataz_contracts::v1::{self, QuestionPurpose, event::Body, payload::Data};
use serde_json::Value;

use super::Served;

/// A time limit that only a failing test reaches.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Leases of one step after whose loss it is let be: a task whose fifth lease is lost has failed.
const LOSSES_MAX: usize = 3;

/// A call of a tool: which one, and what it was given.
pub type Call = (String, Value);

/// What a person is told of an execution: an event, and what was before it.
pub struct Told<'a> {
    pub client: &'a Client,
    pub run_id: &'a str,
    pub body: &'a Body,
    /// The calls of tools up to here, in their order.
    pub calls: &'a [Call],
}

/// An execution that has ended.
pub struct Ended {
    pub run_id: String,
    pub result: v1::RunResult,
    pub bodies: Vec<Body>,
}

impl Ended {
    pub fn count(&self, is_meant: impl Fn(&Body) -> bool) -> usize {
        self.bodies.iter().filter(|body| is_meant(body)).count()
    }
}

/// The daemon, and at which kinds of events it was killed.
pub struct Kills {
    daemon: Option<Served>,
    /// Kinds at which it has to be killed, each while it goes on after the event.
    wanted: BTreeSet<String>,
    /// Kinds that a kill, or chance, may bring beside them.
    others: BTreeSet<String>,
    /// Nothing else than what is wanted is killed at.
    only_wanted: bool,
    killed_at: BTreeSet<String>,
    executions: usize,
    /// How often it was killed.
    deaths: Arc<AtomicUsize>,
}

impl Kills {
    /// Starts the daemon. Each kind is as in [`Story::kind`].
    pub fn start(folder: &Path, config: &str, wanted: Vec<String>, others: Vec<String>) -> Self {
        Self {
            daemon: Some(Served::start(folder, config)),
            wanted: wanted.into_iter().collect(),
            others: others.into_iter().collect(),
            only_wanted: false,
            killed_at: BTreeSet::new(),
            executions: 0,
            deaths: Arc::default(),
        }
    }

    /// The same, where nothing else is killed at: the other kinds are those of another test.
    pub fn only_at(folder: &Path, config: &str, wanted: Vec<String>) -> Self {
        Self { only_wanted: true, ..Self::start(folder, config, wanted, Vec::new()) }
    }

    /// Counts here how often the daemon was killed.
    pub fn counting(self, deaths: &Arc<AtomicUsize>) -> Self {
        Self { deaths: Arc::clone(deaths), ..self }
    }

    pub fn daemon(&self) -> &Served {
        self.daemon.as_ref().unwrap()
    }

    pub async fn client(&self) -> Client {
        self.daemon().client().await
    }

    /// Whether another execution is needed. Each of them meets one more kind at least, for nothing is killed before that.
    ///
    /// # Panics
    /// Once all kinds are met: if there was any that is not known.
    pub fn go_on(&mut self) -> bool {
        let missing: Vec<&String> = self.wanted.difference(&self.killed_at).collect();
        if missing.is_empty() {
            let known: BTreeSet<String> = self.wanted.union(&self.others).cloned().collect();
            let unknown: Vec<&String> = self.killed_at.difference(&known).collect();
            assert!(unknown.is_empty(), "it was killed at {unknown:?}, too");
            return false;
        }
        assert!(
            self.executions <= self.wanted.len(),
            "it was never killed at {missing:?}, but at {:?}",
            self.killed_at
        );
        self.executions += 1;
        true
    }

    /// Which execution it is, from 1.
    pub fn round(&self) -> usize {
        self.executions
    }

    /// Starts an execution, and kills the daemon at each kind of event that is new, until the execution ends. The person is
    /// told each event at which the daemon is not killed, and again after each restart.
    pub async fn execution(&mut self, request: v1::StartRunRequest, person: impl AsyncFn(Told<'_>)) -> Ended {
        let mut client = self.client().await;
        let mut stream = all_events(&client);
        // Before the run is there, so that each of its events is heard as it comes.
        while !matches!(stream.next().await.unwrap().unwrap(), Delivery::CaughtUp) {}
        let run_id = client.start_run(request).await.unwrap().run_id;
        let mut is_live = true;
        loop {
            let next = self.next_kind(&client, stream, is_live, &run_id, &person);
            let next = tokio::time::timeout(PATIENCE, next).await;
            let next = next.unwrap_or_else(|_| unreachable!("it goes on; killed at {:?}", self.killed_at));
            let Some(kind) = next else { break };
            self.killed_at.insert(kind);
            self.deaths.fetch_add(1, Ordering::SeqCst);
            self.daemon = self.daemon.take().map(Served::kill_and_start);
            client = self.client().await;
            stream = all_events(&client);
            is_live = false;
        }
        let result = client.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it has ended");
        let mut bodies = Vec::new();
        let mut events = client.export_run(&run_id).await.unwrap();
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            bodies.push(event.body.unwrap());
            assert_eq!(event.seq, bodies.len() as u64, "no gap and nothing twice");
        }
        Ended { run_id, result, bodies }
    }

    /// Reads events until one is of a kind at which the daemon was not killed yet; `None` where the run has ended. Kinds that
    /// are wanted count only where they are heard as they come; others, such as those of a restart, in any case.
    async fn next_kind(
        &self,
        client: &Client,
        mut stream: EventStream,
        mut is_live: bool,
        run_id: &str,
        person: &impl AsyncFn(Told<'_>),
    ) -> Option<String> {
        let mut story = Story::default();
        loop {
            let (of, body) = match stream.next().await.unwrap().unwrap() {
                Delivery::Event { run_id, event, .. } => (run_id, event.body.unwrap()),
                Delivery::CaughtUp => {
                    is_live = true;
                    continue;
                }
                other => unreachable!("{other:?}"),
            };
            let is_own = of == run_id;
            let kind = match story.children.get(&of) {
                Some(tool) => format!("{} of the run of {tool}", name_of(&body)),
                None if is_own => story.kind(&body),
                None => continue,
            };
            story.losses += usize::from(matches!(body, Body::TaskLeaseLost(_)));
            let may_be = if self.wanted.contains(&kind) { is_live } else { !self.only_wanted };
            let is_new = may_be && !self.killed_at.contains(&kind);
            if is_new && story.losses < LOSSES_MAX {
                return Some(kind);
            }
            if is_own {
                person(Told { client, run_id, body: &body, calls: &story.calls }).await;
                if matches!(body, Body::RunFinished(_)) {
                    return None;
                }
            }
        }
    }
}

fn all_events(client: &Client) -> EventStream {
    client.subscribe(v1::SubscribeRequest::default())
}

fn name_of(body: &Body) -> String {
    let text = format!("{body:?}");
    text.split('(').next().unwrap().to_owned()
}

/// What was before an event.
#[derive(Default)]
struct Story {
    /// What the run is about: the planner, or the tool that is called.
    about: String,
    calls: Vec<Call>,
    /// Runs under it, with the tool that each of them is a call of.
    children: BTreeMap<String, String>,
    purposes: BTreeMap<String, QuestionPurpose>,
    has_gone_back: bool,
    /// Leases that were lost since the planner was asked, or the tool was called.
    losses: usize,
}

impl Story {
    /// What the event is, and what about: `TaskLeased of once`, `PlannerAsked of planner`, `… of planner for another plan`,
    /// `QuestionAsked of plan`, `ModeCompleted`. After a rollback it ends with `after the way back`.
    fn kind(&mut self, body: &Body) -> String {
        if matches!(body, Body::PlannerAsked(_) | Body::ToolCalled(_)) {
            self.losses = 0;
        }
        match body {
            Body::PlannerAsked(asked) if asked.reasons.is_empty() => "planner".clone_into(&mut self.about),
            Body::PlannerAsked(_) => "planner for another plan".clone_into(&mut self.about),
            Body::ToolCalled(called) => {
                let wave = called.tasks.clone().unwrap();
                self.about = wave.name.unwrap();
                let input = wave.tasks[0].input.as_ref().and_then(|input| input.data.as_ref());
                let parameters = match input {
                    Some(Data::Inline(text)) => serde_json::from_slice(text).unwrap_or_default(),
                    Some(Data::Blob(_)) | None => Value::Null,
                };
                self.calls.push((self.about.clone(), parameters));
            }
            Body::ChildNamed(named) => {
                self.children.insert(named.run_id.clone(), self.about.clone());
            }
            Body::QuestionAsked(asked) => {
                let question = asked.question.as_ref().unwrap();
                self.purposes.insert(question.question_id.clone(), question.purpose());
            }
            Body::ModeRolledBack(_) => self.has_gone_back = true,
            _ => {}
        }
        let name = name_of(body);
        let of_purpose = |id: &str| format!(" of {}", format!("{:?}", self.purposes[id]).to_lowercase());
        let about = match body {
            Body::QuestionAsked(asked) => of_purpose(&asked.question.as_ref().unwrap().question_id),
            Body::QuestionAnswered(answered) => of_purpose(&answered.question_id),
            Body::RunAccepted(_)
            | Body::ModeBegun(_)
            | Body::PlanEdited(_)
            | Body::PlanApproved(_)
            | Body::PlanRejected(_)
            | Body::ToolsMissed(_)
            | Body::ToolApproved(_)
            | Body::EscalationAnswered(_)
            | Body::ModeCheckpointed(_)
            | Body::ModeRolledBack(_)
            | Body::ModeCompleted(_)
            | Body::RunPaused(_)
            | Body::RunResumed(_)
            | Body::RunFinished(_) => String::new(),
            _ => format!(" of {}", self.about),
        };
        let is_later = self.has_gone_back && !matches!(body, Body::ModeRolledBack(_) | Body::RunFinished(_));
        let later = if is_later { " after the way back" } else { "" };
        format!("{name}{about}{later}")
    }
}

impl Told<'_> {
    /// Answers what this event asks, where it asks something. What was answered before a kill is asked no more.
    pub async fn answer(&self, say: impl Fn(&v1::Question) -> (&'static str, Option<Value>)) {
        let Body::QuestionAsked(asked) = self.body else { return };
        let id = &asked.question.as_ref().unwrap().question_id;
        let request = v1::GetRunRequest { run_id: self.run_id.to_owned(), ..v1::GetRunRequest::default() };
        let run = self.client.get_run(request).await.unwrap().run.unwrap();
        let question = run.questions.into_iter().find(|question| question.question_id == *id).unwrap();
        if question.answer.is_some() {
            return;
        }
        let (answer, value) = say(&question);
        let value = value.map(|value| v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(Data::Inline(value.to_string().into())),
        });
        let request = v1::ResolveRequest {
            run_id: self.run_id.to_owned(),
            request_id: format!("{id} {answer}"),
            question_id: question.question_id,
            answer: answer.to_owned(),
            value,
            ..v1::ResolveRequest::default()
        };
        self.client.resolve(request).await.unwrap();
    }

    /// What a person says of a call of which nobody knows what has become, by the journal of its tool. What `fails` has noted
    /// has failed.
    pub fn outcome(&self, folder: &Path) -> (&'static str, Option<Value>) {
        let call = self.calls.last().unwrap();
        let calls = self.calls.iter().filter(|other| *other == call).count();
        let done = journal(folder, &call.0).iter().filter(|given| **given == call.1).count();
        match (done == calls, call.0.as_str()) {
            (true, "fails") => ("failed", None),
            (true, _) => ("succeeded", Some(Value::Bool(true))),
            (false, _) => ("retry", None),
        }
    }
}

/// Kinds of events: these, of each of those.
pub fn kinds(names: &[&str], abouts: &[&str]) -> Vec<String> {
    abouts.iter().flat_map(|about| names.iter().map(move |name| format!("{name} of {about}"))).collect()
}

/// Kinds that only a restart brings: where work may be repeated, and where a person is asked first. A notice says that the host
/// of an agent has not come back yet.
pub fn of_restarts(repeated: &[&str], asked_about: &[&str]) -> Vec<String> {
    let mut all = kinds(&["TaskLeaseLost", "Notice"], repeated);
    all.extend(kinds(&["TaskExtended", "TaskRetryDue", "Notice"], asked_about));
    all.extend(kinds(&["QuestionAsked", "QuestionAnswered"], &["outcome"]));
    all
}

/// The same kinds once the run has gone back to a checkpoint.
pub fn after_the_way_back(kinds: Vec<String>) -> Vec<String> {
    kinds.into_iter().map(|kind| format!("{kind} after the way back")).collect()
}

/// The configuration of a tool that notes in its journal what it was given, and gives back `true`.
pub fn noting(folder: &Path, name: &str) -> String {
    format!(
        "[[agents]]\nname = {name:?}\nkind = \"tool\"\n\
         command = [\"sh\", \"-c\", 'given=$(cat); echo \"$given\" >> \"$0\"; echo true', {:?}]\n",
        folder.join(name).display().to_string()
    )
}

/// What such a tool was given, each time that it was at work.
pub fn journal(folder: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
