//! One action, performed once: its stages in their order, and what came of it (CONTRACTS §3: the reading of seed 002).
//!
//! `proposal_validation` → `policy` → `precondition` → `execution` → `postcondition` → `evidence`. A stage that fails ends
//! the action; evidence is taken whatever happened. Nothing is sent to the page before the stage `execution`, and
//! nothing is sent twice.
//!
//! Begin reading with [`Performer::perform`] and `stages.rs`; each stage has a file of its own.

mod changes;
mod conditions;
mod execution;
mod finish;
mod near;
mod outputs;
mod policy;
mod precondition;
mod stages;
mod step;
mod uploads;
mod validation;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1;

use crate::dsl::Policy;
use crate::evidence::{EvidenceSink, Seen};
use crate::page::{PAGE_MASK, Page, PageError};
use crate::redact::Redactor;
use step::Step;

/// What an outline has in the place of what is secret by its element: of texts, and of values of fields.
const MASKED_BY_ELEMENT: [&str; 2] = [PAGE_MASK, "[filled]"];

/// The time, as whoever performs actions has it.
pub trait Clock: Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;
    /// Since whenever; never gets smaller.
    fn monotonic(&self) -> Duration;
}

/// Secrets by their names.
pub trait Secrets: Sync {
    /// True if there is a secret of this name. Asked before anything is sent.
    fn has(&self, name: &str) -> bool;
    /// The secret itself, at the moment in which it is typed.
    fn resolve(&self, name: &str) -> Option<String>;
}

/// No secrets at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn resolve(&self, _: &str) -> Option<String> {
        None
    }
}

/// One action that is to be performed.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// With variables and outputs in their places.
    pub action: v1::Action,
    pub step_index: Option<u32>,
    pub interactive: bool,
    /// The action is a recovery that the policy declares.
    pub recovers: bool,
    /// What `BROWSER_LOST` carries where this action has seen nothing yet.
    pub last_state: Option<v1::StateSignature>,
    pub last_evidence: Vec<v1::EvidenceRef>,
    /// Nothing is performed: this is what the action fails with, and evidence is taken for it.
    pub failure: Option<v1::DecidedFailure>,
}

/// Performs the actions of one run, one after the other. It knows the run's policy and what must never be kept.
#[derive(Clone, Debug)]
pub struct Performer {
    policy: Policy,
    redactor: Redactor,
    /// Folders that the daemon's configuration names; those of the policy count only below one of them.
    upload_folders: Vec<PathBuf>,
}

impl Performer {
    #[must_use]
    pub fn new(policy: Policy, upload_folders: Vec<PathBuf>) -> Self {
        let redactor = Redactor::new(&policy.patterns);
        Self { policy, redactor, upload_folders }
    }

    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What masks this run's secrets, for texts that do not come through here.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Performs one action, once. All evidence that the outcome names is durable when this returns.
    pub async fn perform<P: Page, E: EvidenceSink>(
        &mut self,
        page: &mut P,
        task: &Task,
        secrets: &dyn Secrets,
        evidence: &mut E,
        clock: &dyn Clock,
    ) -> v1::BrowserOutcome {
        let mut step = Step::new(self, page, task, secrets, clock);
        let result = step.run().await;
        step.finish(result, evidence).await
    }

    /// What became of an action whose browser was lost outside of [`Self::perform`], such as before it began. The code of
    /// another error may say why.
    pub async fn lost<E: EvidenceSink>(
        &mut self,
        task: &Task,
        reason: &str,
        original_code: Option<&str>,
        evidence: &mut E,
        clock: &dyn Clock,
    ) -> v1::BrowserOutcome {
        finish::lost(self, task, reason, original_code, evidence, clock).await
    }

    /// What is on the page now, redacted. Nothing is changed, nothing is kept.
    ///
    /// # Errors
    /// The page cannot be read.
    pub async fn observe<P: Page>(
        &mut self,
        page: &mut P,
        max_characters: usize,
    ) -> Result<v1::ObserveResponse, PageError> {
        let skeleton = page.skeleton().await?;
        let outline = page.outline(max_characters, None).await?;
        let mut redacted = MASKED_BY_ELEMENT.iter().any(|mask| outline.text.contains(mask));
        for text in [&skeleton.url, &skeleton.title, &outline.text] {
            redacted |= !self.redactor.found(text).is_empty();
        }
        let seen = Seen::new(skeleton, &self.redactor);
        // Whoever reads the page acts on it next.
        let redactor = self.redactor.clone();
        page.look_ahead(Arc::new(move |text: &str| redactor.found(text)));
        Ok(v1::ObserveResponse {
            state: Some(seen.signature),
            outline: self.redactor.text(&outline.text).into_owned(),
            truncated: outline.truncated,
            redacted,
        })
    }
}

#[cfg(test)]
mod tests;
