//! What a person is told at once, while a run goes on: the boxes of what is CRITICAL or HIGH. What is milder waits for the
//! report (seed 000, contract 6).

use capataz_contracts::v1::{self, event::Body};

use crate::compact::Form;
use crate::error::{self, Context, flags};
use crate::model::{Phase, Run, Task};
use crate::paint::Paint;
use crate::run::state_name;

/// A box, and whose failure it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    /// The wave and the task that have failed, or whose time is over; `None` for anything else.
    pub failed: Option<(u32, u32)>,
    /// The wave and the task whose completion was refused; `None` for anything else.
    pub refused: Option<(u32, u32)>,
}

impl Told {
    fn other(text: String) -> Self {
        Self { text, failed: None, refused: None }
    }
}

/// The box of an event of a run whose tasks its user has named, where it is one that a person is told at once. The event was
/// already applied to `run`. A failure that a person is asked about is told with the question, which follows it.
#[must_use]
pub fn of_event(run: &Run, run_id: &str, event: &v1::Event, form: Form, paint: Paint) -> Option<Told> {
    if !run.names_tasks {
        return None;
    }
    match event.body.as_ref()? {
        Body::TaskSettled(settled) => {
            let error = settled.error.as_ref().filter(|error| error::is_told_at_once(error))?;
            let task = run.task(settled.wave, settled.task)?;
            let is_cancelled = settled.status() == v1::ResultStatus::Cancelled;
            if is_cancelled || task.told || is_asked_about(run, settled.wave, error) {
                return None;
            }
            let context = Context {
                phase: Some(state_name(settled.state())),
                at_ms: Some(event.at_ms),
                goes_on: goes_on(run) && !ends_the_run(run, settled, task, error),
                log: &task.log,
                form,
                ..context_of(run, run_id, task)
            };
            let text = error::error(error, &context, paint);
            Some(Told { failed: Some((settled.wave, settled.task)), ..Told::other(text) })
        }
        Body::QuestionAsked(asked) => of_question(run, run_id, asked.question.as_ref()?, form, paint),
        Body::Notice(notice) => {
            let error = notice.notice.as_ref().filter(|error| error::is_told_at_once(error))?;
            let context = Context { run: Some(run_id), goes_on: goes_on(run), form, ..Context::default() };
            Some(Told::other(error::error(error, &context, paint)))
        }
        Body::ResultRefused(refused) => {
            let error = refused.error.as_deref().filter(|error| error::is_told_at_once(error))?;
            let place = (refused.wave, refused.task);
            let context = Context { form, ..context_of(run, run_id, run.task(place.0, place.1)?) };
            Some(Told { refused: Some(place), ..Told::other(error::error(error, &context, paint)) })
        }
        _ => None,
    }
}

/// The box of an open question about an error, with the answers and the command that gives them.
#[must_use]
pub fn of_question(
    run: &Run,
    run_id: &str,
    question: &v1::Question,
    form: Form,
    paint: Paint,
) -> Option<Told> {
    let error = question.error.as_ref().filter(|_| run.names_tasks)?;
    let Some(v1::question_subject::About::Task(about)) = question.about.as_ref()?.about.as_ref() else {
        return None;
    };
    let task = run.task(about.wave, about.task)?;
    let purpose = question.purpose();
    let state = match purpose {
        v1::QuestionPurpose::Failure => v1::TaskState::Failed,
        _ => v1::TaskState::Active,
    };
    let context = Context {
        phase: Some(state_name(state)),
        at_ms: Some(question.asked_at_ms),
        question: Some(question),
        log: if purpose == v1::QuestionPurpose::Failure { &task.log } else { &[] },
        form,
        ..context_of(run, run_id, task)
    };
    let is_failure = matches!(purpose, v1::QuestionPurpose::Failure | v1::QuestionPurpose::Timeout);
    let failed = is_failure.then_some((about.wave, about.task));
    Some(Told { failed, ..Told::other(error::error(error, &context, paint)) })
}

/// Whether a question follows this failure.
fn is_asked_about(run: &Run, wave: u32, error: &v1::Error) -> bool {
    let is_high = error::severity(error) == v1::Severity::High;
    let is_decided = run.waves.get(wave as usize).is_some_and(|wave| wave.decided);
    run.pauses_on_high && is_high && goes_on(run) && !is_decided
}

