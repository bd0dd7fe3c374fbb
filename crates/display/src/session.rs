//! Sessions: a table of them, and the page of one.

use capataz_contracts::v1;
use serde_json::Value;

use crate::format;
use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::{fill, words};

/// Columns of a message on a page.
const MESSAGE_WIDTH: usize = 100;

/// Pending tasks that a page names.
const MOST_PENDING: usize = 5;
/// Ends of commands on a page, the newest ones.
const MOST_ENDED: usize = 3;

/// A table of sessions.
#[must_use]
pub fn list(sessions: &[v1::Session], now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().session_views.head);
    for session in sessions {
        table.row([
            (session.session.clone(), Tone::Strong),
            (
                fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(session.created_at_ms))]),
                Tone::Plain,
            ),
            (
                fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(session.updated_at_ms))]),
                Tone::Plain,
            ),
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
        (
            texts.changed,
            fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(session.updated_at_ms))]),
        ),
    ];
    lines.extend(context.emotional_state.map(|state| (texts.mood, state)));
    lines.extend(context.engagement_level.map(|level| (texts.attention, level)));
    let width = lines.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let head: Vec<String> =
        lines.iter().map(|(title, value)| format!("{title:<width$}  {}", visible(value))).collect();
    let mut parts = vec![head.join("\n")];
    parts.extend(work(session.state.as_deref()));
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

/// What the session works at, by the state that its file has: the plan at work, what it waits for, how the last ones ended.
/// `None` where it has had no work.
fn work(state: Option<&str>) -> Option<String> {
    let state: Value = serde_json::from_str(state?).ok()?;
    let texts = &words().session_views;
    let text = |value: &Value| value.as_str().map(visible).filter(|text| !text.is_empty());
    let flow = &state["current_flow"];
    let mut lines: Vec<(&str, String)> = Vec::new();
    if let Some(command) = text(&flow["command"]) {
        let phase =
            text(&flow["phase"]).map_or_else(|| command.clone(), |phase| format!("{command}, {phase}"));
        let since = text(&flow["started_at"]);
        lines.push((
            texts.flow,
            since.map_or(phase.clone(), |since| fill(texts.flow_since, &[&phase, &since])),
        ));
        lines.extend(text(&flow["run_id"]).map(|run| (texts.of_run, run)));
    }
    lines.extend(text(&state["blocked_on"]).map(|what| (texts.blocked, what)));
    let pending: Vec<String> =
        state["pending_tasks"].as_array().into_iter().flatten().filter_map(text).collect();
    if !pending.is_empty() {
        let named = pending.iter().take(MOST_PENDING).cloned().collect::<Vec<_>>().join(", ");
        let more = pending.len().saturating_sub(MOST_PENDING);
        let told = if more > 0 { fill(texts.pending_more, &[&named, &more.to_string()]) } else { named };
        lines.push((texts.pending, told));
    }
    let failures = state["errors"]["count"].as_u64().filter(|count| *count > 0);
    lines.extend(failures.map(|count| (texts.failures, count.to_string())));
    let history = state["history"].as_array().into_iter().flatten().rev().take(MOST_ENDED);
    for entry in history {
        let Some(command) = text(&entry["command"]) else { continue };
        let result =
            text(&entry["result"]).map_or_else(|| command.clone(), |result| format!("{command}: {result}"));
        let at = text(&entry["completed_at"]);
        lines.push((texts.ended, at.map_or(result.clone(), |at| fill(texts.ended_at, &[&result, &at]))));
    }
    lines.extend(text(&state["suggested_next"]).map(|next| (texts.next, next)));
    if lines.is_empty() {
        return None;
    }
    let width = lines.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let lines = lines.iter().map(|(title, value)| format!("  {title:<width$}  {value}"));
    Some(std::iter::once(texts.work.to_owned()).chain(lines).collect::<Vec<_>>().join("\n"))
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
            "SESSION  BEGUN   CHANGED  STREAM\ncareer   2m ago  1m ago   0190"
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

    #[test]
    fn the_work_of_a_session_is_told_in_both_languages() {
        let state = serde_json::json!({
            "current_flow": {
                "command": "execute", "phase": "executing_wave_2", "started_at": "2026-01-02T03:04:05.000Z",
                "run_id": "0199", "errors": 1,
            },
            "blocked_on": "the answer to q1",
            "pending_tasks": ["a", "b", "c", "d", "e\u{1b}[2J", "f", "g"],
            "errors": { "count": 1 },
            "history": [
                { "command": "plan", "completed_at": "2026-01-01T00:00:00.000Z", "result": "succeeded" },
                { "command": "execute", "completed_at": "2026-01-02T00:00:00.000Z", "result": "failed" },
            ],
            "suggested_next": "verify-work",
        });
        let session = v1::Session { state: Some(state.to_string()), ..v1::Session::default() };
        let shown = show(&session, 0, Paint::OFF);
        let (_, shown) = shown.split_once("\n\n").unwrap_or_default();
        assert_eq!(
            shown,
            "\
Work:
  At work    execute, executing_wave_2, since 2026-01-02T03:04:05.000Z
  Run        0199
  Waits for  the answer to q1
  Pending    a, b, c, d, e\\u{1b}[2J and 2 more
  Failures   1
  Ended      execute: failed at 2026-01-02T00:00:00.000Z
  Ended      plan: succeeded at 2026-01-01T00:00:00.000Z
  Next       verify-work"
        );
        let spanish = Language::Spanish.within(|| show(&session, 0, Paint::OFF));
        let (_, spanish) = spanish.split_once("\n\n").unwrap_or_default();
        assert_eq!(
            spanish,
            "\
Trabajo:
  En curso    execute, executing_wave_2, desde 2026-01-02T03:04:05.000Z
  Ejecución   0199
  Espera      the answer to q1
  Pendientes  a, b, c, d, e\\u{1b}[2J y 2 más
  Fallos      1
  Terminado   execute: failed el 2026-01-02T00:00:00.000Z
  Terminado   plan: succeeded el 2026-01-01T00:00:00.000Z
  Siguiente   verify-work"
        );
        let idle = v1::Session { state: Some("{}".to_owned()), ..v1::Session::default() };
        assert!(!show(&idle, 0, Paint::OFF).contains("Work"));
    }
}
