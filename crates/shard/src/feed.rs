//! Event streams: the newest events in memory, the others in the log, and no gap at the seam.
//!
//! [`Ring`] keeps what was published last, up to a number of bytes. A [`Reader`] is one subscriber's place: it reads
//! from the ring while it is recent enough, from the log while it is not, and never holds more than one page. Nothing
//! is queued for a subscriber, so that a slow one costs no memory and slows nobody.
//!
//! Both are sans-IO but for the store's reads, and the simulator drives them as the shell does.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};
use capataz_contracts::v1::{self, event::Body};
use capataz_engine::planted::{self, Fault};
use capataz_policy::executor;
use capataz_store::{LogRow, Position, Removals, RunId, ShardId, Store, StoreError};
use prost::Message;

use crate::load::{Damage, LoadError};

use crate::cursor::is_missed;
pub use crate::cursor::{Begin, Cursor, Placed, Start, Unservable};
use crate::shard::Published;
use crate::topics::Topics;
pub use crate::topics::{Facts, Topic};

/// Rows and bytes that one read of the log takes at most.
pub const PAGE_ROWS: usize = 512;
const PAGE_BYTES: usize = 1024 * 1024;
/// Bytes of events in one batch; a response stays below gRPC's 4 MiB.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Runs whose labels a reader remembers.
const KNOWN_RUNS: usize = 4096;

/// The newest published appends.
#[derive(Debug)]
pub struct Ring {
    /// Everything after this position is in the ring.
    after: Position,
    entries: VecDeque<Published>,
    bytes: usize,
    max_bytes: usize,
    topics: Topics,
}

impl Ring {
    /// An empty ring: what is at or before `after` is in the log.
    #[must_use]
    pub fn new(after: Position, max_bytes: usize) -> Self {
        Self { after, entries: VecDeque::new(), bytes: 0, max_bytes, topics: Topics::default() }
    }

    /// Begins anew: what is at or before `after` is in the log, whatever it is, and nobody was told of it.
    pub fn begin_again(&mut self, after: Position) {
        self.entries.clear();
        (self.after, self.bytes) = (after, 0);
        self.topics.doubt(after);
    }

    /// Somebody waits for a topic from here on, until he [ends](Self::no_longer_awaits) that.
    pub fn awaits(&mut self, topic: Topic) {
        let newest = self.newest();
        self.topics.begin(topic, newest);
    }

    /// Somebody waits for it no longer. Whether nobody else does.
    pub fn no_longer_awaits(&mut self, topic: &Topic) -> bool {
        self.topics.end(topic)
    }

    /// Keeps an append. The topics that it has, among those that are waited for.
    pub fn push(&mut self, published: Published) -> Vec<Topic> {
        let topics = self.topics.note(&published);
        self.bytes += published.events.len();
        self.entries.push_back(published);
        let forgets = !planted::is(Fault::RingForgetsNothing);
        while forgets && self.bytes > self.max_bytes && self.entries.len() > 1 {
            if let Some(oldest) = self.entries.pop_front() {
                self.bytes -= oldest.events.len();
                self.after = oldest.position;
            }
        }
        topics
    }

    /// The bytes of each entry, oldest first, for invariant checks.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().map(|entry| entry.events.len())
    }

    /// Position of the newest entry.
    #[must_use]
    pub fn newest(&self) -> Position {
        self.entries.back().map_or(self.after, |entry| entry.position)
    }

    /// Up to `limit` entries after `position`; `None` where some of them are in the log alone.
    #[must_use]
    pub fn after(&self, position: Position, limit: usize) -> Option<impl Iterator<Item = &Published>> {
        let missed_by_one = planted::is(Fault::SeamOffByOne) && position.0 + 1 == self.after.0;
        if position < self.after && !missed_by_one {
            return None;
        }
        let start = self.entries.partition_point(|entry| entry.position <= position);
        Some(self.entries.range(start..).take(limit))
    }
}

/// What a subscriber wants to see; all that is set must match.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub run: Option<RunId>,
    pub labels: BTreeMap<String, String>,
    pub kind: Option<i32>,
    pub min_severity: i32,
}

