//! Results and errors in lines, as wide as the terminal at most: what a person reads where no boxes are wanted.
//!
//! Nothing that a person acts on is left out: the code, the severity, the reason, what to do, and the options of a question.
//! Commands are never broken, because they are copied.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_policy::codes::{self, Code};
use capataz_policy::retry;

use crate::error::{
    self, Context, MOST_DETAILS, Ways, advice, common_option, generic_option, not_listed, one_line, severity,
    severity_name, subject, ways, with_cause,
};
use crate::frame::{columns, padded, truncated, visible, width, wrap};
use crate::model::{self, Task};
use crate::paint::{Paint, Tone};
use crate::words::messages::message;
use crate::words::{fill, words};
use crate::{format, payload, special};

/// The form in which results and errors are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The boxes of the error contracts (seed 000), each with a title and a frame.
    #[default]
    Boxes,
    /// Lines.
    Compact,
}

impl Form {
    /// What stands between two errors.
    pub(crate) const fn between(self) -> &'static str {
        match self {
            Self::Boxes => "\n\n",
            Self::Compact => "\n",
        }
    }
}

/// What stands in front of the lines below the first one.
const INDENT: &str = "  ";
/// Columns of a line where nothing bounds them, for what may be cut.
const COLUMNS: usize = 100;
/// Fewer columns cannot be read, so lines are not made narrower.
const NARROWEST: usize = 20;
/// Columns between two cells.
const GAP: usize = 2;
/// A narrower cell says nothing of an output or an error.
const LEAST_DETAIL: usize = 8;
/// Maximum number of tasks of a wave with a line of their own. Beyond this number, successes are only counted; as many further
/// failures still get a line.
const MOST_LINES: usize = 50;

/// The error in a few lines.
pub fn error(error: &v1::Error, context: &Context<'_>, paint: Paint) -> String {
    let severity = severity(error);
    if severity == v1::Severity::Low {
        return error::info(error, paint);
    }
    // Where the run went on, the failure itself, and not that there is no other attempt.
    let error = if severity == v1::Severity::Medium { retry::original(error) } else { error };
    let told = Told::of(error, severity, context);
    let (mark, tone) = match (severity, context.question) {
        (_, Some(_)) => ("? ", Tone::Warning),
        (v1::Severity::Medium, None) => ("! ", Tone::Warning),
        (_, None) => ("✗ ", Tone::Bad),
    };
    let name = severity_name(severity);
    let head = match error.code.as_str() {
        "" => format!("{name}: {}", told.subject),
        code => fill(words().compact.error, &[code, name, &told.subject]),
    };
    let mut lines = hanging(mark, &head, tone, paint);
    if !told.facts.is_empty() {
        lines.extend(hanging(INDENT, &told.facts.join("; "), Tone::Plain, paint));
    }
    for detail in told.details {
        lines.extend(hanging("  - ", &detail, Tone::Plain, paint));
    }
    if let Some(advice) = told.advice {
        lines.extend(hanging("  -> ", &advice, Tone::Plain, paint));
    }
    let (options, commands): (Ways, Ways) = told.ways.into_iter().partition(|(_, way)| !way.contains('`'));
    if !options.is_empty() {
        let options: Vec<String> = options.into_iter().map(|(mark, way)| format!("{mark}{way}")).collect();
        lines.extend(hanging(INDENT, &options.join("; "), Tone::Plain, paint));
    }
    lines.extend(commands.into_iter().map(|(mark, way)| format!("{INDENT}{mark}{}", visible(&way))));
    lines.join("\n")
}

/// MULTIPLE CRITICAL ERRORS; see [`special::multiple_critical`].
pub(crate) fn multiple_critical(errors: &[String], recovery: &str, paint: Paint) -> String {
    let texts = &words().errors;
    let severity = severity_name(v1::Severity::Critical);
    let head = fill(words().compact.error, &[texts.multiple, severity, texts.aborted]);
    let mut lines = hanging("✗ ", &head, Tone::Bad, paint);
    for (index, error) in errors.iter().enumerate() {
        lines.extend(hanging(&format!("  {}. ", index + 1), error, Tone::Plain, paint));
    }
    lines.push(format!("{INDENT}-> {}", fill(texts.go_on, &[recovery])));
    lines.join("\n")
}

