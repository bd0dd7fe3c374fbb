//! What readers wait for: who wants little of what happens is found by that, and neither woken nor read for by anything else.

use std::collections::BTreeMap;

use capataz_engine::planted::{self, Fault};
use capataz_store::{Position, RunId};

use crate::shard::Published;

/// What of a run a filter may ask for, as it was accepted. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A number of `RunKind`.
    pub kind: i32,
    pub labels: BTreeMap<String, String>,
}

/// Something that all appends have which a reader wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Run(RunId),
    /// Of runs with this label: its key and its value.
    Label(String, String),
    /// Of runs of this kind.
    Kind(i32),
}

impl Topic {
    /// Whether the append has it. Of one of which nobody knows what its run is, any of them might have it.
    fn is_of(&self, published: &Published) -> bool {
        let facts = published.facts.as_deref();
        match self {
            Self::Run(run) => published.run == *run,
            Self::Label(key, value) => facts.is_none_or(|facts| facts.labels.get(key) == Some(value)),
            Self::Kind(kind) => facts.is_none_or(|facts| facts.kind == *kind),
        }
    }
}

/// The topics that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Topics(BTreeMap<Topic, Awaited>);

#[derive(Debug)]
struct Awaited {
    /// Behind this position nothing was published that has it.
    newest: Position,
    /// How many wait for it.
    readers: usize,
}

impl Topics {
    /// One more waits for it; everything up to `newest` may have it.
    pub(crate) fn begin(&mut self, topic: Topic, newest: Position) {
        self.0.entry(topic).or_insert(Awaited { newest, readers: 0 }).readers += 1;
    }

    /// One less waits for it. Whether that was the last one.
    pub(crate) fn end(&mut self, topic: &Topic) -> bool {
        let Some(awaited) = self.0.get_mut(topic) else { return true };
        awaited.readers = awaited.readers.saturating_sub(1);
        let is_last = awaited.readers == 0;
        if is_last {
            self.0.remove(topic);
        }
        is_last
    }

    /// The position behind which nothing has it; `None` where nobody has waited for it.
    pub(crate) fn newest(&self, topic: &Topic) -> Option<Position> {
        self.0.get(topic).map(|awaited| awaited.newest)
    }

    /// Takes note of an append. Those that it has, among those that are waited for.
    pub(crate) fn note(&mut self, published: &Published) -> Vec<Topic> {
        let mut noted = Vec::new();
        if self.0.is_empty() || planted::is(Fault::TopicOverheard) {
            return noted;
        }
        let mut note = |topic: Topic| {
            if let Some(awaited) = self.0.get_mut(&topic) {
                awaited.newest = awaited.newest.max(published.position);
                noted.push(topic);
            }
        };
        note(Topic::Run(published.run));
        match published.facts.as_deref() {
            Some(Facts { kind, labels }) => {
                note(Topic::Kind(*kind));
                for (key, value) in labels {
                    note(Topic::Label(key.clone(), value.clone()));
                }
            }
            None => {
                for (topic, awaited) in &mut self.0 {
                    if topic.is_of(published) && awaited.newest < published.position {
                        awaited.newest = published.position;
                        noted.push(topic.clone());
                    }
                }
            }
        }
        noted
    }

    /// Everything up to `newest` may have any of them.
    pub(crate) fn doubt(&mut self, newest: Position) {
        for awaited in self.0.values_mut() {
            awaited.newest = awaited.newest.max(newest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    fn published(position: u64, of: u128, facts: Option<Facts>) -> Published {
        Published {
            position: Position(position),
            run: run(of),
            first_seq: 1,
            count: 0,
            events: bytes::Bytes::new(),
            facts: facts.map(Arc::new),
        }
    }

    fn label(value: &str) -> Topic {
        Topic::Label("team".to_owned(), value.to_owned())
    }

    fn facts(kind: i32, team: &str) -> Option<Facts> {
        Some(Facts { kind, labels: BTreeMap::from([("team".to_owned(), team.to_owned())]) })
    }

    #[test]
    fn an_append_is_noted_under_what_it_has_and_is_waited_for() {
        let mut topics = Topics::default();
        assert_eq!(topics.note(&published(1, 1, facts(1, "red"))), [], "nobody waits");
        for topic in [Topic::Run(run(7)), label("red"), label("blue"), Topic::Kind(2)] {
            topics.begin(topic, Position(1));
        }
        assert_eq!(topics.note(&published(2, 7, facts(1, "red"))), [Topic::Run(run(7)), label("red")]);
        assert_eq!(topics.note(&published(3, 8, facts(2, "green"))), [Topic::Kind(2)]);
        let newest = [Topic::Run(run(7)), label("red"), label("blue"), Topic::Kind(2), Topic::Kind(1)]
            .map(|topic| topics.newest(&topic));
        assert_eq!(
            newest,
            [Some(Position(2)), Some(Position(2)), Some(Position(1)), Some(Position(3)), None]
        );
    }

    #[test]
    fn an_append_of_which_nobody_knows_what_its_run_is_may_have_every_label_and_kind_but_no_other_run() {
        let mut topics = Topics::default();
        for topic in [Topic::Run(run(7)), Topic::Run(run(8)), label("red"), Topic::Kind(2)] {
            topics.begin(topic, Position(1));
        }
        assert_eq!(topics.note(&published(2, 7, None)), [Topic::Run(run(7)), label("red"), Topic::Kind(2)]);
        assert_eq!(topics.newest(&Topic::Run(run(8))), Some(Position(1)));
    }

    #[test]
    fn a_topic_is_known_as_long_as_somebody_waits_for_it() {
        let mut topics = Topics::default();
        topics.begin(label("red"), Position(1));
        topics.note(&published(2, 1, facts(1, "red")));
        topics.begin(label("red"), Position(9));
        assert_eq!(topics.newest(&label("red")), Some(Position(2)), "it was listened to all the while");
        assert!(!topics.end(&label("red")));
        topics.doubt(Position(5));
        assert_eq!(topics.newest(&label("red")), Some(Position(5)));
        assert!(topics.end(&label("red")));
        assert_eq!(topics.newest(&label("red")), None);
        assert!(topics.end(&label("red")), "nobody waits for it");
    }
}