impl Filter {
    /// What all appends have that may pass; `None` where that is nothing.
    #[must_use]
    pub fn topic(&self) -> Option<Topic> {
        let of_label =
            || self.labels.iter().next().map(|(key, value)| Topic::Label(key.clone(), value.clone()));
        self.run.map(Topic::Run).or_else(of_label).or_else(|| self.kind.map(Topic::Kind))
    }

    /// Whether a run of which this is known is wanted.
    fn wants(&self, facts: &Facts) -> bool {
        let labels = self.labels.iter().all(|(key, value)| facts.labels.get(key) == Some(value));
        labels && self.kind.is_none_or(|kind| kind == facts.kind)
    }

    fn asks_for_facts(&self) -> bool {
        !self.labels.is_empty() || self.kind.is_some()
    }
}

/// One event on its way to a subscriber, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub run: RunId,
    pub event: Bytes,
    /// Resume here for what comes after this event.
    pub cursor: Cursor,
    /// It is a copy of an event of the run that this one was forked from.
    pub inherited: bool,
}

/// What stands for a damaged row of the log. What the row says of itself is a hint for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub position: Position,
    pub run: RunId,
    pub first_seq: u64,
    pub count: u32,
}

/// What one step of a reader found.
#[derive(Debug, Default)]
pub struct Step {
    pub events: Vec<Delivered>,
    /// The damaged rows, in order, that were met. A step has either events or these.
    pub damaged: Vec<Damaged>,
    /// The reader has seen all that there is.
    pub at_end: bool,
    /// The run that the filter names has finished, and its last event was delivered.
    pub finished: bool,
    /// Retention has removed what the subscriber should have got next. It has nothing else in this step, and has to be
    /// told before it gets anything more.
    pub missed: bool,
}

/// One subscriber's place in the stream.
#[derive(Debug)]
pub struct Reader {
    shard: ShardId,
    filter: Filter,
    cursor: Cursor,
    /// Where the subscriber of one run resumes: behind the last of the run's events that it got. There are rows of the
    /// run as long as the run is kept, so that this place stays known, however far the log has gone on.
    own: Cursor,
    /// What retention had removed when the subscriber's stream began.
    removals: Removals,
    max_batch: usize,
    /// The run's own history is read first, by its index; sequence number of the last event that was read.
    history_of_run: Option<u64>,
    /// What all that it wants has.
    topic: Option<Topic>,
    known: BTreeMap<RunId, Facts>,
    finished: bool,
}

impl Step {
    /// Whether there is nothing for the subscriber.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.damaged.is_empty() && !self.missed
    }
}

impl Reader {
    #[must_use]
    pub fn new(shard: ShardId, filter: Filter, start: Start, max_batch: usize) -> Self {
        let history_of_run = filter.run.map(|_| 0);
        let topic = filter.topic();
        let Start { cursor, removals } = start;
        Self {
            shard,
            filter,
            cursor,
            own: cursor,
            removals,
            max_batch,
            history_of_run,
            topic,
            known: BTreeMap::new(),
            finished: false,
        }
    }

