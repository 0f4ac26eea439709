//! Where the server listens, as all processors are to have it: bound by one thread, which orders the
//! processors to open, change and shut.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::net::bind;
use phalanx::sync::{RemoteEvent, RemoteTrigger, remote_event};

use crate::config::{Config, Listen};
use crate::connection::accept::Door;
use crate::reload::inherited::Inherited;
use crate::serve::{ServeError, url};

/// An entrance of all processors.
#[derive(Clone, Copy)]
struct Place {
    id: u64,
    listen: Listen,
    /// Where it is: not what was asked for, if that was any port.
    address: SocketAddr,
}

/// What one processor is to do.
pub(crate) enum Order {
    Open { id: u64, socket: TcpListener, door: Door },
    Change { id: u64, door: Door },
    Shut { id: u64 },
}

/// All entrances.
pub(crate) struct Entrances {
    places: Vec<Place>,
    next: u64,
    orders: Arc<Orders>,
    /// Sockets that are open and not used yet.
    inherited: Inherited,
}

/// A change that can be made.
pub(crate) struct Change {
    places: Vec<Place>,
    /// Those that are new, each with a socket for each processor.
    bound: Vec<(u64, Vec<TcpListener>)>,
}

impl Entrances {
    /// Binds those that the server starts with, but for those that are open already.
    pub(crate) fn bind(config: &Config, inherited: Inherited) -> Result<Self, ServeError> {
        let orders = Arc::new(Orders::new(config.runtime.workers));
        let mut entrances = Self { places: Vec::new(), next: 0, orders, inherited };
        let change = entrances.prepare(config)?;
        entrances.put(change);
        Ok(entrances)
    }

    /// For the processors.
    pub(crate) fn orders(&self) -> Arc<Orders> {
        self.orders.clone()
    }

    /// Where they are, in the order of [`Config::listen`].
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.address).collect()
    }

    /// Binds what `config` has and is not there. An address that stays keeps its sockets, whatever is
    /// spoken there.
    pub(crate) fn prepare(&mut self, config: &Config) -> Result<Change, ServeError> {
        let mut before = self.places.clone();
        let (mut places, mut bound) = (Vec::new(), Vec::new());
        for &listen in &config.listen {
            let known = before.iter().position(|place| place.listen.address == listen.address);
            if let Some(known) = known {
                places.push(Place { listen, ..before.remove(known) });
                continue;
            }
            let wrong = |source| ServeError::Listen { address: listen.address, source };
            let processors = config.runtime.workers;
            let open = self.inherited.take(listen.address, processors);
            let sockets = open.unwrap_or_else(|| bind(listen.address, processors));
            let sockets = sockets.map_err(wrong)?;
            let address = sockets[0].local_addr().map_err(wrong)?;
            places.push(Place { id: self.next, listen, address });
            bound.push((self.next, sockets));
            self.next += 1;
        }
        Ok(Change { places, bound })
    }

    /// Makes the change. Gives the URLs of what is new.
    pub(crate) fn put(&mut self, change: Change) -> Vec<String> {
        let Change { places, bound } = change;
        let https = places.iter().find(|place| place.listen.tls).map(|place| place.address.port());
        let door = |listen: Listen| match (listen.tls, listen.redirect_https, https) {
            (true, ..) => Door::Tls,
            (false, true, Some(port)) => Door::ToHttps(port),
            _ => Door::Plain,
        };
        let mut added = Vec::new();
        let mut bound = bound.into_iter().peekable();
        for &Place { id, listen, address } in &places {
            let door = door(listen);
            match bound.next_if(|(new, _)| *new == id) {
                Some((_, sockets)) => {
                    added.push(url(listen, address));
                    for (processor, socket) in sockets.into_iter().enumerate() {
                        self.orders.give(processor, Order::Open { id, socket, door });
                    }
                }
                None => self.orders.give_all(|| Order::Change { id, door }),
            }
        }
        for gone in &self.places {
            if places.iter().all(|place| place.id != gone.id) {
                self.orders.give_all(|| Order::Shut { id: gone.id });
            }
        }
        self.places = places;
        added
    }
}

/// What the processors are still to do.
pub(crate) struct Orders(Vec<Mutex<Own>>);

#[derive(Default)]
struct Own {
    orders: VecDeque<Order>,
    /// Rung when there is an order.
    bell: Option<RemoteTrigger<()>>,
}

impl Orders {
    fn new(processors: usize) -> Self {
        Self((0..processors).map(|_| Mutex::default()).collect())
    }

    fn give(&self, processor: usize, order: Order) {
        let mut own = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        own.orders.push_back(order);
        let bell = own.bell.take();
        drop(own);
        if let Some(bell) = bell {
            bell.fire(());
        }
    }

    fn give_all(&self, order: impl Fn() -> Order) {
        (0..self.0.len()).for_each(|processor| self.give(processor, order()));
    }

    /// The next order for a processor, or else what happens when there is one.
    pub(crate) fn take(&self, processor: usize) -> Result<Order, RemoteEvent<()>> {
        let mut own = self.0[processor].lock().unwrap_or_else(PoisonError::into_inner);
        own.orders.pop_front().ok_or_else(|| {
            let (trigger, event) = remote_event();
            own.bell = Some(trigger);
            event
        })
    }
}
