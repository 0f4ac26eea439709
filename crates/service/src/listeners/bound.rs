//! The bound addresses, and the preparation of changes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use phalanx::net::{bind, bind_unix_with_mode};

use crate::address::{ListenAddress, redirect_port};
use crate::listen::{BindError, Listen, Scheme};
use crate::listeners::commands::{CommandQueues, ListenerCommand};
use crate::listeners::inherited::Inherited;
use crate::listeners::unix_files::{UnixFile, UnixFiles, UnixFilesGuard, set_mode};

/// A bound address, with one socket per processor.
#[derive(Clone, Copy)]
struct BoundAddress<S> {
    id: u64,
    listen: Listen<S>,
    /// Actual address; it differs from the configured one if that has port 0.
    address: ListenAddress,
}

impl<S: Scheme> BoundAddress<S> {
    fn url(&self) -> String {
        let scheme = self.listen.scheme.for_clients();
        Listen { address: self.address, scheme, ..self.listen }.to_string()
    }
}

/// All bound addresses.
pub struct Listeners<S: Scheme> {
    bound_addresses: Vec<BoundAddress<S>>,
    next: u64,
    workers: usize,
    commands: Arc<CommandQueues<S::Kind>>,
    /// Inherited sockets that are not in use yet.
    inherited: Inherited<S>,
    files: UnixFiles,
}

/// A prepared change, which cannot fail any more.
pub struct ListenerChange<S> {
    bound_addresses: Vec<BoundAddress<S>>,
    /// New addresses, each with one socket per processor.
    bound: Vec<(u64, Bound)>,
}

/// A newly bound address.
struct Bound {
    /// Actual address.
    address: ListenAddress,
    /// One for each processor.
    sockets: Vec<OwnedFd>,
    /// The file of a Unix socket.
    file: Option<UnixFile>,
}

impl Bound {
    /// Binds `address`, unless a bound address overlaps with it.
    fn new<S: Scheme>(
        address: ListenAddress,
        (processors, bound): (usize, &[&[BoundAddress<S>]]),
        inherited: &Inherited<S>,
    ) -> io::Result<Self> {
        let address = match address {
            ListenAddress::Ip(address) => address,
            ListenAddress::Unix(unix) => {
                let sockets = bind_unix_with_mode(unix.path(), unix.mode(), processors)?;
                let file = Some(UnixFile::new(unix)?);
                let sockets = sockets.into_iter().map(OwnedFd::from).collect();
                return Ok(Self { address, sockets, file });
            }
        };
        let open = inherited.duplicates(address.into(), processors);
        let mut bound = bound.iter().copied().flatten();
        let other = bound.find(|other| other.address.overlaps(address.into()));
        let sockets = open.unwrap_or_else(|| match other {
            // Without `SO_REUSEPORT` the kernel would refuse the second socket; with it, both would receive
            // connections.
            Some(other) => Err(overlap(other.address)),
            None => bind(address, processors),
        })?;
        let address = sockets[0].local_addr()?.into();
        Ok(Self { address, sockets: sockets.into_iter().map(OwnedFd::from).collect(), file: None })
    }
}

fn overlap(address: ListenAddress) -> io::Error {
    let message = format!(
        "this server listens at {address}, which overlaps; list one of them only, and restart"
    );
    io::Error::new(io::ErrorKind::AddrInUse, message)
}

impl<S: Scheme> Listeners<S> {
    /// Binds the initial addresses, using inherited sockets where they match.
    ///
    /// # Errors
    /// If an address is unavailable.
    pub fn bind(
        listen: &[Listen<S>],
        workers: usize,
        inherited: Inherited<S>,
    ) -> Result<Self, BindError> {
        let commands = Arc::new(CommandQueues::new(workers));
        let mut listeners = Self {
            bound_addresses: Vec::new(),
            next: 0,
            workers,
            commands,
            inherited,
            files: UnixFiles::default(),
        };
        let change = listeners.prepare(listen)?;
        listeners.apply(change);
        Ok(listeners)
    }

    /// The processors' command queues.
    pub fn commands(&self) -> Arc<CommandQueues<S::Kind>> {
        self.commands.clone()
    }

