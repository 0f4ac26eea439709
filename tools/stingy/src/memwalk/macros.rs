//! Calls, assignments and memory of macros with parameters, which are read but not expanded.

use std::collections::{BTreeSet, HashMap};

use tree_sitter::Node;

use super::config::Config;
use crate::c::function::Functions;
use crate::c::source::{File, nodes, unparenthesized};

/// Maximum depth of macros in macros.
const MAX_DEPTH: usize = 16;

/// A value that a macro assigns or passes on.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// The parameter with this index.
    Parameter(usize),
    /// Another expression, with the names in it.
    Names(Vec<String>),
}

/// The calls and assignments of a macro.
#[derive(Clone, Debug, Default)]
pub(super) struct Macro {
    /// Called names with their arguments.
    pub(super) calls: Vec<(String, Vec<Value>)>,
    /// Members with the values that are assigned to them.
    pub(super) assigned: Vec<(String, Value)>,
    is_conditional: bool,
}

/// The memory that a macro allocates and frees, also through other macros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// An allocating function that it calls.
    pub(crate) allocates: Option<String>,
    /// Indexes of parameters that it frees.
    pub(crate) frees: BTreeSet<usize>,
    /// It does not free on every path.
    pub(crate) is_conditional: bool,
}

/// The macros of a program by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Macros(HashMap<String, Macro>);

impl Macros {
    pub(super) fn collect(functions: &Functions<'_>) -> Self {
        let all = functions.macro_functions.iter();
        Self(all.map(|(name, (of, body))| (name.clone(), Macro::read(of, body))).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Macro)> {
        self.0.iter()
    }

    /// All names that a macro calls, also through other macros.
    pub(super) fn called(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut todo: Vec<&str> = Vec::new();
        let mut next = self.0.get(name);
        loop {
            let calls = next.into_iter().flat_map(|of| &of.calls).map(|(name, _)| name.as_str());
            todo.extend(calls.filter(|name| found.insert(*name)));
            let Some(name) = todo.pop() else { return found };
            next = self.0.get(name);
        }
    }

    pub(super) fn memory(&self, config: &Config, name: &str) -> Option<Memory> {
        self.0.contains_key(name).then(|| self.memory_within(config, name, 0))
    }

    fn memory_within(&self, config: &Config, name: &str, depth: usize) -> Memory {
        let mut memory = Memory::default();
        let Some(of) = self.0.get(name).filter(|_| depth < MAX_DEPTH) else { return memory };
        memory.is_conditional = of.is_conditional;
        for (name, arguments) in &of.calls {
            let parameter = |index: usize| match arguments.get(index) {
                Some(Value::Parameter(index)) => Some(*index),
                _ => None,
            };
            if config.allocation(name).is_some() {
                memory.allocates = Some(name.clone());
            } else if let Some(by) = config.deallocation(name) {
                memory.frees.extend(parameter(by.memory));
            } else {
                let inner = self.memory_within(config, name, depth + 1);
                memory.allocates = memory.allocates.or(inner.allocates);
                memory.is_conditional |= !inner.frees.is_empty() && inner.is_conditional;
                memory.frees.extend(inner.frees.into_iter().filter_map(parameter));
            }
        }
        memory
    }
}

impl Macro {
    fn read(parameters: &[String], body: &File) -> Self {
        let value = |node: Node<'_>| {
            let node = unparenthesized(node);
            let text = body.text_of(node);
            match parameters.iter().position(|parameter| parameter == text) {
                Some(index) => Value::Parameter(index),
                None => {
                    let names = nodes(node).filter(|node| node.kind() == "identifier");
                    Value::Names(names.map(|node| body.text_of(node).to_owned()).collect())
                }
            }
        };
        let mut this = Self::default();
        for node in nodes(body.tree.root_node()) {
            let field = |name| node.child_by_field_name(name);
            match node.kind() {
                "call_expression" => {
                    let callee = field("function")
                        .map(unparenthesized)
                        .filter(|of| of.kind() == "identifier");
                    let list = field("arguments");
                    let arguments = list.into_iter().flat_map(|list| {
                        (0..list.named_child_count())
                            .filter_map(move |i| list.named_child(i as u32))
                    });
                    let arguments = arguments.filter(|node| node.kind() != "comment").map(value);
                    let name = callee.map(|callee| body.text_of(callee).to_owned());
                    this.calls.extend(name.map(|name| (name, arguments.collect())));
                }
                "assignment_expression" => {
                    let member = field("left")
                        .map(unparenthesized)
                        .and_then(|of| of.child_by_field_name("field"));
                    if let (Some(member), Some(right)) = (member, field("right")) {
                        this.assigned.push((body.text_of(member).to_owned(), value(right)));
                    }
                }
                "if_statement" | "conditional_expression" | "for_statement" | "while_statement" => {
                    this.is_conditional = true;
                }
                _ => (),
            }
        }
        this
    }
}
