//! The rules without subschemas.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::{Evaluation, address};
use crate::number::{canonical, compare, is_integer, is_multiple, multiple_cost, same};
use crate::report::{Segment, Sink, text_shown, value_shown};
use crate::schema::{Kind, Rule, Schema, Wanted};

/// How many of the allowed values are listed for people.
const LISTED: usize = 12;
/// Steps that compiling a schema takes for each byte of its text.
const COMPILING: usize = 32;

impl<'s, 'v> Evaluation<'s, 'v> {
    #[inline(never)]
    pub(super) fn assert(&mut self, rule: &'s Rule, value: &'v Value, sink: &mut Sink) {
        match (rule, value) {
            (Rule::Nothing, _) => self.broken(sink, "false", "nothing", value),
            (Rule::Type(kinds), _) if !kinds.iter().any(|kind| is_of(value, *kind)) => {
                let named: Vec<&str> = kinds.iter().map(|kind| named(*kind)).collect();
                self.broken(sink, "type", &named.join(" or "), value);
            }
            (Rule::OneOfValues { allowed, lowers }, _) => {
                self.spend_on(allowed.len());
                let is_one = allowed.iter().any(|allowed| self.is_wanted(allowed, value))
                    || (*lowers && self.is_one_in_lower_case(allowed, value));
                if !is_one {
                    let listed = allowed.iter().take(LISTED).map(|allowed| value_shown(&allowed.value));
                    let mut listed = listed.collect::<Vec<_>>().join(", ");
                    if allowed.len() > LISTED {
                        listed.push_str(", …");
                    }
                    self.broken(sink, "enum", &format!("one of {listed}"), value);
                }
            }
            (Rule::Constant(wanted), _) if !self.is_wanted(wanted, value) => {
                self.broken(sink, "const", &value_shown(&wanted.value), value);
            }
            (Rule::IsSchema, _) => self.assert_schema(value, sink),
            (_, Value::Number(number)) => self.assert_number(rule, number, value, sink),
            (_, Value::String(text)) => self.assert_text(rule, text, value, sink),
            (_, Value::Array(items)) => self.assert_list(rule, items, value, sink),
            (_, Value::Object(_)) => self.assert_object(rule, value, sink),
            _ => {}
        }
    }

    /// The value can judge others.
    fn assert_schema(&mut self, value: &Value, sink: &mut Sink) {
        let text = value.to_string();
        self.spend_on(text.len().saturating_mul(COMPILING));
        if self.stopped {
            return;
        }
        if let Err(violations) = Schema::compile(&text) {
            let wrong = violations.first().map(crate::shown).unwrap_or_default();
            self.broken(sink, "x-schema", &format!("a schema, and not one that is wrong ({wrong})"), value);
        }
    }

    /// Whether the text is one of these values in lower case, where that is what is asked for; then it is marked.
    fn is_one_in_lower_case(&mut self, allowed: &[Wanted], value: &Value) -> bool {
        let (Some(_), Value::String(text)) = (&self.marks, value) else { return false };
        self.spend_on(allowed.len() + text.len() / 16);
        let lower = text.to_lowercase();
        let is_one = allowed.iter().any(|allowed| allowed.value.as_str() == Some(&lower));
        if let Some(marks) = self.marks.as_mut().filter(|_| is_one) {
            marks.push(address(value));
        }
        is_one
    }

    fn broken(&self, sink: &mut Sink, rule: &str, expected: &str, found: &Value) {
        sink.push(&self.place, rule, || (expected.to_owned(), value_shown(found)));
    }

    fn counted(&self, sink: &mut Sink, rule: &str, expected: String, found: usize) {
        sink.push(&self.place, rule, || (expected, found.to_string()));
    }

    fn is_wanted(&mut self, wanted: &Wanted, value: &Value) -> bool {
        self.spend(wanted.weight);
        same(&wanted.value, value)
    }

