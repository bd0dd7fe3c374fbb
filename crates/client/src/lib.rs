//! Rust client and worker SDK of Capataz.
//!
//! What it is: the calls of the daemon's API with retries where they are safe, an event stream that survives broken
//! connections, and [`worker`], which turns an async function into an agent.
//!
//! What it is not: it decides nothing. Policies, retries of tasks and timeouts are the daemon's, and requests are sent
//! as they are given; the one thing that is filled in is an empty `request_id`.
//!
//! Where to begin: [`Client`], then [`EventStream`]; for workers [`worker::Worker`] and `examples/hello_worker.rs`.
//!
//! ```no_run
//! use capataz_client::{Client, ClientError, v1};
//!
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::connect("http://127.0.0.1:7411").await?;
//! let request = v1::StartRunRequest {
//!     idempotency_key: Some("nightly-2031-07-04".to_owned()),
//!     ..v1::StartRunRequest::of_plan(v1::Plan::default())
//! };
//! let ended = client.execute_run(request, None).await?;
//! println!("{}: {:?}", ended.run_id, ended.result);
//! # Ok(())
//! # }
//! ```

mod client;
mod error;
mod events;
mod executor;
mod retry;
pub mod worker;

pub use capataz_contracts::v1;
pub use client::{Client, ExportStream};
pub use error::{ClientError, FieldViolation};
pub use events::{Delivery, EventStream};
pub use retry::RetryOptions;
