//! Documents that are mended until all that is wrong with them is known.
//!
//! Whoever reads a value with `serde` hears of its first error alone. So what an error is about is mended as well as it can be,
//! and the whole is read again, until nothing is wrong with it: a key that is misspelt gets the name that is meant; a value that
//! is wrong is left out, for its default; where something has to be, something neutral stands for it. What was mended in this
//! way is a gap: nobody knows what is meant there, and no rule judges what is in its place.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeString, DeTable, DeValue, Deserializer};

use super::way::{Step, shown, table_at, value_at, way, whole, with};
use super::words::{in_words, missing, nearest, of_known};
use super::{Document, InPart, MOST, Problem, place};

/// Times that a file is read again for one of its problems: a neutral value may be the last one of those that are tried.
const TRIES: usize = 8;
/// Bytes that are read again at most for the problems behind the first one.
const MOST_READ: usize = 32 * 1024 * 1024;

impl<'t> Document<'t> {
    /// All that is wrong with it, and what can be read of the rest.
    pub(in crate::config) fn read_what_can_be<T: DeserializeOwned>(&self) -> InPart<'t, T> {
        let mut mending = Mending::of(self);
        let mut value = None;
        let rounds = (MOST_READ / self.text.len().max(1)).clamp(2, TRIES * MOST);
        let mut has_ended = false;
        for _ in 0..rounds {
            match T::deserialize(Deserializer::from(mending.table.clone())) {
                Ok(read) => {
                    value = Some(read);
                    has_ended = true;
                    break;
                }
                Err(error) if mending.mend(&error) => {}
                Err(_) => break,
            }
        }
        if !has_ended {
            mending.tell_of_more();
        }
        // Items that have other places by now cannot be told apart by them.
        value = value.filter(|_| !mending.is_shifted);
        let Mending { table, mut problems, gaps, .. } = mending;
        problems.sort_by_key(|(offset, _)| *offset);
        InPart {
            value,
            problems: problems.into_iter().map(|(_, problem)| problem).collect(),
            mended: Document { name: self.name.clone(), text: self.text, table },
            gaps: gaps.iter().map(|path| shown(whole(path))).collect(),
        }
    }
}

/// A document that is being mended until it can be read.
#[derive(Debug)]
struct Mending<'d, 't> {
    document: &'d Document<'t>,
    /// What of it is mended so far.
    table: Spanned<DeTable<'t>>,
    /// What is wrong with it, with the place in its text.
    problems: Vec<(usize, Problem)>,
    /// Where nobody knows what is meant.
    gaps: Vec<Vec<Step>>,
    /// Keys that nobody knows, which have another name by now or were taken out.
    unknown: Vec<Vec<Step>>,
    /// Where something neutral was put for a key that is missing.
    put: Vec<Vec<Step>>,
    /// How many were tried, by the numbers of the places where something neutral stands.
    tried: Vec<usize>,
    /// An item was taken out of its array.
    is_shifted: bool,
}

impl<'d, 't> Mending<'d, 't> {
    fn of(document: &'d Document<'t>) -> Self {
        Self {
            document,
            table: document.table.clone(),
            problems: Vec::new(),
            gaps: Vec::new(),
            unknown: Vec::new(),
            put: Vec::new(),
            tried: Vec::new(),
            is_shifted: false,
        }
    }

    /// Tells the error unless it follows from another one, and mends what it is about. Returns whether it has.
    fn mend(&mut self, error: &toml::de::Error) -> bool {
        let (message, span) = (error.message(), error.span().unwrap_or_default());
        let missing = missing(message);
        let path = way(self.table.get_ref(), &span, missing.is_some());
        if let Some(number) = self.number_of(&span) {
            // Of what nobody has written there is nothing to tell.
            return match missing {
                Some(key) => self.put(&with(&path, key)) || self.give_up(&path),
                None => self.put_another(number, &path, message),
            };
        }
        let unknown = of_known(message, "unknown field `")
            .filter(|(key, _)| matches!(path.last(), Some(Step::Key(last)) if last == key));
        let is_news = match missing {
            // It was wrong, and was left out.
            Some(key) => !self.gaps.contains(&with(&path, key)),
            // As a whole it may be wrong because of what was taken out of it.
            None => unknown.is_some() || !self.is_mended_within(&path),
        };
        if is_news {
            self.tell(message, &span, missing.is_some());
        }
        if self.problems.len() >= MOST {
            return false;
        }
        if let Some(key) = missing {
            let path_of_key = with(&path, key);
            self.gaps.push(path_of_key.clone());
            return self.put(&path_of_key) || self.take_out(&path);
        }
        if let Some((key, known)) = unknown {
            let is_renamed = nearest(key, &known).is_some_and(|meant| self.rename(&path, meant));
            self.unknown.push(path.clone());
            // What was meant by it may be just what something else needs.
            self.gaps.extend(
                (!is_renamed).then(|| path.split_last().map(|(_, parent)| parent.to_vec())).flatten(),
            );
            return is_renamed || self.take_out(&path);
        }
        self.gaps.push(path.clone());
        match path.last() {
            Some(Step::Item(_)) => self.put_for_item(&path) || self.take_out(&path),
            Some(Step::Key(_)) | None => self.take_out(&path),
        }
    }

