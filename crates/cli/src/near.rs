//! Names that may be meant where a name is not known.
//!
//! The daemon suggests agents and specs by the distance of whole names alone, as the contract says. People also write a part of
//! a name, so that words are compared here as well: `review` is near `code-reviewer`.

use std::collections::BTreeSet;

use capataz_client::ClientError;
use capataz_policy::codes;

use crate::commands::{Daemon, fetch};
use crate::failure::{About, Failure};

/// Names that are suggested for one.
const MOST_NAMES: usize = 3;
/// Unknown names of one answer that are looked at.
const MOST_SOUGHT: usize = 10;
/// Bytes of a name that is compared.
const LONGEST: usize = 256;
/// Characters of a word that may stand for a longer one.
const SHORTEST_PART: usize = 3;
/// Sessions that are looked at: one answer of the daemon.
const SESSIONS: u32 = 500;

/// A name that is not known, and known ones that are near it and that were not told yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    pub name: String,
    pub names: Vec<String>,
}

/// The known names that may be meant, the nearest first: at most three.
pub fn names<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let near: BTreeSet<(usize, usize, &str)> = known
        .filter(|name| wanted.len().max(name.len()) <= LONGEST)
        .filter_map(|name| {
            let by = [by_words(wanted, name), as_a_whole(wanted, name)];
            // Words that nobody has asked for are the last thing that counts.
            Some((by.into_iter().flatten().min()?, words(name).len(), name))
        })
        .collect();
    near.into_iter().take(MOST_NAMES).map(|(.., name)| name.to_owned()).collect()
}

/// How far the words of `wanted` are from words of the name; `None` if one of them is near no word of it.
fn by_words(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, words) = (words(wanted), words(name));
    let nearest = |wanted: &String| words.iter().filter_map(|word| of_word(wanted, word)).min();
    if wanted.is_empty() { None } else { wanted.iter().map(nearest).sum() }
}

/// How far the whole names are from each other: of three letters one may be wrong, and five of many.
fn as_a_whole(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    let distance = strsim::levenshtein(&wanted, &name);
    (distance <= (wanted.chars().count() / 3).min(5)).then_some(distance + 1)
}

fn of_word(wanted: &str, word: &str) -> Option<usize> {
    let length = wanted.chars().count();
    if wanted == word {
        return Some(0);
    }
    if length >= SHORTEST_PART && word.starts_with(wanted) {
        return Some(1);
    }
    // Of four letters one may be wrong, and of eight two.
    let distance = strsim::levenshtein(wanted, word);
    (distance <= (length / 4).min(2)).then_some(distance + 1)
}

