//! What the parent tells the shim on its command line.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// The two descriptors that a command may inherit beside its standard streams.
pub const FIRST_PIPE: RawFd = 3;
/// See [`FIRST_PIPE`].
pub const SECOND_PIPE: RawFd = 4;

const LOCK: &str = "--lock";
const FOLDER: &str = "--folder";
const REMOVE: &str = "--remove";
const PIPES: &str = "--pipes";
const COMMAND: &str = "--";

/// One command that a shim runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Where it works; nothing: where the parent does.
    pub working_directory: Option<PathBuf>,
    /// A folder that is removed with all its content when everything that the command started has ended, whoever ended
    /// it. It is the command's own: whoever names it here gives it away.
    pub remove: Option<PathBuf>,
    /// True when the command gets the descriptors [`FIRST_PIPE`] and [`SECOND_PIPE`], which the shim inherited.
    pub pipes: bool,
}

impl Invocation {
    pub(crate) fn to_arguments(&self, lock: PathBuf) -> Vec<OsString> {
        let Self { program, arguments, working_directory, remove, pipes } = self;
        let mut written = vec![OsString::from(LOCK), lock.into()];
        for (name, path) in [(FOLDER, working_directory), (REMOVE, remove)] {
            if let Some(path) = path {
                written.extend([name.into(), path.clone().into()]);
            }
        }
        written.extend(pipes.then(|| PIPES.into()));
        written.extend([COMMAND.into(), program.clone()]);
        written.extend(arguments.iter().cloned());
        written
    }

    /// The lock file, and the command.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<(PathBuf, Self)> {
        let mut lock = None;
        let mut invocation = Self::default();
        loop {
            match arguments.next()?.as_os_str().to_str()? {
                LOCK => lock = Some(PathBuf::from(arguments.next()?)),
                FOLDER => invocation.working_directory = Some(arguments.next()?.into()),
                REMOVE => invocation.remove = Some(arguments.next()?.into()),
                PIPES => invocation.pipes = true,
                COMMAND => break,
                _ => return None,
            }
        }
        invocation.program = arguments.next()?;
        invocation.arguments = arguments.collect();
        Some((lock?, invocation))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[track_caller]
    fn check(invocation: &Invocation) {
        let arguments = invocation.to_arguments("/locks/a".into());
        let expected = Some(("/locks/a".into(), invocation.clone()));
        assert_eq!(Invocation::parse(arguments.into_iter()), expected);
    }

    #[test]
    fn the_shim_reads_what_the_parent_writes() {
        check(&Invocation { program: "true".into(), ..Invocation::default() });
        check(&Invocation {
            program: OsStr::from_bytes(b"/bin/\xff").to_owned(),
            arguments: ["--lock", "--", ""].map(OsString::from).into(),
            working_directory: Some("--pipes".into()),
            remove: Some("/a b".into()),
            pipes: true,
        });
    }

    #[test]
    fn anything_else_is_refused() {
        for arguments in [&[][..], &["--lock"], &["--lock", "a", "--"], &["--", "a"], &["--lock", "a", "b"]] {
            assert_eq!(Invocation::parse(arguments.iter().map(OsString::from)), None, "{arguments:?}");
        }
    }
}
