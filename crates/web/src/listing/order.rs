//! Sort order of a listing: `?sort=name|size|time`, descending with `&order=desc`.

use std::cmp::Ordering;

use phalanx::fs::{DirEntry, DirEntryKind};

use crate::listing::is_directory;

/// Sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(super) by: By,
    pub(super) descending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum By {
    #[default]
    Name,
    Size,
    Time,
}

impl By {
    pub(super) const ALL: [Self; 3] = [Self::Name, Self::Size, Self::Time];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size",
            Self::Time => "time",
        }
    }
}

impl Order {
    /// Parses a query; unknown parameters are ignored.
    pub(crate) fn of(query: Option<&str>) -> Self {
        let mut order = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            match pair.split_once('=') {
                Some(("sort", name)) => {
                    let found = By::ALL.into_iter().find(|by| by.name() == name);
                    order.by = found.unwrap_or_default();
                }
                Some(("order", value)) => order.descending = value == "desc",
                _ => (),
            }
        }
        order
    }

    /// The query for this order.
    pub(super) fn query(self) -> String {
        let order = if self.descending { "&order=desc" } else { "" };
        format!("?sort={}{order}", self.by.name())
    }

    pub(super) fn to_byte(self) -> u8 {
        let by = By::ALL.iter().position(|by| *by == self.by).unwrap_or(0) as u8;
        2 * by + u8::from(self.descending)
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let by = *By::ALL.get(usize::from(byte / 2))?;
        Some(Self { by, descending: byte % 2 == 1 })
    }

    /// Sorts `names`: directories first in either direction, equal entries by name.
    pub(super) fn sort(self, names: &mut [DirEntry]) {
        // The sort key of a name is computed once per name.
        names.sort_by_cached_key(|named| (natural(&named.name), named.name.clone()));
        let compare = |a: &DirEntry, b: &DirEntry| match self.by {
            By::Name => Ordering::Equal,
            By::Size => size(a).cmp(&size(b)),
            By::Time => a.modified_ns.cmp(&b.modified_ns),
        };
        if self.descending && self.by == By::Name {
            names.reverse();
        }
        names.sort_by(|a, b| {
            let found = compare(a, b);
            let found = if self.descending { found.reverse() } else { found };
            is_directory(b).cmp(&is_directory(a)).then(found)
        });
    }
}

/// Size of a file; zero for anything else.
fn size(named: &DirEntry) -> u64 {
    if named.kind == DirEntryKind::File { named.length } else { 0 }
}

/// Natural sort key: ignores case, and `file10` follows `file9`.
fn natural(name: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for &byte in name {
        match (pieces.last_mut(), byte) {
            (Some(Piece::Number(number)), b'0'..=b'9') => {
                *number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
            }
            (_, b'0'..=b'9') => pieces.push(Piece::Number(u64::from(byte - b'0'))),
            _ => pieces.push(Piece::Byte(byte.to_ascii_lowercase())),
        }
    }
    pieces
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Number(u64),
    Byte(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, length: u64, modified_ns: i128) -> DirEntry {
        let (kind, name) = match name.strip_suffix('/') {
            Some(name) => (DirEntryKind::Directory, name),
            None => (DirEntryKind::File, name),
        };
        DirEntry { name: name.into(), kind, length, modified_ns }
    }

    #[test]
    fn orders() {
        let table = [
            (None, "d1/ d2/ a B c2 c10"),
            (Some(""), "d1/ d2/ a B c2 c10"),
            (Some("sort=name"), "d1/ d2/ a B c2 c10"),
            (Some("sort=name&order=desc"), "d2/ d1/ c10 c2 B a"),
            (Some("sort=size"), "d1/ d2/ c2 c10 a B"),
            (Some("order=desc&sort=size"), "d1/ d2/ B a c2 c10"),
            (Some("sort=time"), "d2/ d1/ B c10 c2 a"),
            (Some("sort=time&order=desc"), "d1/ d2/ a c2 c10 B"),
            (Some("sort=what&x&order=asc"), "d1/ d2/ a B c2 c10"),
        ];
        for (query, wanted) in table {
            let mut names = vec![
                named("c10", 1, 20),
                named("d2/", 9, 10),
                named("B", 3, 0),
                named("a", 2, 40),
                named("d1/", 0, 20),
                named("c2", 1, 30),
            ];
            let order = Order::of(query);
            order.sort(&mut names);
            let slash = |named: &DirEntry| if is_directory(named) { "/" } else { "" };
            let found: Vec<_> = names
                .iter()
                .map(|named| format!("{}{}", String::from_utf8_lossy(&named.name), slash(named)))
                .collect();
            assert_eq!(found.join(" "), wanted, "{query:?}");
            assert_eq!(Order::of(order.query().strip_prefix('?')), order);
            assert_eq!(Order::from_byte(order.to_byte()), Some(order));
        }
    }
}
