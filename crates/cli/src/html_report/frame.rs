//! The frame of every report: the head, the header with what matters most, and the foot.

use capataz_contracts::v1;
use capataz_display::error::advice;
use capataz_display::format::took;
use capataz_display::frame::truncated;
use capataz_display::run::{how_to_answer, outcome_name, status_name};
use capataz_display::script::fold::{Ending, Try, step_of};
use capataz_display::words::messages::message;
use capataz_display::words::{Language, counted, fill, words};
use capataz_policy::executor::evidence::{SCREENSHOT_AFTER, SCREENSHOT_BEFORE};
use capataz_policy::retry::original;

use super::markup::Markup;
use super::script::overview;
use super::script::pictures::Gallery;
use super::story::{Asked, Story};
use super::{Report, rows};

/// The content security policy: the page loads nothing, and runs only the script that tells times in the reader's zone,
/// by its hash. Pictures are embedded.
const SECURITY: &str = "default-src 'none'; script-src 'sha256-ILNsf2BnfJYROnKNnkfRmfIVoE4AKHnBR6MCt5fPVAE='; \
                        img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// The script that tells times in the reader's zone. Without it they stay in UTC.
const LOCAL_TIMES: &str = include_str!("local_times.js");
/// The address of the page with which every browser begins.
const BLANK: &str = "about:blank";
/// Maximum number of columns of a heading.
const NAME_LENGTH: usize = 160;
/// Maximum number of failed tasks that the header names.
const MOST_NAMED: usize = 5;

pub fn head(page: &mut Markup, report: &Report) {
    page.constant("<!DOCTYPE html>\n");
    page.open_with("html", &[("lang", Language::current().tag())]);
    page.open("head");
    page.open_with("meta", &[("charset", "utf-8")]);
    page.open_with("meta", &[("http-equiv", "Content-Security-Policy"), ("content", SECURITY)]);
    page.open_with("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.open_with("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.open_with("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    let title = fill(words().page.title, &[&name(report), outcome(report)]);
    page.element("title", &title);
    page.open("style");
    page.constant(include_str!("style.css"));
    page.constant(include_str!("timeline.css"));
    page.close("style");
    page.close("head");
}

/// Writes the script, which has to be byte for byte what its hash in the policy says.
pub fn local_times(page: &mut Markup) {
    page.constant("<script>");
    page.constant(LOCAL_TIMES);
    page.constant("</script>\n");
}

/// The name of the run, or the beginning of what was asked; the whole of that stands above the answer.
fn name(report: &Report) -> String {
    let story = &report.story;
    truncated(if story.asked.is_empty() { &story.model.name } else { &story.asked }, NAME_LENGTH)
}

fn outcome(report: &Report) -> &'static str {
    match (&report.story.finished, &report.run) {
        (Some(finished), _) => outcome_name(finished.outcome),
        (None, Some(run)) if run.status() != v1::RunStatus::Running => status_name(run),
        (None, _) => words().page.unfinished,
    }
}

fn outcome_class(report: &Report) -> &'static str {
    match report.story.finished.as_ref().map(|finished| finished.outcome) {
        Some(v1::RunOutcome::Succeeded) => "badge good",
        Some(v1::RunOutcome::SucceededWithFailures) => "badge warning",
        Some(_) => "badge bad",
        None => match report.run.as_ref().map(v1::Run::status) {
            Some(v1::RunStatus::Waiting | v1::RunStatus::Paused | v1::RunStatus::Cancelling) => {
                "badge warning"
            }
            _ => "badge plain",
        },
    }
}

pub fn header<'r>(page: &mut Markup, report: &'r Report, gallery: &mut Gallery<'r>) {
    page.open("header");
    page.element_class("p", "kind", report.story.kind.title(&report.story));
    page.open("h1");
    page.text(&name(report));
    page.constant(" ");
    page.element_class("span", outcome_class(report), outcome(report));
    page.close("h1");
    if report.story.finished.is_none() {
        let seq = report.story.model.seq.to_string();
        page.element_class("p", "going", &fill(words().reports.goes_on, &[&seq]));
    }
    page.element("p", &at_a_glance(report));
    why(page, report);
    questions(page, &report.story);
    picture(page, report, gallery);
    facts(page, report);
    page.close("header");
}

