//! The section of one action: its request, the resolution of its target, and the page before and after, with pictures.

use capataz_contracts::v1;
use capataz_policy::executor::evidence::{SCREENSHOT, SCREENSHOT_AFTER, SCREENSHOT_BEFORE};

use super::super::markup::Markup;
use super::super::{MOST_TRIES, Report};
use super::overview::{anchor, duration, output, state_class};
use super::pictures::Gallery;
use super::{Group, failure};
use crate::watch::script_lines;
use capataz_display::actions::state_name;
use capataz_display::format::exactly;
use capataz_display::script::describe;
use capataz_display::script::fold::{Activity, Ending, ScriptRun, State, Try};
use capataz_display::words::{fill, words};

/// Shown characters of a hash, enough to distinguish two hashes.
const HASH_LENGTH: usize = 10;

/// Writes the section of `group`, folded if the action succeeded. Tries beyond `left` are left out.
pub fn section<'r>(
    page: &mut Markup,
    report: &'r Report,
    script: &ScriptRun,
    gallery: &mut Gallery<'r>,
    group: &Group<'r>,
    left: &mut usize,
) {
    let texts = &words().page;
    let Some(step) = group.step else { return frame(page, report, group) };
    let declared = script.declared(step);
    let state = script.state_of(step);
    let is_folded = state == State::Succeeded;
    page.open_with("section", &[("class", "action"), ("id", &anchor(step))]);
    if is_folded {
        page.open("details");
        page.open("summary");
    }
    page.open("h2");
    page.text(&format!("{} ", step + 1));
    page.text(declared.map_or("", |action| action.id.as_str()));
    page.constant(" ");
    let kind = declared.map_or("", |action| describe::kind_name(action.kind()));
    page.element_class("span", "kind", kind);
    page.constant(" ");
    page.element_class("span", state_class(state), state_name(state));
    page.constant(" ");
    page.element_class("span", "faint", &duration(&group.activities, report.story.until_ms(report.now_ms)));
    page.close("h2");
    if is_folded {
        page.close("summary");
    }
    if let Some(action) = declared {
        asked(page, action);
    }
    let several = group.activities.iter().map(|activity| activity.tries.len()).sum::<usize>() > 1;
    let mut followers = group.followers.iter();
    let (mut tries, mut recoveries, mut left_out) = (0_usize, 0_usize, false);
    for activity in &group.activities {
        if activity.tries.is_empty() {
            page.element_class("p", "faint", texts.not_begun);
        }
        for one in &activity.tries {
            let follower = followers.next().copied().flatten();
            let number = if activity.is_action() { &mut tries } else { &mut recoveries };
            *number += 1;
            let Some(rest) = left.checked_sub(1) else {
                left_out = true;
                continue;
            };
            *left = rest;
            if several {
                let template = if activity.is_action() { texts.try_number } else { texts.recovery_number };
                page.open("h3");
                page.text(&fill(template, &[&number.to_string()]));
                if let (false, Some(action)) = (activity.is_action(), &activity.action) {
                    page.constant(" ");
                    page.element("code", &describe::action(action));
                }
                page.close("h3");
            }
            attempt(page, report, gallery, activity, one, follower);
        }
    }
    if left_out {
        page.element_class("p", "faint", &fill(texts.too_many_tries, &[&MOST_TRIES.to_string()]));
    }
    if is_folded {
        page.close("details");
    }
    page.close("section");
}

/// Writes the section for the opening or the closing of the browser.
fn frame(page: &mut Markup, report: &Report, group: &Group<'_>) {
    let texts = &words().page;
    let opens = group.activities.first().is_some_and(|activity| activity.kind == v1::BrowserActivity::Open);
    page.open_class("section", "frame");
    page.open("p");
    page.text(if opens { texts.opening } else { texts.closing });
    page.text(&format!(": {}", duration(&group.activities, report.story.until_ms(report.now_ms))));
    page.close("p");
    for one in group.activities.iter().flat_map(|activity| &activity.tries) {
        if let Some(error) = &one.settled {
            failure::settled(page, error);
        }
        if let Some(Ending::Failed(failures)) = &one.ending {
            for failed in failures {
                failure::failure(page, report, failed);
            }
        }
    }
    page.close("section");
}

