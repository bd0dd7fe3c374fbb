//! WorkerService: checks every frame of a worker and hands it to the shard.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use capataz_contracts::v1::worker_service_server::WorkerService;
use capataz_contracts::v1::{self, connect_request::Frame as Said, connect_response};
use capataz_contracts::validate::{self, INLINE_MAX};
use capataz_runtime::{Runtime, WorkerSender};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::runs::answer;
use crate::status;

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
        let mut said = request.into_inner();
        let first = tokio::time::timeout(HELLO, said.message()).await;
        let first = first
            .map_err(|_| status::status(tonic::Code::DeadlineExceeded, "HELLO_MISSING", "no hello came"))??;
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
        let (frames, sender) = self.runtime.connect(slots).await.split();
        let (open, closed) = oneshot::channel();
        tokio::spawn(async move {
            if sender.send(Said::Hello(hello)).await {
                tokio::select! {
                    () = listen(&mut said, &sender) => {}
                    // What a worker says on a connection that the shard has closed counts for nothing. One that is
                    // dead at the other end would be waited for as long as something between keeps it open.
                    _ = closed => {}
                }
            }
        });
        Ok(Response::new(Frames { frames, open: Some(open) }))
    }
}

/// Hears a worker out, to the end of its stream.
async fn listen(said: &mut Streaming<v1::ConnectRequest>, sender: &WorkerSender) {
    loop {
        match said.message().await {
            Ok(Some(v1::ConnectRequest { frame: Some(frame) })) => {
                if !sender.send(validate::worker_frame(frame, INLINE_MAX)).await {
                    return;
                }
            }
            // A frame of a kind that this version does not know.
            Ok(Some(v1::ConnectRequest { frame: None })) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "a worker's stream broke");
                return;
            }
        }
    }
}

/// What the daemon says to one worker.
#[derive(Debug)]
pub(super) struct Frames {
    frames: mpsc::Receiver<connect_response::Frame>,
    /// Until the last frame is sent.
    open: Option<oneshot::Sender<()>>,
}

impl Stream for Frames {
    type Item = Result<v1::ConnectResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.frames.poll_recv(context);
        if matches!(polled, Poll::Ready(None)) {
            self.open = None;
        }
        polled.map(|frame| frame.map(|frame| Ok(v1::ConnectResponse { frame: Some(frame) })))
    }
}
