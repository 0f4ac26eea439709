//! A small NATS server, for simulations and for tests where no server is installed: it delivers core NATS messages
//! between its clients, by filters and queue groups, and stores messages of streams. It has no accounts, no clusters,
//! no consumers and no TLS. It drops messages for slow clients instead of disconnecting them.

mod gate;
mod interruption;
mod streams;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::sync::oneshot;
use phalanx::{SharedStage, select};

use crate::codec::{Bounds, Frame};
use crate::login::Info;
use crate::model::gate::Gate;
pub use crate::model::gate::Passage;
use crate::model::interruption::{Interruption, Properties};
use crate::model::streams::Streams;
use crate::subject::matches;

/// Maximum size of unsent frames for a client, in bytes.
const MAX_UNSENT: usize = 16 << 20;

/// Headers of the answer to a message without subscribers.
const NO_RESPONDERS: &[u8] = b"NATS/1.0 503\r\n\r\n";

/// A model of a server, on all processors. Clones are the same server.
#[derive(Clone)]
pub struct ModelServer {
    model: Arc<Mutex<Model>>,
    gate: Gate,
    interruption: Interruption,
    max_payload: usize,
}

impl Default for ModelServer {
    fn default() -> Self {
        Self::with_max_payload(Self::MAX_PAYLOAD)
    }
}

#[derive(Default)]
struct Model {
    clients: BTreeMap<u64, Peer>,
    next: u64,
    streams: Streams,
    /// Suffix of the subjects of which the next message is lost.
    lose_suffix: Option<String>,
}

/// A client.
#[derive(Default)]
struct Peer {
    /// Filters and queue groups, by number.
    subscriptions: BTreeMap<u64, (String, Option<String>)>,
    /// The name in its CONNECT.
    name: Arc<str>,
    out: Vec<u8>,
    wake: Option<oneshot::Sender<()>>,
}

impl ModelServer {
    /// Usual maximum size of a message, in bytes.
    pub const MAX_PAYLOAD: usize = 1 << 20;

    /// A server with this `max_payload`, which disconnects clients that send larger messages.
    pub fn with_max_payload(max_payload: usize) -> Self {
        let (gate, interruption) = (Gate::default(), Interruption::default());
        Self { model: Arc::default(), gate, interruption, max_payload }
    }

    /// Accepts clients until shutdown. Each is an operation of `stage`.
    pub async fn accept(self, listener: Listener, stage: SharedStage<()>) {
        let accepted = listener.accept_each(move |stream| {
            let server = self.clone();
            // If the stage is full, the connection is closed.
            let _ = stage.dispatch(move |_| async move { server.serve(stream).await });
        });
        accepted.await;
    }

    /// The same server behind a separate gate, for clients that are to be cut off separately.
    pub fn gated(&self) -> Self {
        Self { gate: Gate::default(), ..self.clone() }
    }

    /// Opens or closes the gate to this server.
    pub fn set(&self, passage: Passage) {
        self.gate.set(passage);
    }

    /// Closes the connections of all clients, as a restart does. Returns their number.
    pub fn cut(&self) -> usize {
        let mut model = self.lock();
        let clients = std::mem::take(&mut model.clients);
        // Dropping a sender wakes the operation that sends, which finds that its client is gone.
        clients.len()
    }

    /// Loses the next message to a subject with this suffix, as servers do when the connection between them breaks.
    pub fn lose_next(&self, subjects: &str) {
        self.lock().lose_suffix = Some(subjects.to_owned());
    }

    /// Interrupts the next client that publishes to a subject with this suffix: everything that it sends afterwards,
    /// also over later connections, waits until [`end_interruption`](Self::end_interruption).
    pub fn interrupt_publisher(&self, subjects: &str) {
        self.interruption.arm(subjects);
    }

    /// Ends the interruption.
    pub fn end_interruption(&self) {
        self.interruption.end();
    }

    /// Loses all streams, as if the disk were replaced.
    pub fn lose_streams(&self) {
        self.lock().streams.lose_all();
    }

    /// Removes the stored messages whose subject contains `part`, as an operator does.
    pub fn remove_stored(&self, part: &str) {
        self.lock().streams.remove_stored(part);
    }

    /// Loses the messages of a stream after the number `last`, and stores no others there until the stream is deleted: it
    /// does not answer such requests. Servers of version 2.9 may do this if a replica that was cut off becomes the leader.
    ///
    /// # Panics
    /// If the stream does not exist.
    pub fn make_unwritable(&self, name: &str, last: u64) {
        self.lock().streams.make_unwritable(name, last);
    }

