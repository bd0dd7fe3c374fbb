//! Integers that would not be printed as they were written.
//!
//! JSON numbers are read as integers of 64 bits or as doubles. That a fraction is the nearest double is what everybody
//! expects of JSON; an integer of twenty digits and more that silently became another one would be a lost account number.
//! What a program that has nothing but doubles writes (`100000000000000000000`) is kept and not refused.

use serde_json::Number;

use crate::path::{Path, shown};
use crate::violation::Violations;

/// Checks the integers of `text`, which is the text of a JSON value below `path`. Rule: `range`.
pub fn check(text: &str, path: &Path<'_>, violations: &mut Violations) {
    Scanner { rest: text.trim_start_matches('\u{feff}') }.value(path, violations);
}

/// Walks over text that is known to be JSON, nested no deeper than a reader allows.
struct Scanner<'t> {
    rest: &'t str,
}

impl<'t> Scanner<'t> {
    fn value(&mut self, path: &Path<'_>, violations: &mut Violations) {
        self.skip_space();
        match self.rest.bytes().next() {
            Some(b'{') => {
                while let Some(key) = self.next_key() {
                    let key: String = serde_json::from_str(key).unwrap_or_default();
                    self.value(&path.key(&key), violations);
                }
            }
            Some(b'[') => {
                let mut index = 0;
                while self.next_item() {
                    self.value(&path.index(index), violations);
                    index += 1;
                }
            }
            Some(b'"') => {
                self.string();
            }
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\r', '\n']);
                let token = self.take(end.unwrap_or(self.rest.len()));
                if is_altered(token) {
                    let message = format!("{} does not fit into 64 bits; write it as a string", shown(token));
                    violations.push(path, "range", message);
                }
            }
        }
    }

    /// Goes on to the value under the next key of the object that the scanner is in, and gives the key as written.
    fn next_key(&mut self) -> Option<&'t str> {
        if !self.next_item() {
            return None;
        }
        let key = self.string();
        self.skip_space();
        self.take(1);
        Some(key)
    }

    /// Goes past the opening bracket or the comma; past the closing bracket where there is nothing else.
    fn next_item(&mut self) -> bool {
        self.skip_space();
        let mark = self.take(1);
        self.skip_space();
        if mark.is_empty() || matches!(mark, "}" | "]") {
            return false;
        }
        let is_empty = self.rest.starts_with(['}', ']']);
        if is_empty {
            self.take(1);
        }
        !is_empty
    }

    fn string(&mut self) -> &'t str {
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        // Both quotes.
        self.take(end.map_or(self.rest.len(), |end| end + 2))
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}

/// Returns whether the token is an integer that is printed with other digits.
fn is_altered(token: &str) -> bool {
    let is_integer = token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && token.bytes().any(|byte| byte.is_ascii_digit());
    if !is_integer || token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() {
        return false;
    }
    let printed = token.parse().ok().and_then(Number::from_f64).map(|number| number.to_string());
    printed.is_none_or(|printed| significant(&printed) != significant(token))
}

/// The digits from the first to the last that is not zero.
fn significant(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let mut violations = Violations::default();
        check(text, &Path::Root, &mut violations);
        let paths: Vec<String> = violations.into_vec().into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, expected, "{text}");
    }

    #[test]
    fn an_integer_that_would_be_another_one_is_found_by_its_path() {
        check_text("123456789012345678901", &[""]);
        check_text(
            r#"{"a": [1, {"b" : -99999999999999999999 , "c":2}], "d":36893488147419103232}"#,
            &["a[1].b", "d"],
        );
        check_text("\u{feff} [ ] ", &[]);
        check_text(r#"{"a":{},"b":[],"c":[[],[100000000000000000001]]}"#, &["c[1][0]"]);
    }

    #[test]
    fn what_is_printed_as_it_was_written_passes() {
        check_text("[18446744073709551615, -9223372036854775808, -0, 0]", &[]);
        check_text("[100000000000000000000, 36893488147419103000]", &[]);
        check_text("[0.10000000000000001, 1e300, 12345678901234567890.5]", &[]);
    }

    #[test]
    fn digits_in_strings_and_keys_are_no_numbers() {
        check_text(r#"{"123456789012345678901": "123456789012345678901", "\\\"": ["\\", "\"1"]}"#, &[]);
        check_text(r#"["\\", 123456789012345678901]"#, &["[1]"]);
    }
}
