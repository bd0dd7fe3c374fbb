use capataz_engine::{self as engine, Moment, Wall};

use super::*;

#[test]
fn only_what_a_mode_recalls_changes_what_it_recalls() {
    let wanted = |mode: v1::ExecutionMode| Wanted {
        session: "shop".to_owned(),
        mode,
        since_ms: 0,
        entries: 10,
        tokens: 100,
    };
    let entry = |session: &str, mode: &str, kind: &str| {
        MemoryChange::Entry(Box::new(MemoryEntry {
            session: session.to_owned(),
            mode: mode.to_owned(),
            kind: kind.to_owned(),
            at: Millis(1),
            content: String::new(),
            digest: String::new(),
            tools: Vec::new(),
            files: Vec::new(),
            related_to: Vec::new(),
        }))
    };
    // As the seed's query has it: errors and solutions; successes and patterns; all of them.
    let kinds = ["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"];
    for (mode, name, recalled) in [
        (v1::ExecutionMode::Simple, "simple", &["error", "solution"][..]),
        (v1::ExecutionMode::Planner, "planner", &["success", "pattern"]),
        (v1::ExecutionMode::Supervised, "supervised", &kinds),
    ] {
        for kind in kinds {
            let changes =
                |session: &str, mode_of: &str| is_recalled(&entry(session, mode_of, kind), &wanted(mode));
            assert_eq!(changes("shop", name), recalled.contains(&kind), "{name} {kind}");
            assert!(!changes("home", name) && !changes("shop", "another"));
        }
        let vote = MemoryChange::Vote { entry: "e".to_owned(), quarters: 1 };
        let forgotten = MemoryChange::Forgotten { entry: "e".to_owned() };
        for change in [vote, forgotten, MemoryChange::Back { to_seq: 1 }] {
            assert!(is_recalled(&change, &wanted(mode)), "{change:?}");
        }
    }
}

fn accepted(parent: Option<&str>) -> v1::Event {
    let parent = parent.map(|run| v1::ParentRef {
        run_id: run.to_owned(),
        task: "t".to_owned(),
        lease: 0,
        activation: 2,
        attempt: 3,
    });
    let body = v1::RunAccepted { parent, ..v1::RunAccepted::default() };
    v1::Event { seq: 1, body: Some(Body::RunAccepted(Box::new(body))), ..v1::Event::default() }
}

#[test]
fn a_run_that_another_run_has_started_has_a_row_under_its_parent() {
    let parent = RunId(uuid::Uuid::from_u128(7 << 64 | 9));
    let rows = derived(&accepted(Some(&parent.to_string())));
    // Field 2 is the task's name, fields 4 and 5 are its life and its attempt.
    let expected = Derived {
        place: Place { seq: 1, n: 0 },
        kind: 1,
        key: [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9].as_slice().into(),
        value: b"\x12\x01t\x20\x02\x28\x03".as_slice().into(),
    };
    assert_eq!(rows, [expected]);
}

#[test]
fn whoever_has_no_parent_that_could_be_a_run_has_no_row() {
    assert_eq!(derived(&accepted(None)), []);
    assert_eq!(derived(&accepted(Some("a script of mine"))), []);
    let started = Body::WaveStarted(v1::WaveStarted::default());
    assert_eq!(derived(&v1::Event { seq: 2, body: Some(started), ..v1::Event::default() }), []);
}

/// A newer version may write types and modes that this one does not know: what they remember is nothing that is recalled, and
/// the votes beside it count all the same.
#[test]
fn an_entry_of_a_type_or_of_a_mode_that_nobody_knows_is_no_row() {
    let run = RunId(uuid::Uuid::from_u128(7));
    let completed = |kind: &str, mode: i32| {
        let remembered = v1::Remembered {
            session: "shop".to_owned(),
            mode,
            r#type: kind.to_owned(),
            content: "what was learnt".to_owned(),
            positive: Some(true),
            related_to: vec!["an-older-one".to_owned()],
            ..v1::Remembered::default()
        };
        let body = v1::ModeCompleted { remembered: Some(remembered), ..v1::ModeCompleted::default() };
        v1::Event { seq: 3, at_ms: 1, body: Some(Body::ModeCompleted(body)), ..v1::Event::default() }
    };
    let simple = v1::ExecutionMode::Simple as i32;
    let vote = |n| MemoryRow {
        place: Place { seq: 3, n },
        change: MemoryChange::Vote { entry: "an-older-one".to_owned(), quarters: 2 },
    };
    for (kind, mode) in [("opinion", simple), ("", simple), ("Error", simple), ("error", 0), ("error", 9)] {
        assert_eq!(memory(run, &completed(kind, mode)), [vote(0)], "{kind:?} {mode}");
    }
    let rows = memory(run, &completed("error", simple));
    assert!(matches!(&rows[0].change, MemoryChange::Entry(entry) if entry.kind == "error"), "{rows:?}");
    assert_eq!(rows[1..], [vote(1)]);
}

#[test]
fn an_execution_that_has_ended_has_a_row_under_its_mode_and_one_at_work_has_none() {
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(v1::ExecutionMode::Planner.into()),
        planner: "brain".to_owned(),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    engine::materialise_mode(&mut execution).unwrap();
    let work = engine::Work::Mode(Box::new(execution));
    let start = engine::StartRun { work, labels: Default::default(), parent: None, lineage: None };
    let (mut state, _) = engine::start(7, start, Wall(1_000)).unwrap();
    assert_eq!(ended(&state, 2), None);

    let cancel =
        engine::Input::Cancel { reason: String::new(), force: true, request_id: "cancel".to_owned() };
    let decision = engine::decide(&mut state, cancel, Moment::first(Wall(1_500))).unwrap();
    let rows = derived_of_append(&state, decision.first_seq, &decision.events);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    // The end is the last event.
    let place = Place { seq: state.seq(), n: 0 };
    assert_eq!((row.place, row.kind, &*row.key), (place, 2, b"\x02".as_slice()));
    let value = v1::ExecutionEnded::decode(row.value.clone()).unwrap();
    assert_eq!((value.outcome(), value.took_ms), (v1::RunOutcome::Cancelled, 500));
}
