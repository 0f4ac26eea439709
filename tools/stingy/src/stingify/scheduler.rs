//! Makes the event loop accept as many requests as fit the cache, and execute batches of one stage.

use std::collections::BTreeSet;
use std::fmt::Write;

use tree_sitter::Node;

use super::active;
use super::edits::Edits;
use super::uses::{Texts, Understood};
use super::words::{is_declared, words};
use crate::c::function::Function;
use crate::c::source::{nodes, unparenthesized};
use crate::c::types::Derivation;
use crate::memwalk::config::Queue;
use crate::memwalk::events::{Action, Event, Region, events};
use crate::memwalk::program::{Program, whole};
use crate::model::{Analysis, ENTRY, Place};
use crate::stingygen::names;

/// Name of the generated function that executes a stage.
const EXECUTE: &str = "stingy_execute";

/// Names of its parameters, which differ from those of stages.
const STAGE: &str = "stingy_stage";
const REQUEST: &str = "stingy_request";

const WRITES: &str = "writing to a string";

/// A construct that cannot be rewritten.
pub(crate) type Refusal = (Place, String);

/// Functions that block, with the index of a timeout that is an integer.
const BLOCKING: [(&str, Option<usize>); 16] = [
    ("epoll_wait", Some(3)),
    ("epoll_pwait", Some(3)),
    ("poll", Some(2)),
    ("epoll_pwait2", None),
    ("ppoll", None),
    ("select", None),
    ("pselect", None),
    ("kevent", None),
    ("event_base_loop", None),
    ("event_base_dispatch", None),
    ("io_uring_wait_cqe", None),
    ("io_uring_wait_cqes", None),
    ("io_uring_submit_and_wait", None),
    ("pause", None),
    ("sigsuspend", None),
    ("sigwaitinfo", None),
];

/// Functions that block if their descriptor or lock does.
const MAY_BLOCK: [&str; 9] = [
    "accept",
    "accept4",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
    "usleep",
    "sem_wait",
    "pthread_cond_wait",
];

/// Rewrites a server whose stages are functions. Returns notes on other code that uses its queue.
pub(super) fn replace(
    program: &Program<'_>,
    analysis: &Analysis,
    texts: &Texts<'_>,
    queue: &Queue,
    edits: &mut Edits,
) -> Result<Vec<Refusal>, Refusal> {
    replace_queueing(program, texts, queue, edits)?;
    let scheduler = &program.functions.by_name[&program.config.stages.scheduler];
    let state =
        program.functions.by_name.get(&queue.function).map(active::state).unwrap_or_default();
    let dispatch = replace_dispatch(program, texts, scheduler, &state, edits)?;
    let notes = check_rest(program, scheduler, dispatch, queue, &state)?;
    bound_accepting(program, scheduler, dispatch, edits)?;
    let start = scheduler.node.start_byte();
    edits.replace(scheduler.file, start..start, dispatcher(program, analysis, texts, scheduler)?);
    Ok(notes)
}

/// Refuses uses of a function, or of a macro for it, that are no calls which the patch replaces.
fn refuse_others(texts: &Texts<'_>, name: &str, understood: &Understood) -> Result<(), Refusal> {
    let mut names = BTreeSet::from([name.to_owned()]);
    names.extend(texts.macros(&names));
    match texts.others(&names, understood).into_iter().next() {
        Some(other) => {
            let message = format!(
                "this use of `{}` is not replaced; call `{name}` as a function",
                other.name
            );
            Err((other.at, message))
        }
        None => Ok(()),
    }
}

/// `queue(request, stage)` becomes `stingy_queue(STINGY_STAGE_stage, request)`.
fn replace_queueing(
    program: &Program<'_>,
    texts: &Texts<'_>,
    queue: &Queue,
    edits: &mut Edits,
) -> Result<(), Refusal> {
    let mut understood = Understood::default();
    for function in program.functions.all().filter(|f| f.name == queue.function) {
        understood.add_range(function.file, function.node.byte_range());
    }
    for function in program.functions.all().filter(|f| f.name != queue.function) {
        for event in events(&whole(function)) {
            let Action::Call { name, arguments } = &event.action else { continue };
            if *name != queue.function {
                continue;
            }
            let refuse = |message: String| Err((function.file.place(event.node), message));
            let (Some(&request), Some(&stage)) =
                (arguments.get(queue.request), queue.stage.and_then(|stage| arguments.get(stage)))
            else {
                return refuse(format!(
                    "`{name}` without the arguments that the description states"
                ));
            };
            let stage = unparenthesized(stage);
            let text = function.file.text_of(stage);
            let is_stage = program.functions.by_name.contains_key(text)
                && !function.variables.contains_key(text);
            if stage.kind() != "identifier" || !is_stage {
                return refuse(format!("the stage `{text}` is no function; queue constant stages"));
            }
            let request = function.file.text_of(request);
            let call = format!("stingy_queue({}, {request})", names::stage(text));
            edits.replace(function.file, event.node.byte_range(), call);
            understood.add_call(function, &event);
        }
    }
    refuse_others(texts, &queue.function, &understood)
}

