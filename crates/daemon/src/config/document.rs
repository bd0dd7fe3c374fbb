//! Files of the configuration in TOML, and all that is wrong with them at once, each with its line and the key that was meant.
//!
//! Whoever reads a value with `serde` hears of its first error alone. So what an error is about is mended as well as it can be,
//! and the whole is read again, until nothing is wrong with it: a key that is misspelt gets the name that is meant; a value that
//! is wrong is left out, for its default; where something has to be, something neutral stands for it. What was mended in this
//! way is a gap: nobody knows what is meant there, and no rule judges what is in its place.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeString, DeTable, DeValue, Deserializer};

use super::problem::Problem;

/// Problems of one file that are told.
pub(super) const MOST: usize = 50;
/// Times that a file is read again for one of them: a neutral value may be the last one of those that are tried.
const TRIES: usize = 8;
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
pub(super) struct InPart<'t, T> {
    /// With something else where there are gaps.
    pub value: Option<T>,
    /// All that is wrong with the document, in the order of its lines.
    pub problems: Vec<Problem>,
    /// What the value was read from.
    mended: Document<'t>,
    /// The keys of the document, and the items of its arrays, in which there are gaps.
    gaps: Vec<String>,
}

impl<T> InPart<'_, T> {
    /// Whether what a rule tells of the value, which begins with its path, may follow from a gap alone.
    pub(super) fn is_of_a_gap(&self, told: &str) -> bool {
        let begins = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[', ':']);
        self.gaps.iter().any(|gap| told.strip_prefix(gap.as_str()).is_some_and(begins))
    }

    /// What a rule tells of the value, with the place of what there is of its path.
    pub(super) fn placed(&self, told: &str) -> Problem {
        self.mended.placed(told)
    }
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
    pub(super) fn parse(name: impl Into<String>, text: &'t str) -> Result<Self, Vec<Problem>> {
        let name = name.into();
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self { name, text, table });
        }
        let problem = |error: &toml::de::Error| Problem {
            file: Some(name.clone()),
            place: Some(place(text, error.span().map_or(0, |span| span.start))),
            message: format!("not TOML: {}", error.message()),
            ..Problem::default()
        };
        let mut problems: Vec<Problem> = errors.iter().take(MOST).map(problem).collect();
        problems.sort_by_key(|problem| problem.place);
        // Further errors of a line mostly follow from its first one.
        problems.dedup_by_key(|problem| problem.place.map(|(line, _)| line));
        Err(problems)
    }

    /// All that is wrong with it, and what can be read of the rest.
    pub(super) fn read_what_can_be<T: DeserializeOwned>(&self) -> InPart<'t, T> {
        let mut mending = Mending::of(self);
        let mut value = None;
        let rounds = (MOST_READ / self.text.len().max(1)).clamp(2, TRIES * MOST);
        for _ in 0..rounds {
            match T::deserialize(Deserializer::from(mending.table.clone())) {
                Ok(read) => {
                    value = Some(read);
                    break;
                }
                Err(error) if mending.mend(&error) => {}
                Err(_) => break,
            }
        }
        // Items that have other places by now cannot be told apart by them.
        value = value.filter(|_| !mending.is_shifted);
        let Mending { table, mut problems, gaps, .. } = mending;
        problems.sort_by_key(|(offset, _)| *offset);
        InPart {
            value,
            problems: problems.into_iter().map(|(_, problem)| problem).collect(),
            mended: Document { name: self.name.clone(), text: self.text, table },
            gaps: gaps.iter().map(|path| shown(whole(path))).collect(),
        }
    }

    /// What it was read from, without a mark at its beginning.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.table.get_ref().keys().map(|key| key.get_ref().as_ref())
    }

    /// What a rule tells of a value that was read, which begins with its path: with the place of what there is of the path.
    pub(super) fn placed(&self, told: &str) -> Problem {
        let problem = Problem::told(told);
        Problem { file: Some(self.name.clone()), place: self.place_of(&problem.path), ..problem }
    }

    /// Line and column of what there is of a path.
    pub(super) fn place_of(&self, path: &str) -> Option<(usize, usize)> {
        offset_of(self.table.get_ref(), path).map(|offset| place(self.text, offset))
    }
}

