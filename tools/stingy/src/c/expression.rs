//! Types and constant values of expressions.

use tree_sitter::Node;

use super::debug_info::DebugInfo;
use super::function::{Function, Functions, declared, described};
use super::source::{File, unparenthesized};
use super::types::Type;

/// Maximum depth of macros in macros.
const MAX_MACRO_DEPTH: usize = 16;

/// The declarations that expressions refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'p, 's> {
    pub(crate) info: &'p DebugInfo,
    pub(crate) functions: &'p Functions<'s>,
}

impl Scope<'_, '_> {
    /// The type of an expression in a function, behind typedefs. `None` for constructs that are not understood.
    pub(crate) fn type_of(&self, function: &Function<'_>, node: Node<'_>) -> Option<Type> {
        let file = function.file;
        let field = |name| node.child_by_field_name(name);
        let found = match node.kind() {
            "identifier" => {
                let name = file.text_of(node);
                let ty = function.variables.get(name).or_else(|| self.info.variables.get(name));
                ty.filter(|ty| !ty.is_unknown())?.clone()
            }
            "field_expression" => {
                let ty = self.type_of(function, field("argument")?)?;
                let is_clear = !self.info.ambiguous.contains(&ty.base);
                let layout = self.info.layouts.get(&ty.base).filter(|_| is_clear)?;
                layout.member(file.text_of(field("field")?))?.clone()
            }
            "pointer_expression" => {
                let ty = self.type_of(function, field("argument")?)?;
                if file.text_of(node).starts_with('*') { ty.element()? } else { ty.pointer() }
            }
            "subscript_expression" => self.type_of(function, field("argument")?)?.element()?,
            "cast_expression" => described(file, field("type")?)?,
            "parenthesized_expression" => return self.type_of(function, node.named_child(0)?),
            "call_expression" => self.info.returns.get(file.text_of(field("function")?))?.clone(),
            "assignment_expression" => return self.type_of(function, field("left")?),
            "binary_expression" => self.type_of(function, field("left")?)?.decayed(),
            _ => return None,
        };
        Some(self.info.canonical(&found))
    }

    /// The type whose size `sizeof` states.
    pub(crate) fn size_operand(&self, function: &Function<'_>, node: Node<'_>) -> Option<Type> {
        if let Some(descriptor) = node.child_by_field_name("type") {
            return described(function.file, descriptor).map(|ty| self.info.canonical(&ty));
        }
        let value = node.child_by_field_name("value")?;
        // Without a symbol table `sizeof(name_t)` parses as an expression.
        self.type_of(function, value).or_else(|| {
            let name = unparenthesized(value);
            let base = function.file.text_of(name).to_owned();
            (name.kind() == "identifier")
                .then(|| self.info.canonical(&Type::new(base)))
                .filter(|candidate| self.info.size(candidate).is_some())
        })
    }

    /// The value of a constant expression of integers, `sizeof`, enumerators and macros.
    pub(crate) fn value(&self, function: &Function<'_>, node: Node<'_>) -> Option<u64> {
        self.value_in(function, function.file, node, 0)
    }

    fn value_in(
        &self,
        at: &Function<'_>,
        file: &File,
        node: Node<'_>,
        depth: usize,
    ) -> Option<u64> {
        let operand = |name| {
            let node = node.child_by_field_name(name)?;
            self.value_in(at, file, node, depth)
        };
        match node.kind() {
            "number_literal" => number(file.text_of(node)),
            "parenthesized_expression" => self.value_in(at, file, node.named_child(0)?, depth),
            "cast_expression" => operand("value"),
            "sizeof_expression" => self.info.size(&self.size_operand(at, node)?),
            "identifier" => {
                let name = file.text_of(node);
                if at.variables.contains_key(name) {
                    return None;
                }
                if let Some(&value) = self.info.enumerators.get(name) {
                    return value.try_into().ok();
                }
                let text = self.functions.macro_value(file, name);
                let text = text.filter(|_| depth < MAX_MACRO_DEPTH)?;
                let file = File::parse(file.path.clone(), format!("int x = {text};"));
                let declaration = file.tree.root_node().named_child(0)?;
                let value = declaration.child_by_field_name("declarator")?;
                debug_assert!(declared(&file, value).is_some());
                self.value_in(at, &file, value.child_by_field_name("value")?, depth + 1)
            }
            "binary_expression" => {
                let (left, right) = (operand("left")?, operand("right")?);
                match file.text_of(node.child_by_field_name("operator")?) {
                    "+" => left.checked_add(right),
                    "-" => left.checked_sub(right),
                    "*" => left.checked_mul(right),
                    "/" => left.checked_div(right),
                    "<<" => left.checked_shl(right.try_into().ok()?),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The value of an integer literal.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}
