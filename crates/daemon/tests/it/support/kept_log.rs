//! What our crates log, whatever the level, kept from the first test on that looks at it.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn listen_to_the_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt().with_env_filter("capataz=trace").with_writer(|| ToLog).init();
        tracing::trace!(target: "capataz_test", "the log is kept");
    });
}

/// The log so far. It has something: a search in what nobody has kept finds nothing.
pub fn kept_log() -> Vec<u8> {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(has(&log, "the log is kept"));
    log
}

pub fn has(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}