/// A document that is being mended until it can be read.
#[derive(Debug)]
struct Mending<'d, 't> {
    document: &'d Document<'t>,
    /// What of it is mended so far.
    table: Spanned<DeTable<'t>>,
    /// What is wrong with it, with the place in its text.
    problems: Vec<(usize, Problem)>,
    /// Where nobody knows what is meant.
    gaps: Vec<Vec<Step>>,
    /// Keys that nobody knows, which have another name by now or were taken out.
    unknown: Vec<Vec<Step>>,
    /// Where something neutral was put for a key that is missing.
    put: Vec<Vec<Step>>,
    /// How many were tried, by the numbers of the places where something neutral stands.
    tried: Vec<usize>,
    /// An item was taken out of its array.
    is_shifted: bool,
}

impl<'d, 't> Mending<'d, 't> {
    fn of(document: &'d Document<'t>) -> Self {
        Self {
            document,
            table: document.table.clone(),
            problems: Vec::new(),
            gaps: Vec::new(),
            unknown: Vec::new(),
            put: Vec::new(),
            tried: Vec::new(),
            is_shifted: false,
        }
    }

    /// Tells the error unless it follows from another one, and mends what it is about. Returns whether it has.
    fn mend(&mut self, error: &toml::de::Error) -> bool {
        let (message, span) = (error.message(), error.span().unwrap_or_default());
        let missing = missing(message);
        let path = way(self.table.get_ref(), &span, missing.is_some());
        if let Some(number) = self.number_of(&span) {
            // Of what nobody has written there is nothing to tell.
            return match missing {
                Some(key) => self.put(&with(&path, key)) || self.give_up(&path),
                None => self.put_another(number, &path, message),
            };
        }
        let unknown = of_known(message, "unknown field `")
            .filter(|(key, _)| matches!(path.last(), Some(Step::Key(last)) if last == key));
        let is_news = match missing {
            // It was wrong, and was left out.
            Some(key) => !self.gaps.contains(&with(&path, key)),
            // As a whole it may be wrong because of what was taken out of it.
            None => unknown.is_some() || !self.is_mended_within(&path),
        };
        if is_news {
            self.tell(message, &span, missing.is_some());
        }
        if self.problems.len() >= MOST {
            return false;
        }
        if let Some(key) = missing {
            let path_of_key = with(&path, key);
            self.gaps.push(path_of_key.clone());
            return self.put(&path_of_key) || self.take_out(&path);
        }
        if let Some((key, known)) = unknown {
            let is_renamed = nearest(key, &known).is_some_and(|meant| self.rename(&path, meant));
            self.unknown.push(path.clone());
            return is_renamed || self.take_out(&path);
        }
        self.gaps.push(path.clone());
        match path.last() {
            Some(Step::Item(_)) => self.put_for_item(&path) || self.take_out(&path),
            Some(Step::Key(_)) | None => self.take_out(&path),
        }
    }

    fn tell(&mut self, message: &str, span: &Range<usize>, is_of_a_table: bool) {
        // The names of the keys are those that somebody has written.
        let path = way(self.document.table.get_ref(), span, is_of_a_table);
        let (said, near) = in_words(message);
        let problem = Problem {
            file: Some(self.document.name.clone()),
            place: Some(place(self.document.text, span.start)),
            path: shown(&path),
            message: said,
            near,
        };
        self.problems.push((span.start, problem));
    }

    fn is_mended_within(&self, path: &[Step]) -> bool {
        let mut mended = self.gaps.iter().chain(&self.unknown);
        mended.any(|within| within.len() > path.len() && within.starts_with(path))
    }

    /// Where the neutral value of this number says that it is: behind the text, so that no other one is there.
    fn span_of(&self, number: usize) -> Range<usize> {
        let begin = self.document.text.len() + 1 + number;
        begin..begin
    }

    fn number_of(&self, span: &Range<usize>) -> Option<usize> {
        span.start.checked_sub(self.document.text.len() + 1)
    }

    /// Puts something neutral where a key is missing. Returns whether it has; nothing is put into one place twice.
    fn put(&mut self, path: &[Step]) -> bool {
        let span = self.span_of(self.tried.len());
        let Some((Step::Key(key), parent)) = path.split_last() else { return false };
        let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
        if self.put.iter().any(|put| put == path) {
            return false;
        }
        table.insert(Spanned::new(span.clone(), DeString::from(key.clone())), Spanned::new(span, text("")));
        self.put.push(path.to_vec());
        self.tried.push(0);
        true
    }

