//! The last batch before a shutdown.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use phalanx::blocking::blocking;
use phalanx::net::{Bytes, Resolver};
use phalanx::{Graph, sim, sleep};
use phalanx_nats::{ModelServer, Passage};
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, config, nats};
use crate::kept::mirror::StreamMirror;
use crate::kept::state::Kept;
use crate::peers::Peers;

/// Waits until a flag is set.
async fn until(flag: &Cell<bool>) {
    poll_fn(|_| if flag.get() { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[test]
fn a_batch_that_waits_for_nats_is_stored_during_shutdown() {
    let is_stored = Rc::new(Cell::new(false));
    let of_world = is_stored.clone();
    sim::run(0, move |world| {
        world.set_processors(1);
        world.advance_only_when_idle();
        let mut graph = Graph::new();
        let stage = graph.stage("nats").shared(());
        let (server, listeners) = (ModelServer::default(), world.listen(nats()));
        let own = server.clone();
        world.program(graph, move |start| {
            let (own, listener) = (own.clone(), listeners.listener(start)?);
            stage.dispatch(move |_| own.accept(listener, stage))?;
            Ok(())
        });
        let is_frozen = Rc::new(Cell::new(false));
        let (frozen, later, net) = (is_frozen.clone(), server.clone(), world.net());
        world.client(async move {
            until(&frozen).await;
            // Longer than the mirror's idle timeout.
            net.sleep(Duration::from_secs(4)).await;
            later.set(Passage::Open);
        });
        let (net, is_stored) = (world.net(), of_world.clone());
        world.client(async move {
            let mut graph = Graph::new();
            let resolver = Resolver::declare(&mut graph);
            let files = (blocking(&mut graph, "files").threads(1).state(()), resolver);
            let stage = graph.stage("test").shared(());
            let is_open = Rc::new(Cell::new(false));
            let (open, frozen) = (is_open.clone(), is_frozen.clone());
            let program = net.start(1, graph, move |_| {
                let (open, frozen, stored) = (open.clone(), frozen.clone(), is_stored.clone());
                stage.dispatch(move |_| async move {
                    let metrics = Peers::new("a").status.kept.clone();
                    let kept = Kept::new(&config().cluster, "1", metrics);
                    let mirror = StreamMirror::start(kept, stage, files, false);
                    mirror.open(JOURNAL, 1, 1).await.unwrap();
                    mirror.complete().await.unwrap();
                    open.set(true);
                    while !frozen.get() {
                        sleep(Duration::from_millis(10)).await;
                    }
                    stored.set(mirror.append(1, Bytes::from(vec![7])).await.is_ok());
                })?;
                Ok(())
            });
            until(&is_open).await;
            server.set(Passage::Frozen);
            is_frozen.set(true);
            net.sleep(Duration::from_millis(100)).await;
            program.drain().await;
        });
    });
    assert!(is_stored.get());
}
