//! A pattern of ECMA-262 in the engine's words.
//!
//! Everything that the engine would read is written here, so that nothing keeps a meaning that only the engine gives it:
//! flags, operators between classes, anchors of its own. What ECMA-262 has no meaning for is refused.

use std::iter::Peekable;
use std::str::Chars;

/// The digits, as ranges within brackets.
const DIGITS: &str = "0-9";
/// The characters of words.
const WORD: &str = "0-9A-Za-z_";
/// White space and ends of lines; the engine's own has U+0085 and lacks U+FEFF.
const SPACE: &str = r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
/// All but ends of lines, of which the engine knows one.
const ANY: &str = r"[^\n\r\x{2028}\x{2029}]";

/// The same expression in the engine's words.
///
/// # Errors
/// The part of the text that is not a pattern.
pub(super) fn translated(text: &str) -> Result<String, String> {
    let mut translation = Translation { rest: text.chars().peekable(), translated: String::new() };
    while let Some(character) = translation.rest.next() {
        translation.one(character)?;
    }
    Ok(translation.translated)
}

struct Translation<'t> {
    rest: Peekable<Chars<'t>>,
    translated: String,
}

/// What stands for characters.
enum Atom {
    One(char),
    /// A class, as what stands for it within brackets.
    Class(String),
}

