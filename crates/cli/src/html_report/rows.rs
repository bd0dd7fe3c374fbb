//! The rows of a run's timeline: the tasks of waves, calls and phases, the questions to people, and the run itself.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_display::format::{exactly, took};
use capataz_display::frame::truncated;
use capataz_display::mode::replan_reason;
use capataz_display::wave::policy_name;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};
use capataz_policy::retry::original;

use super::story::{Asked, By, End, Happened, Moment, Part, Span, Story, Task, Try, Wave, What};
use super::timeline::{Bar, BarKind, Line, MOST_ROWS, Mark, MarkKind, Row, Timeline};
use crate::watch::lines::{cancel_reason, loss};

/// Maximum number of things that happened that a note names.
const MOST_MOMENTS: usize = 4;
/// Maximum number of characters of a note.
const NOTE_LENGTH: usize = 240;
/// Maximum number of characters of what an attempt in a list failed with.
pub const MESSAGE_LENGTH: usize = 300;
/// Maximum number of characters of a label.
const LABEL_LENGTH: usize = 80;

/// The timeline of a run that is no script.
pub fn timeline(story: &Story, until_ms: i64) -> Timeline {
    let mut timeline = Timeline::default();
    timeline.lines.extend(of_run(story, until_ms).map(Line::Row));
    if story.kind.is_of_calls() {
        of_calls(story, until_ms, &mut timeline);
    } else {
        of_waves(story, until_ms, &mut timeline);
    }
    timeline
}

/// The places of the tasks that have a row: those that have not succeeded first, then those that were tried again.
pub fn shown(story: &Story) -> BTreeSet<(usize, usize)> {
    let rank = |task: &Task| match () {
        () if task.has_failed() => 0,
        () if !task.has_succeeded() => 1,
        () if task.tries().count() > 1 => 2,
        () => 3,
    };
    let mut places: Vec<_> = story.tasks().map(|(place, task)| (rank(task), place)).collect();
    places.sort_unstable();
    places.into_iter().take(MOST_ROWS).map(|(_, place)| place).collect()
}

fn of_waves(story: &Story, until_ms: i64, timeline: &mut Timeline) {
    let shown = shown(story);
    let (mut good, mut others) = (0_u64, 0_u64);
    for (place, wave) in story.waves.iter().enumerate() {
        let tasks = wave.tasks.iter().enumerate();
        let (listed, left): (Vec<_>, Vec<_>) = tasks.partition(|(task, _)| shown.contains(&(place, *task)));
        let succeeded = left.iter().filter(|(_, task)| task.has_succeeded()).count() as u64;
        good += succeeded;
        others += left.len() as u64 - succeeded;
        if listed.is_empty() {
            continue;
        }
        timeline.lines.push(Line::Group(title(story, place, wave), note(wave)));
        let rows = listed.into_iter().map(|(task, of)| of_task(story, (place, task), of, until_ms));
        timeline.lines.extend(rows.map(Line::Row));
        timeline.lines.extend(left_out(std::mem::take(&mut good), std::mem::take(&mut others)));
    }
    timeline.lines.extend(left_out(good, others));
}

/// What is said of rows that are left out.
fn left_out(good: u64, others: u64) -> impl Iterator<Item = Line> {
    let texts = &words().reports;
    let good = (good > 0).then(|| counted(good, texts.more_good_one, texts.more_good_many));
    let others = (others > 0).then(|| counted(others, texts.more_others_one, texts.more_others_many));
    good.into_iter().chain(others).map(Line::Folded)
}

