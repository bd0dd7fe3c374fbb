//! A script's run, for people: its actions, its error, its outputs.

use capataz_contracts::v1;

use crate::compact::{Form, hanging};
use crate::format::took;
use crate::frame::{Frame, fitted, truncated, visible};
use crate::paint::{Paint, Tone};
use crate::run::{outcome_name, outcome_tone};
use crate::script::describe;
use crate::script::fold::{Activity, ScriptRun, State};
use crate::table::Table;
use crate::words::advice::advice;
use crate::words::messages::message;
use crate::words::{counted, fill, words};

/// Columns of an action's description in a table.
const DETAIL_WIDTH: usize = 72;
/// Maximum number of rows for actions that were not reached.
const MOST_NOT_REACHED: usize = 20;
/// Maximum number of failed conditions and details in a box.
const MOST_LISTED: usize = 8;
/// Maximum number of characters of one detail in a box.
const DETAIL_LENGTH: usize = 300;
/// Maximum number of characters of an output at the end of a run.
const OUTPUT_LENGTH: usize = 2_000;

pub fn state_name(state: State) -> &'static str {
    let texts = &words().act;
    match state {
        State::NotReached => texts.not_reached,
        State::Running => texts.running,
        State::Succeeded => texts.succeeded,
        State::PassedOver => texts.passed_over,
        State::Failed => texts.failed,
    }
}

fn tone_of(state: State) -> Tone {
    match state {
        State::NotReached => Tone::Faint,
        State::Running => Tone::Plain,
        State::Succeeded => Tone::Good,
        State::PassedOver => Tone::Warning,
        State::Failed => Tone::Bad,
    }
}

/// A table with a row for each action.
pub fn actions(script: &ScriptRun, now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().act.table_head);
    let mut not_reached = 0_usize;
    for (step, action) in (0_u32..).zip(&script.script.actions) {
        let state = script.state_of(step);
        if state == State::NotReached {
            not_reached += 1;
            if not_reached > MOST_NOT_REACHED {
                continue;
            }
        }
        table.row(row(script, step, action, state, now_ms));
    }
    let mut text = table.render(paint);
    if let Some(more) = not_reached.checked_sub(MOST_NOT_REACHED).filter(|more| *more > 0) {
        text.push_str(&format!("\n{}", fill(words().act_error.more, &[&more.to_string()])));
    }
    text
}

fn row(script: &ScriptRun, step: u32, action: &v1::Action, state: State, now_ms: i64) -> [(String, Tone); 7] {
    let activities: Vec<&Activity> = script.activities_of(step).collect();
    let tries: usize =
        activities.iter().filter(|activity| activity.is_action()).map(|activity| activity.tries.len()).sum();
    let took = match (activities.first(), activities.last()) {
        (Some(first), Some(last)) => {
            took(last.ended_at_ms.unwrap_or(now_ms).saturating_sub(first.started_at_ms))
        }
        _ => String::new(),
    };
    let failure = activities.iter().flat_map(|activity| activity.failures()).last();
    let detail = match (state, failure.and_then(|failed| failed.error.as_ref())) {
        (State::Succeeded, _) => recoveries(&activities),
        (_, Some(error)) => format!("{}: {}", error.error_code, message(&error.message)),
        (_, None) => settled(&activities).unwrap_or_default(),
    };
    [
        ((step + 1).to_string(), Tone::Faint),
        (action.id.clone(), Tone::Plain),
        (describe::kind_name(action.kind()).to_owned(), Tone::Plain),
        (state_name(state).to_owned(), tone_of(state)),
        (if tries == 0 { String::new() } else { tries.to_string() }, Tone::Plain),
        (took, Tone::Plain),
        (truncated(&detail, DETAIL_WIDTH), Tone::Faint),
    ]
}

fn recoveries(activities: &[&Activity]) -> String {
    match activities.iter().filter(|activity| !activity.is_action()).count() {
        0 => String::new(),
        count => counted(count as u64, words().act.recovered_one, words().act.recovered_many),
    }
}

