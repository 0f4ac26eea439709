//! The calls and assignments of a piece of code.

use std::ops::Range;

use tree_sitter::Node;

use crate::c::function::Function;
use crate::c::source::unparenthesized;
use crate::c::targets;

/// A part of a function: its body, or the cases of a `switch`.
#[derive(Clone, Debug)]
pub(crate) struct Region<'p, 's> {
    pub(crate) function: &'p Function<'s>,
    pub(crate) roots: Vec<Node<'s>>,
    /// Parts of the roots that do not belong to the region.
    pub(crate) except: Vec<Range<usize>>,
}

impl<'p, 's> Region<'p, 's> {
    pub(crate) fn new(function: &'p Function<'s>, roots: Vec<Node<'s>>) -> Self {
        Self { function, roots, except: Vec::new() }
    }
}

/// A call or an assignment.
#[derive(Clone, Debug)]
pub(crate) struct Event<'s> {
    pub(crate) node: Node<'s>,
    pub(crate) action: Action<'s>,
    /// Some path through the region does not reach the event.
    pub(crate) is_conditional: bool,
    /// The pointer of the innermost `if (pointer)` without `else` around the event. Such an `if` alone does not make
    /// the event conditional.
    pub(crate) guard: Option<&'s str>,
    /// The event is in a loop.
    pub(crate) is_repeated: bool,
}

/// The kind of an event.
#[derive(Clone, Debug)]
pub(crate) enum Action<'s> {
    Call {
        name: &'s str,
        arguments: Vec<Node<'s>>,
    },
    /// A call through a pointer, with the text of the member or variable and its name for [`targets`].
    Indirect {
        name: &'s str,
        pointer: Option<String>,
    },
    /// An assignment or an initialization of a member.
    Assign {
        member: &'s str,
        right: Node<'s>,
    },
}

/// The events of a region in the order of the text.
pub(crate) fn events<'s>(region: &Region<'_, 's>) -> Vec<Event<'s>> {
    let mut walk = Walk {
        function: region.function,
        has_left: false,
        has_broken: false,
        has_continued: false,
        guard: None,
        loops: 0,
        found: Vec::new(),
    };
    for &root in &region.roots {
        walk.visit(root, false);
    }
    let is_part = |event: &Event<'_>| {
        !region.except.iter().any(|range| range.contains(&event.node.start_byte()))
    };
    walk.found.retain(is_part);
    walk.found
}

struct Walk<'p, 's> {
    function: &'p Function<'s>,
    /// A statement before may have left the region, the loop or `switch`, or the turn of the loop.
    has_left: bool,
    has_broken: bool,
    has_continued: bool,
    guard: Option<&'s str>,
    /// The number of loops around the node.
    loops: usize,
    found: Vec<Event<'s>>,
}

