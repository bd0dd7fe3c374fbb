//! What secrets look like.

use std::sync::LazyLock;

use regex::Regex;

/// The ends of names whose values are secret: `access_token`, `X-Api-Key`, `client-secret`.
const NAMES: &str = r"(?:[a-z0-9]+[_.\-])*(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|client[_\-]?secret|auth|authorization|credentials?|session[_\-]?id|jsessionid|phpsessid|sid|csrf|xsrf|csrftoken|xsrftoken|accesstoken|refreshtoken|idtoken|otp|jwt)";

/// Names whose values are secret in a URL, and that mean something else elsewhere.
const URL_NAMES: &str = r"(?:code|key|sig|signature|samlresponse|samlrequest|ticket|assertion)";

/// One form that a secret may have.
#[derive(Debug)]
pub(super) struct Rule {
    /// The group `secret` of a match is masked, or the whole match if there is no such group.
    pub(super) pattern: Regex,
    pub(super) only: Only,
}

/// The matches of a pattern that count: the words for keys and tokens are words of plain text, too.
#[derive(Clone, Copy, Debug)]
pub(super) enum Only {
    All,
    /// With a digit, or too long for a word.
    Unlike(usize),
}

impl Only {
    pub(super) fn takes(self, found: &str) -> bool {
        match self {
            Self::All => true,
            Self::Unlike(longest_word) => {
                found.len() > longest_word || found.bytes().any(|byte| byte.is_ascii_digit())
            }
        }
    }
}

// The ends of words are those of ASCII: Unicode's would take the slow way through every text that has a letter beyond it,
// which is fifty times slower.
#[expect(clippy::expect_used, reason = "the patterns are constants, and a test compiles them")]
fn rule(pattern: &str, only: Only) -> Rule {
    Rule { pattern: Regex::new(pattern).expect("a constant pattern"), only }
}

pub(super) static BUILT_IN: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let all = |pattern: &str| rule(pattern, Only::All);
    let unlike_words = |pattern: &str| rule(pattern, Only::Unlike(24));
    let assigned = format!(
        r#"(?i)(?-u:\b){NAMES}(?:["']|&quot;|\\")?\s*[:=]\s*(?:["']|&quot;|\\")?(?P<secret>[^\s"'&<>;,(){{}}\[\]\\«»]{{8,}})"#
    );
    // As calls have it: `setItem("token", "…")`, `headers.set("x-api-key", "…")`.
    let quote = r#"(?:["'`]|&quot;|\\")"#;
    let argument =
        format!(r#"(?i){quote}{NAMES}{quote}\s*,\s*{quote}(?P<secret>[^\s"'`&<>;,(){{}}\[\]\\«»]{{8,}})"#);
    let parameter =
        format!(r#"(?i)(?:[?&#;]|%3F|%26|%23)(?:{NAMES}|{URL_NAMES})(?:=|%3D)(?P<secret>[^&#\s"'<>;\\]+)"#);
    vec![
        // User and password of a URL.
        all(r#"(?i)(?-u:\b)[a-z][a-z0-9+.\-]*://(?P<secret>[^/\s@"'<>?#\\]+)@"#),
        all(&parameter),
        all(r#"(?i)(?-u:\b)(?:proxy-)?authorization["']?\s*:\s*["']?(?P<secret>[^\r\n"'<>]{6,})"#),
        all(r#"(?i)(?-u:\b)(?:set-)?cookie["']?\s*:\s*["']?(?P<secret>[^\r\n"'<>]*=[^\r\n"'<>]*)"#),
        all(r"(?-u:\b)eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*){0,3}"),
        all(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"),
        all(r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{20,}"),
        all(r"(?-u:\b)github_pat_[A-Za-z0-9_]{20,}"),
        all(r"(?-u:\b)glpat-[A-Za-z0-9_\-]{16,}"),
        all(r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9\-]{10,}"),
        all(r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)"),
        all(r"(?-u:\b)AIza[0-9A-Za-z_\-]{30,}"),
        all(r"(?-u:\b)ya29\.[0-9A-Za-z_\-]{20,}"),
        all(r"(?-u:\b)npm_[A-Za-z0-9]{30,}"),
        unlike_words(r"(?-u:\b)(?:sk|pk|rk)[_\-][A-Za-z0-9_\-]{16,}"),
        unlike_words(
            r"(?i)(?-u:\b)(?:bearer|basic|digest|negotiate|token)\s+(?P<secret>[a-z0-9._~+/=\-]{8,})",
        ),
        unlike_words(&assigned),
        unlike_words(&argument),
    ]
});

/// True if a value of this name, such as a member of an object, is secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    #[expect(clippy::expect_used, reason = "the pattern is a constant, and a test compiles it")]
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        let snake = format!("^(?i:{NAMES})$");
        let camel = "^[a-z][A-Za-z0-9]*(?:Password|Secret|Token|ApiKey|AccessKey|PrivateKey|SessionId|Otp)$";
        Regex::new(&format!("{snake}|{camel}")).expect("a constant pattern")
    });
    NAME.is_match(name)
}

/// Where card numbers are in the text: 13 to 19 digits, perhaps in groups with spaces or dashes, with a valid check digit
/// (Luhn) and a first digit that cards have. Byte ranges, in order, none within another.
pub(super) fn card_numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    #[expect(clippy::expect_used, reason = "the pattern is a constant, and a test compiles it")]
    static DIGITS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[0-9]+(?:[ \-][0-9]+)*").expect("a constant pattern"));
    let mut found = Vec::new();
    for run in DIGITS.find_iter(text).filter(|run| run.len() >= 13) {
        cards_of_run(run.as_str(), run.start(), &mut found);
    }
    found
}

/// A run is groups of digits, and a card begins and ends with a group: other numbers may stand right beside it.
fn cards_of_run(run: &str, offset: usize, found: &mut Vec<std::ops::Range<usize>>) {
    let mut groups = Vec::new();
    let mut at = offset;
    for group in run.split([' ', '-']) {
        groups.push((at, group));
        at += group.len() + 1;
    }
    let mut rest = groups.as_slice();
    while let Some(((start, _), after)) = rest.split_first() {
        let mut digits = String::new();
        let mut end = None;
        for (count, (at, group)) in rest.iter().enumerate() {
            digits.push_str(group);
            if digits.len() > 19 {
                break;
            }
            if is_card(&digits) {
                end = Some((at + group.len(), count + 1));
            }
        }
        rest = match end {
            Some((end, count)) => {
                found.push(*start..end);
                rest.get(count..).unwrap_or_default()
            }
            None => after,
        };
    }
}

fn is_card(digits: &str) -> bool {
    (13..=19).contains(&digits.len()) && digits.starts_with(['2', '3', '4', '5', '6']) && luhn(digits)
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, byte)| {
            let digit = u32::from(byte.wrapping_sub(b'0'));
            if place % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
        })
        .sum();
    sum.is_multiple_of(10)
}
