//! Where in a document a check stands. A path lives on the stack and is written out only for a violation.

use std::fmt;

/// The most characters of one key that a path shows.
const SHOWN: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) if is_plain(key) => {
                parent.fmt(f)?;
                if !matches!(parent, Path::Root) {
                    f.write_str(".")?;
                }
                f.write_str(key)
            }
            Path::Key(parent, key) => write!(f, "{parent}[{:?}]", shown(key)),
        }
    }
}

fn is_plain(key: &str) -> bool {
    (1..=SHOWN).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$'))
}

/// `text` for a message: cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
