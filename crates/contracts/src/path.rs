//! Where in a document a check stands. A path lives on the stack and is written out only for a violation.

use std::fmt;

/// The most characters of one key that a path shows.
const SHOWN: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    /// A key of the document, and the name of the field that it stands for.
    Alias(&'a Path<'a>, &'a str, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// The field `name`, which the document has under `key`.
    pub fn field(&'a self, key: &'a str, name: &'a str) -> Path<'a> {
        if key == name { Path::Key(self, key) } else { Path::Alias(self, key, name) }
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// The same place by the names of the fields, whatever keys the document has for them: as rules name it.
    pub fn by_names(&self) -> String {
        struct ByNames<'a>(&'a Path<'a>);

        impl fmt::Display for ByNames<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, true)
            }
        }

        ByNames(self).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, by_names: bool) -> fmt::Result {
        let (parent, key) = match *self {
            Path::Root => return Ok(()),
            Path::Index(parent, index) => {
                parent.write(f, by_names)?;
                return write!(f, "[{index}]");
            }
            Path::Key(parent, key) => (parent, key),
            Path::Alias(parent, key, name) => (parent, if by_names { name } else { key }),
        };
        parent.write(f, by_names)?;
        if !is_plain(key) {
            return write!(f, "[{:?}]", shown(key));
        }
        if !matches!(parent, Path::Root) {
            f.write_str(".")?;
        }
        f.write_str(key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
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
