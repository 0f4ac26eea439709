//! Source files and their syntax trees.

use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser, Tree};

use crate::error::Error;
use crate::model::Place;

/// A parsed source file.
#[derive(Debug)]
pub(crate) struct File {
    /// As the configuration names it.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) tree: Tree,
}

impl File {
    pub(crate) fn parse(path: PathBuf, text: String) -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_c::LANGUAGE.into()).expect("the grammar's version");
        let tree = parser
            .parse(without_attributes(&text), None)
            .expect("a parser with a language and without limits");
        Self { path, text, tree }
    }

    /// The source text of a node.
    pub(crate) fn text_of(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The position of a node.
    pub(crate) fn place(&self, node: Node<'_>) -> Place {
        Place { file: self.path.clone(), line: node.start_position().row + 1 }
    }
}

/// The text with spaces instead of macros such as `__attribute_fallthrough__` and their arguments, which the grammar takes
/// for parts of declarations. Positions do not change.
fn without_attributes(text: &str) -> String {
    const START: &str = "__attribute_";
    let mut bytes = text.as_bytes().to_vec();
    for (start, _) in text.match_indices(START) {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let name = text.as_bytes()[start..].iter().take_while(|byte| is_name(byte)).count();
        let mut end = start + name;
        if &text[start..end] == "__attribute__" {
            continue;
        }
        if text.as_bytes().get(end) == Some(&b'(') {
            let mut depth = 0_usize;
            for &byte in &text.as_bytes()[end..] {
                end += 1;
                match byte {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    _ => (),
                }
                if depth == 0 {
                    break;
                }
            }
        }
        bytes[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Reads and parses sources. A folder stands for the `.c` files directly in it.
pub(crate) fn load(folder: &Path, sources: &[PathBuf]) -> Result<Vec<File>, Error> {
    let mut paths = Vec::new();
    for source in sources {
        let path = folder.join(source);
        if !path.is_dir() {
            paths.push(source.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(Error::read(&path))? {
            let name = PathBuf::from(entry.map_err(Error::read(&path))?.file_name());
            if name.extension().is_some_and(|extension| extension == "c") {
                found.push(source.join(name));
            }
        }
        found.sort();
        paths.extend(found);
    }
    let read = |path: PathBuf| {
        let whole = folder.join(&path);
        let bytes = std::fs::read(&whole).map_err(Error::read(&whole))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::contents(&whole, "not UTF-8; convert the file"))?;
        Ok(File::parse(path, text))
    };
    paths.into_iter().map(read).collect()
}

/// All nodes of a subtree in the order of the text, the root first.
pub(crate) fn nodes<'t>(root: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    let mut stack = vec![root];
    std::iter::from_fn(move || {
        let node = stack.pop()?;
        for i in (0..node.named_child_count()).rev() {
            stack.extend(node.named_child(i as u32));
        }
        Some(node)
    })
}

/// The node without parentheses and casts around it.
pub(crate) fn bare(mut node: Node<'_>) -> Node<'_> {
    loop {
        let inner = match node.kind() {
            "parenthesized_expression" => node.named_child(0),
            "cast_expression" => node.child_by_field_name("value"),
            _ => None,
        };
        match inner {
            Some(inner) => node = inner,
            None => return node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_macros_are_blank() {
        let text = "a __attribute_cold__ b __attribute_nonnull__((1, (2))) c __attribute__((x)) d";
        assert_eq!(
            without_attributes(text).split_whitespace().collect::<Vec<_>>(),
            ["a", "b", "c", "__attribute__((x))", "d"]
        );
        assert_eq!(without_attributes(text).len(), text.len());
    }
}
