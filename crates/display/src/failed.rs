//! What has failed in a run, and nothing else: each failed task with its error, its attempts and the end of its log.

use std::collections::BTreeMap;

use capataz_contracts::{json, v1};
use serde_json::{Map, Value, json};

use crate::compact::Form;
use crate::error::{self, Context, advice};
use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::run::{context_of, failure_lines, own_error};
use crate::words::{fill, words};
use crate::{format, log, model};

/// Tasks that are told in whole; further ones are counted.
const MOST_IN_WHOLE: usize = 20;

/// A task that has failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    wave: &'a str,
    task: &'a v1::TaskView,
    error: &'a v1::Error,
    /// The last lines that it has logged.
    log: &'a [String],
    /// The user has named it, and may have it begin anew while the run goes on.
    is_named: bool,
}

/// The tasks of the run that have failed, in its order. Whoever was cancelled has not.
#[must_use]
pub fn of_run<'a>(run: &'a v1::Run, events: &'a model::Run) -> Vec<Failed<'a>> {
    let folded: BTreeMap<&str, &model::Task> =
        events.tasks().map(|task| (task.name.as_str(), task)).collect();
    let tasks = run.waves.iter().flat_map(|wave| wave.tasks.iter().map(move |task| (&*wave.name, task)));
    let failed =
        tasks.filter(|(_, task)| task.status() != v1::ResultStatus::Cancelled).filter_map(|(wave, task)| {
            let error = task.error.as_ref()?;
            let log = folded.get(task.name.as_str()).map_or(&[][..], |task| &task.log);
            Some(Failed { wave, task, error, log, is_named: events.names_tasks })
        });
    failed.collect()
}

/// The command that does again what has failed, and what was not done because of it.
#[must_use]
pub fn again(run: &v1::Run) -> Option<String> {
    run.may_be_continued.then(|| format!("capataz runs continue {}", run.run_id))
}