/// What came of the run in one sentence.
fn at_a_glance(report: &Report) -> String {
    let (texts, story) = (&words().reports, &report.story);
    let lasted = took(story.until_ms(report.now_ms).saturating_sub(story.model.accepted_at_ms));
    let glance = story.kind.at_a_glance(story, &lasted);
    match story.finished.as_ref().map_or(0, |finished| finished.not_started) {
        0 => glance,
        number => {
            let number = counted(number.into(), texts.not_started_one, texts.not_started_many);
            format!("{glance} {number}")
        }
    }
}

/// Writes why the run ended as it did, with the next step, before everything else.
fn why(page: &mut Markup, report: &Report) {
    let story = &report.story;
    let of_script = story.model.script.as_ref().and_then(|script| script.error());
    if let Some((failed, error)) = of_script.and_then(|failed| Some((failed, failed.error.as_ref()?))) {
        page.open_class("div", "why");
        said(page, &error.error_code, &error.message);
        if let Some(step) = step_of(failed) {
            overview::link(page, step, &error.action_id);
        }
        next_step(page, capataz_display::words::advice::advice(&error.error_code));
        page.close("div");
        return;
    }
    let own = story.finished.as_ref().and_then(|finished| finished.error.as_ref());
    // The tasks of a script are below its actions.
    let failed = if story.model.script.is_some() { Vec::new() } else { story.failed() };
    if own.is_none() && (failed.is_empty() || story.finished.is_none() && story.kind.goes_on_from_failures())
    {
        return;
    }
    page.open_class("div", "why");
    if let Some(error) = own {
        said(page, &error.code, &error.message);
        let within = original(error);
        if within.code != error.code {
            said(page, &within.code, &within.message);
        }
        next_step(page, advice(error).as_deref());
    }
    // What failed in an execution is what its planner went on from.
    if !story.kind.goes_on_from_failures() && !failed.is_empty() {
        named(page, &failed);
    }
    page.close("div");
}

fn said(page: &mut Markup, code: &str, text: &str) {
    page.open("p");
    page.element("strong", code);
    page.text(&format!(" {} ", message(text)));
    page.close("p");
}

fn next_step(page: &mut Markup, advice: Option<&str>) {
    if let Some(advice) = advice {
        page.open_class("p", "advice");
        page.text(&format!("{}: {advice}", words().page.advice));
        page.close("p");
    }
}

/// Writes the failed tasks, a line each, with links to what is told of them.
fn named(page: &mut Markup, failed: &[((usize, usize), &super::story::Task)]) {
    let texts = &words().reports;
    page.open_class("ul", "plain");
    for (place, task) in failed.iter().take(MOST_NAMED) {
        page.open("li");
        page.open_with("a", &[("href", &format!("#{}", rows::anchor(*place)))]);
        page.text(&task.name);
        page.close("a");
        let error = task.settled.as_ref().and_then(|settled| settled.error.as_ref()).map(original);
        if let Some(error) = error {
            page.text(": ");
            page.element("strong", &error.code);
            let said = message(error.message.lines().next().unwrap_or_default());
            page.text(&format!(" {}", truncated(&said, rows::MESSAGE_LENGTH)));
        } else {
            page.text(&format!(": {}", rows::state_of(task)));
        }
        page.close("li");
    }
    let more = failed.len().saturating_sub(MOST_NAMED) as u64;
    if more > 0 {
        page.element("li", &counted(more, texts.more_failed_one, texts.more_failed_many));
    }
    page.close("ul");
}

/// Writes the open questions, with the commands that answer them.
fn questions(page: &mut Markup, story: &Story) {
    let is_open = |asked: &&Asked| asked.answered.is_none() && story.finished.is_none();
    let open: Vec<&Asked> = story.questions.iter().filter(is_open).collect();
    if open.is_empty() {
        return;
    }
    page.open_class("div", "asks");
    page.element("strong", words().page.questions);
    page.open("ul");
    for asked in open {
        let question = &asked.question;
        page.open("li");
        page.text(&format!("{}: {} ", question.question_id, message(&question.text)));
        page.text(&how_to_answer(&story.run_id, question));
        page.close("li");
    }
    page.close("ul");
    page.close("div");
}

