//! Rows that queries read, held against what was durable.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};
use capataz_shard::journal::LoadError;
use capataz_shard::projection::{CHILD, child_key};
use capataz_shard::rebuild::{self, Told};
use capataz_shard::replay::replay;
use capataz_shard::session_stream;
use capataz_store::{Derived, MemoryChange, MemoryRow, Place, RunId, Store};
use prost::Message;

use crate::disk::store_failed;
use crate::invariant::{Invariant, Violation};
use crate::world::World;

impl World {
    /// The rows of the store are those that the model expects, and those that can be made from the log.
    pub(crate) fn check_rows(&self) -> Result<(), Violation> {
        self.check_list()?;
        self.check_children()?;
        self.check_memory()?;
        self.check_replays()?;
        let mut wrong = Vec::new();
        let mut tell = |told: Told<'_>| match told {
            Told::Differs(difference) => wrong.push(difference.to_string()),
            Told::LeftAlone(damage) if self.damages.was_damaged(damage.run) => {}
            Told::LeftAlone(damage) => wrong.push(damage.to_string()),
            Told::Progress(_) => {}
        };
        rebuild::check(&self.disk.store, &self.scenario.shards(), &mut tell)
            .map_err(|error| store_failed(&error))?;
        Invariant::DerivedMatchLog.check(wrong.is_empty(), || wrong.join("; "))
    }

    /// The list of runs says of each run what its durable events say.
    fn check_list(&self) -> Result<(), Violation> {
        for run in self.model.runs().filter(|run| !run.removed) {
            let row = self.disk.store.get_run(run.run).map_err(|error| store_failed(&error))?;
            let row = row.map(|row| row.summary).unwrap_or_default();
            let listed = (row.finished_at.is_some(), row.updated_at.0, row.tasks_settled as usize);
            let logged = (run.finished.is_some(), run.last_at, run.settled_tasks());
            Invariant::ListMatchesLog.check(listed == logged, || {
                format!("run {}: listed {listed:?}, logged {logged:?}", run.run)
            })?;
        }
        Ok(())
    }

    /// Whoever folds a run again finds all of its events, and nothing stored that they do not say.
    fn check_replays(&self) -> Result<(), Violation> {
        for run in self.model.runs().filter(|run| !run.removed) {
            let replayed = match replay(&self.disk.store, run.run) {
                Ok(replayed) => replayed,
                Err(LoadError::Damaged(damage)) if self.damages.was_damaged(damage.run) => continue,
                Err(error) => return Invariant::ReplayAgrees.broken(error.to_string()),
            };
            let agrees = replayed
                .as_ref()
                .is_some_and(|replayed| replayed.events == run.seq() && replayed.differences.is_empty());
            Invariant::ReplayAgrees
                .check(agrees, || format!("run {} at {}: {replayed:?}", run.run, run.seq()))?;
        }
        Ok(())
    }

    /// What is stored in memory is what events have said, no more and no less.
    fn check_memory(&self) -> Result<(), Violation> {
        for run in self.model.runs().filter(|run| !run.removed) {
            let (mut entries, votes) = run.remembers();
            let session =
                run.memory_of().and_then(|(session, _)| self.model.session(session_stream(&session)));
            if let Some(session) = session {
                entries.retain(|seq| !session.forgotten.contains_key(&format!("{}-{seq}-0", run.run)));
            }
            let stored = self.disk.store.memory_of(run.run).map_err(|error| store_failed(&error))?;
            let (mut found, mut voted) = (Vec::new(), Vec::new());
            for MemoryRow { place, change } in &stored.rows {
                match change {
                    MemoryChange::Entry(_) => found.push(place.seq),
                    MemoryChange::Vote { entry, quarters } => {
                        voted.push((place.seq, place.n, entry.clone(), i64::from(*quarters)));
                    }
                    other => {
                        return Invariant::MemoryFollows.broken(format!("run {} has {other:?}", run.run));
                    }
                }
            }
            Invariant::MemoryFollows.check(found == entries && voted == votes, || {
                format!("run {}: stored {stored:?}, expected {entries:?} and {votes:?}", run.run)
            })?;
        }
        Ok(())
    }

    /// Each run that another run has started is found under it, and nothing else is.
    fn check_children(&self) -> Result<(), Violation> {
        let mut families: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
        for run in self.model.runs().filter(|run| !run.removed) {
            // A fork has no parent, whatever the run that it was forked from has.
            let parent = run.events.first().filter(|_| !run.is_fork).and_then(parent_of);
            let rows = self.disk.store.derived_of(run.run, None, usize::MAX);
            let rows = rows.map_err(|error| store_failed(&error))?;
            let of_parent = parent.iter().map(|(parent, of)| child_row(*parent, of.clone()));
            let expected: Vec<Derived> = of_parent.chain(execution_row(&run.events)).collect();
            Invariant::DerivedMatchLog.check(rows == expected, || {
                format!("run {}: stored {rows:?}, followed {expected:?}", run.run)
            })?;
            if let Some((parent, _)) = parent {
                families.entry(parent).or_default().push(run.run);
            }
        }
        for (parent, mut children) in families {
            children.sort_unstable();
            let found = self.disk.store.derived(CHILD, &child_key(parent), None, usize::MAX);
            let found = found.map_err(|error| store_failed(&error))?;
            let found: Vec<RunId> = found.into_iter().map(|row| row.run).collect();
            Invariant::DerivedMatchLog
                .check(found == children, || format!("{parent} has {children:?}, and {found:?} are found"))?;
        }
        Ok(())
    }
}

