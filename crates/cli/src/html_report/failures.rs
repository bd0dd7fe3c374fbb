//! What failed: each task with its error, the next step, its attempts and the end of its log.

use capataz_contracts::v1;
use capataz_display::error::{advice, one_line};
use capataz_display::frame::truncated;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};
use capataz_policy::retry::original;

use super::markup::Markup;
use super::rows;
use super::story::{By, Story, Task};

/// Maximum number of failed tasks that are told in full.
const MOST_TOLD: usize = 30;
/// Maximum number of failed tasks that have a line.
const MOST_LISTED: usize = 300;
/// Failed tasks that are told unfolded.
const UNFOLDED: usize = 3;
/// Lines of a log that are shown at once.
const LOG_LINES: usize = 12;
/// Maximum number of places of an output that breaks its rule.
const MOST_VIOLATIONS: usize = 10;
/// Maximum number of errors within an error that are shown.
const MOST_DETAILS: usize = 20;

/// Writes the section of the failed tasks; nothing if none has failed.
pub fn section(page: &mut Markup, story: &Story, until_ms: i64) {
    let texts = &words().reports;
    let failed = story.failed();
    if failed.is_empty() {
        return;
    }
    page.open_with("section", &[("class", "failures"), ("id", "failures")]);
    let title = if story.kind.goes_on_from_failures() { texts.failed_calls } else { texts.what_failed };
    page.element("h2", title);
    for (number, (place, task)) in failed.iter().take(MOST_TOLD).enumerate() {
        told(page, story, *place, task, until_ms, number < UNFOLDED);
    }
    let more: Vec<_> = failed.iter().skip(MOST_TOLD).collect();
    if !more.is_empty() {
        page.open("details");
        page.element("summary", &counted(more.len() as u64, texts.more_failed_one, texts.more_failed_many));
        page.open("ul");
        for (place, task) in more.iter().take(MOST_LISTED) {
            page.open_with("li", &[("id", &rows::anchor(*place))]);
            let error = task.settled.as_ref().and_then(|settled| settled.error.as_ref());
            let error = error.map(|error| one_line(original(error))).unwrap_or_default();
            page.text(&format!("{}: {}", task.name, truncated(&error, rows::MESSAGE_LENGTH)));
            page.close("li");
        }
        page.close("ul");
        let rest = more.len().saturating_sub(MOST_LISTED) as u64;
        if rest > 0 {
            page.element("p", &counted(rest, texts.more_failed_one, texts.more_failed_many));
        }
        page.close("details");
    }
    page.close("section");
}

fn told(
    page: &mut Markup,
    story: &Story,
    place: (usize, usize),
    task: &Task,
    until_ms: i64,
    is_unfolded: bool,
) {
    let texts = &words().reports;
    let anchor = rows::anchor(place);
    let unfolded = [("class", "error"), ("id", anchor.as_str()), ("open", "")];
    page.open_with("details", if is_unfolded { &unfolded } else { &unfolded[..2] });
    page.open("summary");
    page.open("h3");
    page.text(&task.name);
    page.constant(" ");
    page.element_class("span", "badge bad", rows::state_of(task));
    if task.critical {
        page.constant(" ");
        page.element_class("span", "badge warning", words().runs.critical);
    }
    page.close("h3");
    page.close("summary");
    if let Some(wave) = story.waves.get(place.0) {
        let of = rows::title(story, place.0, wave);
        page.element_class("p", "faint", &fill(texts.of_wave, &[&of, &task.agent]));
    }
    let Some(settled) = &task.settled else { return page.close("details") };
    if let Some(error) = &settled.error {
        failure(page, error);
    }
    let attempts = rows::attempts(task, until_ms);
    if attempts.len() > 1 {
        page.open_class("ol", "attempts");
        attempts.iter().for_each(|line| page.element("li", line));
        page.close("ol");
    }
    violations(page, task);
    log(page, &settled.log);
    details(page, task);
    page.close("details");
}