    /// Where a new subscriber would resume.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        if self.filter.run.is_some() { self.own } else { self.cursor }
    }

    /// What retention had removed when the subscriber's stream began.
    #[must_use]
    pub fn removals(&self) -> Removals {
        self.removals
    }

    /// Reads on from memory; `None` where the log has to be read.
    #[must_use]
    pub fn read_ring(&mut self, ring: &Ring) -> Option<Step> {
        if self.history_of_run.is_some() {
            return None;
        }
        // Whatever has come since is nothing of what it wants, but for an append of which it has read a part in the log before
        // anybody here was told of it.
        let newest_wanted = self.topic.as_ref().and_then(|topic| ring.topics.newest(topic));
        let is_told = self.cursor.partial <= ring.newest();
        if is_told && newest_wanted.is_some_and(|newest| newest <= self.cursor.position) {
            self.cursor = Cursor::behind(self.cursor.position.max(ring.newest()));
            return Some(Step { at_end: true, finished: self.finished, ..Step::default() });
        }
        let entries = ring.after(self.cursor.position, PAGE_ROWS)?;
        let mut step = Step { at_end: true, ..Step::default() };
        let mut bytes = 0;
        for entry in entries {
            if self.has_passed(entry.position) {
                self.cursor.position = entry.position;
                continue;
            }
            let is_of_run = self.filter.run.is_none_or(|wanted| wanted == entry.run);
            let is_wanted = match entry.facts.as_deref() {
                _ if !is_of_run => false,
                Some(facts) => self.filter.wants(facts),
                None if !self.filter.asks_for_facts() => true,
                // The list of runs has to be asked, after what comes before it is delivered.
                None if step.events.is_empty() => return None,
                None => {
                    step.at_end = false;
                    break;
                }
            };
            if !is_wanted {
                // Nothing of the run is wanted, and that it is over is known all the same.
                self.finished |= self.filter.run == Some(entry.run) && ends_run(&entry.events);
                self.cursor = Cursor::behind(entry.position);
                continue;
            }
            if !self.take(entry.position, entry.run, &entry.events, false, &mut bytes, &mut step) {
                step.at_end = false;
                break;
            }
        }
        step.at_end &= self.cursor.position >= ring.newest();
        step.finished = self.finished;
        Some(step)
    }

    /// Reads on from the log. `newest` is the ring's newest position, taken before.
    ///
    /// # Errors
    /// The store cannot be read, or the run that the filter names is damaged.
    pub fn read_log(&mut self, store: &dyn Store, newest: Position) -> Result<Step, LoadError> {
        let rows = match (self.filter.run, self.history_of_run) {
            (Some(run), Some(after_seq)) => store.read_run(run, after_seq, PAGE_ROWS, PAGE_BYTES)?,
            _ => store.read_log(self.shard, self.cursor.position, PAGE_ROWS, PAGE_BYTES)?,
        };
        let mut step = Step::default();
        // Looked at after the rows: whatever was not among them because it was removed is known to be removed now.
        if self.has_missed(store, rows.is_empty())? {
            return Ok(Step { missed: true, ..step });
        }
        if rows.is_empty() {
            // All rows up to `newest` were there to be read, those of the run or all; the newest ones may have been removed.
            if newest > self.cursor.position {
                self.cursor = Cursor::behind(newest);
            }
            step.at_end = self.history_of_run.take().is_none();
            return Ok(step);
        }
        let mut bytes = 0;
        for row in rows {
            let LogRow { position, run, first_seq, count, ref events, inherited } = row;
            let last_seq = first_seq + u64::from(count).saturating_sub(1);
            if self.has_passed(position) {
                self.cursor.position = position;
                if self.history_of_run.is_none() {
                    continue;
                }
            }
            let Some(events) = events.clone() else {
                // What comes before it is delivered first.
                if !step.events.is_empty() {
                    break;
                }
                let of_filter = self.filter.run.is_some_and(|wanted| wanted == run);
                if let Some(run) = self.filter.run.filter(|_| of_filter || self.history_of_run.is_some()) {
                    let seq = self.history_of_run.unwrap_or(first_seq.saturating_sub(1));
                    return Err(LoadError::Damaged(Damage { run, ..Damage::of_row(&row, seq) }));
                }
                // Whoever reads the whole log is told, and goes on behind it. Which run it belonged to, and whether the
                // filter wants that, nobody can say for certain.
                if self.filter.run.is_none() {
                    step.damaged.push(Damaged { position, run, first_seq, count });
                }
                self.cursor = Cursor::behind(position);
                continue;
            };
            if !step.damaged.is_empty() {
                break;
            }
            if self.history_of_run.is_some() && position <= self.cursor.position {
                // The subscriber has these events; that the last one ends the run, it has to be told again.
                self.history_of_run = Some(last_seq);
                self.finished |= ends_run(&events);
                continue;
            }
            if inherited && self.filter.run.is_none() && !planted::is(Fault::ForkDeliversTwice) {
                // It has happened once, in the other run.
                self.cursor = Cursor::behind(position);
                continue;
            }
            match self.wants(store, run)? {
                Some(true) => {}
                Some(false) => {
                    // Nothing of the run is wanted, and that it is over is known all the same.
                    self.finished |= self.filter.run == Some(run) && ends_run(&events);
                    self.cursor = Cursor::behind(position);
                    continue;
                }
                // It was removed since its row was read.
                None if self.has_missed(store, false)? => {
                    step.missed = step.events.is_empty();
                    break;
                }
                None => {
                    self.cursor = Cursor::behind(position);
                    continue;
                }
            }
            if !self.take(position, run, &events, inherited, &mut bytes, &mut step) {
                break;
            }
            if self.history_of_run.is_some() {
                self.history_of_run = Some(last_seq);
            }
        }
        step.finished = self.finished;
        Ok(step)
    }

    /// Whether something that the subscriber should get was removed since its stream began.
    fn has_missed(&self, store: &dyn Store, no_rows: bool) -> Result<bool, StoreError> {
        let bounds = store.bounds(self.shard)?;
        match self.filter.run {
            // A run is removed whole.
            Some(run) => Ok((no_rows || self.history_of_run.is_none())
                && bounds.removals != self.removals
                && !self.finished
                && store.get_run(run)?.is_none()),
            None => Ok(is_missed(self.cursor, self.removals, bounds)),
        }
    }

    /// Whether the filter lets the run's events pass; `None` if nobody knows, because the run was removed.
    fn wants(&mut self, store: &dyn Store, run: RunId) -> Result<Option<bool>, StoreError> {
        if self.filter.run.is_some_and(|wanted| wanted != run) {
            return Ok(Some(false));
        }
        if !self.filter.asks_for_facts() {
            return Ok(Some(true));
        }
        if !self.known.contains_key(&run) {
            if self.known.len() >= KNOWN_RUNS {
                self.known.clear();
            }
            let Some(row) = store.get_run(run)? else { return Ok(None) };
            self.known.insert(run, Facts { kind: row.kind, labels: row.labels });
        }
        Ok(self.known.get(&run).map(|facts| self.filter.wants(facts)))
    }

    /// Whether the reader is in the middle of a row behind this one. The ring may still have what retention has removed from
    /// the log meanwhile.
    fn has_passed(&self, position: Position) -> bool {
        position < self.cursor.partial
    }

    /// Takes an append's events into the step, as far as there is room. Whether all of them were taken.
    fn take(
        &mut self,
        position: Position,
        run: RunId,
        events: &Bytes,
        inherited: bool,
        bytes: &mut usize,
        step: &mut Step,
    ) -> bool {
        if self.filter.run.is_some_and(|wanted| wanted != run) {
            self.cursor = Cursor::behind(position);
            return true;
        }
        let skip = if self.cursor.partial == position { self.cursor.sent } else { 0 };
        let mut index = 0;
        for event in split(events) {
            index += 1;
            if index <= skip {
                continue;
            }
            if step.events.len() >= self.max_batch || (*bytes > 0 && *bytes + event.len() > BATCH_BYTES) {
                return false;
            }
            self.cursor.partial = position;
            self.cursor.sent = index;
            self.own = self.cursor;
            if !self.matches(&event) {
                continue;
            }
            *bytes += event.len();
            step.events.push(Delivered { run, event, cursor: self.cursor, inherited });
        }
        self.cursor = Cursor::behind(position);
        if let Some(last) = step.events.last_mut()
            && (last.cursor.partial, last.cursor.sent) == (position, index)
        {
            last.cursor = self.cursor;
        }
        self.own = self.cursor;
        true
    }

    /// Whether the event passes the filter; also sees a run's end.
    fn matches(&mut self, event: &Bytes) -> bool {
        if self.filter.run.is_none() && self.filter.min_severity <= v1::Severity::Low as i32 {
            return true;
        }
        // An event that this version cannot read is nobody's to hide.
        let Ok(event) = v1::Event::decode(event.clone()) else { return true };
        let ends = matches!(event.body, Some(Body::RunFinished(_)));
        self.finished |= ends && (self.filter.run.is_some() || planted::is(Fault::EndOfOneRunEndsAll));
        severity_of(&event) >= self.filter.min_severity
    }
}

