//! Finding and testing the browser of this machine, for reports to a person.

pub use capataz_cdp::find::{FindError, Found, INSTALL_HELP, chromium as find};
pub use capataz_cdp::probe::{ProbeError, Probed, probe, user};
pub use capataz_cdp::{LaunchOptions, passed_environment};
