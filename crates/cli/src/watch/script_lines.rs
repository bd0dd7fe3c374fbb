//! The lines of a script's events.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_policy::executor as policy;

use super::lines::{Detail, Line};
use capataz_display::format::{exactly, took};
use capataz_display::paint::Tone;
use capataz_display::script::describe;
use capataz_display::script::fold::{ScriptRun, step_of};
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};

/// The event's line; `None` if the event is shown like that of any other run. The event was already applied to
/// `script`.
pub fn line(script: &ScriptRun, event: &v1::Event) -> Option<Line> {
    use Detail::{Everything, Results, Steps};
    let texts = &words().script_lines;
    let of_run = |text: String, tone, needed| Line { task: None, text, tone, needed };
    let of_step = |step: u32, text: String, tone, needed| Line {
        task: Some(action_id(script, step)),
        text,
        tone,
        needed,
    };
    Some(match event.body.as_ref()? {
        Body::RunAccepted(accepted) => {
            let script = accepted.script()?;
            let text = if script.interactive {
                fill(texts.session_accepted, &[&script.name])
            } else {
                let actions =
                    counted(script.actions.len() as u64, words().act.actions_one, words().act.actions_many);
                fill(texts.accepted, &[&script.name, &actions])
            };
            of_run(text, Tone::Plain, Results)
        }
        Body::BrowserActivityStarted(started) => activity_started(script, started)?,
        Body::BrowserOpened(opened) => {
            let template = match opened {
                opened if opened.attached => texts.opened_attached,
                opened if opened.restored => texts.opened_again,
                _ => texts.opened,
            };
            of_run(fill(template, &[&opened.browser]), Tone::Plain, Results)
        }
        Body::ActionProposed(proposed) => {
            let action = proposed.action.as_ref().map(describe::action).unwrap_or_default();
            let number = (proposed.step_index + 1).to_string();
            of_step(proposed.step_index, fill(texts.proposed, &[&number, &action]), Tone::Plain, Steps)
        }
        Body::StageFinished(stage) => {
            let record = stage.record?;
            let template = if record.passed { texts.stage_passed } else { texts.stage_failed };
            let tone = if record.passed { Tone::Faint } else { Tone::Warning };
            let values = [describe::stage_name(record.stage()), &duration(record.duration_us)];
            of_step(stage.step_index, fill(template, &values), tone, Steps)
        }
        Body::ActionFinished(finished) => {
            let recovery = finished.activity() == v1::BrowserActivity::Recovery;
            let text = succeeded(script, finished);
            let text = if recovery { fill(texts.recovered, &[&text]) } else { text };
            of_step(finished.step_index, text, Tone::Good, Results)
        }
        Body::ActionFailed(failed) => {
            let (text, tone) = action_failed(failed);
            match step_of(failed) {
                Some(step) => of_step(step, text, tone, Results),
                None => of_run(text, tone, Results),
            }
        }
        // The executor's error has its own line; this line adds only the time of the next try.
        Body::TaskAttemptFailed(attempt) if told(attempt.error.as_ref()) => {
            let mut line = of_run(fill(texts.retry_in, &[&exactly(attempt.delay_ms)]), Tone::Faint, Results);
            line.task = task_of(script, attempt.wave);
            line
        }
        Body::BrowserCloseRequested(requested) => {
            let text = if requested.idle { texts.idle } else { texts.close_requested };
            of_run(text.to_owned(), Tone::Plain, Results)
        }
        Body::BrowserClosed(closed) if closed.kept => of_run(texts.kept.to_owned(), Tone::Plain, Results),
        Body::BrowserClosed(_) => of_run(texts.closed.to_owned(), Tone::Plain, Steps),
        Body::BrowserLost(lost) => {
            let template = match lost.reason() {
                v1::BrowserLossReason::Restarted => texts.lost_restarted,
                v1::BrowserLossReason::Silent | v1::BrowserLossReason::Disconnected => texts.lost_gone,
                v1::BrowserLossReason::Ended | v1::BrowserLossReason::Unspecified => texts.lost_ended,
            };
            of_run(fill(template, &[&lost.worker]), Tone::Bad, Results)
        }
        Body::QuestionAsked(_) => return None,
        Body::RunFinished(_) => return None,
        _ => return quiet(script, event, Everything),
    })
}

