use super::*;
use crate::model::tests::{accepted, fold, leased, settled, started};
use crate::script;

/// An event at this second.
fn at(second: i64, body: Body) -> v1::Event {
    v1::Event { at_ms: second * 1_000, body: Some(body), ..v1::Event::default() }
}

fn of_events(events: impl IntoIterator<Item = v1::Event>) -> Run {
    let mut run = Run::default();
    events.into_iter().for_each(|event| run.apply(&event));
    run
}

fn far(unit: Unit, done: usize, failed: usize, all: Option<usize>) -> Option<HowFar> {
    Some(HowFar { unit, done, failed, all })
}

/// The seconds that are left at this one.
fn left(run: &Run, second: i64) -> Option<i64> {
    let far = run.how_far().expect("something is counted");
    run.time_left_ms(&far, second * 1_000).map(|left| left / 1_000)
}

fn asked(id: &str, holds: v1::QuestionHold) -> Body {
    let mut question = v1::Question { question_id: id.to_owned(), ..v1::Question::default() };
    question.set_holds(holds);
    let asked = v1::QuestionAsked { question: Some(question), ..v1::QuestionAsked::default() };
    Body::QuestionAsked(Box::new(asked))
}

fn answered(id: &str) -> Body {
    Body::QuestionAnswered(v1::QuestionAnswered {
        question_id: id.to_owned(),
        ..v1::QuestionAnswered::default()
    })
}

/// A pipeline of three phases.
fn pipeline() -> Body {
    let phase = |name: &str| v1::Phase { name: name.to_owned(), ..v1::Phase::default() };
    let work =
        v1::Pipeline { phases: ["read", "tell", "check"].map(phase).into(), ..v1::Pipeline::default() };
    let work = Some(v1::run_accepted::Work::Pipeline(work));
    Body::RunAccepted(Box::new(v1::RunAccepted { work, ..v1::RunAccepted::default() }))
}

fn begins(phase: u32) -> Body {
    Body::PhaseStarted(v1::PhaseStarted { phase, ..v1::PhaseStarted::default() })
}

fn completed(phase: u32) -> Body {
    Body::PhaseCompleted(v1::PhaseCompleted { phase, ..v1::PhaseCompleted::default() })
}

fn blocked(phase: u32) -> Body {
    Body::PhaseBlocked(v1::PhaseBlocked { phase, ..v1::PhaseBlocked::default() })
}

#[test]
fn the_phases_of_a_pipeline_are_counted_and_the_wait_for_a_person_is_no_work() {
    let mut run = of_events([at(1, pipeline()), at(1, begins(0))]);
    assert_eq!(run.how_far(), far(Unit::Phases, 0, 0, Some(3)));
    assert_eq!(left(&run, 9), None, "nothing is done");
    run.apply(&at(3, completed(0)));
    run.apply(&at(3, begins(1)));
    assert_eq!((run.how_far(), left(&run, 5)), (far(Unit::Phases, 1, 0, Some(3)), Some(8)));

    run.apply(&at(5, blocked(1)));
    run.apply(&at(5, asked("q", v1::QuestionHold::Run)));
    assert_eq!((run.how_far(), left(&run, 6)), (far(Unit::Phases, 2, 1, Some(3)), None));
    // A thousand seconds later, 4 seconds of work are one phase of three.
    run.apply(&at(1_005, answered("q")));
    run.apply(&at(1_005, begins(1)));
    assert_eq!((run.how_far(), left(&run, 1_005)), (far(Unit::Phases, 1, 0, Some(3)), Some(8)));

    // What is taken back is to be done again, and was not done at the pace from here on.
    let back = v1::PipelineRolledBack { phase: 0, ..v1::PipelineRolledBack::default() };
    run.apply(&at(1_010, Body::PipelineRolledBack(back)));
    assert_eq!((run.how_far(), left(&run, 1_020)), (far(Unit::Phases, 0, 0, Some(3)), None));
    run.apply(&at(1_010, begins(0)));
    run.apply(&at(1_016, completed(0)));
    assert_eq!(left(&run, 1_016), Some(12));
    run.apply(&at(1_017, Body::RunFinished(v1::RunFinished::default())));
    assert_eq!(left(&run, 1_020), None);
}

