//! Keys by their names, as the DSL's `press` has them: `Enter`, `a`, `Control+A`, `Shift+Tab`.

/// Keys that are named: the name, the code of the key on a keyboard, and its number.
const NAMED: [(&str, &str, u16); 33] = [
    ("Enter", "Enter", 13),
    ("Tab", "Tab", 9),
    ("Escape", "Escape", 27),
    ("Backspace", "Backspace", 8),
    ("Delete", "Delete", 46),
    ("Insert", "Insert", 45),
    ("Space", "Space", 32),
    ("Home", "Home", 36),
    ("End", "End", 35),
    ("PageUp", "PageUp", 33),
    ("PageDown", "PageDown", 34),
    ("ArrowLeft", "ArrowLeft", 37),
    ("ArrowUp", "ArrowUp", 38),
    ("ArrowRight", "ArrowRight", 39),
    ("ArrowDown", "ArrowDown", 40),
    ("ContextMenu", "ContextMenu", 93),
    ("F1", "F1", 112),
    ("F2", "F2", 113),
    ("F3", "F3", 114),
    ("F4", "F4", 115),
    ("F5", "F5", 116),
    ("F6", "F6", 117),
    ("F7", "F7", 118),
    ("F8", "F8", 119),
    ("F9", "F9", 120),
    ("F10", "F10", 121),
    ("F11", "F11", 122),
    ("F12", "F12", 123),
    ("CapsLock", "CapsLock", 20),
    ("NumLock", "NumLock", 144),
    ("ScrollLock", "ScrollLock", 145),
    ("Pause", "Pause", 19),
    ("PrintScreen", "PrintScreen", 44),
];

/// Characters of a keyboard of the United States that are neither letters nor digits: without and with Shift, the code, the
/// number.
const SIGNS: [(char, char, &str, u16); 21] = [
    ('`', '~', "Backquote", 192),
    ('-', '_', "Minus", 189),
    ('=', '+', "Equal", 187),
    ('[', '{', "BracketLeft", 219),
    (']', '}', "BracketRight", 221),
    ('\\', '|', "Backslash", 220),
    (';', ':', "Semicolon", 186),
    ('\'', '"', "Quote", 222),
    (',', '<', "Comma", 188),
    ('.', '>', "Period", 190),
    ('/', '?', "Slash", 191),
    ('1', '!', "Digit1", 49),
    ('2', '@', "Digit2", 50),
    ('3', '#', "Digit3", 51),
    ('4', '$', "Digit4", 52),
    ('5', '%', "Digit5", 53),
    ('6', '^', "Digit6", 54),
    ('7', '&', "Digit7", 55),
    ('8', '*', "Digit8", 56),
    ('9', '(', "Digit9", 57),
    ('0', ')', "Digit0", 48),
];

/// A key that is held while another one is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifier {
    Alt,
    Control,
    Meta,
    Shift,
}

impl Modifier {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "Alt" => Some(Self::Alt),
            "Control" => Some(Self::Control),
            "Meta" => Some(Self::Meta),
            "Shift" => Some(Self::Shift),
            _ => None,
        }
    }

    /// The key's bit in the protocol's set of modifiers.
    pub(crate) fn bit(self) -> u8 {
        match self {
            Self::Alt => 1,
            Self::Control => 2,
            Self::Meta => 4,
            Self::Shift => 8,
        }
    }

    /// The left one of the two on a keyboard.
    pub(crate) fn stroke(self) -> Stroke {
        let (key, code, number) = match self {
            Self::Alt => ("Alt", "AltLeft", 18),
            Self::Control => ("Control", "ControlLeft", 17),
            Self::Meta => ("Meta", "MetaLeft", 91),
            Self::Shift => ("Shift", "ShiftLeft", 16),
        };
        Stroke { key: key.to_owned(), code, number, text: None, location: 1 }
    }
}

/// One key as a page hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stroke {
    pub(crate) key: String,
    pub(crate) code: &'static str,
    pub(crate) number: u16,
    /// What it types.
    pub(crate) text: Option<String>,
    pub(crate) location: u8,
}

/// A key with the modifiers that are held meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chord {
    pub(crate) modifiers: Vec<Modifier>,
    pub(crate) stroke: Stroke,
}

