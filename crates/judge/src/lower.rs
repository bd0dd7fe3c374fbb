//! Enums that a schema marks with `x-lowercase`: values of them that are written in another case are rewritten, and every
//! other byte stays as it is.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::JUDGED_MAX;
use crate::evaluate::{Evaluation, address};
use crate::schema::{Schema, read};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Schema {
    /// The text of a JSON value with the texts in lower case that the schema marks with `x-lowercase` and that are one of
    /// the allowed values then. All other bytes are those that were given. `None` where nothing is to be rewritten, and
    /// where the text cannot be judged.
    ///
    /// Of several forms (`anyOf`, `oneOf`, `if`), those count that the value has.
    #[must_use]
    pub fn lowered(&self, text: &[u8]) -> Option<Vec<u8>> {
        if !self.lowers {
            return None;
        }
        let value = read(text, JUDGED_MAX).ok()?;
        let marked = Evaluation::new(self).texts_to_lower(&value);
        if marked.is_empty() {
            return None;
        }
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut copy = Copy { text, at: start, copied: 0, out: Vec::with_capacity(text.len()), marked };
        copy.value(&value)?;
        copy.out.extend_from_slice(text.get(copy.copied..)?);
        Some(copy.out)
    }
}

/// A copy of a text while its value is walked in the order of the text. `None` from a step means that the text is not that
/// of the value, which cannot be, because the value was read from it.
struct Copy<'t> {
    text: &'t [u8],
    at: usize,
    /// How much of the text is in the copy.
    copied: usize,
    out: Vec<u8>,
    /// The addresses of the texts that are rewritten.
    marked: BTreeSet<usize>,
}

impl<'t> Copy<'t> {
    /// Goes over one value. It is no deeper than values may be.
    fn value(&mut self, value: &Value) -> Option<()> {
        self.space();
        match value {
            Value::String(text) => {
                let start = self.at;
                self.string()?;
                if self.marked.contains(&address(value)) {
                    self.out.extend_from_slice(self.text.get(self.copied..start)?);
                    self.out.extend_from_slice(Value::String(text.to_lowercase()).to_string().as_bytes());
                    self.copied = self.at;
                }
            }
            Value::Array(items) => {
                self.expect(b'[')?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.expect(b',')?;
                    }
                    self.value(item)?;
                }
                self.expect(b']')?;
            }
            Value::Object(object) => {
                self.expect(b'{')?;
                for index in 0..object.len() {
                    if index > 0 {
                        self.expect(b',')?;
                    }
                    self.space();
                    let key: String = serde_json::from_slice(self.string()?).ok()?;
                    self.expect(b':')?;
                    self.value(object.get(&key)?)?;
                }
                self.expect(b'}')?;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}') || is_space(*byte);
                let rest = self.text.get(self.at..)?;
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        Some(())
    }

    fn space(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| is_space(**byte)).count();
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// A text with its quotes and escapes.
    fn string(&mut self) -> Option<&'t [u8]> {
        let start = self.at;
        if self.text.get(start) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
