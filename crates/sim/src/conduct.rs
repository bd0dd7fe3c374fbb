//! What a worker does with an assignment.

use capataz_contracts::v1::{self, connect_request::Frame as Said};
use capataz_engine::TaskRef;

use crate::invariant::Violation;
use crate::model::RunModel;
use crate::model::severity::{MESSAGE, SAYS_CRITICAL, SAYS_LOW};
use crate::worker::{Job, Key, reference};
use crate::world::World;

/// How an assignment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    Completes,
    /// Takes longer than most timeouts.
    Slow,
    /// Fails with a code that is retried.
    FailsForNow,
    Fails,
    /// Fails with a code that ends the run.
    FailsCritically,
    /// Is never acknowledged and never answered.
    Ignored,
    /// Is never acknowledged, and answered all the same.
    Unacknowledged,
    Returned,
    /// The result is sent twice.
    Twice,
    /// Goes on after a cancel and sends its result.
    IgnoresCancel,
    /// The worker's process dies.
    Crashes,
    /// The worker hangs: no frame for a while.
    Hangs,
    /// Stops although nobody asked for it.
    GivesUp,
    /// The worker asks for no more work.
    Drains,
    /// A result is sent under a lease that is another worker's, of the past, or made up.
    Forges,
    /// The worker breaks the protocol.
    BreaksProtocol,
}

const FOR_NOW: &[&str] = &["NETWORK_ERROR", "RATE_LIMIT", "SERVICE_UNAVAILABLE", "TIMEOUT"];
const FOR_GOOD: &[&str] = &["VALIDATION_ERROR", "TESTS_FAILED", "LINT_WARNINGS", "E_UNHEARD_OF", SAYS_LOW];

impl World {
    pub(crate) fn draw_conduct(&mut self) -> Conduct {
        if !self.strikes(self.scenario.misbehaviour * 10) {
            return Conduct::Completes;
        }
        match self.rng.below(100) {
            0..=14 => Conduct::Slow,
            15..=33 => Conduct::FailsForNow,
            34..=41 => Conduct::Fails,
            42..=43 => Conduct::FailsCritically,
            44..=49 => Conduct::Ignored,
            50..=53 => Conduct::Unacknowledged,
            54..=59 => Conduct::Returned,
            60..=64 => Conduct::Twice,
            65..=69 => Conduct::IgnoresCancel,
            70..=74 => Conduct::Crashes,
            75..=85 => Conduct::Hangs,
            86..=88 => Conduct::GivesUp,
            89..=90 => Conduct::Drains,
            91..=97 => Conduct::Forges,
            _ => Conduct::BreaksProtocol,
        }
    }

    /// Plans what the worker does about its new assignment.
    pub(crate) fn set_out(&mut self, index: usize, key: Key, conduct: Conduct) {
        let calm = self.is_calm();
        let ack = if calm { 5 } else { self.rng.delay(60, 12_000) };
        let silent = matches!(conduct, Conduct::Ignored | Conduct::Unacknowledged);
        if !silent && conduct != Conduct::Returned {
            self.job(index, ack, Job::Ack(key));
        }
        let usual = if calm { 200 } else { self.rng.delay(3_000, 10_000) };
        let ends = ack + usual;
        match conduct {
            Conduct::Ignored => {}
            Conduct::Returned => {
                let delay = self.rng.between(0, 1_500);
                self.job(index, delay, Job::Return(key));
            }
            Conduct::Slow | Conduct::IgnoresCancel => {
                let long = self.rng.between(3_000, 60_000);
                self.job(index, ack + long / 2, Job::Progress(key));
                self.job(index, ack + long, Job::End(key));
            }
            Conduct::GivesUp => self.job(index, ends, Job::GiveUp(key)),
            _ => {
                if self.rng.percent(30) {
                    self.job(index, ack + usual / 2, Job::Progress(key));
                }
                self.job(index, ends, Job::End(key));
            }
        }
    }

    /// The work comes to its end.
    pub(crate) fn end(&mut self, index: usize, key: Key) -> Result<(), Violation> {
        let Some((conduct, answered)) = self.holding(index, key) else { return Ok(()) };
        if answered {
            return Ok(());
        }
        if conduct == Conduct::Unacknowledged {
            self.model.begun(key.0, key.1, key.2)?;
        }
        let lease = reference(key);
        match conduct {
            Conduct::FailsForNow | Conduct::Fails | Conduct::FailsCritically => {
                let error = self.draw_error(conduct);
                self.report(
                    index,
                    key,
                    Said::Failed(v1::Failed { lease, error: Some(error), log: String::new(), usage: None }),
                );
            }
            Conduct::Crashes => self.worker_crashes(index),
            Conduct::Hangs => {
                let until = self.now + self.rng.between(4_000, 40_000);
                self.hang(index, until);
                self.complete(index, key)?;
            }
            Conduct::Drains => {
                self.say(index, Said::Drain(v1::DrainRequested {}));
                self.complete(index, key)?;
                if let Some(id) = self.link_of(index) {
                    let delay = self.rng.between(2_000, 15_000);
                    self.job(index, delay, Job::Leave(id));
                }
            }
            Conduct::Forges => {
                self.forge(index, key);
                self.complete(index, key)?;
            }
            Conduct::BreaksProtocol => {
                self.say(index, Said::Hello(v1::Hello::default()));
                self.complete(index, key)?;
            }
            _ => self.complete(index, key)?,
        }
        Ok(())
    }

    fn complete(&mut self, index: usize, key: Key) -> Result<(), Violation> {
        let work = self.work_of(index, key);
        let output = self.produce(index, key, &work)?;
        self.model.gave(key.0, key.1, key.2, &output);
        let output = Some(output);
        self.report(
            index,
            key,
            Said::Completed(v1::Completed { lease: reference(key), output, ..v1::Completed::default() }),
        );
        Ok(())
    }

    fn draw_error(&mut self, conduct: Conduct) -> v1::Error {
        let codes = match conduct {
            Conduct::FailsCritically => &["STATE_CORRUPTED", SAYS_CRITICAL],
            Conduct::FailsForNow => FOR_NOW,
            _ => FOR_GOOD,
        };
        let code = self.rng.pick(codes).copied().unwrap_or_default();
        let severity = match code {
            SAYS_CRITICAL => v1::Severity::Critical,
            SAYS_LOW => v1::Severity::Low,
            _ => v1::Severity::Unspecified,
        };
        v1::Error {
            code: code.to_owned(),
            message: MESSAGE.to_owned(),
            severity: severity.into(),
            retry_after_ms: self.rng.percent(20).then(|| self.rng.between(0, 3_000)),
            ..v1::Error::default()
        }
    }

    fn forge(&mut self, index: usize, key: Key) {
        let count = self.leases.len();
        let other = self.leases.get(self.rng.below(count)).copied().unwrap_or(key);
        let waits = self.model.run(other.0).and_then(RunModel::never_given);
        let forged: Key = match self.rng.below(5) {
            // A token that no run of this length ever gives.
            0 => (other.0, other.1, other.2 + 50_000),
            1 => (other.0, TaskRef { wave: other.1.wave + 1, ..other.1 }, other.2),
            2 => (other.0, other.1, 0),
            // A task that waits, and that nobody was ever given.
            3 => (other.0, waits.unwrap_or(other.1), other.2),
            _ => other,
        };
        self.job(index, 0, Job::Stale(forged));
    }
}
