//! Folding: reduces a text to its words, regardless of how it was typed.
//!
//! A folded text is lower-case, has neither accents nor punctuation, and has one space in place of anything between two
//! words. The same text in NFC and NFD folds to the same bytes. Every token knows its place in the original.
//!
//! Only the first [`LONGEST_TEXT`] bytes and the first [`MOST_TOKENS`] tokens are read, so that the work for one text
//! is bounded. A person's messages are far shorter.

mod characters;
mod stem;

pub use stem::stem_hash;

use characters::{Class, classify, fold_latin};

/// The number of bytes of the original that are read. A text is cut at the last whole character before this limit.
pub const LONGEST_TEXT: usize = 16 * 1024;

/// The number of tokens that are read.
pub const MOST_TOKENS: usize = 1024;

/// One word, one ideograph, or one emoji.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The place in the folded text, in bytes.
    pub start: usize,
    pub end: usize,
    /// The place in the original, in bytes.
    pub source_start: usize,
    pub source_end: usize,
}

/// A folded text and its tokens, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    text: String,
    tokens: Vec<Token>,
}

impl Folded {
    #[must_use]
    pub fn new(original: &str) -> Self {
        let mut folded = Self::default();
        folded.refill(original);
        folded
    }

    /// Folds another text in the same memory.
    pub fn refill(&mut self, original: &str) {
        self.text.clear();
        self.tokens.clear();
        let mut folder = Folder { folded: self, open: false, gap: false };
        let original = beginning(original);
        let bytes = original.as_bytes();
        let mut place = 0;
        while let Some(&byte) = bytes.get(place) {
            if folder.folded.tokens.len() >= MOST_TOKENS && !folder.open {
                break;
            }
            // Most text is ASCII, which needs no tables.
            if byte.is_ascii() {
                folder.ascii(byte, place);
                place += 1;
                continue;
            }
            let Some(character) = original.get(place..).and_then(|rest| rest.chars().next()) else { break };
            folder.character(character, place);
            place += character.len_utf8();
        }
        self.tokens.truncate(MOST_TOKENS);
        let end = self.tokens.last().map_or(0, |token| token.end);
        self.text.truncate(end);
    }

    /// The folded text, against which the regular expressions of patterns are matched.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The folded bytes of one token.
    #[must_use]
    pub fn word(&self, token: &Token) -> &str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }
}

/// The beginning of a text that is read.
fn beginning(original: &str) -> &str {
    original.get(..original.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default()
}

struct Folder<'a> {
    folded: &'a mut Folded,
    /// True while the last token may still grow.
    open: bool,
    /// True when something stood between the last token and the current place.
    gap: bool,
}

impl Folder<'_> {
    fn ascii(&mut self, byte: u8, place: usize) {
        if byte.is_ascii_alphanumeric() {
            self.letter(char::from(byte.to_ascii_lowercase()), place, place + 1);
        } else if byte != b'\'' {
            self.separate();
        }
    }

    fn character(&mut self, character: char, place: usize) {
        let end = place + character.len_utf8();
        if let Some(letter) = fold_latin(character) {
            self.letter(letter, place, end);
            return;
        }
        unicode_normalization::char::decompose_compatible(character, |part| match classify(part) {
            Class::Letter => {
                // Converting to upper case and back unifies letters such as ß and ss, ς and σ, ı and i.
                for upper in part.to_uppercase() {
                    for lower in upper.to_lowercase() {
                        if classify(lower) == Class::Letter {
                            self.letter(lower, place, end);
                        }
                    }
                }
            }
            Class::Alone => {
                self.open = false;
                self.letter(part, place, end);
                self.open = false;
            }
            Class::Mark => self.extend(place, end),
            Class::Voiced => self.voice(part, end),
            Class::Nothing => {}
            Class::Separator => self.separate(),
        });
    }

    fn letter(&mut self, letter: char, source_start: usize, source_end: usize) {
        if !self.open {
            if self.gap && !self.folded.tokens.is_empty() {
                self.folded.text.push(' ');
            }
            let start = self.folded.text.len();
            self.folded.tokens.push(Token { start, end: start, source_start, source_end });
            self.open = true;
            self.gap = false;
        }
        self.folded.text.push(letter);
        let end = self.folded.text.len();
        if let Some(token) = self.folded.tokens.last_mut() {
            token.end = end;
            token.source_end = source_end;
        }
    }

    /// Extends the last token by a mark that folding removes, because the mark belongs to the word as written.
    fn extend(&mut self, source_start: usize, source_end: usize) {
        if let Some(token) = self.folded.tokens.last_mut()
            && token.source_end == source_start
        {
            token.source_end = source_end;
        }
    }

    /// Adds a sound mark of kana, which distinguishes words and is therefore kept.
    fn voice(&mut self, mark: char, source_end: usize) {
        if self.gap {
            return;
        }
        if let Some(token) = self.folded.tokens.last_mut() {
            self.folded.text.push(mark);
            token.end = self.folded.text.len();
            token.source_end = token.source_end.max(source_end);
        }
    }

    fn separate(&mut self) {
        self.open = false;
        self.gap = true;
    }
}

#[cfg(test)]
mod tests;
