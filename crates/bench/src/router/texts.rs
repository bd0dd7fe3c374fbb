//! What is routed: texts made by a seeded generator from words written for this, or the rows of a file.
//!
//! The generator is as hard as real texts in what costs time and memory: actions are shared by five intents and objects
//! by five others, texts hold names out of thousands, some are misspelt, and no text is there twice. How well it is
//! routed says nothing about real texts; for that there is `capataz router eval`.

use std::collections::BTreeSet;
use std::path::Path;

use capataz_router::eval::{self, OUT_OF_SCOPE, Row};

use crate::Outcome;

pub(super) const INTENTS: usize = 150;
pub(super) const UTTERANCES: usize = 100;
/// Texts of each intent that nothing is trained on.
const HELD_OUT: usize = 30;
/// Texts of no intent.
const OUTSIDE: usize = 500;
/// Names of places and people.
const NAMES: usize = 3_000;

/// Rows to train on, and texts to decide.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) train: Vec<Row>,
    pub(super) asked: Vec<Row>,
    pub(super) origin: String,
}

/// Actions that go with each of the objects: a name, and ways to say it.
type Named = (&'static str, &'static [&'static str]);

/// Five objects and five actions; each pair of them is an intent.
struct Domain {
    objects: [Named; 5],
    actions: [Named; 5],
}

const DOMAINS: [Domain; 6] = [
    Domain {
        objects: [
            ("table", &["a table", "a table for dinner", "a place at the restaurant"]),
            ("room", &["a hotel room", "a double room", "a room with a view"]),
            ("train", &["a train ticket", "a seat on the train", "the railway ticket"]),
            ("flight", &["a flight", "a plane ticket", "a window seat on the plane"]),
            ("car", &["a rental car", "a car for the week", "a small van"]),
        ],
        actions: [
            ("book", &["book {}", "reserve {}", "get me {}", "arrange {}"]),
            ("cancel", &["cancel {}", "call off {}", "undo the booking of {}", "get rid of {}"]),
            ("change", &["change {}", "move {} to another day", "swap {}", "make {} later"]),
            (
                "price",
                &[
                    "tell me what {} costs",
                    "find the price of {}",
                    "look up how much {} is",
                    "compare offers for {}",
                ],
            ),
            (
                "confirm",
                &["confirm {}", "check that i have {}", "see whether {} is really booked", "verify {}"],
            ),
        ],
    },
    Domain {
        objects: [
            ("account", &["my account", "the checking account", "an account at the bank"]),
            ("card", &["my credit card", "the card", "a second card"]),
            ("loan", &["the loan", "my mortgage", "a loan for the house"]),
            ("transfer", &["a transfer", "the wire transfer", "money to somebody"]),
            ("savings", &["my savings plan", "the savings", "a deposit for the children"]),
        ],
        actions: [
            ("open", &["open {}", "apply for {}", "start {}", "set up {}"]),
            ("close", &["close {}", "stop {}", "end {} for good", "terminate {}"]),
            (
                "state",
                &["show the state of {}", "say how {} stands", "read me the figures of {}", "look at {}"],
            ),
            (
                "limit",
                &[
                    "raise the limit of {}",
                    "change what is allowed for {}",
                    "put a ceiling on {}",
                    "lift the cap of {}",
                ],
            ),
            (
                "problem",
                &["report a problem with {}", "complain about {}", "dispute {}", "say that {} went wrong"],
            ),
        ],
    },
    Domain {
        objects: [
            ("lights", &["the lights", "the lamp in the hall", "all bulbs"]),
            ("heating", &["the heating", "the radiator", "the thermostat upstairs"]),
            ("alarm", &["the burglar alarm", "the alarm", "the sensors at the door"]),
            ("washer", &["the washing machine", "the laundry", "the dryer"]),
            ("blinds", &["the blinds", "the curtains", "the shutters in the bedroom"]),
        ],
        actions: [
            ("on", &["switch on {}", "turn {} on", "activate {}", "power up {}"]),
            ("off", &["switch off {}", "turn {} off", "shut {} down", "deactivate {}"]),
            ("timer", &["put {} on a timer", "schedule {}", "let {} run every morning", "programme {}"]),
            (
                "health",
                &[
                    "check whether {} works",
                    "tell me if {} is running",
                    "inspect {}",
                    "ask {} how it is doing",
                ],
            ),
            ("repair", &["repair {}", "send somebody to fix {}", "find out why {} is broken", "replace {}"]),
        ],
    },
    Domain {
        objects: [
            ("meeting", &["the meeting", "a call with the team", "the weekly round"]),
            ("leave", &["my holidays", "a week off", "the days of leave"]),
            ("invoice", &["the invoice", "a bill", "the last invoice of the client"]),
            ("contract", &["the contract", "the agreement", "a draft contract"]),
            ("expense", &["my expenses", "the travel expenses", "the receipt from lunch"]),
        ],
        actions: [
            ("create", &["create {}", "write {}", "enter {}", "draw up {}"]),
            ("find", &["find {}", "search for {}", "dig out {}", "where is {}"]),
            ("send", &["send {}", "forward {}", "mail {} to the others", "hand over {}"]),
            ("approve", &["approve {}", "sign {}", "say yes to {}", "release {}"]),
            ("delete", &["delete {}", "throw {} away", "remove {}", "strike {} from the list"]),
        ],
    },
    Domain {
        objects: [
            ("song", &["a song", "that tune", "some jazz"]),
            ("film", &["a film", "the movie", "something with subtitles"]),
            ("podcast", &["the podcast", "an episode", "the new episode about history"]),
            ("book", &["an audio book", "the novel", "a crime story"]),
            ("news", &["the news", "the headlines", "a report from the evening"]),
        ],
        actions: [
            ("play", &["play {}", "put on {}", "let me hear {}", "start with {}"]),
            ("pause", &["pause {}", "hold {}", "interrupt {}", "freeze {} for a moment"]),
            ("suggest", &["recommend {}", "suggest {}", "pick {} that i may like", "surprise me with {}"]),
            ("keep", &["save {}", "keep {} for later", "bookmark {}", "add {} to my collection"]),
            ("share", &["share {}", "show {} to my friends", "post {}", "pass {} on"]),
        ],
    },
    Domain {
        objects: [
            (
                "doctor",
                &["the doctor's appointment", "my visit at the dentist", "an appointment at the clinic"],
            ),
            ("medicine", &["my prescription", "the pills", "the medicine"]),
            ("vaccine", &["the vaccination", "a flu shot", "the booster"]),
            ("diet", &["my diet", "the meal plan", "what i eat"]),
            ("workout", &["the workout", "my training", "the running plan"]),
        ],
        actions: [
            (
                "explain",
                &[
                    "explain {}",
                    "tell me more about {}",
                    "what should i know about {}",
                    "give me facts on {}",
                ],
            ),
            (
                "remind",
                &[
                    "remind me of {}",
                    "do not let me forget {}",
                    "ring when it is time for {}",
                    "nudge me about {}",
                ],
            ),
            ("record", &["note {}", "record {}", "log {}", "put {} into the diary"]),
            (
                "compare",
                &[
                    "compare {} with last month",
                    "how has {} developed",
                    "draw a chart of {}",
                    "show the trend of {}",
                ],
            ),
            (
                "postpone",
                &["postpone {}", "skip {} this time", "take a break from {}", "leave {} out for a while"],
            ),
        ],
    },
];

const OPENERS: &[&str] = &[
    "please",
    "can you",
    "could you",
    "i want to",
    "i need to",
    "i would like to",
    "help me",
    "is it possible to",
    "hey,",
    "would you mind if i asked you to",
    "let's",
    "i am trying to",
    "time to",
    "we have to",
    "go and",
];

const QUALIFIERS: &[&str] = &[
    "in {}",
    "for {}",
    "with {} and {}",
    "near {}",
    "on monday",
    "before friday",
    "at half past {#}",
    "for {#} people",
    "by the end of march",
    "because {} asked",
    "between {} and {}",
    "the one from {}",
    "number {#}",
    "as {} said",
    "this weekend",
    "after the summer",
    "without telling {}",
    "under the name {}",
];

const CLOSERS: &[&str] = &[
    "please",
    "thanks",
    "as soon as possible",
    "if you can",
    "right now",
    "when you have a moment",
    "today",
    "for me",
    "once more",
    "and tell me when it is done",
];

const OUTSIDE_TEXTS: &[&str] = &[
    "who painted the portrait of {}",
    "what is the capital of {}",
    "how tall is {} compared with {}",
    "does it ever snow in {}",
    "translate {} into {}",
    "what rhymes with {}",
    "is {} older than {}",
    "tell me a riddle about {}",
    "why do cats purr when {} comes in",
    "how many moons would {} have with {#} planets",
    "what would {} say about {}",
    "what is {#} times {#}",
    "do you dream of {}",
];

const ONSETS: &[&str] = &[
    "b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pr", "r", "s",
    "sh", "st", "t", "tr", "v", "w", "y", "z",
];
const VOWELS: &[&str] = &["a", "e", "i", "o", "u", "ai", "ea", "ou", "é", "ü"];
const CODAS: &[&str] = &["", "", "", "n", "r", "l", "s", "m", "th", "nd", "ck"];

/// Writes texts; the same ones for the same seed.
struct Writer {
    random: fastrand::Rng,
    names: Vec<String>,
    written: BTreeSet<String>,
}

/// 150 intents with 100 utterances each, and texts to decide that are not among them.
pub(super) fn generated(seed: u64) -> Outcome<Texts> {
    let mut writer = Writer::new(seed);
    let (mut train, mut asked) = (Vec::new(), Vec::new());
    for domain in &DOMAINS {
        for (object, objects) in &domain.objects {
            for (action, actions) in &domain.actions {
                let label = format!("{action}_{object}");
                for number in 0..UTTERANCES + HELD_OUT {
                    let (rows, split) =
                        if number < UTTERANCES { (&mut train, "train") } else { (&mut asked, "test") };
                    let text = writer.another(|writer| writer.utterance(actions, objects))?;
                    rows.push(Row { text, label: label.clone(), split: split.to_owned() });
                }
            }
        }
    }
    for _ in 0..OUTSIDE {
        let text = writer.another(|writer| {
            let template = writer.pick(OUTSIDE_TEXTS);
            writer.filled(template)
        })?;
        asked.push(Row { text, label: OUT_OF_SCOPE.to_owned(), split: "test".to_owned() });
    }
    // Neighbours of one intent would find its weights in the cache.
    writer.random.shuffle(&mut asked);
    Ok(Texts { train, asked, origin: format!("generated, seed {seed}") })
}

/// The rows of a file: those of the split `train`, and `test`, or else `valid`, or else the first ones to decide.
pub(super) fn of_file(path: &Path) -> Outcome<Texts> {
    let name = path.display();
    let content = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let rows = eval::read_tsv(&content).map_err(|errors| {
        let lines: Vec<String> = errors.iter().take(20).map(|error| format!("{name}: {error}")).collect();
        lines.join("\n")
    })?;
    let of = |split: &str| -> Vec<Row> { rows.iter().filter(|row| row.split == split).cloned().collect() };
    let train = of("train");
    if train.iter().all(|row| row.label == OUT_OF_SCOPE) {
        return Err(format!("{name}: no rows of the split train").into());
    }
    let mut asked = of("test");
    if asked.is_empty() {
        asked = of("valid");
    }
    if asked.is_empty() {
        return Err(format!("{name}: no rows of the split test or valid to decide").into());
    }
    fastrand::Rng::with_seed(1).shuffle(&mut asked);
    Ok(Texts { train, asked, origin: name.to_string() })
}

impl Texts {
    /// Different words, as white space parts them.
    pub(super) fn different_words(&self) -> usize {
        self.train.iter().flat_map(|row| row.text.split_whitespace()).collect::<BTreeSet<_>>().len()
    }

    /// Characters of a text that is decided, on average.
    pub(super) fn mean_length(&self) -> f64 {
        let characters: usize = self.asked.iter().map(|row| row.text.chars().count()).sum();
        characters as f64 / self.asked.len().max(1) as f64
    }
}

impl Writer {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut names = BTreeSet::new();
        while names.len() < NAMES {
            let mut name = String::new();
            for _ in 0..random.usize(2..=4) {
                for part in [ONSETS, VOWELS, CODAS] {
                    name.push_str(random.choice(part).copied().unwrap_or_default());
                }
            }
            names.insert(name);
        }
        let mut names: Vec<String> = names.into_iter().collect();
        random.shuffle(&mut names);
        Self { random, names, written: BTreeSet::new() }
    }

    /// A text that was not written before.
    fn another(&mut self, mut write: impl FnMut(&mut Self) -> String) -> Outcome<String> {
        for _ in 0..10_000 {
            let text = write(self);
            if self.written.insert(text.clone()) {
                return Ok(text);
            }
        }
        Err("the generator has nothing more to say".into())
    }

    fn pick(&mut self, texts: &'static [&'static str]) -> &'static str {
        self.random.choice(texts).copied().unwrap_or_default()
    }

    fn utterance(&mut self, actions: &'static [&'static str], objects: &'static [&'static str]) -> String {
        let mut parts = Vec::new();
        if self.random.f64() < 0.6 {
            parts.push(self.pick(OPENERS).to_owned());
        }
        let object = self.pick(objects);
        parts.push(self.pick(actions).replace("{}", object));
        for likely in [0.5, 0.25] {
            if self.random.f64() < likely {
                let qualifier = self.pick(QUALIFIERS);
                parts.push(self.filled(qualifier));
            }
        }
        if self.random.f64() < 0.25 {
            parts.push(self.pick(CLOSERS).to_owned());
        }
        let mut text = parts.join(" ");
        if self.random.f64() < 0.05 {
            text = self.misspelt(&text);
        }
        if self.random.f64() < 0.3 {
            text = capitalised(&text);
            text.push(if self.random.bool() { '.' } else { '?' });
        }
        text
    }

    /// With names and numbers in the places of `{}` and `{#}`; few names are frequent, most are rare.
    fn filled(&mut self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            if let Some(after) = after.strip_prefix("#}") {
                text.push_str(&self.random.u32(1..1_000).to_string());
                rest = after;
            } else {
                let place = self.random.f64().powi(3) * self.names.len() as f64;
                text.push_str(self.names.get(place as usize).map_or("", String::as_str));
                rest = after.strip_prefix('}').unwrap_or(after);
            }
        }
        text + rest
    }

    /// Two neighbours in the wrong order, or one letter too few.
    fn misspelt(&mut self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let place = self.random.usize(0..letters.len().saturating_sub(1).max(1));
        if self.random.bool() && place + 1 < letters.len() {
            letters.swap(place, place + 1);
        } else {
            letters.remove(place);
        }
        letters.into_iter().collect()
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_texts_and_no_text_twice() {
        let (one, again, other) = (generated(7).unwrap(), generated(7).unwrap(), generated(8).unwrap());
        assert_eq!((&one.train, &one.asked), (&again.train, &again.asked));
        assert_ne!(one.train, other.train);

        let labels: BTreeSet<&str> = one.train.iter().map(|row| row.label.as_str()).collect();
        assert_eq!((labels.len(), one.train.len()), (INTENTS, INTENTS * UTTERANCES));
        let texts: BTreeSet<&str> = one.train.iter().chain(&one.asked).map(|row| row.text.as_str()).collect();
        assert_eq!(texts.len(), one.train.len() + INTENTS * HELD_OUT + OUTSIDE);
    }

    #[test]
    fn no_text_has_a_place_left_open() {
        let texts = generated(1).unwrap();
        let open = |row: &&Row| row.text.contains(['{', '}', '#', '\t']) || row.text.trim().is_empty();
        assert_eq!(texts.train.iter().chain(&texts.asked).find(open), None);
    }

    #[test]
    fn a_file_without_rows_to_train_on_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.tsv");
        let said = |content: &str| {
            std::fs::write(&path, content).unwrap();
            of_file(&path)
                .map(|texts| (texts.train.len(), texts.asked.len()))
                .map_err(|error| error.to_string())
        };
        assert_eq!(said("text\tlabel\tsplit\na\tone\ttrain\nb\tone\ttest\n"), Ok((1, 1)));
        assert!(said("text\tlabel\tsplit\nb\tone\ttest\n").unwrap_err().contains("train"));
        assert!(said("text\tlabel\tsplit\na\tone\ttrain\n").unwrap_err().contains("test or valid"));
        assert!(
            said("text\tlabel\tsplit\nalone\n").unwrap_err().contains("2: expected text, label and split")
        );
    }
}
