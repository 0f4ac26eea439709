//! Encrypted streams for poll functions.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::{IoTimeout, PollStream};
use phalanx::sim::{self, Faults, Net};
use phalanx::{Graph, SharedStage};
use phalanx_tls::{PolledTls, TlsStages};

use crate::client::{TlsClient, certificates};

/// More than the network holds.
const LENGTH: usize = 400_000;
/// Longer than anything takes that does not wait for the peer.
const LONG_PAUSE: Duration = Duration::from_secs(1);

type SharedStream = Rc<RefCell<PolledTls>>;
/// The number of bytes that the server's stream has taken.
type ByteCount = Rc<Cell<usize>>;

/// Serves one connection with `serve`, and connects with `client`, in four simulations with other orders of events.
fn simulate<S, C>(
    serve: impl Fn(SharedStage<()>, SharedStream, ByteCount) -> S + Copy + 'static,
    client: impl Fn(TlsClient, Net, ByteCount) -> C + Copy + 'static,
) where
    S: Future<Output = ()> + 'static,
    C: Future<Output = ()> + 'static,
{
    sim::explore(4, |world| {
        let address = "10.0.0.1:443".parse().unwrap();
        world.set_processors(1);
        world.set_faults(Faults { immediate: 500, ..Faults::NONE });
        // Otherwise a second may pass within a few steps.
        world.advance_only_when_idle();
        let mut graph = Graph::new();
        let tls = TlsStages::declare(&mut graph, certificates(), &[], None);
        let stage = graph.shared("stage", ());
        let (endpoints, consumed) = (world.listen(address), ByteCount::default());
        let client_consumed = consumed.clone();
        world.program(graph, move |start| {
            let (listener, consumed) = (endpoints.listener(start)?, consumed.clone());
            stage.dispatch(move |_| async move {
                let Ok(stream) = listener.accept().await else { return };
                let stream = tls.handshake(stream, IoTimeout::NONE).await.ok().unwrap();
                serve(stage, Rc::new(RefCell::new(stream.into_polled())), consumed).await;
            })?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            let connected = TlsClient::connect(net.connect(address).await.unwrap()).await;
            // The server writes until the network is full.
            net.sleep(LONG_PAUSE).await;
            client(connected, net, client_consumed).await;
        });
    });
}

async fn write_all(stream: SharedStream) {
    let bytes = vec![7; LENGTH];
    let mut sent = 0;
    while sent < LENGTH {
        let part = [IoSlice::new(&bytes[sent..])];
        sent += poll_fn(|context| stream.borrow_mut().poll_write(context, &part)).await.unwrap();
    }
    poll_fn(|context| stream.borrow_mut().poll_flush(context)).await.unwrap();
}

async fn read_byte(stream: SharedStream) {
    let read = poll_fn(|context| stream.borrow_mut().poll_read(context, 1, &mut |_| ())).await;
    assert_eq!(read.unwrap(), 1);
}

/// Writes once, and does not flush. The encrypted bytes are more than the socket takes at a time.
async fn write_once(stream: &SharedStream, consumed: &ByteCount) {
    let bytes = vec![7; 1 << 16];
    let part = [IoSlice::new(&bytes)];
    let written = poll_fn(|context| stream.borrow_mut().poll_write(context, &part)).await;
    consumed.set(written.unwrap());
    assert_eq!(consumed.get(), bytes.len());
}

/// Receives until the plaintext has this length.
async fn receive(client: &mut TlsClient, length: usize) {
    let mut opened = Vec::new();
    while opened.len() < length {
        assert!(client.receive(&mut opened).await > 0, "{} of {length} bytes", opened.len());
    }
}

/// The server answers a key update while another operation waits until the socket takes more.
#[test]
fn a_reader_does_not_take_the_wake_up_of_a_writer() {
    simulate(
        |stage, stream, _| async move {
            let writer = stream.clone();
            let written = stage.call(move |_| write_all(writer));
            let read = stage.call(move |_| read_byte(stream));
            written.await.unwrap();
            read.await.unwrap();
        },
        |mut client, net, _| async move {
            client.session.refresh_traffic_keys().unwrap();
            client.write_all(b"x").await;
            net.sleep(LONG_PAUSE).await;
            receive(&mut client, LENGTH).await;
        },
    );
}

/// A reader sends the bytes that the stream holds, if no operation waits to write.
#[test]
fn a_reader_sends_what_the_stream_holds() {
    simulate(
        |_, stream, consumed| async move {
            write_once(&stream, &consumed).await;
            read_byte(stream).await;
        },
        |mut client, _, consumed| async move {
            receive(&mut client, consumed.get()).await;
            client.write_all(b"x").await;
        },
    );
}

#[test]
fn a_dropped_stream_sends_what_it_has_taken() {
    simulate(
        |_, stream, consumed| async move { write_once(&stream, &consumed).await },
        |mut client, net, consumed| async move {
            net.drain();
            net.sleep(LONG_PAUSE).await;
            receive(&mut client, consumed.get()).await;
            assert_eq!(client.receive(&mut Vec::new()).await, 0);
        },
    );
}
