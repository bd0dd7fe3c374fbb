//! The parts of the report. Each starts its own daemon on an empty folder.

mod events;
mod floors;
mod footprint;
mod recovery;
mod runs;
mod wide;

pub(super) use events::events;
pub(super) use floors::{Floors, floors};
pub(super) use footprint::footprint;
pub(super) use recovery::recovery;
pub(super) use runs::{plans, single};
pub(super) use wide::wide;

use std::sync::Arc;
use std::time::Duration;

use capataz_client::Client;

use super::load::{Load, Measured, closed_loop};
use super::stored::Database;
use super::work::Work;
use super::{Outcome, children, process};

const CONCURRENCIES: [usize; 3] = [1, 64, 256];

/// What the daemon had used at one moment.
#[derive(Clone, Copy, Debug)]
struct Used {
    cpu: Duration,
    transactions: u32,
    written: u64,
}

impl Used {
    fn now(pid: u32, database: &Database) -> Outcome<Self> {
        Ok(Self {
            cpu: process::cpu_time(pid)?,
            transactions: database.transactions()?,
            written: process::written_bytes(pid)?,
        })
    }
}

/// Executes runs in a closed loop.
async fn execute(daemon: &children::Daemon, load: Load, work: Arc<Work>) -> Outcome<Measured<Used>> {
    let clients: Arc<[Client]> = daemon.clients(load.connections()).await?.into();
    let (pid, database) = (daemon.pid(), daemon.database());
    closed_loop(
        load,
        move || Used::now(pid, &database),
        move |caller| {
            let (clients, work) = (Arc::clone(&clients), Arc::clone(&work));
            async move {
                let client = clients.get(caller % clients.len()).ok_or("no client")?;
                work.execute(client).await
            }
        },
    )
    .await
}