/// The run's own error for the last activity, recorded where the executor could not report one.
fn settled(activities: &[&Activity]) -> Option<String> {
    let error = activities.last()?.tries.last()?.settled.as_ref()?;
    Some(format!("{}: {}", error.code, message(&error.message)))
}

/// The error as a box or in lines, followed by its evidence.
pub fn error(error: &v1::ExecutorError, form: Form, paint: Paint) -> String {
    let shown = match form {
        Form::Boxes => boxed(error, paint),
        Form::Compact => in_lines(error, paint),
    };
    let evidence: Vec<String> = error.evidence_refs.iter().map(evidence_line).collect();
    let evidence = match evidence.is_empty() {
        true => String::new(),
        false => format!("\n{}\n{}", words().act_error.evidence, evidence.join("\n")),
    };
    format!("{shown}{evidence}")
}

/// Each condition that has failed, and each detail.
fn parts_of(error: &v1::ExecutorError) -> (Vec<String>, Vec<String>) {
    let conditions = error.failed_conditions.iter().map(|failed| {
        let args = failed.args.as_deref().unwrap_or_default();
        truncated(&format!("{} {} {args}", failed.phase, failed.kind), DETAIL_LENGTH)
    });
    let details = error.details.as_deref().map(describe::details).unwrap_or_default();
    let details = details.iter().map(|(key, value)| truncated(&format!("{key}: {value}"), DETAIL_LENGTH));
    (conditions.collect(), details.collect())
}

fn in_lines(error: &v1::ExecutorError, paint: Paint) -> String {
    let texts = &words().act_error;
    let severity =
        [describe::severity_name(error.severity()), describe::stage_name(error.stage())].join(", ");
    let head = [error.error_code.as_str(), &severity, &message(&error.message)];
    let mut lines = hanging("✗ ", &fill(words().compact.error, &head), Tone::Bad, paint);
    let number = error.step_index.map_or_else(String::new, |step| (step + 1).to_string());
    let template =
        if error.criticality() == v1::Criticality::Critical { texts.action_critical } else { texts.action };
    let state = error.state_after.as_ref().or(error.state_before.as_ref());
    let facts = [fill(template, &[&number, &error.action_id, describe::kind_name(error.action_kind())])]
        .into_iter()
        .chain(state.map(|state| fill(texts.at, &[&state.url])))
        .chain(error.cause.as_ref().map(|cause| fill(texts.cause, &[&message(cause)])))
        .chain((error.retryable == Some(true)).then(|| texts.retryable.to_owned()));
    lines.extend(hanging("  ", &facts.collect::<Vec<_>>().join("; "), Tone::Plain, paint));
    let (conditions, details) = parts_of(error);
    for (title, mut items) in [(texts.failed_conditions, conditions), (texts.details, details)] {
        let more = items.len().saturating_sub(MOST_LISTED);
        items.truncate(MOST_LISTED);
        items.extend((more > 0).then(|| fill(texts.more, &[&more.to_string()])));
        if !items.is_empty() {
            lines.extend(hanging("  - ", &format!("{title} {}", items.join("; ")), Tone::Plain, paint));
        }
    }
    lines.extend(
        advice(&error.error_code).into_iter().flat_map(|next| hanging("  -> ", next, Tone::Plain, paint)),
    );
    lines
        .extend(describe::page_of(&error.error_code).map(|page| format!("  {}", fill(texts.page, &[&page]))));
    lines.join("\n")
}

