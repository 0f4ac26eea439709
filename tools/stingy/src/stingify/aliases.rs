//! Structures that begin with others, so that a pointer to one may be one to the other.

use std::collections::BTreeSet;

use crate::c::debug_info::DebugInfo;

/// Maximum depth of structures in structures.
const MAX_DEPTH: usize = 16;

/// The object that begins with a structure, or that the structure begins with.
pub(super) fn of<'o>(
    info: &DebugInfo,
    name: &str,
    objects: &'o BTreeSet<String>,
) -> Option<&'o String> {
    let own = beginnings(info, name);
    objects.iter().find(|object| {
        own.contains(object) || beginnings(info, object).iter().any(|first| first == name)
    })
}

/// The structures that a structure begins with.
fn beginnings(info: &DebugInfo, name: &str) -> Vec<String> {
    let first = |name: &String| {
        let (_, of) = info.layouts.get(name)?.members.first()?;
        let of = info.canonical(of);
        (of.derived.is_empty() && info.layouts.contains_key(&of.base)).then_some(of.base)
    };
    std::iter::successors(first(&name.to_owned()), first).take(MAX_DEPTH).collect()
}
