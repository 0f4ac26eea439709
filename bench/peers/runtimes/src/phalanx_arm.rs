//! Phalanx: stages on one processor, or on two.

use std::hint::black_box;
use std::io;
use std::sync::mpsc;

use phalanx::net::{IoTimeout, Listeners, Payload, Stream};
use phalanx::runtime::StartContext;
use phalanx::{Graph, Runtime, SharedStage};

use crate::{Arm, PARENTS, announce, of_each, warmed};

pub(crate) const ARM: Arm = Arm { name: "phalanx", child, cross, echo };

/// Runs `begin` on the first of the processors; it sends the result and stops the runtime.
fn measure(
    processors: usize,
    graph: Graph,
    begin: impl Fn(&StartContext, mpsc::Sender<f64>) + Send + Sync,
) -> f64 {
    let (sender, measured) = mpsc::channel();
    let runtime = Runtime::new().processors(processors);
    let ended = runtime.run(graph, |start| {
        if start.processor() == 0 {
            begin(start, sender.clone());
        }
        Ok(())
    });
    ended.expect("a runtime");
    measured.recv().expect("a figure")
}

fn child(times: usize) -> f64 {
    let mut graph = Graph::new();
    let (control, front) = (graph.shared("control", ()), graph.shared("front", ()));
    let back = graph.shared("back", ());
    measure(1, graph, move |start, sender| {
        let end = start.control();
        let begun = control.dispatch(move |_| async move {
            let parents = async |times| parents(front, back, times).await;
            let _ = sender.send(warmed(times, parents).await);
            end.drain();
        });
        begun.expect("below the limit");
    })
}

async fn parents(front: SharedStage<()>, back: SharedStage<()>, times: usize) {
    let parents = (0..PARENTS).map(|_| {
        front.call(move |_| async move {
            let mut sum = 0;
            for n in 0..of_each(times) {
                let n = black_box(n);
                sum += back.call(move |_| async move { n }).await.expect("no panic");
            }
            sum
        })
    });
    for parent in parents.collect::<Vec<_>>() {
        black_box(parent.await.expect("no panic"));
    }
}

fn cross(times: usize) -> f64 {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    measure(2, graph, move |start, sender| {
        let end = start.control();
        let begun = stage.dispatch(move |_| async move {
            let questions = async |times: usize| {
                for n in 0..times {
                    assert_eq!(stage.call_on(1, move |_| async move { n }).await, Ok(n));
                }
            };
            let _ = sender.send(warmed(times, questions).await);
            end.drain();
        });
        begun.expect("below the limit");
    })
}

fn echo() -> Result<(), Box<dyn std::error::Error>> {
    let mut graph = Graph::new();
    let clients = graph.stage("clients").max_cohort(64).shared(());
    let listeners = Listeners::bind("127.0.0.1:0".parse()?, 1)?;
    let address = listeners.local_addr();
    let start = |start: &StartContext| {
        let listener = listeners.listener(start)?;
        clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let _ = clients.dispatch(move |_| async move { _ = client(stream).await });
            })
        })?;
        Ok(())
    };
    Runtime::new().processors(1).run_with_ready(graph, start, |_| announce(address))?;
    Ok(())
}

async fn client(stream: Stream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, IoTimeout::NONE).await? > 0 {
        let payload = Payload { head: bytes, ..Default::default() };
        bytes = stream.write(payload, IoTimeout::NONE).await?;
    }
    Ok(())
}
