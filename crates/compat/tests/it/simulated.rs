//! Adapted streams in simulations, which vary the order of events, cut reads and writes short, and reset connections.

use std::cell::RefCell;
use std::future::Future;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::Stream;
use phalanx::sim::{self, Client, Faults, Net, World};
use phalanx_compat::{Compat, portable};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SEEDS: u64 = 12;
/// More bytes than a single write accepts.
const LENGTH: usize = 70_000;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 3) as u8).collect()
}

/// Serves one connection with `serve`, and connects with `client`. `with_resets` adds connection resets to the faults.
fn simulate<S, C>(
    with_resets: bool,
    serve: impl Fn(Stream) -> S + Copy + 'static,
    client: impl Fn(Client, Net) -> C + Copy + 'static,
) where
    S: Future<Output = ()> + 'static,
    C: Future<Output = ()> + 'static,
{
    let build = |seed, world: &mut World| {
        let address = "10.0.0.1:80".parse().unwrap();
        world.set_processors(1);
        let random = Faults::random(seed);
        let reset = if with_resets { random.reset } else { 0 };
        world.set_faults(Faults { reset, accept: 0, ..random });
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            let listener = endpoints.listener(start)?;
            stage.dispatch(move |_| {
                listener.accept_each(move |stream| {
                    stage.dispatch(move |_| serve(stream)).expect("there is room");
                })
            })?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            if let Ok(connected) = net.connect(address).await {
                client(connected, net).await;
            }
        });
    };
    sim::explore_each(SEEDS, |seed| _ = sim::run(seed, |world| build(seed, world)));
}

async fn read_all(client: &mut Client) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while client.read(&mut bytes).await? > 0 {}
    Ok(bytes)
}

#[test]
fn bytes_written_before_a_drop_arrive() {
    simulate(
        false,
        |stream| async move {
            let mut stream = Compat::from(stream);
            stream.write_all(&content()).await.unwrap();
        },
        |mut client, net| async move {
            let mut bytes = Vec::new();
            client.read(&mut bytes).await.unwrap();
            // The write is pending when the program has drained.
            net.drain();
            net.sleep(Duration::from_secs(1)).await;
            while client.read(&mut bytes).await.unwrap() > 0 {}
            assert_eq!(bytes, content());
        },
    );
}

#[test]
fn both_directions_at_once() {
    simulate(
        false,
        |stream| async move {
            let (mut read, mut write) = tokio::io::split(Compat::from(stream));
            let sends = async {
                write.write_all(&content()).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let receives = async {
                let mut bytes = Vec::new();
                read.read_to_end(&mut bytes).await.unwrap();
                assert!(bytes == content());
            };
            futures_join(sends, receives).await;
        },
        |mut client, _| async move {
            client.write_all(&content()).await.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert!(read_all(&mut client).await.unwrap() == content());
        },
    );
}

/// Polls both in one task, so that reader and writer share a waker.
async fn futures_join(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let mut done = [false; 2];
    std::future::poll_fn(|context| {
        done[0] = done[0] || one.as_mut().poll(context).is_ready();
        done[1] = done[1] || other.as_mut().poll(context).is_ready();
        if done == [true; 2] { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn resets_end_reads_and_writes() {
    simulate(
        true,
        |stream| async move {
            let (mut read, mut write) = tokio::io::split(Compat::from(stream));
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        },
        |mut client, _| async move {
            if client.write_all(b"some bytes").await.is_ok()
                && client.shutdown(Shutdown::Write).is_ok()
                && let Ok(bytes) = read_all(&mut client).await
            {
                assert!(b"some bytes".starts_with(&bytes), "{bytes:?}");
            }
        },
    );
}

#[test]
fn a_relay_ends_with_its_stream() {
    simulate(
        false,
        |stream| async move {
            let (stream, relay) = portable(phalanx::net::Polled::new(stream));
            let ended = Rc::new(RefCell::new(false));
            let serve = async {
                let mut stream = Compat::new(stream);
                stream.write_all(b"from home").await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let relayed = async {
                relay.await;
                *ended.borrow_mut() = true;
            };
            futures_join(serve, relayed).await;
            assert!(*ended.borrow());
        },
        |mut client, _| async move {
            assert_eq!(read_all(&mut client).await.unwrap(), b"from home");
        },
    );
}
