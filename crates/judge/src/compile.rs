//! A schema's text to its rules, with everything that is wrong with it.

mod keywords;

pub(crate) use keywords::weight;

use std::collections::BTreeMap;

use capataz_contracts::v1::SchemaViolation;
use serde_json::{Map, Value};

use crate::pattern::Pattern;
use crate::report::{Segment, Sink, text_shown, value_shown};
use crate::schema::{Node, Place, Rule, Schema, read};
use crate::{
    PATTERN_MAX, PATTERNS_COMPILED_MAX, PATTERNS_MAX, PATTERNS_TEXT_MAX, SCHEMA_MAX, SUBSCHEMAS_MAX,
};

/// The dialects that are read, without scheme and fragment.
const DIALECTS: &[(&str, Dialect)] = &[
    ("json-schema.org/draft/2020-12/schema", Dialect::New),
    ("json-schema.org/draft/2019-09/schema", Dialect::Old),
    ("json-schema.org/draft-07/schema", Dialect::Old),
    ("json-schema.org/draft-06/schema", Dialect::Old),
];

/// What of the dialects differs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    New,
    /// `items` may be a list, and an `$id` an anchor.
    Old,
}

/// A place in the schema's text.
type At<'s> = Vec<Segment<'s>>;

/// Where the value of a keyword is.
struct Keyword<'k, 's> {
    name: &'s str,
    value: &'s Value,
    /// The place of the subschema that has the keyword.
    parent: &'k At<'s>,
}

impl<'s> Keyword<'_, 's> {
    fn at(&self) -> At<'s> {
        let mut at = self.parent.clone();
        at.push(Segment::Key(self.name));
        at
    }

    fn below(&self, segment: Segment<'s>) -> At<'s> {
        let mut at = self.at();
        at.push(segment);
        at
    }
}

/// The patterns so far.
#[derive(Debug, Default)]
struct Patterns {
    count: usize,
    /// The length of their texts.
    bytes: usize,
    /// Bytes of those that were compiled.
    compiled: usize,
    /// It was reported that there are too many.
    are_refused: bool,
}

impl Patterns {
    fn are_within_bounds(&self) -> bool {
        self.count <= PATTERNS_MAX
            && self.bytes <= PATTERNS_TEXT_MAX
            && self.compiled <= PATTERNS_COMPILED_MAX
    }
}

struct Compiler<'s> {
    root: &'s Value,
    dialect: Dialect,
    id: Option<&'s str>,
    anchors: BTreeMap<&'s str, &'s Value>,
    nodes: Vec<Node>,
    /// Which subschema the value at this address became. The values stay where they are for as long as they are borrowed.
    places: BTreeMap<usize, Place>,
    /// Subschemas that have a place and no rules yet.
    open: Vec<(Place, &'s Value, At<'s>)>,
    patterns: Patterns,
    tracks: bool,
    lowers: bool,
    sink: Sink,
}

/// Reads a schema.
pub(crate) fn schema(text: &str) -> Result<Schema, Vec<SchemaViolation>> {
    let root = read(text.as_bytes(), SCHEMA_MAX).map_err(|violation| vec![violation])?;
    let mut compiler = Compiler {
        root: &root,
        dialect: Dialect::New,
        id: None,
        anchors: BTreeMap::new(),
        nodes: Vec::new(),
        places: BTreeMap::new(),
        open: Vec::new(),
        patterns: Patterns::default(),
        tracks: false,
        lowers: false,
        sink: Sink::default(),
    };
    compiler.head();
    compiler.name_anchors();
    let place = compiler.place_of(&root, Vec::new());
    // One subschema after the other, so that no schema is too deep for the stack.
    while let Some((place, value, at)) = compiler.open.pop() {
        let rules = compiler.rules(value, &at);
        if let Some(node) = compiler.nodes.get_mut(place.0) {
            node.rules = rules;
        }
    }
    let Compiler { nodes, tracks, lowers, mut sink, .. } = compiler;
    if sink.count() == 0 && judges_itself(&nodes) {
        let words = || {
            ("references that end".to_owned(), "a subschema that judges the same value by itself".to_owned())
        };
        sink.push(&[], "recursion", words);
    }
    match sink.into_violations() {
        violations if violations.is_empty() => Ok(Schema { nodes, root: place, tracks, lowers }),
        violations => Err(violations),
    }
}

impl<'s> Compiler<'s> {
    /// What the schema says about itself.
    fn head(&mut self) {
        let Value::Object(object) = self.root else { return };
        self.id = object.get("$id").and_then(Value::as_str);
        let Some(dialect) = object.get("$schema") else { return };
        let name = dialect.as_str().unwrap_or_default();
        let name = name.split_once("://").map_or(name, |(_, name)| name).trim_end_matches('#');
        match DIALECTS.iter().find(|(known, _)| *known == name) {
            Some((_, dialect)) => self.dialect = *dialect,
            None => {
                let words =
                    || ("draft 2020-12, 2019-09, draft-07 or draft-06".to_owned(), value_shown(dialect));
                self.sink.push(&[Segment::Key("$schema")], "$schema", words);
            }
        }
    }

