//! The rules of spec files: the permitted values, and the rules between files.
//!
//! This module knows neither TOML nor places in a file; [`crate::load`] does.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use crate::fold;
use crate::load::SpecFileCode as Code;
use crate::spec::Language;
use crate::template::placeholder::{self, Flaw, Slot};

/// The major version of the spec contract that this program speaks (seed 001, "Versionado del Contrato").
const CONTRACT_MAJOR: u64 = 1;
/// The codes of the spec contract (seed 001, "Tipos de Errores" and Example 3).
const CONTRACT_CODES: [&str; 9] = [
    "CAPABILITY_NOT_SUPPORTED",
    "FATAL_ERROR",
    "INSUFFICIENT_CONTEXT",
    "INVALID_REQUEST",
    "PROCESSING_TIMEOUT",
    "RATE_LIMIT",
    "SPEC_NOT_AVAILABLE",
    "TEMPORARY_ERROR",
    "VALIDATION_ERROR",
];

/// The limits of a spec file. The numbers are far above the needs of a good spec; they bound memory and training time.
pub(crate) mod limit {
    pub(crate) const NAME: usize = 64;
    pub(crate) const TITLE: usize = 200;
    pub(crate) const DESCRIPTION: usize = 2_000;
    pub(crate) const WORD: usize = 100;
    pub(crate) const PHRASE: usize = 200;
    pub(crate) const EXPRESSION: usize = 500;
    pub(crate) const EXAMPLE: usize = 1_000;
    pub(crate) const TEMPLATE: usize = 10_000;
    pub(crate) const LANGUAGES: usize = 32;
    pub(crate) const CAPABILITIES: usize = 100;
    pub(crate) const ERROR_CODES: usize = 100;
    pub(crate) const KEYWORDS: usize = 2_000;
    pub(crate) const PATTERNS: usize = 200;
    pub(crate) const PHRASES_PER_PATTERN: usize = 200;
    pub(crate) const EXPRESSIONS_PER_PATTERN: usize = 50;
    /// The limit over all patterns together. Each expression may take [`super::EXPRESSION_BYTES`].
    pub(crate) const EXPRESSIONS: usize = 200;
    pub(crate) const TEMPLATES_PER_LANGUAGE: usize = 50;
    pub(crate) const INTENTS: usize = 500;
    pub(crate) const EXAMPLES: usize = 10_000;
    pub(crate) const CHARACTERS: usize = 1_000_000;
}

/// The maximum memory of a compiled expression, and of its cache while it matches.
const EXPRESSION_BYTES: usize = 512 * 1024;
/// The maximum nesting of groups and repetitions in an expression.
const EXPRESSION_NESTING: u32 = 40;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub code: Code,
    pub message: String,
    /// The place in the value, in bytes.
    pub offset: Option<usize>,
}

impl Broken {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), offset: None }
    }
}

type Checked<T = ()> = Result<T, Broken>;

/// Returns the nearest of `known` that could have been meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    // In a name of three letters, two wrong letters make a different name.
    let most = (name.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&name, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, known)| known)
}

/// Returns `; did you mean …?` if a known name is near, else nothing.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    // Comparing very long names takes too long.
    if name.chars().count() > limit::NAME {
        return String::new();
    }
    nearest(name, known).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}

/// Checks the id of a spec: lower-case words with hyphens in between.
pub(crate) fn spec_id(id: &str) -> Checked {
    let parts_are_words = id.split('-').all(|part| {
        !part.is_empty() && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    });
    if parts_are_words && id.len() <= limit::NAME {
        return Ok(());
    }
    let message = "an id is 1 to 64 characters: lower-case words and digits, hyphens in between, such as `trip-planner`";
    Err(Broken::new(Code::InvalidName, message))
}

/// Checks the name of a pattern, an intent or a capability.
pub(crate) fn name(name: &str) -> Checked {
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|letter| letter.is_ascii_lowercase());
    let goes_on = letters
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '_' | '-'));
    if starts && goes_on && name.len() <= limit::NAME {
        return Ok(());
    }
    let message = "a name is 1 to 64 characters: a lower-case letter, then letters, digits, `_` and `-`, such as \
                   `action_planning`";
    Err(Broken::new(Code::InvalidName, message))
}

/// Checks the name of an intent.
pub(crate) fn intent_name(intent: &str) -> Checked {
    name(intent)?;
    if intent == "unclear" {
        let message = "`unclear` marks an unrecognised intent; choose another name";
        return Err(Broken::new(Code::InvalidName, message));
    }
    Ok(())
}

