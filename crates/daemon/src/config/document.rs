//! Files of the configuration in TOML, and all that is wrong with them at once, each with its line and the key that was meant.
//!
//! Whoever reads a value with `serde` hears of its first error alone. So what an error is about is taken out of the document,
//! and the rest is read again, until nothing is wrong with it.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

/// Problems of one file that are told.
pub(super) const MOST: usize = 50;
/// Bytes that are read again at most for the problems behind the first one.
const MOST_READ: usize = 32 * 1024 * 1024;
/// Bytes of a key for which a known one is looked for.
const LONGEST_KEY: usize = 64;

/// A file that is TOML.
#[derive(Debug)]
pub(super) struct Document<'t> {
    /// What the file is called in problems.
    name: String,
    text: &'t str,
    table: Spanned<DeTable<'t>>,
}

/// What can be read of a document.
#[derive(Debug)]
pub(super) struct InPart<T> {
    pub value: Option<T>,
    /// Every item of its arrays is where it is in the document.
    pub keeps_places: bool,
    /// All that is wrong with the document, in the order of its lines.
    pub problems: Vec<String>,
}

/// A way into the document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

impl<'t> Document<'t> {
    /// # Errors
    /// Each line that is no TOML.
    pub(super) fn parse(name: impl Into<String>, text: &'t str) -> Result<Self, Vec<String>> {
        let name = name.into();
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self { name, text, table });
        }
        let mut problems: Vec<(usize, usize, String)> = Vec::new();
        for error in errors.iter().take(MOST) {
            let (line, column) = place(text, error.span().map_or(0, |span| span.start));
            problems.push((line, column, format!("{name}:{line}:{column}: not TOML: {}", error.message())));
        }
        problems.sort();
        // Further errors of a line mostly follow from its first one.
        problems.dedup_by_key(|(line, ..)| *line);
        Err(problems.into_iter().map(|(.., problem)| problem).collect())
    }

    /// # Errors
    /// All that is wrong with it, in the order of its lines.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Vec<String>> {
        let InPart { value, problems, .. } = self.read_what_can_be();
        value.filter(|_| problems.is_empty()).ok_or(problems)
    }

    /// All that is wrong with it, and what can be read of the rest.
    pub(super) fn read_what_can_be<T: DeserializeOwned>(&self) -> InPart<T> {
        let mut rest = self.table.clone();
        let mut problems: Vec<(usize, String)> = Vec::new();
        let mut removed: Vec<Vec<Step>> = Vec::new();
        let mut value = None;
        // Each problem is taken out and all of the rest is read again, twice where its key has to be there.
        let rounds = (MOST_READ / self.text.len().max(1)).clamp(2, 3 * MOST);
        for _ in 0..rounds {
            let error = match T::deserialize(Deserializer::from(rest.clone())) {
                Ok(read) => {
                    value = Some(read);
                    break;
                }
                Err(error) => error,
            };
            let (message, span) = (error.message(), error.span().unwrap_or_default());
            let is_of_a_table = missing(message).is_some();
            // Items have the places of the whole document, from which nothing was taken.
            let path = way(self.table.get_ref(), &span, is_of_a_table);
            // That a key is missing is no news where it was taken out, nor that an enumeration has no variant.
            let is_emptied = message.starts_with("wanted exactly")
                && removed.iter().any(|gone| gone.len() > path.len() && gone.starts_with(&path));
            let is_news = !is_emptied
                && missing(message).is_none_or(|key| {
                    let path = path.iter().cloned().chain([Step::Key(key.to_owned())]);
                    !removed.contains(&path.collect())
                });
            if is_news {
                let (line, column) = place(self.text, span.start);
                let key = shown(&path);
                let separator = if key.is_empty() { "" } else { ": " };
                let problem = in_words(message);
                let problem = format!("{}:{line}:{column}: {key}{separator}{problem}", self.name);
                problems.push((span.start, problem));
            }
            let gone = way(rest.get_ref(), &span, is_of_a_table);
            if problems.len() >= MOST || !take_out(rest.get_mut(), &gone) {
                break;
            }
            removed.push(path);
        }
        problems.sort();
        let keeps_places = !removed.iter().any(|path| matches!(path.last(), Some(Step::Item(_))));
        InPart { value, keeps_places, problems: problems.into_iter().map(|(_, problem)| problem).collect() }
    }

    /// What it was read from, without a mark at its beginning.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.table.get_ref().keys().map(|key| key.get_ref().as_ref())
    }

    /// A problem of a value that was read, which begins with its path: with the place of what there is of the path.
    pub(super) fn placed(&self, problem: &str) -> String {
        let path = problem.split_once(": ").map_or("", |(path, _)| path);
        match offset_of(self.table.get_ref(), path) {
            Some(offset) => {
                let (line, column) = place(self.text, offset);
                format!("{}:{line}:{column}: {problem}", self.name)
            }
            None => format!("{}: {problem}", self.name),
        }
    }
}

