//! Makes the event loop accept as many requests as fit the cache, and execute batches of one stage.

use std::collections::BTreeSet;
use std::fmt::Write;

use tree_sitter::Node;

use super::edits::Edits;
use crate::c::function::Function;
use crate::c::source::{bare, nodes};
use crate::memwalk::config::Queue;
use crate::memwalk::events::{Action, Event, Region, events};
use crate::memwalk::program::{Program, whole};
use crate::model::{Analysis, ENTRY, Place};
use crate::stingygen::names;

/// Name of the generated function that executes a stage.
const EXECUTE: &str = "stingy_execute";

/// A construct that cannot be rewritten.
pub(crate) type Refusal = (Place, String);

/// Rewrites a server whose stages are functions.
pub(crate) fn replace(
    program: &Program<'_>,
    analysis: &Analysis,
    queue: &Queue,
    edits: &mut Edits,
) -> Result<(), Refusal> {
    replace_queueing(program, queue, edits)?;
    let scheduler = &program.functions.by_name[&program.config.stages.scheduler];
    let dispatch = replace_dispatch(program, scheduler, edits)?;
    bound_accepting(program, scheduler, dispatch, edits)?;
    let start = scheduler.node.start_byte();
    edits.replace(scheduler.file, start..start, dispatcher(program, analysis, scheduler)?);
    Ok(())
}

/// `queue(request, stage)` becomes `stingy_queue(STINGY_STAGE_stage, request)`.
fn replace_queueing(
    program: &Program<'_>,
    queue: &Queue,
    edits: &mut Edits,
) -> Result<(), Refusal> {
    for function in program.functions.by_name.values().filter(|f| f.name != queue.function) {
        for event in events(&whole(function)) {
            let Action::Call { name, arguments } = &event.action else { continue };
            if *name != queue.function {
                continue;
            }
            let refuse = |what: String| Err((function.file.place(event.node), what));
            let (Some(&request), Some(&stage)) =
                (arguments.get(queue.request), queue.stage.and_then(|stage| arguments.get(stage)))
            else {
                return refuse(format!(
                    "`{name}` without the arguments that the description states"
                ));
            };
            let stage = bare(stage);
            let text = function.file.text_of(stage);
            if stage.kind() != "identifier" || !program.functions.by_name.contains_key(text) {
                return refuse(format!("the stage `{text}` is no function; queue constant stages"));
            }
            let request = function.file.text_of(request);
            let call = format!("stingy_queue({}, {request})", names::stage(text));
            edits.replace(function.file, event.node.byte_range(), call);
        }
    }
    Ok(())
}

/// Replaces the loop over active requests by the execution of a batch. Returns the loop.
fn replace_dispatch<'s>(
    program: &Program<'s>,
    scheduler: &Function<'s>,
    edits: &mut Edits,
) -> Result<Node<'s>, Refusal> {
    let schedule = &program.config.stages.schedule;
    let is_call =
        |event: &Event<'_>| matches!(event.action, Action::Call { name, .. } if name == schedule);
    let found = events(&whole(scheduler)).into_iter().find(is_call);
    let Some(call) = found else {
        let what = format!("`{}` does not call `{schedule}`", scheduler.name);
        return Err((scheduler.file.place(scheduler.node), what));
    };
    let around =
        enclosing(call.node, scheduler.body, &["for_statement", "while_statement", "do_statement"]);
    match around.as_slice() {
        [inner, _, ..] => {
            edits.replace(scheduler.file, inner.byte_range(), format!("stingy_run({EXECUTE});"));
            Ok(*inner)
        }
        _ => {
            let what = format!(
                "`{schedule}` must be called in a loop over active requests within the event loop"
            );
            Err((scheduler.file.place(call.node), what))
        }
    }
}

/// Adds `stingy_room` to the conditions under which the scheduler accepts requests.
fn bound_accepting<'s>(
    program: &Program<'s>,
    scheduler: &Function<'s>,
    dispatch: Node<'s>,
    edits: &mut Edits,
) -> Result<(), Refusal> {
    let mut bounded = BTreeSet::new();
    for event in events(&whole(scheduler)) {
        if event.node.start_byte() >= dispatch.start_byte()
            && event.node.end_byte() <= dispatch.end_byte()
        {
            continue;
        }
        let region = Region { function: scheduler, roots: vec![event.node] };
        let mut accepts = false;
        program.walk(&region, &mut |function, event| {
            accepts |=
                program.queued_stages(function, event).is_ok_and(|stages| !stages.is_empty());
        });
        if !accepts {
            continue;
        }
        let around = enclosing(event.node, scheduler.body, &["while_statement", "if_statement"]);
        let is_event_loop = |node: &Node<'_>| nodes(*node).any(|inner| inner == dispatch);
        let condition = around.first().filter(|node| !is_event_loop(node));
        let Some(condition) = condition.and_then(|node| node.child_by_field_name("condition"))
        else {
            let what = "requests are accepted unconditionally; accept within `while` or `if`, \
                        so that the number can be bounded";
            return Err((scheduler.file.place(event.node), what.to_owned()));
        };
        if bounded.insert(condition.start_byte()) {
            let inner = bare(condition);
            let is_simple =
                matches!(inner.kind(), "call_expression" | "identifier" | "field_expression");
            let text = scheduler.file.text_of(if is_simple { inner } else { condition });
            let room = format!("(stingy_room({}) > 0 && {text})", names::stage(ENTRY));
            edits.replace(scheduler.file, condition.byte_range(), room);
        }
    }
    Ok(())
}

/// The statements of these kinds around a node, the innermost first.
fn enclosing<'s>(node: Node<'s>, within: Node<'s>, kinds: &[&str]) -> Vec<Node<'s>> {
    let parents = std::iter::successors(node.parent(), |node| node.parent());
    parents.take_while(|node| *node != within).filter(|node| kinds.contains(&node.kind())).collect()
}

/// The function that executes a stage.
fn dispatcher(
    program: &Program<'_>,
    analysis: &Analysis,
    scheduler: &Function<'_>,
) -> Result<String, Refusal> {
    let mut out = format!(
        "/* Executes a stage of a request. */\n\
         static void {EXECUTE}(enum stingy_stage stage, void *request)\n{{\n    switch (stage) {{\n"
    );
    for stage in analysis.stages.iter().filter(|stage| stage.name != ENTRY) {
        let function = &program.functions.by_name[&stage.name];
        let is_static = function.file.text_of(function.node).starts_with("static");
        if is_static && function.file.path != scheduler.file.path {
            let what = format!(
                "`{}` is static and in another file than the scheduler; export it",
                stage.name
            );
            return Err((stage.at.clone(), what));
        }
        writeln!(
            out,
            "    case {}:\n        {}(request);\n        break;",
            names::stage(&stage.name),
            stage.name
        )
        .expect("writing to a string");
    }
    out += "    default:\n        break;\n    }\n}\n\n";
    Ok(out)
}
