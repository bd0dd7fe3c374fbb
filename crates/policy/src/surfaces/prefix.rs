//! Prefixes of paths in whole segments.

use std::collections::BTreeMap;

/// What is known of paths below prefixes: the longest prefix of a path decides. `apps/web` is a prefix of `apps/web` and of
/// `apps/web/a.ts`, and not of `apps/website`. A slash at the end of a prefix means nothing.
///
/// To find the prefix of a path takes time in proportion to the part of the path that any prefix has.
#[derive(Clone, Debug)]
pub struct Prefixes<'p, T> {
    /// The first one is that of all paths. The others are named by the map of the one above.
    nodes: Vec<Node<'p, T>>,
}

#[derive(Clone, Debug)]
struct Node<'p, T> {
    below: BTreeMap<&'p str, usize>,
    value: Option<T>,
}

impl<T> Default for Prefixes<'_, T> {
    fn default() -> Self {
        Self { nodes: vec![Node { below: BTreeMap::new(), value: None }] }
    }
}

impl<'p, T> Prefixes<'p, T> {
    /// Adds a prefix. One that is there already keeps its value, which is returned.
    pub fn add(&mut self, prefix: &'p str, value: T) -> Option<&T> {
        let mut at = 0;
        for segment in without_end(prefix).split('/') {
            let next = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { break };
            at = *node.below.entry(segment).or_insert(next);
            if at == next {
                self.nodes.push(Node { below: BTreeMap::new(), value: None });
            }
        }
        let node = self.nodes.get_mut(at)?;
        if node.value.is_some() {
            return node.value.as_ref();
        }
        node.value = Some(value);
        None
    }

    /// The value of the longest prefix of the path.
    #[must_use]
    pub fn longest(&self, path: &str) -> Option<&T> {
        let mut at = 0;
        let mut longest = None;
        for segment in path.split('/') {
            let Some(next) = self.nodes.get(at).and_then(|node| node.below.get(segment)) else { break };
            at = *next;
            longest = self.nodes.get(at).and_then(|node| node.value.as_ref()).or(longest);
        }
        longest
    }

    /// The values of all prefixes of the path.
    pub(super) fn each(&self, path: &str, mut visit: impl FnMut(&T)) {
        let mut at = 0;
        for segment in path.split('/') {
            let Some(next) = self.nodes.get(at).and_then(|node| node.below.get(segment)) else { break };
            at = *next;
            if let Some(value) = self.nodes.get(at).and_then(|node| node.value.as_ref()) {
                visit(value);
            }
        }
    }
}

fn without_end(prefix: &str) -> &str {
    prefix.strip_suffix('/').unwrap_or(prefix)
}

/// What is wrong with the prefix of a bucket, whatever the paths are, as what is expected instead.
#[must_use]
pub fn prefix_fault(prefix: &str) -> Option<&'static str> {
    if prefix.trim().is_empty() {
        return Some("a folder or a file of the source, such as apps/website");
    }
    if prefix.starts_with('/') {
        return Some("a path within the source, without a slash in front");
    }
    if prefix.chars().any(|character| character.is_control() || character == '\\') {
        return Some("segments with slashes between them");
    }
    if without_end(prefix).split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Some("whole segments, none of them empty or made of dots");
    }
    None
}
