//! The independent model: it sees acknowledgements and the event stream, and nothing else.
//!
//! It shares no code with the engine but the aggregation policies, whose direct evaluation is what an outcome is
//! compared with. [`log`] follows the durable events of each run, [`frames`] and [`answers`] hold what leaves the core
//! against them.

pub mod answers;
pub mod frames;
pub mod log;
pub mod settle;
mod work;

use std::collections::BTreeMap;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_runtime::core::Published;
use capataz_runtime::feed;
use capataz_store::{LogRow, Position, RunId};
use prost::Message;

use crate::invariant::{Invariant, Violation};
use crate::plans::KEY_LABEL;
pub use log::RunModel;

/// One durable event, in the order of the shard.
#[derive(Clone, Debug)]
pub struct Entry {
    pub run: RunId,
    pub event: Bytes,
    pub severity: i32,
    /// What a reader's label filter looks at.
    pub team: u8,
    pub position: Position,
}

/// What the log and the acknowledgements say.
#[derive(Debug, Default)]
pub struct Model {
    runs: BTreeMap<RunId, RunModel>,
    entries: Vec<Entry>,
    rows: Vec<LogRow>,
    keys: BTreeMap<String, RunId>,
    /// Newest position that was published since the last start.
    published: Position,
}

impl Model {
    #[must_use]
    pub fn newest(&self) -> Position {
        self.rows.last().map_or(Position(0), |row| row.position)
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[must_use]
    pub fn run(&self, run: RunId) -> Option<&RunModel> {
        self.runs.get(&run)
    }

    pub fn runs(&self) -> impl Iterator<Item = &RunModel> {
        self.runs.values()
    }

    pub fn unfinished(&self) -> impl Iterator<Item = &RunModel> {
        self.runs.values().filter(|run| run.finished.is_none())
    }

    /// Takes rows that have become durable.
    pub fn observe(&mut self, rows: Vec<LogRow>) -> Result<(), Violation> {
        for row in rows {
            let mut count = 0;
            for bytes in feed::split(&row.events) {
                count += 1;
                let seq = row.first_seq + u64::from(count) - 1;
                let event = v1::Event::decode(bytes.clone());
                let Ok(event) = event else { return Invariant::GaplessSeq.broken("an event cannot be read") };
                Invariant::GaplessSeq.check(event.seq == seq, || {
                    format!("run {}: event {} lies where {seq} belongs", row.run, event.seq)
                })?;
                let severity = feed::severity_of(&event);
                self.event(row.run, event, bytes.clone())?;
                let team = self.runs.get(&row.run).map_or(0, |run| run.team);
                self.entries.push(Entry {
                    run: row.run,
                    event: bytes,
                    severity,
                    team,
                    position: row.position,
                });
            }
            Invariant::GaplessSeq.check(count == row.count, || {
                format!("run {}: a row of {} events holds {count}", row.run, row.count)
            })?;
            if let Some(run) = self.runs.get_mut(&row.run) {
                run.newest = row.events.clone();
            }
            self.rows.push(row);
        }
        Ok(())
    }

    fn event(&mut self, run: RunId, event: v1::Event, bytes: Bytes) -> Result<(), Violation> {
        if let Some(model) = self.runs.get_mut(&run) {
            return model.observe(event, bytes);
        }
        let model = RunModel::begin(run, event, bytes)?;
        if let Some(key) = model.labels.get(KEY_LABEL)
            && let Some(other) = self.keys.insert(key.clone(), run)
        {
            return Invariant::OneRunPerKey.broken(format!("{key}: {other} and {run}"));
        }
        self.runs.insert(run, model);
        Ok(())
    }

    /// What the store holds after a crash is what was durable before it.
    pub fn check_log(&self, rows: &[LogRow]) -> Result<(), Violation> {
        Invariant::LogStays.check(rows == self.rows.as_slice(), || {
            format!(
                "the store has {} rows, {} were durable, or their bytes differ",
                rows.len(),
                self.rows.len()
            )
        })
    }

    /// Publications tell of durable rows, each once and in order.
    pub fn check_published(&mut self, published: &Published) -> Result<(), Violation> {
        let row = self.rows.binary_search_by_key(&published.position, |row| row.position);
        let row = row.ok().and_then(|index| self.rows.get(index));
        let same = row.is_some_and(|row| {
            row.run == published.run
                && row.first_seq == published.first_seq
                && row.count == published.count
                && row.events == published.events
        });
        Invariant::NoEffectBeforeCommit
            .check(same, || format!("published {:?} of run {}", published.position, published.run))?;
        Invariant::ExactlyOnce.check(published.position > self.published, || {
            format!("published {:?} after {:?}", published.position, self.published)
        })?;
        self.published = published.position;
        Ok(())
    }

    /// A daemon has read the shard: what it publishes lies after `newest`.
    pub fn recovered(&mut self, newest: Position) {
        self.published = newest;
    }
}
