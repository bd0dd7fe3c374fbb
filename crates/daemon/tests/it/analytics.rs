//! How executions went, counted over a real socket and held against their events (seed 004, Analytics).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use serde_json::{Value, json as of};

use crate::modes::{act, answer, execution, keeps_to, modes, plan, step, try_start};
use crate::support::{Harness, Worker, error, json};

/// Executions of the test.
const RUNS: usize = 1_000;
/// How many of them are at work together.
const TOGETHER: usize = 50;

/// Modes and queries: what becomes of a query is said in [`said`].
const KINDS: [(ExecutionMode, &str); 7] = [
    (ExecutionMode::Simple, "do"),
    (ExecutionMode::Planner, "well"),
    (ExecutionMode::Simple, "fail"),
    (ExecutionMode::Planner, "badly"),
    (ExecutionMode::Supervised, "kept"),
    (ExecutionMode::Supervised, "astray"),
    (ExecutionMode::Supervised, "unsure"),
];
/// Those of them that ask their planner more than once, so that they can be forked in between.
const FORKED: [usize; 6] = [0, 2, 3, 4, 5, 6];

/// What the planner answers: by the query, tools succeed or fail, results are what a plan expects, or not, and a person is
/// asked, or not.
fn said(input: &Value) -> Value {
    if let Some(adherence) = input.get("adherenceCheck") {
        let is_unsure = input["query"] == "unsure" && input["escalationHistory"] == of!([]);
        return match is_unsure {
            true => of!({
                "decision": "escalate",
                "escalation": { "reason": "two files", "userQuestion": "Which one?", "suggestedOptions": [] },
                "planAdherence": 1, "reasoning": "", "confidence": 1,
            }),
            false => keeps_to("read", adherence["planStep"]["parameters"].clone()),
        };
    }
    let query = input["query"].as_str().unwrap_or_default();
    let missed = |id| step(id, "read", of!({ "contains": "never" }));
    let met = |id| step(id, "read", of!("read"));
    match query {
        "do" | "fail" => act("read", of!({ "fails": query == "fail" }), input["step"] == 0),
        // What is expected never comes: the plan is made anew until the run has no step left.
        "badly" => plan(&[missed("a"), missed("b")], "read", of!({ "n": "a" })),
        // What the first step gives is not what was expected, which a person is asked about.
        "astray" => plan(&[missed("a"), met("b")], "read", of!({ "n": "a" })),
        "kept" | "unsure" => plan(&[met("a"), met("b")], "read", of!({ "n": "a" })),
        _ => plan(&[met("a")], "read", of!({ "n": "a" })),
    }
}

/// Answers everybody who asks.
async fn serve(mut worker: Worker) {
    loop {
        let called = worker.assignment().await;
        let v1::payload::Data::Inline(text) = called.assignment.input.clone().unwrap().data.unwrap() else {
            panic!()
        };
        let input: Value = serde_json::from_slice(&text).unwrap();
        let output = match called.assignment.agent.as_str() {
            "brain" => said(&input),
            _ if input["fails"] == true => {
                worker.fail(&called.lease, error("NON_RETRYABLE_ERROR", "broken")).await;
                continue;
            }
            // Longer than any mode has room for, so that it is recalled by its digest.
            _ => of!({ "lines": 3, "text": "word ".repeat(400) }),
        };
        worker.complete(&called.lease, json(output)).await;
    }
}

/// What a person says to a run of this query, one question after the other; a fork of it has its plan approved already.
async fn person(harness: &Harness, run: &str, query: &str, goes_on: bool, is_fork: bool) {
    let of_plan = matches!(query, "kept" | "astray" | "unsure") && !is_fork;
    let of_planner = matches!(query, "astray" | "unsure");
    let escalated = if goes_on { "continue" } else { "abort" };
    for option in of_plan.then_some("approve").into_iter().chain(of_planner.then_some(escalated)) {
        answer(harness, run, option, None).await.unwrap();
    }
}

