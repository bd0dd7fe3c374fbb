//! What goes into an agent and comes out of it.

use super::plan::output_only;
use crate::json::{BLOB, MEDIA_TYPE, is_json, well_formed};
use crate::path::Path;
use crate::v1;
use crate::v1::payload::Data;
use crate::violation::{Violation, Violations};

/// The most bytes that a payload holds inline; what is larger is a blob (`payload.proto`).
pub const INLINE_MAX: usize = 32 * 1024;

/// Hexadecimal digits of a BLAKE3 hash.
const HASH_DIGITS: usize = 64;

const MEDIA_TYPE_MAX: usize = 256;

/// Checks a payload that holds at most `inline_max` bytes inline. Whether a blob exists is not known here.
pub fn payload(payload: &v1::Payload, inline_max: usize) -> Vec<Violation> {
    let mut violations = Violations::default();
    check(payload, inline_max, &Path::Root, &mut violations);
    violations.into_vec()
}

/// Paths are those of the JSON form, where a payload has no fields of its own but the reserved keys.
pub fn check(payload: &v1::Payload, inline_max: usize, path: &Path<'_>, violations: &mut Violations) {
    let Some(data) = &payload.data else { return };
    media_type(&payload.media_type, path, violations);
    match data {
        Data::Inline(bytes) if bytes.len() > inline_max => {
            let message = format!("{} bytes inline, at most {inline_max}; store it as a blob", bytes.len());
            violations.push(path, "size", message);
        }
        Data::Inline(bytes) if is_json(&payload.media_type) => {
            if let Err(error) = well_formed(bytes) {
                violations.push(path, "payload", format!("not JSON: {error}"));
            }
        }
        Data::Inline(_) => {}
        Data::Blob(blob) => {
            let path = &path.key(BLOB);
            if !is_hash(&blob.blake3) {
                violations.push(&path.key("blake3"), "blob", NO_HASH);
            }
            if blob.answer.is_some() {
                output_only(&path.key("answer"), violations);
            }
        }
    }
}

/// What is wrong with a text that [`is_hash`] refuses.
pub const NO_HASH: &str = "a BLAKE3 hash has 64 lower-case hexadecimal digits";

/// Returns whether the text is a BLAKE3 hash as the contract writes it.
pub fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn media_type(media_type: &str, path: &Path<'_>, violations: &mut Violations) {
    let well_formed = media_type.len() <= MEDIA_TYPE_MAX
        && media_type.split_once('/').is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())
        && !media_type.contains(char::is_control);
    if !well_formed {
        let message = "a media type such as `text/plain` is needed, of at most 256 bytes";
        violations.push(&path.key(MEDIA_TYPE), "media_type", message);
    }
}
