//! The spec contract 1.0.0 (seed 001): what the router hands to a spec, and what a spec answers.
//!
//! [`parse_request`] and [`parse_response`] read a document, and find everything that is wrong with it in one pass.
//! [`json::print`] prints what was read as the same JSON value: an explicit `null` counts as absent; `""`, 0, `false`,
//! `[]` and `{}` are kept. Numbers are integers of up to 64 bits or doubles; an integer that neither holds is refused.
//!
//! The guide with every rule is `docs/spec-contract.md`. Begin reading with `proto/capataz/v1/spec.proto`.

mod excerpt;
mod integers;
mod parts;
mod requests;
mod responses;

use prost::Message;
use serde_json::Value;

use crate::json::{self, Unknown, depth_is_within};
use crate::path::Path;
use crate::v1;
use crate::version::{ContractVersion, negotiate};
use crate::violation::{Violation, Violations};

pub use excerpt::{TEXT_BYTES, excerpt, excerpt_of_size};
pub(crate) use integers::check as check_integers;
pub use responses::answers;

/// The version of the contract that this crate speaks.
pub const VERSION: ContractVersion = ContractVersion::new(1, 0, 0);

/// The largest document, in bytes of JSON: 1 MiB.
pub const MAX_BYTES: usize = 1024 * 1024;

/// How deep a document is nested at most, its outermost object being the first level.
pub const MAX_DEPTH: usize = json::MAX_DEPTH;

/// The most items of any list that the contract declares: alternatives, keywords, patterns, messages.
pub const MAX_ITEMS: usize = 1_000;

/// The full name of the request's message.
pub const REQUEST: &str = "capataz.v1.SpecRequest";
const RESPONSE: &str = "capataz.v1.SpecResponse";

/// Reads a request and checks it.
///
/// # Errors
/// All violations, with their paths. `size`, `syntax`, `depth` and `INCOMPATIBLE_VERSION` come alone, because nothing
/// else can be said then. Rules of the form: `type`, `range`, `unknown_key`. Rules of the contract: `required`, `empty`,
/// `blank`, `range`, `enum`, `limit`, `semver`.
pub fn parse_request(document: &[u8]) -> Result<v1::SpecRequest, Vec<Violation>> {
    parse(REQUEST, document, requests::check)
}

/// Reads a response and checks it.
///
/// # Errors
/// As [`parse_request`], and the rule `unexpected`: a `response` without success, or an `error` with it.
pub fn parse_response(document: &[u8]) -> Result<v1::SpecResponse, Vec<Violation>> {
    parse(RESPONSE, document, responses::check)
}

fn parse<M: Message + Default>(
    full_name: &str,
    document: &[u8],
    check: fn(&M, &mut Violations),
) -> Result<M, Vec<Violation>> {
    let alone = |violation: Violation| vec![violation];
    check_size(document.len()).map_err(alone)?;
    let value = json::from_slice(document).map_err(alone)?;
    let text = std::str::from_utf8(document).unwrap_or_default();
    check_depth(&value).map_err(alone)?;
    let unknown = unknown_keys(value.get("contract_version")).map_err(alone)?;
    let (message, mut violations) = json::parse_partly(full_name, &value, unknown);
    let mut altered = Violations::default();
    integers::check(text, &Path::Root, &mut altered);
    violations.add_unexplained(altered);
    let mut broken = Violations::default();
    check(&message, &mut broken);
    violations.add_unexplained(broken);
    if violations.is_empty() { Ok(message) } else { Err(violations.into_vec()) }
}

fn check_size(bytes: usize) -> Result<(), Violation> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("the document has {bytes} bytes, at most {MAX_BYTES} are allowed");
    Err(Violation::new("", "size", message))
}

fn check_depth(value: &Value) -> Result<(), Violation> {
    if depth_is_within(value, MAX_DEPTH) {
        return Ok(());
    }
    Err(Violation::new("", "depth", format!("nested deeper than {MAX_DEPTH} levels")))
}

/// What becomes of unknown keys in a document that declares this version. A text that is not a version is reported with
/// the other violations.
fn unknown_keys(declared: Option<&Value>) -> Result<Unknown, Violation> {
    let Some(theirs) = declared.and_then(Value::as_str).and_then(|text| text.parse().ok()) else {
        return Ok(Unknown::Refused);
    };
    negotiate(&VERSION, &theirs).map_err(|violation| violation.under("contract_version"))?;
    Ok(if theirs.may_add_to(&VERSION) { Unknown::Kept } else { Unknown::Refused })
}
