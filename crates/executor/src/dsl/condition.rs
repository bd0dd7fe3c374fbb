//! Conditions: what they ask, and which of them prove something (rule U5).

use capataz_contracts::placeholder::{Place, is_pattern};
use capataz_contracts::v1;
use capataz_contracts::v1::ConditionKind as Kind;
use regex::Regex;

use super::reader::Reader;
use super::target::Purpose;
use crate::page::Query;
use crate::text::normalised;

/// How deep conditions may be nested, the outermost counted.
const NESTING_MAX: usize = 8;

/// The most conditions of one list.
const LIST_MAX: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The condition as it is written in the script.
    pub(crate) spec: v1::Condition,
    pub(crate) target: Option<Query>,
    pub(crate) test: Test,
    /// True if the condition proves that an action had its effect (rule U5).
    pub(crate) strong: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Count(u32),
    Visible,
    Hidden,
    Enabled(bool),
    Checked(bool),
    /// The text of the target, or of the whole page where the condition has no target.
    Text(Matcher),
    Value(Matcher),
    Attribute(String, Matcher),
    Url(Matcher),
    Host(Matcher),
    Title(Matcher),
    DownloadCompleted(Option<String>),
    UploadListed(Option<String>),
    NoOverlay,
    Not(Box<Condition>),
}

/// How a text is compared.
#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    Equals(String),
    Contains(String),
    Matches(Regex),
}

impl Matcher {
    pub(crate) fn holds(&self, text: &str) -> bool {
        match self {
            Self::Equals(expected) => text == expected,
            Self::Contains(expected) => text.contains(expected.as_str()),
            Self::Matches(pattern) => pattern.is_match(text),
        }
    }

    /// False if nearly every text matches, as for `.*`. The samples are texts that have nothing to do with each other: what
    /// matches the empty text, or all of them, proves nothing.
    fn tells_something(&self, samples: &[&str]) -> bool {
        match self {
            Self::Equals(_) => true,
            Self::Contains(expected) => !expected.trim().is_empty(),
            Self::Matches(pattern) => {
                !pattern.is_match("") && !samples.iter().all(|sample| pattern.is_match(sample))
            }
        }
    }
}

/// URLs that have nothing in common but to be URLs of pages.
const URLS: [&str; 4] = [
    "http://127.0.0.1:8080/",
    "https://example.com/a/form?step=1#end",
    "http://shop.test/Orders/42",
    "https://xn--bcher-kva.example/index.html",
];
const HOSTS: [&str; 4] = ["127.0.0.1", "example.com", "shop.test", "xn--bcher-kva.example"];
/// Texts as pages have them in titles, fields and attributes.
const TEXTS: [&str; 5] = ["a", "7", "Sent.", "\u{fc}", "order-42"];

/// The fields that a kind of condition has besides its kind.
struct Shape {
    target: Need,
    value: Need,
    count: Need,
    attribute: Need,
    condition: Need,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Never,
    Optional,
    Required,
}

fn shape(kind: Kind) -> Shape {
    use Need::{Never, Optional, Required};
    let none = Shape { target: Never, value: Never, count: Never, attribute: Never, condition: Never };
    match kind {
        Kind::Unspecified => none,
        Kind::ElementCountEquals => Shape { target: Required, count: Required, ..none },
        Kind::Visible | Kind::Hidden | Kind::Enabled | Kind::Disabled | Kind::Checked | Kind::Unchecked => {
            Shape { target: Required, ..none }
        }
        Kind::TextEquals | Kind::TextContains | Kind::TextMatches => {
            Shape { target: Optional, value: Required, ..none }
        }
        Kind::ValueEquals | Kind::ValueContains | Kind::ValueMatches => {
            Shape { target: Required, value: Required, ..none }
        }
        Kind::AttributeEquals | Kind::AttributeContains | Kind::AttributeMatches => {
            Shape { target: Required, value: Required, attribute: Required, ..none }
        }
        Kind::UrlEquals
        | Kind::UrlMatches
        | Kind::HostEquals
        | Kind::HostMatches
        | Kind::TitleEquals
        | Kind::TitleMatches => Shape { value: Required, ..none },
        Kind::DownloadCompleted => Shape { value: Optional, ..none },
        Kind::UploadListed => Shape { target: Required, value: Optional, ..none },
        Kind::NoOverlay => Shape { target: Optional, ..none },
        Kind::Not => Shape { condition: Required, ..none },
    }
}

/// The condition's kind as the DSL spells it.
pub(crate) fn kind_name(kind: i32) -> String {
    let name = Kind::try_from(kind).unwrap_or_default().as_str_name();
    name.trim_start_matches("CONDITION_KIND_").to_ascii_lowercase()
}

