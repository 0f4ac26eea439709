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
                let message =
                    format!("line {line}: two replacements overlap; split the expression");
                return Some(Err(Error::contents(&file.path, message)));
            }
            text += &file.text[at..range.start];
            text += &by;
            at = range.end;
        }
        text += &file.text[at..];
        Some(Ok(text))
    }

    /// The patch of all files, for the folder of the description. Changed files include `stingy.h` and lose static
    /// functions and variables that no code uses any more.
    pub(crate) fn patch(mut self, folder: &Path, files: &[File]) -> Result<String, Error> {
        let mut patch = String::new();
        for file in files {
            let Some(text) = self.apply(file) else { continue };
            let text = without_unused(file, with_header(&file.path, text?));
            let path = resolve_within(folder, &file.path)?;
            // A name with spaces ends with a tab.
            let end = if path.contains(' ') { "\t" } else { "" };
            let diff = TextDiff::from_lines(file.text.as_str(), text.as_str());
            let header = ["a", "b"].map(|side| format!("{side}/{path}{end}"));
            patch += &diff.unified_diff().header(&header[0], &header[1]).to_string();
        }
        Ok(patch)
    }
}

/// The path of a source in the folder of the description. `patch` changes no file outside of it.
fn resolve_within(folder: &Path, path: &Path) -> Result<String, Error> {
    let full_path = folder.join(path);
    let canonical = |path: &Path| path.canonicalize().map_err(Error::read(path));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (folder, source) = (canonical(folder)?, canonical(&full_path)?);
    let inner = source.strip_prefix(&folder).map_err(|_| {
        let message = format!(
            "outside of {}, so that `patch -p1` would not find it; move the description to a folder with all sources",
            folder.display()
        );
        Error::contents(&full_path, message)
    })?;
    Ok(inner.display().to_string())
}

/// Adds `#include "stingy.h"` behind the last include before the first function.
fn with_header(path: &Path, text: String) -> String {
    let file = File::parse(path.to_owned(), text);
    let at = behind_includes(file.tree.root_node()).unwrap_or(0);
    let mut text = file.text;
    // A directive may end without its line.
    let is_whole = at == 0 || text[..at].ends_with('\n');
    let rest = if is_whole { 0 } else { text[at..].find('\n').map_or(0, |end| end + 1) };
    text.insert_str(at + rest, "#include \"stingy.h\"\n");
    text
}

/// The end of the last include, or of the conditional around it, before the first function. If a conditional contains
/// both, such as one around the whole file, the position is in it.
fn behind_includes(root: Node<'_>) -> Option<usize> {
    let contains = |node: &Node<'_>, kind| nodes(*node).any(|inner| inner.kind() == kind);
    let mut at = None;
    for i in 0..root.child_count() {
        let Some(item) = root.child(i as u32) else { continue };
        if contains(&item, "function_definition") {
            let is_first = at.is_none() && item.kind() != "function_definition";
            return at.or_else(|| is_first.then(|| behind_includes(item)).flatten());
        }
        if contains(&item, "preproc_include") {
            at = Some(item.end_byte());
        }
    }
    at
}

/// Removes static functions and variables that were used in the original and are not any more.
fn without_unused(original: &File, mut text: String) -> String {
    loop {
        let file = File::parse(original.path.clone(), text);
        let root = file.tree.root_node();
        let mut cursor = root.walk();
        let unused = root.children(&mut cursor).find(|&item| {
            static_name(&file, item)
                .is_some_and(|name| !is_used(&file, name) && is_used(original, name))
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

/// Whether a file uses a static name outside of its declarations and its definition.
fn is_used(file: &File, name: &str) -> bool {
    let root = file.tree.root_node();
    let mut cursor = root.walk();
    let items = root.children(&mut cursor).filter(|item| static_name(file, *item) == Some(name));
    uses(file, root, name) > items.map(|item| uses(file, item, name)).sum()
}

/// How often an identifier occurs below a node.
fn uses(file: &File, root: Node<'_>, name: &str) -> usize {
    nodes(root).filter(|node| node.kind() == "identifier" && file.text_of(*node) == name).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_between_the_includes_and_the_code() {
        for (before, after) in [
            ("#include <a.h>\n#include <b.h>\n", "int x;\nvoid f(void) {}\n#include <c.h>\n"),
            // Before these headers the macro would have no effect.
            ("#define _GNU_SOURCE\n#ifdef A\n#include <a.h>\n#endif\n", "void f(void) {}\n"),
            (
                "#include <a.h>\n",
                "#ifdef A\nvoid f(void) {}\n#endif\n#include <b.h>\nvoid g(void) {}\n",
            ),
            ("#ifdef A\n#include <a.h>\n", "void f(void) {}\n#endif\n"),
            ("", "void f(void) {}\n"),
        ] {
            let found = with_header(Path::new("a.c"), format!("{before}{after}"));
            assert_eq!(found, format!("{before}#include \"stingy.h\"\n{after}"));
        }
    }
}
