//! What happened in a world: a hash over every delivered input and every output, and on request the last lines.

use std::collections::VecDeque;

/// Kinds of facts in the hash.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Fact {
    Request = 1,
    Frame,
    Disconnected,
    Committed,
    CommitFailed,
    Recovered,
    Wake,
    Forget,
    Drain,
    Append,
    SentFrame,
    Close,
    Reply,
    Publish,
    Snapshot,
    Agents,
    Quarantine,
    Restart,
    Progress,
    Crash,
    Delivered,
    ScriptOver,
    LoadSession,
    LoadRun,
    RunLoaded,
    Query,
    Answered,
    Judged,
    Computed,
    Configure,
    SessionLoaded,
    Sweep,
    Swept,
    Remove,
    ToCrew,
    ToShard,
    FoundDamaged,
    Kin,
    FindChild,
    ChildFound,
    Key,
    FindKeys,
    KeysFound,
    Hosted,
    Unread,
}

/// The trace of one run of a world.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: Option<VecDeque<String>>,
    keep: usize,
}

impl Trace {
    /// A trace that keeps its last `keep` lines; with 0 it only hashes.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self { hash: 0xCBF2_9CE4_8422_2325, lines: (keep > 0).then(VecDeque::new), keep }
    }

    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    #[must_use]
    pub fn is_verbose(&self) -> bool {
        self.lines.is_some()
    }

    /// Takes a fact into the hash.
    pub fn fact(&mut self, fact: Fact, one: u64, other: u64) {
        self.mix(fact as u64);
        self.mix(one);
        self.mix(other);
    }

    /// Takes bytes into the hash.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    /// Keeps a line, where lines are wanted.
    pub fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            if lines.len() >= self.keep {
                lines.pop_front();
            }
            lines.push_back(text());
        }
    }

    /// The kept lines, the oldest first.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default().into()
    }
}
