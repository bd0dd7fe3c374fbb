//! WorkerService: checks every frame of a worker and hands it to the shard.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use capataz_contracts::v1::worker_service_server::WorkerService;
use capataz_contracts::v1::{self, connect_request::Frame as Said, connect_response};
use capataz_contracts::validate;
use capataz_crew::CloseReason;
use capataz_policy::codes;
use capataz_runtime::{Runtime, WorkerLink, WorkerSender};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::named;
use super::runs::answer;
use crate::patience::within;
use crate::status;
use crate::waiting::Life;

/// How long a new stream may take to say hello.
const HELLO: Duration = Duration::from_secs(10);

pub(super) struct Workers {
    runtime: Runtime,
}

impl Workers {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

#[tonic::async_trait]
impl WorkerService for Workers {
    type ConnectStream = Frames;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Frames>, Status> {
        if let Some(life) = request.extensions().get::<Arc<Life>>().map(Arc::clone) {
            life.may_say_hello().await;
        }
        let mut said = request.into_inner();
        let first = within(HELLO, said.message()).await;
        let first = first
            .ok_or_else(|| {
                status::status(tonic::Code::DeadlineExceeded, codes::HELLO_MISSING, "no hello came")
            })?
            .map_err(|error| status::unreadable_frame(&error))?;
        let Some(Said::Hello(hello)) = first.and_then(|request| request.frame) else {
            return Err(status::invalid_field("hello", "required", "the first frame has to be a hello"));
        };
        let mut violations = validate::hello(&hello);
        let declares = |agent: &v1::Agent| !agent.input_schema.is_empty() || !agent.output_schema.is_empty();
        if violations.is_empty() && hello.agents.iter().any(declares) {
            let agents = hello.agents.clone();
            violations = answer(&self.runtime, move || Ok(capataz_judge::declared(&agents))).await?;
        }
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let slots = hello.slots as usize;
        let WorkerLink { frames, closed, sender } = self.runtime.connect(slots).await;
        let runtime = self.runtime.clone();
        let (open, hung_up) = oneshot::channel();
        let unreadable = Arc::new(OnceLock::new());
        let mut ended = closed.clone();
        let noticed = Arc::clone(&unreadable);
        tokio::spawn(async move {
            if sender.send(Said::Hello(hello)).await {
                tokio::select! {
                    heard = listen(&mut said, &sender, &runtime) => if let Err(error) = heard {
                        let _ = noticed.set(error);
                    },
                    // What a worker says on a connection that was closed counts for nothing. One that is dead at the
                    // other end would be waited for as long as something between keeps it open.
                    _ = ended.wait_for(Option::is_some) => {}
                    _ = hung_up => {}
                }
            }
        });
        Ok(Response::new(Frames { frames, closed, unreadable, open: Some(open) }))
    }
}

/// Hears a worker out, to the end of its stream.
///
/// # Errors
/// It says what cannot be read, or what it names cannot be looked at; it says that again on its next stream.
async fn listen(
    said: &mut Streaming<v1::ConnectRequest>,
    sender: &WorkerSender,
    runtime: &Runtime,
) -> Result<(), Status> {
    loop {
        match said.message().await {
            Ok(Some(v1::ConnectRequest { frame: Some(frame) })) => {
                let frame = named::taken(runtime, frame).await?;
                if !sender.send(frame).await {
                    return Ok(());
                }
            }
            // A frame of a kind that this version does not know.
            Ok(Some(v1::ConnectRequest { frame: None })) => {}
            Ok(None) => return Ok(()),
            // Where the stream is broken, nobody hears of it.
            Err(error) => {
                tracing::debug!(%error, "a worker's stream cannot be read");
                return Err(status::unreadable_frame(&error));
            }
        }
    }
}

/// What the daemon says to one worker.
#[derive(Debug)]
pub(super) struct Frames {
    frames: mpsc::Receiver<connect_response::Frame>,
    /// Why there are no more frames.
    closed: watch::Receiver<Option<CloseReason>>,
    /// Why the worker is not heard any more.
    unreadable: Arc<OnceLock<Status>>,
    /// Until the last frame is sent.
    open: Option<oneshot::Sender<()>>,
}

impl Stream for Frames {
    type Item = Result<v1::ConnectResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.frames.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(frame)) => Poll::Ready(Some(Ok(v1::ConnectResponse { frame: Some(frame) }))),
            // The last word is said once.
            Poll::Ready(None) if self.open.take().is_none() => Poll::Ready(None),
            Poll::Ready(None) => Poll::Ready(self.last_word().map(Err)),
        }
    }
}

impl Frames {
    /// Why the daemon has ended the stream; `None` where the worker has.
    fn last_word(&self) -> Option<Status> {
        self.unreadable.get().cloned().or_else(|| self.closed.borrow().as_ref().map(status::closed))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use bytes::Bytes;
    use capataz_contracts::v1::worker_service_server::WorkerServiceServer;
    use capataz_crew::Known;
    use capataz_runtime::Options;
    use capataz_store::{MemoryStore, Store};
    use tokio::time::Instant;
    use tonic_types::StatusExt;

    use super::*;
    use crate::SHARD;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_says_no_hello_in_time_is_refused_with_a_word() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runtime = Runtime::start(vec![SHARD], store, Known::default(), Options::default()).await.unwrap();
        let silent = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
        let request = http::Request::post("/capataz.v1.WorkerService/Connect")
            .header("content-type", "application/grpc")
            .body(silent)
            .unwrap();
        let begun = Instant::now();
        let mut service = WorkerServiceServer::new(Workers::new(runtime));
        let response = tower::Service::call(&mut service, request).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        let refusal = Status::from_header_map(response.headers()).expect("it is refused");
        let reason = refusal.get_details_error_info().map(|info| info.reason);
        assert_eq!(
            (refusal.code(), reason.as_deref()),
            (tonic::Code::DeadlineExceeded, Some("HELLO_MISSING"))
        );
        assert_eq!(refusal.message(), "no hello came");
    }
}
