//! Pipelines: where their phases stand.

use capataz_contracts::v1::{self, CheckpointStatus, event::Body, payload::Data};

use crate::format::utc;
use crate::frame::{truncated, visible, width};
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::messages::message;
use crate::words::words;

/// Columns of what is told of a checkpoint: its payload, or why it is blocked.
const TOLD_WIDTH: usize = 100;

/// A phase of a pipeline, by the events of its run.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// It has a task for each item of a list.
    pub has_items: bool,
    pub checkpoint: v1::Checkpoint,
}

impl Phase {
    pub(crate) fn of(declared: &v1::Phase) -> Self {
        let checkpoint = v1::Checkpoint { phase: declared.name.clone(), ..v1::Checkpoint::default() };
        let mut phase = Self { has_items: declared.for_each.is_some(), checkpoint };
        phase.checkpoint.set_status(CheckpointStatus::Pending);
        phase
    }

    fn stands(&mut self, status: CheckpointStatus, at_ms: i64) {
        self.checkpoint.set_status(status);
        self.checkpoint.created_at_ms.get_or_insert(at_ms);
        self.checkpoint.updated_at_ms = Some(at_ms);
        self.checkpoint.payload = None;
        self.checkpoint.error_message = None;
    }
}

/// Applies an event to the phases of its run.
pub(crate) fn apply(phases: &mut [Phase], body: &Body, at_ms: i64) {
    let (place, status) = match body {
        Body::PhaseStarted(event) => (event.phase, CheckpointStatus::InProgress),
        Body::PhaseCompleted(event) => (event.phase, CheckpointStatus::Completed),
        Body::PhaseBlocked(event) => (event.phase, CheckpointStatus::Blocked),
        Body::PhaseChanged(event) => (event.phase, CheckpointStatus::Pending),
        Body::PipelineRolledBack(event) => {
            let begun = phases.iter_mut().skip(event.phase as usize);
            for phase in begun.filter(|phase| phase.checkpoint.created_at_ms.is_some()) {
                phase.stands(CheckpointStatus::Pending, at_ms);
            }
            return;
        }
        _ => return,
    };
    let Some(phase) = phases.get_mut(place as usize) else { return };
    phase.stands(status, at_ms);
    match body {
        Body::PhaseCompleted(event) => phase.checkpoint.payload.clone_from(&event.summary),
        Body::PhaseBlocked(event) => {
            phase.checkpoint.error_message = event.error.as_ref().map(|error| error.message.clone());
            phase.checkpoint.payload.clone_from(&event.payload);
        }
        _ => {}
    }
}

/// Where the phases stand, in one line of at most so many columns: `read completed, tell blocked, check pending`. Completed
/// ones are left out from the beginning where there is no room for all.
pub fn standing(phases: &[Phase], columns: usize) -> String {
    let told =
        |phase: &Phase| format!("{} {}", visible(&phase.checkpoint.phase), status(&phase.checkpoint).0);
    let mut line = phases.iter().map(told).collect::<Vec<_>>().join(", ");
    let completed =
        phases.iter().take_while(|phase| phase.checkpoint.status() == CheckpointStatus::Completed);
    for left_out in 1..=completed.count().min(phases.len().saturating_sub(1)) {
        if width(&line) <= columns {
            break;
        }
        let rest: Vec<String> = phases.iter().skip(left_out).map(told).collect();
        line = format!("…, {}", rest.join(", "));
    }
    truncated(&line, columns)
}

/// Where a phase stands, in words.
#[must_use]
pub fn status(checkpoint: &v1::Checkpoint) -> (&'static str, Tone) {
    let texts = &words().pipelines;
    match checkpoint.status() {
        CheckpointStatus::Unspecified | CheckpointStatus::Pending => (texts.pending, Tone::Faint),
        CheckpointStatus::InProgress => (texts.in_progress, Tone::Plain),
        CheckpointStatus::Completed => (texts.completed_status, Tone::Good),
        CheckpointStatus::Blocked => (texts.blocked_status, Tone::Bad),
    }
}

