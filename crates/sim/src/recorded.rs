//! The trace of a real daemon, replayed: the same cores, told what the daemon's were told.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use capataz_shard::trace::{Header, Replay, ReplayError, Replayed, Turn, Verdict};

/// What became of a daemon's trace.
#[derive(Debug)]
pub struct Recorded {
    pub header: Header,
    pub replayed: Replayed,
    /// The last turns, as far as they were asked for.
    pub tail: VecDeque<String>,
}

impl Recorded {
    /// Replays a trace, and keeps the texts of its last `keep` turns.
    ///
    /// # Errors
    /// The file is not a trace of this build, or cannot be read.
    pub fn replay(file: &Path, keep: usize) -> Result<Self, ReplayError> {
        let replay = Replay::begin(BufReader::new(File::open(file)?))?;
        let header = replay.header().clone();
        let mut tail = VecDeque::new();
        let replayed = replay.run(|turn| {
            if keep > 0 {
                tail.truncate(keep.saturating_sub(1));
                tail.push_front(text(turn));
            }
        })?;
        tail.make_contiguous().reverse();
        Ok(Self { header, replayed, tail })
    }

    /// Whether all outputs are those of the daemon.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.replayed.different.is_none()
    }

    #[must_use]
    pub fn as_json(&self) -> serde_json::Value {
        let of_turn = |turn: &Turn| {
            let outputs: Vec<String> = turn.outputs.iter().map(|output| format!("{output:?}")).collect();
            let recorded = match turn.verdict {
                Verdict::Different { recorded } => Some(recorded),
                Verdict::Same | Verdict::Unfinished => None,
            };
            serde_json::json!({
                "turn": turn.number,
                "at_ms": turn.now.wall.0,
                "input": format!("{:?}", turn.input),
                "outputs": outputs,
                "recorded_outputs": recorded,
            })
        };
        serde_json::json!({
            "version": self.header.version,
            "shards": self.header.shards.len(),
            "turns": self.replayed.turns,
            "outputs": self.replayed.outputs,
            "same": self.is_same(),
            "different": self.replayed.different.as_ref().map(of_turn),
            "unfinished": self.replayed.unfinished.as_ref().map(of_turn),
            "tail": self.tail,
        })
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for turn in &self.tail {
            writeln!(formatter, "{turn}")?;
        }
        if !self.header.is_of_this_version() {
            writeln!(formatter, "the trace was written by version {}", self.header.version)?;
        }
        let Replayed { turns, outputs, different, unfinished } = &self.replayed;
        if let Some(turn) = unfinished {
            writeln!(formatter, "the daemon did not end its last turn:\n{}", text(turn))?;
        }
        match different {
            None => write!(formatter, "{turns} turns with {outputs} outputs: the same"),
            Some(turn) => {
                let Verdict::Different { recorded } = turn.verdict else { return Ok(()) };
                writeln!(formatter, "turn {} differs; the daemon had {recorded} outputs:", turn.number)?;
                write!(formatter, "{}", text(turn))
            }
        }
    }
}

/// A turn for people: the input, then what it has led to.
fn text(turn: &Turn) -> String {
    let mut text = format!("turn {} at {}: {:?}", turn.number, turn.now.wall.0, turn.input);
    for output in &turn.outputs {
        text.push_str(&format!("\n    -> {output:?}"));
    }
    text
}
