//! The events of a script that tests tell, here and in the command line's.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

use super::fold::ScriptRun;

const BROWSER: &str = "capataz.browser";

pub(super) fn state(url: &str, dom: &str, inputs: &str) -> v1::StateSignature {
    v1::StateSignature {
        schema_version: "v1".to_owned(),
        url: url.to_owned(),
        title: "Shop".to_owned(),
        dom_hash: dom.repeat(32),
        anchors_hash: "c3".repeat(32),
        inputs_hash: inputs.repeat(32),
        screenshot_hash: "aa".repeat(32),
    }
}

pub(super) fn evidence(kind: &str, id: &str, media_type: &str) -> v1::EvidenceRef {
    v1::EvidenceRef {
        id: id.repeat(32),
        kind: kind.to_owned(),
        media_type: media_type.to_owned(),
        bytes: 68,
        redacted: kind == "html_full",
        inline: None,
    }
}

pub fn pictures() -> Vec<v1::EvidenceRef> {
    vec![
        evidence("screenshot_before", "ab", "image/png"),
        evidence("screenshot_after", "aa", "image/png"),
        evidence("dom_snapshot_partial", "d0", "application/json"),
        evidence("html_full", "f0", "text/html"),
    ]
}

pub(super) fn resolution(locator: &str, element: &str, tried: &[&str]) -> v1::ResolutionRecord {
    v1::ResolutionRecord {
        locator: locator.to_owned(),
        count: 1,
        tried: tried.iter().map(|kind| (*kind).to_owned()).collect(),
        element: element.to_owned(),
        x: Some(100.0),
        y: Some(50.0),
        width: Some(80.0),
        height: Some(20.0),
    }
}

pub(super) fn action(id: &str, kind: v1::ActionKind, target: Option<v1::Target>) -> v1::Action {
    v1::Action {
        id: id.to_owned(),
        kind: kind as i32,
        target,
        criticality: Some(v1::Criticality::Normal as i32),
        ..v1::Action::default()
    }
}

pub(super) fn button(name: &str) -> Option<v1::Target> {
    Some(v1::Target { role: Some("button".to_owned()), name: Some(name.to_owned()), ..v1::Target::default() })
}

pub fn script() -> v1::Script {
    let testid = |id: &str| Some(v1::Target { testid: Some(id.to_owned()), ..v1::Target::default() });
    let total = v1::Condition {
        kind: v1::ConditionKind::TextEquals as i32,
        target: testid("status"),
        value: Some("Paid".to_owned()),
        ..v1::Condition::default()
    };
    v1::Script {
        name: "shop".to_owned(),
        actions: vec![
            v1::Action {
                url: Some("https://shop.example/".to_owned()),
                ..action("open", v1::ActionKind::Navigate, None)
            },
            v1::Action {
                rationale: Some("the only button that buys".to_owned()),
                ..action("buy", v1::ActionKind::Click, button("Buy"))
            },
            v1::Action {
                extract: Some(v1::ExtractKind::Text as i32),
                output: Some("total".to_owned()),
                ..action("read", v1::ActionKind::Extract, testid("total"))
            },
            v1::Action {
                criticality: Some(v1::Criticality::Critical as i32),
                post: vec![total],
                ..action("pay", v1::ActionKind::Submit, testid("form"))
            },
        ],
        policy: Some(v1::ScriptPolicy {
            allowlist: vec!["shop.example".to_owned()],
            ..v1::ScriptPolicy::default()
        }),
        ..v1::Script::default()
    }
}

pub(super) fn accepted(script: v1::Script) -> Body {
    Body::RunAccepted(Box::new(v1::RunAccepted {
        kind: v1::RunKind::Script as i32,
        labels: BTreeMap::from([("env".to_owned(), "test".to_owned())]),
        work: Some(v1::run_accepted::Work::Script(script)),
        ..v1::RunAccepted::default()
    }))
}

pub(super) fn started(
    number: u32,
    activity: v1::BrowserActivity,
    step: Option<u32>,
    action: Option<v1::Action>,
) -> Body {
    let task = v1::Task {
        name: action.as_ref().map_or("browser", |action| action.id.as_str()).to_owned(),
        agent: BROWSER.to_owned(),
        ..v1::Task::default()
    };
    Body::BrowserActivityStarted(Box::new(v1::BrowserActivityStarted {
        activity: activity as i32,
        step_index: step,
        action,
        wave: Some(v1::Wave { tasks: vec![task], ..v1::Wave::default() }),
        number,
        failure: None,
        changes: false,
    }))
}

