//! `/livez` and `/readyz`, for whatever starts and watches daemons and speaks no gRPC; and how long the core may take.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use capataz_runtime::Runtime;
use capataz_shard::Declined;
use tonic::Status;

use super::Health;
use crate::patience::within;
use crate::status;

/// How long the core may take to answer before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both of them. What they say is one word, for people.
pub(super) fn routes(runtime: Runtime, health: Health) -> Router {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready)).with_state((runtime, health))
}

type Probed = State<(Runtime, Health)>;

/// Whether the core answers at all: where it does not, the daemon has to be started again.
async fn live(State((runtime, _)): Probed) -> (StatusCode, &'static str) {
    if answers(&runtime).await {
        (StatusCode::OK, "live\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "hangs\n")
    }
}

/// Whether it begins new work.
async fn ready(State((runtime, health)): Probed) -> (StatusCode, &'static str) {
    if health.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "drains\n");
    }
    if answers(&runtime).await {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "hangs\n")
    }
}

/// What the core answers at once, or that it hangs.
pub(super) async fn in_time<T>(asked: impl Future<Output = Result<T, Declined>>) -> Result<T, Status> {
    match within(PATIENCE, asked).await {
        Some(answered) => answered.map_err(|declined| status::declined(&declined)),
        None => Err(status::hangs()),
    }
}

async fn answers(runtime: &Runtime) -> bool {
    let asked = within(PATIENCE, runtime.agents(None, 1)).await;
    // One that is overloaded answers that it is.
    !matches!(asked, None | Some(Err(Declined::Unavailable)))
}
