//! A small NATS server, for simulations and for tests where no server is installed: it delivers messages of core NATS
//! between its clients, by filters and queue groups. It has no accounts, no clusters, no streams and no TLS, and does
//! not close slow clients but drops their messages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::sync::Notify;
use phalanx::{SharedStage, select};

use crate::codec::{Bounds, Frame};
use crate::login::Info;
use crate::subject::matches;

/// Maximum size of unsent frames for a client, in bytes.
const MAX_UNSENT: usize = 16 << 20;

/// A model of a server. It belongs to one processor.
#[derive(Clone, Default)]
pub struct ModelServer(Rc<Model>);

#[derive(Default)]
struct Model {
    clients: RefCell<BTreeMap<u64, Rc<Peer>>>,
    next: Cell<u64>,
}

#[derive(Default)]
struct Peer {
    subscriptions: RefCell<BTreeMap<u64, (String, Option<String>)>>,
    out: RefCell<Vec<u8>>,
    filled: Notify,
    cut: Notify,
}

impl ModelServer {
    /// Maximum size of a message, in bytes.
    pub const MAX_PAYLOAD: usize = 1 << 20;

    /// Accepts clients until shutdown. Each is an operation of `stage`.
    pub async fn accept(self, listener: Listener, stage: SharedStage<()>) {
        let accepted = listener.accept_each(move |stream| {
            let own = self.clone();
            // A client beyond the stage's capacity is closed.
            let _ = stage.dispatch(move |_| async move { own.serve(stream).await });
        });
        accepted.await;
    }

    /// Closes the connections of all clients, as a restart does. Returns their number.
    pub fn cut(&self) -> usize {
        let clients = self.0.clients.borrow().clone();
        for peer in clients.values() {
            peer.cut.notify();
        }
        clients.len()
    }

    async fn serve(&self, stream: Stream) {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        let peer = Rc::new(Peer::default());
        let info = Info {
            version: "2.9.0".into(),
            headers: true,
            max_payload: Self::MAX_PAYLOAD,
            ..Info::default()
        };
        let json = serde_json::to_string(&info).unwrap_or_default();
        Frame::Info(&json).encode(&mut peer.out.borrow_mut());
        self.0.clients.borrow_mut().insert(number, peer.clone());
        let both = select(self.read(&stream, &peer), send(&stream, &peer));
        select(both, peer.cut.notified()).await;
        self.0.clients.borrow_mut().remove(&number);
    }

    async fn read(&self, stream: &Stream, peer: &Peer) {
        let mut input = Vec::new();
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE.until_shutdown()).await {
            let (bounds, mut done) = (Bounds::of_payload(Self::MAX_PAYLOAD), 0);
            while let Some((frame, length)) = match Frame::decode(&input[done..], bounds) {
                Ok(decoded) => decoded,
                Err(_) => return,
            } {
                match frame {
                    Frame::Ping => peer.append(Frame::Pong),
                    Frame::Subscribe { subject, queue, id } => {
                        let own = (subject.to_owned(), queue.map(str::to_owned));
                        peer.subscriptions.borrow_mut().insert(id, own);
                    }
                    Frame::Unsubscribe { id, .. } => {
                        peer.subscriptions.borrow_mut().remove(&id);
                    }
                    Frame::Publish { subject, reply, headers, payload } => {
                        self.publish(subject, |id| Frame::Message {
                            subject,
                            id,
                            reply,
                            headers,
                            payload,
                        });
                    }
                    _ => (),
                }
                done += length;
            }
            input.drain(..done);
        }
    }

    fn publish<'a>(&self, subject: &str, frame: impl Fn(u64) -> Frame<'a>) {
        let mut groups = Vec::new();
        for peer in self.0.clients.borrow().values() {
            for (id, (filter, queue)) in &*peer.subscriptions.borrow() {
                if !matches(filter, subject) {
                    continue;
                }
                if let Some(queue) = queue {
                    if groups.contains(queue) {
                        continue;
                    }
                    groups.push(queue.clone());
                }
                if peer.out.borrow().len() < MAX_UNSENT {
                    peer.append(frame(*id));
                }
            }
        }
    }
}

impl Peer {
    fn append(&self, frame: Frame<'_>) {
        frame.encode(&mut self.out.borrow_mut());
        self.filled.notify();
    }
}

async fn send(stream: &Stream, peer: &Peer) {
    loop {
        if peer.out.borrow().is_empty() {
            peer.filled.notified().await;
            continue;
        }
        let bytes = peer.out.take();
        if stream.write(bytes, IoTimeout::NONE.until_shutdown()).await.is_err() {
            return;
        }
    }
}
