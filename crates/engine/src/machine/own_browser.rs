//! The browser that a run has for itself: which worker has it, and what has become of it. Part of the fold.

use capataz_contracts::v1::{self, event::Body};

use super::{Binding, Step};
use crate::fold::bytes;
use crate::snapshot::number;

/// What has become of the run's own browser.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum OwnBrowser {
    /// None was opened, or it was closed, or an earlier version did not say which worker has it.
    #[default]
    None,
    Open {
        worker: String,
        /// After how long of waiting for a person it is closed. Milliseconds; `None` where its worker keeps nothing.
        keep_after: Option<i64>,
    },
    /// It is closed, and its worker has kept its storage state.
    Kept { worker: String },
    Lost {
        worker: String,
        #[serde(with = "number")]
        reason: v1::BrowserLossReason,
    },
}

impl OwnBrowser {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Open { worker, .. } | Self::Kept { worker } | Self::Lost { worker, .. } => {
                bytes::text(worker)
            }
        }
    }

    pub(super) fn opened(&mut self, event: v1::BrowserOpened) {
        *self = match event.worker.is_empty() {
            true => Self::None,
            false => Self::Open { worker: event.worker, keep_after: event.keep_after_ms },
        };
    }

    pub(super) fn closed(&mut self, event: v1::BrowserClosed) {
        let before = std::mem::take(self);
        if let (true, Self::Open { worker, .. }) = (event.kept, before) {
            *self = Self::Kept { worker };
        }
    }

    pub(super) fn lost(&mut self, event: v1::BrowserLost) {
        *self = Self::Lost { reason: event.reason(), worker: event.worker };
    }

    /// Whether a worker may have it in its memory.
    pub(super) fn may_be_open(&self) -> bool {
        matches!(self, Self::None | Self::Open { .. })
    }

    /// After how long of waiting for a person it is closed and its state kept. Milliseconds.
    pub(super) fn keep_after(&self) -> Option<i64> {
        match self {
            Self::Open { keep_after, .. } => *keep_after,
            Self::None | Self::Kept { .. } | Self::Lost { .. } => None,
        }
    }

    pub(super) fn binding(&self) -> Option<Binding<'_>> {
        match self {
            Self::Open { worker, .. } => Some(Binding { worker, is_live: true }),
            Self::Kept { worker } => Some(Binding { worker, is_live: false }),
            Self::None | Self::Lost { .. } => None,
        }
    }

    /// The event that the worker has lost the browser; `None` where it had none.
    pub(super) fn lost_by(&self, worker: &str, reason: v1::BrowserLossReason) -> Option<Body> {
        self.binding().filter(|bound| bound.worker == worker)?;
        Some(Body::BrowserLost(v1::BrowserLost { worker: worker.to_owned(), reason: reason.into() }))
    }

    /// The run has waited for a person for too long to keep it open.
    pub(super) fn put_away(&self) -> Vec<Step> {
        let Self::Open { worker, .. } = self else { return Vec::new() };
        let closed = v1::BrowserClosed { reason: v1::BrowserCloseReason::Idle.into(), kept: true };
        vec![Step::KeepBrowser { body: Body::BrowserClosed(closed), worker: worker.clone() }]
    }
}

/// What people are told of a loss.
pub(super) fn how_lost(worker: &str, reason: v1::BrowserLossReason) -> String {
    match reason {
        v1::BrowserLossReason::Restarted => format!("worker {worker:?} is back without the browser"),
        v1::BrowserLossReason::Silent => format!("worker {worker:?}, which has the browser, is silent"),
        v1::BrowserLossReason::Disconnected => {
            format!("worker {worker:?}, which has the browser, did not come back in time")
        }
        v1::BrowserLossReason::Ended | v1::BrowserLossReason::Unspecified => {
            format!("the browser has ended (worker {worker:?})")
        }
    }
}
