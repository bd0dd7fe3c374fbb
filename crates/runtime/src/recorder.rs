//! Records what the driver is told, as a trace in a file.
//!
//! Whoever takes a turn encodes its input into memory, and hands over what has gathered; a thread of its own writes it. No
//! turn waits for it: where the disk is too slow, the file full or the trace as long as it may be, the trace ends,
//! with one warning.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use capataz_crew::{Mono, Now};
use capataz_shard::trace::{Header, Recording, Unrecorded};
use capataz_shard::{Input, Output};

/// A trace that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Has every payload that comes in: as secret as the data folder. It must not be there yet.
    pub file: PathBuf,
    /// Bytes at which the trace ends.
    pub limit: u64,
}

/// Bytes that are handed over at once.
const CHUNK: usize = 64 * 1024;
/// Pieces that may wait for the disk.
const PIECES: usize = 256;
/// Milliseconds after which fewer bytes are handed over, so that little is missing after a crash.
const SOON: i64 = 1_000;

pub(crate) struct Recorder {
    recording: Recording,
    pieces: SyncSender<Vec<u8>>,
    file: PathBuf,
    /// When something was handed over last.
    handed: Mono,
}

impl Recorder {
    /// Creates the file, and starts the thread that writes it.
    ///
    /// # Errors
    /// The file is there already, or cannot be created.
    pub(crate) fn start(trace: &Trace, header: &Header) -> std::io::Result<(Self, JoinHandle<()>)> {
        let recording = Recording::begin(header, trace.limit).map_err(std::io::Error::other)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&trace.file)?;
        let (pieces, receiver) = sync_channel(PIECES);
        let path = trace.file.clone();
        let thread = std::thread::Builder::new()
            .name("capataz-trace".to_owned())
            .spawn(move || write(file, &path, &receiver))?;
        tracing::info!(file = %trace.file.display(), "everything that the shards are told is recorded");
        let recorder = Self { recording, pieces, file: trace.file.clone(), handed: Mono::default() };
        Ok((recorder, thread))
    }

    /// Records an input that is about to be handled. Whether the trace goes on.
    pub(crate) fn input(&mut self, now: Now, input: &Input) -> bool {
        match self.recording.input(now, input) {
            Ok(()) => true,
            Err(unrecorded) => {
                self.ends(&unrecorded);
                false
            }
        }
    }

    /// Records what the input has led to. Whether the trace goes on.
    pub(crate) fn outputs(&mut self, now: Now, outputs: &[Output]) -> bool {
        self.recording.outputs(outputs);
        let is_due = now.mono.since(self.handed) >= SOON;
        if self.recording.waiting() < CHUNK && !is_due {
            return true;
        }
        self.handed = now.mono;
        match self.pieces.try_send(self.recording.take()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                let (file, turns) = (self.file.display(), self.recording.turns());
                tracing::warn!(%file, turns, "the trace ends: the disk is too slow for it");
                false
            }
            // The thread has said why.
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn ends(&self, unrecorded: &Unrecorded) {
        let (file, turns) = (self.file.display(), self.recording.turns());
        let reason = unrecorded as &dyn std::error::Error;
        tracing::warn!(%file, turns, reason, "the trace ends");
    }
}

/// What has gathered is handed over at the end, also where a turn has panicked.
impl Drop for Recorder {
    fn drop(&mut self) {
        let rest = self.recording.take();
        if !rest.is_empty() {
            let _ = self.pieces.send(rest);
        }
    }
}

/// Writes what comes until nobody can send anything any more.
fn write(mut file: File, path: &Path, pieces: &Receiver<Vec<u8>>) {
    for piece in pieces {
        if let Err(error) = file.write_all(&piece) {
            let (file, error) = (path.display(), &error as &dyn std::error::Error);
            tracing::warn!(%file, error, "the trace ends: it cannot be written");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use capataz_shard::shard::Config;
    use capataz_shard::trace::replay;
    use capataz_shard::{Driver, Input};
    use capataz_store::ShardId;

    use super::*;

    const PLENTY: u64 = 1 << 30;

    fn recorder(limit: u64) -> (Recorder, Receiver<Vec<u8>>) {
        let header = Header::of_this_build(&Config::default(), &[ShardId(0)]);
        let recording = Recording::begin(&header, limit).unwrap();
        let (pieces, receiver) = sync_channel(PIECES);
        let file = PathBuf::from("a trace");
        (Recorder { recording, pieces, file, handed: Mono::default() }, receiver)
    }

    /// One turn; whether the trace goes on.
    fn turn(recorder: &mut Recorder, driver: &mut Driver, now: Now) -> bool {
        if !recorder.input(now, &Input::Wake) {
            return false;
        }
        let mut outputs = Vec::new();
        driver.handle(now, Input::Wake, &mut outputs);
        recorder.outputs(now, &outputs)
    }

    fn driver() -> Driver {
        Driver::new(&Config::default(), vec![ShardId(0)])
    }

    #[test]
    fn the_input_of_a_turn_that_panics_is_the_last_of_the_trace() {
        let (mut recorder, receiver) = recorder(PLENTY);
        assert!(turn(&mut recorder, &mut driver(), Now::alike(0)));
        assert!(recorder.input(Now::alike(1), &Input::Drain));
        drop(recorder);
        let trace: Vec<u8> = receiver.into_iter().flatten().collect();
        let replayed = replay(trace.as_slice()).unwrap();
        assert_eq!(replayed.turns, 2);
        assert!(matches!(replayed.unfinished.unwrap().input, Input::Drain));
    }

    #[test]
    fn a_disk_that_is_too_slow_ends_the_trace_and_nobody_waits_for_it() {
        let (mut recorder, receiver) = recorder(PLENTY);
        let mut driver = driver();
        // Every turn is a piece of its own, and nobody takes any.
        let mut times = (1..).map(|turn| Now::alike(turn * SOON));
        let turns = times.by_ref().take_while(|now| turn(&mut recorder, &mut driver, *now)).count();
        assert_eq!(turns, PIECES);
        drop(recorder);
        let trace: Vec<u8> = receiver.into_iter().flatten().collect();
        let replayed = replay(trace.as_slice()).unwrap();
        assert_eq!((replayed.turns, replayed.different.is_none()), (PIECES as u64, true));
    }
}