/// The rows of an execution or an ask: its calls and the questions to people, by the times at which they began.
fn of_calls(story: &Story, until_ms: i64, timeline: &mut Timeline) {
    let shown = shown(story);
    let mut rows: Vec<(i64, Row)> = Vec::new();
    for (place, task) in story.tasks().filter(|(place, _)| shown.contains(place)) {
        let began = task.spans.first().map_or(story.began_at_ms, |span| span.from_ms);
        rows.push((began, of_task(story, place, task, until_ms)));
    }
    for asked in story.questions.iter().take(MOST_ROWS) {
        rows.push((asked.asked_at_ms, of_question(asked, until_ms)));
    }
    rows.sort_by_key(|(began, _)| *began);
    timeline.lines.extend(rows.into_iter().map(|(_, row)| Line::Row(row)));
    let hidden = story.tasks().filter(|(place, _)| !shown.contains(place));
    let (good, others) = hidden.fold((0, 0), |(good, others), (_, task)| match task.has_succeeded() {
        true => (good + 1, others),
        false => (good, others + 1),
    });
    timeline.lines.extend(left_out(good, others));
}

/// The title of a wave, by what it is to the kind of its run.
pub fn title(story: &Story, place: usize, wave: &Wave) -> String {
    let texts = &words().reports;
    let number = (place + 1).to_string();
    match &wave.part {
        Part::Wave => fill(texts.wave, &[&number, &story.waves.len().to_string(), &wave.name]),
        Part::Call(call) => fill(texts.call, &[&number, &call.spec]),
        Part::Phase { place, again } => {
            let phase = story.model.phases.get(*place as usize);
            let name = phase.map_or("", |phase| phase.checkpoint.phase.as_str());
            let of = story.model.phases.len().to_string();
            let template = if *again { texts.phase_again } else { texts.phase };
            fill(template, &[&(place + 1).to_string(), &of, name])
        }
        Part::Planner(asked) => {
            let reasons: Vec<&str> = asked.reasons().map(replan_reason).collect();
            match reasons.as_slice() {
                [] if asked.plan_wanted => texts.planner_plans.to_owned(),
                [] => texts.planner.to_owned(),
                reasons => fill(texts.planner_again, &[&reasons.join(", ")]),
            }
        }
        Part::Tool { step: Some(step) } => fill(texts.tool_step, &[tool(wave), &(step + 1).to_string()]),
        Part::Tool { step: None } => tool(wave).to_owned(),
    }
}

/// The name of the tool that a wave calls.
pub fn tool(wave: &Wave) -> &str {
    wave.name.as_str()
}

fn note(wave: &Wave) -> String {
    if !matches!(wave.part, Part::Wave) {
        return String::new();
    }
    let verdict = wave.evaluation.as_ref().map(|evaluation| message(&evaluation.reason).into_owned());
    format!(" · {}", verdict.unwrap_or_else(|| policy_name(wave.policy).to_owned()))
}

fn of_task(story: &Story, place: (usize, usize), task: &Task, until_ms: i64) -> Row {
    let mut bars: Vec<Bar> = task.spans.iter().map(|span| bar(span, until_ms)).collect();
    let mut marks: Vec<Mark> = task.spans.iter().filter_map(mark).collect();
    marks.extend(task.moments.iter().map(of_moment));
    for asked in story.questions.iter().filter(|asked| asked.place == Some(place)) {
        if asked.question.holds() == v1::QuestionHold::Task && !story.kind.is_of_calls() {
            bars.push(waiting(asked, until_ms));
        }
        marks.extend(of_answers(asked));
    }
    let wave = story.waves.get(place.0).filter(|_| story.kind.is_of_calls());
    let label = wave.map_or_else(|| task.name.clone(), |wave| title(story, place.0, wave));
    Row {
        label: truncated(&label, LABEL_LENGTH),
        anchor: task.has_failed().then(|| anchor(place)),
        note: with_moments(standing(task, until_ms), &task.moments),
        bars,
        marks,
    }
}

/// The note with what happened beside it, which the marks alone do not say to whoever cannot point at them.
fn with_moments(note: String, moments: &[Moment]) -> String {
    let told = moments.iter().take(MOST_MOMENTS).map(|moment| told(&moment.what).1);
    let mut parts: Vec<String> = std::iter::once(note).chain(told).filter(|part| !part.is_empty()).collect();
    if moments.len() > MOST_MOMENTS {
        parts.push("…".to_owned());
    }
    truncated(&parts.join(" · "), NOTE_LENGTH)
}