    /// Puts something neutral where an item of an array is wrong, so that the others stay where they are.
    fn put_for_item(&mut self, path: &[Step]) -> bool {
        let span = self.span_of(self.tried.len());
        let Some(item) = value_at(self.table.get_mut(), path) else { return false };
        *item = Spanned::new(span, text(""));
        self.tried.push(0);
        true
    }

    /// Puts another neutral value where the one of this number cannot be read.
    fn put_another(&mut self, number: usize, path: &[Step], message: &str) -> bool {
        let span = self.span_of(number);
        let Some(tried) = self.tried.get_mut(number) else { return false };
        *tried += 1;
        // An enumeration says what there is.
        let variants = of_known(message, "unknown variant `").filter(|(tried, _)| tried.is_empty());
        let value = match variants.and_then(|(_, known)| known.first().copied()) {
            Some(known) => Some(text(known)),
            None => neutral(*tried),
        };
        if let Some(value) = value
            && let Some(place) = value_at(self.table.get_mut(), path)
        {
            *place = Spanned::new(span, value);
            return true;
        }
        self.give_up(path)
    }

    /// Takes out what something neutral is in, where there is nothing that could stand there.
    fn give_up(&mut self, path: &[Step]) -> bool {
        match path.split_last() {
            Some((Step::Key(_), table)) => self.take_out(table),
            _ => self.take_out(path),
        }
    }

    /// Gives a key the name that is meant, where nothing has that name.
    fn rename(&mut self, path: &[Step], name: &str) -> bool {
        let Some((Step::Key(key), parent)) = path.split_last() else { return false };
        let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
        let written = |key: &str| table.keys().find(|written| written.get_ref() == key).cloned();
        let (None, Some(written)) = (written(name), written(key)) else { return false };
        let Some(value) = table.remove(&written) else { return false };
        table.insert(Spanned::new(written.span(), DeString::from(name.to_owned())), value);
        true
    }

    /// Takes out what is at this path. Returns whether there was something.
    fn take_out(&mut self, path: &[Step]) -> bool {
        let Some((last, parent)) = path.split_last() else { return false };
        match last {
            Step::Key(key) => {
                let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
                let written = table.keys().find(|written| written.get_ref() == key).cloned();
                written.is_some_and(|written| table.remove(&written).is_some())
            }
            Step::Item(place) => {
                let array = value_at(self.table.get_mut(), parent).map(Spanned::get_mut);
                let Some(DeValue::Array(items)) = array else { return false };
                self.is_shifted = true;
                let all = std::mem::replace(items, DeArray::new());
                let there = *place < all.len();
                for (_, item) in all.into_iter().enumerate().filter(|(at, _)| at != place) {
                    items.push(item);
                }
                there
            }
        }
    }
}

fn text<'t>(text: &str) -> DeValue<'t> {
    DeValue::String(DeString::from(text.to_owned()))
}

/// What stands for a value of which nobody knows what it should be, until one of them can be read. The first one is a text.
fn neutral<'t>(number: usize) -> Option<DeValue<'t>> {
    match number {
        0 => Some(text("")),
        1 => Some(DeValue::Array(DeArray::new())),
        2 => Some(DeValue::Integer(DeInteger::default())),
        3 => Some(DeValue::Boolean(false)),
        4 => Some(DeValue::Table(DeTable::new())),
        _ => None,
    }
}

fn with(path: &[Step], key: &str) -> Vec<Step> {
    path.iter().cloned().chain([Step::Key(key.to_owned())]).collect()
}

/// The key of the document, or the item of its array, that the path is within.
fn whole(path: &[Step]) -> &[Step] {
    let steps = if matches!(path.get(1), Some(Step::Item(_))) { 2 } else { 1 };
    path.get(..steps).unwrap_or(path)
}

/// The way to the innermost key or value that the span is, or is within. That a key is missing is said of a table; of the whole
/// document it is said without a place.
fn way(table: &DeTable<'_>, span: &Range<usize>, is_of_a_table: bool) -> Vec<Step> {
    let mut path = Vec::new();
    if *span != (0..0) {
        within(table, span, is_of_a_table, &mut path);
    }
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
    // The header of a table may be around the name of the one that it is in.
    let is_own = || match is_of_a_table {
        true => own == *span && matches!(value.get_ref(), DeValue::Table(_)),
        false => own.start <= span.start && span.end <= own.end,
    };
    inner || is_own()
}

