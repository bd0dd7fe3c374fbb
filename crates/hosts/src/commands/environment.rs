//! The environment that a command gets, and the secrets in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;

use super::agent::ProcessAgent;
use crate::port::SecretResolver;
use crate::redact::Redactor;

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

    /// The names of the secrets that it refers to.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Secret(name) => Some(*name),
        })
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

/// What is wrong with the references to secrets in this text, for people; `None` where nothing is.
#[must_use]
pub fn wrong_reference(text: &str) -> Option<String> {
    Template::parse(text).err()
}

/// The names of the secrets that this text refers to. One with a wrong reference refers to none.
#[must_use]
pub fn secrets_of(text: &str) -> Vec<&str> {
    Template::parse(text).iter().flat_map(Template::secrets).collect()
}

/// The text with the secrets that it refers to in their places.
///
/// # Errors
/// Which secret is not known, or cannot be read; never a value.
pub fn filled(text: &str, secrets: &dyn SecretResolver) -> Result<String, String> {
    let template = Template::parse(text)?;
    template.fill(secrets, &mut Vec::new()).map_err(|missing| match missing {
        Missing::Invalid(problem) => problem,
        Missing::Unread(problem, error) => format!("{problem}: {error}"),
    })
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

/// The variable by which programs pass on the span that they are part of (OpenTelemetry, "Environment Variables as Context
/// Propagation Carriers").
const SPAN_VARIABLE: &str = "TRACEPARENT";

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
    /// The agent's environment out of the daemon's (`inherited` answers for one name) and its own variables, with the span
    /// that its work belongs to, where there is one, in between.
    ///
    /// # Errors
    /// The variable that cannot be given, and the reason.
    pub(super) fn of_agent(
        agent: &ProcessAgent,
        traceparent: &str,
        inherited: impl Fn(&str) -> Option<OsString>,
        secrets: &dyn SecretResolver,
    ) -> Result<Self, Missing> {
        let mut variables = BTreeMap::new();
        for name in &agent.pass_env {
            if let Some(value) = inherited(name) {
                variables.insert(OsString::from(name), value);
            }
        }
        if !traceparent.is_empty() {
            variables.insert(OsString::from(SPAN_VARIABLE), OsString::from(traceparent));
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
        let environment = Environment::of_agent(&agent, "", inherited, &vault).ok();
        let variables = environment.map(|environment| environment.variables).unwrap_or_default();
        let expected =
            [("HOME", "/own"), ("PATH", "daemon")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(variables, BTreeMap::from(expected));
    }

    #[test]
    fn the_span_of_the_work_stands_before_that_of_the_daemon_and_behind_the_agents_own() {
        let mut agent = ProcessAgent::new("a", ["cat"]);
        agent.pass_env = vec!["TRACEPARENT".into()];
        let inherited = |_: &str| Some(OsString::from("daemon"));
        let told = |agent: &ProcessAgent, traceparent: &str| {
            let environment = Environment::of_agent(agent, traceparent, inherited, &vault).ok();
            environment
                .and_then(|environment| environment.variables.get(&OsString::from("TRACEPARENT")).cloned())
        };
        assert_eq!(told(&agent, "00-span").as_deref(), Some("00-span".as_ref()));
        assert_eq!(told(&agent, "").as_deref(), Some("daemon".as_ref()));
        agent.env.insert("TRACEPARENT".into(), "own".into());
        assert_eq!(told(&agent, "00-span").as_deref(), Some("own".as_ref()));
        agent.pass_env.clear();
        agent.env.clear();
        assert_eq!(told(&agent, ""), None);
    }
}
