//! The lines of events that only executions have.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_display::error::one_line;
use capataz_display::format::took;
use capataz_display::frame::visible;
use capataz_display::mode::{mode_name, replan_reason, steps_of};
use capataz_display::model::Run;
use capataz_display::paint::Tone;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};

use super::lines::{Detail, Line, name_of};

/// The line of an event of an execution; `None` for any other event.
pub(crate) fn line(run: &Run, body: &Body) -> Option<Line> {
    let texts = &words().modes;
    let plain = |text: String, tone, needed| Some(Line { task: None, text, tone, needed });
    use Detail::{Everything, Results, Steps};
    match body {
        Body::ModeBegun(begun) => {
            let template = if begun.chosen_by_session { texts.begun_by_session } else { texts.begun };
            plain(fill(template, &[mode_name(begun.mode())]), Tone::Strong, Results)
        }
        Body::PlannerAsked(asked) => {
            let text = match asked.reasons().next() {
                None => texts.asked.to_owned(),
                Some(_) => {
                    let reasons: Vec<&str> = asked.reasons().map(replan_reason).collect();
                    fill(texts.asked_anew, &[&reasons.join(", ")])
                }
            };
            let needed = if asked.reasons.is_empty() { Steps } else { Results };
            plain(with_memory(text, asked.recalled.as_ref()), Tone::Plain, needed)
        }
        Body::PlannerAnswered(answered) => {
            let mut told = Vec::new();
            if let Some(plan) = &answered.plan {
                told.push(fill(texts.planned, &[&plan.revision.to_string(), &steps_of(plan)]));
            }
            match (answered.decision(), &answered.call, &answered.escalation) {
                (v1::PlannerDecision::Pause, ..) => {
                    told.push(fill(texts.pauses, &[&visible(&answered.reasoning)]));
                }
                (_, _, Some(asked)) => told.push(fill(texts.escalates, &[&message(&asked.reason)])),
                (_, Some(call), None) => {
                    told.push(fill(texts.decided, &[&visible(&call.tool), &visible(&answered.reasoning)]));
                }
                _ => {}
            }
            let tone = if answered.escalation.is_some() { Tone::Warning } else { Tone::Plain };
            plain(told.join("; "), tone, Results)
        }
        Body::PlanEdited(edited) => {
            let plan = edited.plan.clone().unwrap_or_default();
            plain(fill(texts.edited, &[&plan.revision.to_string(), &steps_of(&plan)]), Tone::Plain, Results)
        }
        Body::PlanApproved(approved) => {
            plain(fill(texts.approved, &[&approved.revision.to_string()]), Tone::Good, Results)
        }
        Body::PlanRejected(rejected) => {
            plain(fill(texts.rejected, &[&rejected.revision.to_string()]), Tone::Bad, Results)
        }
        Body::ToolApproved(approved) => {
            let tool = approved.call.as_ref().map_or("", |call| call.tool.as_str());
            plain(fill(texts.tool_approved, &[&visible(tool)]), Tone::Good, Results)
        }
        Body::ToolCalled(called) => {
            let text = name_of(run, called.wave, 0);
            let tool = text.rsplit_once('.').map_or(text.as_str(), |(tool, _)| tool);
            plain(fill(texts.called, &[&visible(tool)]), Tone::Plain, Everything)
        }
        Body::ToolObserved(seen) => {
            let (tool, after) = (visible(&seen.tool), took(seen.duration_ms));
            let (text, tone) = match &seen.error {
                Some(error) => {
                    let tone = if seen.as_expected { Tone::Good } else { Tone::Bad };
                    (fill(texts.failed, &[&tool, &after, &one_line(error)]), tone)
                }
                None if !seen.as_expected => (fill(texts.missed, &[&tool, &after]), Tone::Warning),
                None => (fill(texts.observed, &[&tool, &after]), Tone::Good),
            };
            plain(text, tone, if seen.error.is_some() || !seen.as_expected { Results } else { Steps })
        }
        Body::EscalationAnswered(answered) => {
            plain(fill(texts.escalation_answered, &[&visible(&answered.answer)]), Tone::Plain, Steps)
        }
        Body::ModeCheckpointed(made) => {
            let values = [made.checkpoint_id.as_str(), &message(&made.reason)];
            plain(fill(texts.checkpointed, &values), Tone::Plain, Results)
        }
        Body::ModeRolledBack(back) => {
            plain(fill(texts.rolled_back, &[&back.checkpoint_id]), Tone::Warning, Results)
        }
        Body::ModeCompleted(_) => plain(texts.completed.to_owned(), Tone::Good, Steps),
        Body::SessionModeChosen(chosen) => {
            plain(fill(texts.session_chosen, &[mode_name(chosen.mode())]), Tone::Plain, Results)
        }
        _ => None,
    }
}

fn with_memory(text: String, recalled: Option<&v1::Recalled>) -> String {
    let texts = &words().modes;
    match recalled {
        Some(recalled) if !recalled.entries.is_empty() => {
            let entries = counted(recalled.entries.len() as u64, texts.entries_one, texts.entries_many);
            fill(texts.recalled, &[&text, &entries])
        }
        _ => text,
    }
}
