//! The environment that a command gets, and the secrets in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;

use super::agent::ProcessAgent;
use crate::port::SecretResolver;

/// A value with its references to secrets found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template<'a>(Vec<Piece<'a>>);

#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Secret(&'a str),
}

const REFERENCE_START: &str = "${secret:";

impl<'a> Template<'a> {
    pub(super) fn mentions_secret(value: &str) -> bool {
        value.contains(REFERENCE_START)
    }

    /// # Errors
    /// What is wrong with a reference, for people.
    pub(super) fn parse(value: &'a str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = value;
        while let Some((text, reference)) = rest.split_once(REFERENCE_START) {
            let Some((name, after)) = reference.split_once('}') else {
                return Err(format!("`{REFERENCE_START}` is not closed by `}}`"));
            };
            let allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
            if name.is_empty() || !name.chars().all(allowed) {
                return Err("a secret's name consists of ASCII letters, digits, `_`, `-` and `.`".to_owned());
            }
            pieces.extend([Piece::Text(text), Piece::Secret(name)]);
            rest = after;
        }
        pieces.push(Piece::Text(rest));
        Ok(Self(pieces))
    }

    /// The value with its secrets in place; each of them is added to `used`.
    ///
    /// # Errors
    /// The name of the first secret that is unknown or cannot stand in a variable, and why.
    fn fill(&self, secrets: &dyn SecretResolver, used: &mut Vec<String>) -> Result<String, Missing> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Secret(name) => {
                    let resolved = secrets.resolve(name).map_err(|error| {
                        Missing::Unread(format!("the secret `{name}` cannot be read"), error)
                    })?;
                    let invalid = |problem: &str| Missing::Invalid(format!("the secret `{name}` {problem}"));
                    let value = resolved.ok_or_else(|| invalid("is not known"))?;
                    if value.contains('\0') {
                        return Err(invalid("contains a zero byte"));
                    }
                    filled.push_str(&value);
                    used.push(value);
                }
            }
        }
        Ok(filled)
    }
}

/// Why a command gets no environment.
#[derive(Debug)]
pub(super) enum Missing {
    /// What is wrong with a variable, for people; never a value.
    Invalid(String),
    /// A secret cannot be read now; the text says which one.
    Unread(String, io::Error),
}

impl Missing {
    /// The same with the name of the variable.
    fn of_variable(self, name: &str) -> Self {
        match self {
            Self::Invalid(problem) => Self::Invalid(format!("env.{name}: {problem}")),
            Self::Unread(problem, error) => Self::Unread(format!("env.{name}: {problem}"), error),
        }
    }
}

/// What one command gets, with its secrets in the clear. Its `Debug` shows names only.
pub(super) struct Environment {
    pub(super) variables: BTreeMap<OsString, OsString>,
    pub(super) secrets: Redactor,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Environment {
    /// The agent's environment out of the daemon's (`inherited` answers for one name) and its own variables.
    ///
    /// # Errors
    /// The variable that cannot be given, and the reason.
    pub(super) fn of_agent(
        agent: &ProcessAgent,
        inherited: impl Fn(&str) -> Option<OsString>,
        secrets: &dyn SecretResolver,
    ) -> Result<Self, Missing> {
        let mut variables = BTreeMap::new();
        for name in &agent.pass_env {
            if let Some(value) = inherited(name) {
                variables.insert(OsString::from(name), value);
            }
        }
        let mut used = Vec::new();
        for (name, value) in &agent.env {
            let template = Template::parse(value).map_err(Missing::Invalid);
            let filled = template.and_then(|template| template.fill(secrets, &mut used));
            let filled = filled.map_err(|missing| missing.of_variable(name))?;
            variables.insert(OsString::from(name), OsString::from(filled));
        }
        Ok(Self { variables, secrets: Redactor::new(&used) })
    }
}

/// Masks the secrets that a command was given wherever it repeats them in its log or its errors.
///
/// What it writes to stdout as its result is its own business. Nor is a secret found that the command writes in another
/// form, such as Base64.
#[derive(Clone, Default)]
pub(super) struct Redactor {
    needles: Vec<Vec<u8>>,
}

/// Shorter values are not masked: they occur by chance.
const SHORTEST_MASKED: usize = 4;

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.needles.len())
    }
}

