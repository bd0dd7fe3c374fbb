//! Reading TOML values with their places. Each step either returns a value or reports an error, and goes on.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Report, SpecFileCode as Code};
use crate::check::{self, Broken};
use crate::spec::Language;

/// A value of the file and the path to it.
#[derive(Clone, Debug)]
pub(super) struct Node<'d> {
    value: &'d Spanned<DeValue<'d>>,
    pub path: String,
}

impl<'d> Node<'d> {
    pub(super) fn new(value: &'d Spanned<DeValue<'d>>, path: String) -> Self {
        Self { value, path }
    }

    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub(super) fn report(&self, report: &mut Report<'_>, code: Code, message: impl Into<String>) {
        report.push(self.span().start, &self.path, code, message);
    }

    fn wrong_type(&self, report: &mut Report<'_>, expected: &str) {
        let found = self.value.get_ref().type_str();
        self.report(report, Code::WrongType, format!("this is a {found}; write {expected}"));
    }

    /// Reports the check's error. The place of an error within a literal string is found in the file.
    pub(super) fn check<T>(&self, checked: Result<T, Broken>, report: &mut Report<'_>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(broken) => {
                let span = self.span();
                let source = report.source(span.clone());
                let is_literal = source.starts_with('\'') && !source.starts_with("'''");
                let offset = broken.offset.filter(|_| is_literal).map_or(0, |offset| offset + 1);
                report.push(span.start + offset, &self.path, broken.code, broken.message);
                None
            }
        }
    }

    /// Reads a string of 1 to `limit` characters that are not all white space.
    pub(super) fn text(&self, report: &mut Report<'_>, limit: usize) -> Option<String> {
        let Some(text) = self.value.get_ref().as_str() else {
            self.wrong_type(report, "a string");
            return None;
        };
        if text.trim().is_empty() {
            self.report(report, Code::Empty, "an empty text; write something, or leave the key out");
            return None;
        }
        let characters = text.chars().count();
        if characters > limit {
            let message = format!("{characters} characters, at most {limit} are allowed; shorten it");
            self.report(report, Code::TooLong, message);
            return None;
        }
        Some(text.to_owned())
    }

    /// Like [`Node::text`], with an additional check.
    pub(super) fn checked_text(
        &self,
        report: &mut Report<'_>,
        limit: usize,
        check: impl FnOnce(&str) -> Result<(), Broken>,
    ) -> Option<String> {
        let text = self.text(report, limit)?;
        self.check(check(&text), report).map(|()| text)
    }

    pub(super) fn flag(&self, report: &mut Report<'_>) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(report, "true or false");
        }
        flag
    }

    /// Reads a finite number.
    pub(super) fn number(&self, report: &mut Report<'_>) -> Option<f64> {
        let number = match self.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "numbers of a spec file are small; large ones are refused"
            )]
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            _ => {
                self.wrong_type(report, "a number");
                return None;
            }
        };
        let number = number.filter(|number| number.is_finite());
        if number.is_none() {
            self.report(report, Code::OutOfRange, "not a finite number");
        }
        number
    }

    /// Reads a whole number from `least` to `most`.
    pub(super) fn count(&self, report: &mut Report<'_>, least: usize, most: usize) -> Option<usize> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            self.wrong_type(report, "a whole number");
            return None;
        };
        let count = usize::from_str_radix(number.as_str(), number.radix()).ok();
        let count = count.filter(|count| (least..=most).contains(count));
        if count.is_none() {
            self.report(report, Code::OutOfRange, format!("a number from {least} to {most} is allowed"));
        }
        count
    }

    /// Reads a list. More than `limit` items are a single error, and none of them is read.
    pub(super) fn list(&self, report: &mut Report<'_>, limit: usize) -> Option<Vec<Node<'d>>> {
        let Some(items) = self.value.get_ref().as_array() else {
            self.wrong_type(report, "a list");
            return None;
        };
        if items.len() > limit {
            let message = format!(
                "{} items, at most {limit} are allowed; split the spec, or keep the best ones",
                items.len()
            );
            self.report(report, Code::TooMany, message);
            return None;
        }
        let node = |(index, item)| Node::new(item, format!("{}[{index}]", self.path));
        Some(items.iter().enumerate().map(node).collect())
    }

    /// Reads a list of texts that pass `check`. Invalid ones are reported and left out.
    pub(super) fn texts(
        &self,
        report: &mut Report<'_>,
        items: usize,
        characters: usize,
        check: impl Fn(&str) -> Result<(), Broken>,
    ) -> Vec<String> {
        let nodes = self.list(report, items).unwrap_or_default();
        nodes.iter().filter_map(|node| node.checked_text(report, characters, &check)).collect()
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(super) fn table(&self, report: &mut Report<'_>) -> Option<Table<'d>> {
        let Some(table) = self.value.get_ref().as_table() else {
            self.wrong_type(report, "a table");
            return None;
        };
        Some(Table { table, start: self.span().start, path: self.path.clone(), known: Vec::new() })
    }

    /// Reads a table with languages as keys. Undeclared languages are reported.
    pub(super) fn by_language<T>(
        &self,
        report: &mut Report<'_>,
        languages: Option<&[Language]>,
        mut read: impl FnMut(&Node<'d>, &mut Report<'_>) -> Option<T>,
    ) -> BTreeMap<Language, T> {
        let mut texts = BTreeMap::new();
        let Some(table) = self.table(report) else { return texts };
        for (key, value) in table.table {
            let language: &str = key.get_ref();
            let node = Node::new(value, join(&self.path, language));
            let checked = check::language(language)
                .and_then(|()| languages.map_or(Ok(()), |languages| check::declared(language, languages)));
            if let Err(broken) = checked {
                report.push(key.span().start, &node.path, broken.code, broken.message);
            }
            if let Some(read) = read(&node, report) {
                texts.insert(language.to_owned(), read);
            }
        }
        texts
    }

    /// Reads the value as JSON, and checks its strings as templates.
    pub(super) fn json(&self, report: &mut Report<'_>) -> Option<Value> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                self.check(check::template(text), report)?;
                Some(Value::String(text.clone().into_owned()))
            }
            DeValue::Boolean(flag) => Some(Value::Bool(*flag)),
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
                if number.is_none() {
                    self.report(report, Code::OutOfRange, "a whole number beyond 64 bits");
                }
                number.map(Value::from)
            }
            DeValue::Float(_) => self.number(report).and_then(Number::from_f64).map(Value::Number),
            DeValue::Datetime(time) => Some(Value::String(time.to_string())),
            DeValue::Array(items) => {
                let node = |(index, item)| Node::new(item, format!("{}[{index}]", self.path));
                let items: Vec<Node<'d>> = items.iter().enumerate().map(node).collect();
                Some(items.iter().filter_map(|item| item.json(report)).collect())
            }
            DeValue::Table(table) => {
                let mut object = Map::new();
                for (key, value) in table {
                    let node = Node::new(value, join(&self.path, key.get_ref()));
                    if let Some(value) = node.json(report) {
                        object.insert(key.get_ref().clone().into_owned(), value);
                    }
                }
                Some(Value::Object(object))
            }
        }
    }
}

