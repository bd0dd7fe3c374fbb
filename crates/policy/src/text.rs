//! Numbers as text for messages.

use std::time::Duration;

/// A duration in its two largest units, which are enough for people: `30m`, `1h 30m`, `31m 45s`, `1.5s`, `250ms`.
pub(crate) fn duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{milliseconds}ms"),
        1..60 if milliseconds.is_multiple_of(1_000) => format!("{seconds}s"),
        1..60 => format!("{}s", milliseconds as f64 / 1_000.0),
        60..3_600 => two_units(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two_units(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    }
}

/// A share with its percentage rounded half up: `3/4 (75%)`. Zero of zero is 0%.
pub(crate) fn share(part: u32, whole: u32) -> String {
    let (part_wide, whole_wide) = (u64::from(part), u64::from(whole));
    let percent = (200 * part_wide + whole_wide).checked_div(2 * whole_wide).unwrap_or(0);
    format!("{part}/{whole} ({percent}%)")
}

/// A percentage with at most two decimals: `50%`, `66.67%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{}%", (share * 10_000.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_with_their_two_largest_units() {
        #[track_caller]
        fn check(milliseconds: u64, expected: &str) {
            assert_eq!(duration(Duration::from_millis(milliseconds)), expected);
        }
        check(0, "0ms");
        check(250, "250ms");
        check(1_500, "1.5s");
        check(30_000, "30s");
        check(1_800_000, "30m");
        check(1_905_123, "31m 45s");
        check(5_400_000, "1h 30m");
        check(90_000_000, "1d 1h");
    }

    #[test]
    fn shares_are_rounded_half_up() {
        #[track_caller]
        fn check(part: u32, whole: u32, expected: &str) {
            assert_eq!(share(part, whole), expected);
        }
        check(3, 4, "3/4 (75%)");
        check(1, 8, "1/8 (13%)");
        check(2, 3, "2/3 (67%)");
        check(0, 0, "0/0 (0%)");
        check(u32::MAX, u32::MAX, "4294967295/4294967295 (100%)");
    }

    #[test]
    fn a_threshold_keeps_two_decimals() {
        assert_eq!(percent(0.5), "50%");
        assert_eq!(percent(0.666_666), "66.67%");
    }
}
