//! Names that are near to one that is not known. What looking for them takes has a bound, whatever is known and asked for.

use std::collections::{BTreeMap, BTreeSet};

const MOST_SUGGESTIONS: usize = 3;
/// The maximum length of a name that gets suggestions, since anybody can send long names.
const LONGEST_COMPARED: usize = 256;
/// The maximum distance that is measured.
const FARTHEST: usize = 5;
/// Characters that are compared with each other for one batch of names: one name of 128 characters is compared with 10,000
/// others in any case.
pub(crate) const MOST_COMPARED: usize = 10_000_000;

/// What comparing may still take.
#[derive(Debug)]
pub(crate) struct Effort {
    pub(crate) left: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { left: MOST_COMPARED }
    }
}

/// Known names in lower case, by their number of characters.
#[derive(Debug, Default)]
pub(crate) struct Names<'n>(BTreeMap<usize, Vec<(Vec<char>, &'n str)>>);

impl<'n> Names<'n> {
    pub(crate) fn of(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut by_length: BTreeMap<usize, Vec<(Vec<char>, &'n str)>> = BTreeMap::new();
        for name in names {
            let lowered = lowered(name);
            by_length.entry(lowered.len()).or_default().push((lowered, name));
        }
        Self(by_length)
    }

    /// At most three of the names within the distance, which is not greater than 5, ignoring case: the nearest first, ties by
    /// name. None where the effort does not suffice to compare all of them.
    pub(crate) fn nearest(&self, input: &str, farthest: usize, effort: &mut Effort) -> Vec<String> {
        if input.chars().count() > LONGEST_COMPARED {
            return Vec::new();
        }
        let input = lowered(input);
        let mut near = BTreeSet::new();
        // The difference in length is a lower bound of the distance.
        let lengths = input.len().saturating_sub(farthest)..=input.len().saturating_add(farthest);
        for (known, name) in self.0.range(lengths).flat_map(|(_, names)| names) {
            let distance = distance_within(&input, known, farthest, effort);
            if effort.left == 0 {
                return Vec::new();
            }
            let Some(distance) = distance else { continue };
            near.insert((distance, *name));
            if near.len() > MOST_SUGGESTIONS {
                near.pop_last();
            }
        }
        near.into_iter().map(|(_, name)| name.to_owned()).collect()
    }
}

fn lowered(name: &str) -> Vec<char> {
    name.to_lowercase().chars().collect()
}

/// The Levenshtein distance where it is at most so great, and the effort suffices to measure it.
///
/// `to` has so many characters more than `from`, so that a way of at most `farthest` steps deletes and inserts few: only
/// the diagonals that it can reach are computed, and nothing more once all of them are too far.
fn distance_within(from: &[char], to: &[char], farthest: usize, effort: &mut Effort) -> Option<usize> {
    let farthest = farthest.min(FARTHEST);
    let (more, less) = (to.len().saturating_sub(from.len()), from.len().saturating_sub(to.len()));
    let deleted = farthest.checked_sub(more)?.saturating_add(less) / 2;
    let inserted = farthest.checked_sub(less)?.saturating_add(more) / 2;
    let too_far = farthest + 1;
    let width = deleted + inserted + 1;
    // The cell at `x` is that of the column `row + x - deleted`.
    let mut cells = [too_far; FARTHEST + 2];
    for (column, cell) in cells.iter_mut().take(width).skip(deleted).enumerate() {
        *cell = column;
    }
    effort.left = effort.left.saturating_sub(1);
    for (row, letter) in from.iter().enumerate() {
        effort.left = effort.left.saturating_sub(width);
        if effort.left == 0 {
            return None;
        }
        let (mut before, mut least) = (too_far, too_far);
        for x in 0..width {
            let above = cells.get(x + 1).map_or(too_far, |cell| *cell);
            let Some(cell) = cells.get_mut(x) else { break };
            *cell = match (row + 1 + x).checked_sub(deleted + 1) {
                Some(last) => match to.get(last) {
                    Some(other) => (*cell + usize::from(letter != other)).min(above + 1).min(before + 1),
                    None => too_far,
                },
                None if row + 1 + x == deleted => row + 1,
                None => too_far,
            };
            (before, least) = (*cell, least.min(*cell));
        }
        if least > farthest {
            return None;
        }
    }
    cells.get((deleted + more).checked_sub(less)?).copied().filter(|distance| *distance <= farthest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_compared_grows_with_the_shorter_of_length_and_difference() {
        let compared = |from: &str, to: &str| {
            let mut effort = Effort::default();
            let distance = distance_within(&lowered(from), &lowered(to), 5, &mut effort);
            (distance, MOST_COMPARED - effort.left)
        };
        let (long, other) = ("a".repeat(128), "b".repeat(128));
        assert_eq!(compared(&long, &long), (Some(0), 1 + 128 * 5));
        assert_eq!(compared(&long, &other), (None, 1 + 6 * 5), "it ends where it is too far");
        assert_eq!(compared(&long, &long[..122]), (None, 0), "lengths alone tell");
        assert_eq!(compared(&long, &long[..123]), (Some(5), 1 + 128 * 6));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_distance_is_that_of_levenshtein_or_too_great(
            from in "[abc]{0,14}",
            to in "[abcñ]{0,14}",
            farthest in 0_usize..=5,
        ) {
            let whole = strsim::levenshtein(&from, &to);
            let within = distance_within(&lowered(&from), &lowered(&to), farthest, &mut Effort::default());
            prop_assert_eq!(within, (whole <= farthest).then_some(whole));
        }

        #[test]
        fn a_distance_of_few_changes_is_that_of_levenshtein(
            from in "[a-d]{0,40}",
            changes in proptest::collection::vec((0_usize..40, 0..3, "[a-d]"), 0..7),
        ) {
            let mut to: Vec<char> = from.chars().collect();
            for (place, change, letter) in changes {
                let place = place.min(to.len());
                match change {
                    0 => to.splice(place..place, letter.chars()).count(),
                    1 => to.splice(place..(place + 1).min(to.len()), letter.chars()).count(),
                    _ => to.drain(place..(place + 1).min(to.len())).count(),
                };
            }
            let whole = strsim::levenshtein(&from, &to.iter().collect::<String>());
            let within = distance_within(&lowered(&from), &to, 5, &mut Effort::default());
            prop_assert_eq!(within, (whole <= 5).then_some(whole));
        }
    }
}