/// Writes an error: what it is, what it comes from, and the next step.
pub fn failure(page: &mut Markup, error: &v1::Error) {
    page.open("p");
    page.element("strong", &error.code);
    page.text(&format!(" {}", message(&error.message)));
    page.close("p");
    let within = original(error);
    if !std::ptr::eq(within, error) {
        page.element("p", &fill(words().errors.original, &[&one_line(within)]));
    }
    if let Some(reason) = error.reason.as_deref().filter(|reason| !reason.is_empty()) {
        page.element("p", &fill(words().errors.reason, &[&message(reason)]));
    }
    if let Some(advice) = advice(error) {
        page.element_class("p", "advice", &format!("{}: {advice}", words().page.advice));
    }
    if !error.suggestions.is_empty() {
        page.element("p", &format!("{} {}", words().errors.similar_names, error.suggestions.join(", ")));
    }
    if !error.details.is_empty() {
        page.open("ul");
        error.details.iter().take(MOST_DETAILS).for_each(|detail| page.element("li", &one_line(detail)));
        page.close("ul");
        let more = error.details.len().saturating_sub(MOST_DETAILS);
        if more > 0 {
            page.element("p", &fill(words().errors.more_details, &[&more.to_string()]));
        }
    }
}

/// Writes where the output of the last try breaks its rule.
fn violations(page: &mut Markup, task: &Task) {
    let texts = &words().pipelines;
    let Some((_, last)) = task.tries().filter(|(_, tried)| !tried.violations.is_empty()).last() else {
        return;
    };
    page.element("h4", words().reports.breaks_rule);
    page.open("ul");
    for broken in last.violations.iter().take(MOST_VIOLATIONS) {
        let path = if broken.path.is_empty() { texts.the_output } else { broken.path.as_str() };
        page.open("li");
        page.element("code", path);
        let values = [message(&broken.expected), message(&broken.found)];
        page.text(&fill(words().reports.expected_found, &[&values[0], &values[1]]));
        page.close("li");
    }
    page.close("ul");
    let more = last.violations.len().saturating_sub(MOST_VIOLATIONS);
    if more > 0 {
        page.element("p", &fill(texts.more, &[&more.to_string()]));
    }
}

/// Writes the end of a log, and behind a disclosure what comes before it.
fn log(page: &mut Markup, log: &str) {
    let texts = &words().reports;
    let log = log.trim_end();
    if log.is_empty() {
        return;
    }
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    page.element("h4", texts.log_end);
    page.open("pre");
    page.block(&lines.get(from..).unwrap_or_default().join("\n"));
    page.close("pre");
    if from > 0 {
        page.folded(&counted(lines.len() as u64, texts.log_one, texts.log_many), log);
    }
}

/// Writes who worked on the task, behind a disclosure.
fn details(page: &mut Markup, task: &Task) {
    let texts = &words().reports;
    page.open("details");
    page.element("summary", texts.technical);
    page.open("dl");
    page.pair_code(texts.agent, &task.agent);
    if let Some(settled) = &task.settled {
        page.pair(words().page.took, &fill(texts.milliseconds, &[&settled.duration_ms.to_string()]));
        if let Some(cause) = settled.error.as_ref().and_then(|error| error.cause.as_deref()) {
            page.pair(words().page.cause, &one_line(cause));
        }
    }
    let tries = task.tries().map(|(span, tried)| {
        let (by, id) = match &tried.by {
            By::Worker(worker) => (texts.by_worker, worker),
            By::Run(run) => (texts.by_run, run),
        };
        let until = span.until_ms.unwrap_or(span.from_ms);
        let lasted = until.saturating_sub(span.from_ms).to_string();
        let number = format!("{}.{}", tried.activation.max(1), tried.attempt);
        fill(texts.try_line, &[&number, &fill(by, &[id]), &lasted])
    });
    page.pair_list(texts.attempts, &tries.collect::<Vec<_>>());
    page.close("dl");
    page.close("details");
}
