//! A campaign: storms one after the other, until the daemon was killed as often as is wanted. The totals are kept by commit, so
//! that a campaign may be interrupted and goes on with the next call.

use std::fs;

use crate::leg::{self, Judged};
use crate::totals::{Book, Failure, Totals};
use crate::{Options, Outcome, journal};

/// Kills of the daemon in one storm.
pub(crate) const LEG_KILLS: u64 = 28;
/// Fewer than these do not make a storm.
const LEAST_KILLS: u64 = 10;

pub(crate) fn any_seed() -> u64 {
    journal::now_us() % 1_000_000_000
}

/// Runs storms until the commit has as many kills as the options say, and prints the totals.
///
/// # Errors
/// Something was found, in this call or in an earlier one for the same commit.
pub(crate) async fn run(options: &Options) -> Outcome<()> {
    fs::create_dir_all(&options.dir)?;
    let mut book = Book::open(&options.dir.join("totals.json"))?;
    let earlier = if options.afresh { None } else { book.of(&options.commit).cloned() };
    let fresh = || Totals { seed: options.seed.unwrap_or_else(any_seed), ..Totals::default() };
    let mut totals = earlier.unwrap_or_else(fresh);
    while totals.kills() < options.kills() {
        let leg = leg_of(options, &totals);
        eprintln!("leg {}: {} of {} kills so far", totals.legs + 1, totals.kills(), options.kills());
        let (folder, ended) = leg::run(&leg).await?;
        let problems = match ended {
            Ok(Judged { verdict, totals: added, problems }) => {
                eprint!("{verdict}");
                totals.add(&added);
                problems
            }
            Err(error) => {
                totals.legs += 1;
                vec![error.to_string()]
            }
        };
        if !problems.is_empty() {
            for problem in &problems {
                eprintln!("  {problem}");
            }
            let failure = Failure { leg: totals.legs, seed: leg.seed(), folder, problems };
            totals.failures.push(failure);
            book.write(&options.commit, &totals)?;
            break;
        }
        book.write(&options.commit, &totals)?;
    }
    conclude(options, &totals)
}

/// The options of the next storm: retention is short in every second one.
fn leg_of(options: &Options, totals: &Totals) -> Options {
    let left = options.kills().saturating_sub(totals.kills());
    let kills = left.clamp(LEAST_KILLS, LEG_KILLS);
    Options {
        seed: Some(totals.seed.wrapping_add(totals.legs)),
        kills: Some(kills),
        runs: Some(options.runs.unwrap_or(kills * 10)),
        sweeps: totals.legs % 2 == 1,
        ..options.clone()
    }
}

fn conclude(options: &Options, totals: &Totals) -> Outcome<()> {
    if options.json {
        println!("{}", serde_json::to_string_pretty(totals)?);
    } else {
        print!("{}: {totals}", options.commit);
    }
    let problems = totals.problems(options.kills());
    if problems.is_empty() {
        eprintln!("verdict: passed");
        return Ok(());
    }
    for problem in &problems {
        eprintln!("  {problem}");
    }
    Err("the campaign is not clean".into())
}
