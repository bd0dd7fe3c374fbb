//! What is kept of a command's stderr: its end, as the task's log, and the latest line, as progress.

use bytes::Bytes;
use capataz_contracts::v1::LogTail;

use crate::redact::Redactor;

/// Most bytes of stderr that are kept as a task's log.
pub const LOG_LIMIT: usize = 64 * 1024;

/// Most bytes of a line that is shown as progress.
const LINE_LIMIT: usize = 1024;

/// Reads stderr piece by piece in bounded memory.
#[derive(Debug)]
pub(super) struct StderrReader {
    secrets: Redactor,
    tail: Vec<u8>,
    /// True when something in front of the tail was dropped.
    cut: bool,
    line: Vec<u8>,
    /// What a carriage return has ended: the line, unless something is written over it.
    overwritten: Vec<u8>,
    latest: Option<Vec<u8>>,
    log: LogTail,
}

impl StderrReader {
    pub(super) fn new(secrets: Redactor) -> Self {
        Self {
            secrets,
            tail: Vec::new(),
            cut: false,
            line: Vec::new(),
            overwritten: Vec::new(),
            latest: None,
            log: LogTail::default(),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.push_tail(chunk);
        let mut whole = String::new();
        // A carriage return ends a line too: that is how progress bars are drawn.
        for segment in chunk.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match segment.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                _ => (segment, None),
            };
            // Longer than what is shown by the longest secret, so that a cut never hides one from the mask.
            let room = (LINE_LIMIT + self.secrets.longest()).saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if let Some(end) = end {
                self.end_line(end == b'\n', &mut whole);
            }
        }
        self.log.push(&whole);
    }

    fn end_line(&mut self, is_whole: bool, lines: &mut String) {
        let line = std::mem::take(&mut self.line);
        let overwritten = std::mem::take(&mut self.overwritten);
        if is_whole {
            let mut shown = if line.is_empty() { overwritten } else { line.clone() };
            self.secrets.mask(&mut shown);
            lines.push_str(&String::from_utf8_lossy(&shown));
            lines.push('\n');
        } else if line.is_empty() {
            self.overwritten = overwritten;
        } else {
            self.overwritten.clone_from(&line);
        }
        if !line.trim_ascii().is_empty() {
            self.latest = Some(line);
        }
    }

    /// The last whole lines so far, without secrets; `None` before the first.
    pub(super) fn log(&self) -> Option<LogTail> {
        (self.log.lines > 0).then(|| self.log.clone())
    }

    fn push_tail(&mut self, chunk: &[u8]) {
        let kept = LOG_LIMIT + self.secrets.longest();
        self.tail.extend_from_slice(chunk);
        // Cut at twice the size: each byte moves once.
        if self.tail.len() > 2 * kept {
            self.tail.drain(..self.tail.len() - kept);
            self.cut = true;
        }
    }

    /// The latest whole line since the last call, without secrets.
    pub(super) fn take_latest_line(&mut self) -> Option<String> {
        let mut line = self.latest.take()?;
        self.secrets.mask(&mut line);
        line.truncate(LINE_LIMIT);
        Some(String::from_utf8_lossy(line.trim_ascii()).into_owned())
    }

    /// The end of all that was read, at most [`LOG_LIMIT`], without secrets.
    pub(super) fn into_log(mut self) -> Bytes {
        self.secrets.mask(&mut self.tail);
        // Where the front was cut, it may hold the rest of a secret that the mask cannot know.
        let surplus = self.tail.len().saturating_sub(LOG_LIMIT);
        let unsafe_front = if self.cut { self.secrets.longest() } else { 0 };
        Bytes::from(self.tail).slice(surplus.max(unsafe_front)..)
    }
}

/// The last line of a log that is not blank, at most `limit` characters of it.
pub(super) fn last_line(log: &[u8], limit: usize) -> Option<String> {
    let mut lines = log.rsplit(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii);
    let line = lines.find(|line| !line.is_empty())?;
    // Four bytes are the longest character.
    let line = line.get(..4 * limit).unwrap_or(line);
    Some(String::from_utf8_lossy(line).chars().take(limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut stderr = StderrReader::new(Redactor::default());
        for number in 0..100_000 {
            stderr.push(format!("line {number}\n").as_bytes());
            assert!(stderr.tail.len() <= 2 * LOG_LIMIT);
        }
        assert_eq!(stderr.take_latest_line().as_deref(), Some("line 99999"));
        assert_eq!(stderr.take_latest_line(), None);
        let log = stderr.into_log();
        assert_eq!(log.len(), LOG_LIMIT);
        assert_eq!(last_line(&log, 100).as_deref(), Some("line 99999"));
    }

    #[test]
    fn a_line_may_come_in_pieces_and_be_too_long() {
        let mut stderr = StderrReader::new(Redactor::default());
        stderr.push(b"one");
        assert_eq!(stderr.take_latest_line(), None);
        stderr.push(b" line\r   \n");
        assert_eq!(stderr.take_latest_line().as_deref(), Some("one line"));
        stderr.push(&[b'x'; 5000]);
        stderr.push(b"\n");
        assert_eq!(stderr.take_latest_line().map(|line| line.len()), Some(LINE_LIMIT));
    }

    #[test]
    fn whole_lines_can_be_followed_as_a_terminal_shows_them_without_secrets() {
        let mut stderr = StderrReader::new(Redactor::new(&["s3cr3t-value".to_owned()]));
        stderr.push(b"one");
        assert_eq!(stderr.log(), None);
        stderr.push(b"\r\n\n 1%\r 50%\r100%\ntold s3cr3");
        stderr.push(b"t-value\nnot whole");
        let text = "one\n\n100%\ntold ************\n".to_owned();
        assert_eq!(stderr.log(), Some(LogTail { lines: 4, text }));
        // A secret that begins within what is shown, and ends beyond it.
        let mut stderr = StderrReader::new(Redactor::new(&["s3cr3t-value".to_owned()]));
        stderr.push(format!("{}s3cr3t-value\n", "x".repeat(LINE_LIMIT - 4)).as_bytes());
        assert_eq!(stderr.log().unwrap().text, format!("{}****\n", "x".repeat(LINE_LIMIT - 4)));
    }

    #[test]
    fn the_last_line_is_not_blank() {
        assert_eq!(last_line(b"first\nsecond \n\n  \n", 100).as_deref(), Some("second"));
        assert_eq!(last_line("ñandú".as_bytes(), 3).as_deref(), Some("ñan"));
        assert_eq!(last_line(b"\n", 100), None);
    }
}
