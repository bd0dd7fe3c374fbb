//! What executions remember, and what prompts may be given of it (seed 004, `memory_entries`).

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, ExecutionMode, event::Body};

use crate::invariant::{Invariant, Violation};
use crate::model::log::RunModel;
use crate::model::script::Kind;

/// A vote: the event and its place in it, the entry, and the quarters of its relevance.
pub type Vote = (u64, u32, String, i64);

/// What is remembered (seed 004, `memory_entries`), by the numbers of the events that said so.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// With the time of the event.
    entries: BTreeMap<u64, (i64, v1::Remembered)>,
    /// By event and place: the entry, and the quarters of its relevance.
    votes: BTreeMap<(u64, u32), (String, i64)>,
}

impl Memory {
    /// What an event remembers, and which entries it found useful.
    fn add(
        &mut self,
        (run, session): (&str, &str),
        (seq, at): (u64, i64),
        remembered: &v1::Remembered,
        useful: &[String],
    ) {
        // A fork begins with no memory: what it has of another run is that one's.
        if remembered.session != session {
            return;
        }
        self.entries.insert(seq, (at, remembered.clone()));
        let said = match remembered.positive {
            Some(true) => 2,
            Some(false) => -2,
            None => 0,
        };
        let said = remembered.related_to.iter().filter(|_| said != 0).map(|entry| (entry, said));
        let own = |entry: &String| {
            session != run || entry.strip_prefix(run).is_some_and(|rest| rest.starts_with('-'))
        };
        let votes = said.chain(useful.iter().map(|entry| (entry, 1))).filter(|(entry, _)| own(entry));
        for (n, (entry, quarters)) in (1..).zip(votes) {
            self.votes.insert((seq, n), (entry.clone(), quarters));
        }
    }
}

/// What a prompt may be given of memory: entries by their ids, with their times; and votes for them, in quarters.
#[derive(Debug, Default)]
pub struct Pool {
    entries: BTreeMap<String, (i64, v1::Remembered)>,
    votes: Vec<(String, i64)>,
}

impl Pool {
    pub fn forget(&mut self, is_forgotten: impl Fn(&str) -> bool) {
        self.entries.retain(|id, _| !is_forgotten(id));
    }

    pub fn has_old(&self, at: i64) -> bool {
        self.entries.values().any(|(made, _)| at - made >= 86_400_000)
    }

    fn relevance(&self, id: &str) -> i64 {
        let votes: i64 =
            self.votes.iter().filter(|(entry, _)| entry == id).map(|(_, quarters)| quarters).sum();
        (4 + votes).clamp(0, 20)
    }

    /// The ids that are looked at for a prompt, in their order.
    fn recalled(&self, mode: ExecutionMode) -> Vec<&String> {
        let wanted: &[&str] = match mode {
            ExecutionMode::Planner => &["success", "pattern"],
            ExecutionMode::Supervised => {
                &["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"]
            }
            _ => &["error", "solution"],
        };
        let entries = self.entries.iter().filter(|(_, (_, entry))| wanted.contains(&entry.r#type.as_str()));
        let mut found: Vec<(i64, &String)> = entries
            .map(|(id, (at, _))| (if mode == ExecutionMode::Planner { -self.relevance(id) } else { -at }, id))
            .collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).take(10).collect()
    }

    /// What the planner is told in whole, what in few words, and what not; a token is a word here.
    pub fn told(&self, mode: ExecutionMode) -> [Vec<String>; 3] {
        let mut room = match mode {
            ExecutionMode::Planner => 200,
            ExecutionMode::Supervised => 300,
            _ => 100,
        };
        let words = |text: &str| text.split_whitespace().count();
        let mut told: [Vec<String>; 3] = Default::default();
        for id in self.recalled(mode) {
            let Some((_, entry)) = self.entries.get(id) else { continue };
            let (whole, digest) = (words(&entry.content), words(&entry.digest));
            if whole <= room {
                room -= whole;
                told[0].push(id.clone());
            } else if digest <= room && !entry.digest.is_empty() {
                room -= digest;
                told[0].push(id.clone());
                told[1].push(id.clone());
            } else {
                told[2].push(id.clone());
            }
        }
        told
    }
}

impl RunModel {
    /// The session whose memory it uses, its own where it belongs to none, and its mode, once it has begun.
    #[must_use]
    pub fn memory_of(&self) -> Option<(String, ExecutionMode)> {
        let Kind::Mode(mode) = &self.kind else { return None };
        Some((mode.run.session.clone().unwrap_or_else(|| self.run.to_string()), mode.mode?))
    }

