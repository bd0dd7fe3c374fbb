//! What a client remembers of its own journal, when it is started again.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Outcome;
use crate::journal;
use crate::records::ClientRecord;

/// What the journal says of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) run: Option<String>,
    pub(super) ended: bool,
    /// Request ids that have their answer.
    pub(super) answered: Vec<String>,
    pub(super) attempts: u32,
}

/// Everything that the journal says, by the numbers of the runs.
pub(super) fn remember(path: &Path) -> Outcome<BTreeMap<u64, Known>> {
    let mut known: BTreeMap<u64, Known> = BTreeMap::new();
    let mut of_key: BTreeMap<String, u64> = BTreeMap::new();
    for record in journal::read::<ClientRecord>(path)? {
        match record {
            ClientRecord::Sent { index, key, .. } => {
                of_key.insert(key, index);
                known.entry(index).or_default().attempts += 1;
            }
            ClientRecord::Started { key, run, .. } => {
                if let Some(index) = of_key.get(&key) {
                    // The first run is the piece's own; one that continues it starts later.
                    known.entry(*index).or_default().run.get_or_insert(run);
                }
            }
            ClientRecord::Done { key, .. }
            | ClientRecord::Accepted { key, .. }
            | ClientRecord::Refused { key, .. } => {
                if let Some(index) = of_key.get(&key) {
                    known.entry(*index).or_default().answered.push(key);
                }
            }
            ClientRecord::Ended { index, .. } => known.entry(index).or_default().ended = true,
            ClientRecord::Broken { .. } => {}
        }
    }
    Ok(known)
}
