//! A value against the rules of a schema.

mod asserts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::pattern::Pattern;
use crate::report::{Segment, Sink, pointer, value_shown};
use crate::schema::{Count, Node, Place, Rule, Schema};
use crate::{WORK_MAX, compile};

/// How many subschemas may be judged within each other: four at each level of a value that is as deep as a value may be.
const NESTING_MAX: usize = 256;

/// One judgement.
pub(crate) struct Evaluation<'s, 'v> {
    schema: &'s Schema,
    /// Where in the value the judgement is.
    place: Vec<Segment<'v>>,
    /// Steps that are left.
    work: u64,
    nesting: usize,
    /// There were too many steps: what was found so far means nothing.
    stopped: bool,
    /// The addresses of the texts that pass only in lower case; `None` where these do not pass.
    marks: Option<Vec<usize>>,
}

/// Where a value is, for as long as it is borrowed.
pub(crate) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

/// What of a value keywords have looked at; only kept where a schema asks for it.
#[derive(Debug, Default)]
struct Seen<'v> {
    all_keys: bool,
    keys: BTreeSet<&'v str>,
    all_items: bool,
    /// That many from the first on.
    first_items: usize,
    items: BTreeSet<usize>,
}

impl Seen<'_> {
    fn add(&mut self, mut other: Self) {
        self.all_keys |= other.all_keys;
        self.all_items |= other.all_items;
        self.first_items = self.first_items.max(other.first_items);
        self.keys.append(&mut other.keys);
        self.items.append(&mut other.items);
    }
}

impl<'s, 'v> Evaluation<'s, 'v> {
    pub(crate) fn new(schema: &'s Schema) -> Self {
        Self::of_steps(schema, WORK_MAX)
    }

    pub(crate) fn of_steps(schema: &'s Schema, steps: u64) -> Self {
        Self { schema, place: Vec::new(), work: steps, nesting: 0, stopped: false, marks: None }
    }

    /// Whether the value is judged before the steps are over.
    pub(crate) fn ends(mut self, value: &'v Value) -> bool {
        self.node(self.schema.root, value, &mut Sink::default(), &mut Seen::default());
        !self.stopped
    }

    /// The addresses of the texts within the value that the schema allows in lower case alone. There are none where it
    /// would take too long to find them.
    pub(crate) fn texts_to_lower(mut self, value: &'v Value) -> BTreeSet<usize> {
        self.marks = Some(Vec::new());
        self.node(self.schema.root, value, &mut Sink::default(), &mut Seen::default());
        let marks = self.marks.filter(|_| !self.stopped);
        marks.unwrap_or_default().into_iter().collect()
    }

    pub(crate) fn root(mut self, value: &'v Value, sink: &mut Sink) {
        self.node(self.schema.root, value, sink, &mut Seen::default());
        if self.stopped {
            *sink = Sink::default();
            let words = || {
                let expected = format!("at most {WORK_MAX} steps, {NESTING_MAX} subschemas deep");
                (expected, "a value and a schema that need more".to_owned())
            };
            sink.push(&[], "cost", words);
        }
    }

    fn spend(&mut self, steps: u64) {
        match self.work.checked_sub(steps) {
            Some(left) => self.work = left,
            None => self.stopped = true,
        }
    }

    fn spend_on(&mut self, places: usize) {
        self.spend(u64::try_from(places).unwrap_or(u64::MAX));
    }

    /// Judges the value by a subschema. Returns whether it passes; what the subschema has looked at counts only then.
    fn node(&mut self, place: Place, value: &'v Value, sink: &mut Sink, seen: &mut Seen<'v>) -> bool {
        let schema = self.schema;
        let Some(node) = schema.nodes.get(place.0) else { return true };
        self.nesting += 1;
        self.stopped |= self.nesting > NESTING_MAX;
        let before = sink.count();
        let mut own = Seen::default();
        for rule in &node.rules {
            self.spend(1);
            let is_known = sink.is_silent() && sink.count() > before;
            if self.stopped || is_known {
                break;
            }
            self.rule(rule, value, sink, &mut own);
        }
        self.nesting -= 1;
        let passes = !self.stopped && sink.count() == before;
        if passes && schema.tracks {
            seen.add(own);
        }
        passes
    }

    /// The same, where only the result matters. What a form marks counts only for values that have this form.
    fn passes(&mut self, place: Place, value: &'v Value, seen: &mut Seen<'v>) -> bool {
        let before = self.marks.as_ref().map(Vec::len);
        let passes = self.node(place, value, &mut Sink::silent(), seen);
        if !passes {
            self.forget_marks(before);
        }
        passes
    }

