//! A task as its handler sees it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::leases::Leases;
use super::perform;
use super::{TaskError, TaskOutput};

/// One piece of work that the daemon has given to this worker. Clones are the same task.
#[derive(Clone)]
pub struct Task(Arc<Inner>);

struct Inner {
    lease: v1::LeaseRef,
    assignment: v1::Assignment,
    /// The input, where it came as the name of a blob.
    fetched: OnceLock<v1::Payload>,
    control: Mutex<Control>,
    control_changed: Notify,
    leases: Arc<Leases>,
}

struct Control {
    deadline: Instant,
    cancel: Option<Cancel>,
}

#[derive(Clone, Copy)]
struct Cancel {
    reason: v1::CancelReason,
    grace_until: Instant,
}

/// An input that is absent reads as JSON `null`.
static NO_INPUT: v1::Payload = v1::Payload { media_type: String::new(), data: None };

impl Task {
    /// The run that the task belongs to.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.0.lease.run_id
    }

    /// The task's name within its run.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.assignment.task_name
    }

    /// The agent that the task is for.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.0.assignment.agent
    }

    /// The span of this piece of work, as a `traceparent` of W3C Trace Context: spans of the handler belong under it, and so
    /// do runs that it starts ([`Client::with_traceparent`](crate::Client::with_traceparent)).
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.0.assignment.traceparent
    }

    /// JSON Schema of the answer, for a planner of an execution; empty for other tasks.
    #[must_use]
    pub fn output_schema(&self) -> &str {
        &self.0.assignment.output_schema
    }

    /// 1 for the first attempt. A lost connection is not an attempt.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.assignment.attempt
    }

    /// How often a user has had the task done, this time included.
    #[must_use]
    pub fn activation(&self) -> u32 {
        self.0.assignment.activation
    }

    /// The same for each repetition of the same work: give it to whatever must not do the work twice.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.0.assignment.idempotency_key
    }

    /// Names this task as the parent of a run that it starts.
    #[must_use]
    pub fn parent_ref(&self) -> v1::ParentRef {
        v1::ParentRef {
            run_id: self.run_id().to_owned(),
            task: self.name().to_owned(),
            lease: self.0.lease.lease,
            activation: self.0.assignment.activation,
            attempt: self.0.assignment.attempt,
        }
    }

    /// When the task has to be done, by this machine's own time, whatever its clock on the wall shows; it moves when a
    /// user gives the task more time.
    #[must_use]
    pub fn deadline(&self) -> std::time::Instant {
        self.control().deadline.into_std()
    }

    /// The input. One that came as a blob was fetched before the handler began.
    #[must_use]
    pub fn input(&self) -> &v1::Payload {
        self.0.fetched.get().or(self.0.assignment.input.as_ref()).unwrap_or(&NO_INPUT)
    }

    /// The bytes of the input.
    #[must_use]
    pub fn input_bytes(&self) -> Bytes {
        match &self.input().data {
            Some(Data::Inline(bytes)) => bytes.clone(),
            Some(Data::Blob(_)) | None => Bytes::new(),
        }
    }

    /// The input read as JSON.
    ///
    /// # Errors
    /// The input is not JSON (`PARSE_ERROR`), or JSON of another shape (`VALIDATION_ERROR`). Neither is tried again.
    pub fn input_json<T: DeserializeOwned>(&self) -> Result<T, TaskError> {
        let bytes = self.input_bytes();
        let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(text).map_err(|error| {
            let code = if error.is_data() { "VALIDATION_ERROR" } else { "PARSE_ERROR" };
            TaskError::new(code, format!("the input cannot be read: {error}"))
        })
    }

    /// Says how far the work is: a fraction from 0 to 1, and a message for people. Only the newest of what is said
    /// within a tenth of a second is sent.
    pub async fn progress(&self, fraction: f64, message: impl Into<String>) {
        let mut message = message.into();
        super::output::truncate(&mut message, PROGRESS_MESSAGE_MAX);
        self.0.leases.progressed(&self.0.lease, |progress| {
            progress.fraction = (!fraction.is_nan()).then(|| fraction.clamp(0.0, 1.0));
            progress.message = Some(message);
        });
    }

    /// Adds a line to the task's log: whoever follows the log sees it soon. The last 16 KiB of it are sent with the result.
    pub fn log(&self, line: impl AsRef<str>) {
        self.0.leases.logged(&self.0.lease, line.as_ref());
    }

    /// Leaves what is done so far, which is kept where the task runs out of time or is cancelled. Replaces what was
    /// left before.
    ///
    /// # Errors
    /// The output is too large to be sent in a frame and could not be stored as a blob.
    pub async fn partial_output(&self, output: impl Into<TaskOutput>) -> Result<(), TaskError> {
        let payload = perform::sendable(&self.0.leases.client(), output.into().into_payload()).await?;
        self.0.leases.progressed(&self.0.lease, |progress| progress.partial_output = Some(payload));
        Ok(())
    }

    /// Returns whether the daemon has told the task to stop. A user who gives it more time withdraws that.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.control().cancel.is_some()
    }

    /// Why the task has to stop.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<v1::CancelReason> {
        self.control().cancel.map(|cancel| cancel.reason)
    }

    /// Waits until the task is told to stop. A handler that returns then, with or without an output, has stopped in
    /// time; when the grace period is over its future is dropped.
    pub async fn cancelled(&self) {
        loop {
            let mut changed = std::pin::pin!(self.0.control_changed.notified());
            changed.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn new(lease: v1::LeaseRef, assignment: v1::Assignment, leases: Arc<Leases>) -> Self {
        let control = Mutex::new(Control { deadline: after(assignment.remaining_ms), cancel: None });
        Self(Arc::new(Inner {
            lease,
            assignment,
            fetched: OnceLock::new(),
            control,
            control_changed: Notify::new(),
            leases,
        }))
    }

    pub(super) fn lease(&self) -> &v1::LeaseRef {
        &self.0.lease
    }

    pub(super) fn leases(&self) -> &Arc<Leases> {
        &self.0.leases
    }

    /// An input that has to be fetched before the handler begins.
    pub(super) fn input_blob(&self) -> Option<&v1::BlobRef> {
        match &self.input().data {
            Some(Data::Blob(blob)) => Some(blob),
            Some(Data::Inline(_)) | None => None,
        }
    }

    pub(super) fn input_fetched(&self, content: Bytes) {
        let media_type = self.input().media_type.clone();
        // Fetched once, before anybody else knows of the task.
        let _ = self.0.fetched.set(v1::Payload { media_type, data: Some(Data::Inline(content)) });
    }

    /// A repeated cancel does not prolong the grace, and may end it.
    pub(super) fn cancel(&self, reason: v1::CancelReason, grace: Duration) {
        let grace_until = from_now(grace);
        let mut control = self.control();
        let earlier = control.cancel.map_or(grace_until, |cancel| cancel.grace_until.min(grace_until));
        control.cancel = Some(Cancel { reason, grace_until: earlier });
        drop(control);
        self.0.control_changed.notify_waiters();
    }

    pub(super) fn deadline_extended(&self, remaining_ms: i64, cancel_withdrawn: bool) {
        let mut control = self.control();
        control.deadline = after(remaining_ms);
        if cancel_withdrawn {
            control.cancel = None;
        }
        drop(control);
        self.0.control_changed.notify_waiters();
    }

    pub(super) fn control_changed(&self) -> &Notify {
        &self.0.control_changed
    }

    pub(super) fn grace_until(&self) -> Option<Instant> {
        self.control().cancel.map(|cancel| cancel.grace_until)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the daemon keeps of a progress message.
const PROGRESS_MESSAGE_MAX: usize = 1024;

/// Stands for moments that no clock can show.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("run_id", &self.run_id())
            .field("name", &self.name())
            .field("agent", &self.agent())
            .field("activation", &self.activation())
            .field("attempt", &self.attempt())
            .field("lease", &self.0.lease.lease)
            .finish_non_exhaustive()
    }
}

fn after(milliseconds: i64) -> Instant {
    from_now(Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default()))
}

/// What a clock cannot show is as good as never.
fn from_now(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now + FAR)
}
