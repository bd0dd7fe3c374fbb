//! The failure of an action, and its evidence.

use capataz_contracts::v1;
use serde_json::Value;

use super::super::markup::Markup;
use super::super::{Content, MOST_SNAPSHOTS, Report, SNAPSHOT};
use capataz_display::script::describe;
use capataz_display::words::advice::advice;
use capataz_display::words::messages::message;
use capataz_display::words::{fill, words};

/// Maximum number of characters of an indented snapshot.
const SNAPSHOT_LENGTH: usize = 400_000;

/// Writes an executor's error with all of its fields.
pub fn failure(page: &mut Markup, report: &Report, failed: &v1::ActionFailed) {
    let texts = &words().page;
    let Some(error) = &failed.error else { return };
    page.open_class("div", "error");
    page.open("h4");
    page.element("code", &error.error_code);
    page.constant(" ");
    page.text(&message(&error.message));
    page.close("h4");
    page.open("dl");
    page.pair(texts.stage, describe::stage_name(error.stage()));
    page.pair(texts.severity, describe::severity_name(error.severity()));
    page.pair(texts.retryable, if error.retryable == Some(true) { texts.yes } else { texts.no });
    page.pair(texts.next, describe::after_failure(failed.next()));
    page.pair(texts.cause, &message(error.cause.as_deref().unwrap_or_default()));
    if let Some(advice) = advice(&error.error_code) {
        page.pair(texts.advice, advice);
    }
    if let Some(place) = describe::page_of(&error.error_code) {
        page.pair(texts.advice_page, &place);
    }
    page.close("dl");
    conditions(page, &error.failed_conditions);
    if let Some(details) = &error.details {
        page.element("h5", texts.details);
        page.open("pre");
        page.block(&laid_out(details));
        page.close("pre");
    }
    evidence(page, report, &error.evidence_refs);
    page.close("div");
}

/// Writes the run's own error, recorded where the executor could not report one.
pub fn settled(page: &mut Markup, error: &v1::Error) {
    page.open_class("div", "error");
    page.open("h4");
    page.text(words().page.task_error);
    page.text(": ");
    page.element("code", &error.code);
    page.constant(" ");
    page.text(&message(&error.message));
    page.close("h4");
    page.close("div");
}

fn conditions(page: &mut Markup, failed: &[v1::FailedCondition]) {
    if failed.is_empty() {
        return;
    }
    let texts = &words().page;
    page.element("h5", texts.failed_conditions);
    page.open_class("div", "wide");
    page.open("table");
    page.row_of_heads(&[texts.phase, texts.condition, texts.observed]);
    page.open("tbody");
    for condition in failed {
        page.open("tr");
        page.element("td", &condition.phase);
        page.element("td", &condition.kind);
        page.open("td");
        page.open("pre");
        page.block(&laid_out(condition.args.as_deref().unwrap_or_default()));
        page.close("pre");
        page.close("td");
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
}

fn evidence(page: &mut Markup, report: &Report, pieces: &[v1::EvidenceRef]) {
    if pieces.is_empty() {
        return;
    }
    let texts = &words().page;
    page.open("details");
    page.element("summary", &format!("{} ({})", texts.evidence, pieces.len()));
    page.open_class("div", "wide");
    page.open("table");
    page.row_of_heads(&[texts.kind_of, texts.size, texts.id, ""]);
    page.open("tbody");
    for piece in pieces {
        page.open("tr");
        page.element("td", &piece.kind);
        page.element("td", &describe::bytes(piece.bytes));
        page.open("td");
        page.element("code", &piece.id);
        page.close("td");
        let note = match report.evidence.get(&piece.id) {
            Some(Content::Missing(why)) => fill(texts.missing, &[&piece.kind, why]),
            _ if piece.redacted => texts.redacted.to_owned(),
            _ => String::new(),
        };
        page.element("td", &note);
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
    page.close("details");
}

/// Writes the kept snapshots of the page around the target.
pub fn snapshots(page: &mut Markup, report: &Report, pieces: &[v1::EvidenceRef]) {
    let texts = &words().page;
    for piece in pieces.iter().filter(|piece| piece.kind == SNAPSHOT) {
        let why = match report.evidence.get(&piece.id) {
            Some(Content::Here(content)) => match std::str::from_utf8(content) {
                Ok(text) => {
                    let text: String = laid_out(text).chars().take(SNAPSHOT_LENGTH).collect();
                    page.folded(texts.snapshot, &text);
                    continue;
                }
                Err(_) => fill(texts.not_shown, &[&piece.kind]),
            },
            Some(Content::Missing(why)) => fill(texts.missing, &[&piece.kind, why]),
            Some(Content::TooMany) => fill(texts.too_many_snapshots, &[&MOST_SNAPSHOTS.to_string()]),
            Some(Content::TooLarge) => fill(texts.too_large, &[&describe::bytes(piece.bytes)]),
            None => continue,
        };
        page.element_class("p", "faint", &why);
    }
}

/// Indents JSON over several lines; other text stays unchanged.
fn laid_out(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned()),
        Err(_) => text.to_owned(),
    }
}