impl Translation<'_> {
    fn one(&mut self, character: char) -> Result<(), String> {
        match character {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            '{' => self.repetition()?,
            '.' => self.translated.push_str(ANY),
            ')' | '|' | '*' | '+' | '?' | '^' | '$' => self.translated.push(character),
            other => self.literal(other),
        }
        Ok(())
    }

    /// A character that means itself.
    fn literal(&mut self, character: char) {
        if character.is_ascii_alphanumeric() || !character.is_ascii() {
            self.translated.push(character);
        } else {
            self.translated.push_str(&format!("\\x{{{:X}}}", u32::from(character)));
        }
    }

    /// An escape outside of brackets.
    fn escape(&mut self) -> Result<(), String> {
        // Only ASCII words have boundaries.
        match self.rest.peek() {
            Some('b') => self.translated.push_str("(?-u:\\b)"),
            Some('B') => self.translated.push_str("(?-u:\\B)"),
            _ => {
                match self.escaped()? {
                    Atom::One(character) => self.literal(character),
                    Atom::Class(class) => self.translated.push_str(&format!("[{class}]")),
                }
                return Ok(());
            }
        }
        self.rest.next();
        Ok(())
    }

    /// What an escape stands for, wherever it is.
    fn escaped(&mut self) -> Result<Atom, String> {
        let Some(character) = self.rest.next() else {
            return Err("a backslash in front of nothing".to_owned());
        };
        Ok(match character {
            'd' => Atom::Class(DIGITS.to_owned()),
            'D' => Atom::Class(format!("[^{DIGITS}]")),
            'w' => Atom::Class(WORD.to_owned()),
            'W' => Atom::Class(format!("[^{WORD}]")),
            's' => Atom::Class(SPACE.to_owned()),
            'S' => Atom::Class(format!("[^{SPACE}]")),
            'p' | 'P' => Atom::Class(format!("\\{character}{{{}}}", self.property()?)),
            't' => Atom::One('\t'),
            'n' => Atom::One('\n'),
            'v' => Atom::One('\x0B'),
            'f' => Atom::One('\x0C'),
            'r' => Atom::One('\r'),
            'x' => self.hexadecimal(2)?,
            'u' if self.rest.next_if_eq(&'{').is_some() => {
                let digits = self.taken(|next| next.is_ascii_hexdigit());
                self.closed("\\u{", &digits)?;
                by_code(&digits)?
            }
            'u' => self.hexadecimal(4)?,
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => Atom::One('\0'),
            '0'..='9' | 'k' => return Err("a back-reference".to_owned()),
            other if other.is_ascii_alphabetic() => return Err(format!("the escape \\{other}")),
            other => Atom::One(other),
        })
    }

    /// The name of a property of characters, in braces.
    fn property(&mut self) -> Result<String, String> {
        if self.rest.next_if_eq(&'{').is_none() {
            return Err("\\p without braces".to_owned());
        }
        let name = self.taken(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '='));
        self.closed("\\p{", &name)?;
        Ok(name)
    }

    fn hexadecimal(&mut self, count: usize) -> Result<Atom, String> {
        let mut digits = String::new();
        for _ in 0..count {
            digits.extend(self.rest.next_if(char::is_ascii_hexdigit));
        }
        if digits.len() < count {
            return Err(format!("an escape that lacks hexadecimal digits, of which there are {count}"));
        }
        by_code(&digits)
    }

    fn taken(&mut self, is_taken: impl Fn(&char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(character) = self.rest.next_if(&is_taken) {
            taken.push(character);
        }
        taken
    }

    fn closed(&mut self, opening: &str, within: &str) -> Result<(), String> {
        match self.rest.next_if_eq(&'}') {
            Some(_) if !within.is_empty() => Ok(()),
            _ => Err(format!("{opening} that is not closed, or holds what it cannot")),
        }
    }

    /// Brackets, behind the opening one.
    fn class(&mut self) -> Result<(), String> {
        self.translated.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.translated.push('^');
        }
        // One class of ECMA-262 is in no text and the other one in each; the engine would read on.
        if self.rest.peek() == Some(&']') {
            return Err("brackets around nothing".to_owned());
        }
        while self.rest.next_if_eq(&']').is_none() {
            let first = self.member()?;
            if self.rest.next_if_eq(&'-').is_none() {
                self.push_member(first);
                continue;
            }
            if self.rest.peek() == Some(&']') {
                self.push_member(first);
                self.literal('-');
                continue;
            }
            match (first, self.member()?) {
                (Atom::One(first), Atom::One(last)) => {
                    self.literal(first);
                    self.translated.push('-');
                    self.literal(last);
                }
                // A class begins and ends no range: the dash means itself.
                (first, last) => {
                    self.push_member(first);
                    self.literal('-');
                    self.push_member(last);
                }
            }
        }
        self.translated.push(']');
        Ok(())
    }

    fn member(&mut self) -> Result<Atom, String> {
        match self.rest.next() {
            None => Err("brackets that are not closed".to_owned()),
            Some('\\') if self.rest.next_if_eq(&'b').is_some() => Ok(Atom::One('\x08')),
            Some('\\') => self.escaped(),
            Some(other) => Ok(Atom::One(other)),
        }
    }

    fn push_member(&mut self, member: Atom) {
        match member {
            Atom::One(character) => self.literal(character),
            Atom::Class(class) => self.translated.push_str(&class),
        }
    }

    /// A group, behind its opening parenthesis. The engine knows more kinds, among them those that set flags.
    fn group(&mut self) -> Result<(), String> {
        self.translated.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        if self.rest.next_if_eq(&':').is_some() {
            self.translated.push_str("?:");
            return Ok(());
        }
        if self.rest.next_if_eq(&'<').is_some() {
            let name = self.taken(|next| next.is_ascii_alphanumeric() || *next == '_');
            if !name.is_empty() && self.rest.next_if_eq(&'>').is_some() {
                self.translated.push_str(&format!("?<{name}>"));
                return Ok(());
            }
        }
        Err("a group that is neither (…), (?:…) nor (?<name>…)".to_owned())
    }

    /// How often something is there, behind the opening brace. The engine would allow spaces, and a missing minimum.
    fn repetition(&mut self) -> Result<(), String> {
        let mut repetition = self.taken(char::is_ascii_digit);
        let has_minimum = !repetition.is_empty();
        if self.rest.next_if_eq(&',').is_some() {
            repetition.push(',');
            repetition.push_str(&self.taken(char::is_ascii_digit));
        }
        if !has_minimum || self.rest.next_if_eq(&'}').is_none() {
            return Err("a brace that is neither {2}, {2,} nor {2,3}".to_owned());
        }
        self.translated.push_str(&format!("{{{repetition}}}"));
        Ok(())
    }
}

fn by_code(digits: &str) -> Result<Atom, String> {
    let character = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    character.map(Atom::One).ok_or_else(|| format!("U+{digits}, which is no character"))
}
