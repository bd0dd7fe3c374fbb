//! From an assignment to its result: fetch the input, run the handler, mind the cancel, hand over the output.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;
use capataz_contracts::validate::INLINE_MAX;
use tokio::time::Instant;

use super::{Handler, HandlerFuture, Task, TaskError, TaskOutput};
use crate::retry::Attempts;
use crate::{Client, ClientError, RetryOptions};

/// How a lease ended on this side.
#[derive(Debug)]
pub(super) enum Outcome {
    Completed(v1::Payload, Option<v1::Usage>),
    /// What was used of models was used all the same.
    Failed(Box<v1::Error>, Option<v1::Usage>),
    Cancelled(Option<v1::Payload>),
}

pub(super) async fn perform(task: Task, handler: Handler) {
    let outcome = outcome(&task, &handler).await;
    task.leases().settle(task.lease(), outcome);
}

async fn outcome(task: &Task, handler: &Handler) -> Outcome {
    let answered = run(task, handler).await;
    let is_cancelled = answered.is_none() || task.is_cancelled();
    let (sent, usage) = match answered {
        Some(Ok(output)) => {
            let (payload, usage) = output.into_parts();
            (sendable(&task.leases().client(), payload).await.map(Some), usage)
        }
        Some(Err(error)) => (Err(error), None),
        None => (Ok(None), None),
    };
    match sent {
        sent if is_cancelled => Outcome::Cancelled(sent.ok().flatten()),
        Ok(payload) => Outcome::Completed(payload.unwrap_or_default(), usage),
        Err(error) => Outcome::Failed(error.into_error(), usage),
    }
}

/// The handler's answer; `None` where its grace ended first. The handler's future is gone when this returns.
async fn run(task: &Task, handler: &Handler) -> Option<Result<TaskOutput, TaskError>> {
    let mut work = pin!(async {
        if let Some(blob) = task.input_blob() {
            let content = fetch(&task.leases().client(), blob).await?;
            task.input_fetched(content);
        }
        CatchPanic::new(handler, task.clone()).await
    });
    loop {
        let mut changed = pin!(task.control_changed().notified());
        changed.as_mut().enable();
        let grace_until = task.grace_until();
        tokio::select! {
            biased;
            answer = &mut work => return Some(answer),
            () = &mut changed => {}
            () = reached(grace_until) => return None,
        }
    }
}

async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The payload itself where a frame takes it, else one that names it as a blob. Where the daemon is away it waits: the
/// lease decides how long that makes sense.
pub(super) async fn sendable(client: &Client, payload: v1::Payload) -> Result<v1::Payload, TaskError> {
    let v1::Payload { media_type, data } = payload;
    let data = match data {
        Some(Data::Inline(content)) if content.len() > INLINE_MAX => {
            let stored = client.put_blob_with(&RetryOptions::forever(), content).await;
            Some(Data::Blob(stored.map_err(|error| blob_error("output", &error))?))
        }
        data => data,
    };
    Ok(v1::Payload { media_type, data })
}

async fn fetch(client: &Client, blob: &v1::BlobRef) -> Result<Bytes, TaskError> {
    let options = RetryOptions::forever();
    let mut attempts = Attempts::new(&options);
    loop {
        match client.get_blob(&blob.blake3).await {
            Ok(content) => return Ok(content),
            Err(error) => attempts.after(error).await.map_err(|error| blob_error("input", &error))?,
        }
    }
}

fn blob_error(what: &str, error: &ClientError) -> TaskError {
    let code = error.code().unwrap_or("API_ERROR");
    TaskError::new(code, format!("the {what}'s blob: {error}"))
}

/// Makes a handler's panic its answer.
struct CatchPanic(Result<HandlerFuture, Option<TaskError>>);

impl CatchPanic {
    fn new(handler: &Handler, task: Task) -> Self {
        // Nothing of what a handler leaves behind is looked at again, except through its own locks, which know.
        Self(catch_unwind(AssertUnwindSafe(|| handler(task))).map_err(|panic| Some(logic_error(&*panic))))
    }
}

impl Future for CatchPanic {
    type Output = Result<TaskOutput, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(future) => catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)))
                .unwrap_or_else(|panic| Poll::Ready(Err(logic_error(&*panic)))),
            Err(error) => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
        }
    }
}

fn logic_error(panic: &(dyn Any + Send)) -> TaskError {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it says no more");
    TaskError::new("LOGIC_ERROR", format!("the handler panicked: {message}"))
}
