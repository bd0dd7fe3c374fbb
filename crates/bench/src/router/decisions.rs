//! Training and decisions in this process, on one thread, without a daemon.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use capataz_router::eval::{self, OUT_OF_SCOPE};
use capataz_router::{Catalogue, Keyword, Message, Pattern, Query, Role, Router, Spec};
use hdrhistogram::Histogram;

use super::floor::{Hasher, WeightRows};
use super::texts::{self, Texts};
use super::{Options, RouterOptions};
use crate::report::{Cell, Section, Table, Unit};
use crate::{Outcome, process};

/// Microseconds of a decision.
const AIM_MEDIAN: f64 = 5.0;
const AIM_TAIL: f64 = 20.0;
/// Milliseconds.
const AIM_TRAINING: f64 = 600.0;
/// 16 MB, in mebibytes.
const AIM_MODEL: f64 = 16e6 / MEBIBYTE;
const MEBIBYTE: f64 = 1_048_576.0;
/// Times that training is measured; the median counts.
const TRAININGS: usize = 5;
/// Nothing is done between two looks at the clock.
const CLOCK: &str = "the clock";
const FLOOR: &str = "its n-grams hashed (floor)";
const WARM_UP_PASSES: usize = 2;

/// One way to treat a text.
struct Candidate<'a> {
    name: &'static str,
    treat: Box<dyn FnMut(&str) + 'a>,
    /// Nanoseconds.
    latencies: Histogram<u64>,
    /// Time under measurement, one by one and in one go.
    spent: Duration,
    /// Texts treated in one go, without a look at the clock between them, and how long that took.
    together: (u64, Duration),
    has_aims: bool,
}

/// What training took, and what came of it.
struct Trained {
    router: Router,
    /// Milliseconds.
    median: f64,
    slowest: f64,
    /// The time of all threads, for the median.
    cpu: f64,
}

pub(super) fn decisions(options: &RouterOptions, common: &Options) -> Outcome<Section> {
    let memory = || process::memory(std::process::id());
    let mut resident = Table::new(["process", "resident", "at its highest"]);
    let mut remember = |when: &str| -> Outcome<()> {
        let (now, highest) = memory()?;
        let bytes = |bytes: u64| Cell::new(bytes as f64 / MEBIBYTE, Unit::Mebibytes);
        resident.row([Cell::from(when), bytes(now), bytes(highest)]);
        Ok(())
    };
    remember("before the texts")?;
    let texts = match &options.rows {
        Some(path) => texts::of_file(path)?,
        None => texts::generated(options.seed)?,
    };
    let catalogue = eval::catalogue(&texts.train);
    remember("with the texts")?;
    let begin = (Instant::now(), process::machine_time()?, process::cpu_time(std::process::id())?);
    let times = if common.quick { 3 } else { TRAININGS };
    let trained = train(&catalogue, times)?;
    remember("with the trained router, after its trainings")?;
    let with_phrases = Router::train(&with_phrases(&catalogue));

    let examples = texts.train.iter().filter(|row| row.label != OUT_OF_SCOPE).count();
    let mut section = Section::new(format!("Decisions in one process: {} specs", catalogue.specs().len()));
    section.note(format!(
        "texts: {}; {} utterances with {} different words; {} others are decided, {:.0} characters each",
        texts.origin,
        examples,
        texts.different_words(),
        texts.asked.len(),
        texts.mean_length()
    ));
    section.note(told_accuracy(&trained.router, &texts));

    let mut training = Table::new(["utterances", "training", "slowest", "CPU", "model"]);
    // The aim is for that many; less would be no feat, and more no failure.
    let is_aimed_at = examples == texts::INTENTS * texts::UTTERANCES;
    let took = Cell::new(trained.median, Unit::Milliseconds);
    let model = Cell::new(trained.router.memory_bytes() as f64 / MEBIBYTE, Unit::Mebibytes);
    training.row([
        Cell::new(examples as f64, Unit::Count),
        if is_aimed_at { took.at_most(AIM_TRAINING) } else { took },
        Cell::new(trained.slowest, Unit::Milliseconds),
        Cell::new(trained.cpu, Unit::Milliseconds),
        model.at_most(AIM_MODEL),
    ]);
    section.table(training);
    section.note(format!(
        "training: the median of {times}, the calibration included; CPU is that of all threads"
    ));

    let floor = Hasher::default();
    let rows = WeightRows::new(trained.router.memory_bytes(), catalogue.specs().len());
    let history = history(&texts, &catalogue);
    let (router, phrases) = (&trained.router, &with_phrases);
    let mut candidates = [
        Candidate::new(CLOCK, |_| ())?,
        Candidate::new("the text copied", |text| {
            black_box(text.to_owned());
        })?,
        {
            let mut floor = floor.clone();
            Candidate::new(FLOOR, move |text| {
                black_box(floor.sum(text));
            })?
        },
        {
            let mut floor = floor;
            let mut rows = rows;
            Candidate::new("hashed, and a row of weights each", move |text| {
                rows.clear();
                floor.visit(text, |hash| rows.add(hash));
                black_box(rows.best());
            })?
        },
        Candidate::new("decision", |text| {
            black_box(router.route(&Query { text, ..Query::default() }));
        })?
        .aiming(),
        Candidate::new("decision, specs with keywords and patterns", |text| {
            black_box(phrases.route(&Query { text, ..Query::default() }));
        })?,
        Candidate::new("decision, after 20 messages", |text| {
            let current_spec = history.last().and_then(|message| message.spec);
            black_box(router.route(&Query { text, current_spec, history: &history, language: Some("en") }));
        })?,
    ];
    let asked: Vec<&str> = texts.asked.iter().map(|row| row.text.as_str()).collect();
    measure(&mut candidates, &asked, common.window())?;
    section.table(told(&candidates));
    section.note(
        "floor: letters lowered into a buffer, then every word, pair of words and piece of a word hashed",
    );
    section.note(
        "a row of weights each: what a linear model of this size cannot do without, with nothing decided",
    );
    section.note(format!(
        "keywords and patterns: the {KEYWORDS} words most its own of each spec, and {KEYWORDS} beginnings of its utterances"
    ));
    section.note(
        "in turns, on one thread; single texts with a look at the clock before and after, which is included",
    );
    remember("after the decisions")?;
    section.table(resident);
    let (wall, machine, own) = begin;
    let others = (process::machine_time()? - machine)
        .saturating_sub(process::cpu_time(std::process::id())?.saturating_sub(own));
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let elsewhere = others.as_secs_f64() / wall.elapsed().as_secs_f64() / processors;
    section.note(format!("CPU taken by others meanwhile: {:.0} % of the machine", elsewhere * 100.0));
    Ok(section)
}

