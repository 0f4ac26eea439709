//! The server's listen addresses. One thread binds them and commands the processors to open, change and close
//! their listeners.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::net::bind;
use phalanx::sync::oneshot;

use crate::config::{Config, Listen};
use crate::conn::accept::ListenerKind;
use crate::error::ServeError;
use crate::reload::inherited::Inherited;

/// URL of an address.
pub(crate) fn url(listen: Listen, address: SocketAddr) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// A bound address, with one socket per processor.
#[derive(Clone, Copy)]
struct BoundAddress {
    id: u64,
    listen: Listen,
    /// Actual address; it differs from the configured one if that has port 0.
    address: SocketAddr,
}

/// Command to one processor.
pub(crate) enum ListenerCommand {
    Open { id: u64, socket: TcpListener, kind: ListenerKind },
    SetKind { id: u64, kind: ListenerKind },
    Close { id: u64 },
}

/// All bound addresses.
pub(crate) struct Listeners {
    bound_addresses: Vec<BoundAddress>,
    next: u64,
    commands: Arc<CommandQueues>,
    /// Inherited sockets that are not in use yet.
    inherited: Inherited,
}

/// A prepared change, which cannot fail any more.
pub(crate) struct ListenerChange {
    bound_addresses: Vec<BoundAddress>,
    /// New addresses, each with one socket per processor.
    bound: Vec<(u64, Vec<TcpListener>)>,
}

impl Listeners {
    /// Binds the initial addresses, using inherited sockets where they match.
    pub(crate) fn bind(config: &Config, inherited: Inherited) -> Result<Self, ServeError> {
        let commands = Arc::new(CommandQueues::new(config.runtime.workers));
        let mut listeners = Self { bound_addresses: Vec::new(), next: 0, commands, inherited };
        let change = listeners.prepare(config)?;
        listeners.apply(change);
        Ok(listeners)
    }

    /// The processors' command queues.
    pub(crate) fn commands(&self) -> Arc<CommandQueues> {
        self.commands.clone()
    }

    /// Bound addresses, in the order of [`Config::listen`].
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.bound_addresses.iter().map(|entry| entry.address).collect()
    }

    /// Binds the addresses that are new in `config`. An unchanged address keeps its sockets, even if its
    /// protocol changes.
    pub(crate) fn prepare(&mut self, config: &Config) -> Result<ListenerChange, ServeError> {
        let mut before = self.bound_addresses.clone();
        let (mut bound_addresses, mut bound) = (Vec::new(), Vec::new());
        for &listen in &config.listen {
            let known = before.iter().position(|entry| entry.listen.address == listen.address);
            if let Some(known) = known {
                bound_addresses.push(BoundAddress { listen, ..before.remove(known) });
                continue;
            }
            let wrong = |source| ServeError::Listen { address: listen.address, source };
            let processors = config.runtime.workers;
            let open = self.inherited.take(listen.address, processors);
            let sockets = open.unwrap_or_else(|| bind(listen.address, processors));
            let sockets = sockets.map_err(wrong)?;
            let address = sockets[0].local_addr().map_err(wrong)?;
            bound_addresses.push(BoundAddress { id: self.next, listen, address });
            bound.push((self.next, sockets));
            self.next += 1;
        }
        Ok(ListenerChange { bound_addresses, bound })
    }

    /// Applies the change. Returns the URLs of new addresses.
    pub(crate) fn apply(&mut self, change: ListenerChange) -> Vec<String> {
        let ListenerChange { bound_addresses, bound } = change;
        let https =
            bound_addresses.iter().find(|entry| entry.listen.tls).map(|entry| entry.address.port());
        let kind = |listen: Listen| match (listen.tls, listen.redirect_https, https) {
            (true, ..) => ListenerKind::Tls,
            (false, true, Some(port)) => ListenerKind::RedirectHttps(port),
            _ => ListenerKind::Plain,
        };
        let mut added = Vec::new();
        let mut bound = bound.into_iter().peekable();
        for &BoundAddress { id, listen, address } in &bound_addresses {
            let kind = kind(listen);
            match bound.next_if(|(new, _)| *new == id) {
                Some((_, sockets)) => {
                    added.push(url(listen, address));
                    for (processor, socket) in sockets.into_iter().enumerate() {
                        self.commands.push(processor, ListenerCommand::Open { id, socket, kind });
                    }
                }
                None => self.commands.push_all(|| ListenerCommand::SetKind { id, kind }),
            }
        }
        for gone in &self.bound_addresses {
            if bound_addresses.iter().all(|entry| entry.id != gone.id) {
                self.commands.push_all(|| ListenerCommand::Close { id: gone.id });
            }
        }
        self.bound_addresses = bound_addresses;
        added
    }
}

/// Pending commands, one queue per processor.
pub(crate) struct CommandQueues(Vec<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    commands: VecDeque<ListenerCommand>,
    /// Wakes the processor when a command is added.
    waker: Option<oneshot::Sender<()>>,
}

impl CommandQueues {
    fn new(processors: usize) -> Self {
        Self((0..processors).map(|_| Mutex::default()).collect())
    }

    fn push(&self, processor: usize, command: ListenerCommand) {
        let mut queue = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        queue.commands.push_back(command);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.send(());
        }
    }

    fn push_all(&self, command: impl Fn() -> ListenerCommand) {
        (0..self.0.len()).for_each(|processor| self.push(processor, command()));
    }

    /// The next command for a processor, or a receiver that resolves when there is one.
    pub(crate) fn take(&self, processor: usize) -> Result<ListenerCommand, oneshot::Receiver<()>> {
        let mut queue = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        queue.commands.pop_front().ok_or_else(|| {
            let (sender, receiver) = oneshot::shared();
            queue.waker = Some(sender);
            receiver
        })
    }
}
