//! What errors of `serde` say, in words of a file.

/// Bytes of a key for which a known one is looked for.
const LONGEST_KEY: usize = 64;

/// The key that is missing, where an error says so.
pub(super) fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// What an error of `serde` says, in words of a file instead of those of Rust; and the key or the value that is probably meant.
pub(super) fn in_words(message: &str) -> (String, Option<String>) {
    if let Some(key) = missing(message) {
        return (format!("the key `{key}` is missing"), None);
    }
    if let Some((key, known)) = of_known(message, "unknown field `") {
        return match nearest(key, &known) {
            Some(meant) => (format!("unknown key; did you mean `{meant}`?"), Some(meant.to_owned())),
            None if known.is_empty() => ("unknown key".to_owned(), None),
            None => (format!("unknown key; known are {}", known.join(", ")), None),
        };
    }
    // What a value is, nobody is told: it may be a secret in the wrong place.
    if let Some((value, known)) = of_known(message, "unknown variant `") {
        return match nearest(value, &known) {
            Some(meant) => (format!("unknown value; did you mean `{meant}`?"), Some(meant.to_owned())),
            None => (format!("unknown value; known are {}", known.join(", ")), None),
        };
    }
    for beginning in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) =
            message.strip_prefix(beginning).and_then(|rest| rest.rsplit_once(", expected "))
        {
            return (format!("here is {}; expected is {}", of_toml(found), of_toml(expected)), None);
        }
    }
    (message.trim_end().replace('\n', "; "), None)
}

/// The key or value that is unknown, and those that are known.
pub(super) fn of_known<'m>(message: &'m str, beginning: &str) -> Option<(&'m str, Vec<&'m str>)> {
    let (unknown, rest) = message.strip_prefix(beginning)?.split_once("`, ")?;
    // Every other part is between backticks.
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// The one of the known that differs least, where it differs by less than half.
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if key.len() > LONGEST_KEY {
        return None;
    }
    let key = key.to_ascii_lowercase();
    let distance = |known: &'k str| (strsim::osa_distance(&key, &known.to_ascii_lowercase()), known);
    let (distance, known) = known.iter().map(|known| distance(known)).min()?;
    (distance * 2 < known.len()).then_some(known)
}

/// A type of Rust as one of TOML, without the value.
fn of_toml(what: &str) -> &str {
    match what {
        "u8" | "u16" | "u32" | "u64" | "usize" | "u128" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "sequence" | "a sequence" => "an array",
        "map" | "a map" => "a table",
        "path string" => "a string",
        _ if what.starts_with("struct ") => "a table",
        _ if what.starts_with("string \"") => "a string",
        _ if what.starts_with("boolean `") => "a boolean",
        _ if what.starts_with("integer `") || what.starts_with("floating point `") => "a number",
        _ => what,
    }
}