    /// Bound addresses of the network, in the order of the configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound_addresses.iter().filter_map(|entry| entry.address.ip()).collect()
    }

    /// A guard that removes the files of Unix sockets when it is dropped, including files added by later changes.
    pub fn unix_files(&self) -> UnixFilesGuard {
        self.files.guard()
    }

    /// URLs of the bound addresses, in the order of the configuration.
    pub fn urls(&self) -> Vec<String> {
        self.bound_addresses.iter().map(BoundAddress::url).collect()
    }

    /// Binds the addresses that are new in `listen`. An unchanged address keeps its sockets, even if its
    /// protocol changes.
    ///
    /// # Errors
    /// If an address is unavailable, or overlaps with a bound one, even if the change removes that one. Then nothing
    /// changes.
    pub fn prepare(&mut self, listen: &[Listen<S>]) -> Result<ListenerChange<S>, BindError> {
        let mut before = self.bound_addresses.clone();
        let (mut bound_addresses, mut bound) = (Vec::new(), Vec::new());
        for &listen in listen {
            let known =
                before.iter().position(|entry| entry.listen.address.is_same(listen.address));
            if let Some(known) = known {
                let known = before.remove(known);
                let address =
                    if listen.address.ip().is_some() { known.address } else { listen.address };
                bound_addresses.push(BoundAddress { listen, address, ..known });
                continue;
            }
            let bound_now = [&self.bound_addresses[..], &bound_addresses];
            let new = Bound::new(listen.address, (self.workers, &bound_now), &self.inherited)
                .map_err(|source| BindError { address: listen.address, source })?;
            bound_addresses.push(BoundAddress { id: self.next, listen, address: new.address });
            bound.push((self.next, new));
            self.next += 1;
        }
        Ok(ListenerChange { bound_addresses, bound })
    }

    /// Applies the change. Returns the URLs of new addresses.
    pub fn apply(&mut self, change: ListenerChange<S>) -> Vec<String> {
        let ListenerChange { bound_addresses, bound } = change;
        let tls = bound_addresses.iter().filter(|entry| entry.listen.is_tls());
        let tls_port = redirect_port(tls.map(|entry| entry.address));
        let mut added = Vec::new();
        let mut bound = bound.into_iter().peekable();
        for entry in &bound_addresses {
            // The actual address, for logs and metrics.
            let listen = Listen { address: entry.address, ..entry.listen };
            let (id, kind) = (entry.id, S::kind(listen, entry.listen.address, tls_port));
            match bound.next_if(|(new, _)| *new == id) {
                Some((_, Bound { sockets, file, .. })) => {
                    added.push(entry.url());
                    self.inherited.close(entry.listen.address);
                    file.into_iter().for_each(|file| self.files.insert(id, file));
                    for (processor, socket) in sockets.into_iter().enumerate() {
                        self.commands.push(processor, ListenerCommand::Open { id, socket, kind });
                    }
                }
                None => {
                    if let ListenAddress::Unix(unix) = entry.address {
                        set_mode(unix);
                    }
                    self.commands.push_all(|| ListenerCommand::SetKind { id, kind });
                }
            }
        }
        for removed in &self.bound_addresses {
            if bound_addresses.iter().all(|entry| entry.id != removed.id) {
                self.files.remove(removed.id);
                self.commands.push_all(|| ListenerCommand::Close { id: removed.id });
            }
        }
        self.bound_addresses = bound_addresses;
        added
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Tcp;

    impl Scheme for Tcp {
        type Kind = ();

        const ALL: &'static [(&'static str, Self)] = &[("tcp", Self)];

        fn is_tls(self) -> bool {
            false
        }

        fn kind(_: Listen<Self>, _: ListenAddress, _: Option<u16>) {}
    }

    /// A change that fails or is not applied keeps inherited sockets, whose clients are accepted later.
    #[test]
    fn an_inherited_socket_survives_a_failed_change() {
        let (socket, occupied) = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap()).into();
        let [own, other] = [&socket, &occupied].map(|socket| socket.local_addr().unwrap());
        let listen =
            |address: SocketAddr| Listen { address: address.into(), scheme: Tcp, proxied: false };
        let client = TcpStream::connect(own).unwrap();
        let inherited = Inherited::of(vec![(listen(own), socket)]);
        let mut listeners = Listeners::bind(&[], 2, inherited).unwrap();
        assert!(listeners.prepare(&[listen(own), listen(other)]).is_err(), "one is occupied");
        drop(listeners.prepare(&[listen(own)]).unwrap());
        let change = listeners.prepare(&[listen(own)]).unwrap();
        listeners.apply(change);
        let Ok(ListenerCommand::Open { socket, .. }) = listeners.commands.take(1) else {
            panic!("the second processor gets a socket")
        };
        let (_, from) = TcpListener::from(socket).accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    }

    #[test]
    fn a_change_cannot_widen_an_address() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listen =
            |address: SocketAddr| Listen { address: address.into(), scheme: Tcp, proxied: false };
        let wide = SocketAddr::from(([0; 4], own.port()));
        let both = Listeners::bind(&[listen(own), listen(wide)], 1, Inherited::default());
        assert!(both.err().unwrap().to_string().contains("which overlaps"));
        let mut listeners = Listeners::bind(&[listen(own)], 1, Inherited::default()).unwrap();
        let error = listeners.prepare(&[listen(wide)]).err().unwrap().to_string();
        assert!(error.contains(&own.to_string()) && error.contains("restart"), "{error}");
    }
}
