//! The report of a script as one HTML file, readable without a network, without scripts, in light and in dark mode.
//!
//! [`html`] is pure: its input is a fold of the run's events with the contents of its evidence, its output is text. All
//! text from a page, a script or a person is escaped by [`markup::Markup`], which writes no other text, and never
//! becomes a link or a reference. The only addresses in the file are `data:` addresses of pictures, and the policy in
//! its head allows a browser no others.
//!
//! The size is bounded: pictures, snapshots and tries beyond a limit are left out, and the page says so.

mod action;
mod failure;
mod markup;
mod overview;
mod pictures;

use std::collections::BTreeMap;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_policy::executor::evidence::{DOM_SNAPSHOT as SNAPSHOT, SCREENSHOT_BEFORE as BEFORE};

use capataz_display::script::fold::{Activity, Ending, ScriptRun, Try};
use capataz_display::words::{fill, words};
use markup::Markup;
use pictures::Gallery;

/// Maximum number of pictures in one report.
pub const MOST_PICTURES: usize = 200;
/// Maximum number of bytes of pictures in one report.
pub const MOST_PICTURE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of page snapshots in one report.
pub const MOST_SNAPSHOTS: usize = 50;
/// Maximum number of bytes of one snapshot.
pub const MOST_SNAPSHOT_BYTES: u64 = 512 * 1024;
/// Maximum number of tries in one report.
const MOST_TRIES: usize = 2_000;

/// Media types of pictures that are shown.
const PICTURES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

/// The input of a report.
#[derive(Debug)]
pub struct Report {
    pub run_id: String,
    pub script: ScriptRun,
    /// The run's open questions.
    pub questions: Vec<v1::Question>,
    /// The version of the program that makes the report.
    pub version: String,
    /// The evidence that [`wanted`] asked for, by id.
    pub evidence: BTreeMap<String, Content>,
    /// The current time, for a run that goes on.
    pub now_ms: i64,
}

/// The contents of a piece of evidence, or the reason why the report omits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Here(Bytes),
    /// The evidence is no longer stored, or cannot be read; the text says why.
    Missing(String),
    TooMany,
    TooLarge,
}

/// Lists the evidence that a report shows, in the order in which it appears, each piece once. A piece beyond a limit
/// comes with the reason for its omission.
pub fn wanted(script: &ScriptRun) -> Vec<(v1::EvidenceRef, Option<Content>)> {
    let (mut pictures, mut bytes, mut snapshots) = (0_usize, 0_u64, 0_usize);
    let mut seen = BTreeMap::new();
    let mut wanted = Vec::new();
    let tries = script.activities.iter().flat_map(|activity| &activity.tries).take(MOST_TRIES);
    for piece in tries.flat_map(evidence_of) {
        let is_picture = is_picture(piece);
        let is_snapshot = piece.kind == SNAPSHOT;
        if !(is_picture || is_snapshot) || seen.insert(piece.id.as_str(), ()).is_some() {
            continue;
        }
        let refused = if is_picture && pictures >= MOST_PICTURES || is_snapshot && snapshots >= MOST_SNAPSHOTS
        {
            Some(Content::TooMany)
        } else if is_picture && bytes.saturating_add(piece.bytes) > MOST_PICTURE_BYTES
            || is_snapshot && piece.bytes > MOST_SNAPSHOT_BYTES
        {
            Some(Content::TooLarge)
        } else {
            None
        };
        if refused.is_none() && is_picture {
            pictures += 1;
            bytes = bytes.saturating_add(piece.bytes);
        } else if refused.is_none() {
            snapshots += 1;
        }
        wanted.push((piece.clone(), refused));
    }
    wanted
}

fn is_picture(piece: &v1::EvidenceRef) -> bool {
    PICTURES.contains(&piece.media_type.as_str())
}

/// The evidence of a try, including the pictures and snapshots of its failures.
fn evidence_of(one: &Try) -> Vec<&v1::EvidenceRef> {
    match &one.ending {
        // After a success, the snapshot adds nothing to the page's signature.
        Some(Ending::Succeeded(finished)) => {
            finished.evidence.iter().filter(|piece| piece.kind != SNAPSHOT).collect()
        }
        Some(Ending::Failed(failures)) => {
            let errors = failures.iter().filter_map(|failed| failed.error.as_ref());
            errors.flat_map(|error| &error.evidence_refs).collect()
        }
        Some(Ending::Done) | None => Vec::new(),
    }
}

/// The report as HTML.
pub fn html(report: &Report) -> String {
    let mut page = Markup::default();
    let mut gallery = Gallery::new(report);
    overview::head(&mut page, report);
    page.open("body");
    overview::header(&mut page, report);
    page.open("main");
    overview::timeline(&mut page, report);
    overview::summary(&mut page, report);
    overview::outputs(&mut page, report);
    let mut left = MOST_TRIES;
    for group in groups(&report.script) {
        action::section(&mut page, report, &mut gallery, &group, &mut left);
    }
    if report.script.activities.is_empty() {
        page.element("p", words().page.no_actions);
    }
    page.close("main");
    page.open("footer");
    let texts = &words().page;
    page.element("p", &fill(texts.generated, &[&report.script.seq.to_string()]));
    page.close("footer");
    gallery.definitions(&mut page);
    page.close("body");
    page.close("html");
    page.finish()
}

/// Activities that belong together: an action with its tries and recoveries, or the opening, or the closing of the
/// browser.
struct Group<'r> {
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

#[cfg(test)]
mod tests;