impl Redactor {
    /// Secrets of several lines are masked line by line as well: a log may show them indented.
    pub(super) fn new(secrets: &[String]) -> Self {
        let whole = secrets.iter().map(String::as_str);
        let lines = secrets.iter().flat_map(|secret| secret.lines()).map(str::trim);
        let needles = whole.chain(lines).filter(|needle| needle.len() >= SHORTEST_MASKED);
        let mut needles: Vec<_> = needles.map(|needle| needle.as_bytes().to_vec()).collect();
        needles.sort_unstable();
        needles.dedup();
        Self { needles }
    }

    /// Bytes of the longest secret: how far a cut must stay away from what is shown.
    pub(super) fn longest(&self) -> usize {
        self.needles.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    pub(super) fn begun(&self, text: &[u8]) -> usize {
        let of = |needle: &Vec<u8>| {
            let mut lengths = (1..needle.len()).rev();
            lengths.find(|length| needle.get(..*length).is_some_and(|begun| text.ends_with(begun)))
        };
        self.needles.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Overwrites every secret with asterisks.
    pub(super) fn mask(&self, text: &mut [u8]) {
        let mut found = Vec::new();
        for needle in &self.needles {
            let starts = text.windows(needle.len()).enumerate().filter(|(_, window)| window == needle);
            found.extend(starts.map(|(start, _)| start..start + needle.len()));
        }
        for range in found {
            if let Some(secret) = text.get_mut(range) {
                secret.fill(b'*');
            }
        }
    }

    /// The text without secrets.
    pub(super) fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.needles.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut bytes = text.as_bytes().to_vec();
        self.mask(&mut bytes);
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("s3cr3t-value".to_owned()),
            "SHORT" => Some("abc".to_owned()),
            "ZERO" => Some("a\0b".to_owned()),
            _ => None,
        }
    }

    #[track_caller]
    fn check(value: &str, expected: Result<&str, &str>) {
        let template = Template::parse(value).map_err(Missing::Invalid);
        let filled = template.and_then(|template| template.fill(&vault, &mut Vec::new()));
        let filled = filled.map_err(|missing| match missing {
            Missing::Invalid(problem) => problem,
            Missing::Unread(problem, error) => format!("{problem}: {error}"),
        });
        assert_eq!(filled.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn references_are_replaced_and_nothing_else() {
        check("plain ${HOME} $x", Ok("plain ${HOME} $x"));
        check("Bearer ${secret:KEY}!", Ok("Bearer s3cr3t-value!"));
        check("${secret:KEY}${secret:SHORT}", Ok("s3cr3t-valueabc"));
        check("${secret:NONE}", Err("the secret `NONE` is not known"));
        check("${secret:ZERO}", Err("the secret `ZERO` contains a zero byte"));
        check("${secret:KEY", Err("`${secret:` is not closed by `}`"));
        check("${secret:a b}", Err("a secret's name consists of ASCII letters, digits, `_`, `-` and `.`"));
    }

    #[test]
    fn own_variables_win_over_inherited_ones() {
        let mut agent = ProcessAgent::new("a", ["cat"]);
        agent.pass_env = vec!["PATH".into(), "HOME".into(), "UNSET".into()];
        agent.env.insert("HOME".into(), "/own".into());
        let inherited = |name: &str| (name != "UNSET").then(|| OsString::from("daemon"));
        let environment = Environment::of_agent(&agent, inherited, &vault).ok();
        let variables = environment.map(|environment| environment.variables).unwrap_or_default();
        let expected =
            [("HOME", "/own"), ("PATH", "daemon")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(variables, BTreeMap::from(expected));
    }

    #[test]
    fn secrets_are_masked_also_where_they_overlap() {
        let redactor = Redactor::new(&["abcdef".to_owned(), "defghi".to_owned(), "xyz".to_owned()]);
        assert_eq!(redactor.masked("-abcdefghi- xyz"), "-*********- xyz");
        assert_eq!(redactor.longest(), 6);
        let lines = Redactor::new(&["first line\n  second line\n".to_owned()]);
        assert_eq!(lines.masked("> second line"), "> ***********");
    }
}
