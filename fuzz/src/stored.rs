//! What is read back from the disk, and the cursors that come back from subscribers.

use std::fmt::Debug;
use std::sync::LazyLock;

use bytes::Bytes;
use capataz_contracts::{json, v1};
use capataz_engine::session::SessionState;
use capataz_engine::{EVENT_FORMAT, Input, Moment, Observed, RunState, Timestamp, ViewOptions, Wall, decide};
use capataz_shard::feed::{self, Begin, Cursor, Filter, Placed, Reader, Ring, Start, Unservable};
use capataz_store::builders::{Shape, beginning, continuation};
use capataz_store::{
    Append, Bounds, Era, History, Mark, MemoryStore, Position, Removals, RunId, ShardId, Store,
};
use prost::Message;

const SHARD: ShardId = ShardId(0);

/// The seed of the runs that are folded here.
pub(crate) const SEED: u64 = 42;

/// The log of one run or session: its events, each with a varint length before it, as rows of the store have them.
pub(crate) fn log(bytes: &[u8]) {
    let encoded: Vec<Bytes> = feed::split(&Bytes::copy_from_slice(bytes)).collect();
    let mut events = Vec::new();
    for bytes in encoded {
        let Ok(event) = v1::Event::decode(bytes) else { return };
        survives_encoding(&event);
        let _ = json::print("capataz.v1.Event", &event);
        let _ = feed::severity_of(&event);
        events.push(event);
    }
    let opens_session = matches!(
        events.first().and_then(|event| event.body.as_ref()),
        Some(v1::event::Body::SessionOpened(_))
    );
    if opens_session {
        if let Ok(state) = SessionState::fold(events) {
            use_session(&state);
        }
    } else if let Ok(state) = RunState::fold(SEED, events) {
        use_run(state);
    }
}

/// Bytes are compared and not values, because a number that is none does not equal itself.
pub(crate) fn survives_encoding<M: Message + Default + Debug>(message: &M) {
    let encoded = Bytes::from(message.encode_to_vec());
    let again = M::decode(encoded.clone()).map(|again| again.encode_to_vec());
    assert!(again.as_deref() == Ok(&*encoded), "{message:?} is encoded, and read as something else");
}

pub(crate) fn run_snapshot(bytes: &[u8]) {
    if let Ok(state) = RunState::from_snapshot(bytes) {
        use_run(state);
    }
}

pub(crate) fn session_snapshot(bytes: &[u8]) {
    let Ok(mut state) = SessionState::from_snapshot(bytes) else { return };
    use_session(&state);
    // One more event, as the rest of the log would bring it.
    let turn = v1::SessionTurn { messages: vec![v1::SessionMessage::default()], ..Default::default() };
    let body = Some(v1::event::Body::SessionTurn(turn));
    let event =
        v1::Event { seq: state.seq().saturating_add(1), format: EVENT_FORMAT, body, ..Default::default() };
    let _ = state.apply(event);
}

/// Does with a run what a shard and its readers do with one that they have read.
pub(crate) fn use_run(mut state: RunState) {
    let snapshot = state.snapshot();
    assert!(snapshot.is_ok(), "{snapshot:?}");
    let again = snapshot.as_deref().map(RunState::from_snapshot);
    let again = again.ok().and_then(Result::ok).and_then(|state| state.snapshot().ok());
    assert!(again == snapshot.ok(), "a snapshot is read, and is written as the same bytes");

    let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
    let view = state.view("run".to_owned(), options);
    let _ = json::print("capataz.v1.Run", &view);
    let _ = (state.result(usize::MAX), state.error_summary(), state.progress(), state.outstanding());
    let leased: Vec<_> = state.leases().map(|(task, ..)| task).collect();
    for task in leased {
        let _ = (state.assignment(task), state.running_times(task));
    }
    for task in state.queued().collect::<Vec<_>>() {
        let lease = Input::Lease {
            task,
            worker: "w".to_owned(),
            mark: 0,
            output_schema: None,
            cancel_is_final: false,
        };
        let _ = decide(&mut state.clone(), lease, later());
    }
    let observed = state.due(Timestamp(i64::MAX)).map(|task| (task, Observed::default())).collect();
    let _ = decide(&mut state.clone(), Input::Tick { observed }, later());
    let cancel = Input::Cancel { reason: "fuzz".to_owned(), force: true, request_id: "fuzz".to_owned() };
    let _ = decide(&mut state, cancel, later());
}