/// The events of an append; bytes that are not events end the iteration.
pub fn split(events: &Bytes) -> impl Iterator<Item = Bytes> + use<> {
    let mut rest = events.clone();
    std::iter::from_fn(move || {
        if !rest.has_remaining() {
            return None;
        }
        let length = prost::decode_length_delimiter(&mut rest).ok()?;
        (length <= rest.remaining()).then(|| rest.split_to(length))
    })
}

/// The events of a row of the log, which is read for the run's events after number `seq`.
///
/// # Errors
/// The row is damaged.
pub fn events_of(row: &LogRow, seq: u64) -> Result<impl Iterator<Item = Bytes> + use<>, Damage> {
    row.events.as_ref().map(split).ok_or_else(|| Damage::of_row(row, seq))
}

/// Whether the last of these events ends their run.
fn ends_run(events: &Bytes) -> bool {
    let last = split(events).last().and_then(|event| v1::Event::decode(event).ok());
    matches!(last.and_then(|event| event.body), Some(Body::RunFinished(_)))
}

/// Severity of an event: the higher of its error's and its task's failure's, else LOW.
#[must_use]
pub fn severity_of(event: &v1::Event) -> i32 {
    let of_error = |error: &Option<v1::Error>| error.as_ref().map_or(0, |error| error.severity);
    let of_question =
        |question: &Option<v1::Question>| question.as_ref().map_or(0, |asked| of_error(&asked.error));
    let severity = match &event.body {
        Some(Body::TaskAttemptFailed(body)) => of_error(&body.error),
        Some(Body::TaskSettled(body)) => of_error(&body.error).max(body.severity),
        Some(Body::RunCancelRequested(body)) => of_error(&body.error),
        Some(Body::ResultRefused(body)) => body.error.as_ref().map_or(0, |error| error.severity),
        Some(Body::RunFinished(body)) => of_error(&body.error),
        Some(Body::Notice(body)) => of_error(&body.notice),
        Some(Body::QuestionAsked(body)) => of_question(&body.question),
        Some(Body::QuestionRevised(body)) => of_question(&body.question),
        Some(Body::ActionFailed(body)) => body
            .error
            .as_ref()
            .and_then(|error| executor::severity(error.severity()))
            .map_or(0, |severity| severity.to_proto().into()),
        Some(Body::BrowserLost(_)) => v1::Severity::High.into(),
        Some(Body::PhaseBlocked(body)) => of_error(&body.error),
        Some(Body::ToolObserved(body)) => of_error(&body.error),
        Some(
            Body::RunAccepted(_)
            | Body::WaveStarted(_)
            | Body::TaskInputResolved(_)
            | Body::TaskLeased(_)
            | Body::TaskLeaseLost(_)
            | Body::TaskRetryDue(_)
            | Body::TaskCancelRequested(_)
            | Body::TaskExtended(_)
            | Body::TaskReactivated(_)
            | Body::TaskRolledBack(_)
            | Body::PartialOutputKept(_)
            | Body::WaveDecided(_)
            | Body::WaveFinished(_)
            | Body::QuestionAnswered(_)
            | Body::ChildNamed(_)
            | Body::ChildCancelRequested(_)
            | Body::ChildEnded(_)
            | Body::RunForked(_)
            | Body::RunPaused(_)
            | Body::RunResumed(_)
            | Body::PlanBegun(_)
            | Body::AskBegun(_)
            | Body::AskRouted(_)
            | Body::TransitionConsidered(_)
            | Body::SessionOpened(_)
            | Body::SessionTurn(_)
            | Body::SessionTransitionAccepted(_)
            | Body::SessionStateWritten(_)
            | Body::BrowserActivityStarted(_)
            | Body::BrowserOpened(_)
            | Body::ActionProposed(_)
            | Body::StageFinished(_)
            | Body::ActionFinished(_)
            | Body::BrowserCloseRequested(_)
            | Body::BrowserClosed(_)
            | Body::PhaseStarted(_)
            | Body::OutputRejected(_)
            | Body::PhaseCompleted(_)
            | Body::PhaseChanged(_)
            | Body::PipelineRolledBack(_)
            | Body::ModeBegun(_)
            | Body::PlannerAsked(_)
            | Body::PlannerAnswered(_)
            | Body::PlanEdited(_)
            | Body::PlanApproved(_)
            | Body::PlanRejected(_)
            | Body::ToolsMissed(_)
            | Body::ToolApproved(_)
            | Body::ToolCalled(_)
            | Body::EscalationAnswered(_)
            | Body::ModeCheckpointed(_)
            | Body::ModeRolledBack(_)
            | Body::ModeCompleted(_)
            | Body::SessionModeChosen(_)
            | Body::SessionMemoryForgotten(_),
        )
        | None => 0,
    };
    severity.max(v1::Severity::Low.into())
}