pub(super) fn leased(wave: u32, attempt: u32) -> Body {
    Body::TaskLeased(v1::TaskLeased {
        wave,
        attempt,
        worker: BROWSER.to_owned(),
        ..v1::TaskLeased::default()
    })
}

pub(super) fn stage(step_index: u32, stage: v1::ActionStage, passed: bool, duration_us: u64) -> Body {
    Body::StageFinished(v1::StageFinished {
        step_index,
        record: Some(v1::StageRecord { stage: stage as i32, passed, duration_us }),
        ..v1::StageFinished::default()
    })
}

pub(super) fn settled(wave: u32, error: Option<&str>) -> Body {
    let error = error.map(|code| v1::Error { code: code.to_owned(), ..v1::Error::default() });
    let status = if error.is_some() { v1::ResultStatus::Error } else { v1::ResultStatus::Success };
    Body::TaskSettled(Box::new(v1::TaskSettled {
        wave,
        status: status as i32,
        error,
        attempts: 1,
        ..v1::TaskSettled::default()
    }))
}

pub(super) fn wave_finished(wave: u32) -> Body {
    Body::WaveFinished(v1::WaveFinished { wave, ..v1::WaveFinished::default() })
}

pub fn error(code: &str, stage: v1::ActionStage, step: u32, message: &str) -> v1::ExecutorError {
    let script = script();
    let action = script.actions.get(step as usize).cloned().unwrap_or_default();
    v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: code.to_owned(),
        stage: stage as i32,
        severity: v1::ExecutorSeverity::Error as i32,
        message: message.to_owned(),
        retryable: Some(false),
        step_index: Some(step),
        action_id: action.id.clone(),
        action_kind: action.kind,
        criticality: action.criticality.unwrap_or_default(),
        state_before: Some(state("https://shop.example/cart", "b2", "e4")),
        state_after: Some(state("https://shop.example/cart", "b2", "e5")),
        evidence_refs: pictures(),
        details: Some(r#"{"count_observed": 0, "target": {"testid": "form"}}"#.to_owned()),
        action_spec: Some(action),
        ..v1::ExecutorError::default()
    }
}

pub(super) fn failed(error: v1::ExecutorError, next: v1::AfterFailure) -> Body {
    Body::ActionFailed(Box::new(v1::ActionFailed {
        error: Some(error),
        next: next as i32,
        activity: v1::BrowserActivity::Action as i32,
        ..v1::ActionFailed::default()
    }))
}

pub(super) fn finished(step_index: u32, activity: v1::BrowserActivity) -> v1::ActionFinished {
    v1::ActionFinished {
        step_index,
        action_id: script().actions.get(step_index as usize).map(|one| one.id.clone()).unwrap_or_default(),
        activity: activity as i32,
        state_before: Some(state("https://shop.example/cart", "b1", "e4")),
        state_after: Some(state("https://shop.example/cart", "b2", "e4")),
        ..v1::ActionFinished::default()
    }
}

/// The bodies as the events of one run, ten milliseconds apart.
pub fn events(bodies: impl IntoIterator<Item = Body>) -> Vec<v1::Event> {
    let numbered = bodies.into_iter().zip(1..);
    numbered
        .map(|(body, seq)| v1::Event {
            seq,
            at_ms: seq as i64 * 10,
            format: 2,
            elapsed_ms: 0,
            body: Some(body),
        })
        .collect()
}

