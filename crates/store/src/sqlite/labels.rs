//! Labels as one column: pairs of texts, each text preceded by its length in four little-endian bytes.

use std::collections::BTreeMap;

/// Encodes labels; `None` for no labels, so that the column takes no space.
pub(super) fn encode(labels: &BTreeMap<String, String>) -> Option<Vec<u8>> {
    if labels.is_empty() {
        return None;
    }
    let mut column = Vec::new();
    for text in labels.iter().flat_map(|(key, value)| [key, value]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        column.extend_from_slice(&length.to_le_bytes());
        column.extend_from_slice(text.as_bytes());
    }
    Some(column)
}

/// Decodes labels; `None` if the column is damaged.
pub(super) fn decode(mut column: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !column.is_empty() {
        let key = text(&mut column)?;
        let value = text(&mut column)?;
        labels.insert(key, value);
    }
    Some(labels)
}

fn text(column: &mut &[u8]) -> Option<String> {
    let (length, rest) = column.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *column = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)]) {
        let labels: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let column = encode(&labels).unwrap_or_default();
        assert_eq!(decode(&column), Some(labels));
        for end in 1..column.len() {
            // Decoding never panics. It succeeds only if the cut is between two pairs.
            let _ = decode(&column[..end]);
        }
    }

    #[test]
    fn labels_survive_their_column() {
        check(&[]);
        check(&[("", "")]);
        check(&[("team", "núcleo"), ("tier", ""), ("z\0", "\0")]);
        assert_eq!(decode(&[9, 0, 0, 0, 1]), None);
    }
}
