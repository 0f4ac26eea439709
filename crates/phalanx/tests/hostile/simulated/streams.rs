//! Streams, listeners and reads on another processor, and in another world.

use std::cell::RefCell;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::{IoTimeout, OwnerError, Stream};
use phalanx::sim::{self, Client, Faults, Net};

use super::{LocalProgram, SEEDS, address, panics, plain, polled_once, two};
use crate::harness::{Reading, owner_error, read};

/// Sends its processor's number, and reads to the end.
async fn exchange(net: &Net, processor: usize) {
    let mut client: Client = net.connect(address(processor)).await.unwrap();
    if client.write_all(&[processor as u8; 3]).await.is_ok() {
        while let Ok(1..) = client.read(&mut Vec::new()).await {}
    }
}

async fn reads_its_own(here: &LocalProgram) {
    let stream = here.listener.accept().await.unwrap();
    let (bytes, _stream) = read(stream).await;
    assert_eq!(bytes.unwrap(), [1; 3]);
}

#[test]
fn streams_and_reads_leave_their_processor() {
    two(
        plain,
        |here| async move {
            let stream = here.listener.accept().await.unwrap();
            let moved = polled_once(read(here.listener.accept().await.unwrap())).await;
            (stream, moved)
        },
        |here, (stream, moved): (Stream, Reading)| async move {
            let mut mine = polled_once(read(here.listener.accept().await.unwrap())).await;
            let mut bytes = Vec::new();
            let read = stream.read(&mut bytes, IoTimeout::NONE).await;
            assert_eq!(owner_error(read), OwnerError::WrongProcessor);
            assert_eq!(owner_error(stream.peer_addr()), OwnerError::WrongProcessor);
            drop(stream);
            let (read, stream) = moved.await;
            assert_eq!(owner_error(read), OwnerError::WrongProcessor);
            drop(stream);
            let (bytes, _stream) = (&mut mine).await;
            assert_eq!(bytes.unwrap(), [1; 3]);
        },
        async |net| {
            let other = exchange(&net, 1);
            let mut other = std::pin::pin!(other);
            let mut zero = std::pin::pin!(async {
                // Both are connected at the same time.
                let mut clients = Vec::new();
                for _ in 0..2 {
                    let mut client = net.connect(address(0)).await.unwrap();
                    client.write_all(&[0; 3]).await.unwrap();
                    clients.push(client);
                }
                for mut client in clients {
                    while let Ok(1..) = client.read(&mut Vec::new()).await {}
                }
            });
            let mut over = [false; 2];
            std::future::poll_fn(|context| {
                over[0] = over[0] || other.as_mut().poll(context).is_ready();
                over[1] = over[1] || zero.as_mut().poll(context).is_ready();
                if over == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        },
    );
}

#[test]
fn reads_are_dropped_elsewhere() {
    two(
        plain,
        |here| async move {
            let one = polled_once(read(here.listener.accept().await.unwrap())).await;
            // The next client connects when this one is closed.
            (one, here.listener)
        },
        |here, (one, listener)| async move {
            drop(one);
            assert_eq!(owner_error(listener.accept().await), OwnerError::WrongProcessor);
            assert_eq!(owner_error(listener.local_addr()), OwnerError::WrongProcessor);
            drop(listener);
            reads_its_own(&here).await;
        },
        async |net| {
            exchange(&net, 0).await;
            exchange(&net, 1).await;
        },
    );
}

thread_local! {
    static RETAINED: RefCell<Option<(Stream, Reading)>> = const { RefCell::new(None) };
}

/// A program that keeps a stream and a read beyond its world, and uses those of the previous world.
fn keeper(world: &mut sim::World) {
    world.set_processors(1);
    world.set_faults(Faults::NONE);
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let listeners = world.listen(address(0));
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        stage.dispatch(move |_| async move {
            let stream = listener.accept().await.unwrap();
            let reading = polled_once(read(listener.accept().await.unwrap())).await;
            match RETAINED.take() {
                None => RETAINED.set(Some((stream, reading))),
                Some((stream, reading)) => {
                    let read = stream.read(&mut Vec::new(), IoTimeout::NONE).await;
                    assert_eq!(owner_error(read), OwnerError::Ended);
                    assert_eq!(owner_error(reading.await.0), OwnerError::Ended);
                }
            }
            let (bytes, _mine) = read(listener.accept().await.unwrap()).await;
            assert_eq!(bytes.unwrap(), [0; 3]);
        })?;
        Ok(())
    });
    let net = world.net();
    world.client(async move {
        let mut others = Vec::new();
        for _ in 0..2 {
            others.push(net.connect(address(0)).await.unwrap());
        }
        // Connections that arrive later are accepted later.
        net.sleep(Duration::from_secs(1)).await;
        let mut mine = net.connect(address(0)).await.unwrap();
        mine.write_all(&[0; 3]).await.unwrap();
        assert_eq!(mine.read(&mut Vec::new()).await.unwrap(), 0);
    });
}

#[test]
fn streams_stay_in_their_world() {
    sim::explore_each(SEEDS, |seed| {
        // The simulation reports what was kept.
        let left = panics(|| _ = sim::run(seed, keeper));
        assert!(left.contains("1 requests to the driver"), "{left}");
        assert!(RETAINED.with_borrow(Option::is_some));
        sim::run(seed, keeper);
    });
}