/// What an independent count of a run's events comes to.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    runs: [u64; 3],
    succeeded: [u64; 3],
    took_ms: [i64; 3],
    actions: [u64; 3],
    steps: [u64; 3],
    replans: [u64; 3],
    escalations: [u64; 3],
    recalls: u64,
    hits: u64,
    tokens: u64,
    source: u64,
    us: u64,
}

impl Counted {
    fn add(&mut self, events: &[v1::Event]) {
        let own = events.iter().rposition(|event| matches!(event.body, Some(Body::RunForked(_))));
        let mut at = None;
        for (place, event) in events.iter().enumerate() {
            let is_own = own.is_none_or(|own| place >= own);
            match event.body.as_ref().unwrap() {
                Body::ModeBegun(begun) => at = Some((begun.mode as usize - 1, event.at_ms)),
                Body::RunForked(_) => at = at.map(|(mode, _)| (mode, event.at_ms)),
                Body::PlannerAsked(asked) if is_own => {
                    let recalled = asked.recalled.clone().unwrap();
                    self.recalls += 1;
                    self.hits += u64::from(!recalled.entries.is_empty());
                    self.tokens += u64::from(recalled.digest_tokens);
                    self.source += u64::from(recalled.digest_source_tokens);
                    self.us += recalled.took_us;
                }
                Body::PlannerAnswered(said) if is_own && said.plan.is_some() => {
                    self.replans[at.unwrap().0] += u64::from(!said.reasons.is_empty());
                }
                Body::ToolObserved(seen) if is_own => {
                    self.actions[at.unwrap().0] += 1;
                    self.steps[at.unwrap().0] += u64::from(seen.step_index.is_some());
                }
                Body::QuestionAsked(asked) if is_own => {
                    let question = asked.question.as_ref().unwrap();
                    let is_escalation = question.purpose() == v1::QuestionPurpose::Escalation;
                    self.escalations[at.unwrap().0] += u64::from(is_escalation);
                }
                Body::RunFinished(finished) => {
                    let (mode, begun) = at.unwrap();
                    self.runs[mode] += 1;
                    self.succeeded[mode] += u64::from(finished.outcome() == v1::RunOutcome::Succeeded);
                    self.took_ms[mode] += event.at_ms - begun;
                }
                _ => {}
            }
        }
    }

    /// What is told of the modes where this was counted, with the aims of the seed.
    fn told(&self) -> Vec<v1::ModeAnalytics> {
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let of = |place: usize| {
            let (runs, steps) = (self.runs[place], self.steps[place]);
            let success = share(self.succeeded[place], runs);
            let mean = share(u64::try_from(self.took_ms[place]).unwrap(), runs);
            let (replanned, escalated) =
                (share(self.replans[place], steps), share(self.escalations[place], steps));
            let aim = |of: &str, value: Option<f64>, above: bool, bound: f64| v1::Aim {
                of: of.to_owned(),
                bound,
                above,
                met: value.map(|value| if above { value > bound } else { value < bound }),
            };
            let aims = match place {
                0 => vec![aim("success_rate", success, true, 0.9), aim("mean_ms", mean, false, 10_000.0)],
                1 => {
                    vec![aim("success_rate", success, true, 0.85), aim("replan_rate", replanned, false, 0.25)]
                }
                _ => vec![
                    aim("success_rate", success, true, 0.95),
                    aim("escalation_rate", escalated, false, 0.1),
                ],
            };
            let modes = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];
            v1::ModeAnalytics {
                mode: modes[place].into(),
                runs,
                succeeded: self.succeeded[place],
                success_rate: success,
                mean_ms: mean,
                actions: self.actions[place],
                plan_steps: steps,
                replans: self.replans[place],
                replan_rate: replanned,
                escalations: self.escalations[place],
                escalation_rate: escalated,
                aims,
            }
        };
        (0..3).map(of).collect()
    }
}

async fn analytics(harness: &Harness, since_ms: i64) -> v1::GetAnalyticsResponse {
    modes(harness).get_analytics(v1::GetAnalyticsRequest { since_ms }).await.unwrap().into_inner()
}