#[cfg(test)]
mod tests {
    use capataz_store::builders::{Shape, beginning, continuation};
    use capataz_store::{Append, AppendOutcome, Mark, MemoryStore};

    use super::*;

    fn failed(severity: v1::ExecutorSeverity) -> v1::Event {
        let error = v1::ExecutorError { severity: severity.into(), ..v1::ExecutorError::default() };
        let body = v1::ActionFailed { error: Some(error), ..v1::ActionFailed::default() };
        v1::Event { body: Some(Body::ActionFailed(Box::new(body))), ..v1::Event::default() }
    }

    #[test]
    fn a_failed_action_is_as_severe_as_its_error() {
        assert_eq!(severity_of(&failed(v1::ExecutorSeverity::Critical)), v1::Severity::Critical as i32);
        assert_eq!(severity_of(&failed(v1::ExecutorSeverity::Error)), v1::Severity::High as i32);
    }

    #[test]
    fn a_refused_completion_is_as_severe_as_its_error_and_a_late_result_is_low() {
        let high = v1::Error { severity: v1::Severity::High.into(), ..v1::Error::default() };
        for (error, expected) in [(Some(high), v1::Severity::High), (None, v1::Severity::Low)] {
            let error = error.map(Box::new);
            let body = v1::ResultRefused { error, ..v1::ResultRefused::default() };
            let event = v1::Event { body: Some(Body::ResultRefused(body)), ..v1::Event::default() };
            assert_eq!(severity_of(&event), expected as i32);
        }
    }