/// Replaces the loop over active requests by the execution of a batch. Returns the loop.
fn replace_dispatch<'s>(
    program: &Program<'s>,
    texts: &Texts<'_>,
    scheduler: &Function<'s>,
    state: &BTreeSet<&str>,
    edits: &mut Edits,
) -> Result<Node<'s>, Refusal> {
    let schedule = &program.config.stages.schedule;
    let is_call =
        |event: &Event<'_>| matches!(event.action, Action::Call { name, .. } if name == schedule);
    let found = events(&whole(scheduler)).into_iter().find(is_call);
    let Some(call) = found else {
        let message = format!("`{}` does not call `{schedule}`", scheduler.name);
        return Err((scheduler.file.place(scheduler.node), message));
    };
    let around =
        enclosing(call.node, scheduler.body, &["for_statement", "while_statement", "do_statement"]);
    match around.as_slice() {
        [inner, _, ..] => {
            active::check(scheduler, *inner, call.node, state)?;
            let mut understood = Understood::default();
            understood.add_call(scheduler, &call);
            refuse_others(texts, schedule, &understood)?;
            edits.replace(scheduler.file, inner.byte_range(), format!("stingy_run({EXECUTE});"));
            Ok(*inner)
        }
        _ => {
            let message = format!(
                "`{schedule}` must be called in a loop over active requests within the event loop"
            );
            Err((scheduler.file.place(call.node), message))
        }
    }
}

/// Refuses code of the event loop that blocks while requests are queued, or that uses the state of the queue. Returns
/// such uses in other functions, and calls that may block.
fn check_rest<'s>(
    program: &Program<'s>,
    scheduler: &Function<'s>,
    dispatch: Node<'s>,
    queue: &Queue,
    state: &BTreeSet<&str>,
) -> Result<Vec<Refusal>, Refusal> {
    let is_inner = |node: Node<'_>| dispatch.byte_range().contains(&node.start_byte());
    let used = |name: &str| {
        format!(
            "`{name}` is the state of `{}`, which queues no more; use `stingy_queued()`",
            queue.function
        )
    };
    if let Some(node) = active::first_use(scheduler, scheduler.body, Some(dispatch), state) {
        return Err((scheduler.file.place(node), used(scheduler.file.text_of(node))));
    }
    let mut visited = BTreeSet::from([scheduler.key.clone()]);
    let mut refusal = None;
    let mut may_block = BTreeSet::new();
    for event in events(&whole(scheduler)) {
        let region = Region::new(scheduler, vec![event.node]);
        program.walk(&region, &mut |function, event| {
            if let Some(message) = blocks(program, function, event) {
                refusal.get_or_insert_with(|| (function.file.place(event.node), message));
            }
            if let Action::Call { name, .. } = event.action
                && MAY_BLOCK.contains(&name)
                && program.functions.find(function.file, name).is_none()
            {
                let message =
                    format!("`{name}` must not block while requests are queued; check this");
                may_block.insert((function.file.place(event.node), message));
            }
            for callee in program.callees(function, event) {
                if visited.insert(callee.key.clone())
                    && !is_inner(region.roots[0])
                    && let Some(node) = active::first_use(callee, callee.body, None, state)
                {
                    let message = used(callee.file.text_of(node));
                    refusal.get_or_insert_with(|| (callee.file.place(node), message));
                }
            }
        });
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let is_queue = |function: &Function<'_>| {
        [&queue.function, &program.config.stages.schedule].contains(&&function.name)
    };
    let others = program.functions.all().filter(|f| !visited.contains(&f.key) && !is_queue(f));
    let notes = others.filter_map(|function| {
        let node = active::first_use(function, function.body, None, state)?;
        Some((function.file.place(node), used(function.file.text_of(node))))
    });
    Ok(notes.chain(may_block).collect())
}