    /// The same with the ids of its entries.
    #[must_use]
    pub fn memory(&self) -> Option<(String, Vec<String>)> {
        let Kind::Mode(mode) = &self.kind else { return None };
        let ids = mode.memory.entries.keys().map(|seq| format!("{}-{seq}-0", self.run));
        Some((self.memory_of()?.0, ids.collect()))
    }

    /// Adds what it has in memory.
    pub fn add_to(&self, pool: &mut Pool) {
        let Kind::Mode(mode) = &self.kind else { return };
        for (seq, entry) in &mode.memory.entries {
            pool.entries.insert(format!("{}-{seq}-0", self.run), entry.clone());
        }
        pool.votes.extend(mode.memory.votes.values().cloned());
    }

    /// What the run has in memory, by the numbers of its events: entries, and votes.
    pub fn remembers(&self) -> (Vec<u64>, Vec<Vote>) {
        let Kind::Mode(mode) = &self.kind else { return Default::default() };
        let votes = mode.memory.votes.iter().map(|((seq, n), (entry, by))| (*seq, *n, entry.clone(), *by));
        (mode.memory.entries.keys().copied().collect(), votes.collect())
    }

    /// What the event leaves in memory, and what it was recalled for.
    pub(super) fn remember(&mut self, body: &Body) -> Result<(), Violation> {
        let (run, at, text) =
            (self.run.to_string(), (self.seq(), self.last_at), self.at(format!("{body:?}")));
        let mode = self.mode()?;
        let (remembered, useful): (_, &[String]) = match body {
            Body::PlannerAnswered(event) => (&event.remembered, &[]),
            Body::PlanEdited(event) => (&event.remembered, &[]),
            Body::PlanApproved(event) => (&event.remembered, &[]),
            Body::PlanRejected(event) => (&event.remembered, &[]),
            Body::ToolApproved(event) => (&event.remembered, &[]),
            Body::EscalationAnswered(event) => (&event.remembered, &[]),
            Body::ModeCompleted(event) => (&event.remembered, &[]),
            Body::ToolObserved(event) => {
                let planned = event.step_index.is_some() && mode.now.plan.is_some();
                let failed = event.error.is_some() && !event.as_expected;
                let expected = match (failed, mode.now.erred) {
                    // What a person says of a call is feedback.
                    _ if event.wave.is_none()
                        && event.error.as_ref().is_some_and(|error| error.code == "TOOL_REJECTED") =>
                    {
                        "user_feedback"
                    }
                    (true, _) => "error",
                    (false, true) => "solution",
                    (false, false) if planned && event.as_expected => "success",
                    (false, false) => "tool_result",
                };
                let kind = event.remembered.as_ref().map_or("", |remembered| &remembered.r#type);
                Invariant::MemoryFollows
                    .check(kind == expected, || format!("{text}: expected {expected}"))?;
                (&event.remembered, &event.useful)
            }
            Body::ModeRolledBack(event) => {
                mode.memory.entries.retain(|seq, _| *seq <= event.to_seq);
                mode.memory.votes.retain(|(seq, _), _| *seq <= event.to_seq);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(remembered) = remembered {
            let session = mode.run.session.clone().unwrap_or_else(|| run.clone());
            mode.memory.add((&run, &session), at, remembered, useful);
        }
        Ok(())
    }
}
