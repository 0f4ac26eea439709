//! Macros without parameters, and the files in which their values are known.

use std::collections::HashMap;
use std::path::PathBuf;

use tree_sitter::Node;

use super::source::File;

/// Maximum length of a chain of macros for one another.
const MAX_ALIASES: usize = 16;

/// Definitions of macros by name.
#[derive(Debug, Default)]
pub(crate) struct Macros {
    by_name: HashMap<String, Vec<Definition>>,
}

#[derive(Debug)]
struct Definition {
    file: PathBuf,
    value: String,
    /// The definition holds if nothing before, such as an option of the compiler, has defined the macro.
    is_default: bool,
}

impl Macros {
    /// Adds a `preproc_def`.
    pub(super) fn add(&mut self, file: &File, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name).map(|node| file.text_of(node).trim());
        let (Some(name), Some(value)) = (field("name"), field("value")) else { return };
        let conditionals = std::iter::successors(node.parent(), |node| node.parent());
        let is_default = conditionals.filter(|node| node.kind() == "preproc_ifdef").any(|node| {
            let tests = node.child_by_field_name("name").map(|node| file.text_of(node));
            tests == Some(name) && file.text_of(node).starts_with("#ifndef")
        });
        let definition =
            Definition { file: file.path.clone(), value: value.to_owned(), is_default };
        self.by_name.entry(name.to_owned()).or_default().push(definition);
    }

    /// The value of a macro in a file: that of its definitions there, or else in headers. `None` if it has several.
    pub(crate) fn value(&self, file: &File, name: &str) -> Option<&str> {
        let all = self.by_name.get(name)?;
        let is_header = |definition: &&Definition| {
            definition.file.extension().is_some_and(|extension| extension == "h")
        };
        let mut visible: Vec<_> =
            all.iter().filter(|definition| definition.file == file.path).collect();
        if visible.is_empty() {
            visible.extend(all.iter().filter(is_header));
        }
        let first = *visible.first()?;
        let is_known =
            |definition: &&Definition| definition.value == first.value && !definition.is_default;
        visible.iter().all(is_known).then_some(first.value.as_str())
    }

    /// The values of a macro in all files.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.by_name.get(name).into_iter().flatten().map(|definition| definition.value.as_str())
    }

    /// The name that a name in a file stands for, if it is a macro for another name.
    pub(crate) fn alias<'n>(&'n self, file: &File, mut name: &'n str) -> &'n str {
        for _ in 0..MAX_ALIASES {
            let Some(value) = self.value(file, name) else { break };
            let value = value.trim_matches(['(', ')', ' ', '\t']);
            if !is_name(value) || value == name {
                break;
            }
            name = value;
        }
        name
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