/// A moment that lies behind every one that a log can honestly have, and before the end of time.
fn later() -> Moment {
    const YEAR_10000: i64 = 253_402_300_800_000;
    Moment { clock: Timestamp(YEAR_10000), wall: Wall(YEAR_10000) }
}

fn use_session(state: &SessionState) {
    let snapshot = state.snapshot();
    assert!(snapshot.is_ok(), "{snapshot:?}");
    let again = snapshot.as_deref().map(SessionState::from_snapshot);
    let again = again.ok().and_then(Result::ok).and_then(|state| state.snapshot().ok());
    assert!(again == snapshot.ok(), "a snapshot is read, and is written as the same bytes");
    for now in [Wall(i64::MIN), Wall(0), Wall(i64::MAX)] {
        let _ = json::print("capataz.v1.Session", &state.view("stream".to_owned(), now));
    }
}

/// The positions of the log that cursors are held against.
const APPENDS: u64 = 6;

/// A log of three runs, each of two appends with two events.
static SMALL_LOG: LazyLock<MemoryStore> = LazyLock::new(|| {
    let store = MemoryStore::new();
    let appends: Vec<Append> =
        [1, 3].into_iter().flat_map(|first_seq| (1..=3).map(move |run| append(run, first_seq))).collect();
    let written = store.claim(SHARD, Mark(7)).and_then(|mut writer| writer.commit(&appends));
    assert!(written.is_ok_and(|outcomes| outcomes.len() as u64 == APPENDS), "the small log is written");
    store
});

fn append(run: u128, first_seq: u64) -> Append {
    let events = (first_seq..first_seq + 2).flat_map(|seq| {
        v1::Event { seq, format: EVENT_FORMAT, ..Default::default() }.encode_length_delimited_to_vec()
    });
    let run = RunId(uuid::Uuid::from_u128(run));
    let append = if first_seq == 1 { beginning(run) } else { continuation(run, first_seq) };
    append.count(2).events(events.collect::<Vec<u8>>())
}

/// A cursor as a subscriber brings it, held against histories in which it may lie, and followed to the end of the log.
pub(crate) fn cursor(bytes: &[u8]) {
    let Some(placed) = Placed::decode(bytes, SHARD) else { return };
    assert_eq!(Placed::decode(&placed.encode(SHARD), SHARD), Some(placed), "a cursor comes back as it left");
    let era = |mark, first, last: Option<u64>| Era {
        mark: Mark(mark),
        first: Position(first),
        last: last.map(Position),
    };
    let histories = [
        History::default(),
        History::new(vec![era(7, 1, None)]),
        History::new(vec![era(7, 1, Some(3)), era(8, 4, None)]),
    ];
    for history in &histories {
        for removed in [0, 3] {
            for of_one_run in [false, true] {
                let (newest, removals) = (Position(APPENDS), Removals(removed));
                let bounds = Bounds { newest, removed: Position(removed), removals, bytes: 0 };
                hold(placed, bounds, history, of_one_run);
            }
        }
    }
}

fn hold(placed: Placed, bounds: Bounds, history: &History, of_one_run: bool) {
    match Begin::After(placed).check(bounds, history, of_one_run) {
        Ok(start) => follow(start, of_one_run),
        Err(Unservable::TooOld { works } | Unservable::OtherHistory { valid: works }) => {
            let again = Begin::After(works).check(bounds, history, of_one_run);
            assert!(again.is_ok(), "{works:?} was said to work: {again:?}");
        }
    }
}

/// Reads to the end: every event at most once, in their order, and never without an end.
fn follow(start: Start, of_one_run: bool) {
    let run = of_one_run.then(|| RunId(uuid::Uuid::from_u128(2)));
    let mut reader = Reader::new(SHARD, Filter { run, ..Filter::default() }, start, 3);
    let ring = Ring::new(Position(APPENDS), 1024);
    let mut seen: Option<Cursor> = None;
    let mut events = 0;
    for step in 0.. {
        assert!(step < 64, "the reader does not come to an end");
        let Some(step) = reader.read_ring(&ring).or_else(|| reader.read_log(&*SMALL_LOG, ring.newest()).ok())
        else {
            break;
        };
        for delivered in &step.events {
            assert!(seen.is_none_or(|seen| delivered.cursor > seen), "{delivered:?} after {seen:?}");
            seen = Some(delivered.cursor);
        }
        events += step.events.len() as u64;
        if step.at_end || step.missed || step.finished {
            break;
        }
    }
    assert!(events <= 2 * APPENDS, "{events} events");
}
