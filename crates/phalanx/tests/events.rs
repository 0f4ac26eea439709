//! Events for the crate `tracing`.

#![cfg(feature = "tracing")]

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use phalanx::runtime::{ExitReport, RunError};
use phalanx::{Graph, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Whether the subscriber panics after each line.
static PANICS: AtomicBool = AtomicBool::new(false);

/// A subscriber that writes one line for each event up to a level.
#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<String>>>, Level);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("phalanx") && *metadata.level() <= self.1
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        assert!(!PANICS.load(Relaxed), "a subscriber that panics");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One test for all cases, because a process has one global subscriber.
#[test]
fn a_life_in_lines() {
    let lines = Lines(Arc::default(), Level::TRACE);
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    std::panic::set_hook(Box::new(|_| ()));
    let results = [false, true].map(|panics| {
        PANICS.store(panics, Relaxed);
        live()
    });
    let _ = std::panic::take_hook();
    let [normal, panicking] = results;
    normal.unwrap();
    panicking.expect("a subscriber that panics changes nothing");
    let lines = lines.0.lock().unwrap();
    for (expected, times) in [
        ("INFO message=started processors=1", 2),
        ("ERROR stage=\"work\" by intent", 2),
        ("INFO message=draining", 2),
        ("DEBUG message=stopped", 2),
        ("TRACE message=cohort stage=\"work\" operations=", 2),
    ] {
        let of = |line: &&String| expected.split(' ').all(|word| line.contains(word));
        let found = lines.iter().filter(of).count();
        assert!(found >= times, "{found} of {times} {expected:?} in {lines:#?}");
    }
}

/// Runs a program in which one operation panics.
fn live() -> Result<ExitReport, RunError> {
    let mut graph = Graph::new();
    let stage = graph.shared("work", ());
    Runtime::new().processors(1).signals(false).run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let failing = stage.call(|_| async {
                if true {
                    panic!("by intent")
                }
            });
            failing.await.unwrap_err();
            control.drain();
        })?;
        Ok(())
    })
}
