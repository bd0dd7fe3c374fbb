//! A power cut: which of what was in doubt the disk has afterwards.

use std::fs;
use std::path::Path;

use crate::Failure;
use crate::disk::{Disk, FileId, FolderId, Node};

/// What becomes of what was not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// All of it is lost.
    Lost,
    /// A beginning of it is there, up to a sector within one write: the disk writes in order.
    Torn,
    /// Each sector and each name is there or not, by chance: the disk writes in any order.
    Scattered,
    /// The names are there and the contents are not.
    NamesFirst,
    /// The contents are there and the names are not.
    ContentsFirst,
    /// All of it is there.
    Kept,
}

impl Cut {
    pub const ALL: [Self; 6] =
        [Self::Scattered, Self::Lost, Self::Torn, Self::NamesFirst, Self::ContentsFirst, Self::Kept];

    /// Builds the folder as the disk has it after the cut.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn build(self, disk: &Disk, chance: &mut fastrand::Rng, target: &Path) -> Result<(), Failure> {
        let until = self.moment(disk, chance);
        let mut names: Vec<_> = disk.folders.iter().map(|folder| folder.durable.clone()).collect();
        for renaming in &disk.names {
            let is_there = match self {
                Self::Lost | Self::ContentsFirst => false,
                Self::Torn => renaming.at < until,
                Self::Scattered => chance.bool(),
                Self::NamesFirst | Self::Kept => true,
            };
            for effect in renaming.effects.iter().filter(|_| is_there) {
                if let Some(names) = names.get_mut(effect.folder.0) {
                    effect.apply(names);
                }
            }
        }
        // Folders are made once: one that was renamed without its old name gone would be in two places.
        let mut waiting = vec![(FolderId(0), target.to_owned())];
        let mut made = vec![false; disk.folders.len()];
        while let Some((FolderId(id), path)) = waiting.pop() {
            if made.get(id).is_none_or(|made| *made) {
                continue;
            }
            if let Some(made) = made.get_mut(id) {
                *made = true;
            }
            fs::create_dir_all(&path)?;
            for (name, node) in names.get(id).into_iter().flatten() {
                match node {
                    Node::Folder(inner) => waiting.push((*inner, path.join(name))),
                    Node::File(_) if name.ends_with("-shm") => index(&path.join(name), chance)?,
                    Node::File(file) => fs::write(path.join(name), self.content(disk, *file, until, chance))?,
                }
            }
        }
        Ok(())
    }

    /// The moment up to which a disk that writes in order has written.
    fn moment(self, disk: &Disk, chance: &mut fastrand::Rng) -> u64 {
        let contents = disk.files.iter().flat_map(|file| &file.pending).map(|pending| pending.at);
        let moments: Vec<u64> = contents.chain(disk.names.iter().map(|renaming| renaming.at)).collect();
        chance.choice(moments).map_or(disk.now, |at| at + 1)
    }

    fn content(self, disk: &Disk, file: FileId, until: u64, chance: &mut fastrand::Rng) -> Vec<u8> {
        let Some(file) = disk.files.get(file.0) else { return Vec::new() };
        let mut content = file.durable.clone();
        for pending in &file.pending {
            let mut stopped = false;
            match self {
                Self::Lost | Self::NamesFirst => {}
                Self::Torn if pending.at + 1 < until => pending.change.apply(&mut content),
                // The last write stops at some sector.
                Self::Torn if pending.at + 1 == until => pending.change.apply_some(&mut content, &mut |_| {
                    stopped |= chance.u8(..8) == 0;
                    !stopped
                }),
                Self::Torn => {}
                Self::Scattered => pending.change.apply_some(&mut content, &mut |_| chance.bool()),
                Self::ContentsFirst | Self::Kept => pending.change.apply(&mut content),
            }
        }
        content
    }
}

/// The index of the write-ahead log is memory that processes share: a disk has anything of it, or nothing.
fn index(path: &Path, chance: &mut fastrand::Rng) -> std::io::Result<()> {
    let content = match chance.u8(..3) {
        0 => return Ok(()),
        1 => vec![0; 32_768],
        _ => std::iter::repeat_with(|| chance.u8(..)).take(32_768).collect(),
    };
    fs::write(path, content)
}