/// The way to the innermost key or value that the span is, or is within. That a key is missing is said of a table.
fn way(table: &DeTable<'_>, span: &Range<usize>, is_of_a_table: bool) -> Vec<Step> {
    let mut path = Vec::new();
    within(table, span, is_of_a_table, &mut path);
    path
}

fn within(table: &DeTable<'_>, span: &Range<usize>, is_of_a_table: bool, path: &mut Vec<Step>) -> bool {
    for (key, value) in table {
        path.push(Step::Key(key.get_ref().to_string()));
        if (!is_of_a_table && key.span() == *span) || value_within(value, span, is_of_a_table, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn value_within(
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    is_of_a_table: bool,
    path: &mut Vec<Step>,
) -> bool {
    let inner = match value.get_ref() {
        DeValue::Table(table) => within(table, span, is_of_a_table, path),
        DeValue::Array(items) => items.iter().enumerate().any(|(place, item)| {
            path.push(Step::Item(place));
            let found = value_within(item, span, is_of_a_table, path);
            if !found {
                path.pop();
            }
            found
        }),
        _ => false,
    };
    let own = value.span();
    inner || (own.start <= span.start && span.end <= own.end)
}

/// Takes out what is at this path. Returns whether there was something.
fn take_out(table: &mut DeTable<'_>, path: &[Step]) -> bool {
    let Some((Step::Key(first), rest)) = path.split_first() else { return false };
    let Some(key) = table.keys().find(|key| key.get_ref() == first).cloned() else { return false };
    match rest.is_empty() {
        true => table.remove(&key).is_some(),
        false => table.get_mut(&key).is_some_and(|value| take_out_of(value.get_mut(), rest)),
    }
}

fn take_out_of(value: &mut DeValue<'_>, path: &[Step]) -> bool {
    match (value, path) {
        (DeValue::Table(table), path) => take_out(table, path),
        (DeValue::Array(items), [Step::Item(place)]) => {
            let all = std::mem::replace(items, DeArray::new());
            let there = *place < all.len();
            for (_, item) in all.into_iter().enumerate().filter(|(at, _)| at != place) {
                items.push(item);
            }
            there
        }
        (DeValue::Array(items), [Step::Item(place), rest @ ..]) => {
            items.get_mut(*place).is_some_and(|item| take_out_of(item.get_mut(), rest))
        }
        _ => false,
    }
}

/// Where what there is of a path begins, such as `agents[0].command`.
fn offset_of(table: &DeTable<'_>, path: &str) -> Option<usize> {
    let (mut offset, mut at) = (None, Some(table));
    for part in path.split('.') {
        let (key, items) = part.split_once('[').map_or((part, None), |(key, items)| (key, Some(items)));
        let Some((found, value)) = at?.iter().find(|(known, _)| known.get_ref() == key) else { break };
        offset = Some(found.span().start);
        let mut value = value;
        for item in items.into_iter().flat_map(|items| items.split('[')) {
            let place: usize = item.trim_end_matches(']').parse().ok()?;
            let Some(item) = value.get_ref().get(place) else { return offset };
            offset = Some(item.span().start);
            value = item;
        }
        at = value.get_ref().as_table();
        if at.is_none() {
            break;
        }
    }
    offset
}

/// Line and column of a byte, from 1; the column in characters.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Item(place) => text.push_str(&format!("[{place}]")),
        }
    }
    text
}

/// The key that is missing, where an error says so.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// What an error of `serde` says, in words of a file instead of those of Rust.
fn in_words(message: &str) -> String {
    if let Some(key) = missing(message) {
        return format!("the key `{key}` is missing");
    }
    if let Some((key, known)) = of_known(message, "unknown field `") {
        return match nearest(key, &known) {
            Some(meant) => format!("unknown key; did you mean `{meant}`?"),
            None if known.is_empty() => "unknown key".to_owned(),
            None => format!("unknown key; known are {}", known.join(", ")),
        };
    }
    // What a value is, nobody is told: it may be a secret in the wrong place.
    if let Some((value, known)) = of_known(message, "unknown variant `") {
        return match nearest(value, &known) {
            Some(meant) => format!("unknown value; did you mean `{meant}`?"),
            None => format!("unknown value; known are {}", known.join(", ")),
        };
    }
    for beginning in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) =
            message.strip_prefix(beginning).and_then(|rest| rest.rsplit_once(", expected "))
        {
            return format!("here is {}; expected is {}", of_toml(found), of_toml(expected));
        }
    }
    message.trim_end().replace('\n', "; ")
}

