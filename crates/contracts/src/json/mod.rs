//! The contract's JSON form, strict in both directions and driven by the descriptor of `proto/`.
//!
//! - A field has its proto name, in messages with the option `json_camel_case` its `json_name`; the other one is read as the
//!   same field, but in messages with the option `json_own_names`.
//! - An enum value is its name without the enum's prefix, in the case that the enum declares; any case is read.
//! - 64-bit integers are numbers. Bytes are standard base64. A number that is not finite is `null`.
//! - `null` is an absent field. What has presence is printed where it is set, all else where it is not its default,
//!   or in a message with the option `json_complete` always.
//! - A duration `x_ms` is a number of milliseconds; `x` with a text such as `"1h 30m"` is read too
//!   ([`crate::duration`]).
//! - A field with the option `json_value` is the value whose text it holds; one with `json_rest` stands for keys that the
//!   message does not know; a message with `json_list` is a list.
//! - A payload of media type `application/json` is its value. Others are `{"$media_type", "$base64"}`, or with `$text`
//!   for `text/*`, or with `$blob` for a blob. A JSON payload that would be taken for one of these is printed as
//!   `$text`. A payload without data, and the JSON payload `null`, are `null`.
//!
//! Printing what was parsed gives the same JSON value for every document that this module printed. What the descriptor
//! does not know has no name: unknown fields are left out, and an unknown enum value is its number, which is not read
//! back.

mod differences;
mod elsewhere;
mod payload;
mod print;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod well_formed;
mod well_known;

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;

pub use differences::{Difference, differences};
pub(crate) use payload::{BLOB, MEDIA_TYPE};
pub use payload::{JSON_MEDIA_TYPE, depth_is_within, is_json};
pub use text::{from_slice, from_str};
pub use well_formed::well_formed;

use crate::gaps::Gaps;
use crate::path::Path;
use crate::violation::Violations;
use crate::{FILE_DESCRIPTOR_SET, InPart, Violation};
use read::Reader;
pub(crate) use read::Unknown;
use schema::Schema;
pub(crate) use schema::camel_case;

/// How deep messages, lists and payload values may be nested. No contract of ours comes near it.
pub const MAX_DEPTH: usize = 64;

#[expect(clippy::expect_used, reason = "the descriptor is a constant of this crate, and a test decodes it")]
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the committed descriptor is valid");
    Schema::new(&pool)
});

/// Reads the message `full_name`, for example `capataz.v1.Plan`, that a client sent; `M` is its generated type.
///
/// # Errors
/// All violations of the JSON form, with their paths. Rules: `unknown_key`, `duplicate_key`, `type`, `enum`, `range`,
/// `oneof`, `output_only`, `duration`, `base64`, `payload`, `depth`, and `internal` where `M` is not `full_name`.
pub fn parse<M: Message + Default>(full_name: &str, value: &Value) -> Result<M, Vec<Violation>> {
    parse_in_part(full_name, value).whole()
}

/// Reads as much of the message `full_name` as its violations leave, so that rules can be checked in the same pass. The
/// violations are those of [`parse`]. What has one is absent or has its default; items of lists keep their places. Where
/// there are more violations than are told, nothing of the message is read.
pub fn parse_in_part<M: Message + Default>(full_name: &str, value: &Value) -> InPart<M> {
    parse_in_part_beside(full_name, value, &[])
}

/// As [`parse_in_part`], of a document whose top level may have these keys beside those of the message. Whoever calls has taken
/// them out; they are what may be meant by an unknown key.
pub(crate) fn parse_in_part_beside<M: Message + Default>(
    full_name: &str,
    value: &Value,
    beside: &'static [&'static str],
) -> InPart<M> {
    let (bytes, violations, gaps) = encoded(full_name, value, Unknown::Refused, beside);
    if violations.is_cut() {
        return InPart::new(M::default(), violations, gaps);
    }
    let (message, violations, gaps) = decoded(full_name, bytes, violations, gaps);
    InPart::new(message, violations, gaps)
}

/// As [`parse_in_part`], for whoever has rules that look at one place each.
pub(crate) fn parse_partly<M: Message + Default>(
    full_name: &str,
    value: &Value,
    unknown: Unknown,
) -> (M, Violations) {
    let (bytes, violations, gaps) = encoded(full_name, value, unknown, &[]);
    let (message, violations, _) = decoded(full_name, bytes, violations, gaps);
    (message, violations)
}

fn encoded(
    full_name: &str,
    value: &Value,
    unknown: Unknown,
    beside: &'static [&'static str],
) -> (Vec<u8>, Violations, Gaps) {
    let mut reader = Reader::new(&SCHEMA, full_name, unknown);
    reader.beside = beside;
    let mut bytes = Vec::new();
    match SCHEMA.message(full_name) {
        Some(shape) => reader.message(shape, value, &Path::Root, 0, &mut bytes),
        None => reader.violations.push(&Path::Root, "internal", format!("there is no message {full_name}")),
    }
    let (violations, gaps) = reader.into_parts();
    (bytes, violations, gaps)
}

fn decoded<M: Message + Default>(
    full_name: &str,
    bytes: Vec<u8>,
    mut violations: Violations,
    mut gaps: Gaps,
) -> (M, Violations, Gaps) {
    let message = decode(bytes).unwrap_or_else(|error| {
        let message = format!("the value does not fit {full_name}: {error}");
        violations.push(&Path::Root, "internal", message);
        gaps.add_places_of(&violations);
        M::default()
    });
    (message, violations, gaps)
}

/// Events are decoded from `Bytes`; from another kind of buffer, every message would be compiled once more.
fn decode<M: Message + Default>(bytes: Vec<u8>) -> Result<M, prost::DecodeError> {
    M::decode(bytes::Bytes::from(bytes))
}

/// `message`, whose name is `full_name`, as JSON.
///
/// A name that the descriptor does not have, and a message nested deeper than protobuf can be decoded (100 levels),
/// give `null`; neither comes from the wire.
pub fn print<M: Message>(full_name: &str, message: &M) -> Value {
    print_bytes(full_name, &message.encode_to_vec()).unwrap_or_default()
}

/// The encoded message `full_name` as JSON.
///
/// # Errors
/// The bytes are not such a message, or no message has that name.
pub fn print_bytes(full_name: &str, bytes: &[u8]) -> Result<Value, Violation> {
    let Some(shape) = SCHEMA.message(full_name) else {
        return Err(Violation::new("", "internal", format!("there is no message {full_name}")));
    };
    let message = DynamicMessage::decode(shape.descriptor.clone(), bytes)
        .map_err(|error| Violation::new("", "encoding", format!("not a {full_name}: {error}")))?;
    Ok(print::message(&SCHEMA, shape, &message))
}

/// What a value is, for a message.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
