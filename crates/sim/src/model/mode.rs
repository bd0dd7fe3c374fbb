//! What executions may do (seed 004).

use capataz_contracts::v1::{self, event::Body};

use super::log::RunModel;
use crate::invariant::Violation;

#[derive(Clone, Debug)]
pub struct ModeModel {
    pub run: v1::ModeRun,
}

impl ModeModel {
    pub fn new(run: v1::ModeRun) -> Self {
        Self { run }
    }
}

impl RunModel {
    pub(super) fn execution(&mut self, _: Body) -> Result<(), Violation> {
        Ok(())
    }
}