/// What reading a list of conditions gave.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// The conditions that could be read: all of them if none was refused and every text is known.
    pub(crate) known: Vec<Condition>,
    /// True if one of the conditions is strong (rule U5), as far as is known.
    pub(crate) strong: bool,
}

impl Reader<'_> {
    pub(crate) fn conditions(&mut self, path: &str, conditions: &[v1::Condition]) -> Conditions {
        if conditions.len() > LIST_MAX {
            self.refuse(path, "limit", format!("{} conditions; at most {LIST_MAX}", conditions.len()));
            return Conditions::default();
        }
        let mut read = Conditions::default();
        for (index, condition) in conditions.iter().enumerate() {
            let mut known = self.condition(&format!("{path}[{index}]"), condition, 1);
            let strong = match &mut known {
                Some(condition) => {
                    condition.strong = condition.is_strong();
                    condition.strong
                }
                // A text that is not known yet is assumed to be specific enough.
                None => is_strong_kind(condition),
            };
            read.strong |= strong;
            read.known.extend(known);
        }
        read
    }

    fn condition(&mut self, path: &str, condition: &v1::Condition, depth: usize) -> Option<Condition> {
        let kind = match Kind::try_from(condition.kind) {
            Ok(kind) if kind != Kind::Unspecified => kind,
            _ => {
                let message = format!("there is no kind of condition {}", condition.kind);
                let rule = if condition.kind == 0 { "required" } else { "enum" };
                self.refuse(&format!("{path}.kind"), rule, message);
                return None;
            }
        };
        self.check_shape(path, kind, condition);
        if let Some(inner) = &condition.condition {
            if depth == NESTING_MAX {
                let message = format!("conditions are nested deeper than {NESTING_MAX}");
                self.refuse(&format!("{path}.condition"), "depth", message);
                return None;
            }
            let inner = self.condition(&format!("{path}.condition"), inner, depth + 1)?;
            let test = Test::Not(Box::new(inner));
            let not = || Condition { spec: condition.clone(), target: None, test, strong: false };
            return (kind == Kind::Not).then(not);
        }
        let purpose = if kind == Kind::ElementCountEquals { Purpose::Count } else { Purpose::Element };
        let target = condition.target.as_ref();
        let read_target = target.and_then(|target| self.target(&format!("{path}.target"), target, purpose));
        let place = if is_pattern(kind) { Place::Pattern } else { Place::Plain };
        let value = condition.value.as_ref();
        let read_value = value.and_then(|value| self.text(&format!("{path}.value"), value, place));
        let attribute = condition.attribute.clone();
        if let Some(attribute) = &attribute {
            self.attribute(&format!("{path}.attribute"), attribute);
        }
        let pattern = match &read_value {
            Some(value) if is_pattern(kind) => self.pattern(&format!("{path}.value"), value),
            _ => None,
        };
        if (target.is_some() && read_target.is_none()) || (value.is_some() && read_value.is_none()) {
            return None;
        }
        let test = test(kind, condition.count, read_value, attribute, pattern)?;
        let mut target = read_target;
        if let (Test::Attribute(name, _), Some(target)) = (&test, &mut target) {
            target.attributes.push(name.clone());
        }
        Some(Condition { spec: condition.clone(), target, test, strong: false })
    }

    fn check_shape(&mut self, path: &str, kind: Kind, condition: &v1::Condition) {
        let shape = shape(kind);
        let fields = [
            ("target", shape.target, condition.target.is_some()),
            ("value", shape.value, condition.value.is_some()),
            ("count", shape.count, condition.count.is_some()),
            ("attribute", shape.attribute, condition.attribute.is_some()),
            ("condition", shape.condition, condition.condition.is_some()),
        ];
        for (field, need, is_there) in fields {
            let name = kind_name(kind as i32);
            if need == Need::Required && !is_there {
                self.refuse(&format!("{path}.{field}"), "required", format!("{name} needs a {field}"));
            }
            if need == Need::Never && is_there {
                self.refuse(&format!("{path}.{field}"), "fields", format!("{name} has no {field}"));
            }
        }
    }

    /// The name of an attribute: no white space, quotes, `=`, `<`, `>`, `/` or control characters.
    pub(crate) fn attribute(&mut self, path: &str, name: &str) {
        let odd =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '=' | '<' | '>' | '/');
        if name.is_empty() || name.len() > 256 || name.contains(odd) {
            self.refuse(path, "attribute", "is not the name of an attribute");
        }
    }
}