    fn tell(&mut self, message: &str, span: &Range<usize>, is_of_a_table: bool) {
        // The names of the keys are those that somebody has written.
        let path = way(self.document.table.get_ref(), span, is_of_a_table);
        let (said, near) = in_words(message);
        let problem = Problem {
            file: Some(self.document.name.clone()),
            place: Some(place(self.document.text, span.start)),
            path: shown(&path),
            message: said,
            near,
        };
        self.problems.push((span.start, problem));
    }

    /// Says that not all was looked at.
    fn tell_of_more(&mut self) {
        let file = Some(self.document.name.clone());
        let message = "there may be more problems, which are looked for once these are mended".to_owned();
        self.problems.push((usize::MAX, Problem { file, message, ..Problem::default() }));
    }

    fn is_mended_within(&self, path: &[Step]) -> bool {
        let mut mended = self.gaps.iter().chain(&self.unknown);
        mended.any(|within| within.len() > path.len() && within.starts_with(path))
    }

    /// Where the neutral value of this number says that it is: behind the text, so that no other one is there.
    fn span_of(&self, number: usize) -> Range<usize> {
        let begin = self.document.text.len() + 1 + number;
        begin..begin
    }

    fn number_of(&self, span: &Range<usize>) -> Option<usize> {
        span.start.checked_sub(self.document.text.len() + 1)
    }

    /// Puts something neutral where a key is missing. Returns whether it has; nothing is put into one place twice.
    fn put(&mut self, path: &[Step]) -> bool {
        let span = self.span_of(self.tried.len());
        let Some((Step::Key(key), parent)) = path.split_last() else { return false };
        let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
        if self.put.iter().any(|put| put == path) {
            return false;
        }
        table.insert(Spanned::new(span.clone(), DeString::from(key.clone())), Spanned::new(span, text("")));
        self.put.push(path.to_vec());
        self.tried.push(0);
        true
    }

    /// Puts something neutral where an item of an array is wrong, so that the others stay where they are.
    fn put_for_item(&mut self, path: &[Step]) -> bool {
        let span = self.span_of(self.tried.len());
        let Some(item) = value_at(self.table.get_mut(), path) else { return false };
        *item = Spanned::new(span, text(""));
        self.tried.push(0);
        true
    }

    /// Puts another neutral value where the one of this number cannot be read.
    fn put_another(&mut self, number: usize, path: &[Step], message: &str) -> bool {
        let span = self.span_of(number);
        let Some(tried) = self.tried.get_mut(number) else { return false };
        *tried += 1;
        // An enumeration says what there is.
        let variants = of_known(message, "unknown variant `").filter(|(tried, _)| tried.is_empty());
        let value = match variants.and_then(|(_, known)| known.first().copied()) {
            Some(known) => Some(text(known)),
            None => neutral(*tried),
        };
        if let Some(value) = value
            && let Some(place) = value_at(self.table.get_mut(), path)
        {
            *place = Spanned::new(span, value);
            return true;
        }
        self.give_up(path)
    }

    /// Takes out what something neutral is in, where there is nothing that could stand there.
    fn give_up(&mut self, path: &[Step]) -> bool {
        match path.split_last() {
            Some((Step::Key(_), table)) => self.take_out(table),
            _ => self.take_out(path),
        }
    }

    /// Gives a key the name that is meant, where nothing has that name.
    fn rename(&mut self, path: &[Step], name: &str) -> bool {
        let Some((Step::Key(key), parent)) = path.split_last() else { return false };
        let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
        let written = |key: &str| table.keys().find(|written| written.get_ref() == key).cloned();
        let (None, Some(written)) = (written(name), written(key)) else { return false };
        let Some(value) = table.remove(&written) else { return false };
        table.insert(Spanned::new(written.span(), DeString::from(name.to_owned())), value);
        true
    }

    /// Takes out what is at this path. Returns whether there was something.
    fn take_out(&mut self, path: &[Step]) -> bool {
        let Some((last, parent)) = path.split_last() else { return false };
        match last {
            Step::Key(key) => {
                let Some(table) = table_at(self.table.get_mut(), parent) else { return false };
                let written = table.keys().find(|written| written.get_ref() == key).cloned();
                written.is_some_and(|written| table.remove(&written).is_some())
            }
            Step::Item(place) => {
                let array = value_at(self.table.get_mut(), parent).map(Spanned::get_mut);
                let Some(DeValue::Array(items)) = array else { return false };
                self.is_shifted = true;
                let all = std::mem::replace(items, DeArray::new());
                let there = *place < all.len();
                for (_, item) in all.into_iter().enumerate().filter(|(at, _)| at != place) {
                    items.push(item);
                }
                there
            }
        }
    }
}

fn text<'t>(text: &str) -> DeValue<'t> {
    DeValue::String(DeString::from(text.to_owned()))
}

/// What stands for a value of which nobody knows what it should be, until one of them can be read. The first one is a text.
fn neutral<'t>(number: usize) -> Option<DeValue<'t>> {
    match number {
        0 => Some(text("")),
        1 => Some(DeValue::Array(DeArray::new())),
        2 => Some(DeValue::Integer(DeInteger::default())),
        3 => Some(DeValue::Boolean(false)),
        4 => Some(DeValue::Table(DeTable::new())),
        _ => None,
    }
}
