//! Which crash points met which kinds of events.

use std::fmt;

use bytes::{Buf, Bytes};
use capataz_runtime::feed;

macro_rules! crash_points {
    ($($name:ident $label:literal: $sentence:literal;)*) => {
        /// Where a fault strikes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum CrashPoint {
            $(#[doc = $sentence] $name,)*
        }

        impl CrashPoint {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

crash_points! {
    BeforeCommit "before commit": "The process dies with appends that are not durable.";
    AfterCommit "after commit": "The process dies when the commit is durable and the core does not know it yet.";
    BeforeOutputs "before outputs": "The process dies when the core knows of the commit and nothing has left yet.";
    MidOutputs "mid outputs": "The process dies when some of a turn's outputs have left.";
    DuringRecovery "in recovery": "The process dies between the claim of the shard and the core's recovery.";
    CommitLost "commit lost": "The commit fails and left nothing; the process lives.";
    ReplyLost "reply lost": "The commit fails although it is durable; the process lives.";
    TakenOver "taken over": "Another daemon claims the shard while appends are in flight.";
}

/// Names of the event kinds, in the order of the contract; the first has field number 10.
pub const EVENT_KINDS: [&str; 21] = [
    "run_accepted",
    "wave_started",
    "task_input_resolved",
    "task_leased",
    "task_lease_lost",
    "task_attempt_failed",
    "task_retry_due",
    "task_cancel_requested",
    "task_extended",
    "task_settled",
    "task_reactivated",
    "result_refused",
    "wave_finished",
    "question_asked",
    "question_answered",
    "run_paused",
    "run_resumed",
    "run_cancel_requested",
    "run_finished",
    "notice",
    "wave_decided",
];

const FIRST_FIELD: u32 = 10;
const RUN_FINISHED: usize = 18;
const POINTS: usize = CrashPoint::ALL.len();

/// Whether a campaign has to meet this combination. The only one that cannot be is a finished run in recovery: finished
/// runs are not recovered.
#[must_use]
pub fn is_required(point: CrashPoint, kind: usize) -> bool {
    !(point == CrashPoint::DuringRecovery && kind == RUN_FINISHED)
}

/// Counts by crash point and event kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: [[u64; EVENT_KINDS.len()]; POINTS],
}

impl Coverage {
    /// Counts each kind among the events of one affected append once.
    pub fn count(&mut self, point: CrashPoint, events: &Bytes) {
        let mut seen = [false; EVENT_KINDS.len()];
        for event in feed::split(events) {
            if let Some(seen) = kind_of(event).and_then(|kind| seen.get_mut(kind)) {
                *seen = true;
            }
        }
        if let Some(row) = self.counts.get_mut(point as usize) {
            for (count, seen) in row.iter_mut().zip(seen) {
                *count += u64::from(seen);
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (row, other) in self.counts.iter_mut().zip(&other.counts) {
            for (count, other) in row.iter_mut().zip(other) {
                *count += other;
            }
        }
    }

    /// Each combination with its count.
    pub fn cells(&self) -> impl Iterator<Item = (CrashPoint, usize, u64)> {
        CrashPoint::ALL
            .iter()
            .zip(&self.counts)
            .flat_map(|(point, row)| row.iter().enumerate().map(move |(kind, count)| (*point, kind, *count)))
    }

    /// Required combinations that were never met.
    #[must_use]
    pub fn missing(&self) -> Vec<(CrashPoint, &'static str)> {
        self.cells()
            .filter(|(point, kind, count)| *count == 0 && is_required(*point, *kind))
            .map(|(point, kind, _)| (point, EVENT_KINDS.get(kind).copied().unwrap_or_default()))
            .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<22}", "event kind")?;
        for point in CrashPoint::ALL {
            write!(formatter, "{:>15}", point.name())?;
        }
        for (kind, name) in EVENT_KINDS.iter().enumerate() {
            write!(formatter, "\n{name:<22}")?;
            for (point, row) in CrashPoint::ALL.iter().zip(&self.counts) {
                match row.get(kind) {
                    Some(0) if !is_required(*point, kind) => write!(formatter, "{:>15}", "-")?,
                    count => write!(formatter, "{:>15}", count.copied().unwrap_or_default())?,
                }
            }
        }
        Ok(())
    }
}

/// The kind of an encoded event: the number of its one message field, from 0.
fn kind_of(mut event: Bytes) -> Option<usize> {
    while event.has_remaining() {
        let (field, wire_type) = prost::encoding::decode_key(&mut event).ok()?;
        if field >= FIRST_FIELD {
            return usize::try_from(field - FIRST_FIELD).ok();
        }
        prost::encoding::skip_field(wire_type, field, &mut event, Default::default()).ok()?;
    }
    None
}