/// The place on the page that tells of a task's failure.
pub fn anchor(place: (usize, usize)) -> String {
    format!("task-{}-{}", place.0 + 1, place.1 + 1)
}

/// What became of a task, in short: `failed · 3 attempts · 4.1s`.
pub fn standing(task: &Task, until_ms: i64) -> String {
    let state = state_of(task).to_owned();
    std::iter::once(state).chain(figures(task, until_ms)).collect::<Vec<_>>().join(" · ")
}

/// The figures of a task: attempts and lost leases where there are several, and how long it took.
pub fn figures(task: &Task, until_ms: i64) -> Vec<String> {
    let texts = &words().reports;
    let mut parts = Vec::new();
    let attempts = task.settled.as_ref().map_or(0, |settled| settled.attempts);
    if attempts > 1 {
        parts.push(counted(attempts.into(), texts.attempts_one, texts.attempts_many));
    }
    let lost = task.tries().filter(|(_, tried)| matches!(tried.end, End::Lost(_))).count() as u64;
    if lost > 0 {
        parts.push(counted(lost, texts.lost_one, texts.lost_many));
    }
    if task.spans_left_out > 0 {
        parts.push(fill(texts.spans_left_out, &[&task.spans_left_out.to_string()]));
    }
    let began = task.tries().next().map(|(span, _)| span.from_ms);
    if let Some(began) = began {
        let ended = task.settled.as_ref().map_or(until_ms, |settled| settled.at_ms);
        parts.push(took(ended.saturating_sub(began)));
    }
    parts
}

/// The state of a task in words.
pub fn state_of(task: &Task) -> &'static str {
    let texts = &words().reports;
    match &task.settled {
        Some(settled) if settled.taken_over => texts.taken_over,
        Some(settled) => match settled.status {
            v1::ResultStatus::Success => texts.succeeded,
            v1::ResultStatus::Timeout => texts.timed_out,
            v1::ResultStatus::Cancelled if settled.attempts == 0 => texts.never_begun,
            v1::ResultStatus::Cancelled => texts.cancelled,
            v1::ResultStatus::Error | v1::ResultStatus::Unspecified => texts.failed,
        },
        None => match task.spans.last() {
            Some(Span { until_ms: None, what: What::Tried(_), .. }) => texts.at_work,
            Some(Span { until_ms: None, .. }) => texts.waits,
            _ => texts.never_begun,
        },
    }
}

/// What became of a try, in words.
pub fn end_of(tried: &Try) -> String {
    let texts = &words().reports;
    match tried.end {
        End::Open => texts.at_work.to_owned(),
        End::Succeeded => texts.succeeded.to_owned(),
        End::Failed => match tried.error.as_ref().map(original).filter(|error| !error.code.is_empty()) {
            Some(error) => format!("{} ({})", texts.failed, error.code),
            None => texts.failed.to_owned(),
        },
        End::TimedOut => texts.timed_out.to_owned(),
        End::Cancelled => texts.cancelled.to_owned(),
        End::Lost(v1::LeaseLossReason::Forked) => words().watch.begun_anew.to_owned(),
        End::Lost(reason) => fill(texts.lost_because, &[loss(reason)]),
        End::TakenBack => texts.taken_back.to_owned(),
    }
}

fn bar(span: &Span, until_ms: i64) -> Bar {
    let texts = &words().reports;
    let until_ms = span.until_ms.unwrap_or(until_ms);
    let lasted = took(until_ms.saturating_sub(span.from_ms));
    let (kind, title) = match &span.what {
        What::Queued => (BarKind::Queued, fill(texts.queued_for, &[&lasted])),
        What::BackOff => (BarKind::BackOff, fill(texts.backed_off_for, &[&lasted])),
        What::Tried(tried) => {
            let kind = match tried.end {
                End::Open => BarKind::Open,
                End::Succeeded => BarKind::Good,
                End::Failed | End::TimedOut => BarKind::Bad,
                End::Cancelled | End::TakenBack => BarKind::Stopped,
                End::Lost(_) => BarKind::Lost,
            };
            let by = match &tried.by {
                By::Worker(worker) => worker,
                By::Run(run) => run,
            };
            (kind, fill(texts.attempt_told, &[&tried.attempt.to_string(), &end_of(tried), &lasted, by]))
        }
    };
    Bar { from_ms: span.from_ms, until_ms, kind, title }
}