#[test]
fn of_a_plan_only_what_was_worked_on_makes_an_estimate() {
    let begun = [accepted(&["a", "b", "c"]), started()];
    let success = |task: u32, attempts: u32| settled(task, v1::ResultStatus::Success, attempts);
    // Accepted at second 1: 10 seconds for one task of three, and for two of three.
    let one = fold(begun.clone().into_iter().chain([success(0, 1)]));
    assert_eq!((one.how_far(), left(&one, 11)), (far(Unit::Tasks, 1, 0, Some(3)), Some(20)));
    let two = fold(begun.clone().into_iter().chain([success(0, 1), success(1, 1)]));
    assert_eq!((two.how_far(), left(&two, 11)), (far(Unit::Tasks, 2, 0, Some(3)), Some(5)));
    // One of the two was there already, or was skipped.
    let taken = fold(begun.clone().into_iter().chain([success(0, 0), success(1, 1)]));
    assert_eq!((taken.how_far(), left(&taken, 11)), (far(Unit::Tasks, 2, 0, Some(3)), Some(10)));
    let failed = settled(1, v1::ResultStatus::Timeout, 1);
    let failed = fold(begun.into_iter().chain([success(0, 1), failed]));
    assert_eq!(failed.how_far(), far(Unit::Tasks, 2, 1, Some(3)));
}

#[test]
fn a_paused_plan_is_not_at_work_and_one_that_asks_about_a_task_is() {
    let mut run = of_events([
        at(0, accepted(&["a", "b", "c"])),
        at(0, started()),
        at(0, leased(0, 1)),
        at(4, settled(0, v1::ResultStatus::Success, 1)),
        at(4, Body::RunPaused(v1::RunPaused::default())),
    ]);
    assert_eq!(left(&run, 50), None);
    run.apply(&at(100, Body::RunResumed(v1::RunResumed::default())));
    assert_eq!(left(&run, 101), Some(10));
    run.apply(&at(101, asked("q1", v1::QuestionHold::Task)));
    run.apply(&at(101, asked("q2", v1::QuestionHold::Nothing)));
    assert_eq!(left(&run, 102), Some(12));
    run.apply(&at(102, asked("q3", v1::QuestionHold::Run)));
    assert_eq!(left(&run, 102), None);
}

#[test]
fn what_had_begun_before_a_run_was_held_is_work_until_it_ends() {
    let paused = || Body::RunPaused(v1::RunPaused::default());
    let success = |task: u32| settled(task, v1::ResultStatus::Success, 1);
    let begun = [
        at(0, accepted(&["a", "b", "c", "d"])),
        at(0, started()),
        at(0, leased(0, 1)),
        at(0, leased(1, 1)),
        at(2, success(0)),
        at(2, paused()),
    ];
    let mut run = of_events(begun.clone());
    assert_eq!(left(&run, 4), None);
    run.apply(&at(6, success(1)));
    run.apply(&at(100, Body::RunResumed(v1::RunResumed::default())));
    assert_eq!(left(&run, 100), Some(6), "6 seconds for two of four");

    // Nobody works on a task whose outcome is asked for, though nothing has ended it.
    let mut run = of_events(begun);
    let Body::QuestionAsked(mut lost) = asked("q", v1::QuestionHold::Run) else { panic!("a question") };
    lost.question.as_mut().expect("a question").task = Some("b".to_owned());
    run.apply(&at(4, Body::QuestionAsked(lost)));
    run.apply(&at(50, answered("q")));
    run.apply(&at(50, success(1)));
    run.apply(&at(100, Body::RunResumed(v1::RunResumed::default())));
    assert_eq!(left(&run, 100), Some(4), "4 seconds for two of four");
}

