//! What events of older formats say in the present one.

use capataz_contracts::v1::run_accepted::Work;
use capataz_contracts::v1::{BrowserActivity, NoticeKind};

use super::*;

/// Events of format 1 name no format.
const FORMAT_1: u32 = 0;
/// When each event happens.
const AT: i64 = 1_700_000_000_000;

/// What the event says after it was raised.
fn raised(format: u32, mut body: Body) -> Body {
    Upcaster::default().raise(format, &mut body, Timestamp(AT));
    body
}

#[test]
fn a_lease_of_format_1_has_its_warning_a_minute_before_its_end_where_it_is_longer() {
    let lease = |milliseconds: i64| v1::TaskLeased {
        deadline_ms: Some(AT + milliseconds),
        ..v1::TaskLeased::default()
    };
    for (milliseconds, warn_before_ms) in [(60_000, None), (60_001, Some(60_000))] {
        let expected =
            v1::TaskLeased { warn_before_ms, deadline_in_ms: Some(milliseconds), ..lease(milliseconds) };
        assert_eq!(raised(FORMAT_1, Body::TaskLeased(lease(milliseconds))), Body::TaskLeased(expected));
    }
}

#[test]
fn an_event_gets_what_its_format_lacks_and_nothing_else() {
    let lease = v1::TaskLeased {
        deadline_ms: Some(AT + 90_000),
        attempt_deadline_ms: Some(AT + 30_000),
        ..v1::TaskLeased::default()
    };
    let ahead = v1::TaskLeased {
        deadline_in_ms: Some(90_000),
        attempt_deadline_in_ms: Some(30_000),
        ..lease.clone()
    };
    let warned = v1::TaskLeased { warn_before_ms: Some(60_000), ..ahead.clone() };
    for (format, expected) in [(FORMAT_1, warned), (2, ahead), (3, lease.clone())] {
        let body = raised(format, Body::TaskLeased(lease.clone()));
        assert_eq!(body, Body::TaskLeased(expected), "format {format}");
    }
}

/// Up to format 2 it is the time of the next attempt that counts.
#[test]
fn a_failed_attempt_before_format_3_has_the_delay_that_ends_at_the_time_it_names() {
    let failed = |delay_ms: i64| {
        Body::TaskAttemptFailed(v1::TaskAttemptFailed {
            retry_at_ms: AT + 2_000,
            delay_ms,
            ..v1::TaskAttemptFailed::default()
        })
    };
    for (format, delay_ms) in [(FORMAT_1, 2_000), (2, 2_000), (3, 1_500)] {
        assert_eq!(raised(format, failed(1_500)), failed(delay_ms), "format {format}");
    }
}

#[test]
fn a_notice_of_format_1_is_of_the_kind_that_its_code_names() {
    let notice = |code: &str, kind: NoticeKind| {
        let error = v1::Error { code: code.to_owned(), ..v1::Error::default() };
        Body::Notice(v1::Notice { notice: Some(error), kind: kind.into(), ..v1::Notice::default() })
    };
    let kinds = [
        ("RETRY_SUCCESS", NoticeKind::RetrySuccess),
        ("TIMEOUT_IMMINENT", NoticeKind::TimeoutImminent),
        ("AGENT_ABSENT", NoticeKind::AgentAbsent),
        ("OPTIONAL_AGENT_FAILED", NoticeKind::OptionalAgentFailed),
        ("INCOMPLETE_LIFECYCLE", NoticeKind::IncompleteLifecycle),
        ("PARTIAL_SUCCESS", NoticeKind::PartialSuccess),
    ];
    for (code, kind) in kinds {
        assert_eq!(raised(FORMAT_1, notice(code, NoticeKind::Unspecified)), notice(code, kind));
    }
}

/// When a session is closed to which nobody proposes anything, and how far that lies ahead.
type Idle = (Option<i64>, Option<i64>);

