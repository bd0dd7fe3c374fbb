//! Answers of specs, and explanations of routing.

use capataz_contracts::v1::event::Body;
use capataz_contracts::{spec, v1};
use serde_json::Value;

use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::messages::message;
use crate::words::routing::{reason, sign};
use crate::words::{fill, words};

/// Maximum number of specs whose terms are all shown.
const MOST_SPECS: usize = 3;

/// The response of an ask as JSON, or what the daemon goes by of a large one; `None` if there is none or it cannot be parsed.
pub fn response(result: &v1::AskResult) -> Option<Value> {
    match result.response.as_ref()?.data.as_ref()? {
        v1::payload::Data::Inline(bytes) => serde_json::from_slice(bytes).ok(),
        v1::payload::Data::Blob(blob) => serde_json::from_str(&blob.answer.as_ref()?.response).ok(),
    }
}

/// The mark at the end of a text that may go on in the blob.
fn goes_on(result: &v1::AskResult, text: &str) -> &'static str {
    let data = result.response.as_ref().and_then(|response| response.data.as_ref());
    let is_blob = matches!(data, Some(v1::payload::Data::Blob(_)));
    // The cut is before a whole character.
    if is_blob && text.len() + char::MAX.len_utf8() > spec::TEXT_BYTES { " […]" } else { "" }
}

/// A confidence with two digits. Rounding down keeps an uncertain decision from being shown as certain.
pub fn sure(confidence: f64) -> String {
    // The small addend compensates for binary fractions: 0.29 × 100 is less than 29 in binary.
    format!("{:.2}", (confidence * 100.0 + 1e-9).floor() / 100.0)
}

/// The spec that answered, and the router's confidence.
pub fn head(result: &v1::AskResult, paint: Paint) -> String {
    let texts = &words().ask;
    let routing = result.routing.clone().unwrap_or_default();
    let confidence = sure(routing.confidence);
    let text = if routing.is_fallback {
        fill(texts.fallback_head, &[&result.spec, &confidence])
    } else {
        fill(texts.head, &[&result.spec, &visible(&routing.detected_intent), &confidence])
    };
    paint.text(Tone::Faint, &text)
}

/// The spec's message, or the reason why there is none.
pub fn answer(result: &v1::AskResult, error: Option<&v1::Error>, paint: Paint) -> String {
    let response = response(result);
    let said = |pointer: &str| response.as_ref()?.pointer(pointer)?.as_str();
    if let Some(text) = said("/response/text") {
        let parts = response.as_ref().map(|response| parts(response, paint)).unwrap_or_default();
        return format!("{}{}{parts}", visible_lines(text), goes_on(result, text));
    }
    if let Some(message) = said("/error/message") {
        return paint.text(Tone::Warning, &visible_lines(message));
    }
    let why = error.map(|error| format!("{}: {}", error.code, message(&error.message))).unwrap_or_default();
    paint.text(Tone::Bad, &fill(words().ask.no_answer, &[&visible(&why)]))
}

/// What the events of an ask tell beside its tasks.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub text: String,
    /// The calls of specs, in their order.
    pub calls: Vec<v1::AskRouted>,
    pub transitions: Vec<v1::AskTransition>,
}

impl Asked {
    pub fn apply(&mut self, event: &v1::Event) {
        match &event.body {
            Some(Body::RunAccepted(accepted)) => {
                self.text = accepted.ask().map(|ask| ask.text.clone()).unwrap_or_default();
            }
            Some(Body::AskRouted(routed)) => self.calls.push(routed.clone()),
            Some(Body::TransitionConsidered(considered)) => {
                self.transitions.extend(considered.transition.clone());
            }
            _ => {}
        }
    }
}

