//! Arrays of functions through which the state of a request selects the code of its stage.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tree_sitter::Node;

use super::events::{Action, events};
use super::program::whole;
use crate::c::debug_info::DebugInfo;
use crate::c::function::{Function, Functions, declared};
use crate::c::source::{File, nodes, root};

/// The arrays through which a function calls.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Keys of functions by the state.
    pub(super) functions: BTreeMap<String, BTreeSet<String>>,
    /// The calls.
    pub(super) calls: Vec<Range<usize>>,
}

impl Tables {
    /// The arrays that a dispatching function uses, with these states.
    pub(super) fn collect(
        functions: &Functions<'_>,
        info: &DebugInfo,
        files: &[File],
        dispatch: &Function<'_>,
        states: &[String],
    ) -> Self {
        let mut this = Self::default();
        for event in events(&whole(dispatch)) {
            if !matches!(event.action, Action::Indirect { .. }) {
                continue;
            }
            let Some(array) = event.node.child_by_field_name("function").map(root) else {
                continue;
            };
            let name = dispatch.file.text_of(array);
            let mut is_table = false;
            for file in files {
                let all = nodes(file.tree.root_node());
                for list in all.filter_map(|node| initializer(file, node, name)) {
                    is_table |= this.add(functions, info, file, list, states);
                }
            }
            this.calls.extend(is_table.then(|| event.node.byte_range()));
        }
        this
    }

    /// Adds the functions of an array. Returns whether it contains one for a state.
    fn add(
        &mut self,
        functions: &Functions<'_>,
        info: &DebugInfo,
        file: &File,
        list: Node<'_>,
        states: &[String],
    ) -> bool {
        let mut next = 0;
        let mut is_table = false;
        let mut cursor = list.walk();
        for value in list.named_children(&mut cursor).filter(|node| node.kind() != "comment") {
            let designator = value.child_by_field_name("designator");
            if let Some(index) = designator.and_then(|designator| designator.named_child(0)) {
                let text = file.text_of(index);
                let index = info.enumerators.get(text).copied().or_else(|| text.parse().ok());
                next = index.unwrap_or(-1);
            }
            let state = states.iter().find(|state| info.enumerators.get(state) == Some(&next));
            next += 1;
            let Some(state) = state else { continue };
            let names = nodes(value).filter(|node| node.kind() == "identifier");
            let found = names.filter_map(|node| functions.find(file, file.text_of(node)));
            for function in found {
                self.functions.entry(state.clone()).or_default().insert(function.key.clone());
                is_table = true;
            }
        }
        is_table
    }
}

/// The list that initializes a variable.
fn initializer<'t>(file: &File, node: Node<'t>, name: &str) -> Option<Node<'t>> {
    if node.kind() != "init_declarator" {
        return None;
    }
    let (found, _) = declared(file, node.child_by_field_name("declarator")?)?;
    let value = node.child_by_field_name("value")?;
    (found == name && value.kind() == "initializer_list").then_some(value)
}
