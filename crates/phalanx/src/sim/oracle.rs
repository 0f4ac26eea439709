//! The oracle: what must be so when a program has come to rest, and what to say when it is not.

use std::fmt::Write;

use super::sim_processor::SimProcessor;

/// What is left on all processors, in words; nothing when all is well.
pub(super) fn left(places: &[SimProcessor]) -> String {
    let mut text = String::new();
    for (number, place) in places.iter().enumerate() {
        for remnant in place.processor().residue() {
            let _ = writeln!(text, "  processor {number}: {remnant}");
        }
        let flights = place.io.in_flight();
        if flights > 0 {
            let _ = writeln!(text, "  processor {number}: {flights} requests to the driver");
        }
        if let Some(until) = place.asleep {
            let timer =
                if until == u64::MAX { "for ever".into() } else { format!("until {until}") };
            let _ = writeln!(text, "  processor {number} sleeps {timer}");
        }
    }
    text
}

/// Whether every processor has given everything back.
pub(super) fn at_rest(places: &[SimProcessor]) -> Result<(), String> {
    let mut text = String::new();
    for (number, place) in places.iter().enumerate() {
        for remnant in place.processor().residue() {
            let _ = writeln!(text, "  processor {number}: {remnant}");
        }
        let flights = place.io.in_flight();
        if flights > 0 {
            let _ = writeln!(text, "  processor {number}: {flights} requests to the driver");
        }
    }
    match text.is_empty() {
        true => Ok(()),
        false => Err(format!("the program has ended, and has left:\n{text}")),
    }
}

/// Whether what is queued at a stage is there once, and can run.
pub(super) fn can_run(number: usize, place: &SimProcessor, stage: usize) -> Result<(), String> {
    let queued = place.processor().audit_queue(stage);
    queued.map(drop).map_err(|fault| format!("processor {number}: {fault}"))
}

/// Whether the books of a processor agree.
pub(super) fn agrees(number: usize, place: &SimProcessor) -> Result<(), String> {
    place.processor().audit().map_err(|fault| format!("processor {number}: {fault}"))
}

/// A processor that sleeps with mail, and that nobody is about to wake, would sleep for ever.
pub(super) fn nobody_is_forgotten(places: &[SimProcessor]) -> Result<(), String> {
    for (number, place) in places.iter().enumerate() {
        if place.asleep.is_some() && !place.is_rung() && place.processor().stepping().has_mail() {
            return Err(format!("processor {number} sleeps and has mail: a wake-up was lost"));
        }
    }
    Ok(())
}
