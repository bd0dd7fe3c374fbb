//! What of a page is nearly what a target names: for whoever wrote the target, never for the executor.

use serde_json::Value;

use crate::page::{Locator, Query};
use crate::redact::Redactor;
use crate::text::{normalised, shortened};

/// Elements that are told at most, and the characters of a name and of a text there.
const TOLD: usize = 3;
const SHOWN: usize = 80;
/// Characters of a text that are compared.
const COMPARED: usize = 80;
/// What is contained in another text says something from this many characters on.
const TELLING: usize = 3;

/// How near something is, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// The same but for letter case.
    Case,
    /// The same but for so many characters, at most a quarter.
    Characters(usize),
    /// One is part of the other.
    Part,
    /// At least half of the wanted words are there.
    Words,
}

/// A line of an outline, without the states of its element: what people have typed is nobody's hint.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    role: String,
    name: String,
    /// As a locator takes it.
    reference: String,
    /// What is read in the element.
    text: String,
}

/// True if a locator of the query names a text, so that something can be nearly that.
pub(super) fn names_a_text(query: &Query) -> bool {
    query.locators.iter().any(|locator| named(locator).is_some())
}

/// The elements of an outline whose names or texts are nearest to those that the query wants, those of its role first. Secrets
/// are masked before anything is compared or cut: a part of one would not be known for one.
pub(super) fn nearest(
    query: &Query,
    outline: &str,
    redactor: &Redactor,
    with_references: bool,
) -> Vec<String> {
    let wanted: Vec<(Option<&str>, String)> = query.locators.iter().filter_map(named).collect();
    let mut found = Vec::new();
    for mut line in outline.lines().map(Line::read) {
        for text in [&mut line.name, &mut line.text] {
            redactor.string(text);
        }
        let nearness = wanted.iter().flat_map(|(role, wanted)| {
            let other_role = role.is_some_and(|role| role != line.role);
            let texts = [&line.name, &line.text].into_iter().filter(|text| !text.is_empty());
            texts.filter_map(move |text| Some((compare(wanted, &comparable(text))?, other_role)))
        });
        if let Some(nearness) = nearness.min() {
            found.push((nearness, line.shown(with_references)));
        }
    }
    // What is equally near stays in the order of the page.
    found.sort_by_key(|(nearness, _)| *nearness);
    found.into_iter().take(TOLD).map(|(_, line)| line).collect()
}

impl Line {
    /// Reads `role "name" [state]… [ref=d1e2]: "text"`, of which all but the role may be absent.
    fn read(line: &str) -> Self {
        let line = line.trim();
        let end = line.find([' ', ':']).unwrap_or(line.len());
        let (role, mut rest) = line.split_at_checked(end).unwrap_or((line, ""));
        let mut read = Self { role: role.to_owned(), ..Self::default() };
        loop {
            rest = rest.trim_start();
            if let Some((text, after)) = quoted(rest) {
                read.name = text;
                rest = after;
            } else if let Some((state, after)) = bracketed(rest) {
                if let Some(reference) = state.strip_prefix("ref=") {
                    reference.clone_into(&mut read.reference);
                }
                rest = after;
            } else {
                let text = rest.strip_prefix(':').and_then(|text| quoted(text.trim_start()));
                read.text = text.map_or_else(String::new, |(text, _)| text);
                return read;
            }
        }
    }

    fn shown(&self, with_reference: bool) -> String {
        let mut shown = self.role.clone();
        if !self.name.is_empty() {
            shown.push_str(&format!(" {}", Value::from(shortened(&self.name, SHOWN))));
        }
        if with_reference && !self.reference.is_empty() {
            shown.push_str(&format!(" [ref={}]", self.reference));
        }
        if !self.text.is_empty() {
            shown.push_str(&format!(": {}", Value::from(shortened(&self.text, SHOWN))));
        }
        shown
    }
}

/// The JSON string that a text begins with, and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text.starts_with('"').then_some(text)?).into_iter();
    match values.next()? {
        Ok(Value::String(string)) => Some((string, text.get(values.byte_offset()..)?)),
        _ => None,
    }
}

/// What stands in the brackets that a text begins with, and what comes after them. A bracket in a JSON string is none.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('[')?;
    let (mut in_string, mut escaped) = (false, false);
    for (place, character) in inside.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ']' if !in_string => return Some((inside.get(..place)?, inside.get(place + 1..)?)),
            _ => {}
        }
    }
    None
}

/// The text that a locator names, and the role that goes with it.
fn named(locator: &Locator) -> Option<(Option<&str>, String)> {
    let (role, text) = match locator {
        Locator::Role { role, name: Some(name) } => (Some(role.as_str()), name),
        Locator::Label { value } | Locator::Text { value } => (None, value),
        Locator::Role { name: None, .. }
        | Locator::Ref { .. }
        | Locator::Testid { .. }
        | Locator::Css { .. }
        | Locator::Xpath { .. } => return None,
    };
    Some((role, comparable(text)))
}