/// Hides events of the underlying waves and tasks, because the script's own events report the same.
fn quiet(script: &ScriptRun, event: &v1::Event, needed: Detail) -> Option<Line> {
    let texts = &words().watch;
    let (wave, text) = match event.body.as_ref()? {
        Body::TaskLeased(leased) => {
            (leased.wave, fill(texts.leased, &[&leased.attempt.to_string(), &leased.worker]))
        }
        Body::TaskSettled(settled) if settled.error.is_none() || told(settled.error.as_ref()) => {
            let after = took(settled.duration_ms);
            let text = match &settled.error {
                None => fill(texts.succeeded, &[&after]),
                Some(error) => fill(texts.failed, &[&after, &error.code]),
            };
            (settled.wave, text)
        }
        Body::WaveFinished(finished) => {
            (finished.wave, fill(texts.wave_finished, &[&(finished.wave + 1).to_string(), ""]))
        }
        _ => return None,
    };
    let text = text.trim_end_matches([' ', ':']).to_owned();
    Some(Line { task: task_of(script, wave), text, tone: Tone::Faint, needed })
}

/// Returns whether an event of the script has reported this failure.
fn told(error: Option<&v1::Error>) -> bool {
    error.is_some_and(|error| policy::lookup(&error.code).is_some())
}

fn action_id(script: &ScriptRun, step: u32) -> String {
    script.declared(step).map(|action| action.id.clone()).unwrap_or_default()
}

fn task_of(script: &ScriptRun, wave: u32) -> Option<String> {
    let activity = script.activities.iter().find(|activity| activity.wave == Some(wave))?;
    activity.step.map(|step| action_id(script, step))
}

fn activity_started(script: &ScriptRun, started: &v1::BrowserActivityStarted) -> Option<Line> {
    // This activity performs nothing; the failure follows as an event of its own.
    if started.failure.is_some() {
        return None;
    }
    let texts = &words().script_lines;
    let of_run =
        |text: &str| Line { task: None, text: text.to_owned(), tone: Tone::Faint, needed: Detail::Steps };
    let action = started.action.as_ref().map(describe::action).unwrap_or_default();
    let (step, text, tone, needed) = match (started.activity(), started.step_index) {
        (v1::BrowserActivity::Open, _) => return Some(of_run(texts.opening)),
        (v1::BrowserActivity::Close, _) => return Some(of_run(texts.closing)),
        (v1::BrowserActivity::Recovery, Some(step)) => {
            (step, fill(texts.recovering, &[&action]), Tone::Warning, Detail::Results)
        }
        (_, Some(step)) => {
            let of = script.script.actions.len().to_string();
            let text = fill(texts.begins, &[&(step + 1).to_string(), &of, &action]);
            (step, text, Tone::Strong, Detail::Steps)
        }
        (_, None) => return None,
    };
    Some(Line { task: Some(action_id(script, step)), text, tone, needed })
}

fn succeeded(script: &ScriptRun, finished: &v1::ActionFinished) -> String {
    let kind = script.declared(finished.step_index).map_or(v1::ActionKind::Unspecified, v1::Action::kind);
    let success = describe::Success {
        state_before: finished.state_before.as_ref(),
        state_after: finished.state_after.as_ref(),
        resolution: finished.resolution.as_ref(),
        changes: finished.changes.as_ref(),
        output: finished.output.as_ref(),
    };
    match finished.activity() {
        v1::BrowserActivity::Recovery => success.parts(true).join("; "),
        _ => success.of(kind),
    }
}

fn action_failed(failed: &v1::ActionFailed) -> (String, Tone) {
    let texts = &words().script_lines;
    let error = failed.error.clone().unwrap_or_default();
    let next = describe::after_failure(failed.next());
    let tone = if failed.next() == v1::AfterFailure::Halt { Tone::Bad } else { Tone::Warning };
    if failed.activity() == v1::BrowserActivity::Recovery {
        return (fill(texts.recovery_failed, &[&error.error_code, &message(&error.message), next]), tone);
    }
    let stage = describe::stage_name(error.stage());
    (fill(texts.failed, &[&error.error_code, stage, &message(&error.message), next]), tone)
}

