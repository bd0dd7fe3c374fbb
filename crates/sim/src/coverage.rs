//! Which crash points met which kinds of events.

use std::fmt;

use bytes::Bytes;
use capataz_contracts::EventHead;
use capataz_shard::feed;

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

/// The event kinds by their field numbers, in the order of the contract.
pub const EVENT_KINDS: [(u32, &str); 64] = [
    (10, "run_accepted"),
    (11, "wave_started"),
    (12, "task_input_resolved"),
    (13, "task_leased"),
    (14, "task_lease_lost"),
    (15, "task_attempt_failed"),
    (16, "task_retry_due"),
    (17, "task_cancel_requested"),
    (18, "task_extended"),
    (19, "task_settled"),
    (20, "task_reactivated"),
    (21, "result_refused"),
    (22, "wave_finished"),
    (23, "question_asked"),
    (24, "question_answered"),
    (25, "run_paused"),
    (26, "run_resumed"),
    (27, "run_cancel_requested"),
    (28, "run_finished"),
    (29, "notice"),
    (30, "wave_decided"),
    (31, "question_revised"),
    (32, "child_named"),
    (33, "child_cancel_requested"),
    (34, "child_ended"),
    (35, "partial_output_kept"),
    (36, "run_forked"),
    (40, "ask_begun"),
    (41, "ask_routed"),
    (42, "transition_considered"),
    (43, "plan_begun"),
    (44, "task_rolled_back"),
    (50, "session_opened"),
    (51, "session_turn"),
    (52, "session_transition_accepted"),
    (53, "session_state_written"),
    (60, "browser_activity_started"),
    (61, "browser_opened"),
    (62, "action_proposed"),
    (63, "stage_finished"),
    (64, "action_finished"),
    (65, "action_failed"),
    (66, "browser_close_requested"),
    (67, "browser_closed"),
    (68, "browser_lost"),
    (70, "phase_started"),
    (71, "output_rejected"),
    (72, "phase_completed"),
    (73, "phase_blocked"),
    (74, "phase_changed"),
    (75, "pipeline_rolled_back"),
    (80, "mode_begun"),
    (81, "planner_asked"),
    (82, "planner_answered"),
    (83, "plan_edited"),
    (84, "plan_approved"),
    (85, "tool_approved"),
    (86, "tool_called"),
    (87, "tool_observed"),
    (88, "escalation_answered"),
    (89, "mode_checkpointed"),
    (90, "mode_rolled_back"),
    (91, "mode_completed"),
    (93, "tools_missed"),
];

const RUN_FINISHED: u32 = 28;
const BROWSER_CLOSED: u32 = 67;
const MODE_COMPLETED: u32 = 91;
const POINTS: usize = CrashPoint::ALL.len();

/// Whether a campaign has to meet this combination. Those that cannot be:
///
/// - a run's last event in recovery, for finished runs are not recovered;
/// - a closed browser in recovery, for the script's end is decided with it, in the same append;
/// - an execution that is done in recovery, for its end is decided with that.
#[must_use]
pub fn is_required(point: CrashPoint, kind: usize) -> bool {
    let field = EVENT_KINDS.get(kind).map_or(0, |(field, _)| *field);
    !(point == CrashPoint::DuringRecovery && matches!(field, RUN_FINISHED | BROWSER_CLOSED | MODE_COMPLETED))
}

/// Kinds of events, by their numbers, that few runs have.
const RARE: [u32; 8] = [74, 83, 84, 85, 88, 90, MODE_COMPLETED, 93];

/// How often a fault strikes at these appends that strikes so often elsewhere.
#[must_use]
pub fn likelihood<'a>(often: u32, appends: impl IntoIterator<Item = &'a Bytes>) -> u32 {
    let rare = |field: u32| RARE.contains(&field);
    let is_rare = |event: Bytes| {
        let kind = kind_of(&event).and_then(|kind| EVENT_KINDS.get(kind));
        kind.is_some_and(|(field, _)| rare(*field))
    };
    let any = appends.into_iter().any(|events| feed::split(events).any(is_rare));
    if any { often.saturating_mul(10) } else { often }
}

/// Counts by crash point and event kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    counts: [[u64; EVENT_KINDS.len()]; POINTS],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: [[0; EVENT_KINDS.len()]; POINTS] }
    }
}

impl Coverage {
    /// Counts each kind among the events of one affected append once.
    pub fn count(&mut self, point: CrashPoint, events: &Bytes) {
        let mut seen = [false; EVENT_KINDS.len()];
        for event in feed::split(events) {
            if let Some(seen) = kind_of(&event).and_then(|kind| seen.get_mut(kind)) {
                *seen = true;
            }
        }
        if let Some(row) = self.counts.get_mut(point as usize) {
            for (count, seen) in row.iter_mut().zip(seen) {
                *count += u64::from(seen);
            }
        }
    }

    /// Counts a combination that was met elsewhere.
    pub fn add(&mut self, point: CrashPoint, kind: usize, count: u64) {
        if let Some(met) = self.counts.get_mut(point as usize).and_then(|row| row.get_mut(kind)) {
            *met += count;
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
            .map(|(point, kind, _)| (point, EVENT_KINDS.get(kind).map_or("", |(_, name)| *name)))
            .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<28}", "event kind")?;
        for point in CrashPoint::ALL {
            write!(formatter, "{:>15}", point.name())?;
        }
        for (kind, (_, name)) in EVENT_KINDS.iter().enumerate() {
            write!(formatter, "\n{name:<28}")?;
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

/// The kind of an encoded event, by the number of its one message field.
fn kind_of(event: &[u8]) -> Option<usize> {
    let head = EventHead::read(event)?;
    EVENT_KINDS.iter().position(|(number, _)| *number == head.body)
}
