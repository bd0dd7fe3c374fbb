//! What of a page is nearly what a target names: for whoever wrote the target, never for the executor.

use serde_json::Value;

use crate::page::{Locator, Query};
use crate::text::normalised;

/// Lines that are told at most, and the characters of each.
const TOLD: usize = 3;
const LINE: usize = 120;
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

/// The lines of an outline whose names or texts are nearest to those that the query wants, those of its role first; none where
/// it names no text.
pub(super) fn nearest(query: &Query, outline: &str) -> Vec<String> {
    let wanted: Vec<(Option<&str>, String)> = query.locators.iter().filter_map(named).collect();
    let mut found = Vec::new();
    for line in outline.lines().map(str::trim) {
        let role = line.split_whitespace().next().unwrap_or_default();
        let texts = texts_of(line);
        let nearness = wanted.iter().flat_map(|(of_role, wanted)| {
            let other_role = of_role.is_some_and(|of_role| of_role != role);
            texts.iter().filter_map(move |text| Some((compare(wanted, text)?, other_role)))
        });
        if let Some(nearness) = nearness.min() {
            found.push((nearness, shortened(line)));
        }
    }
    // Lines that are equally near stay in the order of the page.
    found.sort_by_key(|(nearness, _)| *nearness);
    found.into_iter().take(TOLD).map(|(_, line)| line).collect()
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

/// The name of the line and the text that follows it. What stands in brackets, such as a value, names nothing.
fn texts_of(line: &str) -> Vec<String> {
    let name = line.split_once(' ').map(|(_, rest)| rest);
    let text = line.split_once("]: ").or_else(|| line.split_once(": ")).map(|(_, text)| text);
    name.into_iter().chain(text).filter_map(quoted).map(|text| comparable(&text)).collect()
}

/// The JSON string that a text begins with.
fn quoted(text: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(text.starts_with('"').then_some(text)?).into_iter();
    match values.next()? {
        Ok(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
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

/// The line without the reference of its element, for those who cannot use one.
pub(super) fn without_reference(line: &str) -> String {
    let parts = line.rsplit_once(" [ref=").and_then(|(before, rest)| Some((before, rest.split_once(']')?.1)));
    parts.map_or_else(|| line.to_owned(), |(before, after)| format!("{before}{after}"))
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
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
textbox \"Coupon code\" [value=\"Pay\"] [ref=d1e4]
listitem [ref=d1e5]: \"Pay by invoice\"
";

    fn role(role: &str, name: &str) -> Query {
        let locator = Locator::Role { role: role.to_owned(), name: Some(name.to_owned()) };
        Query { locators: vec![locator], ..Query::default() }
    }

    fn text(value: &str) -> Query {
        Query { locators: vec![Locator::Text { value: value.to_owned() }], ..Query::default() }
    }

    #[test]
    fn what_differs_in_case_or_by_few_characters_comes_first() {
        assert_eq!(
            nearest(&text("pay NOW"), PAGE).first().map(String::as_str),
            Some("button \"Pay now\" [ref=d1e1]")
        );
        assert_eq!(
            nearest(&text("Cupon code"), PAGE),
            ["textbox \"Coupon code\" [value=\"Pay\"] [ref=d1e4]"]
        );
    }

    #[test]
    fn of_what_is_equally_near_the_role_that_is_wanted_comes_first_and_three_lines_are_told() {
        let told = nearest(&role("link", "Pay"), PAGE);
        assert_eq!(
            told,
            [
                "link \"Pay later\" [ref=d1e2]",
                "button \"Pay now\" [ref=d1e1]",
                "listitem [ref=d1e5]: \"Pay by invoice\""
            ]
        );
    }

    #[test]
    fn a_value_names_nothing_and_what_has_nothing_in_common_is_not_told() {
        assert_eq!(nearest(&text("Checkout"), PAGE), [] as [String; 0]);
        assert_eq!(
            nearest(&role("button", "Save draft"), PAGE),
            ["button \"Save: \\\"draft\\\"\" [disabled] [ref=d1e3]"]
        );
        let nothing_named =
            Query { locators: vec![Locator::Css { value: "#pay".to_owned() }], ..Query::default() };
        assert_eq!(nearest(&nothing_named, PAGE), [] as [String; 0]);
    }

    #[test]
    fn a_line_is_told_without_its_reference_where_none_can_be_used() {
        assert_eq!(
            without_reference("listitem [ref=d1e5]: \"Pay by invoice\""),
            "listitem: \"Pay by invoice\""
        );
        assert_eq!(without_reference("text \"Two things\""), "text \"Two things\"");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let line = format!("button \"Pay {}\" [ref=d1e1]", "ñ".repeat(200));
        let told = nearest(&text("pay"), &line);
        assert_eq!(told.iter().map(|line| line.chars().count()).collect::<Vec<_>>(), [LINE + 1]);
    }
}
