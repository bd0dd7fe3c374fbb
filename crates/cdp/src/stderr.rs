//! The end of what the browser wrote to its stderr.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of the browser's stderr that are kept.
pub(crate) const STDERR_LIMIT: usize = 16 * 1024;

/// Bytes that are read at once.
const READ_SIZE: usize = 4 * 1024;

/// Shared between the task that reads and whoever wants to know why the browser ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Reads to the end.
    pub(crate) async fn follow(self, mut source: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; READ_SIZE];
        loop {
            match source.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(length) => self.push(chunk.get(..length).unwrap_or_default()),
            }
        }
    }

    fn push(&self, chunk: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(chunk);
        // Cut at twice the size: each byte moves once.
        if tail.len() > 2 * STDERR_LIMIT {
            let surplus = tail.len() - STDERR_LIMIT;
            tail.drain(..surplus);
        }
    }

    /// The last bytes, at most [`STDERR_LIMIT`], as text.
    pub(crate) fn text(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let surplus = tail.len().saturating_sub(STDERR_LIMIT);
        String::from_utf8_lossy(tail.get(surplus..).unwrap_or_default()).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let tail = StderrTail::default();
        let written: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
        tail.clone().follow(written.as_bytes()).await;
        let text = tail.text();
        assert!(text.ends_with("line 99998\nline 99999"));
        assert!(text.len() <= STDERR_LIMIT && text.len() > STDERR_LIMIT - 20, "{}", text.len());
    }
}