impl<'a> Candidate<'a> {
    fn new(name: &'static str, treat: impl FnMut(&str) + 'a) -> Outcome<Self> {
        Ok(Self {
            name,
            treat: Box::new(treat),
            latencies: Histogram::new_with_bounds(1, 10_000_000_000, 3)?,
            spent: Duration::ZERO,
            together: (0, Duration::ZERO),
            has_aims: false,
        })
    }

    fn aiming(self) -> Self {
        Self { has_aims: true, ..self }
    }

    /// Once one by one, and once in one go.
    fn pass(&mut self, texts: &[&str]) {
        let begin = Instant::now();
        for text in texts {
            let asked = Instant::now();
            (self.treat)(text);
            let nanoseconds = asked.elapsed().as_nanos();
            self.latencies.saturating_record(u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1));
        }
        let between = Instant::now();
        for text in texts {
            (self.treat)(text);
        }
        let end = Instant::now();
        self.together.0 += texts.len() as u64;
        self.together.1 += end - between;
        self.spent += end - begin;
    }

    /// Microseconds.
    fn quantile(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// All of them in turns, so that whatever else the machine does falls on each.
fn measure(candidates: &mut [Candidate<'_>], texts: &[&str], window: Duration) -> Outcome<()> {
    if texts.is_empty() {
        return Err("no text to decide".into());
    }
    for candidate in candidates.iter_mut() {
        for text in (0..WARM_UP_PASSES).flat_map(|_| texts) {
            (candidate.treat)(text);
        }
    }
    for round in 0.. {
        let mut is_over = true;
        for candidate in candidates.iter_mut() {
            // At least one pass, even of a file so large that it fills the window.
            if round == 0 || candidate.spent < window {
                candidate.pass(texts);
                is_over = false;
            }
        }
        if is_over {
            break;
        }
    }
    Ok(())
}

fn told(candidates: &[Candidate<'_>]) -> Table {
    let mut table = Table::new([
        "of one text",
        "p50",
        "p99",
        "p99.9",
        "slowest",
        "p50 of floor",
        "texts/s on one core",
        "texts",
    ]);
    let floor = candidates.iter().find(|candidate| candidate.name == FLOOR);
    for candidate in candidates {
        let micros = |value: f64| Cell::new(value, Unit::ExactMicroseconds);
        let (median, tail) = (micros(candidate.quantile(0.5)), micros(candidate.quantile(0.99)));
        let (texts, took) = candidate.together;
        let ratio = floor.map(|floor| candidate.quantile(0.5) / floor.quantile(0.5).max(1e-9));
        table.row([
            Cell::from(candidate.name),
            if candidate.has_aims { median.at_most(AIM_MEDIAN) } else { median },
            if candidate.has_aims { tail.at_most(AIM_TAIL) } else { tail },
            micros(candidate.quantile(0.999)),
            micros(candidate.latencies.max() as f64 / 1e3),
            ratio.map_or_else(|| Cell::from("-"), |ratio| Cell::new(ratio, Unit::Ratio)),
            if candidate.name == CLOCK {
                Cell::from("-")
            } else {
                Cell::new(texts as f64 / took.as_secs_f64().max(1e-9), Unit::Count)
            },
            Cell::new(candidate.latencies.len() as f64, Unit::Count),
        ]);
    }
    table
}

fn train(catalogue: &Catalogue, times: usize) -> Outcome<Trained> {
    let mut took = Vec::with_capacity(times);
    let mut router = None;
    for _ in 0..times {
        // The one before is gone, so that the memory is that of one.
        drop(router.take());
        let cpu = process::cpu_time(std::process::id())?;
        let begin = Instant::now();
        router = Some(Router::train(catalogue));
        let elapsed = begin.elapsed().as_secs_f64() * 1e3;
        let cpu = process::cpu_time(std::process::id())? - cpu;
        took.push((elapsed, cpu.as_secs_f64() * 1e3));
    }
    took.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (median, cpu) = took.get(took.len() / 2).copied().unwrap_or_default();
    let slowest = took.last().map_or(0.0, |(slowest, _)| *slowest);
    Ok(Trained { router: router.ok_or("nothing was trained")?, median, slowest, cpu })
}

/// How often the router is right, so that a fast router that routes nowhere shows.
fn told_accuracy(router: &Router, texts: &Texts) -> String {
    let inside = || texts.asked.iter().filter(|row| row.label != OUT_OF_SCOPE);
    let right = inside()
        .filter(|row| router.route(&Query { text: &row.text, ..Query::default() }).spec == row.label)
        .count();
    let share = right as f64 * 100.0 / inside().count().max(1) as f64;
    format!("{share:.1} % of the texts that have a spec are routed to it")
}

const KEYWORDS: usize = 8;

/// The same specs, each with the words as keywords that are its own the most, and with a pattern of beginnings.
fn with_phrases(catalogue: &Catalogue) -> Catalogue {
    let mut everywhere: BTreeMap<&str, usize> = BTreeMap::new();
    for word in catalogue.specs().iter().flat_map(words) {
        *everywhere.entry(word).or_default() += 1;
    }
    let specs = catalogue.specs().iter().map(|spec| {
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for word in words(spec) {
            *here.entry(word).or_default() += 1;
        }
        // Frequent here, and rare elsewhere.
        let own = |word: &str, count: usize| {
            (count * count) as f64 / everywhere.get(word).copied().unwrap_or(count).max(1) as f64
        };
        let mut typical: Vec<(f64, &str)> =
            here.iter().map(|(word, count)| (own(word, *count), *word)).collect();
        typical.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
        let keyword = |(_, word): &(f64, &str)| Keyword { text: (*word).to_owned(), weight: 1.0 };
        let examples = spec.intents.iter().flat_map(|intent| &intent.examples);
        let beginning = |text: &str| text.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let phrases = examples.take(KEYWORDS).map(|(_, text)| beginning(text)).collect();
        Spec {
            keywords: typical.iter().take(KEYWORDS).map(keyword).collect(),
            patterns: vec![Pattern { name: "beginning".to_owned(), phrases, ..Pattern::default() }],
            ..spec.clone()
        }
    });
    Catalogue::new(specs.collect())
}

/// Those of more than three letters.
fn words(spec: &Spec) -> impl Iterator<Item = &str> {
    let examples = spec.intents.iter().flat_map(|intent| &intent.examples);
    examples.flat_map(|(_, text)| text.split_whitespace()).filter(|word| word.len() > 3)
}

/// A conversation as a session keeps it: ten questions and their answers.
fn history<'a>(texts: &'a Texts, catalogue: &'a Catalogue) -> Vec<Message<'a>> {
    let spec = catalogue.specs().first().map(|spec| spec.id.as_str());
    let questions = texts.asked.iter().take(10);
    questions
        .flat_map(|row| {
            let question = Message { role: Role::User, text: &row.text, spec: None };
            [question, Message { role: Role::Assistant, spec, ..question }]
        })
        .collect()
}
