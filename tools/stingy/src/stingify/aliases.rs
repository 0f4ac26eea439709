//! Structures that begin with others, so that a pointer to one may be one to the other.

use std::collections::BTreeSet;

use crate::c::debug_info::DebugInfo;

/// Maximum depth of structures in structures.
const MAX_DEPTH: usize = 16;

/// The object that begins with a structure, or that the structure begins with.
pub(super) fn find_aliases<'o>(
    info: &DebugInfo,
    name: &str,
    objects: &'o BTreeSet<String>,
) -> Option<&'o String> {
    let own_chain = first_member_types(info, name);
    objects.iter().find(|object| {
        own_chain.contains(object)
            || first_member_types(info, object).iter().any(|first| first == name)
    })
}

/// The structures that a structure begins with.
fn first_member_types(info: &DebugInfo, name: &str) -> Vec<String> {
    let first = |name: &String| {
        let (_, find_aliases) = info.layouts.get(name)?.members.first()?;
        let find_aliases = info.canonical(find_aliases);
        (find_aliases.derived.is_empty() && info.layouts.contains_key(&find_aliases.base))
            .then_some(find_aliases.base)
    };
    std::iter::successors(first(&name.to_owned()), first).take(MAX_DEPTH).collect()
}
