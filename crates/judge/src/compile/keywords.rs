//! The keywords of one subschema, each read into its rule.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

use super::{At, Compiler, Dialect, Keyword};
use crate::number;
use crate::report::{Segment, value_shown};
use crate::schema::{Count, Kind, Place, Rule, Wanted};

type Object = Map<String, Value>;

/// Our own keyword beside `enum`: texts that are one of its values in lower case may be rewritten to it.
const LOWERCASE: &str = "x-lowercase";
/// Our own keyword, which demands that a value is a schema itself.
const SCHEMA: &str = "x-schema";

impl<'s> Compiler<'s> {
    /// The rules of a subschema. Unknown keywords are remarks.
    pub(super) fn rules(&mut self, value: &'s Value, at: &At<'s>) -> Vec<Rule> {
        let object = match value {
            Value::Bool(true) => return Vec::new(),
            Value::Bool(false) => return vec![Rule::Nothing],
            Value::Object(object) => object,
            other => {
                let found = value_shown(other);
                self.report(at, "schema", "an object, true or false".to_owned(), found);
                return Vec::new();
            }
        };
        self.definitions(object, at);
        let mut rules = Vec::new();
        for (name, value) in object {
            let keyword = Keyword { name, value, parent: at };
            rules.extend(self.simple(&keyword, object));
        }
        rules.extend(self.items(object, at));
        rules.extend(self.contains(object, at));
        rules.extend(self.properties(object, at));
        rules.extend(self.condition(object, at));
        // What the other keywords have not looked at is known after them.
        for (name, rule) in [
            ("unevaluatedItems", Rule::UnevaluatedItems as fn(Place) -> Rule),
            ("unevaluatedProperties", Rule::UnevaluatedProperties),
        ] {
            if let Some(place) = self.subschema(object, name, at) {
                self.tracks = true;
                rules.push(rule(place));
            }
        }
        rules
    }

    /// Subschemas that are only there to be referred to, and names.
    fn definitions(&mut self, object: &'s Object, at: &At<'s>) {
        for name in ["$defs", "definitions"] {
            self.named(object, name, at);
        }
        if let Some((name, value)) = object.get_key_value("$id")
            && !at.is_empty()
            && self.anchor_by_id(object).is_none()
        {
            let keyword = Keyword { name, value, parent: at };
            self.refuse(&keyword, "no name but that of the whole schema");
        }
    }

    /// A keyword that stands for itself.
    fn simple(&mut self, keyword: &Keyword<'_, 's>, object: &'s Object) -> Option<Rule> {
        match keyword.name {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(keyword),
            "type" => self.kinds(keyword).map(Rule::Type),
            "enum" => {
                let lowers = object.get(LOWERCASE) == Some(&Value::Bool(true));
                self.lowers |= lowers;
                self.values(keyword).map(|allowed| Rule::OneOfValues { allowed, lowers })
            }
            LOWERCASE => {
                if !keyword.value.is_boolean() {
                    self.refuse(keyword, "true or false");
                }
                None
            }
            SCHEMA => match keyword.value {
                Value::Bool(is_schema) => is_schema.then_some(Rule::IsSchema),
                _ => {
                    self.refuse(keyword, "true or false");
                    None
                }
            },
            "const" => Some(Rule::Constant(wanted(keyword.value))),
            "multipleOf" => self.number(keyword, true).map(Rule::MultipleOf),
            "minimum" => self.number(keyword, false).map(Rule::Minimum),
            "maximum" => self.number(keyword, false).map(Rule::Maximum),
            "exclusiveMinimum" => self.number(keyword, false).map(Rule::ExclusiveMinimum),
            "exclusiveMaximum" => self.number(keyword, false).map(Rule::ExclusiveMaximum),
            "minLength" => self.count(keyword).map(Rule::MinLength),
            "maxLength" => self.count(keyword).map(Rule::MaxLength),
            "minItems" => self.count(keyword).map(Rule::MinItems),
            "maxItems" => self.count(keyword).map(Rule::MaxItems),
            "minProperties" => self.count(keyword).map(Rule::MinProperties),
            "maxProperties" => self.count(keyword).map(Rule::MaxProperties),
            "pattern" => match keyword.value {
                Value::String(text) => self.pattern(&keyword.at(), "pattern", text).map(Rule::Pattern),
                _ => {
                    self.refuse(keyword, "a text");
                    None
                }
            },
            "uniqueItems" => match keyword.value {
                Value::Bool(unique) => unique.then_some(Rule::UniqueItems),
                _ => {
                    self.refuse(keyword, "true or false");
                    None
                }
            },
            "required" => self.texts(keyword, keyword.value, keyword.at()).map(Rule::Required),
            "dependentRequired" => self.dependent_required(keyword).map(Rule::DependentRequired),
            "dependentSchemas" => {
                let named = self.named(object, "dependentSchemas", keyword.parent);
                Some(Rule::DependentSchemas(named.into_iter().collect()))
            }
            "dependencies" => self.dependencies(keyword),
            "propertyNames" => Some(Rule::PropertyNames(self.place_of(keyword.value, keyword.at()))),
            "allOf" => self.list(keyword).map(Rule::AllOf),
            "anyOf" => self.list(keyword).map(Rule::AnyOf),
            "oneOf" => self.list(keyword).map(Rule::OneOf),
            "not" => Some(Rule::Not(self.place_of(keyword.value, keyword.at()))),
            _ => None,
        }
    }

