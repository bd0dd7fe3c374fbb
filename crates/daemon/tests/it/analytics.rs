//! How executions went, counted over a real socket and held against their events (seed 004, Analytics).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use serde_json::json as of;

use crate::modes::{act, execution, modes, plan, step, try_start};
use crate::support::{Harness, Worker, error, json};

/// Executions of the test.
const RUNS: usize = 1_000;
/// How many of them are at work together.
const TOGETHER: usize = 50;

/// Answers everybody who asks: by the query, tools succeed or fail, and results are what a plan expects, or not.
async fn serve(mut worker: Worker) {
    loop {
        let called = worker.assignment().await;
        let v1::payload::Data::Inline(text) = called.assignment.input.clone().unwrap().data.unwrap() else {
            panic!()
        };
        let input: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let query = input["query"].as_str().unwrap_or_default();
        let parameters = of!({ "fails": query == "fail" });
        let said = match (called.assignment.agent.as_str(), query) {
            ("brain", "do" | "fail") => act("read", parameters, input["step"] == 0),
            // What is expected never comes: the plan is made anew until the run has no step left.
            ("brain", "badly") => {
                let missed = |id| step(id, "read", of!({ "contains": "never" }));
                plan(&[missed("a"), missed("b")], "read", of!({ "n": "a" }))
            }
            ("brain", _) => plan(&[step("a", "read", of!("read"))], "read", of!({ "n": "a" })),
            _ if input["fails"] == true => {
                worker.fail(&called.lease, error("NON_RETRYABLE_ERROR", "broken")).await;
                continue;
            }
            _ => of!({ "lines": 3 }),
        };
        worker.complete(&called.lease, json(said)).await;
    }
}

/// What an independent count of a run's events comes to.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    runs: [u64; 3],
    succeeded: [u64; 3],
    took_ms: [i64; 3],
    steps: [u64; 3],
    replans: [u64; 3],
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
                    self.tokens += u64::from(recalled.tokens);
                    self.source += u64::from(recalled.source_tokens);
                    self.us += recalled.took_us;
                }
                Body::PlannerAnswered(said) if is_own && said.plan.is_some() => {
                    self.replans[at.unwrap().0] += u64::from(!said.reasons.is_empty());
                }
                Body::ToolObserved(seen) if is_own => {
                    self.steps[at.unwrap().0] += u64::from(seen.step_index.is_some());
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
}

fn told_of(told: &v1::GetAnalyticsResponse) -> Vec<(u64, u64, Option<f64>, u64, u64)> {
    let of =
        |mode: &v1::ModeAnalytics| (mode.runs, mode.succeeded, mode.mean_ms, mode.plan_steps, mode.replans);
    told.modes.iter().map(of).collect()
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
    for batch in 0..RUNS / TOGETHER {
        let mut begun = Vec::new();
        for place in 0..TOGETHER {
            let (mode, query) = [
                (ExecutionMode::Simple, "do"),
                (ExecutionMode::Planner, "well"),
                (ExecutionMode::Simple, "fail"),
                (ExecutionMode::Planner, "badly"),
            ][place % 4];
            let run = v1::ModeRun { mode: Some(mode.into()), max_steps: Some(4), ..execution(query) };
            begun.push(try_start(&harness, run).await.unwrap());
        }
        for run in &begun {
            harness.wait(run).await;
        }
        // One of each batch is forked between two prompts: of each mode in turn.
        let mut forked = None;
        for run in begun.iter().skip(batch % 2).step_by(2) {
            let events = harness.export(run).await;
            let asked = |event: &&v1::Event| matches!(event.body, Some(Body::PlannerAsked(_)));
            if let Some(second) = events.iter().filter(asked).nth(1) {
                forked = Some((run.clone(), second.seq - 1));
                break;
            }
        }
        let (run_id, at_seq) = forked.unwrap();
        let request = v1::ForkRunRequest { run_id, at_seq: Some(at_seq), ..v1::ForkRunRequest::default() };
        let fork = harness.runs.clone().fork_run(request).await.unwrap().into_inner().run_id;
        harness.wait(&fork).await;
        begun.push(fork);
        ids.extend(begun);
    }
    serving.abort();
    let mut counted = Counted::default();
    for run in &ids {
        counted.add(&harness.export(run).await);
    }
    let told = analytics(&harness, 0).await;
    let mean = |place: usize| {
        (counted.runs[place] > 0).then(|| counted.took_ms[place] as f64 / counted.runs[place] as f64)
    };
    let expected: Vec<_> = (0..3)
        .map(|place| {
            (
                counted.runs[place],
                counted.succeeded[place],
                mean(place),
                counted.steps[place],
                counted.replans[place],
            )
        })
        .collect();
    assert_eq!(told_of(&told), expected);
    assert_eq!(counted.runs.iter().sum::<u64>(), (RUNS + RUNS / TOGETHER) as u64);
    assert!(counted.replans[1] > 0 && counted.succeeded[1] < counted.runs[1], "{counted:?}");
    let memory = told.memory.unwrap();
    assert_eq!(memory.recalls, counted.recalls);
    assert_eq!(memory.hit_rate, Some(counted.hits as f64 / counted.recalls as f64));
    assert_eq!(memory.compression_ratio, Some(counted.tokens as f64 / counted.source as f64));
    assert_eq!(memory.retrieval_ms, Some(counted.us as f64 / counted.recalls as f64 / 1_000.0));
    // What was started later: nothing; and from the last batch on, that batch.
    let late = analytics(&harness, i64::MAX).await;
    assert_eq!(told_of(&late), [(0, 0, None, 0, 0); 3]);
    let first_of_last = &ids[ids.len() - TOGETHER - 1];
    let since = harness.export(first_of_last).await[0].at_ms;
    let runs: u64 = analytics(&harness, since).await.modes.iter().map(|mode| mode.runs).sum();
    assert!((TOGETHER as u64..RUNS as u64).contains(&runs), "{runs}");
    let refused = modes(&harness).get_analytics(v1::GetAnalyticsRequest { since_ms: -1 }).await.unwrap_err();
    assert_eq!(crate::support::paths_of(&refused), ["since_ms"]);
}
