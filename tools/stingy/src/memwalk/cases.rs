//! The cases of the `switch` over the state.

use tree_sitter::Node;

use crate::c::function::Function;
use crate::c::source::{nodes, unparenthesized};

fn is_case(node: &Node<'_>) -> bool {
    node.kind() == "case_statement"
}

/// The label of a case; `None` for `default`.
pub(super) fn label<'s>(function: &Function<'s>, case: Node<'s>) -> Option<&'s str> {
    case.child_by_field_name("value").map(|value| function.file.text_of(unparenthesized(value)))
}

/// The case with the code of a label. Labels in succession share the code of the last.
pub(super) fn find<'s>(function: &Function<'s>, name: &str) -> Option<Node<'s>> {
    let mut cases = nodes(function.body).filter(is_case);
    let mut case = cases.find(|&case| label(function, case) == Some(name))?;
    while statements(case).is_empty()
        && let Some(next) = next(case)
    {
        case = next;
    }
    Some(case)
}

/// The nodes behind a case. If a directive ends it for the grammar, they begin with the rest of its statements.
fn following(case: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    std::iter::successors(case.next_named_sibling(), |node| node.next_named_sibling())
}

/// The case behind another.
pub(super) fn next(case: Node<'_>) -> Option<Node<'_>> {
    following(case).find(is_case)
}

/// The statements of a case.
pub(super) fn statements(case: Node<'_>) -> Vec<Node<'_>> {
    let value = case.child_by_field_name("value");
    (0..case.named_child_count())
        .filter_map(|i| case.named_child(i as u32))
        .filter(|child| Some(*child) != value)
        .chain(following(case).take_while(|node| !is_case(node)))
        .filter(|child| child.kind() != "comment")
        .collect()
}

/// The last node in another.
fn last(node: Node<'_>) -> Option<Node<'_>> {
    let children = (0..node.named_child_count()).filter_map(|i| node.named_child(i as u32));
    children.rev().find(|child| child.kind() != "comment")
}

/// Whether no path continues behind a statement.
pub(super) fn ends_case(statement: Node<'_>) -> bool {
    match statement.kind() {
        "break_statement" | "continue_statement" | "return_statement" | "goto_statement" => true,
        "compound_statement" | "else_clause" | "labeled_statement" => {
            last(statement).is_some_and(ends_case)
        }
        "if_statement" => ["consequence", "alternative"]
            .iter()
            .all(|field| statement.child_by_field_name(field).is_some_and(ends_case)),
        _ => false,
    }
}
