//! Pages that are the same whoever asks. What they do is in the table of the crate's documentation.

mod acting;
mod forms;
mod frames;
mod overlays;
mod reading;
mod windows;

/// A page within the shell of `answer::document`.
#[derive(Debug)]
pub(crate) struct Page {
    pub path: &'static str,
    pub title: &'static str,
    /// The content, with placeholders; see `answer::Addresses::fill`.
    pub body: &'static str,
}

const fn page(path: &'static str, title: &'static str, body: &'static str) -> Page {
    Page { path, title, body }
}

pub(crate) fn all() -> impl Iterator<Item = &'static Page> {
    [acting::PAGES, forms::PAGES, frames::PAGES, overlays::PAGES, reading::PAGES, windows::PAGES]
        .into_iter()
        .flatten()
}

pub(crate) fn find(path: &str) -> Option<&'static Page> {
    all().find(|page| page.path == path)
}
