//! The fold of a run's events for its report: when each task waited and was tried, what became of each try, what people
//! were asked, and what happened to the run.
//!
//! The fold is pure and total: if an event does not fit the state, it changes as much as it can and the rest is ignored.
//! It is bounded: of logs, outputs and steps beyond a room, only the sizes or the numbers are kept.

mod apply;
mod parts;

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_display::executing::Spent;
use capataz_display::model::Run;

use super::kind::Kind;
pub use parts::{Asked, By, End, Happened, Moment, Part, Settled, Span, Task, Try, Wave, What};

/// Maximum number of bytes of agents' logs that are kept.
const LOG_ROOM: usize = 2 * 1024 * 1024;
/// Maximum number of bytes of outputs that are kept.
const OUTPUT_ROOM: usize = 4 * 1024 * 1024;
/// Maximum number of steps of an execution that are kept.
const MOST_STEPS: usize = 2_000;
/// Maximum number of moments of the run, or of one task, that are kept.
const MOST_MOMENTS: usize = 500;
/// Maximum number of spans of one task that are kept.
const MOST_SPANS: usize = 200;

/// A run as its report tells it.
#[derive(Debug, Default)]
pub struct Story {
    pub run_id: String,
    pub kind: Kind,
    /// The fold that everything else that shows runs goes by.
    pub model: Run,
    /// The text of an ask, or the query of an execution; empty where it is something else.
    pub asked: String,
    pub labels: BTreeMap<String, String>,
    pub parent: Option<v1::ParentRef>,
    /// The time of the first event; of a fork, that of the first run whose events it has.
    pub began_at_ms: i64,
    pub waves: Vec<Wave>,
    /// What people were asked, in order.
    pub questions: Vec<Asked>,
    /// The times in which the run was paused by a person.
    pub pauses: Vec<(i64, Option<i64>)>,
    /// What happened to the run as a whole.
    pub moments: Vec<Moment>,
    /// Transitions between specs that were considered.
    pub transitions: Vec<v1::AskTransition>,
    /// Events that only executions have, with their times.
    pub steps: Vec<(i64, Body)>,
    /// What actions of an execution's browser came to, with the places of their waves.
    pub browsed: Vec<(usize, Browsed)>,
    pub spent: Spent,
    pub finished: Option<Finished>,
    room: Room,
}

/// What an action of an execution's browser came to.
#[derive(Debug)]
pub struct Browsed {
    pub evidence: Vec<v1::EvidenceRef>,
    pub target: Option<v1::ResolutionRecord>,
}

/// The end of a run.
#[derive(Debug)]
pub struct Finished {
    pub at_ms: i64,
    pub outcome: v1::RunOutcome,
    pub error: Option<v1::Error>,
    pub not_started: u32,
}

/// What is left of the room for logs and outputs.
#[derive(Debug)]
struct Room {
    logs: usize,
    outputs: usize,
    /// The tasks whose outputs take room, by wave and place, with how much each takes.
    kept: BTreeMap<(u32, u32), usize>,
}

impl Default for Room {
    fn default() -> Self {
        Self { logs: LOG_ROOM, outputs: OUTPUT_ROOM, kept: BTreeMap::new() }
    }
}

impl Story {
    pub fn new(run_id: &str) -> Self {
        Self { run_id: run_id.to_owned(), ..Self::default() }
    }

    /// When the run ended, or the given time if it goes on.
    pub fn until_ms(&self, now_ms: i64) -> i64 {
        self.finished.as_ref().map_or(now_ms, |finished| finished.at_ms).max(self.began_at_ms)
    }

    /// All tasks with the places of their waves and their own.
    pub fn tasks(&self) -> impl Iterator<Item = ((usize, usize), &Task)> {
        let waves = self.waves.iter().enumerate();
        waves.flat_map(|(wave, of)| of.tasks.iter().enumerate().map(move |(task, one)| ((wave, task), one)))
    }

    /// The tasks that have failed or run out of time, what is most severe first.
    pub fn failed(&self) -> Vec<((usize, usize), &Task)> {
        let mut failed: Vec<_> = self.tasks().filter(|(_, task)| task.has_failed()).collect();
        failed.sort_by_key(|(_, task)| std::cmp::Reverse(task.severity()));
        failed
    }

    /// How many tasks there are, and how many of them have succeeded.
    pub fn counts(&self) -> (usize, usize) {
        self.tasks()
            .fold((0, 0), |(all, good), (_, task)| (all + 1, good + usize::from(task.has_succeeded())))
    }

    fn task(&mut self, wave: u32, task: u32) -> Option<&mut Task> {
        self.waves.get_mut(wave as usize)?.tasks.get_mut(task as usize)
    }
}