/// Text behind a mark, as wide as the terminal at most; further lines are indented to match.
pub(crate) fn hanging(mark: &str, text: &str, tone: Tone, paint: Paint) -> Vec<String> {
    let room = columns().map_or(usize::MAX, |columns| columns.max(NARROWEST) - width(mark));
    let indent = " ".repeat(width(mark));
    let lines = wrap(text, room).into_iter().enumerate();
    let lines = lines.map(|(index, line)| {
        let mark = if index == 0 { mark } else { &indent };
        paint.text(tone, &format!("{mark}{line}"))
    });
    lines.collect()
}

/// What is told of an error.
#[derive(Default)]
struct Told {
    subject: String,
    facts: Vec<String>,
    details: Vec<String>,
    advice: Option<String>,
    ways: Ways,
}

impl Told {
    fn of(error: &v1::Error, severity: v1::Severity, context: &Context<'_>) -> Self {
        let texts = &words().errors;
        let original = error.cause.as_ref().map(|cause| fill(texts.original, &[&one_line(cause)]));
        match Code::named(&error.code) {
            Some(codes::AGENT_NOT_FOUND | codes::COMMAND_NOT_FOUND | codes::RESOURCE_NOT_FOUND)
                if error.details.is_empty() =>
            {
                let agent = error.code == codes::AGENT_NOT_FOUND;
                let similar = match error.suggestions.as_slice() {
                    [] if agent => texts.no_similar_agents.to_owned(),
                    [] => texts.no_similar_names.to_owned(),
                    names => fill(words().compact.similar, &[&names.join(", ")]),
                };
                let advice = if agent { texts.correct_agent } else { texts.correct_name };
                Self {
                    subject: special::missing(error),
                    facts: vec![similar],
                    advice: Some(advice.to_owned()),
                    ..Self::default()
                }
            }
            Some(codes::INVALID_STATE_TRANSITION) => {
                let special::Refused { told, steps, or, ways } = special::refused(error, context);
                let reason = error.reason.as_deref().map(|reason| message(reason).into_owned());
                let facts = match steps {
                    "" => reason,
                    steps => {
                        let steps: Vec<&str> = [steps].into_iter().chain(or.as_deref()).collect();
                        Some(fill(words().compact.steps, &[&steps.join("; ")]))
                    }
                };
                Self { subject: told, facts: facts.into_iter().collect(), ways, ..Self::default() }
            }
            Some(codes::TASK_TIMEOUT) => {
                let special::TimedOut { told, mut times, state } = special::timed_out(error, context);
                times.extend(state);
                let ways = ways(error, context, special::timeout_option);
                let is_asked = context.question.is_some() && !ways.is_empty();
                let advice = (!is_asked).then(|| texts.raise_timeout.to_owned());
                Self { subject: told, facts: times, advice, ways, ..Self::default() }
            }
            Some(codes::RETRY_EXHAUSTED) => {
                let mut facts = special::exhausted(error, context);
                let subject = match context.task {
                    Some(task) => format!("{task}: {}", facts.remove(0)),
                    None => facts.remove(0),
                };
                let last =
                    error.cause.as_ref().map(|cause| format!("{} {}", texts.last_error, one_line(cause)));
                facts.extend(last);
                let ways = ways(error, context, common_option);
                Self { subject, facts, advice: advice(error), ways, ..Self::default() }.with_one_step()
            }
            Some(
                codes::SESSION_CORRUPTED
                | codes::SESSION_VALIDATION_FAILED
                | codes::SESSION_INVALID
                | codes::REPAIR_FAILED,
            ) => {
                let details = error.details.iter().map(|detail| message(&detail.message).into_owned());
                let ways = match context.recovered {
                    Some(_) => Ways::new(),
                    None => special::recovery(context)
                        .into_iter()
                        .map(|(mark, way)| (mark.to_owned(), way))
                        .collect(),
                };
                Self {
                    subject: message(&error.message).into_owned(),
                    facts: original.into_iter().collect(),
                    details: few(details.collect()),
                    advice: context.recovered.map(str::to_owned),
                    ways,
                }
            }
            _ => {
                // That it is not tried again says its code; what has failed says its cause.
                let cause = error.cause.as_deref().filter(|_| error.code == codes::NON_RETRYABLE_ERROR);
                let original = original.filter(|_| cause.is_none());
                let told = cause.map_or_else(
                    || subject(error, context),
                    |cause| match context.task {
                        Some(task) => format!("{task}: {}", one_line(cause)),
                        None => one_line(cause),
                    },
                );
                let reason = error.reason.as_deref().filter(|reason| !reason.is_empty());
                let reason = reason.map(|reason| fill(texts.reason, &[&message(reason)]));
                let is_critical = severity == v1::Severity::Critical;
                let is_warning = severity == v1::Severity::Medium;
                let resolve = || is_critical.then(|| texts.resolve_first.to_owned());
                let ways = match severity {
                    v1::Severity::Critical | v1::Severity::Medium => Ways::new(),
                    _ => ways(error, context, generic_option),
                };
                let continuing = (is_warning && context.continues).then(|| texts.continuing.to_owned());
                Self {
                    subject: told,
                    facts: original.into_iter().chain(reason).chain(continuing).collect(),
                    details: few(error.details.iter().map(one_line).collect()),
                    advice: advice(error).or_else(resolve),
                    ways,
                }
                .with_one_step()
            }
        }
    }

