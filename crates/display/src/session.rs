//! Sessions: a table of them, and the page of one.

use capataz_contracts::v1;

use crate::format;
use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::{fill, words};

/// Columns of a message on a page.
const MESSAGE_WIDTH: usize = 100;

/// A table of sessions.
#[must_use]
pub fn list(sessions: &[v1::Session], now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().session_views.head);
    for session in sessions {
        table.row([
            (session.session.clone(), Tone::Strong),
            (fill(words().agents.ago, &[&format::age(now_ms - session.created_at_ms)]), Tone::Plain),
            (fill(words().agents.ago, &[&format::age(now_ms - session.updated_at_ms)]), Tone::Plain),
            (session.suggestions.len().to_string(), Tone::Plain),
            (session.stream_id.clone(), Tone::Faint),
        ]);
    }
    table.render(paint)
}

/// The page of one session: who it is with, what can be accepted, and the last messages.
#[must_use]
pub fn show(session: &v1::Session, now_ms: i64, paint: Paint) -> String {
    let texts = &words().session_views;
    let context = session.context.clone().unwrap_or_default();
    let mut lines = vec![
        (texts.name, session.session.clone()),
        (texts.spec, context.current_spec.unwrap_or_else(|| texts.nobody.to_owned())),
        (texts.messages, context.message_count.to_string()),
        (texts.begun, format::utc(session.created_at_ms)),
        (texts.changed, fill(words().agents.ago, &[&format::age(now_ms - session.updated_at_ms)])),
    ];
    lines.extend(context.emotional_state.map(|state| (texts.mood, state)));
    lines.extend(context.engagement_level.map(|level| (texts.attention, level)));
    let width = lines.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let head: Vec<String> =
        lines.iter().map(|(title, value)| format!("{title:<width$}  {}", visible(value))).collect();
    let mut parts = vec![head.join("\n")];
    let suggestions: Vec<String> = session
        .suggestions
        .iter()
        .map(|suggested| {
            let transition = suggested.transition.clone().unwrap_or_default();
            let command = format!("capataz router accept {} {}", session.session, suggested.request_id);
            let what = fill(texts.suggestion, &[&transition.to, &transition.reason]);
            format!("  {}\n    `{}`", visible(&what), visible(&command))
        })
        .collect();
    if !suggestions.is_empty() {
        parts.push(format!("{}\n{}", texts.suggestions, suggestions.join("\n")));
    }
    let messages: Vec<String> = context
        .history
        .iter()
        .map(|message| {
            let who = match (message.role(), &message.spec) {
                (v1::MessageRole::Assistant, Some(spec)) => spec.clone(),
                (v1::MessageRole::Assistant, None) => texts.answer.to_owned(),
                _ => texts.user.to_owned(),
            };
            let text = crate::frame::truncated(&visible(&message.text), MESSAGE_WIDTH);
            format!("  {} {}: {text}", format::utc(message.at_ms), paint.text(Tone::Strong, &visible(&who)))
        })
        .collect();
    if !messages.is_empty() {
        parts.push(format!("{}\n{}", texts.history, messages.join("\n")));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn session() -> v1::Session {
        let message = |role: v1::MessageRole, text: &str, spec: Option<&str>, at_ms| v1::SessionMessage {
            role: role.into(),
            text: text.to_owned(),
            spec: spec.map(str::to_owned),
            at_ms,
        };
        v1::Session {
            session: "career".to_owned(),
            created_at_ms: 0,
            updated_at_ms: 60_000,
            stream_id: "0190".to_owned(),
            suggestions: vec![v1::SessionSuggestion {
                request_id: "r1".to_owned(),
                transition: Some(v1::AskTransition {
                    to: "coach".to_owned(),
                    reason: "plans".to_owned(),
                    ..v1::AskTransition::default()
                }),
                ..v1::SessionSuggestion::default()
            }],
            context: Some(v1::SessionContext {
                current_spec: Some("guide".to_owned()),
                message_count: 2,
                history: vec![
                    message(v1::MessageRole::User, "where\u{1b}[2J to?", None, 1_000),
                    message(v1::MessageRole::Assistant, "there", Some("guide"), 2_000),
                ],
                ..v1::SessionContext::default()
            }),
            ..v1::Session::default()
        }
    }

    #[test]
    fn sessions_are_listed_and_shown_in_both_languages() {
        assert_eq!(
            list(&[session()], 120_000, Paint::OFF),
            "SESSION  BEGUN   CHANGED  SUGGESTIONS  STREAM\ncareer   2m ago  1m ago   1            0190"
        );
        assert_eq!(
            show(&session(), 120_000, Paint::OFF),
            "\
Session   career
Spec      guide
Messages  2
Begun     1970-01-01 00:00:00Z
Changed   1m ago

Suggestions:
  coach: plans
    `capataz router accept career r1`

Last messages:
  1970-01-01 00:00:01Z user: where\\u{1b}[2J to?
  1970-01-01 00:00:02Z guide: there"
        );
        let spanish = Language::Spanish.within(|| show(&session(), 120_000, Paint::OFF));
        assert!(spanish.starts_with("Sesión    career\nSpec      guide\nMensajes  2\n"), "{spanish}");
        assert!(spanish.contains("\n\nSugerencias:\n"), "{spanish}");
    }
}
