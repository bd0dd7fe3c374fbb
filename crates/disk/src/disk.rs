//! What a disk has of a folder while a program works on it: what is certainly there, and what may be.

use std::collections::BTreeMap;
use std::mem;

use bytes::Bytes;

use crate::Failure;
use crate::record::{Ended, Record};

/// The unit that a disk writes whole or not at all.
pub const SECTOR: u64 = 512;

/// The disk under one folder, which was empty when the record began.
#[derive(Debug)]
pub struct Disk {
    /// The path of the folder, without a slash at its end.
    root: String,
    pub(crate) files: Vec<File>,
    /// The files by the system's numbers, of which a later file may have that of a removed one.
    by_number: BTreeMap<u64, FileId>,
    /// The first one is the root.
    pub(crate) folders: Vec<Folder>,
    /// Changes of names that are not durable, in order.
    pub(crate) names: Vec<Renaming>,
    /// Syncs that have begun and not ended.
    syncs: BTreeMap<u64, Begun>,
    /// The number of records, which orders all changes.
    pub(crate) now: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(pub(crate) usize);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderId(pub(crate) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(FileId),
    Folder(FolderId),
}

#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) durable: Vec<u8>,
    /// In order.
    pub(crate) pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) at: u64,
    pub(crate) change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, bytes: Bytes },
    Truncate(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// What the program sees.
    seen: BTreeMap<String, Node>,
    pub(crate) durable: BTreeMap<String, Node>,
}

/// A change of names that happens whole: of a renaming, the new name comes before the old one goes.
#[derive(Debug)]
pub(crate) struct Renaming {
    pub(crate) at: u64,
    pub(crate) effects: Vec<Effect>,
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) folder: FolderId,
    pub(crate) name: String,
    pub(crate) node: Option<Node>,
}

#[derive(Debug)]
struct Begun {
    at: u64,
    what: Node,
}

impl Disk {
    #[must_use]
    pub fn new(root: &str) -> Self {
        Self {
            root: root.to_owned(),
            files: Vec::new(),
            by_number: BTreeMap::new(),
            folders: vec![Folder::default()],
            names: Vec::new(),
            syncs: BTreeMap::new(),
            now: 0,
        }
    }

    /// Whether something is not durable, so that cuts at this moment differ.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        !self.names.is_empty() || self.files.iter().any(|file| !file.pending.is_empty())
    }

    /// Takes the next record. `chance` decides what a failed sync has written nevertheless.
    ///
    /// # Errors
    /// The record contradicts what is known of the folder.
    pub fn take(&mut self, record: &Record, chance: &mut fastrand::Rng) -> Result<(), Failure> {
        self.now += 1;
        match record {
            Record::Created { file, path } => {
                let id = FileId(self.files.len());
                self.files.push(File::default());
                self.by_number.insert(*file, id);
                self.rename(vec![(path, Some(Node::File(id)))])
            }
            Record::Truncated { file, length } => self.change(*file, Change::Truncate(*length)),
            Record::Written { file, offset, bytes } => {
                self.change(*file, Change::Write { offset: *offset, bytes: bytes.clone() })
            }
            Record::FolderMade { path } => {
                let id = FolderId(self.folders.len());
                self.folders.push(Folder::default());
                self.rename(vec![(path, Some(Node::Folder(id)))])
            }
            Record::Renamed { from, to } => {
                let node = self.node(from)?;
                self.rename(vec![(to, Some(node)), (from, None)])
            }
            Record::Linked { from, to } => {
                let node = self.node(from)?;
                self.rename(vec![(to, Some(node))])
            }
            Record::Removed { path } => self.rename(vec![(path, None)]),
            Record::SyncBegun { token, file, is_folder, path } => {
                let what = if *is_folder { self.node(path)? } else { Node::File(self.file(*file)?) };
                self.syncs.insert(*token, Begun { at: self.now, what });
                Ok(())
            }
            Record::SyncEnded { token, how } => self.ended(*token, *how, chance),
            Record::Unseen { path } => {
                Err(format!("the recorder does not follow what was done to {path}").into())
            }
            Record::Note(_) | Record::Called(_) | Record::Failed(_) => Ok(()),
        }
    }

    fn file(&self, number: u64) -> Result<FileId, Failure> {
        self.by_number.get(&number).copied().ok_or_else(|| format!("no file has the number {number}").into())
    }

    fn change(&mut self, number: u64, change: Change) -> Result<(), Failure> {
        let FileId(id) = self.file(number)?;
        let file = self.files.get_mut(id).ok_or("a file without contents")?;
        file.pending.push(Pending { at: self.now, change });
        Ok(())
    }

    /// Splits a path into its folder and its name there; `None` for the root itself.
    fn place(&self, path: &str) -> Result<Option<(FolderId, String)>, Failure> {
        let outside = || format!("{path} is not in the folder, or in no folder that is there");
        let inner = path.strip_prefix(&self.root).ok_or_else(outside)?;
        let mut parts: Vec<&str> = inner.split('/').filter(|part| !part.is_empty()).collect();
        let Some(name) = parts.pop() else { return Ok(None) };
        let mut folder = FolderId(0);
        for part in parts {
            let seen = self.folders.get(folder.0).and_then(|folder| folder.seen.get(part));
            let Some(Node::Folder(next)) = seen else { return Err(outside().into()) };
            folder = *next;
        }
        Ok(Some((folder, name.to_owned())))
    }

    fn node(&self, path: &str) -> Result<Node, Failure> {
        let Some((folder, name)) = self.place(path)? else { return Ok(Node::Folder(FolderId(0))) };
        let seen = self.folders.get(folder.0).and_then(|folder| folder.seen.get(&name));
        seen.copied().ok_or_else(|| format!("{path} is not there").into())
    }

    fn rename(&mut self, changes: Vec<(&String, Option<Node>)>) -> Result<(), Failure> {
        let mut effects = Vec::with_capacity(changes.len());
        for (path, node) in changes {
            let (folder, name) = self.place(path)?.ok_or("the root was renamed")?;
            let seen = &mut self.folders.get_mut(folder.0).ok_or("a folder without names")?.seen;
            match node {
                Some(node) => seen.insert(name.clone(), node),
                None => seen.remove(&name),
            };
            effects.push(Effect { folder, name, node });
        }
        self.names.push(Renaming { at: self.now, effects });
        Ok(())
    }

    fn ended(&mut self, token: u64, how: Ended, chance: &mut fastrand::Rng) -> Result<(), Failure> {
        let Begun { at, what } = self.syncs.remove(&token).ok_or("a sync ended that had not begun")?;
        match (what, how) {
            (_, Ended::Interrupted) => {}
            (Node::File(FileId(id)), how) => {
                let file = self.files.get_mut(id).ok_or("a file without contents")?;
                file.settle(at, how == Ended::Done, chance);
            }
            (Node::Folder(folder), Ended::Done) => self.settle_names(folder, at),
            // A journal that could not be written is written later, or the file system stops.
            (Node::Folder(_), Ended::Failed) => {}
        }
        Ok(())
    }

    /// Makes the names of a folder durable as they were at that moment.
    fn settle_names(&mut self, folder: FolderId, before: u64) {
        for renaming in mem::take(&mut self.names) {
            let touches =
                renaming.at < before && renaming.effects.iter().any(|effect| effect.folder == folder);
            if !touches {
                self.names.push(renaming);
                continue;
            }
            let goes_there =
                renaming.effects.iter().any(|effect| effect.folder == folder && effect.node.is_some());
            let mut left = Vec::new();
            for effect in renaming.effects {
                // No file system loses a file that is renamed: the old name goes with the new one, or after it.
                if effect.folder == folder || !goes_there {
                    self.settle_name(effect);
                } else {
                    left.push(effect);
                }
            }
            if !left.is_empty() {
                self.names.push(Renaming { at: renaming.at, effects: left });
            }
        }
    }

    fn settle_name(&mut self, effect: Effect) {
        // What was in doubt about this name before is over.
        for earlier in &mut self.names {
            earlier.effects.retain(|other| other.folder != effect.folder || other.name != effect.name);
        }
        self.names.retain(|renaming| !renaming.effects.is_empty());
        if let Some(folder) = self.folders.get_mut(effect.folder.0) {
            effect.apply(&mut folder.durable);
        }
    }
}

