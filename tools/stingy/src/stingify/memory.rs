//! Replaces allocations and deallocations by those of the generated allocator.

use std::collections::BTreeSet;

use super::edits::Edits;
use crate::c::source::bare;
use crate::memwalk::events::{Action, events};
use crate::memwalk::program::{Program, whole};
use crate::model::{Analysis, Place};
use crate::stingygen::{names, pooled};

/// The objects that are replaced, and the reasons why others are not.
pub(crate) fn objects(
    program: &Program<'_>,
    analysis: &Analysis,
) -> (BTreeSet<String>, Vec<(Place, String)>) {
    let mut objects: BTreeSet<String> = pooled(analysis).iter().map(|o| o.name.clone()).collect();
    let mut reasons = Vec::new();
    for function in program.functions.by_name.values() {
        for event in events(&whole(function)) {
            let Action::Call { name, arguments } = &event.action else { continue };
            if !name.contains("realloc") || program.config.allocation(name).is_none() {
                continue;
            }
            let memory = arguments.first().and_then(|&memory| program.freed(function, memory).ok());
            if let Some(object) = memory.filter(|object| objects.remove(object)) {
                let what = format!("`{object}` keeps its allocator, because its size changes here");
                reasons.push((function.file.place(event.node), what));
            }
        }
    }
    (objects, reasons)
}

/// Bounds the number of events for which the server waits.
pub(crate) fn bound_events(program: &Program<'_>, edits: &mut Edits) {
    for function in program.functions.by_name.values() {
        for event in events(&whole(function)) {
            let Action::Call { name, arguments } = &event.action else { continue };
            let wait = program.config.stages.wait.iter().find(|wait| wait.function == *name);
            if let Some(&argument) = wait.and_then(|wait| arguments.get(wait.events)) {
                let text = function.file.text_of(argument);
                edits.replace(
                    function.file,
                    argument.byte_range(),
                    format!("stingy_events({text})"),
                );
            }
        }
    }
}

/// Replaces all allocations and deallocations of these objects, also those outside of stages. Returns the reasons why
/// others are not replaced.
pub(crate) fn replace(
    program: &Program<'_>,
    analysis: &Analysis,
    objects: &BTreeSet<String>,
    edits: &mut Edits,
) -> Vec<(Place, String)> {
    let mut reasons = Vec::new();
    let size = program.config.memory.spill.as_ref().and_then(|spill| spill.size.as_deref());
    for function in program.functions.by_name.values() {
        // The bodies of allocating functions remain.
        let is_own = program.config.allocation(&function.name).is_some()
            || program.config.deallocation(&function.name).is_some();
        if is_own {
            continue;
        }
        for event in events(&whole(function)) {
            let Action::Call { name, arguments } = &event.action else { continue };
            let at = function.file.place(event.node);
            let replacement = if let Some(by) = program.config.allocation(name) {
                let Ok(allocated) = program.allocated(function, event.node, arguments, by) else {
                    continue;
                };
                if !objects.contains(&allocated.object) {
                    continue;
                }
                let of = analysis.objects.iter().find(|object| object.name == allocated.object);
                if allocated.bytes.is_none() || allocated.bytes > of.and_then(|object| object.bytes)
                {
                    let what = format!(
                        "this allocation of `{}` keeps its allocator: its size differs",
                        allocated.object
                    );
                    reasons.push((at, what));
                    continue;
                }
                if by.size.is_some() && arguments.len() > 1 + usize::from(by.count.is_some()) {
                    let what = format!(
                        "this allocation of `{}` keeps its allocator: `{name}` has further arguments",
                        allocated.object
                    );
                    reasons.push((at, what));
                    continue;
                }
                let zeroed = if by.zeroed { "z" } else { "" };
                format!("stingy_{zeroed}alloc({})", names::object(&allocated.object))
            } else if let Some(by) = program.config.deallocation(name) {
                let Some(&memory) = arguments.get(by.memory) else { continue };
                match program.freed(function, memory) {
                    Ok(object) if objects.contains(&object) => {
                        let memory = function.file.text_of(memory);
                        format!("stingy_free({}, {memory})", names::object(&object))
                    }
                    Ok(object) => {
                        let of = program.scope().type_of(function, bare(memory));
                        let is_known = analysis.objects.iter().any(|o| o.name == object);
                        if !is_known && of.is_none_or(|of| of.base == "void") {
                            let memory = function.file.text_of(memory);
                            let what = format!(
                                "not replaced: `{memory}` has no type; check that it is none of the objects"
                            );
                            reasons.push((at, what));
                        }
                        continue;
                    }
                    Err(what) => {
                        reasons.push((
                            at,
                            format!("not replaced: {what}; check that it is none of the objects"),
                        ));
                        continue;
                    }
                }
            } else if Some(*name) == size
                && let [memory] = arguments[..]
                && let Ok(object) = program.freed(function, memory)
                && objects.contains(&object)
            {
                format!(
                    "stingy_size({}, {})",
                    names::object(&object),
                    function.file.text_of(memory)
                )
            } else {
                continue;
            };
            edits.replace(function.file, event.node.byte_range(), replacement);
        }
    }
    reasons
}