    /// Sets whether a lagging replica answers direct requests for stored messages. It gets no messages from now on.
    pub fn set_lagging(&self, lags: bool) {
        self.lock().streams.set_lagging(lags);
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, stream: Stream) {
        let info = Info {
            version: "2.9.0".into(),
            headers: true,
            max_payload: self.max_payload,
            ..Info::default()
        };
        let json = serde_json::to_string(&info).unwrap_or_default();
        let mut peer = Peer::default();
        peer.append(Frame::Info(&json));
        let number = {
            let mut model = self.lock();
            model.next += 1;
            let number = model.next;
            model.clients.insert(number, peer);
            number
        };
        let connection = select(self.read(&stream, number), self.send(&stream, number));
        select(connection, self.gate.wait_closed()).await;
        self.lock().clients.remove(&number);
    }

    async fn read(&self, stream: &Stream, number: u64) {
        let mut input = Vec::new();
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE.until_shutdown()).await {
            self.gate.wait_open().await;
            let (bounds, mut consumed) = (Bounds::of_payload(self.max_payload), 0);
            while let Some((frame, length)) = match Frame::decode(&input[consumed..], bounds) {
                Ok(decoded) => decoded,
                Err(_) => return,
            } {
                let name = self.lock().clients.get(&number).map(|peer| peer.name.clone());
                let name = name.unwrap_or_default();
                self.interruption.wait_open(&name).await;
                if let Frame::Publish { subject, .. } = &frame {
                    self.interruption.published(&name, subject);
                }
                self.lock().take(number, frame);
                consumed += length;
            }
            input.drain(..consumed);
        }
    }

    async fn send(&self, stream: &Stream, number: u64) {
        loop {
            let wakeup = {
                let mut model = self.lock();
                let Some(peer) = model.clients.get_mut(&number) else { return };
                let (sender, receiver) = oneshot::shared();
                peer.wake = Some(sender);
                match peer.out.is_empty() {
                    true => Err(receiver),
                    false => Ok(std::mem::take(&mut peer.out)),
                }
            };
            match wakeup {
                Ok(bytes) => {
                    self.gate.wait_open().await;
                    let written = stream.write(bytes, IoTimeout::NONE.until_shutdown());
                    if written.await.is_err() {
                        return;
                    }
                }
                Err(receiver) => drop(receiver.await),
            }
        }
    }
}

impl Model {
    /// Processes a frame of a client.
    fn take(&mut self, number: u64, frame: Frame<'_>) {
        match frame {
            Frame::Publish { subject, .. } if self.streams.is_unwritable(subject) => {}
            Frame::Publish { subject, .. }
                if self.lose_suffix.take_if(|end| subject.ends_with(&**end)).is_some() => {}
            Frame::Publish { subject, reply, headers, payload } => {
                let message = |id| Frame::Message { subject, id, reply, headers, payload };
                let stored = self.streams.take(subject, headers, payload);
                let is_wanted = self.publish(subject, message);
                let none = || (Some(NO_RESPONDERS.to_vec()), Vec::new());
                let answer = stored.or_else(|| (!is_wanted).then(none));
                if let (Some(subject), Some((headers, payload))) = (reply, &answer) {
                    let (reply, headers, payload) = (None, headers.as_deref(), &payload[..]);
                    let answer = |id| Frame::Message { subject, id, reply, headers, payload };
                    self.publish(subject, answer);
                }
            }
            frame => {
                let Some(peer) = self.clients.get_mut(&number) else { return };
                match frame {
                    Frame::Connect(json) => {
                        let properties: Properties = serde_json::from_str(json).unwrap_or_default();
                        peer.name = properties.name.into();
                    }
                    Frame::Ping => peer.append(Frame::Pong),
                    Frame::Subscribe { subject, queue, id } => {
                        let subscription = (subject.to_owned(), queue.map(str::to_owned));
                        peer.subscriptions.insert(id, subscription);
                    }
                    Frame::Unsubscribe { id, .. } => drop(peer.subscriptions.remove(&id)),
                    _ => (),
                }
            }
        }
    }

    /// Passes a message to all subscriptions. Returns whether there are any.
    fn publish<'a>(&mut self, subject: &str, frame: impl Fn(u64) -> Frame<'a>) -> bool {
        let (mut groups, mut is_wanted) = (Vec::new(), false);
        for peer in self.clients.values_mut() {
            let subscriptions = std::mem::take(&mut peer.subscriptions);
            for (id, (filter, queue)) in &subscriptions {
                if !matches(filter, subject) {
                    continue;
                }
                is_wanted = true;
                if let Some(queue) = queue {
                    if groups.contains(queue) {
                        continue;
                    }
                    groups.push(queue.clone());
                }
                if peer.out.len() < MAX_UNSENT {
                    peer.append(frame(*id));
                }
            }
            peer.subscriptions = subscriptions;
        }
        is_wanted
    }
}

impl Peer {
    fn append(&mut self, frame: Frame<'_>) {
        frame.encode(&mut self.out);
        if let Some(wake) = self.wake.take() {
            wake.send(());
        }
    }
}
