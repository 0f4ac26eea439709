//! Conditional compilation that divides a statement or a declaration, which a grammar without a preprocessor cannot parse.
//! One branch remains, and spaces replace the others.

use std::collections::BTreeSet;
use std::ops::Range;

use tree_sitter::Tree;

use super::source::nodes;

/// Which branch of `#if` remains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Branch {
    First,
    Last,
}

/// Parses a text. Where a function or declaration has errors, one branch of its conditionals remains if this reduces
/// them.
pub(super) fn parse(mut text: String, parse: &mut dyn FnMut(&str) -> Tree) -> Tree {
    let mut tree = parse(&text);
    let mut tried = BTreeSet::new();
    loop {
        let count = errors(&tree);
        let Some(range) = first_error(&tree, &tried) else { return tree };
        tried.insert(range.start);
        let function_range = range.start..end_of_function(&text, range.end);
        for branch in [Branch::Last, Branch::First] {
            let candidate = with_branch(&text, function_range.clone(), branch);
            if candidate == text {
                break;
            }
            let found = parse(&candidate);
            if errors(&found) < count {
                (text, tree) = (candidate, found);
                break;
            }
        }
    }
}

/// The number of errors in a tree.
fn errors(tree: &Tree) -> usize {
    if !tree.root_node().has_error() {
        return 0;
    }
    nodes(tree.root_node()).filter(|node| node.is_error() || node.is_missing()).count().max(1)
}

/// The first function or declaration with an error that does not begin at one of these positions.
fn first_error(tree: &Tree, tried: &BTreeSet<usize>) -> Option<Range<usize>> {
    let mut cursor = tree.root_node().walk();
    let mut items = tree.root_node().children(&mut cursor).filter(|item| item.has_error());
    items.find(|item| !tried.contains(&item.start_byte())).map(|item| item.byte_range())
}

/// The end of the first line at or behind a position that begins with a brace.
fn end_of_function(text: &str, from: usize) -> usize {
    let from = text[..from].rfind('\n').unwrap_or(0);
    text[from..].find("\n}").map_or(text.len(), |at| from + at + 2)
}

/// The text in which one branch of each conditional in a range remains. Positions do not change.
fn with_branch(text: &str, range: Range<usize>, branch: Branch) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut start = 0;
    // The conditionals around the line, with the branches so far.
    let mut around: Vec<Conditional> = Vec::new();
    let mut removed_ranges: Vec<Range<usize>> = Vec::new();
    for line in text.split_inclusive('\n') {
        let at = start..start + line.trim_end().len();
        start += line.len();
        if at.start < range.start || at.start >= range.end {
            continue;
        }
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        let word = directive.map(|rest| rest.split(|c: char| !c.is_alphabetic()).next());
        match word.flatten() {
            Some("if" | "ifdef" | "ifndef") => {
                let empty = at.end..at.end;
                around.push(Conditional { branches: vec![empty] });
                removed_ranges.push(at);
            }
            Some("elif" | "else") => {
                if let Some(conditional) = around.last_mut() {
                    conditional.branches.push(at.end..at.end);
                    removed_ranges.push(at);
                }
            }
            Some("endif") => {
                if let Some(conditional) = around.pop() {
                    removed_ranges.push(at);
                    removed_ranges.extend(conditional.removed_ranges(branch));
                }
            }
            _ => (),
        }
        for conditional in &mut around {
            if let Some(last) = conditional.branches.last_mut() {
                last.end = last.end.max(start - 1);
            }
        }
    }
    if !around.is_empty() {
        // The range contains only a part of a conditional.
        return text.to_owned();
    }
    for range in removed_ranges {
        bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The branches of a conditional.
struct Conditional {
    branches: Vec<Range<usize>>,
}

impl Conditional {
    /// The branches that do not remain.
    fn removed_ranges(mut self, branch: Branch) -> Vec<Range<usize>> {
        let remaining = match branch {
            Branch::First => 0,
            Branch::Last => self.branches.len() - 1,
        };
        self.branches.remove(remaining);
        self.branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_branch_remains() {
        let text = "f() {\n#ifdef A\n  if (a)\n# if B\n  b();\n# endif\n#else\n  if (c)\n#endif\n    d();\n}\ng();\n";
        let only = |branch| {
            let kept = with_branch(text, 0..text.len(), branch);
            assert_eq!(kept.len(), text.len());
            kept.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(only(Branch::First), "f() { if (a) b(); d(); } g();");
        assert_eq!(only(Branch::Last), "f() { if (c) d(); } g();");
        assert_eq!(with_branch(text, 0..20, Branch::First), text);
        assert_eq!(&text[end_of_function(text, 3)..], "\ng();\n");
    }
}
