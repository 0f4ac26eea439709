//! The groups that a processor has connections to.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{SharedStage, select, sleep};

use crate::upstream::group::Group;
use crate::upstream::local::Local;

/// Time between two checks for connections that are unused for too long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A processor's connections to other servers.
pub(crate) struct Pools {
    /// The stage of the requests, and of the operation that closes unused connections.
    stage: SharedStage<()>,
    all: RefCell<Vec<Rc<Local>>>,
    /// Whether the operation that closes unused connections runs.
    is_watched: Cell<bool>,
}

/// A processor's connections to upstream servers, for one client named by a PROXY header, or for all clients whose
/// addresses are known from their sockets.
pub(crate) struct NamedPools {
    pub(crate) pools: Rc<Pools>,
    /// The client that a PROXY header has named.
    pub(crate) named: Option<IpAddr>,
    /// Whether the PROXY header says that the client uses TLS.
    pub(crate) is_tls: bool,
}

impl NamedPools {
    pub(crate) fn new(stage: SharedStage<()>) -> Rc<Self> {
        Rc::new(Self { pools: Pools::new(stage), named: None, is_tls: false })
    }

    /// The same pools for this client, which uses TLS if `is_tls`.
    pub(crate) fn of(&self, client: IpAddr, is_tls: bool) -> Rc<Self> {
        Rc::new(Self { pools: self.pools.clone(), named: Some(client), is_tls })
    }
}

impl Pools {
    fn new(stage: SharedStage<()>) -> Rc<Self> {
        Rc::new(Self { stage, all: RefCell::default(), is_watched: Cell::new(false) })
    }

    /// The stage of the requests that use the connections.
    pub(crate) fn stage(&self) -> SharedStage<()> {
        self.stage
    }

    /// The processor's share of a group.
    pub(super) fn local(&self, group: &Arc<Group>) -> Rc<Local> {
        let mut all = self.all.borrow_mut();
        // Few groups are in use.
        if let Some(local) = all.iter().find(|local| local.is_of(group)) {
            return local.clone();
        }
        all.retain(|local| !local.is_over());
        let local = Rc::new(Local::new(group));
        all.push(local.clone());
        local
    }

    /// Starts the operation that closes unused connections, unless it runs. It ends when there are none.
    pub(super) fn watch(self: &Rc<Self>) {
        if is_draining() {
            for local in self.all.borrow().iter() {
                local.expire(Duration::MAX);
            }
        } else if !self.is_watched.replace(true) {
            let pools = self.clone();
            if self.stage.dispatch(move |_| sweep(pools)).is_err() {
                // The operation limit is reached; the next request tries again.
                self.is_watched.set(false);
            }
        }
    }
}

async fn sweep(pools: Rc<Pools>) {
    let _watching = Watching(&pools.is_watched);
    loop {
        select(draining(), sleep(SWEEP_INTERVAL)).await;
        let now = if is_draining() { Duration::MAX } else { now() };
        let mut any = false;
        for local in pools.all.borrow().iter() {
            any |= local.expire(now);
        }
        pools.all.borrow_mut().retain(|local| !local.is_over());
        if !any {
            return;
        }
    }
}

/// Clears the flag when the operation ends or is dropped.
struct Watching<'a>(&'a Cell<bool>);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