/// The test that the fields describe; `None` if a field is missing, which was reported.
fn test(
    kind: Kind,
    count: Option<u32>,
    value: Option<String>,
    attribute: Option<String>,
    pattern: Option<Regex>,
) -> Option<Test> {
    let matches = |pattern: Option<Regex>| pattern.map(Matcher::Matches);
    let equals = |value: Option<String>| value.map(Matcher::Equals);
    let contains = |value: Option<String>| value.map(Matcher::Contains);
    // Texts of elements and titles are read normalised, and so is what they are compared with.
    let read = |value: Option<String>| value.map(|value| normalised(&value));
    Some(match kind {
        Kind::Unspecified | Kind::Not => return None,
        Kind::ElementCountEquals => Test::Count(count?),
        Kind::Visible => Test::Visible,
        Kind::Hidden => Test::Hidden,
        Kind::Enabled => Test::Enabled(true),
        Kind::Disabled => Test::Enabled(false),
        Kind::Checked => Test::Checked(true),
        Kind::Unchecked => Test::Checked(false),
        Kind::TextEquals => Test::Text(equals(read(value))?),
        Kind::TextContains => Test::Text(contains(read(value))?),
        Kind::TextMatches => Test::Text(matches(pattern)?),
        Kind::ValueEquals => Test::Value(equals(value)?),
        Kind::ValueContains => Test::Value(contains(value)?),
        Kind::ValueMatches => Test::Value(matches(pattern)?),
        Kind::AttributeEquals => Test::Attribute(attribute?, equals(value)?),
        Kind::AttributeContains => Test::Attribute(attribute?, contains(value)?),
        Kind::AttributeMatches => Test::Attribute(attribute?, matches(pattern)?),
        Kind::UrlEquals => Test::Url(equals(value)?),
        Kind::UrlMatches => Test::Url(matches(pattern)?),
        Kind::HostEquals => Test::Host(equals(value.map(|host| host.to_lowercase()))?),
        Kind::HostMatches => Test::Host(matches(pattern)?),
        Kind::TitleEquals => Test::Title(equals(read(value))?),
        Kind::TitleMatches => Test::Title(matches(pattern)?),
        Kind::DownloadCompleted => Test::DownloadCompleted(value),
        Kind::UploadListed => Test::UploadListed(value),
        Kind::NoOverlay => Test::NoOverlay,
    })
}

impl Condition {
    /// True if the condition proves that an action had its effect (rule U5).
    fn is_strong(&self) -> bool {
        let tells_something = match &self.test {
            Test::Text(matcher)
            | Test::Value(matcher)
            | Test::Attribute(_, matcher)
            | Test::Title(matcher) => matcher.tells_something(&TEXTS),
            Test::Url(matcher) => matcher.tells_something(&URLS),
            Test::Host(matcher) => matcher.tells_something(&HOSTS),
            // Every text contains the empty name.
            Test::UploadListed(Some(name)) | Test::DownloadCompleted(Some(name)) => !name.trim().is_empty(),
            _ => true,
        };
        tells_something && is_strong_kind(&self.spec)
    }
}

/// Strong are url, host and title; text, value, attribute and checked state of one element; the count of elements by
/// testid, role or label; a completed download and a listed upload (CONTRACTS: the reading of seed 002, U5). A
/// negated condition is not strong: that something does not hold proves nothing about what does.
fn is_strong_kind(condition: &v1::Condition) -> bool {
    match Kind::try_from(condition.kind).unwrap_or_default() {
        Kind::UrlEquals
        | Kind::UrlMatches
        | Kind::HostEquals
        | Kind::HostMatches
        | Kind::TitleEquals
        | Kind::TitleMatches
        | Kind::DownloadCompleted
        | Kind::UploadListed => true,
        Kind::TextEquals
        | Kind::TextContains
        | Kind::TextMatches
        | Kind::ValueEquals
        | Kind::ValueContains
        | Kind::ValueMatches
        | Kind::AttributeEquals
        | Kind::AttributeContains
        | Kind::AttributeMatches
        | Kind::Checked
        | Kind::Unchecked => condition.target.is_some(),
        Kind::ElementCountEquals => condition.target.as_ref().is_some_and(|target| {
            let mut targets = std::iter::successors(Some(target), |target| target.within.as_deref());
            targets.all(is_by_meaning)
        }),
        Kind::Unspecified
        | Kind::Visible
        | Kind::Hidden
        | Kind::Enabled
        | Kind::Disabled
        | Kind::NoOverlay
        | Kind::Not => false,
    }
}

/// True if the target is named by testid, role or label, and in no other way.
fn is_by_meaning(target: &v1::Target) -> bool {
    let by_meaning = target.testid.is_some() || target.role.is_some() || target.label.is_some();
    by_meaning && target.css.is_none() && target.xpath.is_none() && target.text.is_none()
}