    /// Finds what references may name.
    fn name_anchors(&mut self) {
        let mut open = vec![self.root];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(object) => {
                    for name in ["$anchor", "$dynamicAnchor"] {
                        if let Some(anchor) = object.get(name).and_then(Value::as_str) {
                            self.anchors.entry(anchor).or_insert(value);
                        }
                    }
                    if let Some(anchor) = self.anchor_by_id(object) {
                        self.anchors.entry(anchor).or_insert(value);
                    }
                    open.extend(object.values());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }

    fn anchor_by_id(&self, object: &'s Map<String, Value>) -> Option<&'s str> {
        let id = object.get("$id").filter(|_| self.dialect == Dialect::Old)?;
        id.as_str()?.strip_prefix('#')
    }

    /// The place of a subschema, whose rules are read later where this is the first mention of it.
    fn place_of(&mut self, value: &'s Value, at: At<'s>) -> Place {
        let address = std::ptr::from_ref(value) as usize;
        if let Some(place) = self.places.get(&address) {
            return *place;
        }
        let place = Place(self.nodes.len());
        if self.nodes.len() >= SUBSCHEMAS_MAX {
            let words = || (format!("at most {SUBSCHEMAS_MAX} subschemas"), "more of them".to_owned());
            if self.nodes.len() == SUBSCHEMAS_MAX {
                self.sink.push(&at, "limit", words);
                self.nodes.push(Node::default());
            }
            return place;
        }
        self.nodes.push(Node::default());
        self.places.insert(address, place);
        self.open.push((place, value, at));
        place
    }

    /// A subschema that no text has: objects with these keys.
    fn required_by(&mut self, keys: Vec<String>) -> Place {
        let place = Place(self.nodes.len());
        self.nodes.push(Node { rules: vec![Rule::Required(keys)] });
        place
    }

    fn refuse(&mut self, keyword: &Keyword<'_, 's>, expected: &str) {
        let (at, found) = (keyword.at(), value_shown(keyword.value));
        self.sink.push(&at, keyword.name, || (expected.to_owned(), found));
    }

    /// Reports something about the value of a keyword, in words of its own.
    fn report(&mut self, at: &At<'s>, rule: &str, expected: String, found: String) {
        self.sink.push(at, rule, || (expected, found));
    }

    fn pattern(&mut self, at: &At<'s>, rule: &str, text: &str) -> Option<Pattern> {
        self.patterns.count += 1;
        // A text that is too long says so itself.
        if text.len() <= PATTERN_MAX {
            self.patterns.bytes += text.len();
        }
        if self.patterns.are_within_bounds() {
            match Pattern::new(text) {
                Ok(pattern) => {
                    self.patterns.compiled += pattern.size;
                    if self.patterns.are_within_bounds() {
                        return Some(pattern);
                    }
                }
                Err((expected, why)) => {
                    self.report(at, rule, expected, format!("{}: {why}", text_shown(text)));
                    return None;
                }
            }
        }
        // Only the first one that is too many is reported.
        if !std::mem::replace(&mut self.patterns.are_refused, true) {
            let expected = format!(
                "at most {PATTERNS_MAX} patterns, of {PATTERNS_TEXT_MAX} bytes, compiled {PATTERNS_COMPILED_MAX}"
            );
            self.report(at, "limit", expected, "more of them".to_owned());
        }
        None
    }

    /// The subschema that a reference names; the schema itself is all that there is.
    fn reference(&mut self, keyword: &Keyword<'_, 's>) -> Option<Rule> {
        let Value::String(text) = keyword.value else {
            self.refuse(keyword, "a text");
            return None;
        };
        let within = match text.split_once('#') {
            Some((base, fragment)) if base.is_empty() || Some(base) == self.id => Some(fragment),
            None if Some(text.as_str()) == self.id => Some(""),
            _ => None,
        };
        let Some(fragment) = within else {
            self.refuse(keyword, "a reference within the schema, such as \"#/$defs/name\"");
            return None;
        };
        let target = unescaped(fragment).and_then(|fragment| match fragment.as_str() {
            pointer if pointer.is_empty() || pointer.starts_with('/') => self.root.pointer(pointer),
            anchor => self.anchors.get(anchor).copied(),
        });
        let Some(target) = target else {
            self.refuse(keyword, "a reference to what is there");
            return None;
        };
        let at = keyword.at();
        Some(Rule::Reference(self.place_of(target, at)))
    }
}

/// A fragment of a URI without its escapes; `None` where they are none.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// Returns whether a subschema leads back to itself without going into the value, so that no judgement would ever end.
fn judges_itself(nodes: &[Node]) -> bool {
    /// How far a subschema is looked at: everything behind those that are done ends.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; nodes.len()];
    let mut open: Vec<usize> = (0..nodes.len()).collect();
    while let Some(&index) = open.last() {
        let (Some(node), Some(mark)) = (nodes.get(index), marks.get_mut(index)) else {
            open.pop();
            continue;
        };
        match *mark {
            Mark::New => *mark = Mark::Open,
            Mark::Open | Mark::Done => {
                *mark = Mark::Done;
                open.pop();
                continue;
            }
        }
        for Place(next) in node.rules.iter().flat_map(Rule::in_place) {
            match marks.get(next) {
                Some(Mark::Open) => return true,
                Some(Mark::New) => open.push(next),
                Some(Mark::Done) | None => {}
            }
        }
    }
    false
}
