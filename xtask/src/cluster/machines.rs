//! Machines: network namespaces with links that can be cut, or this machine itself.
//!
//! Each namespace has two links. One leads to this process, for clients. The other one leads to a bridge between the
//! namespaces, for NATS and its routes. A cut of the second one separates the server and the broker of a machine from all
//! others, but not the broker from its clients.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The network namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A machine on which processes run.
#[derive(Debug)]
pub(super) struct Machine {
    /// The address for clients, which are threads of this process.
    pub(super) outer: IpAddr,
    /// The address for the other machines.
    pub(super) inner: IpAddr,
    /// `None`: this machine itself.
    namespace: Option<Namespace>,
}

#[derive(Debug)]
struct Namespace {
    /// Keeps the namespace until it is closed.
    file: File,
    /// This process' end of the link to the bridge.
    link: String,
}

impl Machine {
    /// This machine, with a loopback address.
    pub(super) fn this(address: Ipv4Addr) -> Arc<Self> {
        Arc::new(Self { outer: address.into(), inner: address.into(), namespace: None })
    }

    /// Makes `count` namespaces, and one for the bridge, into which it moves the calling thread and all threads that this
    /// one starts later.
    ///
    /// # Errors
    /// If `ip` is not installed, or namespaces are not permitted. The calling thread is then in its old namespace.
    pub(super) fn separate(count: usize) -> Result<Vec<Arc<Self>>, String> {
        let original =
            File::open(OWN_NAMESPACE).map_err(|error| format!("{OWN_NAMESPACE}: {error}"))?;
        Self::bridge(count).map_err(|reason| match enter(&original) {
            Ok(()) => reason,
            Err(error) => format!("{reason}, and the thread cannot leave the namespace: {error}"),
        })
    }

    fn bridge(count: usize) -> Result<Vec<Arc<Self>>, String> {
        let hub = NamespaceName::add("hub")?;
        enter(&hub.open()?)
            .map_err(|error| format!("cannot enter a network namespace: {error}"))?;
        ip("link add machines type bridge")?;
        ip("link set machines up")?;
        ip("link set lo up")?;
        (1..=count as u8).map(|n| Self::connect(n).map(Arc::new)).collect()
    }

    /// Makes the namespace of a number, and its links.
    fn connect(n: u8) -> Result<Self, String> {
        let namespace = NamespaceName::add(&n.to_string())?;
        let name = &namespace.0;
        let [near, outer] = [1, 2].map(|end| Ipv4Addr::new(10, 1, n, end));
        let (inner, link) = (Ipv4Addr::new(10, 0, 0, n), format!("machine-{n}"));
        ip(&format!("link add clients-{n} type veth peer name clients netns {name}"))?;
        ip(&format!("address add {near}/24 dev clients-{n}"))?;
        ip(&format!("link set clients-{n} up"))?;
        ip(&format!("link add {link} type veth peer name machines netns {name}"))?;
        ip(&format!("link set {link} master machines up"))?;
        for (address, link) in [(outer, "clients"), (inner, "machines")] {
            ip(&format!("-n {name} address add {address}/24 dev {link}"))?;
            ip(&format!("-n {name} link set {link} up"))?;
        }
        ip(&format!("-n {name} link set lo up"))?;
        let namespace = Namespace { file: namespace.open()?, link };
        Ok(Self { outer: outer.into(), inner: inner.into(), namespace: Some(namespace) })
    }

    /// Calls `work` in a thread on this machine. Threads, processes and sockets that it creates stay in the namespace.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let Some(namespace) = &self.namespace else { return Ok(work()) };
        let run_inside = || enter(&namespace.file).map(|()| work());
        thread::scope(|scope| scope.spawn(run_inside).join())
            .map_err(|_| io::Error::other("the thread on a machine panicked"))?
    }

    /// Cuts it off from the other machines, or connects it again.
    pub(super) fn set_link(&self, is_up: bool) -> Result<(), String> {
        let Some(Namespace { link, .. }) = &self.namespace else {
            return Err("this machine has no link that can be cut".into());
        };
        ip(&format!("link set {link} {}", if is_up { "up" } else { "down" }))
    }
}

/// The name of a namespace, which it needs until its links are made. Dropping it removes the name.
struct NamespaceName(String);

impl NamespaceName {
    fn add(suffix: &str) -> Result<Self, String> {
        let name = Self(format!("xtask-{}-{suffix}", process::id()));
        ip(&format!("netns add {}", name.0))?;
        Ok(name)
    }

    fn open(&self) -> Result<File, String> {
        let path = format!("/run/netns/{}", self.0);
        File::open(&path).map_err(|error| format!("{path}: {error}"))
    }
}

impl Drop for NamespaceName {
    fn drop(&mut self) {
        let _ = ip(&format!("netns delete {}", self.0));
    }
}

fn enter(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs iproute2's `ip`.
fn ip(arguments: &str) -> Result<(), String> {
    let program = crate::task::find("ip").ok_or("ip is not installed (Debian: iproute2)")?;
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    /// Accepts one connection at `address` of a machine, and returns its bytes.
    fn serve(machine: &Machine, address: IpAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
        let listener = machine.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let (mut bytes, (mut stream, _)) = (Vec::new(), listener.accept().unwrap());
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        };
        (address, thread::spawn(serve))
    }

    #[test]
    fn a_cut_link_separates_machines_but_no_clients() {
        // In a thread, because it moves into the namespace of the bridge.
        let work = || {
            let current = || fs::read_link(OWN_NAMESPACE).unwrap();
            let (before, taken) = (current(), NamespaceName::add("2"));
            assert!(Machine::separate(2).is_err(), "two namespaces have one name");
            assert_eq!(current(), before);
            drop(taken);
            let machines = match Machine::separate(2) {
                Ok(machines) => machines,
                Err(reason) => return eprintln!("LEFT OUT: a cut link, because {reason}"),
            };
            assert_ne!(current(), before);
            let [first, second] = &machines[..] else { panic!("{machines:?}") };
            let (address, server) = serve(second, second.inner);
            let mut stream = first.run(|| TcpStream::connect(address)).unwrap().unwrap();
            second.set_link(false).unwrap();
            stream.write_all(b"held back").unwrap();
            let connect =
                |address, wait| TcpStream::connect_timeout(&address, Duration::from_millis(wait));
            assert!(first.run(|| connect(address, 200)).unwrap().is_err());
            let (outer, client) = serve(second, second.outer);
            connect(outer, 5_000).unwrap().write_all(b"client").unwrap();
            assert_eq!(client.join().unwrap(), b"client");
            assert!(first.run(|| connect(outer, 200)).unwrap().is_err(), "there is another path");
            assert!(!server.is_finished());
            second.set_link(true).unwrap();
            drop(stream);
            assert_eq!(server.join().unwrap(), b"held back");
        };
        thread::spawn(work).join().unwrap();
    }
}
