//! Replacements in source files, and the patch that they make.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use similar::TextDiff;
use tree_sitter::Node;

use crate::c::source::{File, nodes};
use crate::error::Error;

/// The replacements of all files.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    by_file: BTreeMap<PathBuf, Vec<(Range<usize>, String)>>,
}

impl Edits {
    pub(crate) fn replace(&mut self, file: &File, range: Range<usize>, by: impl Into<String>) {
        self.by_file.entry(file.path.clone()).or_default().push((range, by.into()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_file.is_empty()
    }

    /// The text of a file after its replacements, `None` if there are none.
    fn apply(&mut self, file: &File) -> Option<Result<String, Error>> {
        let mut edits = self.by_file.remove(&file.path)?;
        edits.sort_by_key(|(range, _)| range.start);
        let mut text = String::new();
        let mut at = 0;
        for (range, by) in edits {
            if range.start < at {
                let line = file.text[..range.start].lines().count();
                let what = format!("line {line}: two replacements overlap; split the expression");
                return Some(Err(Error::contents(&file.path, what)));
            }
            text += &file.text[at..range.start];
            text += &by;
            at = range.end;
        }
        text += &file.text[at..];
        Some(Ok(text))
    }

    /// The patch of all files. Changed files include `stingy.h` and lose static functions and variables that no code
    /// uses any more.
    pub(crate) fn patch(mut self, files: &[File]) -> Result<String, Error> {
        let mut patch = String::new();
        for file in files {
            let Some(text) = self.apply(file) else { continue };
            let text = without_unused(file, with_header(&file.path, text?));
            let (from, to) = (Path::new("a").join(&file.path), Path::new("b").join(&file.path));
            let diff = TextDiff::from_lines(file.text.as_str(), text.as_str());
            let (from, to) = (from.display().to_string(), to.display().to_string());
            patch += &diff.unified_diff().header(&from, &to).to_string();
        }
        Ok(patch)
    }
}

/// Adds `#include "stingy.h"` behind the last unconditional include before the first function.
fn with_header(path: &Path, text: String) -> String {
    let file = File::parse(path.to_owned(), text);
    let root = file.tree.root_node();
    let mut cursor = root.walk();
    let head = root.children(&mut cursor).take_while(|node| node.kind() != "function_definition");
    let includes = head.filter(|node| node.kind() == "preproc_include");
    let at = includes.last().map_or(0, |node| node.end_byte());
    let mut text = file.text;
    text.insert_str(at, "#include \"stingy.h\"\n");
    text
}

/// Removes static functions and variables that were used in the original and are not any more.
fn without_unused(original: &File, mut text: String) -> String {
    loop {
        let file = File::parse(original.path.clone(), text);
        let root = file.tree.root_node();
        let mut cursor = root.walk();
        let unused = root.children(&mut cursor).find(|&item| {
            static_name(&file, item).is_some_and(|name| {
                let is_new = uses(original, original.tree.root_node(), name) <= 1;
                uses(&file, root, name) == uses(&file, item, name) && !is_new
            })
        });
        let Some(item) = unused else { return file.text };
        let mut range = item.byte_range();
        // The comment right above belongs to it.
        if let Some(comment) = item.prev_sibling().filter(|node| node.kind() == "comment")
            && comment.end_position().row + 1 == item.start_position().row
        {
            range.start = comment.start_byte();
        }
        let rest = file.text[range.end..].trim_start_matches([' ', '\t']);
        let rest = rest.strip_prefix('\n').unwrap_or(rest);
        let before = &file.text[..range.start];
        let rest = if before.ends_with("\n\n") { rest.trim_start_matches('\n') } else { rest };
        text = format!("{before}{rest}");
    }
}

/// The name of a static function, or of a declaration of one static variable.
fn static_name<'f>(file: &'f File, item: Node<'_>) -> Option<&'f str> {
    if !matches!(item.kind(), "function_definition" | "declaration") {
        return None;
    }
    let mut cursor = item.walk();
    let is_static = item
        .children(&mut cursor)
        .any(|child| child.kind() == "storage_class_specifier" && file.text_of(child) == "static");
    let declarators = item.children_by_field_name("declarator", &mut cursor).count();
    if !is_static || declarators != 1 {
        return None;
    }
    let mut node = item.child_by_field_name("declarator")?;
    while node.kind() != "identifier" {
        node = node.child_by_field_name("declarator")?;
    }
    Some(file.text_of(node))
}

/// How often an identifier occurs below a node.
fn uses(file: &File, root: Node<'_>, name: &str) -> usize {
    nodes(root).filter(|node| node.kind() == "identifier" && file.text_of(*node) == name).count()
}
