//! The functions of a program, with the declarations and macros that their expressions use.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use tree_sitter::Node;

use super::macros::Macros;
use super::source::{File, nodes};
use super::types::{Derivation, Type};

/// A function with its body.
#[derive(Debug)]
pub(crate) struct Function<'s> {
    pub(crate) name: String,
    /// The name, with the file if another file defines a function of the same name and this one is static.
    pub(crate) key: String,
    pub(crate) file: &'s File,
    pub(crate) node: Node<'s>,
    pub(crate) body: Node<'s>,
    pub(crate) parameters: Vec<String>,
    /// Types of parameters and local variables.
    pub(crate) variables: HashMap<String, Type>,
}

/// The functions of all sources.
#[derive(Debug, Default)]
pub(crate) struct Functions<'s> {
    /// By their keys.
    pub(crate) by_name: BTreeMap<String, Function<'s>>,
    /// Further definitions with the same keys, such as the alternatives of an `#if`.
    alternatives: Vec<Function<'s>>,
    /// Macros without parameters.
    pub(crate) macros: Macros,
    /// Macros with parameters: the names of the parameters, and the value as the body of a function.
    pub(crate) macro_functions: BTreeMap<String, (Vec<String>, File)>,
}

impl<'s> Functions<'s> {
    pub(crate) fn collect(files: &'s [File]) -> Self {
        let mut functions = Self::default();
        let mut found = Vec::new();
        for file in files {
            for node in nodes(file.tree.root_node()) {
                match node.kind() {
                    "function_definition" => {
                        found.extend(Function::read(file, node));
                    }
                    "preproc_def" => functions.macros.add(file, node),
                    "preproc_function_def" => functions.add_macro(file, node),
                    _ => (),
                }
            }
        }
        functions.add(found);
        functions
    }

    fn add(&mut self, found: Vec<Function<'s>>) {
        let mut files: HashMap<String, BTreeSet<&Path>> = HashMap::new();
        for function in &found {
            files.entry(function.name.clone()).or_default().insert(&function.file.path);
        }
        for mut function in found {
            if files[&function.name].len() > 1 && function.is_static() {
                function.key = key(function.file, &function.name);
            }
            // Of the alternatives of an `#if` the longest counts.
            let bytes = |function: &Function<'_>| function.body.byte_range().len();
            match self.by_name.entry(function.key.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(function);
                }
                Entry::Occupied(mut entry) if bytes(entry.get()) <= bytes(&function) => {
                    self.alternatives.push(entry.insert(function));
                }
                Entry::Occupied(_) => self.alternatives.push(function),
            }
        }
    }

    /// All definitions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Function<'s>> {
        self.by_name.values().chain(&self.alternatives)
    }

    /// The value of a macro without parameters in a file, if it has one only.
    pub(crate) fn macro_value(&self, file: &File, name: &str) -> Option<&str> {
        self.macros.value(file, name)
    }

    /// The function that a name in a file refers to, also if the name is a macro for that of the function.
    pub(crate) fn find(&self, file: &File, name: &str) -> Option<&Function<'s>> {
        let known = |name: &str| {
            let own_functions = || self.by_name.get(&key(file, name));
            self.by_name
                .get(name)
                .filter(|found| found.file.path == file.path)
                .or_else(own_functions)
                .or_else(|| self.by_name.get(name))
        };
        known(name).or_else(|| self.macros.values(name).find_map(known))
    }

    fn add_macro(&mut self, file: &File, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        let (Some(name), Some(list), Some(value)) =
            (field("name"), field("parameters"), field("value"))
        else {
            return;
        };
        let parameters = (0..list.named_child_count())
            .filter_map(|i| list.named_child(i as u32))
            .map(|parameter| file.text_of(parameter).to_owned())
            .collect();
        // In a continued line the backslash is no part of the value.
        let value = file.text_of(value).replace("\\\n", "\n");
        let body = File::parse(file.path.clone(), format!("void f(void) {{ {value}; }}"));
        self.macro_functions.insert(file.text_of(name).to_owned(), (parameters, body));
    }
}

/// The key of a static function.
fn key(file: &File, name: &str) -> String {
    format!("{name} ({})", file.path.display())
}