fn boxed(error: &v1::ExecutorError, paint: Paint) -> String {
    let texts = &words().act_error;
    let head = [describe::severity_name(error.severity()), describe::stage_name(error.stage())];
    let number = error.step_index.map_or_else(String::new, |step| (step + 1).to_string());
    let template =
        if error.criticality() == v1::Criticality::Critical { texts.action_critical } else { texts.action };
    let action = [number.as_str(), &error.action_id, describe::kind_name(error.action_kind())];
    let mut frame = Frame::heavy(paint)
        .toned(&fill(words().errors.error, &[&error.error_code]), Tone::Bad)
        .text(&fill(texts.severity, &head))
        .under_title()
        .blank()
        .text(&message(&error.message))
        .blank()
        .text(&fill(template, &action));
    if let Some(state) = error.state_after.as_ref().or(error.state_before.as_ref()) {
        frame = frame.text(&fill(texts.at, &[&state.url]));
    }
    if let Some(cause) = &error.cause {
        frame = frame.text(&fill(texts.cause, &[&message(cause)]));
    }
    let (conditions, details) = parts_of(error);
    if !conditions.is_empty() {
        frame = listed(frame.blank(), texts.failed_conditions, conditions);
    }
    if !details.is_empty() {
        frame = listed(frame.blank(), texts.details, details);
    }
    if error.retryable == Some(true) {
        frame = frame.blank().text(texts.retryable);
    }
    if let Some(advice) = advice(&error.error_code) {
        frame = frame.blank().item("-> ", advice);
    }
    if let Some(page) = describe::page_of(&error.error_code) {
        frame = frame.text(&fill(texts.page, &[&page]));
    }
    frame.finish()
}

fn listed(frame: Frame, title: &str, items: Vec<String>) -> Frame {
    let frame = frame.text(title).items("- ", items.iter().take(MOST_LISTED).map(String::as_str));
    match items.len().saturating_sub(MOST_LISTED) {
        0 => frame,
        more => frame.text(&fill(words().act_error.more, &[&more.to_string()])),
    }
}

/// A piece of evidence in one line: `  screenshot_after      34.1 KiB  0f3a…`.
fn evidence_line(piece: &v1::EvidenceRef) -> String {
    let redacted = if piece.redacted { format!(" ({})", words().act_error.redacted) } else { String::new() };
    if let Some(text) = &piece.inline {
        return format!("  {:<22} {}", visible(&piece.kind), visible(text));
    }
    format!(
        "  {:<22} {:>10}  {}{redacted}",
        visible(&piece.kind),
        describe::bytes(piece.bytes),
        visible(&piece.id)
    )
}

