//! The requests of the benchmark.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use capataz_client::{Client, v1};

use crate::Outcome;
use crate::roles::AGENT;

const INPUT: &[u8] = br#"{"question":"how long is a piece of string?","unit":"m"}"#;

/// Plans of one shape, each request under a key of its own.
#[derive(Debug)]
pub(crate) struct Work {
    plan: v1::Plan,
    next: AtomicU64,
    salt: u64,
}

impl Work {
    /// `waves` waves one after the other, each of `tasks` parallel tasks.
    pub(crate) fn plan(waves: usize, tasks: usize) -> Self {
        Self::of(AGENT, waves, tasks)
    }

    /// A [plan](Self::plan) whose tasks are this agent's.
    pub(crate) fn of(agent: &str, waves: usize, tasks: usize) -> Self {
        let task = |number: usize| v1::Task {
            name: format!("task-{number}"),
            agent: agent.to_owned(),
            input: Some(v1::Payload {
                media_type: "application/json".to_owned(),
                data: Some(v1::payload::Data::Inline(Bytes::from_static(INPUT))),
            }),
            ..v1::Task::default()
        };
        let wave = |wave: usize| v1::Wave {
            tasks: (wave * tasks..(wave + 1) * tasks).map(task).collect(),
            ..v1::Wave::default()
        };
        Self::of_waves((0..waves).map(wave).collect())
    }

    /// A plan of these waves.
    pub(crate) fn of_waves(waves: Vec<v1::Wave>) -> Self {
        let plan = v1::Plan { name: "benchmark".to_owned(), waves, ..v1::Plan::default() };
        let (_, salt) = uuid::Uuid::now_v7().as_u64_pair();
        Self { plan, next: AtomicU64::new(1), salt }
    }

    pub(crate) fn single() -> Self {
        Self::plan(1, 1)
    }

    pub(crate) fn tasks(&self) -> usize {
        self.plan.waves.iter().map(|wave| wave.tasks.len()).sum()
    }

    pub(crate) fn request(&self) -> v1::StartRunRequest {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        v1::StartRunRequest {
            idempotency_key: Some(unordered_key(self.salt, number)),
            ..v1::StartRunRequest::of_plan(self.plan.clone())
        }
    }

    /// One operation of the benchmark: a run, from its request to its end.
    pub(crate) async fn execute(&self, client: &Client) -> Outcome<()> {
        let response = client.execute_run(self.request(), None).await?;
        let result = response.result.ok_or("the run has not ended")?;
        if !response.created || result.outcome() != v1::RunOutcome::Succeeded {
            return Err(format!("run {} ended otherwise: {result:?}", response.run_id).into());
        }
        Ok(())
    }
}

/// Without order, as clients choose their keys: the hardest for an index.
pub(crate) fn unordered_key(salt: u64, number: u64) -> String {
    format!("{:016x}{:016x}", mixed(number), mixed(salt ^ number))
}

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