impl Chord {
    /// Reads a key, or modifiers and a key with `+` between them. `None` if there is no such key.
    ///
    /// ```
    /// # use capataz_executor::keys::Chord;
    /// assert!(Chord::parse("Control+Shift+ArrowLeft").is_some());
    /// assert!(Chord::parse("Control++").is_some());
    /// assert!(Chord::parse("Return").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = Vec::new();
        let mut rest = text;
        // The key itself may be `+`.
        while let Some((name, after)) = rest.split_once('+').filter(|(name, _)| !name.is_empty()) {
            let modifier = Modifier::parse(name)?;
            if modifiers.contains(&modifier) {
                return None;
            }
            modifiers.push(modifier);
            rest = after;
        }
        if let Some(modifier) = Modifier::parse(rest) {
            return (!modifiers.contains(&modifier)).then(|| Self { modifiers, stroke: modifier.stroke() });
        }
        let mut stroke = stroke(rest, modifiers.contains(&Modifier::Shift))?;
        // With these a key is a command and types nothing.
        if modifiers.iter().any(|modifier| *modifier != Modifier::Shift) {
            stroke.text = None;
        }
        Some(Self { modifiers, stroke })
    }
}

fn stroke(name: &str, shift: bool) -> Option<Stroke> {
    if let Some((name, code, number)) = NAMED.iter().find(|(named, ..)| *named == name) {
        let (key, text) = match *name {
            "Enter" => ("Enter", Some("\r")),
            "Space" => (" ", Some(" ")),
            name => (name, None),
        };
        let text = text.map(str::to_owned);
        return Some(Stroke { key: key.to_owned(), code, number: *number, text, location: 0 });
    }
    let mut characters = name.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return None };
    let (typed, code, number) = character_key(character, shift)?;
    Some(Stroke { key: typed.to_string(), code, number, text: Some(typed.to_string()), location: 0 })
}

/// What a character's key types, with Shift or without, its code and number. A character that no key of the keyboard has is
/// typed all the same.
fn character_key(character: char, shift: bool) -> Option<(char, &'static str, u16)> {
    if character.is_control() {
        return None;
    }
    if character == ' ' {
        return Some((' ', "Space", 32));
    }
    if character.is_ascii_alphabetic() {
        let upper = character.to_ascii_uppercase();
        let typed = if shift { upper } else { character };
        return Some((typed, LETTERS.get(usize::from(upper as u8 - b'A'))?, u16::from(upper as u8)));
    }
    for (plain, shifted, code, number) in SIGNS {
        if character == plain || character == shifted {
            let typed = if shift { shifted } else { character };
            return Some((typed, code, number));
        }
    }
    Some((character, "", 0))
}

const LETTERS: [&str; 26] = [
    "KeyA", "KeyB", "KeyC", "KeyD", "KeyE", "KeyF", "KeyG", "KeyH", "KeyI", "KeyJ", "KeyK", "KeyL", "KeyM",
    "KeyN", "KeyO", "KeyP", "KeyQ", "KeyR", "KeyS", "KeyT", "KeyU", "KeyV", "KeyW", "KeyX", "KeyY", "KeyZ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, modifiers: &[Modifier], key: &str, code: &str, typed: Option<&str>) {
        let chord = Chord::parse(text).unwrap();
        assert_eq!(chord.modifiers, modifiers, "{text}");
        let stroke = chord.stroke;
        assert_eq!((stroke.key.as_str(), stroke.code, stroke.text.as_deref()), (key, code, typed), "{text}");
    }

    #[test]
    fn keys_are_read_by_name_and_by_character() {
        check("Enter", &[], "Enter", "Enter", Some("\r"));
        check("Escape", &[], "Escape", "Escape", None);
        check("a", &[], "a", "KeyA", Some("a"));
        check("A", &[], "A", "KeyA", Some("A"));
        check("7", &[], "7", "Digit7", Some("7"));
        check("?", &[], "?", "Slash", Some("?"));
        check("Space", &[], " ", "Space", Some(" "));
        check("ñ", &[], "ñ", "", Some("ñ"));
        check("Shift", &[], "Shift", "ShiftLeft", None);
    }

    #[test]
    fn modifiers_are_held() {
        use Modifier::{Control, Shift};
        check("Control+A", &[Control], "A", "KeyA", None);
        check("Shift+a", &[Shift], "A", "KeyA", Some("A"));
        check("Shift+1", &[Shift], "!", "Digit1", Some("!"));
        check("Control+Shift+Tab", &[Control, Shift], "Tab", "Tab", None);
        check("Control++", &[Control], "+", "Equal", None);
        check("+", &[], "+", "Equal", Some("+"));
    }

    #[test]
    fn what_is_no_key_is_nothing() {
        for text in [
            "",
            "Return",
            "enter",
            "ab",
            "Control+",
            "Control+Control+a",
            "Hyper+a",
            "a+b",
            "\n",
            "Shift+Shift",
        ] {
            assert_eq!(Chord::parse(text), None, "{text:?}");
        }
    }
}