    /// Forgets what was marked since there were so many marks.
    fn forget_marks(&mut self, before: Option<usize>) {
        if let (Some(marks), Some(before)) = (self.marks.as_mut(), before) {
            marks.truncate(before);
        }
    }

    /// Judges a value within the value. Where nothing at all may be there, the keyword that says so is what is broken.
    fn within(&mut self, step: Segment<'v>, place: Place, rule: &str, value: &'v Value, sink: &mut Sink) {
        if self.stopped {
            return;
        }
        self.place.push(step);
        if self.is_nothing(place) {
            let expected = match step {
                Segment::Key(_) => "no such key",
                Segment::Item(_) => "no such item",
            };
            sink.push(&self.place, rule, || (expected.to_owned(), value_shown(value)));
        } else {
            self.node(place, value, sink, &mut Seen::default());
        }
        self.place.pop();
    }

    fn is_nothing(&self, place: Place) -> bool {
        let node = self.schema.nodes.get(place.0);
        matches!(node.map(|Node { rules }| rules.as_slice()), Some([Rule::Nothing]))
    }

    /// The rules that have subschemas. Those that have none are apart, so that this frame, of which there are many, is small.
    fn rule(&mut self, rule: &'s Rule, value: &'v Value, sink: &mut Sink, seen: &mut Seen<'v>) {
        match (rule, value) {
            (Rule::Reference(place), _) => {
                self.node(*place, value, sink, seen);
            }
            (Rule::AllOf(places), _) => {
                for place in places {
                    self.node(*place, value, sink, seen);
                }
            }
            (Rule::AnyOf(places), _) => self.any_of(places, value, sink, seen),
            (Rule::OneOf(places), _) => self.one_of(places, value, sink, seen),
            (Rule::Not(place), _) => {
                let before = self.marks.as_ref().map(Vec::len);
                if self.passes(*place, value, &mut Seen::default()) {
                    self.forget_marks(before);
                    let words = || ("anything but this".to_owned(), value_shown(value));
                    sink.push(&self.place, "not", words);
                }
            }
            (Rule::If { condition, then, otherwise }, _) => {
                let next = if self.passes(*condition, value, seen) { then } else { otherwise };
                if let Some(place) = next {
                    self.node(*place, value, sink, seen);
                }
            }
            (Rule::Items { prefix, rest, rest_rule }, Value::Array(items)) => {
                self.items(prefix, *rest, rest_rule, items, sink, seen);
            }
            (Rule::Contains { item, count }, Value::Array(items)) => {
                self.contains(*item, *count, items, sink, seen);
            }
            (Rule::UnevaluatedItems(place), Value::Array(items)) => {
                let all = std::mem::replace(&mut seen.all_items, true);
                for (index, item) in items.iter().enumerate().skip(seen.first_items) {
                    if !all && !seen.items.contains(&index) {
                        self.within(Segment::Item(index), *place, "unevaluatedItems", item, sink);
                    }
                }
            }
            (Rule::UnevaluatedProperties(place), Value::Object(object)) => {
                let all = std::mem::replace(&mut seen.all_keys, true);
                for (key, value) in object {
                    if !all && !seen.keys.contains(key.as_str()) {
                        self.within(Segment::Key(key), *place, "unevaluatedProperties", value, sink);
                    }
                }
            }
            (Rule::DependentSchemas(dependent), Value::Object(object)) => {
                for (key, place) in dependent {
                    if object.contains_key(key) {
                        self.node(*place, value, sink, seen);
                    }
                }
            }
            (Rule::PropertyNames(place), Value::Object(object)) => self.names(*place, object, sink),
            (Rule::Properties { named, patterns, rest }, Value::Object(object)) => {
                self.properties(named, patterns, *rest, object, sink, seen);
            }
            _ => self.assert(rule, value, sink),
        }
    }

    fn any_of(&mut self, places: &'s [Place], value: &'v Value, sink: &mut Sink, seen: &mut Seen<'v>) {
        let mut passes = false;
        for place in places {
            passes |= self.passes(*place, value, seen);
            // What the others look at matters only where somebody asks.
            if passes && !self.schema.tracks {
                return;
            }
        }
        if !passes {
            self.fits_none(places, "anyOf", "one of", value, sink);
        }
    }

    fn one_of(&mut self, places: &'s [Place], value: &'v Value, sink: &mut Sink, seen: &mut Seen<'v>) {
        let fitting = places.iter().filter(|place| self.passes(**place, value, seen)).count();
        match fitting {
            0 => self.fits_none(places, "oneOf", "exactly one of", value, sink),
            1 => {}
            fitting => {
                let words = || {
                    let expected = format!("a value of exactly one of {} forms", places.len());
                    (expected, format!("a value of {fitting} of them"))
                };
                sink.push(&self.place, "oneOf", words);
            }
        }
    }

