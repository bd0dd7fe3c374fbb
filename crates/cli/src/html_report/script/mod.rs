//! The sections that only scripts have: a row for each action in the timeline and in the summary, then each action with
//! its evidence. Actions that succeeded are folded.

pub mod action;
pub mod failure;
pub mod overview;
pub mod pictures;

use capataz_contracts::v1;
use capataz_display::actions::state_name;
use capataz_display::format::took;
use capataz_display::script::fold::{Activity, Ending, ScriptRun, Try};
use capataz_display::words::{fill, words};
use capataz_policy::executor::evidence::SCREENSHOT_BEFORE as BEFORE;

use super::markup::Markup;
use super::timeline::{Bar, BarKind, Line, MOST_ROWS, Mark, MarkKind, Row, Timeline};
use super::{MOST_TRIES, Report, evidence_of};
use pictures::Gallery;

/// Writes the summary, the outputs and the actions.
pub fn sections<'r>(page: &mut Markup, report: &'r Report, script: &'r ScriptRun, gallery: &mut Gallery<'r>) {
    overview::summary(page, report, script);
    overview::outputs(page, script);
    let mut left = MOST_TRIES;
    for group in groups(script) {
        action::section(page, report, script, gallery, &group, &mut left);
    }
    if script.activities.is_empty() {
        page.element("p", words().page.no_actions);
    }
}

/// The timeline of a script: a row for each action, one for the opening and one for the closing of the browser.
pub fn timeline(script: &ScriptRun, until_ms: i64) -> Timeline {
    let mut timeline = Timeline::default();
    let groups = groups(script);
    for group in groups.iter().take(MOST_ROWS) {
        timeline.lines.push(Line::Row(row(script, group, until_ms)));
    }
    let more = groups.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        timeline.lines.push(Line::Folded(fill(words().watch.more_running, &[&more.to_string()])));
    }
    timeline
}

fn row(script: &ScriptRun, group: &Group<'_>, until_ms: i64) -> Row {
    let texts = &words().page;
    let opens = group.activities.first().is_some_and(|activity| activity.kind == v1::BrowserActivity::Open);
    let (label, state) = match group.step {
        Some(step) => {
            let id = script.declared(step).map_or("", |action| action.id.as_str());
            (format!("{} {id}", step + 1), state_name(script.state_of(step)))
        }
        None if opens => (texts.opening.to_owned(), ""),
        None => (texts.closing.to_owned(), ""),
    };
    let lasted = overview::duration(&group.activities, until_ms);
    let parts = [state.to_owned(), lasted];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let mut row =
        Row { label, anchor: group.step.map(overview::anchor), note: parts.join(" · "), ..Row::default() };
    let (mut tries, mut recoveries) = (0, 0);
    for activity in &group.activities {
        for one in &activity.tries {
            let number = if activity.is_action() { &mut tries } else { &mut recoveries };
            *number += 1;
            bars_of(&mut row, activity, one, *number, until_ms);
        }
    }
    row
}

/// Adds the bar of one try, that of the wait after it, and the mark of its failure.
fn bars_of(row: &mut Row, activity: &Activity, one: &Try, number: u32, until_ms: i64) {
    let ended = one.ended_at_ms.unwrap_or(until_ms);
    let kind = match (activity.kind, &one.ending) {
        (_, Some(Ending::Failed(_))) => BarKind::Bad,
        (_, None) if one.settled.is_some() => BarKind::Bad,
        (v1::BrowserActivity::Action, Some(_)) => BarKind::Good,
        (v1::BrowserActivity::Action, None) => BarKind::Open,
        _ => BarKind::Frame,
    };
    let texts = &words().page;
    let template =
        if activity.kind == v1::BrowserActivity::Recovery { texts.recovery_number } else { texts.try_number };
    let title = format!(
        "{}: {}",
        fill(template, &[&number.to_string()]),
        took(ended.saturating_sub(one.started_at_ms))
    );
    row.bars.push(Bar { from_ms: one.started_at_ms, until_ms: ended, kind, title });
    if kind == BarKind::Bad {
        let code = match &one.ending {
            Some(Ending::Failed(failures)) => failures
                .first()
                .and_then(|failed| failed.error.as_ref())
                .map(|error| error.error_code.clone()),
            _ => one.settled.as_ref().map(|error| error.code.clone()),
        };
        row.marks.push(Mark { at_ms: ended, kind: MarkKind::Failed, title: code.unwrap_or_default() });
    }
    if let Some(delay_ms) = one.delay_ms.filter(|delay_ms| *delay_ms > 0) {
        let until_ms = ended.saturating_add(delay_ms).min(until_ms);
        let title = fill(words().reports.backed_off_for, &[&took(until_ms.saturating_sub(ended))]);
        row.bars.push(Bar { from_ms: ended, until_ms, kind: BarKind::BackOff, title });
    }
}

/// Activities that belong together: an action with its tries and recoveries, or the opening, or the closing of the
/// browser.
pub struct Group<'r> {
    step: Option<u32>,
    activities: Vec<&'r Activity>,
    /// For each try, the next picture of the page that was taken after the try.
    followers: Vec<Option<&'r v1::EvidenceRef>>,
}

fn groups(script: &ScriptRun) -> Vec<Group<'_>> {
    let mut followers = followers(script).into_iter();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for activity in &script.activities {
        let own = followers.by_ref().take(activity.tries.len());
        match groups.last_mut().filter(|group| group.step.is_some() && group.step == activity.step) {
            Some(group) => {
                group.activities.push(activity);
                group.followers.extend(own);
            }
            None => groups.push(Group {
                step: activity.step,
                activities: vec![activity],
                followers: own.collect(),
            }),
        }
    }
    groups
}

/// The following picture for each try. Pictures are taken before an action changes the page, so the next picture shows
/// the effect of a successful action.
fn followers(script: &ScriptRun) -> Vec<Option<&v1::EvidenceRef>> {
    let tries = script.activities.iter().flat_map(|activity| &activity.tries);
    let tries: Vec<&Try> = tries.collect();
    let mut next = None;
    let mut followers: Vec<Option<&v1::EvidenceRef>> = Vec::with_capacity(tries.len());
    for one in tries.into_iter().rev() {
        followers.push(next);
        next = evidence_of(one).into_iter().find(|piece| piece.kind == BEFORE).or(next);
    }
    followers.reverse();
    followers
}
