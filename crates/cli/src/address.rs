//! Where the daemon is that a command means.

use std::net::SocketAddr;

use capataz_daemon::{Config, Holder, Overrides};

/// Where a daemon listens that nobody has told anything else.
const DEFAULT: &str = "http://127.0.0.1:7411";

/// Where this daemon listens, as `--addr` takes it.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The address of the daemon that is meant: the named one; else that of the daemon which has the data folder of this folder's
/// configuration; else that which the configuration says. A configuration that cannot be read says nothing: those to whom it
/// matters, such as `serve`, tell what is wrong with it.
pub fn meant(named: Option<&str>) -> String {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return named.to_owned();
    }
    Config::load(None, Overrides::default()).map_or_else(|_| DEFAULT.to_owned(), |config| of(&config))
}

fn of(config: &Config) -> String {
    let holder = Holder::of(&config.data_dir).ok().flatten();
    match holder.as_ref().and_then(Holder::listening) {
        Some(listening) => url(listening.address),
        None if is_known(&config.listen) => format!("http://{}", config.listen),
        None => DEFAULT.to_owned(),
    }
}

/// Whether this is a place, and not any free port.
fn is_known(listen: &str) -> bool {
    listen.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
}