impl<'s> Walk<'_, 's> {
    fn visit(&mut self, node: Node<'s>, is_conditional: bool) {
        let field = |name| node.child_by_field_name(name);
        let is_loop = matches!(node.kind(), "while_statement" | "for_statement" | "do_statement");
        self.loops += usize::from(is_loop);
        let (has_broken, has_continued) = (self.has_broken, self.has_continued);
        match node.kind() {
            "if_statement" => self.visit_if(node, is_conditional),
            "while_statement" | "for_statement" | "switch_statement" | "conditional_expression" => {
                for i in 0..node.named_child_count() {
                    let Some(child) = node.named_child(i as u32) else { continue };
                    let is_first =
                        Some(child) == field("condition") || Some(child) == field("initializer");
                    self.visit(child, is_conditional || !is_first);
                }
            }
            // The compiler may not see this branch.
            "preproc_if" | "preproc_ifdef" | "preproc_elif" | "preproc_else" => {
                self.visit_children(node, true);
            }
            "binary_expression" => {
                let operator = field("operator").map(|node| self.text(node));
                let is_lazy = matches!(operator, Some("&&" | "||"));
                self.visit_field(node, "left", is_conditional);
                self.visit_field(node, "right", is_conditional || is_lazy);
            }
            "return_statement" | "goto_statement" => {
                self.visit_children(node, is_conditional);
                self.has_left = true;
            }
            "break_statement" => self.has_broken = true,
            "continue_statement" => self.has_continued = true,
            "call_expression" => {
                self.visit_children(node, is_conditional);
                self.add_call(node, is_conditional);
            }
            "assignment_expression" => {
                self.visit_children(node, is_conditional);
                let is_plain = field("operator").is_none_or(|operator| self.text(operator) == "=");
                let right = if is_plain { field("right") } else { Some(node) };
                self.add_assignment(node, field("left"), right, is_conditional);
            }
            "update_expression" => {
                self.visit_children(node, is_conditional);
                self.add_assignment(node, field("argument"), Some(node), is_conditional);
            }
            "initializer_pair" => {
                self.visit_children(node, is_conditional);
                let member = targets::designated(self.function.file, node);
                if let (Some(member), Some(right)) = (member, field("value")) {
                    self.add(node, Action::Assign { member, right }, is_conditional);
                }
            }
            _ => self.visit_children(node, is_conditional),
        }
        self.loops -= usize::from(is_loop);
        if is_loop || node.kind() == "switch_statement" {
            self.has_broken = has_broken;
        }
        if is_loop {
            self.has_continued = has_continued;
        }
    }

    fn visit_if(&mut self, node: Node<'s>, is_conditional: bool) {
        self.visit_field(node, "condition", is_conditional);
        let condition = node.child_by_field_name("condition").map(unparenthesized);
        let tests_pointer = condition
            .filter(|condition| matches!(condition.kind(), "identifier" | "field_expression"))
            .filter(|_| node.child_by_field_name("alternative").is_none());
        match tests_pointer {
            Some(pointer) => {
                let outer = self.guard.replace(self.text(pointer));
                // Two pointers: only one is known.
                self.visit_field(node, "consequence", is_conditional || outer.is_some());
                self.guard = outer;
            }
            None => {
                self.visit_field(node, "consequence", true);
                self.visit_field(node, "alternative", true);
            }
        }
    }

    fn visit_field(&mut self, node: Node<'s>, field: &str, is_conditional: bool) {
        if let Some(child) = node.child_by_field_name(field) {
            self.visit(child, is_conditional);
        }
    }

    fn visit_children(&mut self, node: Node<'s>, is_conditional: bool) {
        for i in 0..node.named_child_count() {
            if let Some(child) = node.named_child(i as u32) {
                self.visit(child, is_conditional);
            }
        }
    }

    fn add_call(&mut self, node: Node<'s>, is_conditional: bool) {
        let Some(callee) = node.child_by_field_name("function").map(unparenthesized) else {
            return;
        };
        let arguments = node.child_by_field_name("arguments").map(|list| {
            let arguments =
                (0..list.named_child_count()).filter_map(|i| list.named_child(i as u32));
            arguments.filter(|argument| argument.kind() != "comment").collect()
        });
        let pointer = targets::pointer(self.function, callee);
        let action = match callee.kind() {
            "identifier" if !self.function.variables.contains_key(self.text(callee)) => {
                Action::Call { name: self.text(callee), arguments: arguments.unwrap_or_default() }
            }
            "field_expression" => {
                let field = callee.child_by_field_name("field").unwrap_or(callee);
                Action::Indirect { name: self.text(field), pointer }
            }
            _ => Action::Indirect { name: self.text(callee), pointer },
        };
        self.add(node, action, is_conditional);
    }

    fn add_assignment(
        &mut self,
        node: Node<'s>,
        left: Option<Node<'s>>,
        right: Option<Node<'s>>,
        is_conditional: bool,
    ) {
        let member = left.map(unparenthesized).and_then(|left| left.child_by_field_name("field"));
        if let (Some(member), Some(right)) = (member, right) {
            let member = self.text(member);
            self.add(node, Action::Assign { member, right }, is_conditional);
        }
    }

    fn add(&mut self, node: Node<'s>, action: Action<'s>, is_conditional: bool) {
        let is_conditional =
            is_conditional || self.has_left || self.has_broken || self.has_continued;
        let is_repeated = self.loops > 0;
        self.found.push(Event { node, action, is_conditional, guard: self.guard, is_repeated });
    }

    fn text(&self, node: Node<'_>) -> &'s str {
        self.function.file.text_of(node)
    }
}