/// Writes the picture of the failure that ended the run.
fn picture<'r>(page: &mut Markup, report: &'r Report, gallery: &mut Gallery<'r>) {
    let story = &report.story;
    let of_script = story.model.script.as_ref().and_then(|script| script.error());
    let has_failed = story.finished.as_ref().is_some_and(|finished| finished.error.is_some());
    let (evidence, target) = match of_script.and_then(|failed| Some((failed, failed.error.as_ref()?))) {
        Some((failed, error)) => (&error.evidence_refs, failed.resolution.as_ref()),
        None => match story.browsed.last().filter(|_| has_failed) {
            Some((_, last)) => (&last.evidence, last.target.as_ref()),
            None => return,
        },
    };
    let of = |kind: &str| evidence.iter().find(|piece| piece.kind == kind && gallery.has(piece));
    // An action may fail before a picture is taken: then the newest one shows where it began.
    let newest = || {
        let activities = story.model.script.iter().flat_map(|script| &script.activities);
        let tries = activities.flat_map(|activity| &activity.tries).filter(|one| !is_of_blank_page(one));
        tries
            .flat_map(super::evidence_of)
            .filter(|piece| super::is_picture(piece) && gallery.has(piece))
            .last()
    };
    let shown = of(SCREENSHOT_AFTER)
        .map(|piece| (piece, words().page.picture_after, None))
        .or_else(|| of(SCREENSHOT_BEFORE).map(|piece| (piece, words().page.picture_before, target)))
        .or_else(|| newest().map(|piece| (piece, words().reports.newest_picture, None)));
    if let Some((piece, caption, target)) = shown {
        page.open_class("div", "pictures first");
        gallery.figure(page, piece, caption, target);
        page.close("div");
    }
}

/// Whether the pictures of a try show the page with which every browser begins.
fn is_of_blank_page(one: &Try) -> bool {
    let Some(Ending::Succeeded(finished)) = &one.ending else { return false };
    finished.state_before.as_ref().is_none_or(|state| state.url == BLANK)
}

fn facts(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().page, &report.story);
    page.open_class("dl", "facts");
    page.element("dt", texts.started);
    page.open("dd");
    page.time(story.model.accepted_at_ms);
    page.close("dd");
    if let Some(finished) = &story.finished {
        page.element("dt", words().reports.ended);
        page.open("dd");
        page.time(finished.at_ms);
        page.close("dd");
    }
    page.pair(words().reports.models, &story.spent.told());
    let labels: Vec<String> = story.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    page.pair_code(texts.labels, &labels.join(" "));
    if let Some(parent) = &story.parent {
        page.pair_code(words().runs.parent, &format!("{} ({})", parent.run_id, parent.task));
    }
    if let Some(run) = &report.run {
        page.pair_code(words().reports.session, run.session.as_deref().unwrap_or_default());
        page.pair_code(words().reports.continues, run.continues.as_deref().unwrap_or_default());
        if let Some(of) = &run.forked_from {
            let text = fill(words().runs.forked_at, &[&of.run_id, &of.seq.to_string()]);
            page.pair_code(words().runs.forked_from, &text);
        }
    }
    if let Some(script) = &story.model.script {
        page.pair(texts.browser, &script.browser);
        let policy = script.script.policy.as_ref();
        let allowlist = policy.map(|policy| policy.allowlist.join(" ")).unwrap_or_default();
        page.pair_code(texts.allowlist, if allowlist.is_empty() { texts.nothing } else { &allowlist });
    }
    page.close("dl");
}

pub fn footer(page: &mut Markup, report: &Report) {
    let texts = &words().page;
    page.open("footer");
    page.element("p", &fill(texts.generated, &[&report.story.model.seq.to_string()]));
    page.open("details");
    page.element("summary", words().reports.technical);
    page.open("dl");
    page.pair_code(texts.run, &report.story.run_id);
    page.pair(texts.daemon, &report.version);
    page.pair(words().reports.zone, words().reports.zone_about);
    page.close("dl");
    page.close("details");
    page.close("footer");
}
