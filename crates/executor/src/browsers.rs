//! Which browser this machine has, and whether it starts, for whoever has to say so to a person.

pub use capataz_cdp::find::{FindError, Found, INSTALL_HELP, chromium as find};
pub use capataz_cdp::probe::{ProbeError, Probed, probe, user};
pub use capataz_cdp::{LaunchOptions, passed_environment};
