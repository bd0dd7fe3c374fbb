//! WorkerService: checks every frame of a worker and hands it to the shard.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use capataz_contracts::v1::worker_service_server::WorkerService;
use capataz_contracts::v1::{self, connect_request::Frame as Said, connect_response};
use capataz_contracts::validate::{self, INLINE_MAX};
use capataz_policy::codes;
use capataz_runtime::shell::{Shard, WorkerSender};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::status;

/// How long a new stream may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// Bytes of a partial output or of an error's texts.
const MAX_TEXT: usize = 64 * 1024;
/// Bytes of a log that are kept with its task.
const MAX_LOG: usize = 16 * 1024;

pub(super) struct Workers {
    shard: Shard,
}

impl Workers {
    pub(super) fn new(shard: Shard) -> Self {
        Self { shard }
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
        let violations = validate::hello(&hello);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let slots = hello.slots as usize;
        let (frames, sender) = self.shard.connect(slots).await.split();
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
                if !sender.send(checked(frame)).await {
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

/// What a worker says, made such that it can be stored: an output that breaks the rules is a failure of its task.
fn checked(frame: Said) -> Said {
    match frame {
        Said::Completed(completed) => match completed.output.as_ref().and_then(wrong) {
            Some(error) => Said::Failed(v1::Failed {
                lease: completed.lease,
                error: Some(error),
                log: tail(completed.log),
            }),
            None => Said::Completed(v1::Completed {
                log: tail(completed.log),
                usage: completed.usage.map(counted),
                ..completed
            }),
        },
        Said::Cancelled(mut cancelled) => {
            cancelled.log = tail(cancelled.log);
            cancelled.partial_output = cancelled.partial_output.filter(|output| wrong(output).is_none());
            Said::Cancelled(cancelled)
        }
        Said::Progress(mut progress) => {
            progress.fraction = progress.fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
            progress.message = progress.message.map(|message| cut(message, 1024));
            progress.partial_output = progress.partial_output.filter(|output| size(output) <= MAX_TEXT);
            Said::Progress(progress)
        }
        Said::Failed(v1::Failed { lease, error, log }) => {
            let given = error.unwrap_or_default();
            // Only what a worker may say: the rest of an error is the daemon's.
            let error = v1::Error {
                code: if given.code.trim().is_empty() {
                    "UNKNOWN_ERROR".to_owned()
                } else {
                    cut(given.code, 128)
                },
                message: cut(given.message, MAX_TEXT / 4),
                severity: v1::Severity::try_from(given.severity).map_or(0, |severity| severity as i32),
                retry_after_ms: given.retry_after_ms.filter(|ms| *ms >= 0),
                reason: given.reason.map(|reason| cut(reason, MAX_TEXT / 4)),
                suggested_action: given.suggested_action.map(|action| cut(action, 1024)),
                ..v1::Error::default()
            };
            Said::Failed(v1::Failed { lease, error: Some(error), log: tail(log) })
        }
        frame => frame,
    }
}

/// Usage without what nobody could add up: work that was done does not fail because of its bill.
fn counted(mut usage: v1::Usage) -> v1::Usage {
    let is_currency = |code: &str| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    usage.cost = usage.cost.filter(|cost| is_currency(&cost.currency));
    usage
}

/// The failure that an output is, where it is no output.
fn wrong(output: &v1::Payload) -> Option<v1::Error> {
    if size(output) > INLINE_MAX {
        let message = format!(
            "an inline output of {} bytes, at most {INLINE_MAX}; larger ones are blobs",
            size(output)
        );
        return Some(codes::error(codes::OUTPUT_TOO_LARGE, message));
    }
    let violations = validate::payload(output, INLINE_MAX);
    let first = violations.first()?;
    Some(codes::error(codes::INVALID_OUTPUT, first.to_string()))
}

fn size(output: &v1::Payload) -> usize {
    match &output.data {
        Some(v1::payload::Data::Inline(bytes)) => bytes.len(),
        _ => 0,
    }
}

/// The end of a log.
fn tail(log: String) -> String {
    if log.len() <= MAX_LOG {
        return log;
    }
    let start = log.ceil_char_boundary(log.len() - MAX_LOG);
    log.get(start..).unwrap_or_default().to_owned()
}

fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
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
