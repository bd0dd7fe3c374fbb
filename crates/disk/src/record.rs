//! What the recorder wrote: changes of files and names, syncs, notes of what was acknowledged, and calls. `preload/recorder.c`
//! has the format.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use bytes::{Buf, Bytes};

use crate::Failure;
use crate::facts::Fact;

/// The bytes of an entry's length.
const LENGTH: usize = 4;

/// One record. Files are named by their numbers, which a removed file's successor may have again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A file that was not there was opened.
    Created {
        file: u64,
        path: String,
    },
    Truncated {
        file: u64,
        length: u64,
    },
    Written {
        file: u64,
        offset: u64,
        bytes: Bytes,
    },
    /// What was changed before this is durable if the sync ends well.
    SyncBegun {
        token: u64,
        file: u64,
        is_folder: bool,
        path: String,
    },
    SyncEnded {
        token: u64,
        how: Ended,
    },
    Renamed {
        from: String,
        to: String,
    },
    Linked {
        from: String,
        to: String,
    },
    /// A file or an empty folder.
    Removed {
        path: String,
    },
    FolderMade {
        path: String,
    },
    /// Something was done that the recorder does not follow.
    Unseen {
        path: String,
    },
    Note(Fact),
    /// A call that could fail.
    Called(Call),
    /// A call that was made to fail.
    Failed(Call),
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    /// The system takes for written what it could not write.
    Failed,
    /// Nothing was done.
    Interrupted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// From 1, among the calls of this name to files of the folder.
    pub number: u64,
    pub name: String,
    pub path: String,
}

/// Reads a record. The last entry may not be whole, because a program that is killed is killed within a call.
///
/// # Errors
/// The file cannot be read, or is not a record.
pub fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let mut bytes = Bytes::from(std::fs::read(path)?);
    let mut records = Vec::new();
    while let Some(entry) = next_entry(&mut bytes) {
        records.push(parse(entry)?);
    }
    Ok(records)
}

/// Removes the last entry of a killed program if it is not whole, so that another program can go on with the record.
///
/// # Errors
/// The file cannot be read or written.
pub fn mend(path: &Path) -> Result<(), Failure> {
    let mut bytes = Bytes::from(std::fs::read(path)?);
    let all = bytes.len();
    while next_entry(&mut bytes).is_some() {}
    if bytes.has_remaining() {
        File::options().write(true).open(path)?.set_len((all - bytes.remaining()) as u64)?;
    }
    Ok(())
}

/// Takes the next entry if it is whole.
fn next_entry(bytes: &mut Bytes) -> Option<Bytes> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    if bytes.len() - LENGTH < length {
        return None;
    }
    bytes.advance(LENGTH);
    Some(bytes.split_to(length))
}

fn parse(mut bytes: Bytes) -> Result<Record, Failure> {
    let record = match bytes.try_get_u8()? {
        b'O' => Record::Created { file: bytes.try_get_u64_le()?, path: text(&mut bytes)? },
        b'T' => Record::Truncated { file: bytes.try_get_u64_le()?, length: bytes.try_get_u64_le()? },
        b'W' => Record::Written {
            file: bytes.try_get_u64_le()?,
            offset: bytes.try_get_u64_le()?,
            bytes: content(&mut bytes)?,
        },
        b'B' => Record::SyncBegun {
            token: bytes.try_get_u64_le()?,
            file: bytes.try_get_u64_le()?,
            is_folder: bytes.try_get_u64_le()? != 0,
            path: text(&mut bytes)?,
        },
        b'E' => Record::SyncEnded {
            token: bytes.try_get_u64_le()?,
            how: match bytes.try_get_u64_le()? {
                1 => Ended::Done,
                2 => Ended::Interrupted,
                _ => Ended::Failed,
            },
        },
        b'R' => Record::Renamed { from: text(&mut bytes)?, to: text(&mut bytes)? },
        b'L' => Record::Linked { from: text(&mut bytes)?, to: text(&mut bytes)? },
        b'U' => Record::Removed { path: text(&mut bytes)? },
        b'M' => Record::FolderMade { path: text(&mut bytes)? },
        b'X' => Record::Unseen { path: text(&mut bytes)? },
        b'N' => Record::Note(serde_json::from_slice(&content(&mut bytes)?)?),
        b'C' => Record::Called(call(&mut bytes)?),
        b'F' => Record::Failed(call(&mut bytes)?),
        kind => return Err(format!("the record has an entry of the unknown kind {kind}").into()),
    };
    if bytes.has_remaining() {
        return Err(format!("an entry of the record has more than its fields: {record:?}").into());
    }
    Ok(record)
}

fn call(bytes: &mut Bytes) -> Result<Call, Failure> {
    Ok(Call { number: bytes.try_get_u64_le()?, name: text(bytes)?, path: text(bytes)? })
}

fn content(bytes: &mut Bytes) -> Result<Bytes, Failure> {
    let length = usize::try_from(bytes.try_get_u64_le()?)?;
    if bytes.remaining() < length {
        return Err("an entry of the record is too short".into());
    }
    Ok(bytes.split_to(length))
}

fn text(bytes: &mut Bytes) -> Result<String, Failure> {
    Ok(String::from_utf8(content(bytes)?.to_vec())?)
}

/// Puts notes among the records of a program.
#[derive(Debug)]
pub struct Notes {
    file: File,
}

impl Notes {
    /// # Errors
    /// The record cannot be opened.
    pub fn open(record: &Path) -> std::io::Result<Self> {
        Ok(Self { file: File::options().append(true).create(true).open(record)? })
    }

    /// Notes what is known from now on. What was done before is in the record before it.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn note(&mut self, fact: &Fact) -> Result<(), Failure> {
        let content = serde_json::to_vec(fact)?;
        let mut entry = Vec::with_capacity(content.len() + 13);
        entry.extend_from_slice(&u32::try_from(content.len() + 9)?.to_le_bytes());
        entry.push(b'N');
        entry.extend_from_slice(&(content.len() as u64).to_le_bytes());
        entry.extend_from_slice(&content);
        // One write, so that it does not mix with an entry of the recorder.
        Ok(self.file.write_all(&entry)?)
    }
}
