//! The functions that calls through pointers may reach.
//!
//! Pointers are distinguished by name: members and static variables by their own, parameters and local variables also
//! by their function. Assignments, initializers and arguments make a function reach a pointer.

use std::collections::{BTreeSet, HashMap};

use tree_sitter::Node;

use super::debug_info::{DebugInfo, Layout};
use super::function::{Function, Functions, declared, described, type_name};
use super::source::{File, nodes, unparenthesized};
use super::types::Type;

/// Functions by the name of the pointer.
pub(crate) type Targets = HashMap<String, BTreeSet<String>>;

/// Finds the functions that each pointer may refer to.
pub(crate) fn collect(functions: &Functions<'_>, files: &[File], info: &DebugInfo) -> Targets {
    let mut flows = Flows {
        functions,
        info,
        macros: HashMap::new(),
        by_source: HashMap::new(),
        direct: Vec::new(),
    };
    flows.add_macros();
    for file in files {
        let mut todo = vec![file.tree.root_node()];
        while let Some(node) = todo.pop() {
            flows.add(Code { file, function: None }, node);
            todo.extend(children(node).filter(|child| child.kind() != "function_definition"));
        }
    }
    for function in functions.all() {
        for node in nodes(function.body) {
            flows.add(Code { file: function.file, function: Some(function) }, node);
        }
    }
    flows.targets()
}

/// The name of the pointer that an expression is.
pub(crate) fn pointer(function: &Function<'_>, node: Node<'_>) -> Option<String> {
    Code { file: function.file, function: Some(function) }.pointer(node)
}

/// The name of a parameter or local variable as a pointer.
fn local(function: &Function<'_>, name: &str) -> String {
    format!("{}::{name}", function.key)
}

fn children(node: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    (0..node.named_child_count()).filter_map(move |i| node.named_child(i as u32))
}

/// The member that an `initializer_pair` initializes; `None` for an element of an array.
pub(crate) fn designated<'f>(file: &'f File, pair: Node<'_>) -> Option<&'f str> {
    let mut cursor = pair.walk();
    let designators = pair.children_by_field_name("designator", &mut cursor);
    let last = designators.filter(|designator| designator.kind() == "field_designator").last()?;
    last.named_child(0).map(|name| file.text_of(name))
}

/// Where an expression is.
#[derive(Clone, Copy)]
struct Code<'p, 's> {
    file: &'p File,
    function: Option<&'p Function<'s>>,
}

impl Code<'_, '_> {
    fn pointer(self, node: Node<'_>) -> Option<String> {
        let node = unparenthesized(node);
        let text = self.file.text_of(node);
        match node.kind() {
            "identifier" => Some(match self.function {
                Some(function) if function.variables.contains_key(text) => local(function, text),
                _ => text.to_owned(),
            }),
            "field_expression" => {
                Some(self.file.text_of(node.child_by_field_name("field")?).to_owned())
            }
            "pointer_expression" | "subscript_expression" => {
                self.pointer(node.child_by_field_name("argument")?)
            }
            _ => None,
        }
    }
}

struct Flows<'p, 's> {
    functions: &'p Functions<'s>,
    info: &'p DebugInfo,
    /// Members that a macro assigns parameters to, with the index of the parameter.
    macros: HashMap<&'p str, Vec<(String, usize)>>,
    /// The pointers that the value of a pointer is assigned to.
    by_source: HashMap<String, BTreeSet<String>>,
    /// Pointers and functions.
    direct: Vec<(String, String)>,
}

