//! [`Recording`]: a trace as it grows.

use std::io;

use capataz_crew::Now;

use super::digest::digest;
use super::{CLOSING, Header, LENGTH, MAGIC, MAX_RECORD};
use crate::driver::{Input, Output};

/// Why a turn is not in the trace. The trace ends before it.
#[derive(Debug, thiserror::Error)]
pub enum Unrecorded {
    #[error("the trace has as many bytes as it may have")]
    Full,
    #[error("an input has more bytes than a record may have")]
    TooLarge,
    #[error("an input that cannot be written down")]
    NotWritable(#[source] postcard::Error),
}

/// A trace as it grows. Whoever writes it takes the bytes, in whatever pieces.
#[derive(Debug)]
pub struct Recording {
    bytes: Vec<u8>,
    /// Bytes that there is still room for.
    room: u64,
    turns: u64,
}

impl Recording {
    /// Begins a trace of so many bytes at most.
    ///
    /// # Errors
    /// There is no room for its header.
    pub fn begin(header: &Header, limit: u64) -> Result<Self, Unrecorded> {
        let mut recording = Self { bytes: MAGIC.to_vec(), room: limit, turns: 0 };
        recording.room = limit.checked_sub(MAGIC.len() as u64).ok_or(Unrecorded::Full)?;
        recording.record(header, 0)?;
        Ok(recording)
    }

    /// Records an input that is about to be handled. [`Recording::outputs`] is to follow.
    ///
    /// # Errors
    /// The input is not in the trace, and nothing after it may be.
    pub fn input(&mut self, now: Now, input: &Input) -> Result<(), Unrecorded> {
        self.record(&(now, input), CLOSING)?;
        self.turns += 1;
        Ok(())
    }

    /// Records what the input has led to.
    pub fn outputs(&mut self, outputs: &[Output]) {
        let count = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        self.bytes.extend(digest(outputs).to_le_bytes());
        self.bytes.extend(count.to_le_bytes());
    }

    /// Turns that were recorded.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Bytes that were not taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the bytes that were not taken yet.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Writes a record, where there is room for it and `after` bytes more.
    fn record(&mut self, value: &impl serde::Serialize, after: usize) -> Result<(), Unrecorded> {
        let begin = self.bytes.len();
        let around = (LENGTH + after) as u64;
        let room = usize::try_from(self.room.saturating_sub(around)).unwrap_or(usize::MAX);
        self.bytes.extend([0; LENGTH]);
        let mut bounded = Bounded { bytes: &mut self.bytes, room: room.min(MAX_RECORD), is_over: false };
        let written = postcard::to_io(value, &mut bounded).map(|_| ());
        let is_over = bounded.is_over;
        if let Err(error) = written {
            self.bytes.truncate(begin);
            return Err(match is_over {
                true if room < MAX_RECORD => Unrecorded::Full,
                true => Unrecorded::TooLarge,
                false => Unrecorded::NotWritable(error),
            });
        }
        let length = self.bytes.len() - begin - LENGTH;
        // A record is never longer than four bytes can say.
        let prefix = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(place) = self.bytes.get_mut(begin..begin + LENGTH) {
            place.copy_from_slice(&prefix);
        }
        self.room = self.room.saturating_sub(around + length as u64);
        Ok(())
    }
}

/// Bytes with an end.
struct Bounded<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
    is_over: bool,
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            self.is_over = true;
            return Err(io::ErrorKind::StorageFull.into());
        };
        self.room = room;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
