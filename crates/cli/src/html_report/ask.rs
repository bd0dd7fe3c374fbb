//! The sections that only asks have: the answer, and how the specs that were called were chosen.

use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;
use capataz_display::answer::{answer, call_reason, sure, transition_line};
use capataz_display::paint::Paint;
use capataz_display::words::routing::reason;
use capataz_display::words::{fill, words};

use super::markup::Markup;
use super::story::Part;
use super::{Content, Report, outputs, plan, rows};

/// Maximum number of other specs that are named beside the one that was chosen.
const MOST_ALTERNATIVES: usize = 10;

/// Writes the answer of the last spec that was called.
pub fn said(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    page.open_with("section", &[("id", "answer")]);
    page.element("h2", texts.answer);
    page.open_class("p", "faint");
    page.text(&story.asked);
    page.close("p");
    let given = story.waves.iter().rev().flat_map(|wave| &wave.tasks).find_map(outputs::output_of);
    let response = given.cloned().map(|mut given| {
        let whole = match &given.data {
            Some(Data::Blob(blob)) => report.evidence.get(&blob.blake3),
            Some(Data::Inline(_)) | None => None,
        };
        if let Some(Content::Here(content)) = whole {
            given.data = Some(Data::Inline(content.clone()));
        }
        given
    });
    let error = story.finished.as_ref().and_then(|finished| finished.error.as_ref());
    match (&response, story.finished.is_some()) {
        (None, false) => page.element("p", texts.not_answered),
        _ => {
            let result = v1::AskResult { response, ..v1::AskResult::default() };
            page.open_class("pre", "said");
            page.block(&answer(&result, error, Paint::OFF));
            page.close("pre");
        }
    }
    page.close("section");
}

/// Writes the calls of specs, each with the reasons for it, and the transitions between them.
pub fn routing(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    let until_ms = story.until_ms(report.now_ms);
    page.open_with("section", &[("id", "routing")]);
    page.element("h2", texts.routing);
    for (place, wave) in story.waves.iter().enumerate() {
        let Part::Call(call) = &wave.part else { continue };
        page.open("h3");
        page.text(&rows::title(story, place, wave));
        for task in &wave.tasks {
            page.constant(" ");
            page.element_class("span", plan::class(task), rows::state_of(task));
        }
        page.close("h3");
        let routed = call.routing.clone().unwrap_or_default();
        page.open("p");
        page.text(call_reason(call.reason()));
        if !routed.reason.is_empty() {
            page.text(&format!(": {}", reason(&routed.reason)));
        }
        page.close("p");
        page.open("dl");
        page.pair(texts.confidence, &sure(routed.confidence));
        page.pair(texts.intent, &routed.detected_intent);
        page.pair(texts.keywords, &routed.keywords_matched.join(", "));
        page.pair(texts.pattern, routed.suggested_pattern.as_deref().unwrap_or_default());
        let others = routed.alternatives.iter().take(MOST_ALTERNATIVES);
        let others = others.map(|other| format!("{} ({})", other.spec, sure(other.confidence)));
        page.pair(texts.alternatives, &others.collect::<Vec<_>>().join(", "));
        if let Some(alone) = &routed.alone {
            let values = [alone.spec.as_str(), &sure(alone.confidence), &reason(&alone.reason)];
            page.pair(words().router.held, &fill(words().router.alone, &values));
        }
        page.close("dl");
        let attempts: Vec<String> =
            wave.tasks.iter().flat_map(|task| rows::attempts(task, until_ms)).collect();
        if attempts.len() > 1 {
            page.open_class("ol", "attempts");
            attempts.iter().for_each(|line| page.element("li", line));
            page.close("ol");
        }
        if let Some(parts) = &routed.confidence_breakdown {
            page.open("details");
            page.element("summary", texts.technical);
            let parts = [
                (texts.share_keywords, parts.keyword),
                (texts.share_intent, parts.intent),
                (texts.share_context, parts.context),
            ];
            page.open("dl");
            parts.iter().for_each(|(name, share)| page.pair(name, &format!("{share:.4}")));
            page.close("dl");
            page.close("details");
        }
    }
    if !story.transitions.is_empty() {
        page.element("h3", texts.transitions);
        page.open("ul");
        for transition in &story.transitions {
            page.element("li", &transition_line(transition));
        }
        page.close("ul");
    }
    page.close("section");
}