/// The outputs of the actions, one a line, and what a mask in one means.
pub fn outputs(script: &ScriptRun, paint: Paint) -> String {
    let lines: Vec<String> = script
        .outputs
        .iter()
        .map(|(name, output)| {
            let value = truncated(&describe::output(&output.value), OUTPUT_LENGTH);
            format!("  {} = {value}{}", paint.text(Tone::Strong, &visible(name)), describe::masked(output))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let listed = format!("{}\n{}", words().act.outputs, lines.join("\n"));
    match script.outputs.values().any(|output| output.redacted) {
        true => format!("{listed}\n{}", words().act.masked_about),
        false => listed,
    }
}

/// The outcome of a script in one line: `shop: failed in 1.2s; 3 of 4 actions succeeded`.
pub fn outcome_line(script: &ScriptRun, now_ms: i64, paint: Paint) -> String {
    let texts = &words().act;
    let (outcome, ended) = match &script.finished {
        Some(finished) => (finished.outcome, finished.at_ms),
        None => (v1::RunOutcome::Unspecified, now_ms),
    };
    let name = match outcome {
        v1::RunOutcome::Unspecified => texts.running,
        outcome => outcome_name(outcome),
    };
    let total = script.script.actions.len();
    let succeeded = (0_u32..).take(total).filter(|step| script.state_of(*step) == State::Succeeded).count();
    let template = if script.script.interactive { texts.result_session } else { texts.result };
    let took = took(ended.saturating_sub(script.accepted_at_ms));
    let (succeeded, total) = (succeeded.to_string(), total.to_string());
    let line = |of: &str| fill(template, &[of, name, &took, &succeeded, &total]);
    paint.text(outcome_tone(outcome), &fitted(&script.script.name, 0, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::tests::{fold, story};
    use crate::words::Language;

    #[test]
    fn a_script_is_shown_by_its_actions() {
        let expected = "\
#  ACTION  KIND      STATE      TRIES  TOOK  DETAIL
1  open    navigate  succeeded  1      30ms
2  buy     click     succeeded  3      0.2s  1 recovery
3  read    extract   succeeded  1      40ms
4  pay     submit    failed     1      60ms  POSTCONDITION_FAILED: 1 of 1 conditions did not hold";
        let script = fold(&story());
        assert_eq!(actions(&script, 0, Paint::OFF), expected);
        assert_eq!(outcome_line(&script, 0, Paint::OFF), "shop: failed in 0.5s; 3 of 4 actions succeeded");
        assert_eq!(outputs(&script, Paint::OFF), "Outputs:\n  total = 12 €");
    }

    #[test]
    fn an_output_that_has_a_mask_is_marked_and_the_mask_is_explained_once() {
        let mut script = fold(&story());
        for name in ["card", "link"] {
            let masked = v1::ActionOutput {
                name: name.to_owned(),
                value: "\"pay with «secret»\"".to_owned(),
                redacted: true,
            };
            script.outputs.insert(name.to_owned(), masked);
        }
        let expected = "\
Outputs:
  card = pay with «secret» (masked)
  link = pay with «secret» (masked)
  total = 12 €
Masked: «secret» and [redacted] stand for secrets, which are neither kept nor shown. The page has something else there.";
        assert_eq!(outputs(&script, Paint::OFF), expected);
        let expected = "\
Salidas:
  card = pay with «secret» (enmascarada)
  link = pay with «secret» (enmascarada)
  total = 12 €
Enmascarada: «secret» y [redacted] ocupan el lugar de secretos, que no se guardan ni se muestran. La página tiene otra cosa ahí.";
        assert_eq!(Language::Spanish.within(|| outputs(&script, Paint::OFF)), expected);
    }

    #[test]
    fn what_was_not_reached_is_counted_where_it_is_much() {
        let mut script = fold(&story());
        let last = script.script.actions.last().cloned().unwrap_or_default();
        script.script.actions.extend((0..30).map(|_| last.clone()));
        let shown = actions(&script, 0, Paint::OFF);
        assert_eq!(shown.lines().count(), 1 + 4 + MOST_NOT_REACHED + 1, "{shown}");
        assert!(shown.ends_with("... and 10 more"), "{shown}");
    }

    #[test]
    fn an_error_is_a_box_with_its_evidence_below() {
        let script = fold(&story());
        let told = script.error().and_then(|failed| failed.error.clone()).unwrap_or_default();
        let expected = "\
+======================================================+
|  ERROR: POSTCONDITION_FAILED                         |
|  Severity: error, stage: postcondition               |
+======================================================+
|                                                      |
|  1 of 1 conditions did not hold                      |
|                                                      |
|  Action 4: pay (submit), critical                    |
|  Page: https://shop.example/cart                     |
|                                                      |
|  Failed conditions:                                  |
|  - post text_equals {\"observed\": \"Declined\",         |
|    \"value\": \"Paid\"}                                  |
|                                                      |
|  Details:                                            |
|  - count_observed: 0                                 |
|  - target: {\"testid\":\"form\"}                         |
|                                                      |
|  -> Compare the pictures before and after; the       |
|     action was performed.                            |
|  More: docs/errors/POSTCONDITION_FAILED.md           |
+======================================================+
Evidence:
  screenshot_before        68 bytes  abab";
        let shown = error(&told, Form::Boxes, Paint::OFF);
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.ends_with("f0f0 (redacted)"), "{shown}");
    }
    #[test]
    fn the_cause_of_an_error_is_in_the_language_of_its_box() {
        let script = fold(&story());
        let mut told = script.error().and_then(|failed| failed.error.clone()).unwrap_or_default();
        told.cause = Some("the browser is lost: the tab has crashed".to_owned());
        let shown = error(&told, Form::Boxes, Paint::OFF);
        assert!(shown.contains("|  Cause: the browser is lost: the tab has crashed "), "{shown}");
        let shown = Language::Spanish.within(|| error(&told, Form::Boxes, Paint::OFF));
        let of_page = "|  Causa: se perdió el navegador: la pestaña dejó de   |\n|  funcionar ";
        assert!(shown.contains(of_page), "{shown}");
    }
}
