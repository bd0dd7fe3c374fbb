//! Which browsers are being put away, or were to be and could not: whoever opens one waits until that is done, and what
//! has failed is tried again, for as long as nobody opens it. A browser that cannot be put away is closed in the end,
//! because others wait for its place while its run may wait for a person for weeks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{Browsers, Handle};

/// How often one is tried before the browser is closed without its state.
pub(super) const TRIES: u32 = 3;

/// Browsers that are to be put away, by their runs.
#[derive(Debug, Default)]
pub(super) struct Away {
    runs: Mutex<BTreeMap<String, Wanted>>,
}

#[derive(Debug, Default)]
struct Wanted {
    failures: u32,
    /// Closed when the try in work is over.
    trying: Option<watch::Receiver<()>>,
}

impl Wanted {
    fn in_work(&self) -> Option<watch::Receiver<()>> {
        self.trying.clone().filter(|trying| trying.has_changed().is_ok())
    }

    /// `None` while another try is in work.
    fn begin(&mut self) -> Option<Trying> {
        if self.in_work().is_some() {
            return None;
        }
        let (over, trying) = watch::channel(());
        self.trying = Some(trying);
        Some(Trying { _over: over })
    }
}

/// A try that is in work until this is dropped.
#[derive(Debug)]
pub(super) struct Trying {
    _over: watch::Sender<()>,
}

impl Away {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Wanted>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run's browser is to be put away from now on. `None` while that is tried already.
    fn begin(&self, run: &str) -> Option<Trying> {
        self.runs().entry(run.to_owned()).or_default().begin()
    }

    /// As [`Away::begin`], where it is still to be put away.
    fn begin_again(&self, run: &str) -> Option<Trying> {
        self.runs().get_mut(run)?.begin()
    }

    /// Returns whether it was tried often enough.
    fn failed(&self, run: &str) -> bool {
        let mut runs = self.runs();
        let Some(wanted) = runs.get_mut(run) else { return false };
        wanted.failures = wanted.failures.saturating_add(1);
        wanted.failures >= TRIES
    }

    /// It is not to be put away any more.
    pub(super) fn over(&self, run: &str) {
        self.runs().remove(run);
    }

    /// Waits until nobody puts it away; from then on nobody does.
    pub(super) async fn settled(&self, run: &str) {
        loop {
            let mut trying = {
                let mut runs = self.runs();
                match runs.get(run).and_then(Wanted::in_work) {
                    Some(trying) => trying,
                    None => {
                        runs.remove(run);
                        return;
                    }
                }
            };
            let _ = trying.changed().await;
        }
    }

    /// Those that could not be put away yet.
    pub(super) fn failures(&self) -> Vec<String> {
        let runs = self.runs();
        let failures = runs.iter().filter(|(_, wanted)| wanted.in_work().is_none());
        failures.map(|(run, _)| run.clone()).collect()
    }
}

impl Browsers {
    /// Closes the run's browser, and keeps its state; whoever opens it from now on waits for that.
    pub(super) fn begin_to_put_away(self: Arc<Self>, run: String) {
        let Some(trying) = self.away.begin(&run) else { return };
        tokio::spawn(async move { self.put_away(&run, trying).await });
    }

    /// Tries again what has failed, one after the other: each try takes a tab and some seconds of a browser.
    pub(super) fn put_away_again(self: Arc<Self>) {
        let failures = self.away.failures();
        if failures.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for run in failures {
                if let Some(trying) = self.away.begin_again(&run) {
                    self.put_away(&run, trying).await;
                }
            }
        });
    }

    /// Where the state cannot be kept, the browser stays open until the next try; after the last one it closes without.
    async fn put_away(&self, run: &str, trying: Trying) {
        let kept = match self.handle(run) {
            Some(open) => Handle::put_away(&open).await,
            None => None,
        };
        match kept {
            // The run may have ended meanwhile, before there was anything to be removed.
            Some(Ok(())) => {
                for run in self.ended(vec![run.to_owned()]).await {
                    self.drop_kept(&run);
                }
                self.away.over(run);
            }
            Some(Err(problem)) if self.away.failed(run) => {
                tracing::warn!(%run, %problem, "the browser is closed, and its state is lost: it cannot be kept");
                self.forget(run);
            }
            Some(Err(problem)) => {
                tracing::warn!(%run, %problem, "the browser stays open for now, because its state cannot be kept");
            }
            None => self.away.over(run),
        }
        drop(trying);
    }
}
