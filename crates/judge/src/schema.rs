//! A compiled schema: its subschemas in one list, which refer to each other by their places in it.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::json;
use capataz_contracts::v1::SchemaViolation;
use serde_json::{Number, Value};

use crate::evaluate::Evaluation;
use crate::pattern::Pattern;
use crate::report::Sink;
use crate::{DEPTH_MAX, JUDGED_MAX, compile};

/// Place of a subschema in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) usize);

/// A JSON Schema that can judge.
#[derive(Debug)]
pub struct Schema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Place,
    /// It asks what other keywords have looked at.
    pub(crate) tracks: bool,
    /// It marks values that are compared in lower case.
    pub(crate) lowers: bool,
}

/// A subschema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// In the order in which they are evaluated: those about what the others have left come last.
    pub(crate) rules: Vec<Rule>,
}

/// The kinds of values, as schemas name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

/// A value that is compared with others, and what the comparison costs.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) value: Value,
    pub(crate) weight: u64,
}

/// How many values have to be in a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Rule {
    /// `false`.
    Nothing,
    Reference(Place),
    Type(BTreeSet<Kind>),
    OneOfValues {
        allowed: Vec<Wanted>,
        /// `x-lowercase`: a text counts as what it is in lower case.
        lowers: bool,
    },
    Constant(Wanted),
    /// `x-schema`: the value is a schema itself.
    IsSchema,
    MultipleOf(Number),
    Minimum(Number),
    Maximum(Number),
    ExclusiveMinimum(Number),
    ExclusiveMaximum(Number),
    MinLength(u64),
    MaxLength(u64),
    Pattern(Pattern),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    /// The first items, and all after them.
    Items {
        prefix: Vec<Place>,
        rest: Option<Place>,
        rest_rule: &'static str,
    },
    Contains {
        item: Place,
        count: Count,
    },
    MinProperties(u64),
    MaxProperties(u64),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, Place)>),
    PropertyNames(Place),
    Properties {
        named: BTreeMap<String, Place>,
        patterns: Vec<(Pattern, Place)>,
        rest: Option<Place>,
    },
    AllOf(Vec<Place>),
    AnyOf(Vec<Place>),
    OneOf(Vec<Place>),
    Not(Place),
    If {
        condition: Place,
        then: Option<Place>,
        otherwise: Option<Place>,
    },
    UnevaluatedItems(Place),
    UnevaluatedProperties(Place),
}

impl Rule {
    /// The subschemas that judge the very value that the rule is about, and no value within it.
    pub(crate) fn in_place(&self) -> Vec<Place> {
        match self {
            Self::Reference(place) | Self::Not(place) => vec![*place],
            Self::AllOf(places) | Self::AnyOf(places) | Self::OneOf(places) => places.clone(),
            Self::DependentSchemas(places) => places.iter().map(|(_, place)| *place).collect(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// Everything that is wrong with it; the paths are JSON pointers into the schema.
    pub fn compile(text: &str) -> Result<Self, Vec<SchemaViolation>> {
        compile::schema(text)
    }

    /// Judges the text of a JSON value. No violations: it passes. Paths are JSON pointers into the value.
    #[must_use]
    pub fn judge(&self, text: &[u8]) -> Vec<SchemaViolation> {
        let value = match read(text, JUDGED_MAX) {
            Ok(value) => value,
            Err(violation) => return vec![violation],
        };
        let mut sink = Sink::default();
        Evaluation::new(self).root(&value, &mut sink);
        sink.into_violations()
    }

    /// Whether judging the text takes at most so many steps, of which [`WORK_MAX`](crate::WORK_MAX) are allowed. It takes no
    /// more to find out.
    #[must_use]
    pub fn takes_at_most(&self, text: &[u8], steps: u64) -> bool {
        match read(text, JUDGED_MAX) {
            Ok(value) => Evaluation::of_steps(self, steps).ends(&value),
            // What cannot be read is not judged.
            Err(_) => true,
        }
    }
}

/// Reads JSON of bounded size and depth, in which no key is written twice.
pub(crate) fn read(text: &[u8], most: usize) -> Result<Value, SchemaViolation> {
    if text.len() > most {
        let expected = format!("at most {most} bytes");
        return Err(crate::violation("", "size", expected, format!("{} bytes", text.len())));
    }
    let value = json::from_slice(text)
        .map_err(|violation| crate::violation("", "syntax", "JSON".to_owned(), violation.message))?;
    if !json::depth_is_within(&value, DEPTH_MAX) {
        let expected = format!("at most {DEPTH_MAX} levels");
        return Err(crate::violation("", "depth", expected, "more of them".to_owned()));
    }
    Ok(value)
}