/// An ask for people: its text, how the specs were chosen that were called for it, and its answer; `result` is absent while
/// there is none.
pub fn page(
    asked: &Asked,
    result: Option<&v1::AskResult>,
    error: Option<&v1::Error>,
    paint: Paint,
) -> String {
    let titled = |title: &str, text: &str| format!("{}\n{text}", paint.text(Tone::Strong, title));
    let calls = asked.calls.iter().map(|call| {
        let routing = call.routing.clone().unwrap_or_default();
        let told =
            v1::AskResult { spec: call.spec.clone(), routing: call.routing.clone(), ..Default::default() };
        let why = match routing.reason.as_str() {
            "" => call_reason(call.reason()).to_owned(),
            why => format!("{}: {}", call_reason(call.reason()), visible(&reason(why))),
        };
        format!("{}\n{why}", head(&told, paint))
    });
    let transitions = asked.transitions.iter().map(transition_line);
    let routing: Vec<String> = calls.chain(transitions).collect();
    let mut parts = vec![titled(words().ask.asked_text, &visible_lines(&asked.text))];
    if !routing.is_empty() {
        parts.push(titled(words().reports.routing, &routing.join("\n")));
    }
    if result.is_some() || error.is_some() {
        let said = answer(&result.cloned().unwrap_or_default(), error, paint);
        parts.push(titled(words().reports.answer, &said));
    }
    parts.join("\n\n")
}

/// Sections and actions of the answer, where they have the form that the seed gives them (seed 001, `response.structured`);
/// whatever else a spec has put there is for programs.
fn parts(response: &Value, paint: Paint) -> String {
    let listed = |name: &str| {
        let list =
            response.pointer("/response/structured").and_then(|structured| structured.get(name)?.as_array());
        list.map(Vec::as_slice).unwrap_or_default()
    };
    let said = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).map(visible_lines);
    let mut shown = String::new();
    for section in listed("sections") {
        let (title, content) = (said(section, "title"), said(section, "content"));
        let title = title.map(|title| paint.text(Tone::Strong, &title));
        for (line, part) in [title, content].into_iter().flatten().enumerate() {
            shown.push_str(if line == 0 { "\n\n" } else { "\n" });
            shown.push_str(&part);
        }
    }
    for (line, action) in
        listed("actions").iter().filter(|action| said(action, "label").is_some()).enumerate()
    {
        shown.push_str(if line == 0 { "\n\n- " } else { "\n- " });
        shown.push_str(&paint.text(Tone::Strong, &said(action, "label").unwrap_or_default()));
        shown.extend(said(action, "priority").map(|priority| format!(" ({priority})")));
        shown.extend(said(action, "description").map(|description| format!(": {description}")));
    }
    shown
}

/// Escapes control characters, which would act on the terminal; line breaks stay.
fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// The hint at another spec, worded by its band; `how` tells how to accept it.
pub fn hint(transition: &v1::AskTransition, how: &str, paint: Paint) -> Option<String> {
    if transition.verdict() != v1::TransitionVerdict::Suggested {
        return None;
    }
    let texts = &words().ask;
    let confidence = sure(transition.confidence);
    let values = [transition.to.as_str(), &confidence, &visible(&transition.reason)];
    // The spec wanted to act by itself, and may not: whoever writes the spec has to see it.
    let warning = transition.automatic.then(|| paint.text(Tone::Warning, texts.not_automatic));
    let with_warning = |text: String| warning.iter().fold(text, |text, warning| format!("{text}\n{warning}"));
    match transition.band() {
        v1::TransitionBand::Prominent => {
            let text = paint.text(Tone::Strong, &fill(texts.prominent, &values));
            Some(format!("{}\n{how}", with_warning(text)))
        }
        v1::TransitionBand::Subtle => {
            Some(with_warning(paint.text(Tone::Faint, &fill(texts.subtle, &values))))
        }
        v1::TransitionBand::Ignored | v1::TransitionBand::Unspecified => None,
    }
}

/// Maximum number of keys that are named in one line.
const MOST_KEYS: usize = 10;

