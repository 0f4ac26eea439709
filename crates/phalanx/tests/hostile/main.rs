//! Hostile programs: safe code that misuses the runtime in every way that compiles.
//!
//! The programs use real threads, sockets and files; `crates/core/tests/hostile` has such programs for the scheduler.
//! `cargo xtask hostile` runs this binary under AddressSanitizer and valgrind, on the poll driver, and its simulated
//! programs under Miri.
#![forbid(unsafe_code)]

#[path = "../common/drivers.rs"]
mod drivers;
#[cfg(not(miri))]
mod fibres;
mod harness;
mod moved;
mod payloads;
mod programs;
mod reentrant;
mod simulated;
mod sockets;

use phalanx::{Graph, Runtime};

/// A destructor that panics in an operation ends only that operation.
#[test]
fn a_panicking_destructor_does_not_end_the_program() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("hostile destructor");
        }
    }
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let runtime = Runtime::new().driver(phalanx::runtime::DriverChoice::Poll).processors(1);
    let ran = runtime.run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let lost = stage.call(|_| async { drop(PanicsOnDrop) }).await;
            assert!(lost.is_err());
            control.drain();
        })?;
        Ok(())
    });
    assert!(ran.is_ok());
}
