//! A run that continues another one (seed 000, scenario 7).

use v1::TaskState::{Active, Complete, Init};

use super::*;

/// A plan whose tasks of these names have given their names before.
fn continued<'n>(shape: &str, before: &'n [&'n str], inputs: &'n [(&'n str, &'n str)]) -> Bench {
    Bench::with(shape, |plan| {
        plan.continues = Some("0199".to_owned());
        for task in plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            if before.contains(&task.name.as_str()) {
                let output = Some(json(&format!("{:?}", task.name)));
                task.taken_over = Some(v1::TakenOver { output });
            }
            if let Some((_, input)) = inputs.iter().find(|(name, _)| *name == task.name) {
                task.input = Some(json(input));
            }
        }
    })
}

fn is_taken_over(bench: &Bench, name: &str) -> bool {
    bench.task(name).taken_over
}

#[test]
fn what_succeeded_before_is_complete_as_soon_as_its_wave_begins() {
    let bench = continued("a b c", &["a", "c"], &[]);
    let a = bench.task("a");
    assert!(a.taken_over && a.status() == v1::ResultStatus::Success);
    assert_eq!(a.output, Some(json("\"a\"")));
    assert_eq!((a.attempt, a.attempts.len(), a.started_at_ms), (0, 0, None), "it was not at work here");
    let states: Vec<v1::TaskState> = a.history.iter().map(v1::Transition::to).collect();
    assert_eq!(states, [Init, Active, Complete]);
    assert_eq!(bench.effects(), [Effect::Enqueue { task: bench.at("b") }], "only this is left");
    assert_eq!(bench.run().continues.as_deref(), Some("0199"));
    let bench = bench.lease("b", "w1").completes("b");
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_wave_in_which_nothing_is_left_is_over_at_once() {
    let bench = continued("a b | c", &["a", "b"], &[]);
    assert_eq!((bench.state.progress(), bench.run().wave), ((2, 3), 1));
    bench.lease("c", "w1").completes("c").expect_outcome(v1::RunOutcome::Succeeded);
}

// S000-SC-10
#[test]
fn what_refers_to_a_task_that_is_done_again_is_done_again() {
    let inputs = [
        ("c", r#"{"of":"${tasks.a.output}"}"#),
        ("d", r#"{"of":["${tasks.b.output}"]}"#),
        ("e", r#"{"of":"first ${tasks.c.output}, then ${tasks.d.output}"}"#),
        ("f", r#"{"of":"$${tasks.b.output} is no reference"}"#),
    ];
    let bench = continued("a b | c d | e f", &["a", "c", "d", "e", "f"], &inputs);
    let bench = bench.lease("b", "w1").completes_with("b", "\"new\"");
    assert!(is_taken_over(&bench, "c") && !is_taken_over(&bench, "d"));
    let bench = bench.lease("d", "w1");
    let input = bench.state.assignment(bench.at("d")).and_then(|view| view.input.cloned());
    assert_eq!(input, Some(json(r#"{"of":["new"]}"#)));
    let bench = bench.completes("d");
    assert!(!is_taken_over(&bench, "e") && is_taken_over(&bench, "f"));
    bench.lease("e", "w1").completes("e").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn what_is_taken_back_is_done_again_with_all_that_refers_to_it() {
    let inputs = [("b", r#"{"of":"${tasks.a.output}"}"#)];
    let bench = continued("a | b c | d", &["a", "b", "c"], &inputs);
    assert_eq!(bench.run().wave, 2);
    let bench = bench.roll_back_all("a").lease("a", "w1").completes("a");
    // b and c were taken back with it.
    assert!(!is_taken_over(&bench, "b") && !is_taken_over(&bench, "c"));
    let bench = bench.lease_all().completes("b").completes("c");
    bench.lease("d", "w1").completes("d").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn what_gave_nothing_before_gives_nothing_now() {
    let bench = Bench::with("a | b", |plan| {
        plan.continues = Some("0199".to_owned());
        plan.waves[0].tasks[0].taken_over = Some(v1::TakenOver::default());
        plan.waves[1].tasks[0].input = Some(json(r#"{"of":"${tasks.a.output}"}"#));
    });
    assert_eq!(bench.task("a").output, None);
    bench.expect_outcome(v1::RunOutcome::Failed);
}