fn asked(page: &mut Markup, action: &v1::Action) {
    let texts = &words().page;
    page.open("dl");
    page.pair_code(texts.asked, &describe::action(action));
    page.pair(texts.rationale, action.rationale.as_deref().unwrap_or_default());
    page.pair(texts.criticality, describe::criticality_name(action.criticality()));
    let conditions = |conditions: &[v1::Condition]| -> Vec<String> {
        conditions.iter().map(describe::condition).collect()
    };
    page.pair_list(texts.conditions_before, &conditions(&action.pre));
    page.pair_list(texts.conditions_after, &conditions(&action.post));
    page.close("dl");
    page.folded(texts.as_written, &describe::as_json(action));
}

fn attempt<'r>(
    page: &mut Markup,
    report: &'r Report,
    gallery: &mut Gallery<'r>,
    activity: &Activity,
    one: &'r Try,
    follower: Option<&'r v1::EvidenceRef>,
) {
    match &one.ending {
        Some(Ending::Succeeded(finished)) => {
            resolved(page, finished.resolution.as_ref());
            inside(page, &one.stages, finished.state_before.as_ref(), finished.state_after.as_ref());
            meanwhile(page, finished.changes.as_ref());
            if let Some(given) = &finished.output {
                page.element("h4", &format!("{} {}", words().page.output, given.name));
                output(page, given);
            }
            pictures(page, gallery, &finished.evidence, finished.resolution.as_ref(), follower);
        }
        Some(Ending::Failed(failures)) => {
            let first = failures.first();
            resolved(page, first.and_then(|failed| failed.resolution.as_ref()));
            for failed in failures {
                failure::failure(page, report, failed);
            }
            let error = first.and_then(|failed| failed.error.as_ref());
            let after = error.and_then(|error| error.state_after.as_ref());
            inside(page, &one.stages, error.and_then(|error| error.state_before.as_ref()), after);
            meanwhile(page, first.and_then(|failed| failed.changes.as_ref()));
            if let Some((failed, error)) = first.and_then(|failed| Some((failed, failed.error.as_ref()?))) {
                pictures(page, gallery, &error.evidence_refs, failed.resolution.as_ref(), None);
                failure::snapshots(page, report, &error.evidence_refs);
            }
        }
        Some(Ending::Done) | None => inside(page, &one.stages, None, None),
    }
    if let Some(error) = &one.settled {
        failure::settled(page, error);
    }
    if let Some(delay_ms) = one.delay_ms.filter(|_| activity.is_action()) {
        page.element_class("p", "faint", &fill(words().page.waited, &[&exactly(delay_ms)]));
    }
}

fn resolved(page: &mut Markup, record: Option<&v1::ResolutionRecord>) {
    let Some(record) = record else { return };
    let texts = &words().page;
    page.open("dl");
    page.element("dt", texts.resolved);
    page.open("dd");
    page.text(&fill(texts.resolved_text, &[&record.locator, &record.count.to_string()]));
    if !record.tried.is_empty() {
        page.text("; ");
        page.text(&fill(texts.tried_first, &[&record.tried.join(", ")]));
    }
    page.close("dd");
    page.pair_code(texts.element, &record.element);
    page.close("dl");
}

/// Writes stages with their durations, and hashes of the page, behind a disclosure.
fn inside(
    page: &mut Markup,
    records: &[v1::StageRecord],
    before: Option<&v1::StateSignature>,
    after: Option<&v1::StateSignature>,
) {
    if records.is_empty() && before.is_none() {
        return;
    }
    page.open("details");
    page.element("summary", words().reports.technical);
    stages(page, records);
    state(page, before, after);
    page.close("details");
}

fn stages(page: &mut Markup, records: &[v1::StageRecord]) {
    if records.is_empty() {
        return;
    }
    let texts = &words().page;
    page.open_with("ol", &[("class", "stages"), ("aria-label", texts.stages)]);
    for record in records {
        page.open_class("li", if record.passed { "passed" } else { "failed" });
        page.text(describe::stage_name(record.stage()));
        page.constant(" ");
        let verdict = if record.passed { texts.passed } else { texts.stage_failed };
        let text = format!("{verdict}, {}", script_lines::duration(record.duration_us));
        page.element_class("span", "faint", &text);
        page.close("li");
    }
    page.close("ol");
}