/// A table whose known keys are taken one by one. Keys that nobody took are unknown.
#[derive(Debug)]
pub(super) struct Table<'d> {
    table: &'d DeTable<'d>,
    start: usize,
    path: String,
    known: Vec<&'static str>,
}

impl<'d> Table<'d> {
    pub(super) fn root(table: &'d DeTable<'d>) -> Self {
        Self { table, start: 0, path: String::new(), known: Vec::new() }
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Node<'d>> {
        self.known.push(key);
        let (_, value) = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some(Node::new(value, join(&self.path, key)))
    }

    /// Like [`Table::take`]. A missing key is reported, with `hint` for its value.
    pub(super) fn require(
        &mut self,
        report: &mut Report<'_>,
        key: &'static str,
        hint: &str,
    ) -> Option<Node<'d>> {
        let node = self.take(key);
        if node.is_none() {
            let path = join(&self.path, key);
            report.push(self.start, &path, Code::MissingKey, format!("`{key}` is missing; add {hint}"));
        }
        node
    }

    /// Reports the keys that nobody took.
    pub(super) fn finish(self, report: &mut Report<'_>) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            if report.is_full() {
                report.push(key.span().start, "", Code::UnknownKey, "");
                continue;
            }
            let hint = check::did_you_mean(name, self.known.iter().copied());
            let hint = if hint.is_empty() { format!("; there are: {}", self.known.join(", ")) } else { hint };
            let shown: String = name.chars().take(check::limit::NAME).collect();
            let message = format!("there is no key `{shown}` here{hint}");
            report.push(key.span().start, &join(&self.path, &shown), Code::UnknownKey, message);
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
