//! What clients start: plans of every shape that matters, with waves, policies, retries, timeouts and references; asks and
//! scripts have files of their own.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use capataz_contracts::v1::child_run::Work as Child;
use capataz_contracts::{reference, v1};
use capataz_engine::{BROWSER_AGENT, Plan, StartRun, Work};
use capataz_shard::{SESSION_LABEL, StartRequest, place, session_stream};
use capataz_store::RunId;

use crate::forks::ForkOf;
use crate::rng::Rng;
use crate::scenario::{Scenario, agent_name};
use crate::{asks, modes, pipelines, scripts};

/// What a client asks to be started; repeated as it is when an answer is lost.
#[derive(Clone, Debug)]
pub struct Template {
    pub start: StartRun,
    pub agents: BTreeSet<String>,
    pub key: Option<Bytes>,
    /// Stands for the hash of the canonical request.
    pub digest: [u8; 32],
    /// What it begins with of another run, in place of its work.
    pub fork: Option<ForkOf>,
}

/// An agent that nobody knows.
const UNKNOWN_AGENT: &str = "agent-unknown";

/// The label that tells a run's idempotency key to whoever reads the stream.
pub const KEY_LABEL: &str = "key";

impl Template {
    /// Draws a request. `number` makes its key differ from those of the others.
    pub fn draw(rng: &mut Rng, scenario: &Scenario, number: u64) -> Self {
        let drawn = u32::try_from(rng.below(100)).unwrap_or(0);
        let (work, agents) = if drawn < scenario.plans {
            let plan = any_plan(rng, scenario);
            in_session(rng, scenario, plan)
        } else if drawn < scenario.plans + scenario.asks {
            (Work::Ask(asks::draw(rng, scenario, number)), BTreeSet::new())
        } else if rng.percent(40) {
            let (mode, agents) = modes::draw(rng, scenario, number);
            (Work::Mode(Box::new(mode)), agents)
        } else if rng.percent(40) {
            let (pipeline, agents) = pipelines::draw(rng, scenario, number);
            (Work::Pipeline(pipeline), agents)
        } else {
            (Work::Script(Box::new(scripts::draw(rng, number))), BTreeSet::from([BROWSER_AGENT.to_owned()]))
        };
        let key = rng.percent(80).then(|| format!("key-{number}"));
        let mut labels = BTreeMap::from([("team".to_owned(), ["red", "blue"][rng.below(2)].to_owned())]);
        if let Some(key) = &key {
            labels.insert(KEY_LABEL.to_owned(), key.clone());
        }
        if let Some(session) = session_of(&work) {
            labels.insert(SESSION_LABEL.to_owned(), session);
        }
        let start = StartRun { work, labels, parent: None, lineage: within_a_trace(number) };
        Self { start, agents, key: key.map(Bytes::from), digest: digest(number), fork: None }
    }

    /// A run that goes on from the middle of another one, whose labels it has.
    pub fn of_fork(
        fork: ForkOf,
        mut labels: BTreeMap<String, String>,
        key: Option<String>,
        number: u64,
    ) -> Self {
        labels.remove(KEY_LABEL);
        labels.remove(SESSION_LABEL);
        labels.extend(key.iter().map(|key| (KEY_LABEL.to_owned(), key.clone())));
        let work = Work::Plan(v1::Plan::default());
        let start = StartRun { work, labels, parent: None, lineage: None };
        let (key, fork) = (key.map(Bytes::from), Some(fork));
        Self { start, agents: BTreeSet::new(), key, digest: digest(number), fork }
    }

    /// The request, for a run of this id.
    #[must_use]
    pub fn start_of(&self, run: Option<RunId>) -> StartRun {
        let mut start = self.start.clone();
        match (&mut start.work, run) {
            (Work::Script(script), Some(run)) => script.run_id = run.to_string(),
            (Work::Mode(mode), Some(run)) => mode.run_id = run.to_string(),
            _ => {}
        }
        start
    }

