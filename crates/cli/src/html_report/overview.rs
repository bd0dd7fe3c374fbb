//! The parts of a report that describe the run as a whole.

use capataz_contracts::v1;
use serde_json::Value;

use super::Report;
use super::markup::Markup;
use capataz_display::actions::state_name;
use capataz_display::format::{took, utc};
use capataz_display::frame::truncated;
use capataz_display::run::{how_to_answer, outcome_name};
use capataz_display::script::describe;
use capataz_display::script::fold::{Activity, Ending, State, step_of};
use capataz_display::words::{Language, fill, words};

/// Columns of the timeline's drawing.
const TIMELINE_WIDTH: f64 = 1_000.0;
/// Minimum width of a bar, so that a try that took no time is visible.
const NARROWEST: f64 = 2.0;
/// Maximum number of characters of an output.
const OUTPUT_LENGTH: usize = 100_000;
/// Maximum number of rows of an output that is a table.
const OUTPUT_ROWS: usize = 1_000;
/// Maximum number of characters of an action's description in the summary.
const DETAIL_LENGTH: usize = 160;

/// The content security policy: the page loads nothing and runs nothing; pictures are embedded.
const SECURITY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; \
                        form-action 'none'";

pub fn head(page: &mut Markup, report: &Report) {
    page.constant("<!DOCTYPE html>\n");
    page.open_with("html", &[("lang", Language::current().tag())]);
    page.open("head");
    page.open_with("meta", &[("charset", "utf-8")]);
    page.open_with("meta", &[("http-equiv", "Content-Security-Policy"), ("content", SECURITY)]);
    page.open_with("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.open_with("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.open_with("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    let title = fill(words().page.title, &[&report.script.script.name, outcome(report)]);
    page.element("title", &title);
    page.open("style");
    page.constant(include_str!("style.css"));
    page.close("style");
    page.close("head");
}

fn outcome(report: &Report) -> &'static str {
    match &report.script.finished {
        Some(finished) => outcome_name(finished.outcome),
        None => words().page.unfinished,
    }
}

fn outcome_class(report: &Report) -> &'static str {
    match report.script.finished.as_ref().map(|finished| finished.outcome) {
        Some(v1::RunOutcome::Succeeded) => "badge good",
        Some(v1::RunOutcome::SucceededWithFailures) => "badge warning",
        Some(_) => "badge bad",
        None => "badge plain",
    }
}

pub fn header(page: &mut Markup, report: &Report) {
    let texts = &words().page;
    let run = &report.script;
    let script = &run.script;
    page.open("header");
    let kind = if script.interactive { texts.kind_session } else { texts.kind };
    page.element_class("p", "kind", kind);
    page.open("h1");
    page.text(&script.name);
    page.constant(" ");
    page.element_class("span", outcome_class(report), outcome(report));
    page.close("h1");
    page.open("dl");
    page.pair_code(texts.run, &report.run_id);
    page.pair(texts.started, &utc(run.accepted_at_ms));
    page.pair(texts.took, &took(ended(report) - run.accepted_at_ms));
    page.pair(texts.browser, &run.browser);
    page.pair(texts.daemon, &report.version);
    let labels: Vec<String> = run.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    page.pair_code(texts.labels, &labels.join(" "));
    let allowlist = script.policy.as_ref().map(|policy| policy.allowlist.join(" ")).unwrap_or_default();
    page.pair_code(texts.allowlist, if allowlist.is_empty() { texts.nothing } else { &allowlist });
    page.close("dl");
    why(page, report);
    questions(page, report);
    page.close("header");
}

fn ended(report: &Report) -> i64 {
    report.script.finished.as_ref().map_or(report.now_ms, |finished| finished.at_ms)
}

/// Writes why the script ended, with a link to the action.
fn why(page: &mut Markup, report: &Report) {
    let run = &report.script;
    let own = run.finished.as_ref().and_then(|finished| finished.error.as_ref());
    let failed = run.error().and_then(|failed| Some((failed.error.as_ref()?, step_of(failed))));
    match (failed, own) {
        (Some((error, step)), _) => {
            page.open_class("p", "why");
            page.element("strong", &error.error_code);
            page.text(&format!(" {} ", error.message));
            if let Some(step) = step {
                link(page, step, &error.action_id);
            }
            page.close("p");
        }
        (None, Some(error)) => {
            page.open_class("p", "why");
            page.element("strong", &error.code);
            page.text(&format!(" {}", error.message));
            page.close("p");
        }
        (None, None) => {}
    }
}

fn questions(page: &mut Markup, report: &Report) {
    if report.questions.is_empty() {
        return;
    }
    page.open_class("div", "why");
    page.element("strong", words().page.questions);
    page.open("ul");
    for question in &report.questions {
        page.open("li");
        page.text(&format!("{}: {} ", question.question_id, question.text));
        page.text(&how_to_answer(&report.run_id, question));
        page.close("li");
    }
    page.close("ul");
    page.close("div");
}

/// The name of an action as a link to its section.
pub fn link(page: &mut Markup, step: u32, text: &str) {
    page.open_with("a", &[("href", &format!("#{}", anchor(step)))]);
    page.text(&format!("{} {text}", step + 1));
    page.close("a");
}