/// A table of checkpoints.
pub fn checkpoints<'c>(checkpoints: impl IntoIterator<Item = &'c v1::Checkpoint>, paint: Paint) -> String {
    let texts = &words().pipelines;
    let mut table = Table::new(texts.head);
    for checkpoint in checkpoints {
        let (status, tone) = status(checkpoint);
        let told = match &checkpoint.error_message {
            Some(why) => message(why).into_owned(),
            None => match checkpoint.payload.as_ref().and_then(|payload| payload.data.as_ref()) {
                Some(Data::Inline(text)) => String::from_utf8_lossy(text).into_owned(),
                Some(Data::Blob(_)) | None => String::new(),
            },
        };
        table.row([
            (visible(&checkpoint.phase), Tone::Plain),
            (status.to_owned(), tone),
            (checkpoint.updated_at_ms.map(utc).unwrap_or_default(), Tone::Faint),
            (truncated(&visible(&told), TOLD_WIDTH), Tone::Faint),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn story() -> Vec<Phase> {
        let named = |name: &str| v1::Phase { name: name.to_owned(), ..v1::Phase::default() };
        let mut phases: Vec<Phase> =
            ["read", "tell", "check"].iter().map(|name| Phase::of(&named(name))).collect();
        let summary = v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(Data::Inline(r#"{"title":"the sea"}"#.into())),
        };
        let blocked =
            v1::Error { message: "the phase \"tell\" is blocked: no".to_owned(), ..v1::Error::default() };
        let started =
            |phase: u32| Body::PhaseStarted(v1::PhaseStarted { phase, ..v1::PhaseStarted::default() });
        let events = [
            started(0),
            Body::PhaseCompleted(v1::PhaseCompleted { phase: 0, summary: Some(summary) }),
            started(1),
            Body::PhaseBlocked(v1::PhaseBlocked {
                phase: 1,
                error: Some(blocked),
                ..v1::PhaseBlocked::default()
            }),
        ];
        for (event, at_ms) in events.iter().zip((1_774_083_600_000..).step_by(1_000)) {
            apply(&mut phases, event, at_ms);
        }
        phases
    }

    fn shown(phases: &[Phase]) -> Vec<String> {
        let table = checkpoints(phases.iter().map(|phase| &phase.checkpoint), Paint::OFF);
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_phase_is_shown_as_it_stands() {
        let expected = [
            "PHASE STATUS CHANGED PAYLOAD",
            "read completed 2026-03-21 09:00:01Z {\"title\":\"the sea\"}",
            "tell blocked 2026-03-21 09:00:03Z the phase \"tell\" is blocked: no",
            "check pending",
        ];
        assert_eq!(shown(&story()), expected);
        let spanish = Language::Spanish.within(|| shown(&story()));
        assert_eq!(spanish[2], "tell bloqueada 2026-03-21 09:00:03Z la fase \"tell\" está bloqueada: no");
    }

    #[test]
    fn where_the_phases_stand_is_one_line_that_ends_with_those_to_come() {
        let of = |columns: usize| standing(&story(), columns);
        assert_eq!(of(80), "read completed, tell blocked, check pending");
        assert_eq!(of(42), "…, tell blocked, check pending");
        assert_eq!(of(20), "…, tell blocked, ch…");
        let spanish = Language::Spanish.within(|| of(80));
        assert_eq!(spanish, "read completa, tell bloqueada, check pendiente");
        assert_eq!(standing(&[], 80), "");
    }

    #[test]
    fn what_was_rolled_back_is_pending_again_and_keeps_when_it_began() {
        let mut phases = story();
        let back = v1::PipelineRolledBack { phase: 1, ..v1::PipelineRolledBack::default() };
        apply(&mut phases, &Body::PipelineRolledBack(back), 1_774_083_610_000);
        assert_eq!(shown(&phases)[2..], ["tell pending 2026-03-21 09:00:10Z", "check pending"]);
        assert_eq!(phases[1].checkpoint.created_at_ms, Some(1_774_083_602_000));
        assert_eq!(phases[0], story()[0]);
    }
}
