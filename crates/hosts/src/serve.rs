//! What a worker within the daemon does, apart from how it speaks with a shard.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_contracts::validate::INLINE_MAX;
use capataz_policy::codes::Code;
use tokio::sync::{Notify, mpsc};

use crate::protocol::Lease;

/// One kind of work.
pub trait Serve: Send + Sync + 'static {
    /// What the ids of its workers begin with.
    fn name(&self) -> &'static str;

    /// What it serves; as many assignments at once as their `max_concurrency` allows.
    fn agents(&self) -> Vec<v1::Agent>;

    /// The bytes that an output may hold inline.
    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    /// The runs whose browsers it has.
    fn browsers(&self) -> Vec<String> {
        Vec::new()
    }

    /// The run's browser is to be closed, and its state to be kept.
    fn keep_browser(self: Arc<Self>, _run: String) {}

    /// Waits for the next browser that ends by itself, and names its run.
    fn browser_ended(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Does the work of one assignment. The future is dropped where nobody waits for the answer any more: what it has
    /// begun ends then. Orders may be passed over; then the work goes on until its lease is revoked.
    fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> impl Future<Output = Answer> + Send + 'static;
}

/// What a shard asks of work that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End, and answer within `grace`. A later cancel may shorten the grace.
    Cancel { grace: Duration },
    /// Go on: the cancel before no longer counts.
    Withdraw,
}

/// How one assignment went. `log` may be long: its end is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Completed {
        output: v1::Payload,
        log: String,
        /// What it used of models.
        usage: Option<v1::Usage>,
    },
    Failed {
        error: Box<v1::Error>,
        log: String,
        /// What it used of models all the same.
        usage: Option<v1::Usage>,
    },
    /// Ended because a cancel asked for it.
    Cancelled { partial_output: Option<v1::Payload>, log: String },
}

impl Answer {
    /// A failure of which the message says everything.
    pub fn failed(code: Code, message: impl Into<String>) -> Self {
        let error = v1::Error { code: code.into(), message: message.into(), ..v1::Error::default() };
        Self::Failed { error: Box::new(error), log: String::new(), usage: None }
    }

    /// The same, where so much was used of models all the same.
    pub(crate) fn having_used(mut self, used: Option<v1::Usage>) -> Self {
        if let Self::Failed { usage, .. } | Self::Completed { usage, .. } = &mut self {
            *usage = used;
        }
        self
    }
}

/// How one assignment gets on. Each report has all that is known, not only what is new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is being done.
    pub message: Option<String>,
    /// The end of the output so far.
    pub partial_tail: Option<String>,
    /// The end of the log so far.
    pub log: Option<v1::LogTail>,
}

/// Says how one assignment gets on. Only the newest report counts, and a shard that is busy may never see the others.
#[derive(Clone, Debug)]
pub struct Reporter {
    lease: Lease,
    news: Arc<News>,
}

impl Reporter {
    pub(crate) fn new(lease: Lease, news: Arc<News>) -> Self {
        Self { lease, news }
    }

    /// What is being done, of work that shows nothing of its output.
    pub fn say(&self, message: impl Into<String>) {
        self.report(Report { message: Some(message.into()), ..Report::default() });
    }

    pub fn report(&self, report: Report) {
        self.news.put(self.lease.clone(), report);
    }
}

/// The newest report of each assignment, until it is said.
#[derive(Debug, Default)]
pub(crate) struct News {
    newest: Mutex<BTreeMap<Lease, Report>>,
    bell: Notify,
}

impl News {
    fn put(&self, lease: Lease, report: Report) {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).insert(lease, report);
        self.bell.notify_one();
    }

    /// Waits until there may be some.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(crate) fn take(&self) -> BTreeMap<Lease, Report> {
        mem::take(&mut *self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