pub fn anchor(step: u32) -> String {
    format!("action-{}", step + 1)
}

/// Writes the timeline: one bar for all tries, with a part for each.
pub fn timeline(page: &mut Markup, report: &Report) {
    let texts = &words().page;
    let run = &report.script;
    let from = run.accepted_at_ms;
    let length = (ended(report) - from).max(1) as f64;
    if run.activities.is_empty() {
        return;
    }
    page.open_class("section", "timeline");
    page.element("h2", texts.timeline);
    let view = format!("0 0 {TIMELINE_WIDTH} 36");
    let about = fill(texts.timeline_about, &[&took(length as i64)]);
    page.open_with(
        "svg",
        &[("viewBox", &view), ("preserveAspectRatio", "none"), ("role", "img"), ("aria-label", &about)],
    );
    page.open_with("rect", &[("class", "track"), ("width", "1000"), ("height", "36")]);
    let tries =
        run.activities.iter().flat_map(|activity| activity.tries.iter().map(move |one| (activity, one)));
    for (activity, one) in tries.take(super::MOST_TRIES) {
        let until = one.ended_at_ms.unwrap_or_else(|| ended(report));
        let x = (one.started_at_ms - from).max(0) as f64 / length * TIMELINE_WIDTH;
        let width = (until - one.started_at_ms).max(0) as f64 / length * TIMELINE_WIDTH;
        page.open_with("g", &[("class", segment_class(activity, one.ending.as_ref()))]);
        page.element("title", &segment_title(report, activity, until - one.started_at_ms));
        page.open_with(
            "rect",
            &[
                ("x", &format!("{:.2}", x.min(TIMELINE_WIDTH - NARROWEST))),
                ("width", &format!("{:.2}", width.max(NARROWEST))),
                ("height", "36"),
            ],
        );
        page.close("g");
    }
    page.close("svg");
    page.element_class("p", "faint", &about);
    page.close("section");
}

fn segment_class(activity: &Activity, ending: Option<&Ending>) -> &'static str {
    match (activity.kind, ending) {
        (_, Some(Ending::Failed(_))) => "bad",
        (v1::BrowserActivity::Recovery, _) => "recovery",
        (v1::BrowserActivity::Action, Some(_)) => "good",
        (v1::BrowserActivity::Action, None) => "plain",
        _ => "frame",
    }
}

fn segment_title(report: &Report, activity: &Activity, took_ms: i64) -> String {
    let texts = &words().page;
    let what = match (activity.kind, activity.step) {
        (v1::BrowserActivity::Open, _) => texts.opening.to_owned(),
        (v1::BrowserActivity::Close, _) => texts.closing.to_owned(),
        (_, Some(step)) => {
            let id = report.script.declared(step).map(|action| action.id.clone()).unwrap_or_default();
            format!("{} {id}", step + 1)
        }
        (_, None) => String::new(),
    };
    format!("{what}: {}", took(took_ms))
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
pub fn summary(page: &mut Markup, report: &Report) {
    let texts = &words().page;
    let run = &report.script;
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
        page.element("td", &duration(report, &activities));
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
pub fn duration(report: &Report, activities: &[&Activity]) -> String {
    match (activities.first(), activities.last()) {
        (Some(first), Some(last)) => {
            took(last.ended_at_ms.unwrap_or_else(|| ended(report)) - first.started_at_ms)
        }
        _ => String::new(),
    }
}

/// Writes the outputs of the actions.
pub fn outputs(page: &mut Markup, report: &Report) {
    let texts = &words().page;
    if report.script.outputs.is_empty() {
        return;
    }
    page.open("section");
    page.element("h2", texts.outputs);
    page.open("dl");
    for (name, given) in &report.script.outputs {
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

/// Writes a value: a table as a table, anything else as text.
fn value(page: &mut Markup, value: &str) {
    let parsed = serde_json::from_str::<Value>(value).ok();
    if let Some(rows) = parsed.as_ref().and_then(table_rows) {
        page.open_class("div", "wide");
        page.open("table");
        page.open("tbody");
        for row in rows.iter().take(OUTPUT_ROWS) {
            page.open("tr");
            for cell in row {
                page.element("td", cell);
            }
            page.close("tr");
        }
        page.close("tbody");
        page.close("table");
        page.close("div");
        if let Some(more) = rows.len().checked_sub(OUTPUT_ROWS).filter(|more| *more > 0) {
            page.element("p", &fill(words().act_error.more, &[&more.to_string()]));
        }
        return;
    }
    let text: String = describe::output(value).chars().take(OUTPUT_LENGTH).collect();
    page.open("pre");
    page.block(&text);
    page.close("pre");
}

/// The rows of a value that is a non-empty list of lists of texts.
fn table_rows(value: &Value) -> Option<Vec<Vec<&str>>> {
    let rows = value.as_array().filter(|rows| !rows.is_empty())?;
    rows.iter().map(cells).collect()
}

fn cells(row: &Value) -> Option<Vec<&str>> {
    row.as_array()?.iter().map(Value::as_str).collect()
}
