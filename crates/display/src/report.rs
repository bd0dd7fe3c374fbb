//! The report of a run: what came of it, as the command line shows it at the end and the daemon renders it.

use std::collections::BTreeSet;

use capataz_contracts::v1;

use crate::compact::{self, Form};
use crate::error::{self, Context};
use crate::frame::visible;
use crate::model;
use crate::paint::{Paint, Tone};
use crate::script::fold::ScriptRun;
use crate::words::{fill, words};
use crate::{actions, answer, executing, payload, pipeline, retry, run as display};

/// Maximum number of tasks whose attempts are shown.
const MOST_RETRIES: usize = 3;
/// Maximum number of tasks whose outputs are shown.
const MOST_OUTPUTS: usize = 4;

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run with its tasks and their outputs.
    pub run: &'a v1::Run,
    /// The fold of its events.
    pub events: &'a model::Run,
    /// What came of an ask that has ended.
    pub answer: Option<&'a v1::AskResult>,
    /// With what is LOW as well.
    pub verbose: bool,
    pub form: Form,
}

impl Report<'_> {
    /// The whole report: heading, what came of it, open questions, outcome.
    #[must_use]
    pub fn whole(&self, now_ms: i64, paint: Paint) -> String {
        let run = self.run;
        let mut parts = match &self.events.script {
            Some(script) => vec![
                display::script_heading(run, &script.browser, now_ms, paint),
                actions::actions(script, now_ms, paint),
            ],
            None => vec![display::heading(run, now_ms, paint)],
        };
        parts.extend(self.parts(paint));
        parts.push(display::questions(run, paint));
        if run.finished_at_ms.is_some() {
            parts.push(match &self.events.script {
                Some(script) => actions::outcome_line(script, now_ms, paint),
                None => display::outcome_line(run, now_ms, paint),
            });
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    /// What came of it: tasks, errors, lists and outputs, none of them empty.
    #[must_use]
    pub fn parts(&self, paint: Paint) -> Vec<String> {
        let mut parts = match (&self.events.script, self.answer) {
            (Some(script), _) => of_script(script, self.run.error.as_ref(), self.form, paint),
            (None, Some(told)) => {
                vec![answer::head(told, paint), answer::answer(told, self.run.error.as_ref(), paint)]
            }
            (None, None) if !self.events.phases.is_empty() => self.of_phases(paint),
            (None, None) if self.run.kind() == v1::RunKind::Mode => self.of_calls(paint),
            (None, None) => self.of_tasks(paint),
        };
        parts.push(executing::spent_line(self.run, paint));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// What a script has failed with; `None` where it has not, and for other kinds of runs.
    #[must_use]
    pub fn failure_of_script(&self, paint: Paint) -> Option<String> {
        failure_of_script(self.events.script.as_ref()?, self.run.error.as_ref(), self.form, paint)
    }

    /// Where the phases of a pipeline stand. Failures that did not end it were told as they came about.
    fn of_phases(&self, paint: Paint) -> Vec<String> {
        let phases = self.events.phases.iter().map(|phase| &phase.checkpoint);
        self.with_end(pipeline::checkpoints(phases, paint), paint)
    }

    /// The calls of an execution. A failed call did not end it, and was told as it came about.
    fn of_calls(&self, paint: Paint) -> Vec<String> {
        let now_ms = self.run.finished_at_ms.unwrap_or(self.run.created_at_ms);
        self.with_end(display::calls(self.run, now_ms, paint), paint)
    }

    /// The table of what was done, then what the run has failed with, or what it has given.
    fn with_end(&self, table: String, paint: Paint) -> Vec<String> {
        let mut parts = vec![table];
        let has_failed = display::outcome_tone(self.run.outcome()) == Tone::Bad;
        if let Some(error) = self.run.error.as_ref().filter(|_| has_failed) {
            let form = self.form;
            let context = Context { run: Some(&self.run.run_id), form, ..Context::default() };
            parts.push(error::error(error, &context, paint));
        }
        if self.run.finished_at_ms.is_some() && !has_failed {
            parts.extend(outputs(self.run, &BTreeSet::new(), paint));
        }
        parts
    }

    fn of_tasks(&self, paint: Paint) -> Vec<String> {
        if self.form == Form::Compact {
            let compact::Results { text, shown } = compact::results(self.run, self.events, paint);
            let failures = display::failures(self.run, Some(self.events), self.verbose, self.form, paint);
            return [text, failures].into_iter().chain(outputs(self.run, &shown, paint)).collect();
        }
        let tried_again = || self.events.tasks().filter(|task| task.attempts.len() > 1);
        let mut parts: Vec<String> = tried_again()
            .take(MOST_RETRIES)
            .map(|task| retry::retry(&task.name, &task.attempts, task.max_attempts, paint))
            .collect();
        parts.push(display::retried(tried_again().skip(MOST_RETRIES)));
        parts.push(display::wave_boxes(self.run, paint));
        parts.push(display::failures(self.run, Some(self.events), self.verbose, self.form, paint));
        parts.extend(outputs(self.run, &BTreeSet::new(), paint));
        parts
    }
}

/// The error of a script, in the executor's words where there are any.
fn failure_of_script(
    script: &ScriptRun,
    own: Option<&v1::Error>,
    form: Form,
    paint: Paint,
) -> Option<String> {
    let told = script.error().and_then(|failed| failed.error.as_ref());
    let own = script.finished.as_ref().and_then(|finished| finished.error.as_ref()).or(own);
    match (told, own) {
        (Some(told), _) => Some(actions::error(told, form, paint)),
        (None, Some(own)) => Some(error::error(own, &Context { form, ..Context::default() }, paint)),
        (None, None) => None,
    }
}

/// The error of a script, and its outputs.
fn of_script(script: &ScriptRun, own: Option<&v1::Error>, form: Form, paint: Paint) -> Vec<String> {
    failure_of_script(script, own, form, paint).into_iter().chain([actions::outputs(script, paint)]).collect()
}

/// The outputs of the tasks of the last wave that are not yet shown.
fn outputs(run: &v1::Run, shown: &BTreeSet<String>, paint: Paint) -> Vec<String> {
    let Some(wave) = run.waves.last() else { return Vec::new() };
    let given = wave.tasks.iter().filter_map(|task| task.output.as_ref().map(|output| (task, output)));
    given
        .filter(|(task, _)| !shown.contains(&visible(&task.name)))
        .take(MOST_OUTPUTS)
        .filter_map(|(task, output)| {
            let title = fill(words().watch.output_of, &[&visible(&task.name)]);
            let body = match payload::excerpt(output) {
                // A report is about what there is.
                Some(excerpt) if excerpt == "null" => return None,
                Some(excerpt) => excerpt,
                None if payload::size(output) == 0 => return None,
                None => fill(words().watch.output_elsewhere, &[&run.run_id, &visible(&task.name)]),
            };
            Some(format!("{}\n{body}", paint.text(Tone::Strong, &title)))
        })
        .collect()
}
