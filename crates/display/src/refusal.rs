//! The daemon's refusal of a call as an error of the contract: its parts come as metadata of its code.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_policy::codes;

use crate::words::messages;

/// What is wrong at one place of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    pub message: String,
    /// Empty where the code of the refusal is that of the violation.
    pub code: String,
}

/// The error of a refusal with what is wrong in the request; a single violation is the error itself. In a list a violation has
/// its code in front, or else its path.
#[must_use]
pub fn refusal(
    code: &str,
    message: &str,
    metadata: &BTreeMap<String, String>,
    violations: &[Violation],
) -> v1::Error {
    let listed = |key: &str| {
        let text = metadata.get(key).map(String::as_str).unwrap_or_default();
        text.split(", ").filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let severity = metadata
        .get("severity")
        .and_then(|name| v1::Severity::from_str_name(&format!("SEVERITY_{name}")))
        .unwrap_or_default();
    let details = match violations {
        [] | [_] => Vec::new(),
        several => several
            .iter()
            .map(|violation| v1::Error {
                code: if violation.code.is_empty() { &violation.path } else { &violation.code }.clone(),
                message: violation.message.clone(),
                ..v1::Error::default()
            })
            .collect(),
    };
    v1::Error {
        code: code.to_owned(),
        message: message.to_owned(),
        severity: severity as i32,
        suggestions: listed("suggestions"),
        options: listed("options"),
        suggested_action: metadata.get("suggested_action").or(metadata.get("advice")).cloned(),
        reason: metadata.get("reason").cloned(),
        details,
        ..v1::Error::default()
    }
}

/// The refusal with its messages in the language in use, for people.
#[must_use]
pub fn in_words(mut refusal: v1::Error) -> v1::Error {
    refusal.message = messages::refusal(&refusal.message).into_owned();
    // An error of a spec file has its key in front.
    let is_placed = refusal.code == codes::SPEC_FILE_INVALID.as_str();
    let tell = if is_placed { messages::placed_refusal } else { messages::refusal };
    for detail in &mut refusal.details {
        detail.message = tell(&detail.message).into_owned();
    }
    refusal
}