fn comparable(text: &str) -> String {
    normalised(text).to_lowercase().chars().take(COMPARED).collect()
}

fn compare(wanted: &str, found: &str) -> Option<Nearness> {
    let length = wanted.chars().count();
    if wanted == found {
        return Some(Nearness::Case);
    }
    let distance = strsim::levenshtein(wanted, found);
    if distance <= length / 4 {
        return Some(Nearness::Characters(distance));
    }
    let shorter = length.min(found.chars().count());
    if shorter >= TELLING && (wanted.contains(found) || found.contains(wanted)) {
        return Some(Nearness::Part);
    }
    let words: Vec<&str> = words_of(found).collect();
    let (there, all) = words_of(wanted).fold((0, 0), |(there, all), word| {
        (there + usize::from(word.chars().count() >= TELLING && words.contains(&word)), all + 1)
    });
    (there > 0 && there * 2 >= all).then_some(Nearness::Words)
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
heading \"Your cart\"
  text \"Two things\"
button \"Pay now\" [ref=d1e1]
link \"Pay later\" [ref=d1e2]
button \"Save: \\\"draft\\\"\" [disabled] [ref=d1e3]
textbox \"Coupon code\" [value=\"Pay] [ref=d1e9\"] [ref=d1e4]
listitem [ref=d1e5]: \"Pay by [ref=12] invoice\"
paragraph: \"Nothing\"
";

    fn role(role: &str, name: &str) -> Query {
        let locator = Locator::Role { role: role.to_owned(), name: Some(name.to_owned()) };
        Query { locators: vec![locator], ..Query::default() }
    }

    fn text(value: &str) -> Query {
        Query { locators: vec![Locator::Text { value: value.to_owned() }], ..Query::default() }
    }

    fn told(query: &Query) -> Vec<String> {
        nearest(query, PAGE, &Redactor::new(&[]), true)
    }

    #[test]
    fn what_differs_in_case_or_by_few_characters_comes_first() {
        assert_eq!(told(&text("pay NOW")).first().map(String::as_str), Some("button \"Pay now\" [ref=d1e1]"));
        assert_eq!(told(&text("nothin")), ["paragraph: \"Nothing\""]);
    }

    #[test]
    fn of_what_is_equally_near_the_role_that_is_wanted_comes_first_and_three_are_told() {
        let three = [
            "link \"Pay later\" [ref=d1e2]",
            "button \"Pay now\" [ref=d1e1]",
            "listitem [ref=d1e5]: \"Pay by [ref=12] invoice\"",
        ];
        assert_eq!(told(&role("link", "Pay")), three);
        let without = nearest(&role("link", "Pay"), PAGE, &Redactor::new(&[]), false);
        assert_eq!(
            without,
            ["link \"Pay later\"", "button \"Pay now\"", "listitem: \"Pay by [ref=12] invoice\""]
        );
    }

    #[test]
    fn what_was_typed_is_neither_compared_nor_told() {
        assert_eq!(told(&text("Cupon code")), ["textbox \"Coupon code\" [ref=d1e4]"]);
    }

    #[test]
    fn what_has_nothing_in_common_is_not_told_and_half_of_the_words_are_enough() {
        assert_eq!(told(&text("Checkout")), [] as [String; 0]);
        assert_eq!(told(&role("button", "Save draft")), ["button \"Save: \\\"draft\\\"\" [ref=d1e3]"]);
        let by_css = Query { locators: vec![Locator::Css { value: "#pay".to_owned() }], ..Query::default() };
        assert!(!names_a_text(&by_css) && names_a_text(&text("Pay")));
    }

    #[test]
    fn long_names_are_cut_and_keep_their_references() {
        let line = format!("button \"Pay {}\" [ref=d1e1]", "ñ".repeat(200));
        let told = nearest(&text("pay"), &line, &Redactor::new(&[]), true);
        assert_eq!(told, [format!("button \"Pay {}…\" [ref=d1e1]", "ñ".repeat(76))]);
    }

    #[test]
    fn a_secret_that_goes_beyond_the_cut_is_masked_as_a_whole() {
        let mut redactor = Redactor::new(&[]);
        redactor.learn("correct-horse-battery-staple");
        let before = "Your recovery phrase, to be written down now and kept in a safe place, is";
        let line = format!("text \"{before} correct-horse-battery-staple\"");
        let told = nearest(&text("Your recovery phrase"), &line, &redactor, true);
        assert!(told.len() == 1 && !told.concat().contains("correct"), "{told:?}");
    }
}
