//! A run's state as bytes: a cache of the fold, keyed by [`SNAPSHOT_FORMAT`].

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
pub(crate) use capataz_contracts::within::{as_bytes, number};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fold::activity::Activity;
use crate::fold::state::{AskedQuestion, Forked, Moment, Phase, RunState, Timer, Timestamp, Wall, WaveState};
use crate::fold::upcast::Upcaster;
use crate::input::TaskRef;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::planted::{self, Fault};

/// Grows with every change of the state's encoding; a snapshot of another format is discarded.
pub const SNAPSHOT_FORMAT: u32 = 26;

/// The bytes are not a snapshot of this format; the caller folds the log instead.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot cannot be read")]
pub struct SnapshotError(#[from] postcard::Error);

/// What a snapshot holds. The plan is kept as its event holds it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Encoded {
    seed: u64,
    seq: u64,
    created_at: Wall,
    last: Moment,
    labels: BTreeMap<String, String>,
    #[serde(with = "as_bytes::option")]
    parent: Option<v1::ParentRef>,
    forked: Option<Forked>,
    #[serde(with = "as_bytes::one")]
    lineage: v1::Lineage,
    #[serde(with = "as_bytes::one")]
    plan: v1::Plan,
    machine: Machine,
    machine_timer: Option<Timestamp>,
    put_away_at: Option<Timestamp>,
    upcaster: Option<Box<Upcaster>>,
    phase: Phase,
    paused: bool,
    held_since: Option<Timestamp>,
    waves: Vec<WaveState>,
    schemas: Vec<String>,
    questions: Vec<AskedQuestion>,
    timers: BTreeSet<(Timestamp, TaskRef, Timer)>,
    held_timers: BTreeSet<(Timestamp, TaskRef, Timer)>,
    refused: BTreeSet<u64>,
    refused_in_init: BTreeSet<TaskRef>,
    requests: BTreeMap<String, (String, u64)>,
    taken_back: BTreeMap<TaskRef, Activity>,
    #[serde(with = "as_bytes::list")]
    notices: Vec<v1::Notice>,
    notices_omitted: u32,
    settled: u32,
}

impl RunState {
    /// Encodes the state.
    ///
    /// # Errors
    /// Never for a state that [`RunState::apply`] built; the encoder's type has an error.
    pub fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut encoded = Encoded {
            seed: self.seed,
            seq: self.seq,
            created_at: self.created_at,
            last: self.last,
            labels: self.labels.clone(),
            parent: self.parent.clone(),
            forked: self.forked.clone(),
            lineage: self.lineage.clone(),
            plan: self.plan.to_proto(),
            machine: self.machine.clone(),
            machine_timer: self.machine_timer,
            put_away_at: self.put_away_at,
            upcaster: self.upcaster.clone(),
            phase: self.phase.clone(),
            paused: self.paused,
            held_since: self.held_since,
            waves: self.waves.clone(),
            schemas: self.schemas.clone(),
            questions: self.questions.clone(),
            timers: self.timers.clone(),
            held_timers: self.held_timers.clone(),
            refused: self.refused.clone(),
            refused_in_init: self.refused_in_init.clone(),
            requests: self.requests.clone(),
            taken_back: self.taken_back.clone(),
            notices: self.notices.clone(),
            notices_omitted: self.notices_omitted,
            settled: self.settled,
        };
        if planted::is(Fault::SnapshotMissesField) {
            encoded.timers.clear();
        }
        Ok(postcard::to_stdvec(&encoded)?)
    }

    /// Reads a snapshot of this format.
    ///
    /// # Errors
    /// The bytes are not a snapshot of this format.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let encoded: Encoded = postcard::from_bytes(bytes)?;
        let plan = Plan::recorded(encoded.plan).ok_or(postcard::Error::SerdeDeCustom)?;
        let mut state = Self {
            seed: encoded.seed,
            seq: encoded.seq,
            created_at: encoded.created_at,
            last: encoded.last,
            plan: Box::new(plan),
            machine: encoded.machine,
            machine_timer: encoded.machine_timer,
            put_away_at: encoded.put_away_at,
            upcaster: encoded.upcaster,
            labels: encoded.labels,
            parent: encoded.parent,
            forked: encoded.forked,
            lineage: encoded.lineage,
            phase: encoded.phase,
            paused: encoded.paused,
            held_since: encoded.held_since,
            waves: encoded.waves,
            schemas: encoded.schemas,
            unanswered: unanswered(&encoded.questions),
            holding: encoded.questions.iter().filter(|asked| asked.is_open() && asked.holds_run()).count(),
            questions: encoded.questions,
            timers: encoded.timers,
            held_timers: encoded.held_timers,
            refused: encoded.refused,
            refused_in_init: encoded.refused_in_init,
            requests: encoded.requests,
            taken_back: encoded.taken_back,
            notices: encoded.notices,
            notices_omitted: encoded.notices_omitted,
            settled: encoded.settled,
            bytes: Default::default(),
            leases_since_load: 0,
        };
        state.bytes = state.counted();
        Ok(state)
    }
}

/// As its snapshot, within other encodings.
impl Serialize for RunState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.snapshot().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let snapshot = Vec::<u8>::deserialize(deserializer)?;
        Self::from_snapshot(&snapshot).map_err(D::Error::custom)
    }
}

fn unanswered(questions: &[AskedQuestion]) -> BTreeMap<String, usize> {
    let open = questions.iter().enumerate().filter(|(_, asked)| asked.is_open());
    open.map(|(place, asked)| (asked.question.question_id.clone(), place)).collect()
}
