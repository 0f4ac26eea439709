//! A trie of topic levels, which finds the topic filters that match a topic name.
//!
//! Each level is an edge. Wildcards have separate edges, so they need no table lookup. Lookups are recursive, so callers
//! limit topics to [`MAX_LEVELS`] levels.

use crate::model::maps::few_map::FewMap;

/// Maximum number of levels of a topic or filter.
pub(crate) const MAX_LEVELS: usize = 200;

/// Whether a topic or filter has at most [`MAX_LEVELS`] levels.
pub(crate) fn is_shallow(path: &str) -> bool {
    path.bytes().filter(|byte| *byte == b'/').count() < MAX_LEVELS
}

/// A map from topic filters to values.
pub(crate) struct Trie<T> {
    nodes: Vec<Node<T>>,
    /// Unused nodes.
    free: Vec<u32>,
}

struct Node<T> {
    edges: FewMap<Box<str>, u32>,
    /// The edges `+` and `#`.
    one: Option<u32>,
    rest: Option<u32>,
    value: Option<T>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { edges: FewMap::default(), one: None, rest: None, value: None }
    }
}

impl<T> Node<T> {
    fn edge(&self, level: &str) -> Option<u32> {
        match level {
            "+" => self.one,
            "#" => self.rest,
            level => self.edges.get(level).copied(),
        }
    }

    fn is_empty(&self) -> bool {
        self.value.is_none() && self.edges.is_empty() && self.one.is_none() && self.rest.is_none()
    }
}

const ROOT: u32 = 0;

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], free: Vec::new() }
    }
}

/// Approximate memory of an edge, without the name's characters.
const EDGE_BYTES: usize = 80;

impl<T> Trie<T> {
    /// Memory of an unshared level in bytes, without its name.
    pub(crate) const LEVEL_BYTES: usize = size_of::<Node<T>>() + EDGE_BYTES;

    /// The value under `path`, inserted if missing.
    pub(crate) fn entry(&mut self, path: &str, make: impl FnOnce() -> T) -> &mut T {
        let mut at = ROOT;
        for level in path.split('/') {
            at = match self.nodes[at as usize].edge(level) {
                Some(next) => next,
                None => self.add(at, level),
            };
        }
        self.nodes[at as usize].value.get_or_insert_with(make)
    }

    fn add(&mut self, at: u32, level: &str) -> u32 {
        let next = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            u32::try_from(self.nodes.len() - 1).expect("fewer than 2³² levels of topics")
        });
        let node = &mut self.nodes[at as usize];
        match level {
            "+" => node.one = Some(next),
            "#" => node.rest = Some(next),
            level => drop(node.edges.insert(level.into(), next)),
        }
        next
    }

    /// The value under exactly this path.
    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut T> {
        let mut at = ROOT;
        for level in path.split('/') {
            at = self.nodes[at as usize].edge(level)?;
        }
        self.nodes[at as usize].value.as_mut()
    }

    /// Removes the value under exactly this path, and unused nodes.
    pub(crate) fn remove(&mut self, path: &str) -> Option<T> {
        let mut visited = vec![ROOT];
        for level in path.split('/') {
            let at = self.nodes[visited[visited.len() - 1] as usize].edge(level)?;
            visited.push(at);
        }
        let value = self.nodes[visited[visited.len() - 1] as usize].value.take();
        let levels: Vec<&str> = path.split('/').collect();
        for (steps, level) in levels.iter().enumerate().rev() {
            let (parent, child) = (visited[steps], visited[steps + 1]);
            if !self.nodes[child as usize].is_empty() {
                break;
            }
            self.nodes[child as usize] = Node::default();
            self.free.push(child);
            let parent = &mut self.nodes[parent as usize];
            match *level {
                "+" => parent.one = None,
                "#" => parent.rest = None,
                level => drop(parent.edges.swap_remove(level)),
            }
        }
        value
    }

    /// Calls `found` for the values whose path, as a filter, matches topic `name`.
    pub(crate) fn matching<'t>(&'t self, name: &str, mut found: impl FnMut(&'t T)) {
        // A leading wildcard does not match topics that begin with `$` (§4.7.2).
        let hidden = name.starts_with('$');
        self.walk(ROOT, Some(name), hidden, &mut found);
    }

    fn walk<'t>(
        &'t self,
        at: u32,
        name: Option<&str>,
        hidden: bool,
        found: &mut impl FnMut(&'t T),
    ) {
        let node = &self.nodes[at as usize];
        let mut show = |at: u32| {
            if let Some(value) = &self.nodes[at as usize].value {
                found(value);
            }
        };
        // `#` also matches the parent level.
        if let Some(rest) = node.rest
            && !hidden
        {
            show(rest);
        }
        let Some(name) = name else { return show(at) };
        let (level, behind) = match name.split_once('/') {
            Some((level, behind)) => (level, Some(behind)),
            None => (name, None),
        };
        if let Some(&next) = node.edges.get(level) {
            self.walk(next, behind, false, found);
        }
        if let Some(one) = node.one
            && !hidden
        {
            self.walk(one, behind, false, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::topic;

    use super::*;

    const FILTERS: [&str; 14] = [
        "#", "+", "/", "+/+", "a", "a/#", "a/+", "a/b", "a/+/c", "+/b/#", "/a", "$SYS/#", "$SYS/+",
        "a//b",
    ];
    const NAMES: [&str; 12] =
        ["a", "b", "a/b", "a/b/c", "/", "/a", "a/", "a//b", "$SYS/x", "$SYS", "$SYS/x/y", "x/b"];

    #[test]
    fn names_find_filters() {
        let mut filters = Trie::default();
        FILTERS.iter().for_each(|filter| *filters.entry(filter, || "") = filter);
        for name in NAMES {
            let mut found = Vec::new();
            filters.matching(name, |filter| found.push(*filter));
            found.sort_unstable();
            let mut expected: Vec<_> =
                FILTERS.into_iter().filter(|filter| topic::matches(filter, name)).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn removal_leaves_no_nodes() {
        let mut trie = Trie::default();
        for filter in FILTERS {
            *trie.entry(filter, || "") = filter;
        }
        for (n, filter) in FILTERS.iter().enumerate() {
            assert_eq!(trie.remove(filter), Some(*filter));
            assert_eq!(trie.remove(filter), None);
            for other in &FILTERS[n + 1..] {
                assert_eq!(trie.get_mut(other).copied(), Some(*other));
            }
        }
        assert!(trie.nodes[0].is_empty());
        assert_eq!(trie.free.len() + 1, trie.nodes.len(), "all nodes but the root are free");
    }
}
