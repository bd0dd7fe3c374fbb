//! Ordinary language, in English and Spanish: greetings, small talk, general knowledge, and what people tell. It was written
//! for this project. Where few specs compete, it is what most texts of no spec resemble.

/// One text a line.
const TEXTS: &str = include_str!("background.txt");

pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.lines()
}