/// The mark at the end of a try that came to nothing.
fn mark(span: &Span) -> Option<Mark> {
    let (What::Tried(tried), Some(at_ms)) = (&span.what, span.until_ms) else { return None };
    let kind = match tried.end {
        End::Failed | End::TimedOut => MarkKind::Failed,
        End::Lost(_) => MarkKind::Lost,
        End::Cancelled | End::TakenBack => MarkKind::Stopped,
        End::Open | End::Succeeded => return None,
    };
    Some(Mark { at_ms, kind, title: end_of(tried) })
}

fn of_moment(moment: &Moment) -> Mark {
    let (kind, title) = told(&moment.what);
    Mark { at_ms: moment.at_ms, kind, title }
}

/// Something that happened, as a mark and in words.
fn told(what: &Happened) -> (MarkKind, String) {
    let (texts, watch, modes) = (&words().reports, &words().watch, &words().modes);
    match what {
        Happened::StopAsked(reason) => {
            (MarkKind::Stopped, fill(watch.cancel_requested, &[cancel_reason(*reason)]))
        }
        Happened::Extended { by_ms } => (MarkKind::Noted, fill(texts.extended_by, &[&exactly(*by_ms)])),
        Happened::LateResult { worker } => (MarkKind::Noted, fill(watch.result_refused, &[worker])),
        Happened::CompletionRefused { worker, why } => {
            (MarkKind::Noted, fill(watch.completion_refused, &[worker, &message(why)]))
        }
        Happened::TimeoutImminent => (MarkKind::Noted, texts.time_nearly_over.to_owned()),
        Happened::RetriedByHand => (MarkKind::Noted, texts.retried_by_hand.to_owned()),
        Happened::TakenBack => (MarkKind::Stopped, texts.taken_back.to_owned()),
        Happened::PartialKept => (MarkKind::Noted, watch.partial_kept.to_owned()),
        Happened::RunCancelled { reason } if reason.is_empty() => {
            (MarkKind::Stopped, watch.cancel_run_bare.to_owned())
        }
        Happened::RunCancelled { reason } => (MarkKind::Stopped, fill(watch.cancel_run, &[reason])),
        Happened::Forked { run_id, seq } => {
            (MarkKind::Noted, fill(watch.forked, &[run_id, &seq.to_string()]))
        }
        Happened::PhaseRolledBack { phase } => {
            (MarkKind::Noted, fill(words().pipelines.rolled_back, &[phase]))
        }
        Happened::Checkpoint { id } => (MarkKind::Noted, fill(texts.checkpoint, &[id])),
        Happened::WentBack { id } => (MarkKind::Noted, fill(modes.rolled_back, &[id])),
        Happened::PlanChanged { revision } => {
            (MarkKind::Noted, fill(texts.plan_changed, &[&revision.to_string()]))
        }
        Happened::PlanApproved { revision } => {
            (MarkKind::Answered, fill(modes.approved, &[&revision.to_string()]))
        }
        Happened::PlanRejected { revision } => {
            (MarkKind::Stopped, fill(modes.rejected, &[&revision.to_string()]))
        }
    }
}