    #[test]
    fn a_failed_attempt_is_as_severe_as_its_error() {
        for severity in [v1::Severity::Low, v1::Severity::Medium, v1::Severity::High, v1::Severity::Critical]
        {
            let error = v1::Error { severity: severity.into(), ..v1::Error::default() };
            let failed = v1::TaskAttemptFailed { error: Some(error), ..v1::TaskAttemptFailed::default() };
            let event = v1::Event { body: Some(Body::TaskAttemptFailed(failed)), ..Default::default() };
            assert_eq!(severity_of(&event), severity as i32);
        }
    }

    #[test]
    fn an_event_without_an_error_is_low() {
        let started =
            v1::Event { body: Some(Body::WaveStarted(v1::WaveStarted::default())), ..Default::default() };
        assert_eq!(severity_of(&started), v1::Severity::Low as i32);
    }

    /// An append at this position of a run of this team, with one event of that number.
    fn of_team(position: u64, team: Option<&str>) -> Published {
        let event = v1::Event { seq: position, ..v1::Event::default() };
        let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
        Published {
            position: Position(position),
            run: RunId::MIN,
            first_seq: position,
            count: 1,
            events: event.encode_length_delimited_to_vec().into(),
            facts: team.map(|team| std::sync::Arc::new(Facts { kind: 1, labels: labels(team) })),
        }
    }

    /// A reader of the red team's events, from the beginning.
    fn red() -> Reader {
        let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
        Reader::new(ShardId(0), Filter { labels, ..Filter::default() }, Start::default(), 100)
    }

    fn positions(step: &Step) -> Vec<Position> {
        step.events.iter().map(|delivered| delivered.cursor.position).collect()
    }

    #[test]
    fn who_wants_a_label_gets_from_memory_what_has_it() {
        let mut ring = Ring::new(Position(0), 1_000);
        for (position, team) in [(1, "red"), (2, "blue"), (3, "red"), (4, "blue")] {
            ring.push(of_team(position, Some(team)));
        }
        let mut reader = red();
        let step = reader.read_ring(&ring).unwrap();
        assert_eq!((positions(&step), step.at_end), (vec![Position(1), Position(3)], true));
        assert_eq!(reader.cursor(), Cursor::behind(Position(4)));
        // Of the next one nobody knows the team: the list of runs does.
        ring.push(of_team(5, Some("red")));
        ring.push(of_team(6, None));
        let step = reader.read_ring(&ring).unwrap();
        assert_eq!((positions(&step), step.at_end), (vec![Position(5)], false));
        assert!(reader.read_ring(&ring).is_none());
    }