/// The warning about what the session has no room for; `None` if it has kept everything.
pub fn left_out(result: &v1::AskResult, paint: Paint) -> Option<String> {
    let text = fill(words().ask.left_out, &[&keys(result.left_out.as_ref()?)]);
    Some(paint.text(Tone::Warning, &text))
}

/// The warning that only an excerpt of a large answer is shown, why, and how to fetch the whole one.
pub fn not_fetched(run_id: &str, size: u64, why: &str, paint: Paint) -> String {
    let texts = &words().ask;
    let warning = fill(texts.not_fetched, &[&size.to_string(), &visible(why)]);
    let command = fill(texts.fetch_with, &[run_id]);
    format!("{}\n{command}", paint.text(Tone::Warning, &warning))
}

/// The first keys of those that were left out, and how many more there are.
pub fn keys(left_out: &v1::LeftOut) -> String {
    let named: Vec<String> = left_out.keys.iter().take(MOST_KEYS).map(|key| visible(key)).collect();
    let named = named.join(", ");
    match left_out.keys.len().saturating_sub(MOST_KEYS) + left_out.more as usize {
        0 => named,
        more => fill(words().ask.left_out_more, &[&named, &more.to_string()]),
    }
}

pub fn call_reason(reason: v1::CallReason) -> &'static str {
    let texts = &words().ask;
    match reason {
        v1::CallReason::Routed | v1::CallReason::Unspecified => texts.routed,
        v1::CallReason::Explicit => texts.explicit,
        v1::CallReason::Continued => texts.continued,
        v1::CallReason::Transition => texts.by_transition,
        v1::CallReason::Fallback => texts.by_fallback,
    }
}

/// A transition and its fate, in one line.
pub fn transition_line(transition: &v1::AskTransition) -> String {
    let texts = &words().ask;
    let verdict = match transition.verdict() {
        v1::TransitionVerdict::Taken => texts.taken,
        v1::TransitionVerdict::Suggested => texts.suggested,
        v1::TransitionVerdict::Suppressed => texts.suppressed,
        v1::TransitionVerdict::Ignored | v1::TransitionVerdict::Unspecified => texts.ignored,
    };
    // The note is the daemon's, the reason a spec's.
    let why = match transition.note.as_str() {
        "" => visible(&transition.reason),
        note => visible(&message(note)),
    };
    let confidence = sure(transition.confidence);
    fill(texts.transition, &[&visible(&transition.to), &confidence, verdict, &why])
}

