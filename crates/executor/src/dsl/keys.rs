//! Keys as the DSL writes them: `Enter`, `a`, `Control+A`, `Control++`.

/// Keys that have a name; every other key is one printable character.
pub const NAMED_KEYS: [&str; 27] = [
    "Enter",
    "Tab",
    "Escape",
    "Space",
    "Backspace",
    "Delete",
    "Insert",
    "Home",
    "End",
    "PageUp",
    "PageDown",
    "ArrowUp",
    "ArrowDown",
    "ArrowLeft",
    "ArrowRight",
    "F1",
    "F2",
    "F3",
    "F4",
    "F5",
    "F6",
    "F7",
    "F8",
    "F9",
    "F10",
    "F11",
    "F12",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifier {
    Alt,
    Control,
    Meta,
    Shift,
}

/// A key with the modifiers that are held while it is pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPress<'a> {
    /// Each at most once, in the order in which they are written.
    pub modifiers: Vec<Modifier>,
    /// One of [`NAMED_KEYS`], or one printable character.
    pub key: &'a str,
}

impl<'a> KeyPress<'a> {
    /// Reads a key. `None` where it is none that is known, or a modifier is written twice.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut modifiers = Vec::new();
        let mut rest = text;
        // A `+` at the end is the key itself.
        while let Some((before, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
            let modifier = match before {
                "Alt" => Modifier::Alt,
                "Control" => Modifier::Control,
                "Meta" => Modifier::Meta,
                "Shift" => Modifier::Shift,
                _ => return None,
            };
            if modifiers.contains(&modifier) {
                return None;
            }
            modifiers.push(modifier);
            rest = after;
        }
        let mut characters = rest.chars();
        let is_character = matches!(
            (characters.next(), characters.next()),
            (Some(one), None) if !one.is_control() && !one.is_whitespace()
        );
        (is_character || NAMED_KEYS.contains(&rest)).then_some(Self { modifiers, key: rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&[Modifier], &str)>) {
        let read = KeyPress::parse(text);
        assert_eq!(read.as_ref().map(|press| (press.modifiers.as_slice(), press.key)), expected, "{text}");
    }

    #[test]
    fn a_key_is_named_or_one_character_with_modifiers_before_it() {
        check("Enter", Some((&[], "Enter")));
        check("a", Some((&[], "a")));
        check("ñ", Some((&[], "ñ")));
        check("+", Some((&[], "+")));
        check("Control+A", Some((&[Modifier::Control], "A")));
        check("Control++", Some((&[Modifier::Control], "+")));
        check("Control+Shift+ArrowLeft", Some((&[Modifier::Control, Modifier::Shift], "ArrowLeft")));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in
            ["", "enter", "ab", " ", "\n", "Control+", "Ctrl+A", "Control+Control+A", "A+Control", "Shift"]
        {
            check(text, None);
        }
    }
}