fn parent_of(first: &bytes::Bytes) -> Option<(RunId, v1::ParentRef)> {
    match v1::Event::decode(first.clone()).ok()?.body? {
        Body::RunAccepted(accepted) => {
            let parent = accepted.parent?;
            Some((parent.run_id.parse().ok()?, parent))
        }
        _ => None,
    }
}

/// The row of a child, by its definition.
fn child_row(parent: RunId, mut of: v1::ParentRef) -> Derived {
    let place = Place { seq: 1, n: 0 };
    of.run_id.clear();
    Derived { place, kind: 1, key: parent.0.as_bytes().to_vec().into(), value: of.encode_to_vec().into() }
}

/// The row of an execution that has ended, counted from its events; of a fork, from those that are its own.
fn execution_row(events: &[bytes::Bytes]) -> Option<Derived> {
    let events: Vec<v1::Event> =
        events.iter().map(|event| v1::Event::decode(event.clone()).unwrap_or_default()).collect();
    let modes = events.iter().filter_map(|event| match &event.body {
        Some(Body::ModeBegun(begun)) => Some((begun.mode(), event.at_ms)),
        _ => None,
    });
    let (mode, begun) = modes.last()?;
    let finished = events.iter().find_map(|event| match &event.body {
        Some(Body::RunFinished(finished)) => Some((event.seq, event.at_ms, finished.outcome)),
        _ => None,
    });
    let (seq, ended, outcome) = finished?;
    let fork = events.iter().rposition(|event| matches!(event.body, Some(Body::RunForked(_))));
    let own = events.get(fork.unwrap_or_default()..).unwrap_or_default();
    let count = |is: &dyn Fn(&Body) -> bool| {
        let found = own.iter().filter_map(|event| event.body.as_ref()).filter(|body| is(body));
        u32::try_from(found.count()).unwrap_or_default()
    };
    let recalled: Vec<&v1::Recalled> = own
        .iter()
        .filter_map(|event| match &event.body {
            Some(Body::PlannerAsked(asked)) => asked.recalled.as_ref(),
            _ => None,
        })
        .collect();
    let begun_at_ms = match own.first() {
        Some(first) if fork.is_some() => begun.max(first.at_ms),
        _ => begun,
    };
    let metrics = v1::ExecutionMetrics {
        begun_at_ms,
        actions: count(&|body| matches!(body, Body::ToolObserved(_))),
        // A call that was not made is none, but where a person has refused it of an approved plan.
        plan_steps: count(&|body| {
            let Body::ToolObserved(seen) = body else { return false };
            seen.step_index.is_some() && (seen.wave.is_some() || mode == v1::ExecutionMode::Supervised)
        }),
        replans: count(
            &|body| matches!(body, Body::PlannerAnswered(said) if said.plan.is_some() && !said.reasons.is_empty()),
        ),
        escalations: count(&|body| {
            let Body::QuestionAsked(asked) = body else { return false };
            let purpose = asked.question.as_ref().map(v1::Question::purpose);
            purpose == Some(v1::QuestionPurpose::Escalation)
        }),
        recalls: count(&|body| matches!(body, Body::PlannerAsked(_))),
        recalls_with_entries: u32::try_from(recalled.iter().filter(|one| !one.entries.is_empty()).count())
            .unwrap_or_default(),
        recalled_tokens: recalled.iter().map(|one| u64::from(one.tokens)).sum(),
        source_tokens: recalled.iter().map(|one| u64::from(one.source_tokens)).sum(),
        digest_tokens: recalled.iter().map(|one| u64::from(one.digest_tokens)).sum(),
        digest_source_tokens: recalled.iter().map(|one| u64::from(one.digest_source_tokens)).sum(),
        recall_us: recalled.iter().map(|one| one.took_us).sum(),
    };
    let took_ms = (ended - begun_at_ms).max(0);
    let value = v1::ExecutionEnded { outcome, took_ms, metrics: Some(metrics) }.encode_to_vec();
    let key = vec![u8::try_from(mode as i32).unwrap_or_default()];
    Some(Derived { place: Place { seq, n: 0 }, kind: 2, key: key.into(), value: value.into() })
}
