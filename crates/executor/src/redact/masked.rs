//! A text with parts of it hidden, and where in the original they are.

use std::borrow::Cow;
use std::ops::Range;

use super::MASK;

/// Matches are looked for in the text with its masks, and remembered as ranges of the original.
#[derive(Debug)]
pub(super) struct Masked<'t> {
    original: &'t str,
    /// Parts of the original, in order, none within another. Masks that the original has are among them.
    hidden: Vec<Range<usize>>,
    shown: Cow<'t, str>,
}

impl<'t> Masked<'t> {
    pub(super) fn new(original: &'t str) -> Self {
        let masks = original.match_indices(MASK);
        let hidden = masks.map(|(start, mask)| start..start + mask.len()).collect();
        Self { original, hidden, shown: Cow::Borrowed(original) }
    }

    /// Hides the matches; says whether any part of them was not hidden before. Ranges are in order and do not overlap.
    pub(super) fn hide(&mut self, find: impl FnOnce(&str) -> Vec<Range<usize>>) -> bool {
        let found = find(&self.shown);
        if found.is_empty() {
            return false;
        }
        let mut all = self.in_original(found);
        all.extend_from_slice(&self.hidden);
        let all = merged(all);
        if all == self.hidden {
            return false;
        }
        self.hidden = all;
        self.shown = Cow::Owned(self.rendered());
        true
    }

    /// The text with its masks. Borrowed where there was nothing to hide.
    pub(super) fn into_text(self) -> Cow<'t, str> {
        self.shown
    }

    /// The hidden ranges of the original, without the masks that it has already.
    pub(super) fn into_hidden(self) -> Vec<Range<usize>> {
        let Self { original, mut hidden, .. } = self;
        hidden.retain(|range| original.get(range.clone()) != Some(MASK));
        hidden
    }

    /// Ranges of the text that is shown as ranges of the original. A part of a mask stands for everything that the mask
    /// hides.
    fn in_original(&self, shown: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut masks = Vec::with_capacity(self.hidden.len());
        let (mut at, mut copied) = (0, 0);
        for hidden in &self.hidden {
            at += hidden.start - copied;
            masks.push((at, hidden));
            at += MASK.len();
            copied = hidden.end;
        }
        // The last mask that begins before this place decides.
        let place = |count: usize, at: usize, within: fn(&Range<usize>) -> usize| {
            let Some((mask, hidden)) = count.checked_sub(1).and_then(|last| masks.get(last)) else {
                return at;
            };
            match at.checked_sub(mask + MASK.len()) {
                Some(after) => hidden.end + after,
                None => within(hidden),
            }
        };
        let ranges = shown.into_iter().map(|range| {
            let starts_after = masks.partition_point(|(mask, _)| *mask <= range.start);
            let ends_after = masks.partition_point(|(mask, _)| *mask < range.end);
            let start = place(starts_after, range.start, |hidden| hidden.start);
            start..place(ends_after, range.end, |hidden| hidden.end)
        });
        ranges.collect()
    }

    fn rendered(&self) -> String {
        let mut text = String::with_capacity(self.original.len());
        let mut copied = 0;
        for hidden in &self.hidden {
            text.push_str(self.original.get(copied..hidden.start).unwrap_or_default());
            text.push_str(MASK);
            copied = hidden.end;
        }
        text.push_str(self.original.get(copied..).unwrap_or_default());
        text
    }
}

/// Sorts ranges, and joins those that overlap. Ranges that only touch stay apart.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
