//! What the spec contract promises: documents of both kinds, each rule, versions, and that nothing read is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod answers;
mod corruptions;
mod documents;
mod excerpts;
mod identity;
mod versions;

use std::path::{Path, PathBuf};

use capataz_contracts::{Violation, json, spec};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
}

impl Kind {
    /// Reads the document and prints it again.
    fn print_again(self, document: &[u8]) -> Result<Value, Vec<Violation>> {
        match self {
            Self::Request => {
                spec::parse_request(document).map(|request| json::print("capataz.v1.SpecRequest", &request))
            }
            Self::Response => spec::parse_response(document)
                .map(|response| json::print("capataz.v1.SpecResponse", &response)),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// `path rule`, for tables.
fn in_short(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(|violation| format!("{} {}", violation.path, violation.rule)).collect()
}

/// Reads the document; expects the violations as `path rule`.
#[track_caller]
fn check(kind: Kind, document: &Value, expected: &[&str]) {
    check_text(kind, &document.to_string(), expected);
}

#[track_caller]
fn check_text(kind: Kind, document: &str, expected: &[&str]) {
    let violations = kind.print_again(document.as_bytes()).err().unwrap_or_default();
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/spec")
}

/// The fixture of this name, such as `full`.
fn fixture(name: &str, kind: Kind) -> Value {
    let path = fixtures().join(format!("{name}.{}.json", kind.word()));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The document with the value at the pointer replaced, or added.
#[track_caller]
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => other[key] = value,
    }
    document
}

/// The document without the value at the pointer, which must be there.
#[track_caller]
fn without(mut document: Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
    document
}
