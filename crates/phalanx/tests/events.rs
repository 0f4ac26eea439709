//! What a program tells the crate `tracing`.

#![cfg(feature = "tracing")]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use phalanx::{Graph, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes a line for each event of a level that it listens to.
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
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// All in one test: a process has one global subscriber, since processors are threads of their own.
#[test]
fn a_life_in_lines() {
    let lines = Lines(Arc::default(), Level::TRACE);
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    std::panic::set_hook(Box::new(|_| ()));
    let mut graph = Graph::new();
    let stage = graph.shared("work", ());
    let run = Runtime::new().processors(1).signals(false).pin(false).run(graph, move |start| {
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
    });
    let _ = std::panic::take_hook();
    run.unwrap();
    let lines = lines.0.lock().unwrap();
    for expected in [
        "INFO message=started processors=1",
        "ERROR stage=\"work\" by intent",
        "INFO message=draining",
        "DEBUG message=stopped",
        "TRACE message=cohort stage=\"work\" operations=",
    ] {
        let of = |line: &&String| expected.split(' ').all(|word| line.contains(word));
        assert!(lines.iter().any(|line| of(&line)), "no {expected:?} in {lines:#?}");
    }
}