#[test]
fn a_task_that_is_run_again_is_measured_by_its_newest_end() {
    let again =
        |task: u32| Body::TaskReactivated(v1::TaskReactivated { task, ..v1::TaskReactivated::default() });
    let success = |task: u32| settled(task, v1::ResultStatus::Success, 1);
    let unresolved = || settled(0, v1::ResultStatus::Error, 0);
    let begun = [at(0, accepted(&["a", "b", "c"])), at(0, started()), at(2, unresolved()), at(4, again(0))];
    let mut worked = of_events(begun.clone());
    worked.apply(&at(6, success(0)));
    assert_eq!((worked.how_far(), left(&worked, 6)), (far(Unit::Tasks, 1, 0, Some(3)), Some(12)));
    let mut twice = of_events(begun);
    twice.apply(&at(5, unresolved()));
    twice.apply(&at(6, success(1)));
    assert_eq!((twice.how_far(), left(&twice, 6)), (far(Unit::Tasks, 2, 1, Some(3)), Some(6)));

    // What had ended before the fork and is run again was done by the fork.
    let mut forked = of_events([
        at(0, accepted(&["a", "b", "c", "d"])),
        at(0, started()),
        at(1, success(0)),
        at(1, settled(1, v1::ResultStatus::Error, 1)),
        at(500, Body::RunForked(v1::RunForked::default())),
        at(500, again(1)),
    ]);
    assert_eq!(left(&forked, 502), None);
    forked.apply(&at(504, success(1)));
    assert_eq!((forked.how_far(), left(&forked, 504)), (far(Unit::Tasks, 2, 0, Some(4)), Some(8)));
}

#[test]
fn no_clock_is_too_far_ahead_or_behind() {
    let event = |at_ms: i64, body: Body| v1::Event { at_ms, body: Some(body), ..v1::Event::default() };
    let paused = || Body::RunPaused(v1::RunPaused::default());
    let resumed = || Body::RunResumed(v1::RunResumed::default());
    let mut run = of_events([
        event(i64::MIN, accepted(&["a", "b"])),
        event(i64::MIN, started()),
        event(i64::MIN, settled(0, v1::ResultStatus::Success, 1)),
        event(i64::MIN, paused()),
        event(i64::MAX, resumed()),
    ]);
    let far = run.how_far().expect("something is counted");
    assert_eq!(run.time_left_ms(&far, i64::MAX), None);
    // A clock that was set back while the run stood still has not made it work for longer.
    run = of_events([
        at(0, accepted(&["a", "b"])),
        at(0, started()),
        at(4, settled(0, v1::ResultStatus::Success, 1)),
        at(1_000, paused()),
        at(4, resumed()),
    ]);
    assert_eq!(left(&run, 4), Some(4));
}

#[test]
fn a_fork_is_measured_by_what_it_does_itself() {
    let success = |task: u32| settled(task, v1::ResultStatus::Success, 1);
    let run = of_events([
        at(0, accepted(&["a", "b", "c", "d"])),
        at(0, started()),
        at(1, success(0)),
        at(1, success(1)),
        at(500, Body::RunForked(v1::RunForked::default())),
    ]);
    assert_eq!((run.how_far(), left(&run, 504)), (far(Unit::Tasks, 2, 0, Some(4)), None));
    let mut run = run;
    run.apply(&at(504, success(2)));
    assert_eq!(left(&run, 504), Some(4));
}