    fn assert_number(&mut self, rule: &Rule, number: &Number, value: &Value, sink: &mut Sink) {
        if let Rule::MultipleOf(of) = rule {
            self.spend(multiple_cost(number, of));
            if self.stopped {
                return;
            }
        }
        let (keyword, expected) = match rule {
            Rule::MultipleOf(of) if !is_multiple(number, of) => ("multipleOf", format!("a multiple of {of}")),
            Rule::Minimum(least) if compare(number, least) == Ordering::Less => {
                ("minimum", format!("at least {least}"))
            }
            Rule::Maximum(most) if compare(number, most) == Ordering::Greater => {
                ("maximum", format!("at most {most}"))
            }
            Rule::ExclusiveMinimum(least) if compare(number, least) != Ordering::Greater => {
                ("exclusiveMinimum", format!("more than {least}"))
            }
            Rule::ExclusiveMaximum(most) if compare(number, most) != Ordering::Less => {
                ("exclusiveMaximum", format!("less than {most}"))
            }
            _ => return,
        };
        self.broken(sink, keyword, &expected, value);
    }

    fn assert_text(&mut self, rule: &Rule, text: &str, value: &Value, sink: &mut Sink) {
        match rule {
            Rule::MinLength(least) | Rule::MaxLength(least) => {
                self.spend_on(text.len() / 16);
                let count = text.chars().count();
                let is_max = matches!(rule, Rule::MaxLength(_));
                match is_max {
                    true if exceeds(count, *least) => {
                        self.counted(sink, "maxLength", format!("at most {least} characters"), count);
                    }
                    false if falls_short(count, *least) => {
                        self.counted(sink, "minLength", format!("at least {least} characters"), count);
                    }
                    true | false => {}
                }
            }
            Rule::Pattern(pattern) if !self.is_in(pattern, text) => {
                self.broken(sink, "pattern", &format!("a text with {}", text_shown(&pattern.text)), value);
            }
            _ => {}
        }
    }

    fn assert_list(&mut self, rule: &Rule, items: &'v [Value], value: &'v Value, sink: &mut Sink) {
        match rule {
            Rule::MinItems(least) if falls_short(items.len(), *least) => {
                self.counted(sink, "minItems", format!("at least {least} items"), items.len());
            }
            Rule::MaxItems(most) if exceeds(items.len(), *most) => {
                self.counted(sink, "maxItems", format!("at most {most} items"), items.len());
            }
            Rule::UniqueItems => {
                self.weigh(value);
                if self.stopped {
                    return;
                }
                let mut before = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    let mut text = String::new();
                    canonical(item, &mut text);
                    if !before.insert(text) {
                        self.place.push(Segment::Item(index));
                        self.broken(sink, "uniqueItems", "no item that is there already", item);
                        self.place.pop();
                    }
                }
            }
            _ => {}
        }
    }

    fn assert_object(&mut self, rule: &Rule, value: &Value, sink: &mut Sink) {
        let Value::Object(object) = value else { return };
        match rule {
            Rule::MinProperties(least) if falls_short(object.len(), *least) => {
                self.counted(sink, "minProperties", format!("at least {least} keys"), object.len());
            }
            Rule::MaxProperties(most) if exceeds(object.len(), *most) => {
                self.counted(sink, "maxProperties", format!("at most {most} keys"), object.len());
            }
            Rule::Required(keys) => self.required(keys, "required", value, sink),
            Rule::DependentRequired(dependent) => {
                for (_, keys) in dependent.iter().filter(|(key, _)| object.contains_key(key)) {
                    self.required(keys, "dependentRequired", value, sink);
                }
            }
            _ => {}
        }
    }

    fn required(&mut self, keys: &[String], rule: &str, value: &Value, sink: &mut Sink) {
        self.spend_on(keys.len());
        for key in keys {
            if value.get(key).is_none() {
                let words = || (format!("the key {}", text_shown(key)), "no such key".to_owned());
                sink.push(&self.place, rule, words);
            }
        }
    }
}

fn exceeds(count: usize, most: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count > most)
}

fn falls_short(count: usize, least: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count < least)
}

fn is_of(value: &Value, kind: Kind) -> bool {
    match (value, kind) {
        (Value::Null, Kind::Null)
        | (Value::Bool(_), Kind::Boolean)
        | (Value::Object(_), Kind::Object)
        | (Value::Array(_), Kind::Array)
        | (Value::Number(_), Kind::Number)
        | (Value::String(_), Kind::String) => true,
        (Value::Number(number), Kind::Integer) => is_integer(number),
        _ => false,
    }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Boolean => "a boolean",
        Kind::Object => "an object",
        Kind::Array => "a list",
        Kind::Number => "a number",
        Kind::Integer => "an integer",
        Kind::String => "a text",
    }
}
