//! Journals: one JSON document a line, durable before whoever wrote it goes on.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::Outcome;

/// Appends to a file; what waits at the same time becomes durable together.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    sender: Sender<Entry>,
}

struct Entry {
    lines: Vec<u8>,
    durable: oneshot::Sender<()>,
}

impl Journal {
    /// Goes on behind the last whole line; a line that was torn by a kill is removed.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = whole_lines(&text).len() as u64;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        let (sender, entries) = channel();
        let write = move || {
            // Whoever waits for a line that cannot be written never goes on, and its process ends with an error.
            if let Err(error) = write_all(&mut file, &entries) {
                eprintln!("the journal cannot be written: {error}");
            }
        };
        std::thread::Builder::new().name("journal".to_owned()).spawn(write)?;
        Ok(Self { sender })
    }

    /// Durable when it returns.
    pub(crate) async fn write(&self, record: &impl Serialize) -> Outcome<()> {
        self.write_all(std::slice::from_ref(record)).await
    }

    /// All of them with one write; durable when it returns.
    pub(crate) async fn write_all<T: Serialize>(&self, records: &[T]) -> Outcome<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record)?;
            lines.push(b'\n');
        }
        let (durable, written) = oneshot::channel();
        let gone = "the journal cannot be written";
        self.sender.send(Entry { lines, durable }).map_err(|_| gone)?;
        Ok(written.await.map_err(|_| gone)?)
    }
}

fn write_all(file: &mut File, entries: &Receiver<Entry>) -> std::io::Result<()> {
    while let Ok(first) = entries.recv() {
        let batch: Vec<Entry> = std::iter::once(first).chain(entries.try_iter()).collect();
        let lines: Vec<u8> = batch.iter().flat_map(|entry| &entry.lines).copied().collect();
        file.write_all(&lines)?;
        file.sync_data()?;
        for entry in batch {
            // A caller that has stopped waiting has its line all the same.
            let _ = entry.durable.send(());
        }
    }
    Ok(())
}

/// Every whole line of a journal; none where there is no file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Outcome<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(path)?;
    let lines = whole_lines(&text).split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records: Result<Vec<T>, _> = lines.map(serde_json::from_slice).collect();
    records.map_err(|error| format!("{}: {error}", path.display()).into())
}

fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &text[..end]
}

/// Unix microseconds: what tells the order of a kill and of what happened in other processes.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_torn_line_is_removed_and_the_journal_goes_on() -> Outcome<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal");
        Journal::open(&path)?.write_all(&[1, 2]).await?;
        File::options().append(true).open(&path)?.write_all(b"[3, ")?;
        assert_eq!(read::<u32>(&path)?, [1, 2]);
        Journal::open(&path)?.write(&4).await?;
        assert_eq!(read::<u32>(&path)?, [1, 2, 4]);
        Ok(())
    }
}
