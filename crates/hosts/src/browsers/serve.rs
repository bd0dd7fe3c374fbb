//! The browsers as a worker: one activity of a script, or one call of an execution, for each assignment.

use std::sync::Arc;

use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE, OUTCOME_BYTES_MAX};
use capataz_contracts::v1::{self, payload::Data};
use capataz_policy::codes;
use prost::Message;
use tokio::sync::mpsc;

use super::Browsers;
use crate::serve::{Answer, Order, Reporter, Serve};

/// Activities that may be in work at a time, the ones that wait for a browser among them.
const SLOTS: u32 = 1_024;

/// What the ids of workers with browsers begin with.
pub const BROWSER_HOST: &str = "capataz-browser-host";

impl Serve for Browsers {
    fn name(&self) -> &'static str {
        BROWSER_HOST
    }

    fn agents(&self) -> Vec<v1::Agent> {
        vec![browser_agent()]
    }

    fn inline_max(&self) -> usize {
        OUTCOME_BYTES_MAX
    }

    fn browsers(&self) -> Vec<String> {
        self.all().into_iter().map(|(run, _)| run).collect()
    }

    fn keep_browser(self: Arc<Self>, run: String) {
        self.begin_to_put_away(run);
    }

    async fn browser_ended(&self) -> String {
        self.next_end().await
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        let run = assignment.lease.map(|lease| lease.run_id).unwrap_or_default();
        let task = match assignment.input.and_then(|input| input.data) {
            Some(Data::Inline(bytes)) => v1::BrowserTask::decode(bytes).ok(),
            Some(Data::Blob(_)) | None => None,
        };
        let Some(task) = task else {
            return Answer::failed(codes::INVALID_ARGUMENT, "the input is not a task of a browser");
        };
        tokio::select! {
            outcome = self.answer(&run, task, &reporter) => match outcome {
                Ok(outcome) => {
                    let output = v1::Payload {
                        media_type: BROWSER_MEDIA_TYPE.to_owned(),
                        data: Some(Data::Inline(outcome.encode_to_vec().into())),
                    };
                    Answer::Completed { output, log: String::new(), usage: None }
                }
                Err(error) => Answer::Failed { error: Box::new(error), log: String::new(), usage: None },
            },
            // What was begun ends with the future that is dropped here.
            () = cancelled(orders) => Answer::Cancelled { partial_output: None, log: String::new() },
        }
    }
}

/// Waits for a cancel; for ever where none comes.
async fn cancelled(mut orders: mpsc::Receiver<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Cancel { .. }) => return,
            // What was cancelled has ended at once.
            Some(Order::Withdraw) => {}
            None => std::future::pending().await,
        }
    }
}

/// The agent of every activity of a script.
pub fn browser_agent() -> v1::Agent {
    v1::Agent {
        name: BROWSER_AGENT.to_owned(),
        category: "browser".to_owned(),
        kind: v1::AgentKind::Tool as i32,
        contract_version: "1.0.0".to_owned(),
        max_concurrency: SLOTS,
        ..v1::Agent::default()
    }
}