impl<'p> Flows<'p, '_> {
    fn add_macros(&mut self) {
        for (name, (parameters, body)) in &self.functions.macro_functions {
            let code = Code { file: body, function: None };
            for node in nodes(body.tree.root_node()) {
                let field = |name| node.child_by_field_name(name).map(unparenthesized);
                let (Some(left), Some(right)) = (field("left"), field("right")) else { continue };
                let value = body.text_of(right);
                let index = parameters.iter().position(|parameter| parameter == value);
                if let (Some(to), Some(index)) = (code.pointer(left), index)
                    && node.kind() == "assignment_expression"
                {
                    self.macros.entry(name).or_default().push((to, index));
                }
            }
        }
    }

    fn add(&mut self, code: Code<'_, '_>, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "assignment_expression" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assign(code, code.pointer(left), right);
                }
            }
            "initializer_pair" => {
                if let (Some(to), Some(value)) = (designated(code.file, node), field("value")) {
                    self.assign(code, Some(to.to_owned()), value);
                }
            }
            "compound_literal_expression" => {
                let ty = field("type").and_then(|ty| described(code.file, ty));
                if let (Some(ty), Some(list)) = (ty, field("value")) {
                    self.add_list(code, list, &self.info.canonical(&ty), None);
                }
            }
            "init_declarator" => self.add_variable(code, node),
            "call_expression" => self.add_arguments(code, node),
            _ => (),
        }
    }

    fn add_variable(&mut self, code: Code<'_, '_>, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        let (Some(declarator), Some(value)) = (field("declarator"), field("value")) else { return };
        let Some((name, derived)) = declared(code.file, declarator) else { return };
        let to = code.function.map_or_else(|| name.clone(), |f| local(f, &name));
        if value.kind() != "initializer_list" {
            return self.assign(code, Some(to), value);
        }
        let ty = node.parent().and_then(|declaration| declaration.child_by_field_name("type"));
        let Some(ty) = ty else { return };
        // Only the compiler names anonymous structures.
        let known = self.info.variables.get(&name).filter(|_| code.function.is_none());
        let ty = known.cloned().unwrap_or(Type { base: type_name(code.file, ty), derived });
        self.add_list(code, value, &self.info.canonical(&ty), Some(&to));
    }

    /// Adds the values of a structure, in the order of its members, or those of the array `to`.
    fn add_list(&mut self, code: Code<'_, '_>, list: Node<'_>, ty: &Type, to: Option<&str>) {
        let info = self.info;
        let layout = info.layouts.get(&ty.base).filter(|_| ty.derived.is_empty());
        let mut next = 0;
        for value in children(list).filter(|node| node.kind() != "comment") {
            let is_pair = value.kind() == "initializer_pair";
            let name = designated(code.file, value).filter(|_| is_pair);
            let at = |layout: &Layout, name| {
                layout.members.iter().position(|(member, _)| member == name)
            };
            if let (Some(layout), Some(name)) = (layout, name) {
                next = at(layout, name).unwrap_or(layout.members.len());
            }
            let member = layout.and_then(|layout| layout.members.get(next));
            next += 1;
            let inner = match member {
                Some((_, ty)) => Some(info.canonical(ty)),
                None => ty.clone().element(),
            };
            let to = member.map_or(to, |(name, _)| Some(name.as_str()));
            let Some(value) =
                (if is_pair { value.child_by_field_name("value") } else { Some(value) })
            else {
                continue;
            };
            match inner.filter(|_| value.kind() == "initializer_list") {
                Some(inner) => self.add_list(code, value, &inner, to),
                None if name.is_none() => self.assign(code, to.map(str::to_owned), value),
                // All initializers of members are added on their own.
                None => (),
            }
        }
    }

    fn add_arguments(&mut self, code: Code<'_, '_>, call: Node<'_>) {
        let Some(callee) = call.child_by_field_name("function").map(unparenthesized) else {
            return;
        };
        let Some(list) = call.child_by_field_name("arguments") else { return };
        let functions = self.functions;
        let callee = code.file.text_of(callee);
        let assigned = self.macros.get(callee).cloned().unwrap_or_default();
        let called = functions.find(code.file, callee);
        let arguments = children(list).filter(|argument| argument.kind() != "comment");
        for (i, argument) in arguments.enumerate() {
            for (to, _) in assigned.iter().filter(|(_, index)| *index == i) {
                self.assign(code, Some(to.clone()), argument);
            }
            let parameter =
                called.and_then(|called| Some(local(called, called.parameters.get(i)?)));
            self.assign(code, parameter, argument);
        }
    }

    /// The pointer may refer to what the value refers to.
    fn assign(&mut self, code: Code<'_, '_>, to: Option<String>, value: Node<'_>) {
        let Some(to) = to else { return };
        let value = unparenthesized(value);
        if value.kind() == "conditional_expression" {
            for field in ["consequence", "alternative"] {
                if let Some(value) = value.child_by_field_name(field) {
                    self.assign(code, Some(to.clone()), value);
                }
            }
            return;
        }
        let Some(from) = code.pointer(value) else { return };
        if let Some(function) = self.functions.find(code.file, &from) {
            self.direct.push((to, function.key.clone()));
        } else if from != to {
            self.by_source.entry(from).or_default().insert(to);
        }
    }

    fn targets(self) -> Targets {
        let mut targets = Targets::new();
        let mut todo = self.direct;
        while let Some((pointer, function)) = todo.pop() {
            let next = self.by_source.get(&pointer).into_iter().flatten();
            let next = next.map(|pointer| (pointer.clone(), function.clone()));
            if targets.entry(pointer.clone()).or_default().insert(function.clone()) {
                todo.extend(next);
            }
        }
        targets
    }
}