/// A script of four actions: the second one needs a recovery and a retry, the last one fails for good.
pub fn story() -> Vec<v1::Event> {
    use v1::ActionStage::{Execution, Postcondition, Precondition};
    use v1::BrowserActivity::{Action, Open, Recovery};
    let declared = script();
    let action_of = |step: usize| declared.actions.get(step).cloned();
    let close = action("buy", v1::ActionKind::Click, button("Close"));
    let opened = v1::ActionFinished {
        state_before: Some(state("about:blank", "b0", "e4")),
        changes: Some(v1::PageChanges {
            navigation: v1::NavigationKind::Document as i32,
            redirects: vec!["https://shop.example/".to_owned()],
            status: Some(404),
            ..v1::PageChanges::default()
        }),
        ..finished(0, Action)
    };
    let bought = v1::ActionFinished {
        state_after: Some(state("https://shop.example/cart", "b3", "e5")),
        evidence: pictures(),
        resolution: Some(resolution("role", "button \"Buy\"", &["testid"])),
        changes: Some(v1::PageChanges {
            navigation: v1::NavigationKind::None as i32,
            dialogs: vec![v1::DialogRecord {
                kind: "confirm".to_owned(),
                message: "Sure?".to_owned(),
                accepted: true,
            }],
            downloads: vec![v1::DownloadRecord {
                file_name: "bill.pdf".to_owned(),
                bytes: 2_048,
                state: "completed".to_owned(),
                url: "https://shop.example/bill".to_owned(),
                ..v1::DownloadRecord::default()
            }],
            blocked: vec![v1::BlockedRequest {
                url: "https://ads.example/a.gif".to_owned(),
                host: "ads.example".to_owned(),
                kind: "image".to_owned(),
            }],
            ..v1::PageChanges::default()
        }),
        ..finished(1, Action)
    };
    let read = v1::ActionFinished {
        resolution: Some(resolution("testid", "span \"12 €\"", &[])),
        output: Some(v1::ActionOutput {
            name: "total".to_owned(),
            value: "\"12 €\"".to_owned(),
            ..v1::ActionOutput::default()
        }),
        ..finished(2, Action)
    };
    let unpaid = v1::ExecutorError {
        criticality: v1::Criticality::Critical as i32,
        failed_conditions: vec![v1::FailedCondition {
            kind: "text_equals".to_owned(),
            args: Some(r#"{"observed": "Declined", "value": "Paid"}"#.to_owned()),
            phase: "post".to_owned(),
        }],
        ..error("POSTCONDITION_FAILED", Postcondition, 3, "1 of 1 conditions did not hold")
    };
    let recovered = v1::ActionFinished {
        resolution: Some(resolution("role", "button \"Close\"", &[])),
        ..finished(1, Recovery)
    };
    events([
        accepted(declared.clone()),
        started(0, Open, None, None),
        leased(0, 1),
        Body::BrowserOpened(v1::BrowserOpened {
            browser: "Chrome/148.0.1.2".to_owned(),
            idle_at_ms: None,
            idle_in_ms: None,
            ..v1::BrowserOpened::default()
        }),
        settled(0, None),
        started(1, Action, Some(0), action_of(0)),
        leased(1, 1),
        Body::ActionFinished(Box::new(opened)),
        settled(1, None),
        started(2, Action, Some(1), action_of(1)),
        stage(1, Precondition, false, 1_540),
        failed(
            error("OVERLAY_BLOCKING", Precondition, 1, "covered by \"Cookies\""),
            v1::AfterFailure::Recover,
        ),
        settled(2, Some("OVERLAY_BLOCKING")),
        started(3, Recovery, Some(1), Some(close)),
        leased(3, 1),
        stage(1, Execution, true, 20_000),
        Body::ActionFinished(Box::new(recovered)),
        settled(3, None),
        wave_finished(3),
        started(4, Action, Some(1), action_of(1)),
        leased(4, 1),
        failed(error("TARGET_NOT_FOUND", Precondition, 1, "nothing matches"), v1::AfterFailure::Retry),
        Body::TaskAttemptFailed(v1::TaskAttemptFailed {
            wave: 4,
            attempt: 1,
            delay_ms: 500,
            error: Some(v1::Error { code: "TARGET_NOT_FOUND".to_owned(), ..v1::Error::default() }),
            ..v1::TaskAttemptFailed::default()
        }),
        Body::TaskRetryDue(v1::TaskRetryDue { wave: 4, task: 0 }),
        leased(4, 2),
        stage(1, Precondition, true, 900),
        stage(1, Execution, true, 20_000),
        stage(1, Postcondition, true, 120),
        Body::ActionFinished(Box::new(bought)),
        settled(4, None),
        wave_finished(4),
        started(5, Action, Some(2), action_of(2)),
        leased(5, 1),
        stage(2, Execution, true, 300),
        Body::ActionFinished(Box::new(read)),
        settled(5, None),
        wave_finished(5),
        started(6, Action, Some(3), action_of(3)),
        leased(6, 1),
        stage(3, Precondition, true, 800),
        stage(3, Execution, true, 20_000),
        stage(3, Postcondition, false, 10_000_000),
        failed(unpaid, v1::AfterFailure::Halt),
        settled(6, Some("POSTCONDITION_FAILED")),
        wave_finished(6),
        Body::Notice(v1::Notice::default()),
        Body::RunFinished(v1::RunFinished {
            outcome: v1::RunOutcome::Failed as i32,
            error: Some(v1::Error { code: "POSTCONDITION_FAILED".to_owned(), ..v1::Error::default() }),
            ..v1::RunFinished::default()
        }),
    ])
}

pub fn fold(events: &[v1::Event]) -> ScriptRun {
    let mut run = ScriptRun::default();
    events.iter().for_each(|event| run.apply(event));
    run
}
