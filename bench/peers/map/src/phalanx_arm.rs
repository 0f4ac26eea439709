//! Phalanx: a shared stage with the sharded map, a partitioned stage, or a migrating one.

use std::error::Error;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::runtime::DriverChoice;
use phalanx::{Graph, PartitionedStage, Runtime, SharedStage};

use crate::{announce, processors};
use crate::protocol::{answer, parse};
use crate::table::{Answer, Part, Request, Sharded, number};

pub(crate) fn mutex(spin: Option<u64>) -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let map = Arc::new(Sharded::default());
    serve(graph, clients, spin, async move |request| Some(map.run(request)))
}

pub(crate) fn partitioned(spin: Option<u64>) -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let map = graph.partitioned("map", |_partition| Part::default());
    serve_partitions(graph, clients, map, spin)
}

pub(crate) fn migrating(spin: Option<u64>) -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let map = graph.stage("map").migrating(|_partition| Part::default());
    serve_partitions(graph, clients, map, spin)
}

fn serve_partitions(
    graph: Graph,
    clients: SharedStage<()>,
    map: PartitionedStage<Part>,
    spin: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let hasher = Arc::new(RandomState::new());
    serve(graph, clients, spin, async move |request: Request| {
        let key = number(&hasher, &request);
        map.call(key, move |part| async move { part.with(|part| request.run(part)) }).await.ok()
    })
}

/// Serves clients and executes each request with `run`.
fn serve<F>(
    graph: Graph,
    clients: SharedStage<()>,
    spin: Option<u64>,
    run: F,
) -> Result<(), Box<dyn Error>>
where
    F: AsyncFn(Request) -> Option<Answer> + Clone + Send + Sync + 'static,
{
    let listeners = Listeners::bind("127.0.0.1:0".parse()?, processors()?)?;
    let address = listeners.local_addr();
    let mut runtime = Runtime::new().processors(processors()?);
    if let Some(spin) = spin {
        runtime = runtime.spin(Duration::from_micros(spin));
    }
    if let Ok(driver) = std::env::var("PHALANX_DRIVER") {
        runtime = runtime.driver(driver.parse::<DriverChoice>()?);
    }
    let start = |start: &phalanx::runtime::StartContext| {
        let (listener, run) = (listeners.listener(start)?, run.clone());
        clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let run = run.clone();
                let _ = clients.dispatch(move |_| async move {
                    let _ = client(stream, run).await;
                });
            })
        })?;
        Ok(())
    };
    runtime.run_with_ready(graph, start, |_| announce(address))?;
    Ok(())
}

async fn client(stream: Stream, run: impl AsyncFn(Request) -> Option<Answer>) -> Option<()> {
    let (mut bytes, mut out) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    while stream.read(&mut bytes, IoTimeout::NONE).await.ok()? > 0 {
        let mut taken = 0;
        while let Some((request, length)) = parse(&bytes[taken..]).ok()? {
            taken += length;
            let answered = match request {
                Some(request) => Some(run(request).await?),
                None => None,
            };
            answer(answered, &mut out);
        }
        bytes.drain(..taken);
        if !out.is_empty() {
            out = stream.write(out, IoTimeout::NONE).await.ok()?;
        }
        if bytes.is_empty() && stream.offer() {
            break;
        }
    }
    Some(())
}
