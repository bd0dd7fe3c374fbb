//! Where the daemon is that a command means.

use std::net::SocketAddr;

use capataz_daemon::{Holder, Whereabouts};

use crate::exit::Exit;
use crate::failure::Failure;
use capataz_display::words::{fill, words};

/// Where a daemon listens that nobody has told anything else.
const DEFAULT: &str = "http://127.0.0.1:7411";

/// Where this daemon listens, as `--addr` takes it.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The address of the daemon that is meant: the named one; else that of the `capataz.toml` of this folder; else the default.
///
/// # Errors
/// That file cannot be used, or it is of a daemon that does not run and would take any free port. No other daemon is meant then.
pub fn meant(named: Option<&str>) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let Some(here) = Whereabouts::here().map_err(Failure::of_config)? else { return Ok(DEFAULT.to_owned()) };
    of(&here).ok_or_else(|| {
        let texts = &words().status;
        // Whoever reads it may be in another folder.
        let place = std::path::absolute(&here.data_dir).unwrap_or(here.data_dir);
        let message = fill(texts.none, &[&place.display().to_string()]);
        Failure::Local { exit: Exit::Unreachable, message, hint: Some(texts.none_hint.to_owned()) }
    })
}

/// The address of the daemon that has the data folder, or else the one at which it would listen; `None` where it would take any
/// free port.
pub fn of(whereabouts: &Whereabouts) -> Option<String> {
    // A folder that belongs to another user tells nothing.
    let holder = Holder::of(&whereabouts.data_dir).ok().flatten();
    let listens = holder.as_ref().and_then(Holder::listening).map(|listening| listening.address);
    listens.or(whereabouts.listen).map(url)
}