/// The failures for people, the first ones in whole or `all` of them, with the command that runs them again.
#[must_use]
pub fn text(run: &v1::Run, failed: &[Failed<'_>], all: bool, form: Form, paint: Paint) -> String {
    let most = if all { failed.len() } else { MOST_IN_WHOLE };
    let in_whole = failed.iter().take(most);
    let mut parts: Vec<String> = in_whole.map(|failed| failed.text(run, form, paint)).collect();
    let more = failed.len().saturating_sub(most) as u64;
    if more > 0 {
        let texts = &words().runs;
        let template = if more == 1 { texts.more_failed_one } else { texts.more_failed_many };
        parts.push(fill(template, &[&more.to_string(), &run.run_id]));
    }
    if let Some(own) = own_error(run) {
        parts.push(match form {
            Form::Boxes => {
                let goes_on = run.status() != v1::RunStatus::Finished;
                let context = Context { run: Some(&run.run_id), goes_on, form, ..Context::default() };
                error::error(own, &context, paint)
            }
            Form::Compact => paint.text(Tone::Bad, &failure_lines(run, own).join("\n")),
        });
    }
    if parts.is_empty() {
        return words().runs.nothing_failed.to_owned();
    }
    parts.extend(again(run).map(|command| fill(words().runs.fails_again, &[&command])));
    parts.join("\n\n")
}

/// The run without its waves, and the tasks that have failed in their place.
#[must_use]
pub fn document(run: &v1::Run, failed: &[Failed<'_>]) -> Value {
    let own = v1::Run { waves: Vec::new(), ..run.clone() };
    let mut document = object(json::print("capataz.v1.Run", &own));
    document.insert("failed".to_owned(), failed.iter().map(Failed::document).collect());
    document.insert("again".to_owned(), again(run).into());
    Value::Object(document)
}

impl Failed<'_> {
    fn text(&self, run: &v1::Run, form: Form, paint: Paint) -> String {
        let Self { wave, task, error, log, is_named } = *self;
        let texts = &words().runs;
        let title = fill(texts.failed_task, &[&visible(&task.name), &visible(&task.agent), &visible(wave)]);
        let mut lines = vec![paint.text(Tone::Strong, &title)];
        match form {
            // Below its box stands the end of the log.
            Form::Boxes => {
                lines.push(error::error(error, &Context { log, form, ..context_of(run, task) }, paint));
            }
            Form::Compact => {
                lines.extend(failure_lines(run, error).into_iter().map(|line| format!("  {line}")));
            }
        }
        // Of one attempt, the error has told it.
        for attempt in task.attempts.iter().filter(|_| task.attempts.len() > 1) {
            let number = attempt.attempt.to_string();
            let became = attempt.error.as_deref().unwrap_or(words().wave_box.success);
            let took = format::took(attempt.duration_ms);
            lines.push(format!("  {}", fill(texts.failed_attempt, &[&number, &visible(became), &took])));
        }
        if form == Form::Compact && !log.is_empty() {
            lines.extend(
                log::block(&run.run_id, &task.name, log, paint).lines().map(|line| format!("  {line}")),
            );
        }
        let goes_on = run.status() != v1::RunStatus::Finished;
        if goes_on && is_named && task.state() == v1::TaskState::Failed {
            let command = format!("capataz runs retry {} {}", run.run_id, visible(&task.name));
            lines.push(format!("  {}", fill(texts.fails_again, &[&command])));
        }
        lines.join("\n")
    }

    fn document(&self) -> Value {
        let mut document = object(json::print("capataz.v1.TaskView", self.task));
        document.insert("wave".to_owned(), self.wave.into());
        document.insert("next".to_owned(), advice(self.error).into());
        document.insert("log".to_owned(), json!(self.log));
        Value::Object(document)
    }
}

fn object(document: Value) -> Map<String, Value> {
    match document {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{accepted, fold, leased, settled_with_log, started};
    use crate::words::Language;

    fn task(name: &str, status: v1::ResultStatus, code: &str) -> v1::TaskView {
        let error = v1::Error {
            code: code.to_owned(),
            message: "it broke".to_owned(),
            suggested_action: Some("Mend it.".to_owned()),
            ..v1::Error::default()
        };
        v1::TaskView {
            name: name.to_owned(),
            agent: format!("agent-{name}"),
            state: v1::TaskState::Failed.into(),
            status: Some(status.into()),
            error: (status != v1::ResultStatus::Success).then_some(error),
            ..v1::TaskView::default()
        }
    }

    fn run() -> v1::Run {
        let attempt = |attempt, duration_ms| v1::AttemptRecord {
            attempt,
            status: v1::AttemptStatus::Failed.into(),
            error: Some("E_BUSY".to_owned()),
            duration_ms,
            waited_ms: 0,
            usage: None,
        };
        let tried_again = v1::TaskView {
            attempts: vec![attempt(1, 1_200), attempt(2, 20)],
            ..task("a", v1::ResultStatus::Error, "E_A")
        };
        v1::Run {
            run_id: "0199".to_owned(),
            status: v1::RunStatus::Finished.into(),
            error: Some(v1::Error { code: "QUORUM_NOT_MET".to_owned(), ..v1::Error::default() }),
            may_be_continued: true,
            waves: vec![v1::WaveView {
                name: "checks".to_owned(),
                tasks: vec![
                    tried_again,
                    task("b", v1::ResultStatus::Success, ""),
                    task("c", v1::ResultStatus::Cancelled, "CANCELLED"),
                    task("d", v1::ResultStatus::Timeout, "TASK_TIMEOUT"),
                ],
                ..v1::WaveView::default()
            }],
            ..v1::Run::default()
        }
    }

    fn events() -> model::Run {
        let logged = settled_with_log(0, v1::ResultStatus::Error, "one\ntwo");
        fold([accepted(&["a", "b", "c", "d"]), started(), leased(0, 1), logged])
    }

    #[test]
    fn only_what_has_failed_is_told_with_the_command_that_runs_it_again() {
        let (run, events) = (run(), events());
        let expected = "\
a (agent agent-a, wave checks)
  E_A: it broke
    next: Mend it.
  attempt 1: E_BUSY after 1.2s
  attempt 2: E_BUSY after 20ms
  Its log (`capataz logs 0199 a`):
    | one
    | two

d (agent agent-d, wave checks)
  TASK_TIMEOUT: it broke
    next: Give the task more time: `timeouts.timeout` in the plan

QUORUM_NOT_MET
  next: Look at the failed tasks; retry them or lower the threshold.

run it again: capataz runs continue 0199";
        let shown = text(&run, &of_run(&run, &events), false, Form::Compact, Paint::OFF);
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_task_of_a_run_that_goes_on_may_be_retried_by_itself() {
        let mut run = run();
        (run.status, run.may_be_continued, run.error) = (v1::RunStatus::Waiting.into(), false, None);
        let events = events();
        let shown = text(&run, &of_run(&run, &events), false, Form::Compact, Paint::OFF);
        assert_eq!(shown.matches("run it again: ").count(), 2, "{shown}");
        assert!(shown.contains("    | two\n  run it again: capataz runs retry 0199 a\n\nd "), "{shown}");
        run.waves.clear();
        assert_eq!(
            text(&run, &of_run(&run, &events), false, Form::Compact, Paint::OFF),
            "Nothing has failed."
        );
        let shown =
            Language::Spanish.within(|| text(&run, &of_run(&run, &events), false, Form::Compact, Paint::OFF));
        assert_eq!(shown, "Nada ha fallado.");
    }

    #[test]
    fn the_first_twenty_are_told_in_whole_and_the_others_counted_with_the_commands_that_list_them() {
        let mut run = run();
        (run.error, run.waves[0].tasks) = (None, Vec::new());
        let events = events();
        let mut told = |count: usize| {
            let failed = |number| task(&format!("t{number}"), v1::ResultStatus::Error, "E_A");
            run.waves[0].tasks = (0..count).map(failed).collect();
            let shown = text(&run, &of_run(&run, &events), false, Form::Compact, Paint::OFF);
            let document = document(&run, &of_run(&run, &events));
            (shown, document["failed"].as_array().map_or(0, Vec::len))
        };
        let (twenty, _) = told(20);
        assert!(twenty.matches("E_A: it broke").count() == 20 && !twenty.contains('…'), "{twenty}");
        let (one_more, _) = told(21);
        assert!(one_more.contains("\n\n… and 1 more task has failed; "), "{one_more}");
        let (many, listed) = told(5_000);
        assert_eq!((many.matches("E_A: it broke").count(), listed), (20, 5_000));
        let more = "\n\n… and 4980 more tasks have failed; a line for each: \
                    `capataz runs show 0199 --state failed`; all in whole: \
                    `capataz runs show 0199 --failed --all`\n\nrun it again: ";
        assert!(many.contains(more), "{many}");
        assert!(many.lines().count() < 100, "{many}");
        let all = text(&run, &of_run(&run, &events), true, Form::Compact, Paint::OFF);
        assert_eq!((all.matches("E_A: it broke").count(), all.contains("more tasks")), (5_000, false));
    }

    #[test]
    fn who_wants_boxes_gets_the_failures_in_boxes() {
        let (run, events) = (run(), events());
        let shown = text(&run, &of_run(&run, &events), false, Form::Boxes, Paint::OFF);
        assert!(shown.starts_with("a (agent agent-a, wave checks)\n+="), "{shown}");
        for part in [
            "|  ERROR: E_A ",
            "\nIts log (`capataz logs 0199 a`):\n  | one\n  | two\n  attempt 1: E_BUSY after 1.2s\n",
            "\n\nd (agent agent-d, wave checks)\n+",
            "|  WARNING: TASK_TIMEOUT ",
            "|  ERROR: QUORUM_NOT_MET ",
            "\n\nrun it again: capataz runs continue 0199",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }

    #[test]
    fn a_program_gets_the_same() {
        let (run, events) = (run(), events());
        let document = document(&run, &of_run(&run, &events));
        assert_eq!(document["again"], "capataz runs continue 0199");
        assert_eq!(document["error"]["code"], "QUORUM_NOT_MET");
        assert!(document.get("waves").is_none());
        let [a, d] = document["failed"].as_array().unwrap().as_slice() else { panic!("{document}") };
        assert_eq!((&a["name"], &a["wave"], &a["next"]), (&"a".into(), &"checks".into(), &"Mend it.".into()));
        assert_eq!((&a["log"], &d["log"]), (&json!(["one", "two"]), &json!([])));
        assert_eq!((&a["error"]["code"], a["attempts"].as_array().map(Vec::len)), (&"E_A".into(), Some(2)));
        assert_eq!(d["error"]["code"], "TASK_TIMEOUT");
    }
}
