//! The loop over active requests, which the execution of a batch replaces. A loop that does anything else is refused.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::scheduler::Refusal;
use crate::c::function::Function;
use crate::c::source::{nodes, root};

/// The variable that an assignment, `++` or `--` changes.
fn changed(node: Node<'_>) -> Option<Node<'_>> {
    let field = match node.kind() {
        "assignment_expression" => "left",
        "update_expression" => "argument",
        _ => return None,
    };
    node.child_by_field_name(field).map(root)
}

/// The static variables that a function changes: the state of the queue.
pub(super) fn state<'s>(queue: &Function<'s>) -> BTreeSet<&'s str> {
    let names = nodes(queue.body).filter_map(changed).map(|node| queue.file.text_of(node));
    names.filter(|name| !queue.variables.contains_key(*name)).collect()
}

/// The first use of one of these variables below a node, outside of another.
pub(super) fn first_use<'s>(
    function: &Function<'s>,
    within: Node<'s>,
    except: Option<Node<'s>>,
    names: &BTreeSet<&str>,
) -> Option<Node<'s>> {
    let mut found = nodes(within).filter(|node| node.kind() == "identifier");
    found.find(|node| {
        let text = function.file.text_of(*node);
        names.contains(text)
            && !function.variables.contains_key(text)
            && !except.is_some_and(|except| except.byte_range().contains(&node.start_byte()))
    })
}

/// Refuses a loop with effects other than those of `call`, which executes a stage, and of removing requests from the
/// queue with this state.
pub(super) fn check<'s>(
    scheduler: &Function<'s>,
    inner: Node<'s>,
    call: Node<'s>,
    state: &BTreeSet<&str>,
) -> Result<(), Refusal> {
    let refuse =
        |node: Node<'s>, message: &str| Err((scheduler.file.place(node), message.to_owned()));
    let body = inner.child_by_field_name("body");
    let mut within = call;
    while Some(within) != body {
        let Some(parent) = within.parent().filter(|parent| *parent != inner) else {
            return refuse(call, "the call is not a statement of the loop over active requests");
        };
        match parent.kind() {
            "expression_statement" => (),
            "compound_statement" => {
                let statements =
                    (0..parent.named_child_count()).filter_map(|i| parent.named_child(i as u32));
                if let Some(other) =
                    statements.filter(|node| *node != within).find(|node| !is_removal(*node))
                {
                    return refuse(
                        other,
                        "the loop over active requests, which `stingy_run` replaces, contains this statement too",
                    );
                }
            }
            _ => {
                return refuse(
                    call,
                    "a stage is executed under a condition within the loop over active requests",
                );
            }
        }
        within = parent;
    }
    let text = |node| scheduler.file.text_of(node);
    for variable in nodes(inner).filter_map(changed) {
        let name = text(variable);
        let is_local = scheduler.variables.contains_key(name)
            && !scheduler.parameters.iter().any(|p| p == name);
        let is_read_elsewhere = || {
            let mut others = nodes(scheduler.body)
                .filter(|node| node.kind() == "identifier" && text(*node) == name);
            others.any(|node| {
                let is_declared = node.parent().is_some_and(|parent| {
                    parent.kind().ends_with("declarator")
                        && parent.child_by_field_name("declarator") == Some(node)
                        || parent.kind() == "declaration"
                });
                !is_declared && !inner.byte_range().contains(&node.start_byte())
            })
        };
        if !state.contains(name) && (!is_local || is_read_elsewhere()) {
            return refuse(
                variable,
                "the loop over active requests, which `stingy_run` replaces, changes this variable",
            );
        }
    }
    let update = inner.child_by_field_name("update");
    match update.and_then(|update| nodes(update).find(|node| node.kind() == "call_expression")) {
        Some(other) => refuse(
            other,
            "the loop over active requests, which `stingy_run` replaces, calls this too",
        ),
        None => Ok(()),
    }
}

/// Whether a statement only assigns to a variable.
fn is_removal(statement: Node<'_>) -> bool {
    match statement.kind() {
        "comment" | "declaration" => true,
        "expression_statement" => statement.named_child(0).is_some_and(|value| {
            value.kind() == "assignment_expression"
                && value.child_by_field_name("left").is_some_and(|left| left.kind() == "identifier")
        }),
        _ => false,
    }
}
