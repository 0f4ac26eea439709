//! The oracle: checks of a simulated program, and descriptions of violations.

use std::fmt::Write;
use std::thread;
use std::time::Duration;

use phalanx_core::{CallGraph, Waits};

use super::sim_processor::SimProcessor;

/// The number of further checks before a wake-up counts as lost.
const RETRIES: u32 = 100;
/// Time between these checks.
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Describes everything that remains on the processors, and the operations that wait for each other. Empty if nothing
/// remains.
pub(super) fn describe_remaining(processors: &[SimProcessor]) -> String {
    let mut text = String::new();
    for (number, sim) in processors.iter().enumerate() {
        describe_leaks(&mut text, number, sim);
        if let Some(until) = sim.asleep {
            let timer = if until == u64::MAX { "forever".into() } else { format!("until {until}") };
            let _ = writeln!(text, "  processor {number} sleeps {timer}");
        }
    }
    let waits: Vec<_> = processors.iter().map(|sim| sim.processor().waits()).collect();
    for cycle in Waits::cycles(&waits) {
        let _ = writeln!(text, "{cycle}");
    }
    text
}

fn describe_leaks(text: &mut String, number: usize, sim: &SimProcessor) {
    for leak in sim.processor().leaks() {
        let _ = writeln!(text, "  processor {number}: {leak}");
    }
    let flights = sim.io.in_flight();
    if flights > 0 {
        let _ = writeln!(text, "  processor {number}: {flights} requests to the driver");
    }
}

/// Checks that every processor has released everything.
pub(super) fn check_at_rest(processors: &[SimProcessor]) -> Result<(), String> {
    let mut text = String::new();
    for (number, sim) in processors.iter().enumerate() {
        describe_leaks(&mut text, number, sim);
    }
    if text.is_empty() { Ok(()) } else { Err(format!("the program has leaked:\n{text}")) }
}

/// Checks that no stage with declared calls has invoked another one.
pub(super) fn check_calls(calls: &CallGraph) -> Result<(), String> {
    let undeclared = calls.undeclared_calls();
    if undeclared.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "calls that are not declared: {}; add them to Graph::calls",
            undeclared.join(", ")
        ))
    }
}

/// Checks that each operation queued at a stage is queued once and can run.
pub(super) fn check_queue(number: usize, sim: &SimProcessor, stage: usize) -> Result<(), String> {
    let queued = sim.processor().check_queue(stage);
    queued.map(drop).map_err(|fault| format!("processor {number}: {fault}"))
}

/// Checks a processor's invariants.
pub(super) fn check_invariants(number: usize, sim: &SimProcessor) -> Result<(), String> {
    sim.processor().check_invariants().map_err(|fault| format!("processor {number}: {fault}"))
}

/// Checks that no operation has panicked, except at a fault point.
pub(super) fn check_panics(processors: &[SimProcessor]) -> Result<(), String> {
    match processors.iter().find_map(|sim| sim.world.panic.take()) {
        Some(report) => {
            Err(format!("{report}; call World::allow_panics if the program's panics are intended"))
        }
        None => Ok(()),
    }
}

/// Checks for lost wake-ups, that is, a sleeping processor with messages but no pending wake-up.
pub(super) fn check_wakeups(processors: &[SimProcessor]) -> Result<(), String> {
    for (number, sim) in processors.iter().enumerate() {
        let is_lost = || {
            sim.asleep.is_some() && !sim.has_wakeup() && sim.processor().stepping().has_messages()
        };
        // Threads outside the simulation, such as those of its blocking stages, need time between a message and its
        // wake-up.
        if is_lost() && (0..RETRIES).all(|_| (thread::sleep(RETRY_DELAY), is_lost()).1) {
            return Err(format!(
                "processor {number} sleeps although messages are waiting: a wake-up was lost"
            ));
        }
    }
    Ok(())
}
