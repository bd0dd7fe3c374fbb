//! Patience with a store that lacks what the machine has for others just now, such as descriptors. That passes, and work
//! that was done is not to be lost or repeated for it.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use capataz_store::{Store, StoreError};
use rustix::io::Errno;

/// The time from one attempt to the next, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often it is tried: for about half a minute.
const ATTEMPTS: u32 = 18;

/// Asks the store on a thread that may wait for it, again and again while the process or the machine lacks something.
///
/// # Errors
/// What the store failed with at last.
pub(crate) async fn patiently<T: Send + 'static>(
    store: &Arc<dyn Store>,
    ask: impl Fn(&dyn Store) -> Result<T, StoreError> + Send + Sync + 'static,
) -> Result<T, StoreError> {
    let ask = Arc::new(ask);
    let (mut again, longest) = AGAIN;
    let mut attempt = 1;
    loop {
        let (store, ask) = (Arc::clone(store), Arc::clone(&ask));
        let asked = tokio::task::spawn_blocking(move || ask(&*store)).await;
        match asked {
            Ok(Err(error)) if is_lack(&error) && attempt < ATTEMPTS => {
                tracing::warn!(error = &error as &dyn Error, attempt, "the store is asked again");
                tokio::time::sleep(again).await;
                again = (2 * again).min(longest);
                attempt += 1;
            }
            Ok(answer) => return answer,
            // The daemon is ending, or the store has panicked.
            Err(error) => return Err(StoreError::Io { operation: "be asked", source: Box::new(error) }),
        }
    }
}

/// Whether the system lacks something that it will have again.
fn is_lack(error: &StoreError) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS];
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if number.is_some_and(|number| lacks.iter().any(|lack| lack.raw_os_error() == number)) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use capataz_store::MemoryStore;

    use super::*;

    fn failure(errno: Errno) -> StoreError {
        StoreError::Io { operation: "write a blob", source: Box::new(io::Error::from(errno)) }
    }

    /// How often a store is asked that fails so often, and whether it answers in the end.
    async fn asked(errno: Errno, failures: u32) -> (u32, bool) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let answer = patiently(&store, move |_| match counted.fetch_add(1, Ordering::Relaxed) < failures {
            true => Err(failure(errno)),
            false => Ok(()),
        });
        let answered = answer.await.is_ok();
        (count.load(Ordering::Relaxed), answered)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_descriptors_passes_and_a_full_disk_is_said_at_once() {
        assert_eq!(asked(Errno::MFILE, 5).await, (6, true));
        assert_eq!(asked(Errno::NFILE, u32::MAX).await, (ATTEMPTS, false));
        assert_eq!(asked(Errno::NOSPC, 1).await, (1, false));
    }
}
