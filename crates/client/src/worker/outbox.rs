//! The stream of frames of one connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use capataz_contracts::v1;
use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;

use super::leases::{Leases, Next};

/// Pulls frames out of [`Leases`] as the connection takes them, so that nothing waits in a second queue and what is
/// urgent passes what is not.
pub(super) struct Outbox {
    leases: Arc<Leases>,
    session: u64,
    timer: Pin<Box<Sleep>>,
    /// True when the timer still wakes this stream.
    is_armed: bool,
}

impl Outbox {
    pub(super) fn new(leases: Arc<Leases>, session: u64) -> Self {
        let timer = Box::pin(tokio::time::sleep_until(Instant::now()));
        Self { leases, session, timer, is_armed: false }
    }

    /// Returns whether the moment has come. A timer that goes off too early costs less than setting it for each frame.
    fn is_due(&mut self, at: Instant, context: &mut Context<'_>) -> bool {
        if !self.is_armed || self.timer.deadline() > at {
            self.timer.as_mut().reset(at);
            self.is_armed = true;
        }
        self.is_armed = self.timer.as_mut().poll(context).is_pending();
        !self.is_armed
    }
}

impl Stream for Outbox {
    type Item = v1::ConnectRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.leases.next(self.session, context.waker()) {
                Next::Frame(frame) => return Poll::Ready(Some(v1::ConnectRequest { frame: Some(frame) })),
                Next::End => return Poll::Ready(None),
                Next::Wait(None) => return Poll::Pending,
                Next::Wait(Some(at)) => {
                    if !self.is_due(at, context) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
