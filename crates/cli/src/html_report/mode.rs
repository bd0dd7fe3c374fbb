//! The sections that only executions have: the result, the plan and its revisions, the calls of tools, what was remembered,
//! and the checkpoints.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_display::mode::{mark, mode_name, steps_of};
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};

use super::markup::Markup;
use super::script::pictures::Gallery;
use super::story::{Part, Story, Wave};
use super::{Report, outputs, plan, rows};
use crate::watch::mode_lines;

/// Maximum number of bytes of parameters and results of calls.
const ALL_RESULTS: usize = 1024 * 1024;
/// Maximum number of calls, decisions or entries of memory that are told.
const MOST_LISTED: usize = 300;

pub fn sections<'r>(page: &mut Markup, report: &'r Report, gallery: &mut Gallery<'r>) {
    let story = &report.story;
    let mut left = ALL_RESULTS;
    plans(page, story);
    calls(page, report, gallery, &mut left);
    decisions(page, story);
    memory(page, story);
    checkpoints(page, story);
}

/// Writes what the query has come to.
pub fn result(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    let mut left = ALL_RESULTS;
    let completed = story.steps.iter().rev().find_map(|(_, body)| match body {
        Body::ModeCompleted(completed) => completed.wave,
        _ => None,
    });
    page.open_with("section", &[("id", "result")]);
    page.element("h2", texts.result);
    page.open_class("p", "faint");
    page.text(&story.asked);
    page.close("p");
    if let Some(execution) = &story.model.execution {
        page.element_class("p", "faint", &fill(texts.in_mode, &[mode_name(execution.mode)]));
    }
    let wave = completed.and_then(|wave| story.waves.get(wave as usize));
    let mut tasks = wave.into_iter().flat_map(|wave| &wave.tasks);
    if let Some((task, output)) = tasks.find_map(|task| Some((task, outputs::output_of(task)?))) {
        outputs::payload(page, report, output, Some(&task.name), &mut left);
    } else {
        page.element_class("p", "faint", texts.no_result);
    }
    page.close("section");
}

/// Writes the newest plan with a mark for each step, and behind a disclosure the revisions before it.
fn plans(page: &mut Markup, story: &Story) {
    let texts = &words().reports;
    let Some(execution) = &story.model.execution else { return };
    let Some(newest) = &execution.plan else { return };
    page.open_with("section", &[("id", "plan")]);
    let title = fill(texts.plan_title, &[&newest.revision.to_string(), &steps_of(newest)]);
    page.element("h2", &title);
    page.open_class("ol", "steps");
    for (place, step) in newest.steps.iter().enumerate() {
        let stands = execution.steps.get(place).copied().unwrap_or_default();
        page.open("li");
        page.element_class("span", step_class(stands), &format!("{} {}", mark(stands).0, step_name(stands)));
        page.constant(" ");
        page.text(if step.description.is_empty() { &step.id } else { &step.description });
        page.constant(" ");
        page.element("code", &step.tool);
        page.close("li");
    }
    page.close("ol");
    let revisions = story.steps.iter().filter_map(|(_, body)| match body {
        Body::PlannerAnswered(answered) => answered.plan.as_ref(),
        Body::PlanEdited(edited) => edited.plan.as_ref(),
        _ => None,
    });
    for before in revisions.filter(|plan| plan.revision != newest.revision).take(MOST_LISTED) {
        page.open("details");
        let title = fill(texts.revision_before, &[&before.revision.to_string(), &steps_of(before)]);
        page.element("summary", &title);
        page.open("ol");
        for step in &before.steps {
            page.element("li", &format!("{} ({})", step.description, step.tool));
        }
        page.close("ol");
        page.close("details");
    }
    page.close("section");
}

fn step_class(status: v1::StepStatus) -> &'static str {
    match status {
        v1::StepStatus::Succeeded => "badge good",
        v1::StepStatus::Failed => "badge bad",
        v1::StepStatus::InProgress => "badge warning",
        v1::StepStatus::Pending | v1::StepStatus::Unspecified => "badge plain",
    }
}

fn step_name(status: v1::StepStatus) -> &'static str {
    let texts = &words().reports;
    match status {
        v1::StepStatus::Succeeded => texts.succeeded,
        v1::StepStatus::Failed => texts.failed,
        v1::StepStatus::InProgress => texts.at_work,
        v1::StepStatus::Pending | v1::StepStatus::Unspecified => texts.to_do,
    }
}

/// Writes the calls of tools, those that succeeded folded, each with what it gave back.
fn calls<'r>(page: &mut Markup, report: &'r Report, gallery: &mut Gallery<'r>, left: &mut usize) {
    let (texts, story) = (&words().reports, &report.story);
    let tools: Vec<(usize, &Wave)> =
        story.waves.iter().enumerate().filter(|(_, wave)| matches!(wave.part, Part::Tool { .. })).collect();
    if tools.is_empty() {
        return;
    }
    let until_ms = story.until_ms(report.now_ms);
    page.open_with("section", &[("id", "calls")]);
    page.element("h2", texts.calls);
    for (place, wave) in tools.iter().take(MOST_LISTED) {
        let Some(task) = wave.tasks.first() else { continue };
        let seen = story.steps.iter().find_map(|(_, body)| match body {
            Body::ToolObserved(seen) if seen.wave.is_some_and(|of| of as usize == *place) => Some(seen),
            _ => None,
        });
        page.open("details");
        page.open("summary");
        page.element("code", &rows::title(story, *place, wave));
        page.constant(" ");
        page.element_class("span", plan::class(task), rows::state_of(task));
        if seen.is_some_and(|seen| !seen.as_expected && seen.error.is_none()) {
            page.constant(" ");
            page.element_class("span", "badge warning", texts.unexpected);
        }
        page.constant(" ");
        page.element_class("span", "faint", &rows::figures(task, until_ms).join(" · "));
        page.close("summary");
        if let Some(error) = seen.and_then(|seen| seen.error.as_ref()) {
            super::failures::failure(page, error);
        }
        if let Some(output) = outputs::output_of(task) {
            outputs::payload(page, report, output, Some(&task.name), left);
        }
        let browsed = story.browsed.iter().filter(|(of, _)| of == place);
        for (_, action) in browsed {
            page.open_class("div", "pictures");
            for piece in action.evidence.iter().filter(|piece| super::is_picture(piece)) {
                let is_before = piece.kind == capataz_policy::executor::evidence::SCREENSHOT_BEFORE;
                let target = action.target.as_ref().filter(|_| is_before);
                gallery.figure(page, piece, &piece.kind, target);
            }
            page.close("div");
        }
        page.close("details");
    }
    more(page, tools.len());
    page.close("section");
}

