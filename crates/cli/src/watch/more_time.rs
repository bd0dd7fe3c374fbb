//! More time at the press of a key: for which task, the request, and what came of it.

use std::future::pending;
use std::pin::Pin;

use capataz_client::{Client, ClientError};
use capataz_contracts::v1;
use capataz_display::format::took;
use capataz_display::frame::{truncated, visible};
use capataz_display::model::{Phase, Run, Step, Task};
use capataz_display::paint::{Paint, Tone};
use capataz_display::words::messages::refusal;
use capataz_display::words::{fill, words};
use capataz_display::{error, format};
use capataz_policy::timeout;
use uuid::Uuid;

/// The key that asks for it.
pub const KEY: char = 'e';

/// Columns of a task's name, so that what the keys do has room beside it.
const MOST_NAME_WIDTH: usize = 28;

type Answer = Result<v1::ExtendTaskResponse, ClientError>;

/// The request that is under way, of which there is one at most.
#[derive(Default)]
pub struct MoreTime {
    asked: Option<Asked>,
    /// The key was pressed while no task had time that could be extended.
    is_idle: bool,
}

struct Asked {
    task: String,
    answer: Pin<Box<dyn Future<Output = Answer>>>,
}

impl MoreTime {
    /// Asks for more time for the task that is next to time out. While a request is under way, nothing is asked.
    pub fn press(&mut self, client: &Client, run: &Run, run_id: &str) {
        if self.asked.is_some() {
            return;
        }
        let Some(task) = next_to_time_out(run) else {
            self.is_idle = true;
            return;
        };
        let request = v1::ExtendTaskRequest {
            run_id: run_id.to_owned(),
            task: task.name.clone(),
            // The client repeats a request that was lost, and it counts once.
            request_id: Uuid::now_v7().to_string(),
            by_ms: Some(by_ms()),
            ..v1::ExtendTaskRequest::default()
        };
        let client = client.clone();
        let answer = Box::pin(async move { client.extend_task(request).await });
        self.asked = Some(Asked { task: task.name.clone(), answer });
    }

    /// Waits until the request that is under way was answered, and returns what came of it in words.
    pub async fn answered(&mut self, paint: Paint) -> String {
        let Some(asked) = &mut self.asked else { return pending().await };
        let answer = asked.answer.as_mut().await;
        let task = visible(&asked.task);
        self.asked = None;
        told(&task, answer, paint)
    }

    /// The line that says what the keys do now; `None` where there is nothing to say.
    pub fn hint(&mut self, run: &Run) -> Option<String> {
        let texts = &words().keys;
        let by = took(by_ms());
        if let Some(asked) = &self.asked {
            return Some(fill(texts.asking, &[&by, &truncated(&asked.task, MOST_NAME_WIDTH)]));
        }
        let Some(task) = next_to_time_out(run) else {
            return self.is_idle.then(|| texts.nothing.to_owned());
        };
        self.is_idle = false;
        let is_over = matches!(task.step, Step::Stopping { .. });
        let name = truncated(&task.name, MOST_NAME_WIDTH);
        Some(fill(if is_over { texts.offer_over } else { texts.offer }, &[&by, &name]))
    }
}

/// The time that the key asks for: what one answer "extend" gives, in milliseconds.
fn by_ms() -> i64 {
    i64::try_from(timeout::EXTENSION.as_millis()).unwrap_or(i64::MAX)
}

fn told(task: &str, answer: Answer, paint: Paint) -> String {
    match answer {
        Ok(extended) => {
            let until = format::utc(extended.deadline_ms);
            error::ok(&fill(words().runs.extended, &[task, &until]), paint)
        }
        Err(error) => refused(task, error.code(), error.message(), paint),
    }
}

fn refused(task: &str, code: Option<&str>, message: &str, paint: Paint) -> String {
    let reason = visible(&refusal(message));
    let text = match code {
        Some(code) => fill(words().keys.refused_by, &[task, &reason, &visible(code)]),
        None => fill(words().keys.refused, &[task, &reason]),
    };
    paint.text(Tone::Warning, &text)
}

/// The task of the current wave that has the least time left, and may have more.
fn next_to_time_out(run: &Run) -> Option<&Task> {
    if !run.names_tasks || matches!(run.phase, Phase::Cancelling | Phase::Finished) {
        return None;
    }
    let place = run.wave?;
    let wave = run.waves.get(place)?;
    let tasks = wave.active.iter().filter_map(|index| Some((*index, wave.tasks.get(*index as usize)?)));
    let may_have_more = |index: u32, task: &Task| match task.step {
        Step::Queued | Step::Running { .. } | Step::Retrying { .. } => task.deadline_ms.is_some(),
        Step::Stopping { .. } => run.questions.iter().any(|question| offers_more(question, place, index)),
        Step::Planned | Step::Settled { .. } => false,
    };
    tasks
        .filter(|(index, task)| may_have_more(*index, task))
        .map(|(_, task)| task)
        .min_by_key(|task| task.deadline_ms)
}

