//! Reports of fixed lists of events.

mod asks;
mod modes;
mod pipelines;
mod plans;
mod script;

use super::*;
use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::run_accepted::Work;

/// The story of these events.
fn story_of(events: &[v1::Event]) -> Story {
    let mut story = Story::new("0199");
    events.iter().for_each(|event| story.apply(event));
    story
}

/// Events at these times, in milliseconds after the first.
fn at(bodies: impl IntoIterator<Item = (i64, Body)>) -> Vec<v1::Event> {
    const BEGAN: i64 = 1_774_083_600_000;
    let numbered = bodies.into_iter().zip(1..);
    numbered
        .map(|((after, body), seq)| v1::Event {
            seq,
            at_ms: BEGAN + after,
            format: 3,
            elapsed_ms: after,
            body: Some(body),
        })
        .collect()
}

/// The report of these events, looked at when the last of them came.
fn report(events: &[v1::Event]) -> Report {
    Report {
        story: story_of(events),
        run: None,
        version: "1.2.3".to_owned(),
        evidence: BTreeMap::new(),
        now_ms: events.last().map_or(0, |event| event.at_ms),
    }
}

fn page(bodies: impl IntoIterator<Item = (i64, Body)>) -> String {
    html(&report(&at(bodies)))
}

fn accepted(work: Work) -> Body {
    Body::RunAccepted(Box::new(v1::RunAccepted { work: Some(work), ..v1::RunAccepted::default() }))
}

fn task(name: &str) -> v1::Task {
    v1::Task { name: name.to_owned(), agent: format!("agent-{name}"), ..v1::Task::default() }
}

fn leased(wave: u32, task: u32, attempt: u32) -> Body {
    Body::TaskLeased(v1::TaskLeased {
        wave,
        task,
        attempt,
        activation: 1,
        worker: "w1".to_owned(),
        ..v1::TaskLeased::default()
    })
}

fn error(code: &str, message: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: message.to_owned(), ..v1::Error::default() }
}

fn settled(wave: u32, task: u32, status: v1::ResultStatus) -> v1::TaskSettled {
    v1::TaskSettled { wave, task, status: status.into(), attempts: 1, ..v1::TaskSettled::default() }
}

fn good(wave: u32, task: u32, output: &str) -> Body {
    let output = Some(json(output));
    let settled = v1::TaskSettled { output, ..settled(wave, task, v1::ResultStatus::Success) };
    Body::TaskSettled(Box::new(settled))
}

fn bad(wave: u32, task: u32, error: v1::Error, log: &str) -> Body {
    let log = log.to_owned();
    let settled = v1::TaskSettled { error: Some(error), log, ..settled(wave, task, v1::ResultStatus::Error) };
    Body::TaskSettled(Box::new(settled))
}

fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.to_owned().into())),
    }
}

fn finished(outcome: v1::RunOutcome, error: Option<v1::Error>) -> Body {
    Body::RunFinished(v1::RunFinished { outcome: outcome.into(), error, ..v1::RunFinished::default() })
}

/// These parts are on the page, in this order.
#[track_caller]
fn shows(page: &str, parts: &[&str]) {
    let mut rest = page;
    for part in parts {
        let found = rest.find(part);
        assert!(found.is_some(), "{part:?}, after those before it, in\n{page}");
        rest = &rest[found.unwrap_or_default() + part.len()..];
    }
}

/// The values of all attributes that could load something.
fn addresses(page: &str) -> Vec<&str> {
    ["href=\"", "src=\"", "url(", "srcset=\"", "action=\"", "poster=\"", "data=\""]
        .into_iter()
        .flat_map(|name| page.split(name).skip(1))
        .map(|rest| rest.split(['"', ')']).next().unwrap_or_default())
        .collect()
}

/// Each element that was opened is closed, in the right order.
#[track_caller]
fn is_whole(page: &str) {
    const VOID: [&str; 5] = ["meta", "br", "rect", "circle", "use"];
    let mut open: Vec<&str> = Vec::new();
    let text = page.split_once("</style>").map_or(page, |(_, rest)| rest);
    for tag in text.split('<').skip(1) {
        let name = tag.split([' ', '>', '/', '\n']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(rest) => {
                let closed = rest.split('>').next().unwrap_or_default();
                assert!(
                    ["head", "html"].contains(&closed) || open.pop() == Some(closed),
                    "</{closed}> in\n{page}"
                );
            }
            None if VOID.contains(&name) || tag.split('>').next().is_some_and(|tag| tag.ends_with('/')) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, [""; 0], "{page}");
}

/// Texts that would be markup, leave their place, or change the direction of the writing.
const HOSTILE: &str =
    "</title></style></script><script>alert(1)</script><img src=x onerror=\"a('2')\">\u{202e}\u{1b}[2J\0";

/// A page that has [`HOSTILE`] as text, and as nothing else.
#[track_caller]
fn is_harmless(page: &str) {
    is_whole(page);
    assert_eq!(page.matches("<script").count(), 1, "only the page's own");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("onerror=\""), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{1b}', '\0']), "nothing changes the direction, and nothing acts");
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("\\u{202e}\\u{1b}[2J\\u{0}"), "{page}");
    for address in addresses(page) {
        assert!(address.starts_with('#'), "{address}");
    }
}

#[test]
fn whatever_is_missing_of_a_run_its_page_is_whole() {
    for story in [plans::story(), modes::story()] {
        let events = at(story);
        for (from, _) in events.iter().enumerate() {
            for until in from..=events.len() {
                is_whole(&html(&report(&events[from..until])));
            }
        }
        let mut backwards = events;
        backwards.reverse();
        is_whole(&html(&report(&backwards)));
    }
}

#[test]
fn no_clock_of_a_run_is_too_far_ahead_or_behind_for_its_page() {
    const TIMES: [i64; 4] = [i64::MIN, -1, 0, i64::MAX];
    for story in [plans::story(), modes::story()] {
        let events = at(story);
        for (first, then) in TIMES.into_iter().flat_map(|first| TIMES.map(|then| (first, then))) {
            let of_clock = |(place, event): (usize, &v1::Event)| v1::Event {
                at_ms: if place.is_multiple_of(2) { first } else { then },
                ..event.clone()
            };
            let events: Vec<v1::Event> = events.iter().enumerate().map(of_clock).collect();
            is_whole(&html(&report(&events)));
        }
    }
}
