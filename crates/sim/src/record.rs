//! What the campaigns over one state of the code have come to so far: a file, so that a campaign of many seeds can be
//! interrupted at any moment and goes on where it was.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::{CrashPoint, EVENT_KINDS, Summary};

/// The totals over the seeds from the first one on, without gaps.
#[derive(Debug)]
pub struct Record {
    pub first_seed: u64,
    pub seconds: f64,
    pub summary: Summary,
    /// Worlds in which an invariant did not hold, by seed, with what was said of them.
    pub violations: Vec<(u64, String)>,
}

/// Why a record cannot be gone on with.
#[derive(Debug)]
pub enum RecordError {
    Io(io::Error),
    /// It is not a record, or one of other seeds.
    Other(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(formatter),
            Self::Other(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for RecordError {}

impl Record {
    #[must_use]
    pub fn new(first_seed: u64) -> Self {
        Self { first_seed, seconds: 0.0, summary: Summary::default(), violations: Vec::new() }
    }

    /// The seed to go on with.
    #[must_use]
    pub fn next_seed(&self) -> u64 {
        self.first_seed.saturating_add(self.summary.seeds)
    }

    /// Reads the record of campaigns that begin with this seed; a new one where there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is something else.
    pub fn read(file: &Path, first_seed: u64) -> Result<Self, RecordError> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::new(first_seed)),
            Err(error) => return Err(RecordError::Io(error)),
        };
        let other = |reason: &str| RecordError::Other(format!("{reason}; remove it to begin anew"));
        let document: Value = serde_json::from_str(&text).map_err(|_| other("not a record"))?;
        let record = parse(&document).ok_or_else(|| other("not a record of this simulator"))?;
        if record.first_seed != first_seed {
            return Err(other(&format!("the record begins with seed {}", record.first_seed)));
        }
        Ok(record)
    }

    /// Writes it in one step: whoever is interrupted leaves the one before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = file.with_extension("partial");
        fs::write(&unfinished, format!("{:#}\n", self.as_json()))?;
        fs::rename(&unfinished, file)
    }

    /// Adds what the seeds that follow came to.
    pub fn add(&mut self, summary: Summary, seconds: f64) {
        let told = summary
            .violations
            .iter()
            .filter_map(|outcome| Some((outcome.seed, outcome.violation.as_ref()?.to_string())));
        self.violations.extend(told);
        self.seconds += seconds;
        self.summary.merge(summary);
    }

    fn as_json(&self) -> Value {
        let Summary { seeds, inputs, least_inputs, events, runs, coverage, .. } = &self.summary;
        let cells = coverage.cells().filter(|(_, _, count)| *count > 0).map(|(point, kind, count)| {
            let kind = EVENT_KINDS.get(kind).map_or("", |(_, name)| *name);
            json!([point.name(), kind, count])
        });
        json!({
            "first_seed": self.first_seed,
            "seeds": seeds,
            "seconds": self.seconds,
            "inputs": inputs,
            "least_inputs": least_inputs,
            "events": events,
            "runs": runs,
            "violations": self.violations,
            "coverage": cells.collect::<Vec<Value>>(),
        })
    }
}

fn parse(document: &Value) -> Option<Record> {
    let number = |key: &str| document.get(key)?.as_u64();
    let mut record = Record::new(number("first_seed")?);
    record.seconds = document.get("seconds")?.as_f64()?;
    let summary = &mut record.summary;
    summary.seeds = number("seeds")?;
    summary.inputs = number("inputs")?;
    summary.least_inputs = number("least_inputs");
    summary.events = number("events")?;
    summary.runs = number("runs")?;
    for cell in document.get("coverage")?.as_array()? {
        let [point, kind, count] = cell.as_array()?.as_slice() else { return None };
        let point = CrashPoint::ALL.iter().find(|of| Some(of.name()) == point.as_str())?;
        let kind = EVENT_KINDS.iter().position(|(_, name)| Some(*name) == kind.as_str())?;
        summary.coverage.add(*point, kind, count.as_u64()?);
    }
    for violation in document.get("violations")?.as_array()? {
        let [seed, told] = violation.as_array()?.as_slice() else { return None };
        record.violations.push((seed.as_u64()?, told.as_str()?.to_owned()));
    }
    Some(record)
}