/// The table at this path.
fn table_at<'r, 't>(table: &'r mut DeTable<'t>, path: &[Step]) -> Option<&'r mut DeTable<'t>> {
    if path.is_empty() {
        return Some(table);
    }
    match value_at(table, path)?.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// The value at this path.
fn value_at<'r, 't>(table: &'r mut DeTable<'t>, path: &[Step]) -> Option<&'r mut Spanned<DeValue<'t>>> {
    let (first, rest) = path.split_first()?;
    let mut value = of_key(table, first)?;
    for step in rest {
        value = match (value.get_mut(), step) {
            (DeValue::Table(table), step) => of_key(table, step)?,
            (DeValue::Array(items), Step::Item(place)) => items.get_mut(*place)?,
            _ => return None,
        };
    }
    Some(value)
}

fn of_key<'r, 't>(table: &'r mut DeTable<'t>, step: &Step) -> Option<&'r mut Spanned<DeValue<'t>>> {
    let Step::Key(name) = step else { return None };
    let key = table.keys().find(|key| key.get_ref() == name).cloned()?;
    table.get_mut(&key)
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

/// What an error of `serde` says, in words of a file instead of those of Rust; and the key or the value that is probably meant.
fn in_words(message: &str) -> (String, Option<String>) {
    if let Some(key) = missing(message) {
        return (format!("the key `{key}` is missing"), None);
    }
    if let Some((key, known)) = of_known(message, "unknown field `") {
        return match nearest(key, &known) {
            Some(meant) => (format!("unknown key; did you mean `{meant}`?"), Some(meant.to_owned())),
            None if known.is_empty() => ("unknown key".to_owned(), None),
            None => (format!("unknown key; known are {}", known.join(", ")), None),
        };
    }
    // What a value is, nobody is told: it may be a secret in the wrong place.
    if let Some((value, known)) = of_known(message, "unknown variant `") {
        return match nearest(value, &known) {
            Some(meant) => (format!("unknown value; did you mean `{meant}`?"), Some(meant.to_owned())),
            None => (format!("unknown value; known are {}", known.join(", ")), None),
        };
    }
    for beginning in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) =
            message.strip_prefix(beginning).and_then(|rest| rest.rsplit_once(", expected "))
        {
            return (format!("here is {}; expected is {}", of_toml(found), of_toml(expected)), None);
        }
    }
    (message.trim_end().replace('\n', "; "), None)
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

    /// All that is told of the text, and the value that it is read as.
    fn read<T: DeserializeOwned>(text: &str) -> (Vec<String>, Option<T>) {
        let lines =
            |problems: Vec<Problem>| -> Vec<String> { problems.iter().map(ToString::to_string).collect() };
        match Document::parse("f.toml", text) {
            Ok(document) => {
                let InPart { value, problems, .. } = document.read_what_can_be();
                (lines(problems), value)
            }
            Err(problems) => (lines(problems), None),
        }
    }

    fn problems(text: &str) -> Vec<String> {
        read::<Settings>(text).0
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

[[crew]]
kind = \"task\"

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
            "f.toml:10:1: crew[1].nmae: unknown key; did you mean `name`?",
            "f.toml:13:8: crew[2].name: here is a number; expected is a string",
            "f.toml:15:1: crew[3]: the key `name` is missing",
            "f.toml:20:7: words.two: here is a string; expected is a whole number from 0 on",
        ];
        assert_eq!(problems(text), expected);
    }

    /// Whatever it has to be: nobody but `serde` knows.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Demanding {
        name: String,
        command: Vec<String>,
        price: f64,
        most: u32,
        strict: bool,
        kind: Kind,
        first: Member,
        #[serde(default)]
        rest: Vec<Member>,
    }

    #[test]
    fn all_keys_that_a_table_lacks_are_told_at_once_and_none_of_what_stands_for_them() {
        let lacking = |keys: &[&str]| -> Vec<String> {
            keys.iter().map(|key| format!("f.toml:1:1: the key `{key}` is missing")).collect()
        };
        let all = lacking(&["name", "command", "price", "most", "strict", "kind", "first"]);
        assert_eq!(read::<Demanding>("").0, all);
        let some = lacking(&["command", "price", "strict", "kind", "first"]);
        assert_eq!(read::<Demanding>("name = \"a\"\nmost = 1\nrest = []\n").0, some);
        // Those of a table within it, too, and what is wrong beside them.
        let text = "\
name = 7
command = []
price = 1
most = 1
kind = \"planner\"
first = {}
[[rest]]
[[rest]]
name = \"b\"
";
        let expected = [
            "f.toml:1:1: the key `strict` is missing",
            "f.toml:1:8: name: here is a number; expected is a string",
            "f.toml:6:9: first: the key `name` is missing",
            "f.toml:7:1: rest[0]: the key `name` is missing",
        ];
        let (told, value) = read::<Demanding>(text);
        assert_eq!(told, expected);
        let value = value.unwrap();
        assert_eq!((value.most, value.kind, value.rest[1].name.as_str()), (1, Kind::Planner, "b"));
    }

    #[test]
    fn what_cannot_be_read_keeps_no_rule_from_its_neighbours_and_is_judged_by_none_itself() {
        let text = "\
listen = 7
[limits]
most = 1
strict = \"yes\"
[[crew]]
kind = \"task\"
[[crew]]
nmae = \"b\"
[words]
one = 1
";
        let document = Document::parse("f.toml", text).unwrap();
        let part = document.read_what_can_be::<Settings>();
        let value = part.value.as_ref().unwrap();
        // A key that is misspelt has what is meant.
        assert_eq!((value.limits.most, value.crew.len(), value.crew[1].name.as_str()), (1, 2, "b"));
        for (told, is_of_a_gap) in [
            ("listen: no", true),
            ("limits.most: no", true),
            ("crew[0]: no", true),
            ("crew[0].name: no", true),
            ("crew[1].name: no", false),
            ("crew[10].name: no", false),
            ("crew: no", false),
            ("words.one: no", false),
            ("listening: no", false),
        ] {
            assert_eq!(part.is_of_a_gap(told), is_of_a_gap, "{told}");
        }
        assert_eq!(part.placed("crew[1].name: no").to_string(), "f.toml:8:1: crew[1].name: no");
        assert_eq!(part.placed("words.one: no").to_string(), "f.toml:10:1: words.one: no");
    }

    #[test]
    fn an_item_that_is_none_leaves_the_others_in_their_places() {
        let (told, value) = read::<Settings>("crew = [7, { name = \"b\" }]\n");
        assert_eq!(told, ["f.toml:1:9: crew[0]: here is a number; expected is a table"]);
        assert_eq!(value.unwrap().crew[1].name, "b");
    }

    /// A value that nothing neutral can be.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "String")]
    struct Seven;

    impl TryFrom<String> for Seven {
        type Error = &'static str;

        fn try_from(text: String) -> Result<Self, Self::Error> {
            if text == "seven" { Ok(Self) } else { Err("not seven") }
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Particular {
        #[serde(default)]
        all: Vec<Item>,
        #[serde(default)]
        most: u32,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        seven: Seven,
        #[serde(default)]
        most: u32,
    }

    #[test]
    fn a_table_in_which_nothing_neutral_can_stand_is_left_out_and_the_rest_is_told_once() {
        let text = "\
most = \"a\"
[[all]]
[[all]]
seven = \"eight\"
[[all]]
seven = \"seven\"
most = \"b\"
";
        let (told, value) = read::<Particular>(text);
        let expected = [
            "f.toml:1:8: most: here is a string; expected is a whole number from 0 on",
            "f.toml:2:1: all[0]: the key `seven` is missing",
            "f.toml:4:9: all[1].seven: not seven",
            "f.toml:7:8: all[2].most: here is a string; expected is a whole number from 0 on",
        ];
        assert_eq!((told, value), (expected.map(str::to_owned).to_vec(), None));
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
        let InPart { value, problems, .. } = document.read_what_can_be::<Settings>();
        let expected = Settings { listen: "a".to_owned(), ..Settings::default() };
        assert_eq!((value, problems), (Some(expected), Vec::new()));
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
            assert_eq!(document.placed(problem).to_string(), format!("{line}{problem}"));
        }
    }

    #[test]
    fn no_more_than_fifty_are_told_and_however_many_there_are_it_ends() {
        let text: String = (0..500).map(|number| format!("key_{number} = {number}\n")).collect();
        assert_eq!(problems(&text).len(), MOST);
        assert_eq!(problems(&format!("listen = {}1{}", "[".repeat(60), "]".repeat(60))).len(), 1);
    }
}
