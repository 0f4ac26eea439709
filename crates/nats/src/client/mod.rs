//! A connection to NATS that is opened again when it is lost.

mod serve;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx::net::Resolver;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::Notify;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_tls::Backoff;
use thiserror::Error;

use crate::codec::Frame;
use crate::login::login;
use crate::options::{Access, Options};
use crate::subject::{is_filter, is_subject};

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The subject it was published to.
    pub subject: &'a str,
    /// The reply subject.
    pub reply: Option<&'a str>,
    /// The headers: `NATS/1.0` and lines, up to an empty one.
    pub headers: Option<&'a [u8]>,
    /// The payload.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// Whether this is the server's answer that a message had no subscriber.
    pub fn is_undelivered(&self) -> bool {
        self.headers.is_some_and(|headers| headers.starts_with(b"NATS/1.0 503"))
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejected {
    /// No server is connected.
    #[error("NATS is not connected")]
    Disconnected,
    /// The unsent messages reach [`Options::max_pending`].
    #[error("{0} bytes for NATS are unsent (limit max_pending); retry later")]
    Full(usize),
    /// The message exceeds the server's `max_payload`.
    #[error("the message has {0} bytes, more than the max_payload of NATS ({1})")]
    TooLarge(usize, usize),
    /// The subject is not valid.
    #[error("the subject is not valid")]
    Subject,
}

type Handler = Rc<RefCell<dyn FnMut(Message<'_>)>>;

struct Subscription {
    filter: String,
    queue: Option<String>,
    handler: Handler,
}

/// A client of NATS, on one processor. Its copies share the connection.
///
/// ```no_run
/// use std::time::Duration;
///
/// use phalanx::Graph;
/// use phalanx::net::Resolver;
/// use phalanx_nats::{Access, Client, Options};
///
/// let mut graph = Graph::new();
/// let resolver = Resolver::declare(&mut graph);
/// let control = graph.stage("control").shared(());
/// // In an operation of a stage:
/// let operation = move || async move {
///     let servers = vec!["nats://127.0.0.1:4222".parse().unwrap()];
///     let access = Access { servers, ..Access::default() };
///     let client = Client::new(Options { access, ..Options::default() }, resolver);
///     client.subscribe("greetings.*", None, |message| println!("{:?}", message.payload));
///     let running = client.clone();
///     control.dispatch(move |_| async move { running.run().await }).unwrap();
///     client.connected().await;
///     client.publish("greetings.one", None, None, b"hello").unwrap();
/// };
/// ```
#[derive(Clone)]
pub struct Client(Rc<Shared>);

pub(crate) struct Shared {
    pub(crate) options: Options,
    /// The access of the options, or its replacement.
    access: RefCell<Access>,
    resolver: Resolver,
    subscriptions: RefCell<BTreeMap<u64, Subscription>>,
    next_id: Cell<u64>,
    /// Unsent encoded frames, and the number of messages among them.
    out: RefCell<Vec<u8>>,
    out_messages: Cell<u64>,
    /// Bytes that are being written.
    writing: Cell<usize>,
    has_output: Notify,
    /// The server's `max_payload`, while connected.
    max_payload: Cell<Option<usize>>,
    connected: Notify,
    is_stopped: Cell<bool>,
    stopped: Notify,
}

impl Client {
    /// A client that [`run`](Self::run) connects. The stage resolves the servers' names.
    pub fn new(options: Options, resolver: Resolver) -> Self {
        Self(Rc::new(Shared {
            access: RefCell::new(options.access.clone()),
            options,
            resolver,
            subscriptions: RefCell::default(),
            next_id: Cell::new(1),
            out: RefCell::default(),
            out_messages: Cell::new(0),
            writing: Cell::new(0),
            has_output: Notify::default(),
            max_payload: Cell::new(None),
            connected: Notify::default(),
            is_stopped: Cell::new(false),
            stopped: Notify::default(),
        }))
    }

    /// Connects to the servers in turn, serves the connection, and connects again, until shutdown or
    /// [`stop`](Self::stop). A stop sends unsent messages first. Without a stop, the client runs for
    /// [`Options::linger`] after the start of shutdown.
    pub async fn run(&self) {
        let Options { reconnect_delay: (min, max), name, on_state, .. } = &self.0.options;
        let mut backoff = Backoff::new(*min, *max, name.clone());
        // Index of the server that is tried first.
        let mut first = 0;
        while !self.is_ending() {
            let mut last_error = "no server is configured".to_owned();
            let access = self.0.access.borrow().clone();
            let servers = access.servers.iter().enumerate().cycle().skip(first);
            for (index, server) in servers.take(access.servers.len()) {
                let session = login(&self.0.resolver, server, &access, &self.0.options);
                match Box::pin(session).await {
                    Ok(session) => {
                        let start = now();
                        on_state(Ok(server));
                        last_error = format!("{server}: {}", Box::pin(self.0.serve(session)).await);
                        backoff.record_connection(now() - start);
                        // Try the next server first, because the lost one may accept connections without responding.
                        first = index + 1;
                        break;
                    }
                    Err(error) => last_error = format!("{server}: {error}"),
                }
                if self.is_ending() {
                    break;
                }
            }
            if self.is_ending() {
                return;
            }
            on_state(Err(last_error));
            let delay = backoff.next_delay(now());
            select(select(sleep(delay), self.0.stopped.notified()), draining()).await;
        }
    }

    /// Replaces the servers and the credentials, from the next connection on.
    pub fn renew(&self, access: Access) {
        self.0.access.replace(access);
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.0.is_stopped.set(true);
        self.0.stopped.notify();
        self.0.has_output.notify();
    }

    fn is_ending(&self) -> bool {
        self.0.is_stopped.get() || is_draining()
    }

    /// Waits for a connection. One operation can wait.
    pub async fn connected(&self) {
        while !self.is_connected() {
            self.0.connected.notified().await;
        }
    }

    /// Whether a server is connected.
    pub fn is_connected(&self) -> bool {
        self.max_payload().is_some()
    }

    /// Maximum size of a message, in bytes, while a server is connected.
    pub fn max_payload(&self) -> Option<usize> {
        self.0.max_payload.get()
    }

    /// Subscribes to a filter now and after each reconnection. `handler` is called by the operation that reads, so it
    /// must not take long. Returns the number of the subscription.
    ///
    /// # Panics
    /// If `filter` is not valid.
    pub fn subscribe(
        &self,
        filter: &str,
        queue: Option<&str>,
        handler: impl FnMut(Message<'_>) + 'static,
    ) -> u64 {
        assert!(is_filter(filter), "{filter:?} is not a valid subject");
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        let subscription = Subscription {
            filter: filter.to_owned(),
            queue: queue.map(str::to_owned),
            handler: Rc::new(RefCell::new(handler)),
        };
        if self.is_connected() {
            self.0.append(Frame::Subscribe { subject: filter, queue, id });
        }
        self.0.subscriptions.borrow_mut().insert(id, subscription);
        id
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, id: u64) {
        let removed = self.0.subscriptions.borrow_mut().remove(&id);
        if removed.is_some() && self.is_connected() {
            self.0.append(Frame::Unsubscribe { id, max: None });
        }
    }

    /// Publishes a message, without waiting. If it has a reply subject and no subscriber, the server sends an answer
    /// with headers ([`Message::is_undelivered`]).
    ///
    /// # Errors
    /// [`Rejected`]; the message is dropped, and counted.
    pub fn publish(
        &self,
        subject: &str,
        reply: Option<&str>,
        headers: Option<&[u8]>,
        payload: &[u8],
    ) -> Result<(), Rejected> {
        let bytes = payload.len() + headers.map_or(0, <[u8]>::len);
        let unsent = self.unsent();
        let result = match self.max_payload() {
            _ if !is_subject(subject) => Err(Rejected::Subject),
            None => Err(Rejected::Disconnected),
            Some(max) if bytes > max => Err(Rejected::TooLarge(bytes, max)),
            Some(_) if unsent + bytes > self.0.options.max_pending => Err(Rejected::Full(unsent)),
            Some(_) => Ok(()),
        };
        match result {
            Ok(()) => {
                self.0.append(Frame::Publish { subject, reply, headers, payload });
                self.0.out_messages.set(self.0.out_messages.get() + 1);
            }
            Err(_) => self.0.options.metrics.dropped.add(1),
        }
        result
    }

    /// Bytes that are not sent.
    pub fn unsent(&self) -> usize {
        self.0.out.borrow().len() + self.0.writing.get()
    }
}

impl Shared {
    /// Appends a frame, and wakes the sender.
    fn append(&self, frame: Frame<'_>) {
        frame.encode(&mut self.out.borrow_mut());
        self.has_output.notify();
    }
}
