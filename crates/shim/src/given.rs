//! What a program changes for itself at its start, and commands get as the program was given it.
//!
//! Files of the program are its owner's alone, and it takes as many descriptors as it may have. Commands are others' work:
//! they make files as their user wants, and a program that asks `select` cannot live with high descriptors.

use std::ffi::OsString;
use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

const UMASK: &str = "--umask";
const DESCRIPTORS: &str = "--descriptors";

/// Nothing for the group and for others.
const OWNER_ONLY: Mode = Mode::RWXG.union(Mode::RWXO);

/// What was given to this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    umask: Mode,
    /// The soft limit; nothing where there is none.
    descriptors: Option<u64>,
}

impl Given {
    /// Changes both for this process. To be called once, before it makes files or threads.
    #[must_use]
    pub fn take_over() -> Self {
        let limit = getrlimit(Resource::Nofile);
        // Where it may not be raised, it stays as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        Self { umask: umask(OWNER_ONLY), descriptors: limit.current }
    }

    /// The arguments of a shim that gives both to its command.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut written = vec![UMASK.into(), self.umask.bits().to_string().into()];
        if let Some(descriptors) = self.descriptors {
            written.extend([DESCRIPTORS.into(), descriptors.to_string().into()]);
        }
        written
    }

    /// Gives back what the arguments say, as those of [`Given::arguments`] do. Returns the others.
    ///
    /// # Errors
    /// They are not what was written, or cannot be given back.
    pub(crate) fn give_back(mut arguments: &[OsString]) -> io::Result<&[OsString]> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        while let [name, value, rest @ ..] = arguments
            && (name == UMASK || name == DESCRIPTORS)
        {
            let value = value.to_str().ok_or_else(invalid)?;
            if name == UMASK {
                umask(Mode::from_bits_truncate(value.parse().map_err(|_| invalid())?));
            } else {
                let maximum = getrlimit(Resource::Nofile).maximum;
                let current = Some(value.parse().map_err(|_| invalid())?);
                setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
            }
            arguments = rest;
        }
        Ok(arguments)
    }
}
