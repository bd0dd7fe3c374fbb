//! The order of the stages.

use std::time::Duration;

use capataz_contracts::v1::{ActionStage, StageRecord};

use super::step::{Failed, Step};
use crate::error::Failure;
use crate::page::Page;

impl<P: Page> Step<'_, P> {
    /// All stages but `evidence`, up to the first that fails.
    pub(super) async fn run(&mut self) -> Result<(), Box<Failed>> {
        let begun = self.clock.monotonic();
        // A limit counts all actions, so it is reported even where the present action is invalid.
        if let Some(decided) = &self.task.failure {
            return self.ended(ActionStage::Policy, begun, Err(Failure::decided(decided)));
        }
        let validated = self.validate().await;
        let action = self.ended(ActionStage::ProposalValidation, begun, validated)?;

        let begun = self.clock.monotonic();
        let allowed = self.allow(&action).await;
        self.ended(ActionStage::Policy, begun, allowed)?;

        let begun = self.clock.monotonic();
        let prepared = Box::pin(self.prepare(&action)).await;
        let prepared = self.ended(ActionStage::Precondition, begun, prepared)?;

        let begun = self.clock.monotonic();
        let executed = Box::pin(self.execute(&action, prepared)).await;
        self.ended(ActionStage::Execution, begun, executed)?;

        let begun = self.clock.monotonic();
        let proved = Box::pin(self.prove(&action)).await;
        self.ended(ActionStage::Postcondition, begun, proved)
    }

    pub(super) fn ended<T>(
        &mut self,
        stage: ActionStage,
        begun: Duration,
        result: Result<T, Failure>,
    ) -> Result<T, Box<Failed>> {
        let duration = self.clock.monotonic().saturating_sub(begun);
        self.stages.push(record(stage, result.is_ok(), duration));
        result.map_err(|failure| Box::new((failure.stage.unwrap_or(stage), failure)))
    }
}

pub(super) fn record(stage: ActionStage, passed: bool, duration: Duration) -> StageRecord {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    StageRecord { stage: stage as i32, passed, duration_us }
}
