//! The folders of a source, and the buckets that tell its surfaces apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capataz_policy::surfaces::{Counts, Prefixes, Signals, Surface, prefix_fault};

/// Buckets of one source at most.
pub(super) const BUCKETS_MAX: usize = 64;
/// Files that are buckets of their own, for each surface that has no folder.
const FILES: usize = 8;
/// A folder with more folders is one bucket, with buckets for what differs within it.
const SPLIT: usize = 16;
/// A folder is a bucket only where it has at least this share of the signals, in percent.
const LEAST_PERCENT: u128 = 1;

/// The paths below a prefix that count for a surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket<'i> {
    pub(super) surface: Surface,
    pub(super) prefix: &'i str,
    /// How many paths have no longer prefix.
    pub(super) count: u64,
}

struct Node<'i> {
    /// The path to it.
    prefix: &'i str,
    below: BTreeMap<&'i str, usize>,
    /// Signals of all paths within it.
    counts: Counts,
}

/// The folders and files of a source, the first of which is the source itself.
struct Tree<'i>(Vec<Node<'i>>);

impl<'i> Tree<'i> {
    fn of(paths: &[(&'i str, Surface)]) -> Self {
        let mut nodes = vec![Node { prefix: "", below: BTreeMap::new(), counts: Counts::default() }];
        for (path, surface) in paths {
            let (mut at, mut end) = (0, 0);
            for segment in path.split('/') {
                end += segment.len();
                let next = nodes.len();
                let Some(node) = nodes.get_mut(at) else { break };
                at = *node.below.entry(segment).or_insert(next);
                if at == next {
                    let prefix = path.get(..end).unwrap_or_default();
                    nodes.push(Node { prefix, below: BTreeMap::new(), counts: Counts::default() });
                }
                if let Some(node) = nodes.get_mut(at).filter(|_| *surface != Surface::Unknown) {
                    node.counts.add(*surface, 1);
                }
                end += 1;
            }
        }
        Self(nodes)
    }

    /// The folders in a node.
    fn folders(&self, node: &Node<'i>) -> impl Iterator<Item = (usize, &Node<'i>)> {
        let below = node.below.values().filter_map(|index| Some((*index, self.0.get(*index)?)));
        below.filter(|(_, node)| !node.below.is_empty())
    }
}

/// The buckets of a source whose paths count for several surfaces, the largest first; none where there are less than two
/// significant ones, unless they are `required`.
pub(super) fn buckets<'i>(
    paths: &[(&'i str, Surface)],
    signals: &Signals,
    classification: Surface,
    required: bool,
) -> Vec<Bucket<'i>> {
    if signals.significant().len() < 2 && !required {
        return Vec::new();
    }
    let tree = Tree::of(paths);
    let mut found: Vec<(&str, Surface)> = folders(&tree, signals);
    for (surface, _) in signals.significant() {
        let has_bucket = found.iter().any(|(_, of_bucket)| *of_bucket == surface);
        if surface != classification && !has_bucket {
            let files =
                paths.iter().filter(|(path, of_path)| *of_path == surface && prefix_fault(path).is_none());
            found.extend(files.take(FILES));
        }
    }
    if found.is_empty() {
        let top = tree.0.first().into_iter().flat_map(|root| root.below.values());
        let top =
            top.filter_map(|index| tree.0.get(*index)).filter(|node| prefix_fault(node.prefix).is_none());
        found.extend(
            top.take(FILES).map(|node| (node.prefix, node.counts.dominant().unwrap_or(classification))),
        );
    }
    let mut buckets = counted(&found, paths);
    if buckets.len() > BUCKETS_MAX {
        buckets.truncate(BUCKETS_MAX);
        let kept: Vec<_> = buckets.iter().map(|bucket| (bucket.prefix, bucket.surface)).collect();
        buckets = counted(&kept, paths);
    }
    buckets
}

/// The folders that are buckets. A folder whose folders differ is split into them.
fn folders<'i>(tree: &Tree<'i>, signals: &Signals) -> Vec<(&'i str, Surface)> {
    let total = signals.counts().total();
    let is_large =
        |node: &Node<'_>| node.counts.total().saturating_mul(100) >= total.saturating_mul(LEAST_PERCENT);
    let surface = |node: &Node<'_>| node.counts.dominant().filter(|surface| signals.is_significant(*surface));
    let mut found = Vec::new();
    let mut open: Vec<(usize, Option<Surface>)> = vec![(0, None)];
    while let Some((index, outer)) = open.pop() {
        let Some(node) = tree.0.get(index) else { continue };
        for (index, folder) in tree.folders(node).filter(|(_, folder)| is_large(folder)) {
            let own = surface(folder);
            let differs = |(_, inner): (usize, &Node<'_>)| {
                is_large(inner) && surface(inner).is_some_and(|surface| Some(surface) != own)
            };
            let is_split = tree.folders(folder).count() <= SPLIT && tree.folders(folder).any(differs);
            match own {
                Some(surface) if !is_split && own != outer && prefix_fault(folder.prefix).is_none() => {
                    found.push((folder.prefix, surface));
                    open.push((index, own));
                }
                _ => open.push((index, outer)),
            }
        }
    }
    found
}

/// Buckets with their counts, the largest first.
fn counted<'i>(found: &[(&'i str, Surface)], paths: &[(&str, Surface)]) -> Vec<Bucket<'i>> {
    let found: BTreeSet<(&str, Surface)> = found.iter().copied().collect();
    let mut prefixes = Prefixes::default();
    let mut buckets = Vec::new();
    for (prefix, surface) in found {
        if prefixes.add(prefix, buckets.len()).is_none() {
            buckets.push(Bucket { surface, prefix, count: 0 });
        }
    }
    for (path, _) in paths {
        if let Some(bucket) = prefixes.longest(path).and_then(|index| buckets.get_mut(*index)) {
            bucket.count += 1;
        }
    }
    buckets.sort_by_key(|bucket| (Reverse(bucket.count), bucket.prefix));
    buckets
}
