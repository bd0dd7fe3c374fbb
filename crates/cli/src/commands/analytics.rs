//! `capataz analytics`.

use std::time::Duration;

use capataz_contracts::{json, v1};
use capataz_display::analytics as display;

use super::{Daemon, Outcome};
use crate::args::Global;
use crate::exit::Exit;
use crate::output::Output;
use crate::watch::follow::now_ms;

pub async fn analytics(since: Option<Duration>, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    let since_ms = since.map_or(0, |since| {
        let back = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        now_ms().saturating_sub(back).max(0)
    });
    let told = daemon.client.get_analytics(v1::GetAnalyticsRequest { since_ms }).await;
    let told = told.map_err(|error| daemon.failure(error))?;
    match out.json {
        true => out.document(&json::print("capataz.v1.GetAnalyticsResponse", &told)),
        false => out.line(&display::analytics(&told, out.paint)),
    }
    Ok(Exit::Ok)
}