    #[test]
    fn who_waits_for_a_label_passes_over_everything_else_at_once_even_what_is_in_memory_no_more() {
        let mut ring = Ring::new(Position(0), 1);
        let mut reader = red();
        let topic = reader.topic.clone().unwrap();
        ring.awaits(topic.clone());
        for position in 1..=1_000 {
            assert_eq!(ring.push(of_team(position, Some("blue"))), []);
        }
        let step = reader.read_ring(&ring).unwrap();
        assert_eq!((positions(&step), step.at_end), (vec![], true));
        assert_eq!(reader.cursor(), Cursor::behind(Position(1_000)));
        assert_eq!(ring.push(of_team(1_001, Some("red"))), std::slice::from_ref(&topic));
        assert_eq!(positions(&reader.read_ring(&ring).unwrap()), [Position(1_001)]);
        // Another daemon may have written what nobody here was told of.
        ring.begin_again(Position(1_005));
        assert!(reader.read_ring(&ring).is_none());
        // Whoever begins later does not know what there was before.
        assert!(ring.no_longer_awaits(&topic));
        ring.awaits(topic);
        assert!(red().read_ring(&ring).is_none());
    }

    #[test]
    fn who_waits_for_a_label_keeps_its_place_in_an_append_that_it_has_read_before_it_was_published() {
        let mut ring = Ring::new(Position(1), 1_000);
        let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
        // The log had row 2 already, and the last batch ended in the middle of it.
        let cursor = Cursor { position: Position(1), partial: Position(2), sent: 1 };
        let start = Start { cursor, ..Start::default() };
        let filter = Filter { labels, ..Filter::default() };
        let mut reader = Reader::new(ShardId(0), filter, start, 100);
        ring.awaits(reader.topic.clone().unwrap());
        let step = reader.read_ring(&ring).unwrap();
        assert_eq!((positions(&step), step.at_end, reader.cursor()), (vec![], true, cursor));
        let event = |seq| v1::Event { seq, ..v1::Event::default() }.encode_length_delimited_to_vec();
        let events = [event(1), event(2)].concat().into();
        ring.push(Published { events, ..of_team(2, Some("red")) });
        let step = reader.read_ring(&ring).unwrap();
        let seqs =
            step.events.iter().map(|delivered| v1::Event::decode(delivered.event.clone()).unwrap().seq);
        assert_eq!(seqs.collect::<Vec<_>>(), [2]);
        assert_eq!(reader.cursor(), Cursor::behind(Position(2)));
    }

    #[test]
    fn what_was_removed_is_not_delivered_from_the_ring_to_who_has_passed_it_in_the_log() {
        let mut ring = Ring::new(Position(0), 1_000);
        let event = |seq| v1::Event { seq, ..v1::Event::default() }.encode_length_delimited_to_vec();
        for (position, seqs) in [(1, vec![1]), (2, vec![2]), (3, vec![3, 4])] {
            ring.push(Published {
                position: Position(position),
                run: RunId::MIN,
                first_seq: seqs[0],
                count: 1,
                events: seqs.into_iter().flat_map(event).collect::<Vec<u8>>().into(),
                facts: None,
            });
        }
        // The log had no row 2 any more, and the last batch ended in the middle of row 3.
        let cursor = Cursor { position: Position(1), partial: Position(3), sent: 1 };
        let start = Start { cursor, ..Start::default() };
        let mut reader = Reader::new(ShardId(0), Filter::default(), start, 100);
        let step = reader.read_ring(&ring);
        let seqs = step
            .iter()
            .flat_map(|step| &step.events)
            .map(|delivered| v1::Event::decode(delivered.event.clone()).map(|event| event.seq));
        assert_eq!(seqs.collect::<Vec<_>>(), [Ok(4)]);
        assert_eq!(reader.cursor(), Cursor::behind(Position(3)));
    }

