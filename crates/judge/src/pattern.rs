//! Patterns: regular expressions as ECMA-262 writes them, for an engine that matches in linear time.

mod translated;

use regex::{Regex, RegexBuilder};

use crate::PATTERN_MAX;

/// The most bytes of a compiled pattern. What this cannot hold repeats something large very often.
const COMPILED_MAX: usize = 64 * 1024;
/// The sizes of compiled patterns that are told apart begin here, and double.
const COMPILED_LEAST: usize = 256;
/// Bytes of a compiled pattern times bytes of a text that are one step: 8 bytes of text in front of 64 bytes of pattern.
/// Where the engine has to follow all ways through a pattern at once, it looks at each of these for each of those.
const BYTES_BY_STEP: usize = 8 * 64;

/// A regular expression that is searched for in texts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    /// Bytes of the compiled pattern, up to the next power of two.
    pub(crate) size: usize,
    regex: Regex,
}

impl Pattern {
    /// # Errors
    /// What was expected, and why the text cannot be searched for.
    pub(crate) fn new(text: &str) -> Result<Self, (String, String)> {
        // The engine bounds what it builds at last, and not what it builds on the way there.
        if text.len() > PATTERN_MAX {
            return Err((format!("at most {PATTERN_MAX} bytes"), format!("{} bytes", text.len())));
        }
        let expected = || "a pattern that is matched in linear time".to_owned();
        let translated = translated::translated(text).map_err(|why| (expected(), why))?;
        let whole = compiled(&translated, COMPILED_MAX).map_err(|why| (expected(), why))?;
        // The engine does not say how large it is, but whether it is larger than this.
        let mut size = COMPILED_LEAST;
        while size < COMPILED_MAX {
            if let Ok(regex) = compiled(&translated, size) {
                return Ok(Self { text: text.to_owned(), size, regex });
            }
            size *= 2;
        }
        Ok(Self { text: text.to_owned(), size: COMPILED_MAX, regex: whole })
    }

    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The steps that a search in the text costs.
    pub(crate) fn cost(&self, text: &str) -> u64 {
        let steps = text.len().saturating_add(1).saturating_mul(self.size) / BYTES_BY_STEP;
        u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1)
    }
}

fn compiled(translated: &str, most: usize) -> Result<Regex, String> {
    let built = RegexBuilder::new(translated).size_limit(most).dfa_size_limit(COMPILED_MAX).build();
    built.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
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
        check("^.$", &["a", "é"], &["\n", "\r", "\u{2028}", ""]);
        check(r"^\s$", &["\u{feff}", "\u{a0}", "\n"], &["\u{85}", "s"]);
        check(r"^\S$", &["\u{85}", "s"], &["\u{feff}", " "]);
        check(r"^a{2,3}?b{1,}c{2}$", &["aabcc"], &["abcc"]);
        check("^(?:a|(?<name>b))$", &["a", "b"], &["c"]);
        check(r"^\x41\u{42}\.\]\}]}$", &["AB.]}]}"], &["AB"]);
        check(r"^\<a\>$", &["<a>"], &["a"]);
    }

    #[test]
    fn nothing_within_brackets_is_an_operator_but_a_range() {
        check("^[a-c--]$", &["a", "b", "c", "-"], &["d", ""]);
        check("^[+--]$", &["+", ",", "-"], &[".", "*"]);
        check("^[--/]$", &["-", ".", "/"], &[",", "0"]);
        check("^[a-z--b]+$", &["abz-", "[", "B"], &[",", "{"]);
        check("^[a&&b~~c[d]$", &["a", "&", "b", "~", "c", "[", "d"], &["e"]);
        check("^[[:alpha:]]$", &["a]", ":]", "[]"], &["b]", "b"]);
        check(r"^[\w-.]$", &["a", "_", "-", "."], &["`", "^", "+"]);
        check(r"^[\w-z]$", &["a", "-"], &["`"]);
        check(r"^[\]\[^-]$", &["]", "[", "^", "-"], &["a", "\\"]);
        check(r"^[\s\S]$", &["a", "\n"], &[""]);
        check(r"^[^\d\-\x41-\x43]$", &["D", "a"], &["1", "-", "B"]);
        check(r"^[\b\t\p{Lu}\P{L}]$", &["\u{8}", "\t", "É", "1"], &["é"]);
        check("^[-a]$", &["-", "a"], &["b"]);
        check("^[a-]$", &["-", "a"], &["b"]);
    }

    #[test]
    fn what_has_another_meaning_in_the_engine_is_no_pattern() {
        for pattern in [
            "[]",
            "[^]",
            "[]a]",
            "[a",
            "[b-a]",
            r"[a-\q]",
            r"[\B]",
            r"[\1]",
            "(?i)a",
            "(?i:a)",
            "(?x) a",
            "(?P<a>b)",
            "(?-u:a)",
            "(?<a.b>c)",
            r"\Aa",
            r"a\z",
            r"\pL",
            r"\p{^L}",
            r"\p{ L }",
            r"\U00000041",
            r"\x{41}",
            r"\x4",
            r"\u{}",
            r"\a",
            r"\01",
            r"\k<a>",
            "a{ 2 }",
            "a{,2}",
            "a{",
            "{2}",
            r"a\",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_matched_in_linear_time_or_little_memory_is_no_pattern() {
        for pattern in ["(?=a)", r"(a)\1", "(?<!a)b", "(", "((a{100}){100}){100}", r"\p{L}{500}"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