/// Writes the page's signatures before and after the action, and their differences.
fn state(page: &mut Markup, before: Option<&v1::StateSignature>, after: Option<&v1::StateSignature>) {
    let Some(before) = before else { return };
    let texts = &words().page;
    page.open_class("div", "wide");
    page.open_class("table", "state");
    match after {
        Some(_) => page.row_of_heads(&[texts.page_state, texts.before, texts.after, ""]),
        None => page.row_of_heads(&[texts.page_state, texts.before]),
    }
    page.open("tbody");
    type Part = fn(&v1::StateSignature) -> &str;
    let rows: [(&str, Part, bool); 5] = [
        ("url", |state| &state.url, false),
        ("title", |state| &state.title, false),
        ("dom", |state| &state.dom_hash, true),
        ("anchors", |state| &state.anchors_hash, true),
        ("inputs", |state| &state.inputs_hash, true),
    ];
    for (name, part, is_hash) in rows {
        let changed = after.is_some_and(|after| part(after) != part(before));
        page.open_class("tr", if changed { "changed" } else { "same" });
        page.element("td", name);
        for side in [Some(before), after].into_iter().flatten() {
            page.open("td");
            let value = part(side);
            let shown: String =
                if is_hash { value.chars().take(HASH_LENGTH).collect() } else { value.to_owned() };
            page.element("code", &shown);
            page.close("td");
        }
        if after.is_some() {
            page.element("td", if changed { texts.different } else { texts.same });
        }
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
}

fn meanwhile(page: &mut Markup, changes: Option<&v1::PageChanges>) {
    let Some(changes) = changes else { return };
    let texts = &words().page;
    page.open("dl");
    let navigation = match changes.navigation() {
        v1::NavigationKind::SameDocument => texts.same_document,
        v1::NavigationKind::Document => texts.document,
        v1::NavigationKind::None | v1::NavigationKind::Unspecified => "",
    };
    let status = changes.status.map(|status| format!(" ({status})")).unwrap_or_default();
    if !navigation.is_empty() {
        page.pair(texts.navigation, &format!("{navigation}{status}"));
    }
    page.pair_list(texts.redirects, &changes.redirects);
    let dialogs = changes.dialogs.iter().map(|dialog| {
        let template =
            if dialog.accepted { words().act.dialog_accepted } else { words().act.dialog_dismissed };
        fill(template, &[&dialog.kind, &dialog.message])
    });
    page.pair_list(texts.dialogs, &dialogs.collect::<Vec<_>>());
    page.pair_list(texts.tabs, &changes.new_tabs);
    let downloads = changes.downloads.iter().map(|download| {
        let size = describe::bytes(download.bytes);
        format!("{} {} {size} {} {}", download.file_name, download.state, download.url, download.path)
    });
    page.pair_list(texts.downloads, &downloads.collect::<Vec<_>>());
    let blocked =
        changes.blocked.iter().map(|blocked| format!("{} {} ({})", blocked.host, blocked.url, blocked.kind));
    page.pair_list(texts.blocked, &blocked.collect::<Vec<_>>());
    page.close("dl");
}

/// Writes the pictures before and after, side by side, then the picture that the action itself took. Where there is no
/// picture after the action, `follower` takes its place.
fn pictures<'r>(
    page: &mut Markup,
    gallery: &mut Gallery<'r>,
    evidence: &'r [v1::EvidenceRef],
    target: Option<&v1::ResolutionRecord>,
    follower: Option<&'r v1::EvidenceRef>,
) {
    let texts = &words().page;
    let of = |kind: &'static str| evidence.iter().find(|piece| piece.kind == kind);
    let (before, after, own) = (of(SCREENSHOT_BEFORE), of(SCREENSHOT_AFTER), of(SCREENSHOT));
    let stands_in = before.is_some() && after.is_none();
    let shown = [
        (before, texts.picture_before, target),
        (after, texts.picture_after, None),
        (follower.filter(|piece| stands_in && gallery.has(piece)), texts.picture_next, None),
        (own, texts.picture, None),
    ];
    if shown.iter().all(|(piece, ..)| piece.is_none()) {
        return;
    }
    page.open_class("div", "pictures");
    for (piece, caption, target) in shown {
        if let Some(piece) = piece {
            gallery.figure(page, piece, caption, target);
        }
    }
    page.close("div");
}
