//! The commands, one module each.

pub mod act;
pub mod agents;
pub mod analytics;
pub mod ask;
pub mod backup;
pub mod browser;
mod chat;
pub mod contract;
pub mod demo;
mod doctor;
mod ending;
pub mod errors;
mod evaluation;
pub mod evidence;
pub mod fetch;
pub mod init;
mod local;
pub mod logs;
pub mod machine;
pub mod man;
pub mod memory;
pub mod mode;
mod needs;
pub mod pipeline;
pub mod rebuild;
mod report;
pub mod router;
pub mod run;
pub mod runs;
pub mod serve;
mod session_diff;
mod session_views;
pub mod sessions;
mod state_sync;
pub mod status;
mod steer;
mod task_output;
mod time_travel;

use capataz_client::{Client, ClientError};

use crate::address;
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;

pub type Outcome = Result<Exit, Failure>;

/// The span that this command is part of: runs that a command of an agent starts belong to its work.
#[expect(clippy::disallowed_methods, reason = "that is where whoever starts programs says so")]
fn own_span() -> String {
    std::env::var("TRACEPARENT").unwrap_or_default()
}

/// A connection to the daemon. It knows the address, which failures mention.
#[derive(Clone, Debug)]
pub struct Daemon {
    pub client: Client,
    addr: String,
    /// It is inside this command, and ends with it.
    is_own: bool,
}

impl Daemon {
    /// # Errors
    /// The address is invalid, or no daemon listens there.
    pub async fn connect(global: &Global) -> Result<Self, Failure> {
        Self::connect_to(&address::meant(global.addr.as_deref())?).await
    }

    /// # Errors
    /// The same as for [`connect`](Self::connect).
    pub async fn connect_to(addr: &str) -> Result<Self, Failure> {
        match Client::connect(addr).await {
            Ok(client) => {
                let client = client.with_traceparent(&own_span());
                Ok(Self { client, addr: addr.to_owned(), is_own: false })
            }
            Err(error) => Err(Failure::answer(error, addr)),
        }
    }

    /// The address that it was found at.
    pub fn address(&self) -> &str {
        &self.addr
    }

    /// Converts a refused or failed call to a failure of the command.
    pub fn failure(&self, error: ClientError) -> Failure {
        Failure::answer(error, &self.addr)
    }
}