fn more(page: &mut Markup, count: usize) {
    let texts = &words().reports;
    let more = count.saturating_sub(MOST_LISTED) as u64;
    if more > 0 {
        page.element("p", &counted(more, texts.more_others_one, texts.more_others_many));
    }
}

/// Lines with their times, as a list of this kind; of those beyond the first only the number.
fn timed(page: &mut Markup, list: &'static str, lines: &[(i64, String)]) {
    page.open(list);
    for (at_ms, text) in lines.iter().take(MOST_LISTED) {
        page.open("li");
        page.text(text);
        page.constant(" ");
        page.open_class("span", "faint");
        page.time(*at_ms);
        page.close("span");
        page.close("li");
    }
    page.close(list);
    more(page, lines.len());
}

/// Writes what was decided, step by step, behind a disclosure.
fn decisions(page: &mut Markup, story: &Story) {
    let texts = &words().reports;
    let lines: Vec<(i64, String)> = story
        .steps
        .iter()
        .filter_map(|(at_ms, body)| Some((*at_ms, mode_lines::line(&story.model, body)?.text)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if lines.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "decisions")]);
    page.open("details");
    page.element("summary", texts.decisions);
    timed(page, "ol", &lines);
    page.close("details");
    page.close("section");
}

/// Writes what was recalled for prompts, and what is kept in memory of this run.
fn memory(page: &mut Markup, story: &Story) {
    let texts = &words().reports;
    let recalled = story.waves.iter().filter_map(|wave| match &wave.part {
        Part::Planner(asked) => asked.recalled.as_ref(),
        _ => None,
    });
    let recalled: Vec<&v1::Recalled> = recalled.filter(|recalled| !recalled.entries.is_empty()).collect();
    let kept: Vec<&v1::Remembered> = story.steps.iter().filter_map(|(_, body)| remembered(body)).collect();
    if recalled.is_empty() && kept.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "memory")]);
    page.element("h2", texts.memory);
    if !recalled.is_empty() {
        let tokens: u64 = recalled.iter().map(|recalled| u64::from(recalled.tokens)).sum();
        let values = [recalled.len().to_string(), tokens.to_string()];
        page.element("p", &fill(texts.recalled, &[&values[0], &values[1]]));
        page.open("details");
        page.element("summary", texts.technical);
        page.open("ul");
        for one in recalled.iter().take(MOST_LISTED) {
            page.open("li");
            page.element("code", &one.entries.join(" "));
            page.text(&fill(texts.recall_took, &[&one.tokens.to_string(), &one.took_us.to_string()]));
            page.close("li");
        }
        page.close("ul");
        page.close("details");
    }
    if !kept.is_empty() {
        page.open("details");
        page.element("summary", &counted(kept.len() as u64, texts.kept_one, texts.kept_many));
        page.open("ul");
        for one in kept.iter().take(MOST_LISTED) {
            page.open("li");
            page.element("code", &one.r#type);
            page.text(&format!(" {}", one.content));
            page.close("li");
        }
        page.close("ul");
        more(page, kept.len());
        page.close("details");
    }
    page.close("section");
}

fn remembered(body: &Body) -> Option<&v1::Remembered> {
    match body {
        Body::PlannerAnswered(event) => event.remembered.as_ref(),
        Body::PlanEdited(event) => event.remembered.as_ref(),
        Body::PlanApproved(event) => event.remembered.as_ref(),
        Body::PlanRejected(event) => event.remembered.as_ref(),
        Body::ToolApproved(event) => event.remembered.as_ref(),
        Body::ToolObserved(event) => event.remembered.as_ref(),
        Body::EscalationAnswered(event) => event.remembered.as_ref(),
        Body::ModeCompleted(event) => event.remembered.as_ref(),
        _ => None,
    }
}

/// Writes the checkpoints, and the ways back to them.
fn checkpoints(page: &mut Markup, story: &Story) {
    let texts = &words().reports;
    let mut lines = Vec::new();
    for (at_ms, body) in &story.steps {
        match body {
            Body::ModeCheckpointed(made) => {
                lines.push((*at_ms, format!("{}: {}", made.checkpoint_id, message(&made.reason))));
            }
            Body::ModeRolledBack(back) => {
                lines.push((*at_ms, fill(words().modes.rolled_back, &[&back.checkpoint_id])));
            }
            _ => {}
        }
    }
    if lines.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "checkpoints")]);
    page.element("h2", texts.checkpoints);
    timed(page, "ul", &lines);
    page.close("section");
}
