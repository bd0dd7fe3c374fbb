//! Changes that would have led to another spec. Every suggested change was tested by routing the changed text.

use std::fmt;

use serde::Serialize;

use crate::decision::{Decision, Query};
use crate::logit::Logit;
use crate::route::{Router, Scratch};

/// The maximum number of words that are tried.
const MOST_WORDS: usize = 40;
/// The maximum number of added keywords.
const MOST_KEYWORDS: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The fewest words, as written, without which another spec answers; empty if none were found. Up to two words, the
    /// result is exact. For more, the words with the greatest influence on the winner are removed first.
    /// taking the one that speaks most for the winner first. Empty where none were found.
    pub without: Vec<String>,
    /// The spec that then answers.
    pub without_leads_to: Option<String>,
    /// The runner-up's keywords whose addition would have made it answer.
    pub with: Vec<String>,
    pub with_leads_to: Option<String>,
}

impl Router {
    pub(super) fn change(&self, query: &Query<'_>, decision: &Decision, scratch: &mut Scratch) -> Change {
        let mut change = Change::default();
        self.without(query, decision, scratch, &mut change);
        self.with(query, decision, scratch, &mut change);
        change
    }

    fn without(&self, query: &Query<'_>, decision: &Decision, scratch: &mut Scratch, change: &mut Change) {
        let tokens = scratch.folded.tokens();
        if tokens.len() > MOST_WORDS {
            return;
        }
        let words: Vec<&str> = tokens
            .iter()
            .map(|token| query.text.get(token.source_start..token.source_end).unwrap_or_default())
            .collect();
        let order = self.most_telling(decision, scratch);
        let mut text = String::new();
        let mut leads_to = |removed: &[usize]| {
            text.clear();
            for (_, word) in words.iter().enumerate().filter(|(place, _)| !removed.contains(place)) {
                text.push_str(word);
                text.push(' ');
            }
            let other = self.route_with(&Query { text: &text, ..*query }, scratch).spec;
            (other != decision.spec).then_some(other)
        };
        // Written with single spaces, the text must still lead to the same spec.
        if leads_to(&[]).is_some() {
            return;
        }
        let singles = order.iter().map(|place| vec![*place]);
        let pairs = order
            .iter()
            .enumerate()
            .flat_map(|(rank, first)| order.iter().skip(rank + 1).map(move |second| vec![*first, *second]));
        let more = (3..=order.len()).map(|count| order.iter().take(count).copied().collect());
        for mut removed in singles.chain(pairs).chain(more) {
            if let Some(other) = leads_to(&removed) {
                removed.sort_unstable();
                let written = removed.iter().filter_map(|place| words.get(*place));
                change.without = written.map(|word| (*word).to_owned()).collect();
                change.without_leads_to = Some(other);
                return;
            }
        }
    }

    /// The words, sorted by how much more they add to the winner's total than to the next spec's, the most first.
    fn most_telling(&self, decision: &Decision, scratch: &Scratch) -> Vec<usize> {
        let specs = self.catalogue().specs();
        let winner = specs.binary_search_by(|spec| spec.id.cmp(&decision.spec)).ok();
        let next = scratch.best.iter().copied().find(|place| Some(*place) != winner);
        let words_of = |place: Option<usize>| {
            let class = place.and_then(|place| scratch.terms.get(place)).and_then(|terms| terms.class);
            class.map(|class| self.by_word(class, scratch)).unwrap_or_default()
        };
        let mut value: Vec<Logit> = vec![0; scratch.folded.tokens().len()];
        for (place, sign) in [(winner, 1), (next, -1)] {
            for (value, word) in value.iter_mut().zip(words_of(place)) {
                *value += sign * word;
            }
            for hit in scratch.hits.iter().filter(|hit| Some(hit.spec) == place) {
                for value in value.iter_mut().take(hit.last + 1).skip(hit.first) {
                    *value += sign * hit.logit;
                }
            }
        }
        let mut order: Vec<usize> = (0..value.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(value.get(*place).copied()));
        order
    }

    fn with(&self, query: &Query<'_>, decision: &Decision, scratch: &mut Scratch, change: &mut Change) {
        let Some(runner_up) = decision.alternatives.first() else { return };
        let Some(spec) = self.catalogue().find(&runner_up.spec) else { return };
        let mut keywords: Vec<_> = spec.keywords.iter().collect();
        keywords.sort_by(|one, other| other.weight.total_cmp(&one.weight).then(one.text.cmp(&other.text)));
        // The keywords are added at the front, so that they count even if the text is longer than the part that is
        // read.
        let mut added = String::new();
        let mut with = Vec::new();
        for keyword in keywords.into_iter().take(MOST_KEYWORDS) {
            added.push_str(&keyword.text);
            added.push(' ');
            with.push(keyword.text.clone());
            let text = format!("{added}{}", query.text);
            if self.route_with(&Query { text: &text, ..*query }, scratch).spec == spec.id {
                change.with = with;
                change.with_leads_to = Some(spec.id.clone());
                return;
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spec) = &self.without_leads_to {
            writeln!(formatter, "\nwithout \"{}\" it goes to {spec}", self.without.join("\", \""))?;
        }
        if let Some(spec) = &self.with_leads_to {
            writeln!(formatter, "with \"{}\" it goes to {spec}", self.with.join("\", \""))?;
        }
        Ok(())
    }
}
