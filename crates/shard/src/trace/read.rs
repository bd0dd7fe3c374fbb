//! [`Replay`]: a trace, told to a driver once more.

use std::io::{self, Read};

use capataz_crew::Now;

use super::digest::digest;
use super::{CLOSING, Header, LENGTH, MAGIC, MAX_RECORD};
use crate::driver::{Driver, Input, Output};

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the trace cannot be read")]
    Io(#[from] io::Error),
    #[error("the file is not a trace of this format")]
    NotATrace,
    /// The first turn is 1; 0 is the header.
    #[error("record {record} cannot be read: another build wrote the trace, or it is damaged")]
    Damaged { record: u64 },
}

/// One turn, replayed.
#[derive(Debug)]
pub struct Turn {
    /// From 1.
    pub number: u64,
    pub now: Now,
    pub input: Input,
    /// What the input has led to now.
    pub outputs: Vec<Output>,
    pub verdict: Verdict,
}

/// The outputs beside those of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// The daemon had others, and so many of them.
    Different {
        recorded: u32,
    },
    /// The daemon did not end the turn, or did not come to write down that it did. It is the trace's last one.
    Unfinished,
}

/// What became of a trace.
#[derive(Debug)]
pub struct Replayed {
    /// Turns that were replayed.
    pub turns: u64,
    /// Their outputs.
    pub outputs: u64,
    /// The first turn whose outputs differ. What follows it was not replayed.
    pub different: Option<Turn>,
    /// The last turn, where the daemon did not end it.
    pub unfinished: Option<Turn>,
}

/// Replays a trace up to its end, or to the first turn whose outputs differ.
///
/// # Errors
/// It is not a trace of this build, or cannot be read.
pub fn replay(reader: impl Read) -> Result<Replayed, ReplayError> {
    Replay::begin(reader)?.run(|_| ())
}

/// A trace that is being told to a driver.
#[derive(Debug)]
pub struct Replay<R> {
    reader: R,
    header: Header,
    driver: Driver,
    turns: u64,
    is_over: bool,
}

impl<R: Read> Replay<R> {
    /// Reads the header, and makes the driver.
    ///
    /// # Errors
    /// It is not a trace of this build, or cannot be read.
    pub fn begin(mut reader: R) -> Result<Self, ReplayError> {
        let magic = piece(&mut reader, MAGIC.len())?;
        if magic.as_deref() != Some(MAGIC) {
            return Err(ReplayError::NotATrace);
        }
        let header = record(&mut reader, 0)?.ok_or(ReplayError::NotATrace)?;
        let header: Header = decode(&header, 0)?;
        let driver = Driver::new(&header.config, header.shards.clone());
        Ok(Self { reader, header, driver, turns: 0, is_over: false })
    }

    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The driver, after the turns so far.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Replays the next turn; `None` at the end of the trace, which may be in the midst of a record.
    ///
    /// # Errors
    /// The record is not one of this build, or cannot be read.
    pub fn turn(&mut self) -> Result<Option<Turn>, ReplayError> {
        let number = self.turns + 1;
        if self.is_over {
            return Ok(None);
        }
        let Some(record) = record(&mut self.reader, number)? else {
            self.is_over = true;
            return Ok(None);
        };
        let (now, input): (Now, Input) = decode(&record, number)?;
        let closing = closing(&mut self.reader)?;
        let mut outputs = Vec::new();
        self.driver.handle(now, input.clone(), &mut outputs);
        self.turns = number;
        let verdict = match closing {
            None => {
                self.is_over = true;
                Verdict::Unfinished
            }
            Some((recorded, count))
                if recorded == digest(&outputs) && u32::try_from(outputs.len()) == Ok(count) =>
            {
                Verdict::Same
            }
            Some((_, recorded)) => Verdict::Different { recorded },
        };
        Ok(Some(Turn { number, now, input, outputs, verdict }))
    }

    /// Replays what is left, up to the first turn whose outputs differ. `look` sees every turn.
    ///
    /// # Errors
    /// As [`Replay::turn`].
    pub fn run(mut self, mut look: impl FnMut(&Turn)) -> Result<Replayed, ReplayError> {
        let mut replayed = Replayed { turns: 0, outputs: 0, different: None, unfinished: None };
        while let Some(turn) = self.turn()? {
            look(&turn);
            replayed.turns += 1;
            replayed.outputs += turn.outputs.len() as u64;
            match turn.verdict {
                Verdict::Same => {}
                Verdict::Different { .. } => {
                    replayed.different = Some(turn);
                    break;
                }
                Verdict::Unfinished => replayed.unfinished = Some(turn),
            }
        }
        Ok(replayed)
    }
}

/// So many bytes; `None` where there are fewer.
fn piece(reader: &mut impl Read, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    // It grows by what is there, whatever the length claims.
    reader.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok((bytes.len() == length).then_some(bytes))
}

/// The next record; `None` where it is not there, or not all of it.
fn record(reader: &mut impl Read, record: u64) -> Result<Option<Vec<u8>>, ReplayError> {
    let Some(length) = piece(reader, LENGTH)? else { return Ok(None) };
    let length = number(&length);
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_RECORD);
    let length = length.ok_or(ReplayError::Damaged { record })?;
    Ok(piece(reader, length)?)
}

/// Digest and number of the outputs.
fn closing(reader: &mut impl Read) -> io::Result<Option<(u64, u32)>> {
    let Some(bytes) = piece(reader, CLOSING)? else { return Ok(None) };
    let (digest, count) = bytes.split_at(CLOSING - LENGTH);
    Ok(Some((number(digest), u32::try_from(number(count)).unwrap_or(u32::MAX))))
}

/// A number, its least byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reads a value that fills its record.
fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], record: u64) -> Result<T, ReplayError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(ReplayError::Damaged { record }),
    }
}
