//! The memory of execution modes in a [`super::MemoryStore`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::port::{
    FoundEntry, MemoryChange, MemoryEntry, MemoryOf, MemoryOrder, MemoryPage, MemoryRow, MemorySearch, Place,
    Recall, RunId, entry_id,
};
use crate::remembered::relevance;

/// All entries, and what is thought of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    entries: BTreeMap<String, (RunId, Place, MemoryEntry)>,
    /// Votes, and `None` for what a person has forgotten.
    marks: BTreeMap<(RunId, Place), (String, Option<i8>)>,
}

impl Entries {
    pub(super) fn write(&mut self, run: RunId, rows: &[MemoryRow]) {
        for MemoryRow { place, change } in rows {
            match change {
                MemoryChange::Entry(entry) => {
                    let id = entry_id(run, *place);
                    if !self.is_forgotten(&id) {
                        self.entries.insert(id, (run, *place, (**entry).clone()));
                    }
                }
                MemoryChange::Vote { entry, quarters } => {
                    self.marks.insert((run, *place), (entry.clone(), Some(*quarters)));
                }
                MemoryChange::Forgotten { entry } => {
                    self.marks.insert((run, *place), (entry.clone(), None));
                    self.entries.remove(entry);
                }
                MemoryChange::Back { to_seq } => self.retain(|of, place| of != run || place.seq <= *to_seq),
            }
        }
    }

    pub(super) fn remove(&mut self, run: RunId) {
        self.retain(|of, _| of != run);
    }

    fn retain(&mut self, keeps: impl Fn(RunId, Place) -> bool) {
        self.entries.retain(|_, (run, place, _)| keeps(*run, *place));
        self.marks.retain(|(run, place), _| keeps(*run, *place));
    }

    /// The other runs whose entries this stream has had forgotten.
    pub(super) fn owners_of_forgotten(&self, stream: RunId) -> impl Iterator<Item = RunId> {
        let of_stream =
            self.marks.iter().filter(move |((of, _), (_, quarters))| *of == stream && quarters.is_none());
        let owners = of_stream.filter_map(|(_, (entry, _))| entry.get(..36)?.parse::<RunId>().ok());
        owners.filter(move |owner| *owner != stream)
    }

    pub(super) fn is_forgotten(&self, id: &str) -> bool {
        self.marks.values().any(|(entry, quarters)| entry == id && quarters.is_none())
    }

    pub(super) fn entry(&self, id: &str) -> Option<FoundEntry> {
        self.entries.get_key_value(id).map(|found| self.found(found))
    }

    pub(super) fn recall(&self, wanted: &Recall<'_>) -> Vec<FoundEntry> {
        let matches = |entry: &MemoryEntry| {
            entry.session == wanted.session
                && entry.mode == wanted.mode
                && wanted.kinds.contains(&entry.kind.as_str())
                && entry.at > wanted.since
        };
        let mut all = self.matching(matches);
        match wanted.order {
            MemoryOrder::NewestFirst => all.sort_by_key(|found| Reverse(found.entry.at)),
            MemoryOrder::MostRelevantFirst => {
                all.sort_by(|one, other| other.relevance.total_cmp(&one.relevance));
            }
        }
        all.truncate(wanted.limit);
        all
    }

    pub(super) fn search(&self, search: &MemorySearch) -> MemoryPage {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let has_text = |content: &str| {
            search
                .text
                .as_ref()
                .is_none_or(|text| content.to_ascii_lowercase().contains(text.to_ascii_lowercase().as_str()))
        };
        let mut all = self.matching(|entry| {
            entry.session == search.session && is(&search.mode, &entry.mode) && is(&search.kind, &entry.kind)
        });
        all.sort_by(|one, other| (other.entry.at, &other.id).cmp(&(one.entry.at, &one.id)));
        if let Some((at, id)) = &search.after {
            all.retain(|found| (found.entry.at, &found.id) < (*at, id));
        }
        let mut page = MemoryPage::default();
        let mut last = None;
        for (number, found) in all.into_iter().enumerate() {
            if number >= search.looked_at || page.entries.len() >= search.limit {
                page.next = last;
                break;
            }
            last = Some((found.entry.at, found.id.clone()));
            page.entries.extend(has_text(&found.entry.content).then_some(found));
        }
        page
    }

    pub(super) fn of_run(&self, run: RunId) -> MemoryOf {
        let entries = self.entries.values().filter(|(of, ..)| *of == run).map(|(_, place, entry)| {
            MemoryRow { place: *place, change: MemoryChange::Entry(Box::new(entry.clone())) }
        });
        let marks =
            self.marks.iter().filter(|((of, _), _)| *of == run).map(|((_, place), (entry, quarters))| {
                let entry = entry.clone();
                let change = match quarters {
                    Some(quarters) => MemoryChange::Vote { entry, quarters: *quarters },
                    None => MemoryChange::Forgotten { entry },
                };
                MemoryRow { place: *place, change }
            });
        let mut rows: Vec<MemoryRow> = entries.chain(marks).collect();
        rows.sort_by_key(|row| row.place);
        MemoryOf { rows, misjudged: Vec::new() }
    }

    /// The runs that have rows.
    pub(super) fn runs(&self) -> impl Iterator<Item = RunId> {
        self.entries.values().map(|(run, ..)| *run).chain(self.marks.keys().map(|(run, _)| *run))
    }

    /// By their ids.
    fn matching(&self, matches: impl Fn(&MemoryEntry) -> bool) -> Vec<FoundEntry> {
        let matching = self.entries.iter().filter(|(_, (.., entry))| matches(entry));
        matching.map(|found| self.found(found)).collect()
    }

    fn found(&self, (id, (run, place, entry)): (&String, &(RunId, Place, MemoryEntry))) -> FoundEntry {
        let votes = self.marks.values().filter(|(entry, _)| entry == id);
        let quarters = votes.filter_map(|(_, quarters)| *quarters).map(i64::from).sum();
        // At most 20: exact.
        let relevance = f64::from(i32::try_from(relevance(quarters)).unwrap_or_default()) / 4.0;
        FoundEntry { id: id.clone(), run: *run, place: *place, relevance, entry: entry.clone() }
    }
}