/// The parts of a failure beyond its line: conditions, details, evidence.
pub fn extras(event: &v1::Event) -> Vec<String> {
    let Some(Body::ActionFailed(failed)) = &event.body else { return Vec::new() };
    let Some(error) = &failed.error else { return Vec::new() };
    let conditions = error.failed_conditions.iter().map(|failed| {
        format!("{} {} {}", failed.phase, failed.kind, failed.args.as_deref().unwrap_or_default())
    });
    let details = error.details.iter().flat_map(|details| describe::details(details));
    let details = details.map(|(key, value)| format!("{key}: {value}"));
    let evidence = error.evidence_refs.iter().map(|piece| format!("{} {}", piece.kind, piece.id));
    let cause = error.cause.as_deref().map(|cause| message(cause).into_owned());
    conditions.chain(cause).chain(details).chain(evidence).collect()
}

/// A number of microseconds, in the form that people read.
pub fn duration(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds}µs"),
        1_000..10_000 => format!("{:.1}ms", microseconds as f64 / 1_000.0),
        _ => took(i64::try_from(microseconds / 1_000).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::render;
    use super::*;
    use capataz_display::model::Run;
    use capataz_display::paint::Paint;
    use capataz_display::script::tests::story;

    fn log(detail: Detail) -> String {
        let mut run = Run::default();
        let mut lines = Vec::new();
        for event in story() {
            run.apply(&event);
            lines.extend(render(&run, "0199", &event, detail, Paint::OFF));
        }
        lines.join("\n")
    }

    #[test]
    fn each_action_has_a_line_and_so_have_retries_and_recoveries() {
        let expected = "\
+  0.000s  -     script accepted: shop, 4 actions
+  0.030s  -     Chrome/148.0.1.2 is open
+  0.070s  open  navigate: now at https://shop.example/cart; status 404; 1 redirect
+  0.110s  buy   OVERLAY_BLOCKING at precondition: covered by \"Cookies\"; a recovery follows
+  0.130s  buy   recovers: click role=button name=\"Close\"
+  0.160s  buy   recovered: found by role: button \"Close\"; changed: dom
+  0.210s  buy   TARGET_NOT_FOUND at precondition: nothing matches; tried again
+  0.220s  buy   again in 500ms
+  0.280s  buy   click: found by role: button \"Buy\", not by testid; changed: dom, inputs; confirm accepted: \"Sure?\"; download bill.pdf completed, 2.0 KiB; 1 request refused (ads.example)
+  0.340s  read  extract: found by testid: span \"12 €\"; total = 12 €
+  0.420s  pay   POSTCONDITION_FAILED at postcondition: 1 of 1 conditions did not hold; the script stops
+  0.460s  -     run finished: failed";
        assert_eq!(log(Detail::Results), expected);
    }

    #[test]
    fn every_step_shows_what_begins_and_its_stages() {
        let shown = log(Detail::Steps);
        for expected in [
            "-     the browser starts",
            "open  1 of 4: navigate https://shop.example/",
            "buy   precondition failed after 1.5ms",
            "pay   execution passed in 20ms",
        ] {
            assert!(shown.contains(expected), "{expected} in\n{shown}");
        }
        assert!(!shown.contains("began"), "{shown}");
    }

    #[test]
    fn a_log_shows_what_a_failure_carries() {
        let shown = log(Detail::Everything);
        for expected in ["attempt 1 began", "post text_equals {", "observed", "screenshot_after aa"] {
            assert!(shown.contains(expected), "{expected} in\n{shown}");
        }
    }

    #[test]
    fn stages_are_short() {
        assert_eq!(duration(120), "120µs");
        assert_eq!(duration(1_540), "1.5ms");
        assert_eq!(duration(35_000), "35ms");
        assert_eq!(duration(2_300_000), "2.3s");
    }
}
