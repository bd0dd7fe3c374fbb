//! Patterns: regular expressions as ECMA-262 writes them, for an engine that matches in linear time.

use regex::{Regex, RegexBuilder};

/// The most bytes of a compiled pattern. What this cannot hold repeats something large very often.
const COMPILED_MAX: usize = 64 * 1024;

/// A regular expression that is searched for in texts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    regex: Regex,
}

impl Pattern {
    /// # Errors
    /// Why the text cannot be searched for.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translated(text))
            .size_limit(COMPILED_MAX)
            .dfa_size_limit(COMPILED_MAX)
            .build()
            .map_err(|error| {
                let last = error.to_string();
                last.lines().last().unwrap_or_default().trim().to_owned()
            })?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The same expression in the engine's words. Digits, words and white space are those of ECMA-262, and within brackets
/// nothing has a meaning but what has one there.
fn translated(text: &str) -> String {
    let mut translated = String::with_capacity(text.len());
    let mut in_class = false;
    let mut at_class_start = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let starts_class = std::mem::take(&mut at_class_start);
        match character {
            '\\' => match (characters.next(), in_class) {
                (Some('d'), false) => translated.push_str("[0-9]"),
                (Some('d'), true) => translated.push_str("0-9"),
                (Some('D'), _) => translated.push_str("[^0-9]"),
                (Some('w'), false) => translated.push_str("[0-9A-Za-z_]"),
                (Some('w'), true) => translated.push_str("0-9A-Za-z_"),
                (Some('W'), _) => translated.push_str("[^0-9A-Za-z_]"),
                // Only ASCII words have boundaries.
                (Some('b'), false) => translated.push_str("(?-u:\\b)"),
                (Some('b'), true) => translated.push_str("\\x08"),
                (Some('B'), false) => translated.push_str("(?-u:\\B)"),
                (Some('0'), _) => translated.push_str("\\x00"),
                (Some(other), _) => translated.extend(['\\', other]),
                (None, _) => translated.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                at_class_start = true;
                translated.push('[');
            }
            '^' if starts_class => {
                at_class_start = false;
                translated.push('^');
            }
            ']' if in_class => {
                in_class = false;
                translated.push(']');
            }
            '[' | '&' | '~' if in_class => translated.extend(['\\', character]),
            other => translated.push(other),
        }
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, fits: &[&str], fits_not: &[&str]) {
        let pattern = Pattern::new(pattern).unwrap();
        for text in fits {
            assert!(pattern.is_in(text), "{} is not in {text:?}", pattern.text);
        }
        for text in fits_not {
            assert!(!pattern.is_in(text), "{} is in {text:?}", pattern.text);
        }
    }

    #[test]
    fn a_pattern_means_what_ecma_262_says() {
        check("^a$", &["a"], &["a\n", "ba"]);
        check("a+", &["xxaa"], &["b"]);
        check(r"^\d+$", &["09"], &["٣", ""]);
        check(r"^[\d_]\w\D\W$", &["_aé!"], &["aa1a"]);
        check(r"^[[&&~~]$", &["[", "&", "~"], &["a", "[]"]);
        check(r"^[^a]$", &["b"], &["a"]);
        check(r"^\/\-\p{Lu}\u0041$", &["/-ÉA"], &["/-éA"]);
        check(r"\bab\b", &["x ab y"], &["xaby"]);
    }

    #[test]
    fn what_cannot_be_matched_in_linear_time_or_little_memory_is_no_pattern() {
        for pattern in ["(?=a)", r"(a)\1", "(?<!a)b", "(", "((a{100}){100}){100}", r"\p{L}{500}"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