    /// The session that the run belongs to.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        session_of(&self.start.work)
    }

    /// Another request under the same key, for another of the sessions where there is one.
    #[must_use]
    pub fn forged(&self, rng: &mut Rng, scenario: &Scenario) -> Self {
        let mut digest = self.digest;
        digest[31] ^= 1;
        let mut other = self.clone();
        match &mut other.start.work {
            Work::Plan(plan) => {
                plan.name.push('x');
                if plan.session.is_some() && rng.percent(70) {
                    let session = asks::session(rng, scenario);
                    other.start.labels.insert(SESSION_LABEL.to_owned(), session.clone());
                    plan.session = Some(session);
                }
            }
            Work::Ask(ask) => {
                ask.text.push('x');
                if ask.session.is_some() && rng.percent(70) {
                    let session = asks::session(rng, scenario);
                    other.start.labels.insert(SESSION_LABEL.to_owned(), session.clone());
                    ask.session = Some(session);
                }
            }
            Work::Script(script) => script.name.push('x'),
            Work::Pipeline(pipeline) => pipeline.name.push('x'),
            Work::Mode(run) => run.query.push('x'),
            Work::Fork(_) => {}
        }
        other.digest = digest;
        other
    }
}

/// Half of the requests belong to a span of their callers, and half of these to a trace that nobody records.
fn within_a_trace(number: u64) -> Option<v1::Lineage> {
    let flags = if number % 4 == 1 { "00" } else { "01" };
    let traceparent = format!("00-{:032x}-{:016x}-{flags}", u128::from(number) + 1, number + 1);
    (number % 2 == 1).then(|| v1::Lineage { traceparent, ..v1::Lineage::default() })
}

fn any_plan(rng: &mut Rng, scenario: &Scenario) -> (Work, BTreeSet<String>) {
    let mut plan = plan(rng, scenario, 0);
    if rng.percent(12) {
        continue_another(rng, &mut plan);
    }
    if Plan::materialise(&mut plan).is_err() {
        plan = smallest();
    }
    let start = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
    let request = StartRequest::new(RunId::MIN, start);
    (request.start.work, request.agents)
}

fn needs(task: &v1::Task) -> BTreeSet<String> {
    let wave = v1::Wave { tasks: vec![task.clone()], ..v1::Wave::default() };
    Work::Plan(v1::Plan { waves: vec![wave], ..v1::Plan::default() }).needs().agents
}

/// The plan goes on where another run has ended, in which some of its tasks have succeeded.
fn continue_another(rng: &mut Rng, plan: &mut v1::Plan) {
    plan.continues = Some(RunId(uuid::Uuid::from_u128(0x7 << 76 | 0x8 << 60)).to_string());
    // What refers to a task that is done again is done again, too: nobody has looked whether its agent is known.
    let tasks = plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks);
    for task in tasks.filter(|task| !needs(task).contains(UNKNOWN_AGENT)) {
        let output = v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline(format!("{{\"lease\":{}}}", rng.below(9)).into())),
        };
        let refers_to = task.input.as_ref().map(reference::tasks_of).unwrap_or_default();
        task.taken_over = rng.percent(60).then(|| v1::TakenOver {
            output: rng.percent(85).then_some(output),
            refers_to: refers_to.into_iter().collect(),
            blobs: Vec::new(),
        });
    }
}

/// Some plans are work of one of the sessions.
fn in_session(
    rng: &mut Rng,
    scenario: &Scenario,
    (mut work, agents): (Work, BTreeSet<String>),
) -> (Work, BTreeSet<String>) {
    if let Work::Plan(plan) = &mut work
        && rng.percent(15)
    {
        plan.session = Some(asks::session(rng, scenario));
    }
    (work, agents)
}

