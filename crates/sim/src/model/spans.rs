//! Where the parts of runs are in traces: the trace is that of whoever started the run, else the run's own, and a span is
//! known by its run and its event, that of a lease by its token.

use capataz_contracts::trace::span_id;
use capataz_contracts::v1;
use capataz_store::RunId;

use super::Model;
use super::log::RunModel;
use crate::invariant::{Invariant, Violation};

impl Model {
    /// An assignment says the span of its lease.
    pub(super) fn check_span(&self, assignment: &v1::Assignment) -> Result<(), Violation> {
        let token = assignment.lease.as_ref().map_or(0, |lease| lease.lease);
        let of_lease = self.lease(assignment.lease.as_ref());
        let is_so = of_lease.is_none_or(|(run, _)| assignment.traceparent == run.span(run.run, token));
        Invariant::SpansAreNamed.check(is_so, || format!("{assignment:?}"))
    }

    /// A run that is a task belongs to the span by which its parent waits for it.
    pub(super) fn check_child_span(
        &self,
        run: RunId,
        parent: &v1::ParentRef,
        accepted: &v1::RunAccepted,
    ) -> Result<(), Violation> {
        let parent = parent.run_id.parse().ok().and_then(|parent| self.run(parent));
        let traceparent = accepted.lineage.as_ref().map_or("", |lineage| &lineage.traceparent);
        let is_so = parent.is_none_or(|parent| traceparent == parent.span(run, 0));
        Invariant::SpansAreNamed.check(is_so, || format!("run {run} begins in {traceparent:?}"))
    }
}

impl RunModel {
    /// The `traceparent` of the span of that event, or lease, in the trace of this run.
    fn span(&self, run: RunId, part: u64) -> String {
        let mut parts = self.traceparent.split('-').skip(1);
        let trace = parts.next().map_or_else(|| self.run.0.simple().to_string(), str::to_owned);
        let flags = parts.nth(1).unwrap_or("01");
        format!("00-{trace}-{:016x}-{flags}", u64::from_be_bytes(span_id(run.0.into_bytes(), part)))
    }
}
