//! The parts of a report that describe a script as a whole.

use capataz_contracts::v1;

use super::super::Report;
use super::super::markup::Markup;
use super::super::outputs::value;
use capataz_display::actions::state_name;
use capataz_display::format::took;
use capataz_display::frame::truncated;
use capataz_display::script::describe;
use capataz_display::script::fold::{Activity, ScriptRun, State};
use capataz_display::words::words;

/// Maximum number of characters of an action's description in the summary.
const DETAIL_LENGTH: usize = 160;

/// The name of an action as a link to its section.
pub fn link(page: &mut Markup, step: u32, text: &str) {
    page.open_with("a", &[("href", &format!("#{}", anchor(step)))]);
    page.text(&format!("{} {text}", step + 1));
    page.close("a");
}

pub fn anchor(step: u32) -> String {
    format!("action-{}", step + 1)
}

pub fn state_class(state: State) -> &'static str {
    match state {
        State::Succeeded => "badge good",
        State::PassedOver => "badge warning",
        State::Failed => "badge bad",
        State::Running | State::NotReached => "badge plain",
    }
}

/// Writes a table with a row for each action.
pub fn summary(page: &mut Markup, report: &Report, run: &ScriptRun) {
    let texts = &words().page;
    let until_ms = report.story.until_ms(report.now_ms);
    if run.script.actions.is_empty() {
        return;
    }
    page.open("section");
    page.element("h2", texts.summary);
    page.open_class("div", "wide");
    page.open("table");
    let heads =
        [texts.number, texts.action, texts.what, texts.state, texts.tries, texts.duration, texts.details];
    page.row_of_heads(&heads);
    page.open("tbody");
    for (step, action) in (0_u32..).zip(&run.script.actions) {
        let activities: Vec<&Activity> = run.activities_of(step).collect();
        let state = run.state_of(step);
        page.open("tr");
        page.element("td", &(step + 1).to_string());
        page.open("td");
        match activities.is_empty() {
            true => page.text(&action.id),
            false => {
                page.open_with("a", &[("href", &format!("#{}", anchor(step)))]);
                page.text(&action.id);
                page.close("a");
            }
        }
        page.close("td");
        page.open("td");
        page.element("code", &truncated(&describe::action(action), DETAIL_LENGTH));
        page.close("td");
        page.open("td");
        page.element_class("span", state_class(state), state_name(state));
        page.close("td");
        let actions = activities.iter().filter(|activity| activity.is_action());
        let tries: usize = actions.map(|activity| activity.tries.len()).sum();
        page.element("td", &if tries == 0 { String::new() } else { tries.to_string() });
        page.element("td", &duration(&activities, until_ms));
        let failure = activities.iter().flat_map(|activity| activity.failures()).last();
        let detail = match (state, failure.and_then(|failed| failed.error.as_ref())) {
            (State::Succeeded, _) | (_, None) => String::new(),
            (_, Some(error)) => format!("{}: {}", error.error_code, error.message),
        };
        page.element("td", &truncated(&detail, DETAIL_LENGTH));
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
    page.close("section");
}

/// The time from the start of the first activity to the end of the last one.
pub fn duration(activities: &[&Activity], until_ms: i64) -> String {
    match (activities.first(), activities.last()) {
        (Some(first), Some(last)) => {
            took(last.ended_at_ms.unwrap_or(until_ms).saturating_sub(first.started_at_ms))
        }
        _ => String::new(),
    }
}

/// Writes the outputs of the actions.
pub fn outputs(page: &mut Markup, script: &ScriptRun) {
    let texts = &words().page;
    if script.outputs.is_empty() {
        return;
    }
    page.open("section");
    page.element("h2", texts.outputs);
    page.open("dl");
    for (name, given) in &script.outputs {
        page.open("dt");
        page.element("code", name);
        page.close("dt");
        page.open("dd");
        output(page, given);
        page.close("dd");
    }
    page.close("dl");
    page.close("section");
}

/// Writes an output, and what a mask in it means.
pub fn output(page: &mut Markup, output: &v1::ActionOutput) {
    value(page, &output.value);
    if output.redacted {
        page.element("p", words().act.masked_about);
    }
}