    fn items(&mut self, object: &'s Object, at: &At<'s>) -> Option<Rule> {
        let listed = |name| object.get_key_value(name).filter(|(_, value)| value.is_array());
        let tuple = listed("items").filter(|_| self.dialect == Dialect::Old);
        let (prefix, rest_rule) = match tuple {
            Some(tuple) => (Some(tuple), "additionalItems"),
            None => (object.get_key_value("prefixItems"), "items"),
        };
        let rest = self.subschema(object, rest_rule, at);
        let prefix = prefix.and_then(|(name, value)| self.list(&Keyword { name, value, parent: at }));
        let prefix = prefix.unwrap_or_default();
        (rest.is_some() || !prefix.is_empty()).then_some(Rule::Items { prefix, rest, rest_rule })
    }

    fn contains(&mut self, object: &'s Object, at: &At<'s>) -> Option<Rule> {
        let mut count = |name| {
            let (name, value) = object.get_key_value(name)?;
            self.count(&Keyword { name, value, parent: at })
        };
        let count = Count { least: count("minContains").unwrap_or(1), most: count("maxContains") };
        let item = self.subschema(object, "contains", at)?;
        Some(Rule::Contains { item, count })
    }

    fn properties(&mut self, object: &'s Object, at: &At<'s>) -> Option<Rule> {
        let named = self.named(object, "properties", at);
        let mut patterns = Vec::new();
        for (text, place) in self.named(object, "patternProperties", at) {
            let mut at = at.clone();
            at.push(Segment::Key("patternProperties"));
            patterns.extend(self.pattern(&at, "patternProperties", &text).map(|pattern| (pattern, place)));
        }
        let rest = self.subschema(object, "additionalProperties", at);
        let has_rule = rest.is_some() || !named.is_empty() || !patterns.is_empty();
        has_rule.then_some(Rule::Properties { named, patterns, rest })
    }

    fn condition(&mut self, object: &'s Object, at: &At<'s>) -> Option<Rule> {
        let [condition, then, otherwise] =
            ["if", "then", "else"].map(|name| self.subschema(object, name, at));
        Some(Rule::If { condition: condition?, then, otherwise })
    }

    /// The subschema that is the value of a keyword.
    fn subschema(&mut self, object: &'s Object, name: &str, at: &At<'s>) -> Option<Place> {
        let (name, value) = object.get_key_value(name)?;
        Some(self.place_of(value, Keyword { name, value, parent: at }.at()))
    }

    /// The subschemas in the object that is the value of a keyword, by their names.
    fn named(&mut self, object: &'s Object, name: &str, at: &At<'s>) -> BTreeMap<String, Place> {
        let Some((name, value)) = object.get_key_value(name) else { return BTreeMap::new() };
        let keyword = Keyword { name, value, parent: at };
        let Value::Object(named) = value else {
            self.refuse(&keyword, "an object of subschemas");
            return BTreeMap::new();
        };
        let place = |(key, value): (&'s String, &'s Value)| {
            let at = keyword.below(Segment::Key(key));
            (key.clone(), self.place_of(value, at))
        };
        named.iter().map(place).collect()
    }

