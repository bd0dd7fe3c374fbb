//! The end of a runtime: nothing is begun any more, what runs is waited for, and then the threads end.

use std::sync::PoisonError;

use capataz_shard::Input;
use capataz_store::RunId;

use crate::runtime::Runtime;
use crate::turning::{Message, Turning};

/// A task that a worker has in its hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtWork {
    pub run: RunId,
    pub task: String,
    pub worker: String,
}

impl Runtime {
    /// Begins nothing from now on: no run, no lease, no turn of an ask. Workers are told.
    pub async fn drain(&self) {
        let _ = self.inbox().send(Message::Input(Input::Drain)).await;
    }

    /// After [`drain`](Self::drain): ends when nothing is in the hands of a connected worker any more, and that is durable;
    /// or when the shards' thread has ended, after which nothing changes.
    pub async fn idle(&self) {
        let mut at_work = self.shared().at_work.subscribe();
        let _ = at_work.wait_for(|at_work| *at_work == Some(0)).await;
    }

    /// What connected workers do at the moment.
    #[must_use]
    pub fn at_work(&self) -> Vec<AtWork> {
        self.desk().lock().map(|turning| turning.at_work()).unwrap_or_default()
    }

    /// What is in flight is written, then the threads end.
    pub async fn stop(&self) {
        let _ = self.inbox().send(Message::Stop).await;
        let threads = std::mem::take(&mut *self.threads().lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        })
        .await;
    }
}

impl Turning {
    fn at_work(&self) -> Vec<AtWork> {
        let at_work = self.driver.attached().map(|attached| {
            let run = self.driver.run(attached.run);
            let task = run.and_then(|run| run.plan().task(attached.task)).map(|task| task.name.clone());
            AtWork {
                run: attached.run,
                task: task.unwrap_or_else(|| attached.task.to_string()),
                worker: attached.worker.to_owned(),
            }
        });
        at_work.collect()
    }

    /// Tells whoever waits for the end of what runs how much that is. A slot is taken until its task's end is durable.
    pub(crate) fn count_at_work(&self) {
        let count = self.driver.crew().slots().filter(|(.., is_taken)| *is_taken).count();
        self.shared.at_work.send_if_modified(|at_work| at_work.replace(count) != Some(count));
    }
}