/// A run that is a task, down to the second level.
fn child(rng: &mut Rng, scenario: &Scenario, depth: u32) -> v1::ChildRun {
    let work = match rng.below(10) {
        0..=1 => Child::Script(scripts::draw(rng, u64::from(depth))),
        2..=4 => Child::Ask(v1::Ask { request_id: None, ..asks::draw(rng, scenario, u64::from(depth)) }),
        5 => Child::Pipeline(pipelines::draw(rng, scenario, u64::from(depth)).0),
        _ => {
            let mut plan = plan(rng, scenario, depth + 1);
            plan.waves.truncate(1 + rng.below(2));
            for wave in &mut plan.waves {
                wave.tasks.truncate(2);
            }
            // What refers to a task that is not there any more is refused when the plan is checked.
            for task in plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
                task.input = None;
            }
            Child::Plan(plan)
        }
    };
    let session = match &work {
        Child::Ask(ask) => ask.session.as_deref(),
        Child::Plan(_) | Child::Script(_) | Child::Pipeline(_) => None,
    };
    let place = session.map(|session| u32::from(place(session_stream(session))));
    v1::ChildRun { work: Some(work), detached: rng.percent(20), place, ..v1::ChildRun::default() }
}

fn digest(number: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    for (to, from) in digest.iter_mut().zip(number.to_le_bytes()) {
        *to = from;
    }
    digest
}

fn smallest() -> v1::Plan {
    let task = v1::Task { name: "w0t0".to_owned(), agent: agent_name(0), ..v1::Task::default() };
    let mut plan = v1::Plan {
        name: "smallest".to_owned(),
        waves: vec![v1::Wave { tasks: vec![task], ..v1::Wave::default() }],
        ..v1::Plan::default()
    };
    // A plan of defaults alone has no violations.
    let _ = Plan::materialise(&mut plan);
    plan
}

fn plan(rng: &mut Rng, scenario: &Scenario, depth: u32) -> v1::Plan {
    let mut earlier: Vec<String> = Vec::new();
    let mut waves = Vec::new();
    for wave in 0..1 + rng.below(3) {
        let tasks: Vec<v1::Task> =
            (0..1 + rng.below(4)).map(|index| task(rng, scenario, depth, (wave, index), &earlier)).collect();
        earlier.extend(tasks.iter().map(|task| task.name.clone()));
        let policy = rng.percent(30).then(|| policy(rng));
        waves.push(v1::Wave { name: None, tasks, policy });
    }
    let on_high = if rng.percent(25) { v1::OnHigh::Pause } else { v1::OnHigh::Continue };
    v1::Plan {
        name: "plan".to_owned(),
        waves,
        policy: rng.percent(80).then(|| policy(rng)),
        timeouts: Some(timeouts(rng)),
        retry: rng.percent(80).then(|| retry(rng)),
        on_high: Some(on_high as i32),
        ..v1::Plan::default()
    }
}

fn task(
    rng: &mut Rng,
    scenario: &Scenario,
    depth: u32,
    (wave, index): (usize, usize),
    earlier: &[String],
) -> v1::Task {
    let run = (depth < 2 && rng.percent(12)).then(|| Box::new(child(rng, scenario, depth)));
    let agent =
        if rng.per_mille(5) { UNKNOWN_AGENT.to_owned() } else { agent_name(rng.below(scenario.agents)) };
    let effect = if rng.percent(20) { v1::Effect::AtMostOnce } else { v1::Effect::AtLeastOnce };
    v1::Task {
        name: format!("w{wave}t{index}"),
        agent: if run.is_some() { String::new() } else { agent },
        input: if run.is_some() { None } else { input(rng, earlier) },
        critical: rng.percent(30),
        effect: Some(effect as i32),
        timeouts: rng.percent(30).then(|| timeouts(rng)),
        retry: rng.percent(30).then(|| retry(rng)),
        severity: rng.percent(10).then(|| i32::try_from(1 + rng.below(4)).unwrap_or(1)),
        run,
        taken_over: None,
    }
}

/// How often an output stands in an input that has to be made beside the shards' thread: more than 32 KiB of it.
pub(crate) const MANY: usize = 1_400;