/// Whether nothing is left to be aborted after this failure: it ends the run, or was the last thing that the run waited for.
fn ends_the_run(run: &Run, settled: &v1::TaskSettled, task: &Task, error: &v1::Error) -> bool {
    let Some(wave) = run.waves.get(settled.wave as usize) else { return false };
    let stops = match wave.policy.kind() {
        v1::AggregationKind::FailFast => true,
        v1::AggregationKind::CriticalPath => task.critical,
        _ => false,
    };
    let goes_on = settled.evaluation.as_ref().is_none_or(|evaluation| evaluation.should_continue);
    let is_last = settled.wave as usize + 1 == run.waves.len();
    !flags(error).can_continue || stops || wave.active.is_empty() && (is_last || !goes_on)
}

fn goes_on(run: &Run) -> bool {
    !matches!(run.phase, Phase::Cancelling | Phase::Finished)
}

fn context_of<'a>(run: &Run, run_id: &'a str, task: &'a Task) -> Context<'a> {
    Context {
        task: Some(&task.name),
        agent: Some(&task.agent),
        max_attempts: Some(task.max_attempts),
        run: Some(run_id),
        goes_on: goes_on(run),
        ..Context::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{accepted, accepted_with, events, leased, started};

    fn failed(task: u32, code: &str, severity: v1::Severity) -> Body {
        Body::TaskSettled(Box::new(v1::TaskSettled {
            task,
            attempts: 1,
            state: v1::TaskState::Failed.into(),
            status: v1::ResultStatus::Error.into(),
            error: Some(error(code, severity)),
            ..v1::TaskSettled::default()
        }))
    }

    fn error(code: &str, severity: v1::Severity) -> v1::Error {
        v1::Error {
            code: code.to_owned(),
            message: "it broke".to_owned(),
            severity: severity.into(),
            options: ["debug", "skip", "abort"].map(str::to_owned).to_vec(),
            ..v1::Error::default()
        }
    }

    /// What is told of the last of these events.
    fn told(bodies: impl IntoIterator<Item = Body>) -> Option<Told> {
        let mut run = Run::default();
        let events = events(bodies);
        events.iter().for_each(|event| run.apply(event));
        of_event(&run, "0199", events.last()?, Form::Boxes, Paint::OFF)
    }

    fn pausing() -> Body {
        accepted_with(&["a", "b"], |plan| plan.set_on_high(v1::OnHigh::Pause))
    }

    fn asked(of: v1::QuestionPurpose) -> Body {
        let subject = v1::TaskSubject { task: 1, ..v1::TaskSubject::default() };
        let question = v1::Question {
            question_id: "q1".to_owned(),
            purpose: of.into(),
            error: Some(error("BUILD_FAILED", v1::Severity::High)),
            options: ["skip", "abort"].map(str::to_owned).to_vec(),
            about: Some(v1::QuestionSubject { about: Some(v1::question_subject::About::Task(subject)) }),
            ..v1::Question::default()
        };
        Body::QuestionAsked(Box::new(v1::QuestionAsked { question: Some(question), ..Default::default() }))
    }

    /// The seed's table: CRITICAL and HIGH are notified immediately, MEDIUM and LOW are not.
    // S000-C6-21
    #[test]
    fn what_is_critical_or_high_is_told_at_once_and_what_is_milder_is_not() {
        use v1::Severity::{Critical, High, Low, Medium};
        for (severity, is_told) in [(Critical, true), (High, true), (Medium, false), (Low, false)] {
            let found = told([accepted(&["a", "b"]), started(), leased(1, 1), failed(1, "E1", severity)]);
            assert_eq!(found.is_some(), is_told, "{severity:?}");
            let notice = v1::Notice { notice: Some(error("E1", severity)), ..v1::Notice::default() };
            let found = told([accepted(&["a"]), started(), Body::Notice(notice)]);
            assert_eq!(found.is_some(), is_told, "{severity:?} as a notice");
        }
        let told = told([accepted(&["a", "b"]), started(), leased(1, 1), failed(1, "BUILD_FAILED", High)]);
        let told = told.expect("a box");
        assert_eq!(told.failed, Some((0, 1)));
        for part in [
            "|  ERROR: BUILD_FAILED ",
            "|  b: it broke ",
            "[d] ",
            "[a] Abort the run: `capataz runs cancel 0199`",
        ] {
            assert!(told.text.contains(part), "{part:?} in\n{}", told.text);
        }
    }

    #[test]
    fn the_end_of_its_log_is_told_with_a_failure_and_with_the_question_about_it() {
        let logged = |task| {
            let Body::TaskSettled(mut settled) = failed(task, "BUILD_FAILED", v1::Severity::High) else {
                unreachable!()
            };
            settled.log = "cannot find `x`\n".to_owned();
            Body::TaskSettled(settled)
        };
        let log = "\nIts log (`capataz logs 0199 b`):\n  | cannot find `x`";
        let told_of = told([accepted(&["a", "b"]), started(), leased(1, 1), logged(1)]).expect("a box");
        assert!(told_of.text.ends_with(log), "{}", told_of.text);
        let question = asked(v1::QuestionPurpose::Failure);
        let told_of = told([pausing(), started(), leased(1, 1), logged(1), question]).expect("a box");
        assert!(told_of.text.ends_with(log), "{}", told_of.text);
    }

    #[test]
    fn nobody_is_offered_to_abort_what_ends_by_itself() {
        let high = |task| failed(task, "BUILD_FAILED", v1::Severity::High);
        let last = told([accepted(&["a"]), started(), leased(0, 1), high(0)]).expect("a box");
        assert!(!last.text.contains("runs cancel"), "{}", last.text);
        let fail_fast = accepted_with(&["a", "b"], |plan| {
            let kind = v1::AggregationKind::FailFast.into();
            plan.policy = Some(v1::AggregationPolicy { kind, ..v1::AggregationPolicy::default() });
        });
        let first = told([fail_fast, started(), leased(0, 1), high(0)]).expect("a box");
        assert!(!first.text.contains("runs cancel"), "{}", first.text);
    }

    #[test]
    fn a_failure_that_is_asked_about_is_told_once_with_its_answers() {
        let before = || [pausing(), started(), leased(1, 1)];
        let failure = || failed(1, "BUILD_FAILED", v1::Severity::High);
        assert_eq!(told(before().into_iter().chain([failure()])), None);
        let question = asked(v1::QuestionPurpose::Failure);
        let found = told(before().into_iter().chain([failure(), question])).expect("a box");
        assert_eq!(found.failed, Some((0, 1)));
        assert!(found.text.contains("`capataz runs resolve 0199 q1 skip`, or with"), "{}", found.text);
        // Nobody is asked about what ends the run.
        let critical = failed(1, "STATE_CORRUPTED", v1::Severity::Critical);
        assert!(told(before().into_iter().chain([critical])).is_some());
        // What became of a lost worker is no failure yet.
        let unknown = told(before().into_iter().chain([asked(v1::QuestionPurpose::Outcome)]));
        assert_eq!(unknown.expect("a box").failed, None);
    }

    #[test]
    fn a_timeout_that_was_told_at_the_deadline_is_not_told_again_at_the_end_of_the_grace() {
        let mut run = Run::default();
        let before = [accepted(&["a", "b"]), started(), leased(1, 1), asked(v1::QuestionPurpose::Timeout)];
        let events = events(before.into_iter().chain([failed(1, "TASK_TIMEOUT", v1::Severity::High)]));
        let (end, before) = events.split_last().expect("events");
        before.iter().for_each(|event| run.apply(event));
        let at_deadline =
            of_event(&run, "0199", &before[3], Form::Boxes, Paint::OFF).and_then(|told| told.failed);
        assert_eq!(at_deadline, Some((0, 1)));
        run.tell(0, 1);
        let mut extended = run.clone();
        run.apply(end);
        assert_eq!(of_event(&run, "0199", end, Form::Boxes, Paint::OFF), None);
        // After more time, it is another deadline.
        let more = v1::TaskExtended { task: 1, ..v1::TaskExtended::default() };
        extended.apply(&v1::Event { body: Some(Body::TaskExtended(more)), ..v1::Event::default() });
        extended.apply(end);
        assert!(of_event(&extended, "0199", end, Form::Boxes, Paint::OFF).is_some());
    }
}