/// The reason why a call may block while requests are queued.
fn blocks(program: &Program<'_>, function: &Function<'_>, event: &Event<'_>) -> Option<String> {
    let Action::Call { name, arguments } = &event.action else { return None };
    let (_, timeout) = BLOCKING.iter().find(|(known, _)| known == name)?;
    let argument = timeout.and_then(|index| arguments.get(index));
    let is_bounded = program
        .config
        .stages
        .wait
        .iter()
        .any(|wait| wait.function == *name && wait.timeout.is_some());
    let is_zero = argument.is_some_and(|argument| function.file.text_of(*argument) == "0");
    let remedy = match timeout {
        Some(_) => "state `timeout`, the index of its timeout, in `wait` of `[stages]`",
        None => "wait by a function with an integer as the timeout, such as `epoll_wait`",
    };
    (!is_bounded && !is_zero)
        .then(|| format!("`{name}` may block while requests are queued; {remedy}"))
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
        let region = Region::new(scheduler, vec![event.node]);
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
        if let Some(alternative) =
            around.first().and_then(|node| node.child_by_field_name("alternative"))
        {
            let message = "requests are accepted under an `if` with `else`, which would execute when no request fits; \
                        accept within an `if` of its own";
            return Err((scheduler.file.place(alternative), message.to_owned()));
        }
        let condition = around.first().filter(|node| !is_event_loop(node));
        let Some(condition) = condition.and_then(|node| node.child_by_field_name("condition"))
        else {
            let message = "requests are accepted unconditionally; accept within `while` or `if`, \
                        so that the number can be bounded";
            return Err((scheduler.file.place(event.node), message.to_owned()));
        };
        if bounded.insert(condition.start_byte()) {
            let inner = unparenthesized(condition);
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
    texts: &Texts<'_>,
    scheduler: &Function<'_>,
) -> Result<String, Refusal> {
    let mut visible = texts.headers(scheduler.file);
    visible.push(&scheduler.file.text[..scheduler.node.start_byte()]);
    let mut declarations = String::new();
    let mut cases = String::new();
    for stage in analysis.stages.iter().filter(|stage| stage.name != ENTRY) {
        let function = &program.functions.by_name[&stage.name];
        let is_static = function.file.text_of(function.node).starts_with("static");
        if is_static && function.file.path != scheduler.file.path {
            let message = format!(
                "`{}` is static and in another file than the scheduler; export it",
                stage.name
            );
            return Err((stage.at.clone(), message));
        }
        let parameter = match function.parameters.as_slice() {
            [only] => function.variables.get(only).map(|of| program.info.canonical(of)),
            _ => None,
        };
        if parameter.is_none_or(|of| of.derived.first() != Some(&Derivation::Pointer)) {
            let message = format!(
                "`{}` must have one parameter, a pointer to the request, to be executed by `stingy_run`",
                stage.name
            );
            return Err((function.file.place(function.node), message));
        }
        if !visible.iter().any(|text| declares(text, &function.name)) {
            if let Some(name) = unknown_type(function, &visible) {
                let message = format!(
                    "`{}` and its parameter of type `{name}` are not declared in {}, which executes stages; declare it",
                    stage.name,
                    scheduler.file.path.display()
                );
                return Err((stage.at.clone(), message));
            }
            let head = function.node.start_byte()..function.body.start_byte();
            writeln!(declarations, "{};", function.file.text[head].trim_end()).expect(WRITES);
        }
        let (label, name) = (names::stage(&stage.name), &stage.name);
        writeln!(cases, "    case {label}:\n        {name}({REQUEST});\n        break;")
            .expect(WRITES);
    }
    Ok(format!(
        "{declarations}/* Executes a stage of a request. */\n\
         static void {EXECUTE}(enum stingy_stage {STAGE}, void *{REQUEST})\n{{\n    switch ({STAGE}) {{\n\
         {cases}    default:\n        break;\n    }}\n}}\n\n"
    ))
}

fn declares(text: &str, name: &str) -> bool {
    words(text).iter().any(|word| word.text == name && is_declared(text, *word))
}

/// A type in the declaration of a function that these texts do not mention.
fn unknown_type<'s>(function: &Function<'s>, texts: &[&str]) -> Option<&'s str> {
    let mut types = nodes(function.node)
        .filter(|node| node.kind() == "type_identifier")
        .filter(|node| node.start_byte() < function.body.start_byte())
        .map(|node| function.file.text_of(node));
    types.find(|name| !texts.iter().any(|text| words(text).iter().any(|word| word.text == *name)))
}