#[test]
fn a_phase_that_was_blocked_before_a_fork_is_done_by_the_fork() {
    let mut run = of_events([
        at(1, pipeline()),
        at(1, begins(0)),
        at(3, completed(0)),
        at(3, begins(1)),
        at(5, blocked(1)),
        at(500, Body::RunForked(v1::RunForked::default())),
        at(500, begins(1)),
    ]);
    assert_eq!((run.how_far(), left(&run, 503)), (far(Unit::Phases, 1, 0, Some(3)), None));
    run.apply(&at(504, completed(1)));
    assert_eq!((run.how_far(), left(&run, 504)), (far(Unit::Phases, 2, 0, Some(3)), Some(4)));
}

/// An execution in this mode with a plan of four steps, approved at second 1,000, one of which is done two seconds later.
fn execution(mode: ExecutionMode) -> Run {
    let accepted = v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Mode(v1::ModeRun::default())),
        ..v1::RunAccepted::default()
    };
    let step = |id: &str| v1::PlanStep { id: id.to_owned(), ..v1::PlanStep::default() };
    let plan = v1::ModePlan { steps: ["a", "b", "c", "d"].map(step).into(), ..v1::ModePlan::default() };
    let planned = v1::PlannerAnswered { plan: Some(plan), ..v1::PlannerAnswered::default() };
    let begun = v1::ModeBegun { mode: mode.into(), ..v1::ModeBegun::default() };
    of_events([
        at(0, Body::RunAccepted(Box::new(accepted))),
        at(0, Body::ModeBegun(begun)),
        at(30, Body::PlannerAnswered(planned)),
        at(30, asked("q", v1::QuestionHold::Run)),
        at(1_000, answered("q")),
        at(1_000, Body::PlanApproved(v1::PlanApproved::default())),
        at(1_002, seen(0, None)),
    ])
}

fn seen(step: u32, error: Option<v1::Error>) -> Body {
    Body::ToolObserved(v1::ToolObserved {
        step: step + 1,
        step_index: Some(step),
        error,
        ..v1::ToolObserved::default()
    })
}

#[test]
fn of_an_approved_plan_the_steps_are_counted_from_its_approval_on() {
    let mut run = execution(ExecutionMode::Supervised);
    assert_eq!((run.how_far(), left(&run, 1_002)), (far(Unit::Steps, 1, 0, Some(4)), Some(6)));
    run.apply(&at(1_003, seen(1, Some(v1::Error::default()))));
    assert_eq!(run.how_far(), far(Unit::Steps, 2, 1, Some(4)));
    run.apply(&at(1_003, asked("q2", v1::QuestionHold::Task)));
    assert_eq!(left(&run, 1_004), None, "one step is at work at a time");
}

#[test]
fn nobody_knows_how_much_is_left_where_a_planner_may_plan_anew() {
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner] {
        let mut run = execution(mode);
        assert_eq!((run.how_far(), left(&run, 1_002)), (far(Unit::Actions, 1, 0, None), None), "{mode:?}");
        run.apply(&at(1_003, seen(1, Some(v1::Error::default()))));
        assert_eq!(run.how_far(), far(Unit::Actions, 2, 1, None), "{mode:?}");
    }
}

#[test]
fn the_actions_of_a_script_are_counted_and_of_a_session_those_that_there_were() {
    let story = script::tests::story();
    let run = of_events(story.iter().take(11).cloned());
    assert_eq!((run.how_far(), left(&run, 10)), (far(Unit::Actions, 1, 0, Some(4)), Some(29)));
    let ended = of_events(story.clone());
    assert_eq!((ended.how_far(), left(&ended, 10)), (far(Unit::Actions, 4, 1, Some(4)), None));
    let mut session = run;
    session.script.as_mut().expect("a script").script.interactive = true;
    assert_eq!((session.how_far(), left(&session, 10)), (far(Unit::Actions, 1, 0, None), None));
}

#[test]
fn nothing_is_counted_of_an_ask() {
    let accepted = v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Ask(v1::Ask::default())),
        ..v1::RunAccepted::default()
    };
    assert_eq!(fold([Body::RunAccepted(Box::new(accepted))]).how_far(), None);
}
