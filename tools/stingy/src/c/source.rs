//! Source files and their syntax trees.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser, Tree};

use super::{blank, conditionals};
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
        Self::parse_without(path, text, &HashSet::new())
    }

    /// Parses a file as if it did not use these macros.
    fn parse_without(path: PathBuf, text: String, macros: &HashSet<String>) -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_c::LANGUAGE.into()).expect("the grammar's version");
        let mut parse = |text: &str| {
            parser.parse(text, None).expect("a parser with a language and without limits")
        };
        let tree = conditionals::parse(blank::without(&text, macros), &mut parse);
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
    let mut texts = Vec::new();
    for path in paths {
        let whole = folder.join(&path);
        let bytes = std::fs::read(&whole).map_err(Error::read(&whole))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::contents(&whole, "not UTF-8; convert the file"))?;
        texts.push((path, text));
    }
    let macros: HashSet<String> =
        texts.iter().flat_map(|(_, text)| blank::macros(text)).map(str::to_owned).collect();
    let parse = |(path, text)| File::parse_without(path, text, &macros);
    Ok(texts.into_iter().map(parse).collect())
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