/// A table of the terms for the likeliest specs, and of changes that would have altered the winner.
pub fn explanation(explained: &v1::ExplainResponse, paint: Paint) -> String {
    let texts = &words().router;
    let mut parts = Vec::new();
    if let Some(routing) = &explained.routing {
        let confidence = sure(routing.confidence);
        let spec = paint.text(Tone::Strong, &routing.spec);
        let mut line = format!("{spec}  {confidence}  {}", visible(&reason(&routing.reason)));
        if let Some(alone) = &routing.alone {
            let values = [alone.spec.as_str(), &sure(alone.confidence), &visible(&reason(&alone.reason))];
            line = format!("{line}\n{}\n{}", texts.held, fill(texts.alone, &values));
        }
        parts.push(line);
    }
    let mut table = Table::new(texts.terms_head);
    for spec in explained.specs.iter().take(MOST_SPECS) {
        let mut name = spec.spec.clone();
        for term in &spec.terms {
            let tone = if term.contribution < 0.0 { Tone::Bad } else { Tone::Plain };
            table.row([
                (std::mem::take(&mut name), Tone::Strong),
                (sign(&term.kind).to_owned(), Tone::Faint),
                (term.name.clone(), Tone::Plain),
                (format!("{:+.2}", term.contribution), tone),
            ]);
        }
        let sum = format!("{:+.2}", spec.score);
        let confidence = format!("{} {}", texts.confidence, sure(spec.confidence));
        table.row([
            (name, Tone::Strong),
            (texts.total.to_owned(), Tone::Faint),
            (confidence, Tone::Plain),
            (sum, Tone::Strong),
        ]);
    }
    if !table.is_empty() {
        parts.push(table.render(paint));
    }
    if !explained.counterfactuals.is_empty() {
        let lines = explained.counterfactuals.iter().map(|line| format!("  {}", visible(&reason(line))));
        let lines: Vec<String> = std::iter::once(texts.counterfactuals.to_owned()).chain(lines).collect();
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn transition(confidence: f64, automatic: bool) -> v1::AskTransition {
        let band = if confidence > 0.8 { v1::TransitionBand::Prominent } else { v1::TransitionBand::Subtle };
        v1::AskTransition {
            to: "kiro".to_owned(),
            confidence,
            automatic,
            band: band.into(),
            verdict: v1::TransitionVerdict::Suggested.into(),
            reason: "decides".to_owned(),
            ..v1::AskTransition::default()
        }
    }

    /// The answer of the seed's example 3, and structured parts of other forms.
    #[test]
    fn sections_and_actions_of_an_answer_are_shown_and_other_parts_are_not() {
        let shown = |structured: Value| {
            let response =
                serde_json::json!({ "response": { "text": "Para empezar:", "structured": structured } });
            let data = v1::payload::Data::Inline(response.to_string().into());
            let response = v1::Payload { media_type: "application/json".to_owned(), data: Some(data) };
            let result = v1::AskResult { response: Some(response), ..v1::AskResult::default() };
            answer(&result, None, Paint::OFF)
        };
        let whole = serde_json::json!({
            "sections": [
                { "title": "Paso 1", "content": "Identifica.\nAnota.", "type": "action" },
                { "content": "Explora." },
                { "type": "action" },
                "text",
            ],
            "actions": [
                { "label": "Hacer lista", "description": "Documenta", "priority": "high" },
                { "label": "Descansar" },
                { "description": "sin nombre" },
            ],
        });
        assert_eq!(
            shown(whole),
            "\
Para empezar:

Paso 1
Identifica.
Anota.

Explora.

- Hacer lista (high): Documenta
- Descansar"
        );
        for other in [
            serde_json::json!({ "whisper": "_olas_", "wave": "mar" }),
            serde_json::json!({ "sections": "none", "actions": {} }),
            serde_json::json!([1]),
            Value::Null,
        ] {
            assert_eq!(shown(other.clone()), "Para empezar:", "{other}");
        }
    }

    #[track_caller]
    fn check_hint(language: Language, transition: &v1::AskTransition, expected: &str) {
        let shown = language.within(|| hint(transition, "   how", Paint::OFF));
        assert_eq!(shown.as_deref(), Some(expected), "{}", language.tag());
    }

    // S001-TR-08, S001-TR-09
    #[test]
    fn a_suggestion_is_worded_by_its_band_and_only_a_prominent_one_says_how_to_follow_it() {
        let (prominent, subtle) = (transition(0.81, false), transition(0.6, false));
        check_hint(Language::English, &prominent, "-> kiro would suit this better (0.81): decides\n   how");
        check_hint(Language::Spanish, &prominent, "-> kiro sería más adecuado (0.81): decides\n   how");
        check_hint(Language::English, &subtle, "   kiro may suit this, too (0.60): decides");
        check_hint(Language::Spanish, &subtle, "   kiro también podría servir (0.60): decides");
        let painted = |transition| hint(&transition, "   how", Paint::ON).unwrap();
        assert_eq!(
            painted(prominent),
            format!(
                "{}\n   how",
                Paint::ON.text(Tone::Strong, "-> kiro would suit this better (0.81): decides")
            )
        );
        assert_eq!(
            painted(subtle),
            Paint::ON.text(Tone::Faint, "   kiro may suit this, too (0.60): decides")
        );
    }

    #[test]
    fn what_is_not_suggested_is_not_hinted_at() {
        for verdict in [
            v1::TransitionVerdict::Taken,
            v1::TransitionVerdict::Suppressed,
            v1::TransitionVerdict::Ignored,
            v1::TransitionVerdict::Unspecified,
        ] {
            let other = v1::AskTransition { verdict: verdict.into(), ..transition(0.9, false) };
            assert_eq!(hint(&other, "how", Paint::OFF), None, "{verdict:?}");
        }
    }

    // S001-TR-09
    #[test]
    fn a_transition_that_may_not_act_by_itself_is_shown_with_a_warning() {
        check_hint(
            Language::English,
            &transition(0.8, true),
            "   kiro may suit this, too (0.80): decides\n   \
             warning: the spec wanted to hand over by itself, which needs a confidence above 0.8",
        );
        check_hint(
            Language::Spanish,
            &transition(0.7, true),
            "   kiro también podría servir (0.70): decides\n   \
             aviso: el spec quería traspasar por sí mismo, y eso requiere una confianza mayor que 0.8",
        );
    }

    #[test]
    fn what_became_of_a_transition_is_told_in_the_language_of_the_user() {
        let suppressed = v1::AskTransition {
            verdict: v1::TransitionVerdict::Suppressed.into(),
            note: "a transition between these two was taken less than 60 s ago".to_owned(),
            ..transition(0.9, true)
        };
        let told = |language: Language| language.within(|| transition_line(&suppressed));
        assert_eq!(
            told(Language::English),
            "transition to kiro (0.90, held back): a transition between these two was taken less than 60 s ago"
        );
        assert_eq!(
            told(Language::Spanish),
            "paso a kiro (0.90, retenido): hace menos de 60 s que hubo un paso entre estos dos"
        );
        let suggested = Language::Spanish.within(|| transition_line(&transition(0.7, false)));
        assert_eq!(suggested, "paso a kiro (0.70, sugerido): decides", "a spec is not translated");
    }

    #[test]
    fn an_explanation_says_who_would_answer_and_whom_the_router_alone_would_choose() {
        let alone =
            v1::RouterChoice { spec: "wave".to_owned(), confidence: 0.9, reason: "sad words".to_owned() };
        let routing = v1::Routing {
            spec: "kiro".to_owned(),
            confidence: 0.05,
            reason: "nothing".to_owned(),
            alone: Some(alone),
            ..v1::Routing::default()
        };
        let explained = v1::ExplainResponse { routing: Some(routing), ..v1::ExplainResponse::default() };
        let shown = |language: Language| language.within(|| explanation(&explained, Paint::OFF));
        assert_eq!(
            shown(Language::English),
            "kiro  0.05  nothing\nIt answers because the session is with it.\n\
             The router alone would choose wave (0.90): sad words"
        );
        assert!(shown(Language::Spanish).contains("El router solo elegiría wave (0.90)"));
    }

    #[test]
    fn the_signs_of_an_explanation_are_told_in_the_language_of_the_user() {
        let term = |kind: &str, name: &str, contribution| v1::ScoreTerm {
            kind: kind.to_owned(),
            name: name.to_owned(),
            contribution,
        };
        let wave = v1::SpecScore {
            spec: "wave".to_owned(),
            score: 5.5,
            confidence: 0.75,
            terms: vec![term("keyword", "perdido", 2.0), term("intent", "siento", 3.5)],
        };
        let explained = v1::ExplainResponse { specs: vec![wave], ..v1::ExplainResponse::default() };
        assert_eq!(
            Language::Spanish.within(|| explanation(&explained, Paint::OFF)),
            "\
SPEC  SEÑAL          QUÉ             LOGITS
wave  palabra clave  perdido         +2.00
      intención      siento          +3.50
      suma           confianza 0.75  +5.50"
        );
    }
}