pub(crate) fn language(code: &str) -> Checked {
    if matches!(code.len(), 2 | 3) && code.chars().all(|letter| letter.is_ascii_lowercase()) {
        return Ok(());
    }
    let message = "a language is its code of two or three lower-case letters, such as `es`";
    Err(Broken::new(Code::InvalidName, message))
}

/// Checks the name of an agent, in the form that workers and `capataz.toml` use.
pub(crate) fn agent(agent: &str) -> Checked {
    if agent.chars().all(|letter| !letter.is_whitespace() && !letter.is_control()) {
        return Ok(());
    }
    Err(Broken::new(Code::InvalidName, "the name of an agent has no white space; `template` is built in"))
}

/// Checks an error code that the spec declares itself.
pub(crate) fn own_code(code: &str) -> Checked {
    let mut letters = code.chars();
    let starts = letters.next().is_some_and(|letter| letter.is_ascii_uppercase());
    let goes_on =
        letters.all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    if !starts || !goes_on || code.len() > limit::NAME {
        let message = "an error code is 1 to 64 characters: upper-case letters, digits and `_`, such as `NO_SEATS_LEFT`";
        return Err(Broken::new(Code::InvalidName, message));
    }
    if CONTRACT_CODES.contains(&code) {
        let message =
            "the spec contract has this code already; leave it out, `error.code` may name it all the same";
        return Err(Broken::new(Code::Duplicate, message));
    }
    Ok(())
}

/// Checks the code of a refusal: one of the contract's or one that the spec declares.
pub(crate) fn refusal_code(code: &str, own: &[String]) -> Checked {
    if CONTRACT_CODES.contains(&code) || own.iter().any(|known| known == code) {
        return Ok(());
    }
    let known = CONTRACT_CODES.into_iter().chain(own.iter().map(String::as_str));
    let hint = did_you_mean(code, known);
    let message = format!("`{code}` is neither a code of the spec contract nor one of `error_codes`{hint}");
    Err(Broken::new(Code::InvalidValue, message))
}

/// Checks the version of the spec contract that a spec supports.
pub(crate) fn contract_version(version: &str) -> Checked {
    let Ok(parsed) = semver::Version::parse(version) else {
        return Err(Broken::new(Code::InvalidValue, "a version has three numbers, such as `1.0.0`"));
    };
    if parsed.major == CONTRACT_MAJOR {
        return Ok(());
    }
    let message =
        format!("this program supports version {CONTRACT_MAJOR} of the spec contract; write `1.0.0`");
    Err(Broken::new(Code::IncompatibleVersion, message))
}

pub(crate) fn weight(weight: f64) -> Checked {
    if weight > 0.0 && weight <= 10.0 {
        return Ok(());
    }
    Err(Broken::new(Code::OutOfRange, "a weight is above 0 and at most 10; 1 is what a plain string has"))
}

pub(crate) fn confidence(confidence: f64) -> Checked {
    if (0.0..=1.0).contains(&confidence) {
        return Ok(());
    }
    Err(Broken::new(Code::OutOfRange, "a confidence is from 0 to 1"))
}

pub(crate) fn format(format: &str) -> Checked {
    if matches!(format, "text" | "markdown" | "html") {
        return Ok(());
    }
    Err(Broken::new(Code::InvalidValue, "a format is `text`, `markdown` or `html`"))
}

/// Checks a text for matching, of which something must remain without case, accents and punctuation.
pub(crate) fn matchable(text: &str) -> Checked {
    if fold::words(text).is_empty() {
        return Err(Broken::new(
            Code::Empty,
            "no letter and no digit, so it could match nothing; write words",
        ));
    }
    Ok(())
}

/// Compiles a regular expression with a bound on its memory. The crate `regex` matches in linear time.
pub(crate) fn expression(pattern: &str) -> Checked<Regex> {
    let compiled = RegexBuilder::new(pattern)
        .size_limit(EXPRESSION_BYTES)
        .dfa_size_limit(EXPRESSION_BYTES)
        .nest_limit(EXPRESSION_NESTING)
        .build();
    match compiled {
        Ok(compiled) if compiled.is_match("") => {
            let message =
                "the expression matches the empty text, and so any text; require at least one character";
            Err(Broken::new(Code::InvalidExpression, message))
        }
        Ok(compiled) => Ok(compiled),
        Err(regex::Error::CompiledTooBig(_)) => {
            let message =
                "it needs more than 512 KiB when compiled; use smaller repetitions, or several expressions";
            Err(Broken::new(Code::ExpressionTooLarge, message))
        }
        Err(error) => Err(invalid_expression(pattern, &error)),
    }
}