// S004-AN-01
#[tokio::test]
async fn a_thousand_executions_are_counted_as_their_events_say_forks_among_them() {
    let harness = Harness::start().await;
    let worker = crate::modes::join(&harness).await;
    let serving = tokio::spawn(serve(worker));
    let mut ids: Vec<String> = Vec::new();
    // Counted by hand, beside what the events say: how often a person is asked on behalf of a planner.
    let (mut escalations, mut supervised) = (0, 0);
    for batch in 0..RUNS / TOGETHER {
        // Of every other batch, whoever is asked on behalf of a planner ends the run.
        let goes_on = batch % 2 == 0;
        let mut begun = Vec::new();
        for place in 0..TOGETHER {
            let (mode, query) = KINDS[place % KINDS.len()];
            let run = v1::ModeRun { mode: Some(mode.into()), max_steps: Some(4), ..execution(query) };
            begun.push((try_start(&harness, run).await.unwrap(), query));
        }
        for (run, query) in &begun {
            person(&harness, run, query, goes_on, false).await;
        }
        for (run, _) in &begun {
            harness.wait(run).await;
        }
        // One of each batch is forked between two prompts: of each kind in turn.
        let (of, query) = begun[FORKED[batch % FORKED.len()]].clone();
        let events = harness.export(&of).await;
        let asked = |event: &&v1::Event| matches!(event.body, Some(Body::PlannerAsked(_)));
        let second = events.iter().filter(asked).nth(1).expect("it asks twice");
        let at_seq = Some(second.seq - 1);
        let request = v1::ForkRunRequest { run_id: of, at_seq, ..v1::ForkRunRequest::default() };
        let fork = harness.runs.clone().fork_run(request).await.unwrap().into_inner().run_id;
        person(&harness, &fork, query, true, true).await;
        harness.wait(&fork).await;
        let asks = |query: &str| matches!(query, "astray" | "unsure");
        escalations += begun.iter().filter(|(_, query)| asks(query)).count();
        escalations += usize::from(asks(query));
        begun.push((fork, query));
        supervised += begun.iter().filter(|(_, query)| asks(query) || *query == "kept").count();
        ids.extend(begun.into_iter().map(|(run, _)| run));
    }
    serving.abort();
    let mut counted = Counted::default();
    for run in &ids {
        counted.add(&harness.export(run).await);
    }
    let told = analytics(&harness, 0).await;
    assert_eq!(told.modes, counted.told());
    assert_eq!(counted.runs.iter().sum::<u64>(), (RUNS + RUNS / TOGETHER) as u64);
    assert!(counted.replans[1] > 0 && counted.succeeded[1] < counted.runs[1], "{counted:?}");
    assert_eq!((counted.escalations, counted.runs[2]), ([0, 0, escalations as u64], supervised as u64));
    assert!(0 < counted.succeeded[2] && counted.succeeded[2] < counted.runs[2], "{counted:?}");
    let memory = told.memory.unwrap();
    assert_eq!(memory.recalls, counted.recalls);
    assert_eq!(memory.hit_rate, Some(counted.hits as f64 / counted.recalls as f64));
    assert!(0 < counted.tokens && counted.tokens < counted.source, "{counted:?}");
    assert_eq!(memory.compression_ratio, Some(counted.tokens as f64 / counted.source as f64));
    assert_eq!(memory.retrieval_ms, Some(counted.us as f64 / counted.recalls as f64 / 1_000.0));
    // What was started later: nothing; and from the last batch on, that batch.
    let late = analytics(&harness, i64::MAX).await;
    assert_eq!(late.modes, Counted::default().told());
    let first_of_last = &ids[ids.len() - TOGETHER - 1];
    let since = harness.export(first_of_last).await[0].at_ms;
    let runs: u64 = analytics(&harness, since).await.modes.iter().map(|mode| mode.runs).sum();
    assert!((TOGETHER as u64..RUNS as u64).contains(&runs), "{runs}");
    let refused = modes(&harness).get_analytics(v1::GetAnalyticsRequest { since_ms: -1 }).await.unwrap_err();
    assert_eq!(crate::support::paths_of(&refused), ["since_ms"]);
}
