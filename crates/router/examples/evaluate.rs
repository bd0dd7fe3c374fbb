//! Measures the router on labelled rows: `evaluate FILE.tsv [TRAIN_SPLIT [PARTS]]`.
//!
//! Without rows of the split `valid` the file is cross-validated.
#![expect(clippy::disallowed_methods, reason = "latency and training time are what it measures")]

use std::time::Instant;

use capataz_router::eval::{self, Options};
use capataz_router::model::Parameters;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("which file?")?;
    let split = arguments.next().unwrap_or_else(|| "train".to_owned());
    let parts = arguments.next().map_or(Ok(5), |parts| parts.parse())?;
    let rows = eval::read_tsv(&std::fs::read_to_string(&file)?)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let begin = Instant::now();
    let clock = || begin.elapsed();
    let parameters = Parameters::default();
    let part = |name: &str| rows.iter().filter(|row| row.split == name).cloned().collect::<Vec<_>>();
    let (train, valid, test) = (part(&split), part("valid"), part("test"));
    let evaluation = if valid.is_empty() {
        eval::cross_validate(&train, parts, &parameters, &clock).ok_or("no rows")?
    } else {
        eval::evaluate(&Options {
            train: &train,
            valid: &valid,
            test: (!test.is_empty()).then_some(test.as_slice()),
            shots: None,
            parameters: &parameters,
            clock: &clock,
        })
    };
    println!("{}", serde_json::to_string_pretty(&evaluation)?);
    Ok(())
}
