//! What this machine allows a shim to do, found out by doing it.

use std::io;
use std::path::PathBuf;

use rustix::process::{PidfdFlags, child_subreaper, getpid, pidfd_open, set_child_subreaper};

use crate::groups::try_control_groups;

/// What a shim can use here, or why it cannot.
#[derive(Debug)]
pub struct Abilities {
    /// Handles of processes, without which no command runs at all.
    pub process_handles: io::Result<()>,
    /// That what loses its parent comes to the shim, without which no command runs either.
    pub subreaper: io::Result<()>,
    /// The group that a command got, which is removed again. Without groups a command runs with fewer guarantees.
    pub control_groups: io::Result<PathBuf>,
}

impl Abilities {
    /// Changes nothing that lasts.
    #[must_use]
    pub fn try_out() -> Self {
        Self {
            process_handles: pidfd_open(getpid(), PidfdFlags::empty()).map(drop).map_err(io::Error::from),
            subreaper: try_subreaper(),
            control_groups: try_control_groups(),
        }
    }
}

fn try_subreaper() -> io::Result<()> {
    let before = child_subreaper()?;
    set_child_subreaper(Some(getpid()))?;
    Ok(set_child_subreaper(before)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shim_cannot_do_without_is_there_and_nothing_is_left_behind() {
        let Abilities { process_handles, subreaper, control_groups } = Abilities::try_out();
        assert!(process_handles.is_ok() && subreaper.is_ok(), "{process_handles:?} {subreaper:?}");
        assert!(child_subreaper().is_ok_and(|set| set.is_none()));
        assert!(control_groups.is_ok_and(|group| !group.exists()) || try_control_groups().is_err());
    }
}