    fn list(&mut self, keyword: &Keyword<'_, 's>) -> Option<Vec<Place>> {
        match keyword.value {
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().enumerate();
                let places = items.map(|(index, item)| {
                    let at = keyword.below(Segment::Item(index));
                    self.place_of(item, at)
                });
                Some(places.collect())
            }
            _ => {
                self.refuse(keyword, "a list of subschemas");
                None
            }
        }
    }

    fn kinds(&mut self, keyword: &Keyword<'_, 's>) -> Option<BTreeSet<Kind>> {
        let kinds: Option<BTreeSet<Kind>> = match keyword.value {
            Value::Array(items) if !items.is_empty() => items.iter().map(kind).collect(),
            one => kind(one).map(|kind| BTreeSet::from([kind])),
        };
        if kinds.is_none() {
            self.refuse(keyword, "null, boolean, object, array, number, integer, string, or a list of these");
        }
        kinds
    }

    fn values(&mut self, keyword: &Keyword<'_, 's>) -> Option<Vec<Wanted>> {
        match keyword.value {
            Value::Array(items) => Some(items.iter().map(wanted).collect()),
            _ => {
                self.refuse(keyword, "a list of values");
                None
            }
        }
    }

    fn number(&mut self, keyword: &Keyword<'_, 's>, positive: bool) -> Option<Number> {
        match keyword.value {
            Value::Number(number) if !positive || number.as_f64().is_some_and(|number| number > 0.0) => {
                Some(number.clone())
            }
            _ => {
                self.refuse(keyword, if positive { "a number above 0" } else { "a number" });
                None
            }
        }
    }

    fn count(&mut self, keyword: &Keyword<'_, 's>) -> Option<u64> {
        let integer = match keyword.value {
            Value::Number(number) => number::integer(number),
            _ => None,
        };
        let count = integer.and_then(|integer| u64::try_from(integer).ok());
        if count.is_none() {
            self.refuse(keyword, "an integer that is not negative");
        }
        count
    }

    fn texts(&mut self, keyword: &Keyword<'_, 's>, value: &'s Value, at: At<'s>) -> Option<Vec<String>> {
        let texts: Option<Vec<String>> = match value {
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        if texts.is_none() {
            self.report(&at, keyword.name, "a list of texts".to_owned(), value_shown(value));
        }
        texts
    }

    fn dependent_required(&mut self, keyword: &Keyword<'_, 's>) -> Option<Vec<(String, Vec<String>)>> {
        let Value::Object(named) = keyword.value else {
            self.refuse(keyword, "an object of lists of texts");
            return None;
        };
        let mut all = Vec::new();
        for (key, value) in named {
            let at = keyword.below(Segment::Key(key));
            all.push((key.clone(), self.texts(keyword, value, at)?));
        }
        Some(all)
    }

    /// As older dialects write it: lists of texts and subschemas side by side. Both mean the same as subschemas.
    fn dependencies(&mut self, keyword: &Keyword<'_, 's>) -> Option<Rule> {
        let Value::Object(named) = keyword.value else {
            self.refuse(keyword, "an object");
            return None;
        };
        let mut all = Vec::new();
        for (key, value) in named {
            let at = keyword.below(Segment::Key(key));
            let place = match value {
                Value::Array(_) => {
                    let texts = self.texts(keyword, value, at)?;
                    self.required_by(texts)
                }
                _ => self.place_of(value, at),
            };
            all.push((key.clone(), place));
        }
        Some(Rule::DependentSchemas(all))
    }
}

fn wanted(value: &Value) -> Wanted {
    Wanted { value: value.clone(), weight: weight(value) }
}

/// What it costs to compare with a value.
pub(crate) fn weight(value: &Value) -> u64 {
    let bytes = |length: usize| u64::try_from(length / 16).unwrap_or(u64::MAX);
    match value {
        Value::Array(items) => items.iter().map(weight).sum::<u64>().saturating_add(1),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| bytes(key.len()).saturating_add(weight(value)));
            entries.sum::<u64>().saturating_add(1)
        }
        Value::String(text) => bytes(text.len()).saturating_add(1),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn kind(name: &Value) -> Option<Kind> {
    Some(match name.as_str()? {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "object" => Kind::Object,
        "array" => Kind::Array,
        "number" => Kind::Number,
        "integer" => Kind::Integer,
        "string" => Kind::String,
        _ => return None,
    })
}