impl Effect {
    pub(crate) fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self.node {
            Some(node) => names.insert(self.name.clone(), node),
            None => names.remove(&self.name),
        };
    }
}

impl File {
    /// What was changed before a sync began is durable after it, or after a failed one lost for good, sector by sector as
    /// chance will have it: the system does not write it again.
    fn settle(&mut self, before: u64, done: bool, chance: &mut fastrand::Rng) {
        let (settled, left): (Vec<_>, Vec<_>) =
            mem::take(&mut self.pending).into_iter().partition(|pending| pending.at < before);
        self.pending = left;
        let all_is_lost = chance.bool();
        for pending in settled {
            match pending.change {
                change if done => change.apply(&mut self.durable),
                Change::Truncate(length) => Change::Truncate(length).apply(&mut self.durable),
                Change::Write { .. } if all_is_lost => {}
                change => change.apply_some(&mut self.durable, &mut |_| chance.bool()),
            }
        }
    }
}

impl Change {
    pub(crate) fn apply(&self, content: &mut Vec<u8>) {
        self.apply_some(content, &mut |_| true);
    }

    /// Applies those sectors that `reaches` lets through; a truncation as a whole.
    pub(crate) fn apply_some(&self, content: &mut Vec<u8>, reaches: &mut dyn FnMut(u64) -> bool) {
        match self {
            Self::Truncate(length) => {
                if reaches(0) {
                    content.resize(usize::try_from(*length).unwrap_or_default(), 0);
                }
            }
            Self::Write { offset, bytes } => {
                let mut at = *offset;
                let mut rest = bytes.as_ref();
                while !rest.is_empty() {
                    let room = usize::try_from(SECTOR - at % SECTOR).unwrap_or_default().min(rest.len());
                    let (piece, after) = rest.split_at(room);
                    if reaches(at / SECTOR) {
                        overwrite(content, at, piece);
                    }
                    at += piece.len() as u64;
                    rest = after;
                }
            }
        }
    }
}

fn overwrite(content: &mut Vec<u8>, at: u64, piece: &[u8]) {
    let at = usize::try_from(at).unwrap_or_default();
    if content.len() < at + piece.len() {
        content.resize(at + piece.len(), 0);
    }
    if let Some(place) = content.get_mut(at..at + piece.len()) {
        place.copy_from_slice(piece);
    }
}
