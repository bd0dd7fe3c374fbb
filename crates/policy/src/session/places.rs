//! Where the fields of a state stand in its text, so that a person finds what a violation or a repair names.

use serde_json::Value;

/// A place in a text. Both numbers begin with 1; a column is a character, as editors count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// The places of a text's fields. Of a text that is not JSON these are the fields before the damage.
#[derive(Debug)]
pub struct Places<'t> {
    text: &'t str,
    /// Bytes at which the lines begin.
    lines: Vec<usize>,
    fields: Vec<(String, usize)>,
    /// Bytes at which the entries of the history begin, which may be many.
    history: Vec<usize>,
}

impl<'t> Places<'t> {
    /// The places of the text in these bytes; of bytes that are no text, those of their beginning.
    #[must_use]
    pub fn of(bytes: &'t [u8]) -> Self {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bytes
                .get(..error.valid_up_to())
                .and_then(|valid| std::str::from_utf8(valid).ok())
                .unwrap_or(""),
        };
        let line_breaks =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(place, _)| place + 1);
        let lines = std::iter::once(0).chain(line_breaks).collect();
        let fields = members(text, after_space(text, 0));
        let history = match last(&fields, "history") {
            Some(place) => elements(text, place),
            None => Vec::new(),
        };
        Self { text, lines, fields, history }
    }

    /// The place of the field that a violation names, such as `history[2].command`; of one that is missing, that of the
    /// object which lacks it. `None` where the text has no object.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<Place> {
        let document = after_space(self.text, 0);
        if self.text.as_bytes().get(document) != Some(&b'{') {
            return None;
        }
        // What is wrong with the order of two times is told at the later one.
        let path = if path == "timestamps" { "updated_at" } else { path };
        let mut place = document;
        for (depth, step) in steps(path).into_iter().enumerate() {
            let next = match step {
                Step::Field(name) if depth == 0 => last(&self.fields, name),
                Step::Field(name) => last(&members(self.text, place), name),
                Step::Entry(index) if path.starts_with("history[") && depth == 1 => {
                    self.history.get(index).copied()
                }
                Step::Entry(index) => elements(self.text, place).get(index).copied(),
            };
            match next {
                Some(next) => place = next,
                None => break,
            }
        }
        Some(self.at(place))
    }

    /// The place of a byte.
    fn at(&self, byte: usize) -> Place {
        let line = self.lines.partition_point(|begin| *begin <= byte);
        let begin = self.lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let column = self.text.get(begin..byte).map_or(0, |before| before.chars().count()) + 1;
        Place { line, column }
    }
}

/// One step of a path.
enum Step<'p> {
    Field(&'p str),
    Entry(usize),
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, entries) = part.split_once('[').unwrap_or((part, ""));
        if !name.is_empty() {
            steps.push(Step::Field(name));
        }
        let entries = entries.split(['[', ']']).filter_map(|entry| entry.parse().ok());
        steps.extend(entries.map(Step::Entry));
    }
    steps
}

/// The last field of this name: what a reader takes where an object has several.
fn last(fields: &[(String, usize)], name: &str) -> Option<usize> {
    fields.iter().rev().find(|(field, _)| field == name).map(|(_, place)| *place)
}

/// The names and values' places of the object that begins at `place`, as far as it is whole.
fn members(text: &str, place: usize) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    if text.as_bytes().get(place) != Some(&b'{') {
        return found;
    }
    let mut at = after_space(text, place + 1);
    while text.as_bytes().get(at) == Some(&b'"') {
        let end = after_value(text, at);
        let name = text.get(at..end).and_then(|name| serde_json::from_str::<Value>(name).ok());
        let colon = after_space(text, end);
        let (Some(Value::String(name)), Some(b':')) = (name, text.as_bytes().get(colon)) else { break };
        let value = after_space(text, colon + 1);
        if value >= text.len() {
            break;
        }
        found.push((name, value));
        let comma = after_space(text, after_value(text, value));
        if text.as_bytes().get(comma) != Some(&b',') {
            break;
        }
        at = after_space(text, comma + 1);
    }
    found
}

/// The places of the elements of the list that begins at `place`, as far as it is whole.
fn elements(text: &str, place: usize) -> Vec<usize> {
    let mut found = Vec::new();
    if text.as_bytes().get(place) != Some(&b'[') {
        return found;
    }
    let mut at = after_space(text, place + 1);
    while text.as_bytes().get(at).is_some_and(|byte| *byte != b']') {
        found.push(at);
        let comma = after_space(text, after_value(text, at));
        if text.as_bytes().get(comma) != Some(&b',') {
            break;
        }
        at = after_space(text, comma + 1);
    }
    found
}

fn after_space(text: &str, from: usize) -> usize {
    let spaces = text.as_bytes().get(from..).unwrap_or_default().iter();
    from + spaces.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// The byte after the value that begins at `from`, or the end of a text in which the value does not end.
fn after_value(text: &str, from: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut bytes = text.bytes().enumerate().skip(from).peekable();
    while let Some((place, byte)) = bytes.next() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let next = bytes.peek().map(|(_, byte)| *byte);
        let ends = match byte {
            b'"' | b'}' | b']' => true,
            _ => matches!(next, Some(b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r') | None),
        };
        if depth == 0 && !in_string && !escaped && ends {
            return place + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\n  \"version\": 7, \"á\": \"é\", \"context\": {\"own\": [1, {\"x\": 2}], \"tech_stack\": 3},\n\
        \t\"history\": [ {\"command\": \"p\\\"}\"},\n    7 ],\n\n\"created_at\": 1, \"created_at\":\n2}\n";

    #[track_caller]
    fn check(text: &str, path: &str, expected: Option<(usize, usize)>) {
        let place = Places::of(text.as_bytes()).find(path).map(|place| (place.line, place.column));
        assert_eq!(place, expected, "{path}");
    }

    #[test]
    fn a_field_is_found_by_its_path_in_lines_and_characters() {
        check(TEXT, "version", Some((2, 14)));
        // The columns after the accents count characters, not bytes.
        check(TEXT, "context", Some((2, 38)));
        check(TEXT, "context.tech_stack", Some((2, 75)));
        check(TEXT, "context.own[1].x", Some((2, 56)));
        check(TEXT, "history", Some((3, 13)));
        check(TEXT, "history[0].command", Some((3, 27)));
        check(TEXT, "history[1]", Some((4, 5)));
        check(TEXT, "created_at", Some((7, 1)));
    }

    #[test]
    fn what_is_missing_is_told_at_the_object_that_lacks_it() {
        check(TEXT, "updated_at", Some((1, 1)));
        check(TEXT, "timestamps", Some((1, 1)));
        check(TEXT, "history[0].completed_at", Some((3, 15)));
        check(TEXT, "current_flow.phase", Some((1, 1)));
        check("  {}", "version", Some((1, 3)));
    }

    #[test]
    fn a_damaged_text_has_the_places_before_its_damage() {
        for end in 0..TEXT.len() {
            let _ = Places::of(&TEXT.as_bytes()[..end]).find("history[1].command");
        }
        check("{\"a\": 1, \"b\": {\"c\": [1, 2, x], \"d\": tru", "b.c[1]", Some((1, 25)));
        check("[1]", "version", None);
        check("nonsense", "version", None);
        check("", "version", None);
        assert_eq!(Places::of(b"{\"a\": \"\xff\"}").find("a"), Some(Place { line: 1, column: 7 }));
    }
}
