//! The report of a run as one HTML file, readable without a network, in light and in dark mode, on a phone and on paper.
//!
//! [`html`] is pure: its input is a fold of the run's events with the run as it stands and the contents of its evidence, its
//! output is text. All text from a page, an agent or a person is escaped by [`markup::Markup`], which writes no other text,
//! and never becomes a link or a reference. The only addresses in the file are `data:` addresses of pictures, and the policy
//! in its head allows a browser no others; it runs one script, which tells times in the reader's zone.
//!
//! Begin with [`story`], the fold; then `frame`, which every kind of run has, and [`kind`], what differs. The size is bounded:
//! what is beyond a limit is left out or cut, and the page says so.

mod ask;
mod failures;
mod frame;
pub mod kind;
mod markup;
mod mode;
mod outputs;
mod people;
mod pipeline;
mod plan;
mod rows;
mod script;
pub mod story;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_policy::executor::evidence::DOM_SNAPSHOT as SNAPSHOT;

use capataz_display::script::fold::{Ending, Try};
use markup::Markup;
use script::pictures::Gallery;
use story::Story;

pub use outputs::wanted as wanted_outputs;

/// Maximum number of pictures in one report.
pub const MOST_PICTURES: usize = 200;
/// Maximum number of bytes of pictures in one report.
pub const MOST_PICTURE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of page snapshots in one report.
pub const MOST_SNAPSHOTS: usize = 50;
/// Maximum number of bytes of one snapshot.
pub const MOST_SNAPSHOT_BYTES: u64 = 512 * 1024;
/// Maximum number of tries of a script's actions in one report.
const MOST_TRIES: usize = 2_000;

/// Media types of pictures that are shown.
const PICTURES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

/// The input of a report.
#[derive(Debug)]
pub struct Report {
    /// The fold of the run's events.
    pub story: Story,
    /// The run as it stands, for what only a look from outside knows: its session, its parent, its children, its notices.
    pub run: Option<v1::Run>,
    /// The version of the program that makes the report.
    pub version: String,
    /// The evidence that [`wanted`] and the outputs that [`wanted_outputs`] asked for, by id.
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
pub fn wanted(story: &Story) -> Vec<(v1::EvidenceRef, Option<Content>)> {
    let (mut pictures, mut bytes, mut snapshots) = (0_usize, 0_u64, 0_usize);
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    let activities = story.model.script.iter().flat_map(|script| &script.activities);
    let of_script = activities.flat_map(|activity| &activity.tries).take(MOST_TRIES).flat_map(evidence_of);
    let of_calls = story.browsed.iter().flat_map(|(_, action)| &action.evidence);
    for piece in of_script.chain(of_calls.filter(|piece| is_picture(piece))) {
        let is_picture = is_picture(piece);
        let is_snapshot = piece.kind == SNAPSHOT;
        if !(is_picture || is_snapshot) || !seen.insert(piece.id.as_str()) {
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
    let story = &report.story;
    let until_ms = story.until_ms(report.now_ms);
    frame::head(&mut page, report);
    page.open("body");
    timeline::patterns(&mut page);
    frame::header(&mut page, report, &mut gallery);
    page.open("main");
    let from_ms = if story.model.script.is_some() { story.model.accepted_at_ms } else { story.began_at_ms };
    story.kind.before_timeline(&mut page, report, until_ms);
    story.kind.timeline(story, until_ms).draw(&mut page, from_ms, until_ms);
    story.kind.after_timeline(&mut page, report, &mut gallery, until_ms);
    people::section(&mut page, report);
    people::children(&mut page, report);
    people::notices(&mut page, report);
    page.close("main");
    frame::footer(&mut page, report);
    gallery.definitions(&mut page);
    frame::local_times(&mut page);
    page.close("body");
    page.close("html");
    page.finish()
}

#[cfg(test)]
mod tests;