/// Whether the question is that of the end of this task's time, and more time is among the answers.
fn offers_more(question: &v1::Question, wave: usize, task: u32) -> bool {
    let about = question.about.as_ref().and_then(|subject| subject.about.as_ref());
    let is_about_it = matches!(about, Some(v1::question_subject::About::Task(about))
        if about.wave as usize == wave && about.task == task);
    let offers = question.options.iter().any(|option| option == "extend");
    is_about_it && offers && question.purpose() == v1::QuestionPurpose::Timeout
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1::event::Body;
    use capataz_display::model::tests::{accepted, attempt_failed, fold, leased, settled, started};
    use capataz_display::words::Language;

    use super::*;

    fn with_deadline(task: u32, deadline_in_ms: i64) -> Body {
        let Body::TaskLeased(mut lease) = leased(task, 1) else { panic!("a lease") };
        lease.deadline_in_ms = Some(deadline_in_ms);
        Body::TaskLeased(lease)
    }

    fn told_to_stop(task: u32, reason: v1::CancelReason) -> Body {
        Body::TaskCancelRequested(v1::TaskCancelRequested {
            task,
            reason: reason.into(),
            ..v1::TaskCancelRequested::default()
        })
    }

    fn time_is_over(task: u32, options: &[&str]) -> Body {
        let about = v1::TaskSubject { task, ..v1::TaskSubject::default() };
        let subject = v1::QuestionSubject { about: Some(v1::question_subject::About::Task(about)) };
        Body::QuestionAsked(Box::new(v1::QuestionAsked {
            question: Some(v1::Question {
                question_id: "q1".to_owned(),
                purpose: v1::QuestionPurpose::Timeout.into(),
                about: Some(subject),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                ..v1::Question::default()
            }),
            ..v1::QuestionAsked::default()
        }))
    }

    #[track_caller]
    fn check(events: impl IntoIterator<Item = Body>, expected: Option<&str>) {
        assert_eq!(MoreTime::default().hint(&fold(events)).as_deref(), expected);
    }

    const FETCH: &str = "e: 15m more for fetch, the next to time out; Ctrl-C: leave (the run goes on)";
    const LINT: &str = "e: 15m more for lint, the next to time out; Ctrl-C: leave (the run goes on)";

    #[test]
    fn the_key_is_for_the_task_with_the_least_time_left() {
        let begun = [accepted(&["fetch", "lint", "docs"]), started()];
        check(begun.clone(), None);
        let at_work = begun.into_iter().chain([with_deadline(0, 60_000), with_deadline(1, 50_000)]);
        check(at_work.clone(), Some(LINT));
        let more = Body::TaskExtended(v1::TaskExtended {
            task: 1,
            deadline_in_ms: 900_000,
            ..v1::TaskExtended::default()
        });
        check(at_work.clone().chain([more]), Some(FETCH));
        // The time of a task runs while it waits for its next attempt, and no longer than the task.
        check(at_work.clone().chain([attempt_failed(1, 1, 1_000)]), Some(LINT));
        check(at_work.chain([settled(1, v1::ResultStatus::Success, 1)]), Some(FETCH));
    }

    #[test]
    fn a_task_that_stops_gets_more_only_where_that_is_asked() {
        let events =
            [accepted(&["fetch", "lint"]), started(), with_deadline(0, 60_000), with_deadline(1, 50_000)];
        let stopped = events.into_iter().chain([told_to_stop(1, v1::CancelReason::Timeout)]);
        check(stopped.clone(), Some(FETCH));
        check(stopped.clone().chain([time_is_over(1, &["terminate", "retry", "abort"])]), Some(FETCH));
        let over = "e: 15m more for lint, whose time is over; Ctrl-C: leave (the run goes on)";
        check(stopped.clone().chain([time_is_over(1, &["extend", "abort"])]), Some(over));
        check(stopped.clone().chain([time_is_over(0, &["extend", "abort"])]), Some(FETCH));
        check(stopped.chain([Body::RunCancelRequested(v1::RunCancelRequested::default())]), None);
    }

    #[test]
    fn a_key_without_a_task_says_so_until_there_is_one() {
        let begun = [accepted(&["fetch"]), started()];
        let mut idle = MoreTime { is_idle: true, ..MoreTime::default() };
        let nothing = "e: no task has time that could be extended";
        assert_eq!(idle.hint(&fold(begun.clone())).as_deref(), Some(nothing));
        let at_work = fold(begun.clone().into_iter().chain([with_deadline(0, 60_000)]));
        assert_eq!(idle.hint(&at_work).as_deref(), Some(FETCH));
        assert_eq!(idle.hint(&fold(begun)), None);
    }

    /// The words of the daemon where an agent cannot go on after it was told to end.
    const ENDING: &str = "task \"fetch\" was told to end, and its agent \"indexer\" cannot go on after that";

    #[test]
    fn a_refusal_comes_with_its_reason() {
        let told = refused("fetch", Some("TASK_ENDING"), ENDING, Paint::OFF);
        assert_eq!(told, format!("fetch gets no more time: {ENDING} (TASK_ENDING)"));
        let told = refused("fetch", None, "nobody answers", Paint::OFF);
        assert_eq!(told, "fetch gets no more time: nobody answers");
    }

    #[test]
    fn spanish_has_the_same_lines() {
        Language::Spanish.within(|| {
            check(
                [accepted(&["fetch"]), started(), with_deadline(0, 60_000)],
                Some("e: 15m más para fetch, la próxima en agotar su tiempo; Ctrl-C: salir (la ejecución continúa)"),
            );
            let granted = v1::ExtendTaskResponse { deadline_ms: 1_705_761_000_000, ..Default::default() };
            assert_eq!(
                told("fetch", Ok(granted), Paint::OFF),
                "[OK] fetch tiene ahora hasta 2024-01-20 14:30:00Z."
            );
            let told = refused("fetch", Some("TASK_ENDING"), ENDING, Paint::OFF);
            assert!(told.starts_with("fetch no recibe más tiempo: "), "{told}");
            assert!(told.ends_with(" (TASK_ENDING)") && !told.contains("was told"), "{told}");
        });
    }
}