fn words(name: &str) -> Vec<String> {
    let words = name.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The failure with the names that may be meant, where the daemon does not know a name. What cannot be asked for is left out,
/// and what is in it already stays.
pub async fn hinted(mut failure: Failure) -> Failure {
    if let Failure::Answer { error, addr, about, near } = &mut failure
        && near.is_empty()
    {
        *near = of_answer(error, addr, about).await.unwrap_or_default();
    }
    failure
}

async fn of_answer(error: &ClientError, addr: &str, about: &About) -> Result<Vec<Near>, Failure> {
    let sought =
        sought(error.code().unwrap_or_default(), error.message(), &texts(error), about.session.as_deref());
    if sought.is_empty() {
        return Ok(Vec::new());
    }
    let daemon = Daemon::connect_to(addr).await?;
    let mut near = Vec::new();
    for Sought { kind, name, told } in sought {
        let known = known(&daemon, kind, about.run.as_deref()).await?;
        let mut names = names(&name, known.iter().map(String::as_str));
        names.retain(|name| !told.contains(name));
        if !names.is_empty() {
            near.push(Near { name, names });
        }
    }
    Ok(near)
}

fn texts(error: &ClientError) -> Vec<&str> {
    error.violations().iter().map(|violation| violation.message.as_str()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Agent,
    Spec,
    Session,
    Task,
}

/// The names that the daemon knows.
async fn known(daemon: &Daemon, kind: Kind, run: Option<&str>) -> Result<Vec<String>, Failure> {
    let failure = |error| daemon.failure(error);
    Ok(match kind {
        Kind::Agent => agents(daemon).await?,
        Kind::Spec => {
            let specs = daemon.client.list_specs().await.map_err(failure)?;
            specs.into_iter().map(|spec| spec.id).collect()
        }
        Kind::Session => {
            let sessions = fetch::some_sessions(&daemon.client, SESSIONS).await.map_err(failure)?;
            sessions.into_iter().map(|session| session.session).collect()
        }
        Kind::Task => match run {
            Some(run) => {
                let run = fetch::run(daemon, run, false).await?;
                run.waves.into_iter().flat_map(|wave| wave.tasks).map(|task| task.name).collect()
            }
            None => Vec::new(),
        },
    })
}

/// The names of the agents that the daemon knows.
pub async fn agents(daemon: &Daemon) -> Result<Vec<String>, Failure> {
    let agents = daemon.client.list_agents().await.map_err(|error| daemon.failure(error))?;
    Ok(agents.into_iter().filter_map(|status| Some(status.agent?.name)).collect())
}

/// A name that the daemon does not know, and the names that it suggests.
#[derive(Debug, PartialEq, Eq)]
struct Sought {
    kind: Kind,
    name: String,
    told: Vec<String>,
}

/// The names that an answer says are not known.
fn sought(code: &str, message: &str, details: &[&str], session: Option<&str>) -> Vec<Sought> {
    let is = |known: codes::Code| known.as_str() == code;
    let kind = match () {
        () if is(codes::AGENT_NOT_FOUND) || is(codes::AGENTS_VALIDATION_FAILED) => Kind::Agent,
        () if is(codes::SPEC_NOT_FOUND) => Kind::Spec,
        () if is(codes::TASK_NOT_FOUND) => Kind::Task,
        () if is(codes::SESSION_NOT_FOUND) => {
            // The answer does not repeat the name.
            let sought = |name: &str| Sought { kind: Kind::Session, name: name.to_owned(), told: Vec::new() };
            return session.map(sought).into_iter().collect();
        }
        () => return Vec::new(),
    };
    let word = match kind {
        Kind::Agent => "agent",
        Kind::Spec => "spec",
        Kind::Task => "task",
        Kind::Session => "session",
    };
    let texts = if details.is_empty() { vec![message] } else { details.to_vec() };
    let unknown = texts.into_iter().filter_map(|text| {
        let quoted = text.strip_prefix("there is no ")?.strip_prefix(word)?.strip_prefix(" \"")?;
        let (quoted, told) = quoted.rsplit_once("; similar: ").unwrap_or((quoted, ""));
        let told = told.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        // The details may end with the name of a rule.
        let (name, _) = quoted.rsplit_once('"')?;
        Some(Sought { kind, name: name.to_owned(), told })
    });
    unknown.take(MOST_SOUGHT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] =
        ["code-reviewer", "test-analyzer", "elsabro-executor", "reviews", "Code_Writer", "planner"];

    #[track_caller]
    fn check(wanted: &str, expected: &[&str]) {
        assert_eq!(names(wanted, KNOWN.into_iter()), expected, "{wanted}");
    }

    #[test]
    fn names_are_near_by_their_words_as_well() {
        check("review", &["reviews", "code-reviewer"]);
        check("reviewr", &["reviews", "code-reviewer"]);
        check("code", &["Code_Writer", "code-reviewer"]);
        check("reviewer-code", &["code-reviewer"]);
        check("TEST", &["test-analyzer"]);
        check("analizer", &["test-analyzer"]);
        // Each word has to be near one.
        check("elsabro-nonexistent", &[]);
        check("code-nonexistent", &[]);
        check("an", &[]);
        check("--", &[]);
        check("", &[]);
        check(&"code ".repeat(52), &[]);
    }

    #[test]
    fn what_is_nearer_comes_first_and_three_are_enough() {
        let known = ["build-all-web", "build-api", "build-web", "rebuild", "builder"];
        assert_eq!(names("build", known.into_iter()), ["build-api", "build-web", "build-all-web"]);
        assert_eq!(names("buil-we", known.into_iter()), ["build-web"]);
    }

    #[test]
    fn an_answer_says_which_names_are_not_known() {
        let check = |code: &str, message: &str, details: &[&str], expected: &[(Kind, &str, &[&str])]| {
            let found = sought(code, message, details, Some("relase"));
            let expected = expected.iter().map(|(kind, name, told)| Sought {
                kind: *kind,
                name: (*name).to_owned(),
                told: told.iter().map(|name| (*name).to_owned()).collect(),
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{code}");
        };
        let one = "there is no agent \"plan\"; similar: Plan, Planer";
        check(
            "AGENT_NOT_FOUND",
            "there is no agent \"plan\"",
            &[one],
            &[(Kind::Agent, "plan", &["Plan", "Planer"])],
        );
        let two = [one, "there is no agent \"x \\\"y\"", "there is no command \"z\""];
        check(
            "AGENTS_VALIDATION_FAILED",
            "2 of 3 names are unknown",
            &two,
            &[(Kind::Agent, "plan", &["Plan", "Planer"]), (Kind::Agent, "x \\\"y", &[])],
        );
        check("SPEC_NOT_FOUND", "there is no spec \"kir\"", &[], &[(Kind::Spec, "kir", &[])]);
        check("TASK_NOT_FOUND", "there is no task \"lnt\"", &[], &[(Kind::Task, "lnt", &[])]);
        check("SESSION_NOT_FOUND", "there is no such session", &[], &[(Kind::Session, "relase", &[])]);
        check("RUN_NOT_FOUND", "there is no run \"x\"", &[], &[]);
    }
}