impl<'s> Function<'s> {
    fn is_static(&self) -> bool {
        let mut cursor = self.node.walk();
        self.node.children(&mut cursor).any(|child| {
            child.kind() == "storage_class_specifier" && self.file.text_of(child) == "static"
        })
    }

    fn read(file: &'s File, node: Node<'s>) -> Option<Self> {
        let body = node.child_by_field_name("body")?;
        let mut declarator = node.child_by_field_name("declarator")?;
        while declarator.kind() != "function_declarator" {
            declarator = declarator.child_by_field_name("declarator")?;
        }
        let (name, _) = declared(file, declarator.child_by_field_name("declarator")?)?;
        let mut variables = HashMap::new();
        let mut parameters = Vec::new();
        let list = declarator.child_by_field_name("parameters")?;
        for i in 0..list.named_child_count() {
            let Some(parameter) = list.named_child(i as u32) else { continue };
            if parameter.kind() == "parameter_declaration" {
                let read = declarations(file, parameter);
                parameters.push(read.first().map(|(name, _)| name.clone()).unwrap_or_default());
                variables.extend(read.into_iter().map(|(name, ty)| (name, ty.decayed())));
            }
        }
        for node in nodes(body).filter(|node| node.kind() == "declaration") {
            for (name, ty) in declarations(file, node) {
                // Blocks may declare different variables of one name.
                let known = variables.entry(name).or_insert_with(|| ty.clone());
                if *known != ty {
                    *known = Type::unknown();
                }
            }
        }
        Some(Self { key: name.clone(), name, file, node, body, parameters, variables })
    }
}

/// The variables of a declaration and their types.
fn declarations(file: &File, node: Node<'_>) -> Vec<(String, Type)> {
    let Some(base) = node.child_by_field_name("type").map(|node| type_name(file, node)) else {
        return Vec::new();
    };
    let mut cursor = node.walk();
    node.children_by_field_name("declarator", &mut cursor)
        .filter_map(|declarator| declared(file, declarator))
        .map(|(name, derived)| (name, Type { base: base.clone(), derived }))
        .collect()
}

/// The name of a type specifier, without `struct` and the like.
pub(crate) fn type_name(file: &File, node: Node<'_>) -> String {
    let name = match node.kind() {
        "struct_specifier" | "union_specifier" | "enum_specifier" => {
            node.child_by_field_name("name").unwrap_or(node)
        }
        _ => node,
    };
    file.text_of(name).to_owned()
}

/// The type that a `type_descriptor` names.
pub(crate) fn described(file: &File, node: Node<'_>) -> Option<Type> {
    let base = type_name(file, node.child_by_field_name("type")?);
    let derived = node.child_by_field_name("declarator").map(derived).unwrap_or_default();
    Some(Type { base, derived })
}

/// The name that a declarator declares, and the pointers and arrays of its type.
pub(crate) fn declared(file: &File, declarator: Node<'_>) -> Option<(String, Vec<Derivation>)> {
    let name = std::iter::successors(Some(declarator), |node| inner(*node)).find(|node| {
        matches!(node.kind(), "identifier" | "field_identifier" | "type_identifier")
    })?;
    Some((file.text_of(name).to_owned(), derived(declarator)))
}

/// The pointers and arrays of a declarator, which may lack a name. Lengths are not evaluated.
pub(crate) fn derived(declarator: Node<'_>) -> Vec<Derivation> {
    let declarators = std::iter::successors(Some(declarator), |node| inner(*node));
    let mut found: Vec<_> = declarators
        .filter_map(|node| match node.kind() {
            "pointer_declarator" | "abstract_pointer_declarator" => Some(Derivation::Pointer),
            "array_declarator" | "abstract_array_declarator" => Some(Derivation::Array(None)),
            _ => None,
        })
        .collect();
    // The declarator closest to the name is the outermost of the type.
    found.reverse();
    found
}

/// The declarator in another.
fn inner(node: Node<'_>) -> Option<Node<'_>> {
    let is_parenthesized =
        matches!(node.kind(), "parenthesized_declarator" | "abstract_parenthesized_declarator");
    let first = || is_parenthesized.then(|| node.named_child(0)).flatten();
    node.child_by_field_name("declarator").or_else(first)
}
