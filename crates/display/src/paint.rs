//! Colours.

/// The meaning of a piece of text, from which its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Warning => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
        }
    }
}

/// Colours text, or leaves it plain where colours are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    pub const OFF: Self = Self { on: false };
    pub const ON: Self = Self { on: true };

    #[must_use]
    pub const fn is_on(self) -> bool {
        self.on
    }

    pub fn text(self, tone: Tone, text: &str) -> String {
        if self.on && tone != Tone::Plain && !text.is_empty() {
            format!("{}{text}\u{1b}[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_wanted() {
        assert_eq!(Paint::OFF.text(Tone::Bad, "x"), "x");
        assert_eq!(Paint::ON.text(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Paint::ON.text(Tone::Plain, "x"), "x");
    }
}