    /// The value has none of several forms. Where it is like one of them, and only what is within it is not, that form's
    /// violations say more.
    fn fits_none(
        &mut self,
        places: &'s [Place],
        rule: &str,
        how_many: &str,
        value: &'v Value,
        sink: &mut Sink,
    ) {
        let words = || (format!("a value of {how_many} {} forms", places.len()), value_shown(value));
        sink.push(&self.place, rule, words);
        if sink.is_silent() {
            return;
        }
        let here = pointer(&self.place).len();
        for place in places {
            let mut of_form = Sink::default();
            let before = self.marks.as_ref().map(Vec::len);
            self.node(*place, value, &mut of_form, &mut Seen::default());
            self.forget_marks(before);
            if of_form.found().iter().all(|violation| violation.path.len() > here) {
                return sink.append(of_form);
            }
        }
    }

    fn items(
        &mut self,
        prefix: &'s [Place],
        rest: Option<Place>,
        rest_rule: &str,
        items: &'v [Value],
        sink: &mut Sink,
        seen: &mut Seen<'v>,
    ) {
        for (index, (item, place)) in items.iter().zip(prefix).enumerate() {
            self.within(Segment::Item(index), *place, "prefixItems", item, sink);
        }
        seen.first_items = seen.first_items.max(prefix.len());
        if let Some(rest) = rest {
            for (index, item) in items.iter().enumerate().skip(prefix.len()) {
                self.within(Segment::Item(index), rest, rest_rule, item, sink);
            }
            seen.all_items = true;
        }
    }

    fn contains(
        &mut self,
        place: Place,
        count: Count,
        items: &'v [Value],
        sink: &mut Sink,
        seen: &mut Seen<'v>,
    ) {
        let mut found = 0;
        for (index, item) in items.iter().enumerate() {
            if self.stopped {
                return;
            }
            if self.passes(place, item, &mut Seen::default()) {
                found += 1;
                if self.schema.tracks {
                    seen.items.insert(index);
                }
            }
        }
        let Count { least, most } = count;
        if found < least {
            let words = || (format!("at least {least} such items"), format!("{found} of them"));
            sink.push(&self.place, if least == 1 { "contains" } else { "minContains" }, words);
        }
        if let Some(most) = most.filter(|most| found > *most) {
            let words = || (format!("at most {most} such items"), format!("{found} of them"));
            sink.push(&self.place, "maxContains", words);
        }
    }

    fn properties(
        &mut self,
        named: &'s BTreeMap<String, Place>,
        patterns: &'s [(Pattern, Place)],
        rest: Option<Place>,
        object: &'v Map<String, Value>,
        sink: &mut Sink,
        seen: &mut Seen<'v>,
    ) {
        for (key, value) in object {
            self.spend(1);
            let mut is_known = false;
            if let Some(place) = named.get(key) {
                is_known = true;
                self.within(Segment::Key(key), *place, "properties", value, sink);
            }
            for (pattern, place) in patterns {
                if self.is_in(pattern, key) {
                    is_known = true;
                    self.within(Segment::Key(key), *place, "patternProperties", value, sink);
                }
            }
            if let Some(rest) = rest.filter(|_| !is_known) {
                is_known = true;
                self.within(Segment::Key(key), rest, "additionalProperties", value, sink);
            }
            if is_known && self.schema.tracks {
                seen.keys.insert(key);
            }
            if self.stopped {
                return;
            }
        }
    }

    /// Names are judged as the texts that they are. Their places are those of the values that they name.
    fn names(&mut self, place: Place, object: &'v Map<String, Value>, sink: &mut Sink) {
        for key in object.keys() {
            if self.stopped {
                return;
            }
            self.spend_on(key.len() / 16);
            let name = Value::String(key.clone());
            let schema = self.schema;
            let mut judgement = Evaluation { place: Vec::new(), schema, marks: None, ..*self };
            let passes = judgement.passes(place, &name, &mut Seen::default());
            (self.work, self.stopped) = (judgement.work, judgement.stopped);
            if !passes {
                self.place.push(Segment::Key(key));
                let words = || ("another name".to_owned(), value_shown(&name));
                sink.push(&self.place, "propertyNames", words);
                self.place.pop();
            }
        }
    }

    /// Whether the pattern is in the text, unless that would cost too much to find out.
    fn is_in(&mut self, pattern: &Pattern, text: &str) -> bool {
        self.spend(pattern.cost(text));
        !self.stopped && pattern.is_in(text)
    }

    fn weigh(&mut self, value: &Value) {
        self.spend(compile::weight(value));
    }
}