    /// Without the way to the log, where there is another step.
    fn with_one_step(mut self) -> Self {
        if self.advice.is_some() || self.ways.len() > 1 {
            self.ways.retain(|(mark, _)| mark != "[d] ");
        }
        self
    }
}

/// The first of the details, and how many more there are.
fn few(mut details: Vec<String>) -> Vec<String> {
    let more = not_listed(&details);
    details.truncate(MOST_DETAILS);
    if more > 0 {
        details.push(fill(words().errors.more_details, &[&more.to_string()]));
    }
    details
}

/// A line of a result: its cells, and what stands below it.
struct Row {
    mark: &'static str,
    /// The name, the verdict, the time and the attempts.
    cells: [String; 4],
    detail: Option<Detail>,
    tone: Tone,
    below: Vec<String>,
}

enum Detail {
    /// What may be cut.
    Cut(String),
    /// What is left out where there is no room for all of it.
    Whole(String),
}

/// What came of the tasks.
pub(crate) struct Results {
    pub text: String,
    /// The tasks of the last wave whose outputs are in their lines.
    pub shown: BTreeSet<String>,
}

/// The tasks of all waves that are over, a line for each; a wave of several tasks has a line of its own below them.
pub(crate) fn results(run: &v1::Run, events: &model::Run, paint: Paint) -> Results {
    let folded: BTreeMap<&str, &Task> = events.tasks().map(|task| (task.name.as_str(), task)).collect();
    let last = run.waves.len().saturating_sub(1);
    let mut rows = Vec::new();
    for (index, wave) in run.waves.iter().enumerate().filter(|(_, wave)| crate::run::is_over(run, wave)) {
        rows.extend(of_wave(wave, &folded, index == last, paint));
    }
    let mut shown = BTreeSet::new();
    let text = laid_out(&rows, paint, &mut shown);
    Results { text, shown }
}

fn of_wave(wave: &v1::WaveView, folded: &BTreeMap<&str, &Task>, is_last: bool, paint: Paint) -> Vec<Row> {
    let everything = wave.tasks.len() <= MOST_LINES;
    let mut rows = Vec::new();
    let (mut more_successes, mut more_failures) = (0_u64, 0_u64);
    for task in &wave.tasks {
        let is_success = task.status() == v1::ResultStatus::Success;
        if !everything && is_success {
            more_successes += 1;
        } else if rows.len() >= MOST_LINES {
            more_failures += 1;
        } else {
            rows.push(row(task, folded.get(task.name.as_str()).copied(), is_last));
        }
    }
    let texts = &words().compact;
    let mut below = Vec::new();
    for (count, what) in [(more_failures, texts.failed), (more_successes, texts.succeeded)] {
        if count > 0 {
            let more = fill(words().wave_box.more, &[&format::thousands(count), what]);
            below.extend(hanging(INDENT, &more, Tone::Plain, paint));
        }
    }
    if let Some(evaluation) = wave.evaluation.as_ref().filter(|_| wave.tasks.len() > 1) {
        let tone = if evaluation.should_continue { Tone::Good } else { Tone::Bad };
        let told = format!("{}: {}", wave.name, message(&evaluation.reason));
        below.extend(hanging(INDENT, &told, tone, paint));
    }
    if let Some(row) = rows.last_mut() {
        row.below.extend(below);
    } else if !below.is_empty() {
        let cells = Default::default();
        rows.push(Row { mark: "", cells, detail: None, tone: Tone::Plain, below });
    }
    rows
}

