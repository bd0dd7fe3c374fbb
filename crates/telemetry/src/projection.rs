//! Spans of all runs, as far as they have ended.

use std::collections::BTreeMap;

use capataz_contracts::EventHead;
use capataz_contracts::v1::{self, event::Body};

use crate::run::Run;
use crate::span::Span;

/// Runs that are kept in mind.
const RUNS: usize = 4_096;
/// Bytes that they take, about.
const BYTES: usize = 32 * 1024 * 1024;

/// The beginning of the run is not known: its events before this one have to be [recalled](Projection::recall).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the events before this one are not known")]
pub struct Unknown;

/// Makes spans of events. It keeps what unfinished runs have begun in mind; of those that it has no room for it is told again
/// ([`Unknown`]), so that its memory is bounded whatever runs there are.
#[derive(Debug, Default)]
pub struct Projection {
    /// Behind pointers: a map moves its values about.
    runs: BTreeMap<[u8; 16], Box<Kept>>,
    /// The same in the order in which they were met.
    order: BTreeMap<u64, [u8; 16]>,
    met: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    run: Run,
    met: u64,
    bytes: usize,
}

/// The events of a run before the one that is to be looked at.
#[derive(Debug)]
pub struct Past {
    id: [u8; 16],
    run: Option<Run>,
    /// The run's first span, to which all others belong.
    first: Option<Span>,
}

impl Past {
    /// Of the run whose id has these bytes.
    #[must_use]
    pub fn new(id: [u8; 16]) -> Self {
        Self { id, run: None, first: None }
    }

    /// Passes over the next event where nothing would be made of it, as [`Projection::pass`] does.
    pub fn pass(&mut self, head: EventHead) -> bool {
        let passes = makes_nothing(head.body);
        if passes && let Some(run) = &mut self.run {
            run.pass(head.seq);
        }
        passes
    }

    /// Looks at the next event, the first one first.
    pub fn apply(&mut self, event: &v1::Event) {
        match &mut self.run {
            None => (self.run, self.first) = Run::begin(self.id, event).unzip(),
            Some(run) => {
                let mut spans = Vec::new();
                run.apply(event, &mut spans);
                if matches!(event.body, Some(Body::RunForked(_))) {
                    self.first = spans.pop();
                }
            }
        }
    }
}

impl Projection {
    /// Looks at the next event of a run, and adds the spans that have ended with it. An event that was looked at already adds
    /// none. A run whose trace nobody records has no spans.
    ///
    /// # Errors
    /// [`Unknown`], and nothing was done.
    pub fn apply(&mut self, id: [u8; 16], event: &v1::Event, spans: &mut Vec<Span>) -> Result<(), Unknown> {
        if event.seq == 1 {
            let Some((run, first)) = Run::begin(id, event) else { return Ok(()) };
            spans.extend(run.is_recorded().then_some(first));
            self.keep(id, run);
            return Ok(());
        }
        let kept = self.runs.get_mut(&id).filter(|kept| kept.run.seq() + 1 >= event.seq).ok_or(Unknown)?;
        if event.seq <= kept.run.seq() {
            return Ok(());
        }
        let before = spans.len();
        let is_over = kept.run.apply(event, spans);
        if !kept.run.is_recorded() {
            spans.truncate(before);
        }
        let bytes = kept.run.size();
        self.bytes = (self.bytes + bytes).saturating_sub(kept.bytes);
        kept.bytes = bytes;
        if is_over {
            self.forget(id);
        }
        self.make_room();
        Ok(())
    }

    /// Passes over the next event of a run where nothing would be made of it, whatever it says; whether it has.
    pub fn pass(&mut self, id: [u8; 16], head: EventHead) -> bool {
        let passes = makes_nothing(head.body);
        if passes && let Some(kept) = self.runs.get_mut(&id) {
            kept.run.pass(head.seq);
        }
        passes
    }

    /// Knows a run again. Its first span is among those to be sent: where a reader begins in the middle of a run, nobody has got it
    /// before.
    pub fn recall(&mut self, past: Past, spans: &mut Vec<Span>) {
        if let Some(run) = past.run {
            spans.extend(past.first.filter(|_| run.is_recorded()));
            self.keep(past.id, run);
        }
    }

    fn keep(&mut self, id: [u8; 16], run: Run) {
        self.forget(id);
        self.met += 1;
        let (met, bytes) = (self.met, run.size());
        self.bytes += bytes;
        self.order.insert(met, id);
        self.runs.insert(id, Box::new(Kept { run, met, bytes }));
        self.make_room();
    }

    /// Those that were met first are forgotten first. Where one of them goes on, it is met again.
    fn make_room(&mut self) {
        while self.runs.len() > RUNS || (self.bytes > BYTES && self.runs.len() > 1) {
            let Some(oldest) = self.order.first_key_value().map(|(_, id)| *id) else { break };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: [u8; 16]) {
        if let Some(kept) = self.runs.remove(&id) {
            self.order.remove(&kept.met);
            self.bytes -= kept.bytes;
        }
    }
}

/// Whether no event with this body, by the number of its field in `Event`, is part of any span: of runs, what becomes of inputs
/// and leases, decisions of waves, questions that are revised, children that are told to end, and outputs in part; how an ask and
/// a plan begin; all of a session; steps of a browser; changed phases, and steps of modes.
fn makes_nothing(body: u32) -> bool {
    matches!(
        body,
        12 | 30 | 31 | 33 | 35 | 40 | 42 | 43 | 50..=55 | 61..=67 | 74 | 80 | 82..=85 | 87..=89 | 91..=93
    )
}
