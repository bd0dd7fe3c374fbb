//! Numbers and times in the form that people read.

use crate::words::{counted, words};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A duration, rounded: `20ms`, `0.3s`, `8.5s`, `45s`, `1m 5s`, `2h 3m`, `3d 4h`.
pub fn took(milliseconds: i64) -> String {
    let ms = milliseconds.max(0);
    match ms {
        // Durations below ten seconds are rounded half up to tenths.
        1..100 => format!("{ms}ms"),
        0..9_950 => {
            let tenths = (ms + 50) / 100;
            match tenths % 10 {
                0 => format!("{}s", tenths / 10),
                tenth => format!("{}.{tenth}s", tenths / 10),
            }
        }
        9_950..59_500 => format!("{}s", (ms + 500) / SECOND),
        _ => {
            let seconds = ms.saturating_add(500) / SECOND;
            match seconds {
                0..3_600 => two_units(seconds / 60, "m", seconds % 60, "s"),
                3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
                _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
            }
        }
    }
}

fn two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    }
}

/// A delay or a limit, without rounding: `1s`, `1.5s`, `250ms`, `30m`.
pub fn exactly(milliseconds: i64) -> String {
    let ms = milliseconds.max(0);
    if (SECOND..MINUTE).contains(&ms) && ms % SECOND != 0 {
        return format!("{}s", ms as f64 / SECOND as f64);
    }
    capataz_contracts::duration::format(ms)
}

/// A duration in words, such as `30 minutes` or `35 seconds`; where words do not fit, like [`exactly`].
pub fn in_words(milliseconds: i64) -> String {
    let texts = &words().errors;
    match milliseconds.max(0) {
        ms if ms >= MINUTE && ms % MINUTE == 0 && ms <= 90 * MINUTE => {
            counted((ms / MINUTE).unsigned_abs(), texts.minutes_one, texts.minutes_many)
        }
        ms if ms < 2 * MINUTE && ms % SECOND == 0 => {
            counted((ms / SECOND).unsigned_abs(), texts.seconds_one, texts.seconds_many)
        }
        ms => exactly(ms),
    }
}

/// A duration as on a clock: `31:45`, `1:02:03`.
pub fn clock(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / SECOND;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds % 3_600 / 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The time since the start of the run, nine columns wide up to one day: `+  1.204s`, `+ 1:02:03`.
pub fn offset(milliseconds: i64) -> String {
    let ms = milliseconds.max(0);
    if ms < MINUTE {
        format!("+{:>3}.{:03}s", ms / SECOND, ms % SECOND)
    } else {
        format!("+{:>8}", clock(ms))
    }
}

/// An age, in its largest unit: `12s`, `5m`, `3h`, `2d`.
pub fn age(milliseconds: i64) -> String {
    match milliseconds.max(0) {
        ms if ms < MINUTE => format!("{}s", ms / SECOND),
        ms if ms < HOUR => format!("{}m", ms / MINUTE),
        ms if ms < 2 * DAY => format!("{}h", ms / HOUR),
        ms => format!("{}d", ms / DAY),
    }
}

/// A share with its percentage rounded half up: `3/4 (75%)`. Zero of zero is 0%.
pub fn share(part: u64, whole: u64) -> String {
    let percent = (200 * part + whole).checked_div(2 * whole).unwrap_or(0);
    format!("{part}/{whole} ({percent}%)")
}

/// A number with separators: `1,234`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A time in UTC: `2026-03-21 09:08:07Z`.
pub fn utc(unix_ms: i64) -> String {
    let seconds = unix_ms.div_euclid(SECOND);
    let (days, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day % 3_600 / 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Converts a number of days since 1970-01-01 to year, month and day of the Gregorian calendar. The calculation uses
/// eras of 400 years, and years that begin in March, so that a leap day is the last day of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shown: String, expected: &str) {
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_something_took() {
        check(took(0), "0s");
        check(took(20), "20ms");
        check(took(320), "0.3s");
        check(took(8_500), "8.5s");
        check(took(9_949), "9.9s");
        check(took(9_950), "10s");
        check(took(45_200), "45s");
        check(took(59_500), "1m");
        check(took(65_000), "1m 5s");
        check(took(7_380_000), "2h 3m");
        check(took(-5), "0s");
        check(took(90_000_000), "1d 1h");
        check(took(i64::MAX), "106751991167d 7h");
        check(took(i64::MIN), "0s");
    }

    #[test]
    fn limits_are_exact() {
        check(exactly(1_000), "1s");
        check(exactly(1_500), "1.5s");
        check(exactly(250), "250ms");
        check(in_words(1_800_000), "30 minutes");
        check(in_words(35_000), "35 seconds");
        check(in_words(1_000), "1 second");
        check(in_words(125_000), "2m 5s");
        check(clock(1_905_000), "31:45");
        check(clock(3_723_000), "1:02:03");
        check(offset(1_204), "+  1.204s");
        check(offset(3_723_000), "+ 1:02:03");
    }

    #[test]
    fn numbers() {
        check(share(3, 4), "3/4 (75%)");
        check(share(0, 0), "0/0 (0%)");
        check(share(1, 8), "1/8 (13%)");
        check(thousands(7), "7");
        check(thousands(1_234_567), "1,234,567");
        check(age(200_000), "3m");
    }

    #[test]
    fn dates_in_utc() {
        check(utc(0), "1970-01-01 00:00:00Z");
        check(utc(951_782_400_000), "2000-02-29 00:00:00Z");
        check(utc(1_774_084_087_000), "2026-03-21 09:08:07Z");
        check(utc(-1), "1969-12-31 23:59:59Z");
    }
}
