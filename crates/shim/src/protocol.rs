//! What the parent and the shim say to each other over the socket that is the shim's stdin.
//!
//! Parent to shim, only after [`Report::Ready`]: the length of the input ([`HEADER_BYTES`], little-endian), the input,
//! then any number of one-byte commands. End of file at any point: the parent is gone, end everything.
//!
//! Shim to parent: reports of [`REPORT_BYTES`] each, a tag and a little-endian number. The command itself never holds
//! the socket, so it cannot forge a report. End of file: the shim, and with it everything that it started, is gone.

/// Bytes of the header in front of the input.
pub const HEADER_BYTES: usize = 8;

/// Most bytes of input for one command: the same as for one blob.
pub const MAX_INPUT: u64 = 256 * 1024 * 1024;

/// Command: SIGTERM to the command's process group.
pub const TERMINATE: u8 = b'T';
/// Command: SIGKILL to the command's process group, and to its control group where it has one.
pub const KILL: u8 = b'K';

/// Bytes of one report.
pub const REPORT_BYTES: usize = 5;

/// One thing that the shim tells the parent. Numbers named `errno` are the system's; 0 where it gave none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The shim holds its lock: from here on the next parent would wait for it.
    Ready,
    /// The shim cannot do its work; the command was not started, or ended at once.
    Refused {
        errno: i32,
    },
    /// The working directory cannot be used; the command was not started.
    NoWorkingDirectory {
        errno: i32,
    },
    /// The command cannot be executed.
    NotStarted {
        errno: i32,
    },
    /// The command runs, as the leader of its own process group.
    Started {
        pid: i32,
    },
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
}

impl Report {
    pub fn encode(self) -> [u8; REPORT_BYTES] {
        let (tag, number) = match self {
            Self::Ready => (b'L', 0),
            Self::Refused { errno } => (b'R', errno),
            Self::NoWorkingDirectory { errno } => (b'D', errno),
            Self::NotStarted { errno } => (b'N', errno),
            Self::Started { pid } => (b'S', pid),
            Self::Exited { code } => (b'X', code),
            Self::Signalled { signal } => (b'G', signal),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [tag, a, b, c, d]
    }

    /// The report that these bytes are; nothing for an unknown tag.
    pub fn decode(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let [tag, a, b, c, d] = bytes;
        let number = i32::from_le_bytes([a, b, c, d]);
        Some(match tag {
            b'L' => Self::Ready,
            b'R' => Self::Refused { errno: number },
            b'D' => Self::NoWorkingDirectory { errno: number },
            b'N' => Self::NotStarted { errno: number },
            b'S' => Self::Started { pid: number },
            b'X' => Self::Exited { code: number },
            b'G' => Self::Signalled { signal: number },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn reports_survive_the_wire() {
        for report in [
            Report::Ready,
            Report::Refused { errno: 11 },
            Report::NoWorkingDirectory { errno: 20 },
            Report::NotStarted { errno: 2 },
            Report::Started { pid: i32::MAX },
            Report::Exited { code: 255 },
            Report::Signalled { signal: 9 },
        ] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([b'?', 0, 0, 0, 0]), None);
    }
}