fn input(rng: &mut Rng, earlier: &[String]) -> Option<v1::Payload> {
    let name = rng.pick(earlier).filter(|_| true).cloned();
    let text = match (rng.below(10), name) {
        (6, Some(name)) if rng.percent(40) => {
            format!("\"{}\"", format!("${{tasks.{name}.output}}").repeat(MANY))
        }
        (0..=2, Some(name)) => format!("\"${{tasks.{name}.output}}\""),
        (3..=5, Some(name)) => format!("{{\"from\":\"${{tasks.{name}.output.lease}}\"}}"),
        (6, Some(name)) => format!("{{\"text\":\"lease ${{tasks.{name}.output.lease}} of it\"}}"),
        (7, Some(name)) => format!("[\"${{tasks.{name}.output.nothing}}\"]"),
        (8, _) => return None,
        (number, _) => format!("{{\"number\":{number}}}"),
    };
    Some(v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.into())),
    })
}

fn policy(rng: &mut Rng) -> v1::AggregationPolicy {
    let kinds = [
        v1::AggregationKind::FailFast,
        v1::AggregationKind::Quorum,
        v1::AggregationKind::ContinueAll,
        v1::AggregationKind::CriticalPath,
    ];
    let kind = rng.pick(&kinds).copied().unwrap_or(v1::AggregationKind::Quorum);
    let threshold = [0.25, 0.5, 0.75, 1.0][rng.below(4)];
    v1::AggregationPolicy {
        kind: kind as i32,
        quorum_threshold: (kind == v1::AggregationKind::Quorum && rng.percent(60)).then_some(threshold),
        stop_when_decided: rng.percent(50).then(|| rng.percent(60)),
        critical_agents: Vec::new(),
    }
}

fn timeouts(rng: &mut Rng) -> v1::TimeoutPolicy {
    // Longer than a minute, so that the warning before the deadline is given, or short enough to be exceeded.
    let timeout = match rng.below(10) {
        0..=2 => rng.between(61_000, 120_000),
        3..=8 => rng.between(1_000, 45_000),
        _ => rng.between(500, 4_000),
    };
    v1::TimeoutPolicy {
        timeout_ms: Some(timeout),
        grace_ms: Some(rng.between(0, 12_000)),
        schedule_to_start_ms: rng.percent(30).then(|| rng.between(2_000, 40_000)),
    }
}

fn retry(rng: &mut Rng) -> v1::RetryPolicy {
    let base = rng.between(0, 1_500);
    let table = rng.percent(20);
    v1::RetryPolicy {
        max_attempts: Some(1 + u32::try_from(rng.below(4)).unwrap_or(0)),
        base_delay_ms: Some(base),
        backoff_multiplier: rng.percent(50).then_some(1.5),
        max_delay_ms: Some(base + rng.between(0, 4_000)),
        timeout_per_attempt_ms: rng.percent(40).then(|| rng.between(500, 9_000)),
        total_timeout_ms: rng.percent(20).then(|| rng.between(5_000, 40_000)),
        jitter: Some(rng.percent(50)),
        delays_ms: match rng.below(10) {
            // Long enough for the run to leave memory.
            0 | 1 => vec![rng.between(3_000, 60_000)],
            _ if table => vec![rng.between(0, 500), rng.between(0, 3_000)],
            _ => Vec::new(),
        },
        retryable: if rng.percent(20) { vec!["TASK_CANCELLED".to_owned()] } else { Vec::new() },
        non_retryable: if rng.percent(10) { vec!["RATE_LIMIT".to_owned()] } else { Vec::new() },
    }
}

fn session_of(work: &Work) -> Option<String> {
    match work {
        Work::Ask(ask) => ask.session.clone(),
        Work::Plan(plan) => plan.session.clone(),
        Work::Mode(run) => run.session.clone(),
        Work::Script(_) | Work::Pipeline(_) | Work::Fork(_) => None,
    }
}