/// The row of the run itself: pauses, questions that hold it, and what happened to it.
pub fn of_run(story: &Story, until_ms: i64) -> Option<Row> {
    let texts = &words().reports;
    let mut row = Row { label: texts.the_run.to_owned(), ..Row::default() };
    for (from_ms, until) in &story.pauses {
        let until_ms = until.unwrap_or(until_ms);
        let title = fill(texts.paused_for, &[&took(until_ms.saturating_sub(*from_ms))]);
        row.bars.push(Bar { from_ms: *from_ms, until_ms, kind: BarKind::Person, title });
        let title = words().watch.paused.to_owned();
        row.marks.push(Mark { at_ms: *from_ms, kind: MarkKind::Paused, title });
        if let Some(at_ms) = until {
            let title = words().watch.resumed.to_owned();
            row.marks.push(Mark { at_ms: *at_ms, kind: MarkKind::Answered, title });
        }
    }
    // Those of an execution have rows of their own, and the tasks of a script have none.
    let questions = story.questions.iter().filter(|_| !story.kind.is_of_calls());
    let is_of_script = story.model.script.is_some();
    for asked in questions.filter(|asked| is_of_script || asked.place.is_none() || holds_run(asked)) {
        if holds_run(asked) {
            row.bars.push(waiting(asked, until_ms));
        }
        row.marks.extend(of_answers(asked));
    }
    row.marks.extend(story.moments.iter().map(of_moment));
    row.note = with_moments(String::new(), &story.moments);
    (!row.bars.is_empty() || !row.marks.is_empty()).then_some(row)
}

fn holds_run(asked: &Asked) -> bool {
    matches!(asked.question.holds(), v1::QuestionHold::Run | v1::QuestionHold::Unspecified)
}

fn of_question(asked: &Asked, until_ms: i64) -> Row {
    Row {
        label: truncated(&message(&asked.question.text), LABEL_LENGTH),
        anchor: None,
        note: answer_of(asked),
        bars: vec![waiting(asked, until_ms)],
        marks: of_answers(asked).collect(),
    }
}

fn waiting(asked: &Asked, until_ms: i64) -> Bar {
    let until_ms = asked.answered.as_ref().map_or(until_ms, |answered| answered.at_ms);
    let title = fill(words().reports.asked_for, &[&took(until_ms.saturating_sub(asked.asked_at_ms))]);
    Bar { from_ms: asked.asked_at_ms, until_ms, kind: BarKind::Person, title }
}

fn of_answers(asked: &Asked) -> impl Iterator<Item = Mark> {
    let question = Mark {
        at_ms: asked.asked_at_ms,
        kind: MarkKind::Asked,
        title: message(&asked.question.text).into_owned(),
    };
    let answer = asked.answered.as_ref().map(|answered| Mark {
        at_ms: answered.at_ms,
        kind: MarkKind::Answered,
        title: answer_of(asked),
    });
    std::iter::once(question).chain(answer)
}

/// What was answered, in short.
pub fn answer_of(asked: &Asked) -> String {
    let texts = &words().reports;
    match &asked.answered {
        None => texts.not_answered.to_owned(),
        Some(answered) if answered.is_withdrawn => texts.withdrawn.to_owned(),
        Some(answered) if answered.answer.is_empty() => texts.answered_with_value.to_owned(),
        Some(answered) => fill(texts.answered, &[&answered.answer]),
    }
}

/// The attempts of a task in words, one each, in order.
pub fn attempts(task: &Task, until_ms: i64) -> Vec<String> {
    let texts = &words().reports;
    let mut lines: Vec<String> = Vec::new();
    for span in &task.spans {
        let lasted = took(span.until_ms.unwrap_or(until_ms).saturating_sub(span.from_ms));
        match &span.what {
            What::Queued => {}
            What::BackOff => {
                if let Some(line) = lines.last_mut() {
                    line.push_str(&format!("; {}", fill(texts.backed_off_for, &[&lasted])));
                }
            }
            What::Tried(tried) => {
                let number = tried.attempt.to_string();
                let most = task.max_attempts.max(tried.attempt).to_string();
                let mut line = fill(texts.attempt_line, &[&number, &most, &end_of(tried), &lasted]);
                let error = tried.error.as_ref().map(original);
                if let Some(error) = error.filter(|error| !error.message.is_empty()) {
                    let said = truncated(&message(&error.message), MESSAGE_LENGTH);
                    line.push_str(&format!(": {said}"));
                }
                lines.push(line);
            }
        }
    }
    lines
}
