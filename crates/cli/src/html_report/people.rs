//! What people were asked, and what they have answered; the runs that belong to this one.

use capataz_contracts::v1;
use capataz_display::error::one_line;
use capataz_display::run::{outcome_name, status_name};
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};

use super::markup::Markup;
use super::{Report, outputs, rows};

/// Maximum number of bytes of the values of all answers.
const ALL_VALUES: usize = 256 * 1024;
/// Maximum number of questions that are told.
const MOST_QUESTIONS: usize = 100;

/// Writes the questions with their answers; nothing if nobody was asked.
pub fn section(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    if story.questions.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "questions")]);
    page.element("h2", texts.questions);
    let mut left = ALL_VALUES;
    for asked in story.questions.iter().take(MOST_QUESTIONS) {
        let question = &asked.question;
        page.open_class("div", "asked");
        page.open("p");
        page.element("strong", &message(&question.text));
        page.close("p");
        page.open("p");
        page.element_class(
            "span",
            if asked.answered.is_some() { "badge good" } else { "badge warning" },
            &rows::answer_of(asked),
        );
        page.constant(" ");
        page.open_class("span", "faint");
        page.time(asked.asked_at_ms);
        if let Some(answered) = &asked.answered {
            page.text(&fill(
                texts.after,
                &[&capataz_display::format::took(answered.at_ms.saturating_sub(asked.asked_at_ms))],
            ));
        }
        page.close("span");
        page.close("p");
        if let Some(error) = &question.error {
            page.element_class("p", "faint", &one_line(error));
        }
        page.open("details");
        page.element("summary", texts.technical);
        page.open("dl");
        page.pair_code(words().page.id, &question.question_id);
        page.pair(texts.task, question.task.as_deref().unwrap_or_default());
        page.pair_code(texts.options, &question.options.join(" "));
        page.close("dl");
        if let Some(value) = asked.answered.as_ref().and_then(|answered| answered.value.as_ref()) {
            page.element("h4", texts.answer_value);
            outputs::payload(page, report, value, None, &mut left);
        }
        page.close("details");
        page.close("div");
    }
    let more = story.questions.len().saturating_sub(MOST_QUESTIONS) as u64;
    if more > 0 {
        page.element("p", &counted(more, texts.more_questions_one, texts.more_questions_many));
    }
    page.close("section");
}

/// Writes the runs that tasks of this one are, or have started.
pub fn children(page: &mut Markup, report: &Report) {
    let texts = &words().reports;
    let children = report.run.as_ref().map(|run| run.children.as_slice()).unwrap_or_default();
    if children.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "children")]);
    page.element("h2", texts.children);
    page.open("ul");
    for child in children {
        page.open("li");
        page.text(&format!("{} ", child.task));
        let is_bad = |outcome: v1::RunOutcome| {
            !matches!(outcome, v1::RunOutcome::Succeeded | v1::RunOutcome::SucceededWithFailures)
        };
        let (class, state) = match child.outcome {
            Some(_) if is_bad(child.outcome()) => ("badge bad", outcome_name(child.outcome())),
            Some(_) => ("badge good", outcome_name(child.outcome())),
            None => {
                let run = v1::Run { status: child.status, ..v1::Run::default() };
                ("badge plain", status_name(&run))
            }
        };
        page.element_class("span", class, state);
        page.constant(" ");
        page.element("code", &child.run_id);
        page.close("li");
    }
    page.close("ul");
    page.close("section");
}

/// Writes the run's notices: what was to be known and has changed nothing.
pub fn notices(page: &mut Markup, report: &Report) {
    let texts = &words().reports;
    let Some(run) = report.run.as_ref().filter(|run| !run.notices.is_empty()) else { return };
    page.open_with("section", &[("id", "notices")]);
    page.open("details");
    let total = run.notices.len() as u64 + u64::from(run.notices_omitted);
    page.element("summary", &counted(total, texts.notices_one, texts.notices_many));
    page.open("ul");
    for notice in run.notices.iter().filter_map(|notice| notice.notice.as_ref()) {
        page.element("li", &one_line(notice));
    }
    page.close("ul");
    if run.notices_omitted > 0 {
        let omitted = run.notices_omitted.to_string();
        page.element("p", &fill(words().watch.notices_omitted, &[&omitted, &run.run_id]));
    }
    page.close("details");
    page.close("section");
}