#[test]
fn a_session_of_format_1_waits_only_where_every_proposed_action_is_done() {
    let script = v1::Script { interactive: true, idle_timeout_ms: Some(7_000), ..v1::Script::default() };
    let accepted = v1::RunAccepted { work: Some(Work::Script(script)), ..v1::RunAccepted::default() };
    let mut session = Upcaster::new(&accepted);
    let opened = || Body::BrowserOpened(v1::BrowserOpened::default());
    let proposed = || Body::ActionProposed(Box::default());
    let finished = |activity: BrowserActivity, step_index: u32| {
        Body::ActionFinished(Box::new(v1::ActionFinished {
            activity: activity.into(),
            step_index,
            ..v1::ActionFinished::default()
        }))
    };
    let works: Idle = (None, None);
    let waits: Idle = (Some(AT + 7_000), Some(7_000));
    let events = [
        ("a browser for nothing yet", opened(), waits),
        ("the first action", proposed(), works),
        ("a browser for the first action", opened(), works),
        ("a recovery, after which the action is tried again", finished(BrowserActivity::Recovery, 0), works),
        ("the only action is done", finished(BrowserActivity::Action, 0), waits),
        ("the second action", proposed(), works),
        ("the third action", proposed(), works),
        ("the third action is still to be done", finished(BrowserActivity::Action, 1), works),
        ("all three are done", finished(BrowserActivity::Action, 2), waits),
    ];
    for (what, mut body, expected) in events {
        session.raise(FORMAT_1, &mut body, Timestamp(AT));
        let idle: Idle = match body {
            Body::BrowserOpened(event) => (event.idle_at_ms, event.idle_in_ms),
            Body::ActionFinished(event) => (event.idle_at_ms, event.idle_in_ms),
            _ => (None, None),
        };
        assert_eq!(idle, expected, "{what}");
    }
}

#[test]
fn a_turn_of_format_1_loses_what_would_make_more_than_8_kib_of_what_its_session_keeps() {
    let object = |bytes: usize| format!(r#"{{"k":"{}"}}"#, "x".repeat(bytes - 8));
    let rows = [
        (FORMAT_1, "", 8_192, true),
        (FORMAT_1, "", 8_193, false),
        // Six bytes more: `"a":1,`.
        (FORMAT_1, r#"{"a":1}"#, 8_186, true),
        (FORMAT_1, r#"{"a":1}"#, 8_187, false),
        // The turn's own value takes the place of the one before.
        (FORMAT_1, r#"{"k":1}"#, 8_192, true),
        (2, "", 8_193, true),
        (3, "", 8_193, true),
    ];
    for (format, before, bytes, is_kept) in rows {
        let custom = object(bytes);
        assert_eq!(custom.len(), bytes);
        let written = v1::SessionTurn {
            current_spec: Some("wave".to_owned()),
            custom: custom.into(),
            ..v1::SessionTurn::default()
        };
        let mut turn = written.clone();
        session_turn(format, &mut turn, before.as_bytes());
        let without = v1::SessionTurn { custom: Default::default(), ..written.clone() };
        let expected = if is_kept { written } else { without };
        assert!(turn == expected, "format {format}: {bytes} bytes after {before:?}");
    }
}

#[test]
fn a_session_before_format_3_has_32_preferences_and_not_the_first_ones_by_name() {
    let named = |names: std::ops::RangeInclusive<u32>| {
        let entries: Vec<String> = names.map(|name| format!(r#""p{name:02}":"v""#)).collect();
        format!("{{{}}}", entries.join(","))
    };
    let rows =
        [(FORMAT_1, 1..=32, 1..=32), (FORMAT_1, 1..=34, 3..=34), (2, 1..=33, 2..=33), (3, 1..=33, 1..=33)];
    for (format, written, expected) in rows {
        let mut kept = named(written).into_bytes();
        preferences(format, &mut kept);
        assert_eq!(String::from_utf8_lossy(&kept), named(expected), "format {format}");
    }
}
