//! Finding and testing the browser of this machine, or the one that a person runs, for reports to a person.

pub use capataz_cdp::attach::{AttachError, Endpoint, NoBrowser, Running, discover};
pub use capataz_cdp::find::{FindError, Found, INSTALL_HELP, chromium as find};
pub use capataz_cdp::probe::{ProbeError, Probed, probe, probe_running, user};
pub use capataz_cdp::{LaunchOptions, passed_environment};