    /// An event of that number that says this.
    fn saying(seq: u64, body: Body) -> Bytes {
        let event = v1::Event { seq, body: Some(body), ..v1::Event::default() };
        event.encode_length_delimited_to_vec().into()
    }

    fn goes_on(seq: u64) -> Bytes {
        saying(seq, Body::RunPaused(v1::RunPaused::default()))
    }

    fn ends(seq: u64) -> Bytes {
        saying(seq, Body::RunFinished(v1::RunFinished::default()))
    }

    #[test]
    fn the_ring_forgets_the_oldest_appends_until_the_others_have_no_more_bytes_than_it_may_keep() {
        let mut ring = Ring::new(Position(0), 10);
        let mut kept = Vec::new();
        for (position, size) in [(1, 6), (2, 6), (3, 4), (4, 4), (5, 3)] {
            ring.push(Published { events: vec![0; size].into(), ..of_team(position, None) });
            kept.push((ring.sizes().collect::<Vec<_>>(), ring.after));
        }
        let expected = [
            (vec![6], Position(0)),
            (vec![6], Position(1)),
            (vec![6, 4], Position(1)),
            (vec![4, 4], Position(2)),
            (vec![4, 3], Position(3)),
        ];
        assert_eq!(kept, expected);
    }

    #[test]
    fn who_reads_one_run_behind_its_history_passes_over_damage_of_others_and_is_told_of_its_own() {
        let (run, other) = (RunId(uuid::Uuid::from_u128(1)), RunId(uuid::Uuid::from_u128(2)));
        let store = MemoryStore::new();
        let mut writer = store.claim(ShardId(0), Mark(1)).unwrap();
        let mut commit = |append: Append| {
            let outcomes = writer.commit(&[append]).unwrap();
            assert!(matches!(outcomes[..], [AppendOutcome::Committed(_)]), "{outcomes:?}");
        };
        commit(beginning(run).events(goes_on(1)));
        let filter = Filter { run: Some(run), ..Filter::default() };
        let mut reader = Reader::new(ShardId(0), filter, Start::default(), 100);
        assert_eq!(positions(&reader.read_log(&store, Position(1)).unwrap()), [Position(1)]);
        assert!(reader.read_log(&store, Position(1)).unwrap().is_empty(), "its history is at its end");

        commit(beginning(other).events(goes_on(1)));
        assert!(store.damage(ShardId(0), Position(2)));
        let step = reader.read_log(&store, Position(2)).unwrap();
        assert!(step.is_empty(), "{step:?}");
        assert_eq!(reader.cursor, Cursor::behind(Position(2)));

        commit(continuation(run, 2).events(goes_on(2)));
        assert!(store.damage(ShardId(0), Position(3)));
        match reader.read_log(&store, Position(3)) {
            Err(LoadError::Damaged(damage)) => {
                assert_eq!((damage.run, damage.seq, damage.position), (run, 1, Some(Position(3))));
            }
            read => panic!("{read:?}"),
        }
    }

    #[test]
    fn who_wants_nothing_of_one_run_hears_when_it_is_over_and_who_reads_many_of_the_end_of_none() {
        let run = RunId(uuid::Uuid::from_u128(1));
        let store = MemoryStore::new();
        let mut writer = store.claim(ShardId(0), Mark(1)).unwrap();
        writer.commit(&[beginning(run).label("team", "blue").events(goes_on(1))]).unwrap();
        let of_many = red();
        let filter = Filter { run: Some(run), ..of_many.filter.clone() };
        let of_one = Reader::new(ShardId(0), filter, Start::default(), 100);
        let mut readers = [of_one, of_many];
        let mut read = |newest| {
            readers.each_mut().map(|reader| {
                let step = reader.read_log(&store, Position(newest)).unwrap();
                (step.events.len(), step.finished)
            })
        };
        assert_eq!(read(1), [(0, false), (0, false)]);
        writer.commit(&[continuation(run, 2).events(ends(2))]).unwrap();
        assert_eq!(read(2), [(0, true), (0, false)]);
    }
}