/// The reason why an expression does not compile, with its place; `regex` itself only formats a picture of it.
fn invalid_expression(pattern: &str, error: &regex::Error) -> Broken {
    let parsed = regex_syntax::ParserBuilder::new().nest_limit(EXPRESSION_NESTING).build().parse(pattern);
    let (kind, offset) = match parsed {
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), Some(error.span().start.offset)),
        Err(regex_syntax::Error::Translate(error)) => {
            (error.kind().to_string(), Some(error.span().start.offset))
        }
        Err(error) => (error.to_string(), None),
        Ok(_) => (error.to_string(), None),
    };
    let place = offset
        .and_then(|offset| pattern.get(..offset))
        .map(|before| format!(" at character {}", before.chars().count() + 1))
        .unwrap_or_default();
    let message = format!("not a regular expression{place}: {kind}");
    Broken { code: Code::InvalidExpression, message, offset }
}

/// Checks a text with placeholders.
pub(crate) fn template(text: &str) -> Checked {
    let Err(flaw) = placeholder::pieces(text) else { return Ok(()) };
    Err(match flaw {
        Flaw::LoneBrace(brace) => {
            let message = format!("unbalanced `{brace}`; a literal brace is written twice");
            Broken::new(Code::InvalidTemplate, message)
        }
        Flaw::Unknown(name) => {
            let known = || Slot::ALL.into_iter().map(|(known, _)| known);
            let hint = did_you_mean(&name, known());
            let all = known().collect::<Vec<_>>().join(", ");
            let shown: String = name.chars().take(limit::NAME).collect();
            let message = format!("there is no placeholder `{shown}`{hint} (there are: {all})");
            Broken::new(Code::UnknownPlaceholder, message)
        }
        Flaw::NoDefault(name) => {
            let message = format!(
                "`{{{name}}}` may be empty; say what stands there then: `{{{name}|something}}` or `{{{name}|}}`"
            );
            Broken::new(Code::InvalidTemplate, message)
        }
    })
}

pub(crate) fn declared(language: &str, declared: &[Language]) -> Checked {
    if declared.iter().any(|known| known == language) {
        return Ok(());
    }
    let message =
        format!("`{language}` is not among the `languages` of this spec; add it there, or remove it here");
    Err(Broken::new(Code::UndeclaredLanguage, message))
}

/// The facts about one file that the rules between files need.
#[derive(Debug, Default)]
pub(crate) struct Claim<'a> {
    pub file: &'a str,
    /// The line and column of `id`, and the id.
    pub id: Option<((usize, usize), String)>,
    /// The line and column of `default`, if it is true.
    pub default: Option<(usize, usize)>,
}

/// A broken rule between files: the file, the place and the key.
#[derive(Debug)]
pub(crate) struct Collision {
    /// The file's index in the list of claims.
    pub file: usize,
    pub place: (usize, usize),
    pub key: &'static str,
    pub code: Code,
    pub message: String,
}

/// Checks that every id occurs once, and that at most one spec is the default. The first claim is valid; later ones are
/// reported.
pub(crate) fn across(claims: &[Claim<'_>]) -> Vec<Collision> {
    let mut collisions = Vec::new();
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    let mut default: Option<&str> = None;
    for (file, claim) in claims.iter().enumerate() {
        if let Some((place, id)) = &claim.id {
            if let Some(first) = ids.get(id.as_str()) {
                let message = format!("{first} has the id `{id}`, too; change one of them");
                collisions.push(Collision {
                    file,
                    place: *place,
                    key: "id",
                    code: Code::DuplicateId,
                    message,
                });
            } else {
                ids.insert(id, claim.file);
            }
        }
        if let Some(place) = claim.default {
            if let Some(first) = default {
                let message =
                    format!("{first} is the default spec already; only one spec can be the default");
                collisions.push(Collision {
                    file,
                    place,
                    key: "default",
                    code: Code::SecondDefault,
                    message,
                });
            } else {
                default = Some(claim.file);
            }
        }
    }
    collisions
}
