//! Which object an allocation or a deallocation concerns, and its size.

use tree_sitter::Node;

use super::config::Allocate;
use super::program::Program;
use crate::c::function::{Function, declared};
use crate::c::source::{casts, nodes, unparenthesized};
use crate::c::types::Type;

/// The object of an allocation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Allocated {
    pub(crate) object: String,
    /// `None`: determined at run time.
    pub(crate) bytes: Option<u64>,
    /// The size is determined at run time, and `bytes` is the bound of the description.
    pub(crate) is_bound: bool,
}

impl<'s> Program<'s> {
    /// The object that a call allocates. `Err` says what was not understood.
    pub(crate) fn allocated(
        &self,
        function: &Function<'s>,
        call: Node<'s>,
        arguments: &[Node<'s>],
        by: &Allocate,
    ) -> Result<Allocated, String> {
        if let Some(object) = &by.object {
            let object = self.info.canonical(&Type::new(object)).base;
            return Ok(self.of_known_type(object));
        }
        let argument = |index: Option<usize>| index.and_then(|index| arguments.get(index)).copied();
        let named_destination = || self.destination(function, call);
        if by.size.is_none()
            && let Some(object) = named_destination()
        {
            return Ok(self.of_known_type(object));
        }
        let Some(size) = argument(by.size) else {
            return Err(format!("`{}` without the argument that states the size", by.function));
        };
        let count = argument(by.count);
        let bytes = self.scope().value(function, size).and_then(|size| match count {
            Some(count) => size.checked_mul(self.scope().value(function, count)?),
            None => Some(size),
        });
        let Some(object) = self.sized_structure(function, size).or_else(named_destination) else {
            return Err(format!(
                "the object of `{}`: neither the size nor the destination names a type; \
                 state `object` for the allocating function",
                function.file.text_of(call)
            ));
        };
        let is_bound = bytes.is_none();
        let bytes = bytes.or_else(|| self.config.memory.sizes.get(&object).copied());
        Ok(Allocated { object, bytes, is_bound })
    }

    /// An allocation whose size no argument states.
    fn of_known_type(&self, object: String) -> Allocated {
        let is_flexible = self.info.layouts.get(&object).is_some_and(|of| of.is_flexible);
        let size = self.info.size(&Type::new(&object)).filter(|_| !is_flexible);
        let bound = self.config.memory.sizes.get(&object).copied();
        Allocated { bytes: bound.max(size), object, is_bound: bound.is_some() }
    }

    /// The object that a call frees; `Err` says what was not understood. A cast states the structure if the expression in
    /// it does not, such as a pointer without the bits that mark it.
    pub(crate) fn freed(
        &self,
        function: &Function<'s>,
        memory: Node<'s>,
    ) -> Result<String, String> {
        let stated_type = || {
            casts(memory).find_map(|cast| self.object_of(&self.scope().type_of(function, cast)?))
        };
        self.object_at(function, unparenthesized(memory)).or_else(stated_type).ok_or_else(|| {
            let text = function.file.text_of(memory);
            format!("the type of `{text}`, which is freed; free a pointer to a structure")
        })
    }

    /// The structure in a size such as `sizeof(struct a)` or `n * sizeof(*a)`.
    fn sized_structure(&self, function: &Function<'s>, size: Node<'s>) -> Option<String> {
        let sizeof = nodes(size).find(|node| node.kind() == "sizeof_expression")?;
        let of = self.scope().size_operand(function, sizeof)?;
        (of.derived.is_empty() && self.info.layouts.contains_key(&of.base)).then_some(of.base)
    }

    /// The object named by the variable or member that a call's result is assigned to.
    fn destination(&self, function: &Function<'s>, call: Node<'s>) -> Option<String> {
        let mut node = call;
        loop {
            let parent = node.parent()?;
            match parent.kind() {
                "parenthesized_expression" | "cast_expression" => node = parent,
                "assignment_expression" if parent.child_by_field_name("right") == Some(node) => {
                    return self.object_at(function, parent.child_by_field_name("left")?);
                }
                "init_declarator" => {
                    let declarator = parent.child_by_field_name("declarator")?;
                    let (name, _) = declared(function.file, declarator)?;
                    return Some(
                        self.object_of(function.variables.get(&name)?)
                            .unwrap_or_else(|| format!("{}:{name}", function.name)),
                    );
                }
                _ => return None,
            }
        }
    }

    /// The object that a pointer refers to: a structure, or the memory of a member or variable.
    fn object_at(&self, function: &Function<'s>, pointer: Node<'s>) -> Option<String> {
        let of = self.scope().type_of(function, pointer)?;
        if let Some(object) = self.object_of(&of) {
            return Some(object);
        }
        match pointer.kind() {
            "field_expression" => {
                let owner = pointer.child_by_field_name("argument")?;
                let owner = self.scope().type_of(function, owner)?;
                let member = pointer.child_by_field_name("field")?;
                Some(format!("{}.{}", owner.base, function.file.text_of(member)))
            }
            "identifier" if of.base != "void" => {
                Some(format!("{}:{}", function.name, function.file.text_of(pointer)))
            }
            _ => None,
        }
    }

    /// The structure that a pointer type refers to.
    fn object_of(&self, pointer: &Type) -> Option<String> {
        let of = self.info.canonical(pointer);
        (of.derived.len() == 1 && self.info.layouts.contains_key(&of.base)).then_some(of.base)
    }
}
