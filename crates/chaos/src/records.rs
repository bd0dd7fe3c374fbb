//! What the processes write into their journals. The verdict knows nothing but these and the public API.

use serde::{Deserialize, Serialize};

/// A call that changes something, and whose answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    Start,
    /// One of several starts in one request.
    StartBatch,
    /// Start and wait for the end; it is unanswered for so long that it proves nothing about appends in flight.
    Execute,
    Pause,
    Resume,
    Cancel,
    Extend,
    TakeBack,
    GoBack,
    /// A checkpoint of an execution.
    Checkpoint,
    /// A run that goes on where another one has ended.
    Continue,
    /// A run that goes on from the middle of another one.
    Fork,
    /// The answer to a question.
    Resolve,
    /// The acceptance of a suggestion.
    Accept,
}

/// A client's journal. `key` is the idempotency key of a start, the request id of anything else.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum ClientRecord {
    /// Written before the call is made.
    Sent { at: u64, call: Call, index: u64, key: String, attempt: u32 },
    /// Nobody knows what became of it: it is repeated under the same key.
    Broken { at: u64, key: String, attempt: u32, error: String },
    /// A start's acknowledgement.
    Started { at: u64, key: String, attempt: u32, run: String, created: bool },
    /// A command's acknowledgement.
    Done { at: u64, key: String, run: String, seq: u64 },
    /// The acknowledgement of a suggestion's acceptance; `request` is that of the ask whose answer suggested it.
    Accepted { at: u64, key: String, session: String, request: String, seq: u64 },
    /// The daemon's final word on a call that it did not carry out; `run` where that may be so.
    Refused { at: u64, key: String, run: Option<String>, code: String },
    /// The end of a run, as the daemon told it.
    Ended { at: u64, index: u64, run: String, outcome: i32 },
}

/// What a worker was given, by the names that the log has for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) run: String,
    pub(crate) task: String,
    pub(crate) activation: u32,
    pub(crate) attempt: u32,
    pub(crate) lease: u64,
}

/// A worker's journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum WorkerRecord {
    /// Written before the work begins.
    Began {
        at: u64,
        work: Work,
    },
    Ended {
        at: u64,
        work: Work,
        completed: bool,
    },
    /// The daemon has confirmed a completed result.
    Accepted {
        at: u64,
        run: String,
        lease: u64,
    },
    /// The daemon has refused a result.
    Refused {
        at: u64,
        run: String,
        lease: u64,
        reason: i32,
    },
}

/// The journal of the process agent's commands, which know of no runs and leases.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum CommandRecord {
    Began { at: u64, process: u32, key: String, task: String },
    Ended { at: u64, process: u32, key: String, task: String },
}

/// What the site saw of a script: one performance of one of its actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteRecord {
    pub(crate) key: String,
    pub(crate) action: String,
}

/// A subscriber's journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum SubscriberRecord {
    Event {
        run: String,
        seq: u64,
        /// The digest of the event's bytes.
        hash: u64,
        cursor: Vec<u8>,
    },
    /// The subscriber dropped its stream and resumes here.
    Dropped { cursor: Vec<u8> },
}

/// What the parent did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Fault {
    /// SIGKILL of the daemon, and of as many of its shims with it. Taken before the signal was sent.
    DaemonKilled {
        at: u64,
        shims: u64,
    },
    /// The daemon was asked for something and answered.
    DaemonReady {
        at: u64,
    },
    WorkerKilled {
        at: u64,
        worker: String,
    },
    ClientKilled {
        at: u64,
        client: String,
    },
    SubscriberKilled {
        at: u64,
        subscriber: String,
    },
    /// SIGSTOP.
    WorkerStopped {
        at: u64,
        worker: String,
    },
    /// SIGCONT.
    WorkerContinued {
        at: u64,
        worker: String,
        lost_leases: u64,
    },
    ConnectionsCut {
        at: u64,
        count: u64,
    },
    /// SIGKILL of a shim alone.
    ShimKilled {
        at: u64,
    },
    /// SIGKILL of a script's browser.
    BrowserKilled {
        at: u64,
    },
    /// SIGSTOP of the daemon, until `DaemonContinued`.
    DaemonStopped {
        at: u64,
    },
    /// SIGCONT.
    DaemonContinued {
        at: u64,
    },
    /// The daemon's clock on the wall was set by so much.
    ClockSet {
        at: u64,
        by_ms: i64,
    },
    /// The daemon's disk failed for a while, in so many operations.
    DiskFailed {
        at: u64,
        operations: u64,
    },
    /// The most memory that a daemon had resident until its end, in KiB.
    PeakMemory {
        at: u64,
        kib: u64,
    },
}
