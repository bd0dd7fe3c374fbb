//! How long the daemon's turns took, as its log says: of each process at least the two longest, also where it was killed.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Outcome;
use crate::harm::STOP;

#[derive(Deserialize)]
struct Line {
    fields: Fields,
}

#[derive(Deserialize)]
struct Fields {
    lasted_ms: Option<i64>,
    /// Only the line that tells one of the two longest turns counts; the warning about the same turn does not.
    message: String,
}

/// What the daemon says of a turn.
const SAID: &str = "one of the two longest turns so far";

/// The milliseconds of the two longest turns in a log, the longest first. The daemon stood still as often as `stops` says, and
/// a turn in which it did took as long as that.
pub(crate) fn longest(log: &Path, stops: u64) -> Outcome<[i64; 2]> {
    let text = fs::read(log)?;
    let lines =
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let told = lines.filter(|line| line.fields.message == SAID).filter_map(|line| line.fields.lasted_ms);
    Ok(two_longest(told.collect(), stops))
}

fn two_longest(mut turns: Vec<i64>, mut stops: u64) -> [i64; 2] {
    let stop_ms = i64::try_from(STOP.as_millis()).unwrap_or(i64::MAX);
    turns.sort_unstable_by(|one, other| other.cmp(one));
    let mut counted = turns.into_iter().skip_while(|turn| {
        let stood_still = *turn >= stop_ms && stops > 0;
        stops = stops.saturating_sub(1);
        stood_still
    });
    [counted.next().unwrap_or_default(), counted.next().unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_unless_the_daemon_stood_still_in_it() {
        assert_eq!(two_longest(vec![3, 20_001, 40, 7], 1), [40, 7]);
        assert_eq!(two_longest(vec![3, 20_001, 40, 25_000], 1), [20_001, 40]);
        assert_eq!(two_longest(vec![3, 20_001], 0), [20_001, 3]);
        assert_eq!(two_longest(vec![], 2), [0, 0]);
    }

    #[test]
    fn the_log_is_read_to_where_a_kill_has_torn_it() -> Outcome<()> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("daemon.log");
        let line = |message: &str, lasted_ms: i64| {
            let fields = serde_json::json!({ "message": message, "lasted_ms": lasted_ms });
            serde_json::json!({ "level": "DEBUG", "fields": fields }).to_string()
        };
        let lines =
            [line(SAID, 4), line("a turn kept everybody waiting", 90), line(SAID, 90), "{\"fie".to_owned()];
        fs::write(&log, lines.join("\n"))?;
        assert_eq!(longest(&log, 0)?, [90, 4]);
        Ok(())
    }
}