fn row(task: &v1::TaskView, folded: Option<&Task>, is_last: bool) -> Row {
    let texts = &words().compact;
    let (mark, verdict, tone) = match task.status() {
        v1::ResultStatus::Success => ("✓", texts.succeeded, Tone::Good),
        v1::ResultStatus::Timeout => ("✗", texts.timed_out, Tone::Bad),
        v1::ResultStatus::Error => ("✗", texts.failed, Tone::Bad),
        _ if task.started_at_ms.is_none() => ("·", texts.not_started, Tone::Faint),
        v1::ResultStatus::Cancelled => ("✗", texts.cancelled, Tone::Warning),
        v1::ResultStatus::Unspecified => ("·", texts.unfinished, Tone::Warning),
    };
    let took = task
        .started_at_ms
        .zip(task.settled_at_ms)
        .map(|(began, ended)| format::took(ended.saturating_sub(began)));
    let made = task.attempt.max(1);
    let attempts = if made > 1 { fill(texts.attempts, &[&made.to_string()]) } else { String::new() };
    let detail = match (&task.error, &task.output) {
        (Some(_), _) if task.status() == v1::ResultStatus::Cancelled => None,
        // The error itself is told below the results, or was told when it came about.
        (Some(error), _) if severity(error) != v1::Severity::Low => {
            Some(Detail::Cut(retry::original(error).code.clone()))
        }
        (Some(error), _) => Some(Detail::Cut(with_cause(error))),
        (None, Some(output)) if is_last => payload::line(output).map(Detail::Whole),
        (None, Some(output)) => payload::line(output).map(Detail::Cut),
        (None, None) => None,
    };
    let failed = folded.into_iter().filter(|task| task.attempts.len() > 1).flat_map(|task| &task.attempts);
    let failed = failed.filter_map(|attempt| {
        let failure = attempt.failure.as_ref()?.told();
        Some(fill(words().retry.failed, &[&attempt.number.to_string(), &visible(&failure)]))
    });
    let failed: Vec<String> = failed.collect();
    let room = columns().unwrap_or(COLUMNS).max(NARROWEST);
    let below = match failed.is_empty() {
        true => Vec::new(),
        false => vec![truncated(&format!("{INDENT}{}", failed.join(", ")), room)],
    };
    let cells = [visible(&task.name), verdict.to_owned(), took.unwrap_or_default(), attempts];
    Row { mark, cells, detail, tone, below }
}

/// The rows in columns, as many of them as there is room for. Notes the names whose details are shown whole.
fn laid_out(rows: &[Row], paint: Paint, shown: &mut BTreeSet<String>) -> String {
    let room = columns().map(|columns| columns.max(NARROWEST) - GAP);
    let mut widths = [0; 4];
    for row in rows {
        for (most, cell) in widths.iter_mut().zip(&row.cells) {
            *most = (*most).max(width(cell));
        }
    }
    if let Some(room) = room {
        // A long name leaves room for the verdict and the time.
        let [name, verdict, took, _] = widths;
        let others = verdict + took + 2 * GAP;
        let most = if room > others + LEAST_DETAIL { room - others } else { room };
        widths[0] = name.min(most);
    }
    let mut used = widths[0];
    let mut is_shown = [true; 4];
    for (is_shown, cell) in is_shown.iter_mut().zip(widths).skip(1) {
        let fits = cell > 0 && room.is_none_or(|room| used + GAP + cell <= room);
        *is_shown = fits;
        used += if fits { GAP + cell } else { 0 };
    }
    let left = room.map_or(COLUMNS, |room| room.saturating_sub(used + GAP));
    let mut lines = Vec::new();
    for row in rows {
        let [name, rest @ ..] = &row.cells;
        if !name.is_empty() {
            let name = padded(&truncated(name, widths[0]), widths[0]);
            let mut line = format!("{} {name}", row.mark);
            for (index, cell) in rest.iter().enumerate().filter(|(index, _)| is_shown[index + 1]) {
                line.push_str(&format!("{}{}", " ".repeat(GAP), padded(cell, widths[index + 1])));
            }
            let detail = match &row.detail {
                Some(Detail::Cut(text)) if left >= LEAST_DETAIL => truncated(text, left),
                Some(Detail::Whole(text)) if width(text) <= left => {
                    shown.insert(row.cells[0].clone());
                    text.clone()
                }
                _ => String::new(),
            };
            if !detail.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            // Padding takes no colour, and ends no line.
            let told = line.trim_end();
            let gap = if detail.is_empty() { String::new() } else { " ".repeat(width(&line) - width(told)) };
            lines.push(format!("{}{gap}{}", paint.text(row.tone, told), paint.text(Tone::Faint, &detail)));
        }
        lines.extend(row.below.iter().cloned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