/// The key or value that is unknown, and those that are known.
fn of_known<'m>(message: &'m str, beginning: &str) -> Option<(&'m str, Vec<&'m str>)> {
    let (unknown, rest) = message.strip_prefix(beginning)?.split_once("`, ")?;
    // Every other part is between backticks.
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// The one of the known that differs least, where it differs by less than half.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if key.len() > LONGEST_KEY {
        return None;
    }
    let key = key.to_ascii_lowercase();
    let distance = |known: &'k str| (strsim::osa_distance(&key, &known.to_ascii_lowercase()), known);
    let (distance, known) = known.iter().map(|known| distance(known)).min()?;
    (distance * 2 < known.len()).then_some(known)
}

/// A type of Rust as one of TOML, without the value.
fn of_toml(what: &str) -> &str {
    match what {
        "u8" | "u16" | "u32" | "u64" | "usize" | "u128" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "sequence" | "a sequence" => "an array",
        "map" | "a map" => "a table",
        "path string" => "a string",
        _ if what.starts_with("struct ") => "a table",
        _ if what.starts_with("string \"") => "a string",
        _ if what.starts_with("boolean `") => "a boolean",
        _ if what.starts_with("integer `") || what.starts_with("floating point `") => "a number",
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        listen: String,
        crew: Vec<Member>,
        limits: Limits,
        words: BTreeMap<String, u32>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Limits {
        most: u32,
        strict: bool,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Member {
        name: String,
        #[serde(default)]
        kind: Kind,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        #[default]
        Task,
        Planner,
    }

    fn problems(text: &str) -> Vec<String> {
        match Document::parse("f.toml", text) {
            Ok(document) => document.read::<Settings>().err().unwrap_or_default(),
            Err(problems) => problems,
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_in_the_order_of_lines() {
        let text = "\
lisen = \"a\"
limits = { most = -1, strict = \"yes\", mots = 1 }

[[crew]]
name = \"a\"
kind = \"planer\"

[[crew]]
kind = \"task\"
nmae = \"b\"

[[crew]]
name = 7

[words]
one = 1
two = \"two\"
";
        let expected = [
            "f.toml:1:1: lisen: unknown key; did you mean `listen`?",
            "f.toml:2:19: limits.most: here is a number; expected is a whole number from 0 on",
            "f.toml:2:32: limits.strict: here is a string; expected is a boolean",
            "f.toml:2:39: limits.mots: unknown key; did you mean `most`?",
            "f.toml:6:8: crew[0].kind: unknown value; did you mean `planner`?",
            "f.toml:8:1: crew[1]: the key `name` is missing",
            "f.toml:10:1: crew[1].nmae: unknown key; did you mean `name`?",
            "f.toml:13:8: crew[2].name: here is a number; expected is a string",
            "f.toml:17:7: words.two: here is a string; expected is a whole number from 0 on",
        ];
        assert_eq!(problems(text), expected);
    }

    #[test]
    fn a_key_that_is_like_none_is_told_what_there_is() {
        assert_eq!(
            problems("[limits]\nzzzzzzzz = 1\n"),
            ["f.toml:2:1: limits.zzzzzzzz: unknown key; known are most, strict"]
        );
    }

    #[test]
    fn each_line_that_is_no_toml_is_told_once() {
        let found = problems("listen = \n[[crew]\nname = \"a\"\n= 7\n");
        let lines: Vec<&str> = found.iter().map(|problem| &problem[..9]).collect();
        assert_eq!(lines, ["f.toml:1:", "f.toml:2:", "f.toml:4:"], "{found:?}");
        assert!(found.iter().all(|problem| problem.contains(": not TOML: ")), "{found:?}");
    }

    #[test]
    fn what_is_right_is_read_behind_a_byte_order_mark_too() {
        let document = Document::parse("f.toml", "\u{feff}listen = \"a\"\n").unwrap();
        assert_eq!(document.read(), Ok(Settings { listen: "a".to_owned(), ..Settings::default() }));
    }

    #[test]
    fn a_problem_of_a_value_gets_the_line_of_what_there_is_of_its_path() {
        let text = "listen = \"a\"\n\n[[crew]]\nname = \"a\"\n[[crew]]\nname = \"b\"\n";
        let document = Document::parse("f.toml", text).unwrap();
        for (problem, line) in [
            ("listen: no", "f.toml:1:1: "),
            ("crew[1].name: no", "f.toml:6:1: "),
            ("crew[1].kind: no", "f.toml:5:1: "),
            ("crew[7]: no", "f.toml:3:3: "),
            ("limits.most: no", "f.toml: "),
            ("a text", "f.toml: "),
        ] {
            assert_eq!(document.placed(problem), format!("{line}{problem}"));
        }
    }

    #[test]
    fn no_more_than_fifty_are_told_and_however_many_there_are_it_ends() {
        let text: String = (0..500).map(|number| format!("key_{number} = {number}\n")).collect();
        assert_eq!(problems(&text).len(), MOST);
        assert_eq!(problems(&format!("listen = {}1{}", "[".repeat(60), "]".repeat(60))).len(), 1);
    }
}
