//! Addresses to listen on: of the network, or paths of Unix sockets.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Mode of a Unix socket: its owner and its group may connect.
const DEFAULT_MODE: u32 = 0o660;
/// Longest path of a Unix socket, without the zero that ends it. It is shorter on some systems, which then report an error.
const LONGEST_PATH: usize = 107;
/// The start of a Unix socket's address.
const UNIX: &str = "unix:";
/// Separator between the path of a Unix socket and its mode.
const MODE: &str = "?mode=";

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An IP address and a port; port 0 selects a free port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(UnixAddress),
}

/// The path and the mode of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    path: &'static Path,
    mode: u32,
}

impl UnixAddress {
    /// The path.
    pub fn path(self) -> &'static Path {
        self.path
    }

    /// The permissions of the file, such as `0o660`.
    pub fn mode(self) -> u32 {
        self.mode
    }

    /// Parses a path, optionally followed by `?mode=` and an octal number.
    fn parse(text: &str) -> Option<Self> {
        let (path, mode) = match text.split_once(MODE) {
            None => (text, DEFAULT_MODE),
            Some((path, mode)) => {
                let octal =
                    (1..=4).contains(&mode.len()) && mode.bytes().all(|byte| byte.is_ascii_digit());
                let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| octal && *mode <= 0o777);
                (path, mode?)
            }
        };
        let is_valid = path.starts_with('/') && path.len() <= LONGEST_PATH && !path.contains('\0');
        is_valid.then(|| Self { path: interned(path), mode })
    }
}

/// A copy of the path that lives as long as the program, so that addresses are small and `Copy`. Each distinct path is
/// stored once.
fn interned(path: &str) -> &'static Path {
    static PATHS: Mutex<BTreeSet<&'static Path>> = Mutex::new(BTreeSet::new());
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = paths.get(Path::new(path)) {
        return known;
    }
    let path: &'static Path = Box::leak(PathBuf::from(path).into_boxed_path());
    paths.insert(path);
    path
}

impl ListenAddress {
    /// Parses an address of the network, or of a Unix socket if `unix`.
    pub(crate) fn parse(text: &str, unix: bool) -> Option<Self> {
        if let Some(path) = text.strip_prefix(UNIX).filter(|_| unix) {
            return UnixAddress::parse(path).map(Self::Unix);
        }
        // `parse` would also accept a sign.
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let port = |text: &str| is_port(text).then(|| text.parse().ok())?;
        let local = |text| Some((Ipv4Addr::LOCALHOST, port(text)?).into());
        let address = match text.strip_prefix("localhost:") {
            Some(port) => local(port),
            None => text.parse().ok().or_else(|| local(text)),
        };
        address.map(Self::Ip)
    }

    /// The address of the network.
    pub fn ip(self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(address),
            Self::Unix(_) => None,
        }
    }

    /// The port, if it has one.
    pub fn port(self) -> Option<u16> {
        self.ip().map(|address| address.port())
    }

    /// Whether only processes of this machine can connect.
    pub fn is_local(self) -> bool {
        self.ip().is_none_or(|address| address.ip().is_loopback())
    }

    /// Whether the two cannot be bound at the same time.
    pub(crate) fn collides(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ip(first), Self::Ip(other)) => first == other && first.port() != 0,
            (Self::Unix(first), Self::Unix(other)) => first.path == other.path,
            _ => false,
        }
    }

    /// Whether the addresses differ but overlap: one is a wildcard address that includes the other.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        // A socket at `[::]` also receives IPv4.
        let is_within = |address: SocketAddr, all: SocketAddr| {
            all.ip().is_unspecified() && (all.is_ipv6() || address.is_ipv4())
        };
        match (self.ip(), other.ip()) {
            (Some(first), Some(other)) if first.port() == other.port() && first.port() != 0 => {
                is_within(first, other) || is_within(other, first)
            }
            _ => false,
        }
    }

    /// Whether a socket bound to one is also bound to the other.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self == other || self.collides(other)
    }
}

/// The port to which clients are redirected: that of the first address of the network that other machines can reach, or
/// else of the first one.
pub fn redirect_port(addresses: impl Iterator<Item = ListenAddress>) -> Option<u16> {
    let mut of_this_machine = None;
    for address in addresses {
        match address.port() {
            Some(port) if !address.is_local() => return Some(port),
            port => of_this_machine = of_this_machine.or(port),
        }
    }
    of_this_machine
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(UnixAddress { path, mode }) => {
                write!(f, "{UNIX}{}", path.display())?;
                if *mode == DEFAULT_MODE { Ok(()) } else { write!(f, "{MODE}{mode:o}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{Listen, Scheme};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Tcp;

    impl Scheme for Tcp {
        type Kind = ();

        const ALL: &'static [(&'static str, Self)] = &[("tcp", Self)];
        const BEHIND_PROXIES: bool = true;

        fn is_tls(self) -> bool {
            true
        }

        fn kind(_: Listen<Self>, _: ListenAddress, _: Option<u16>) -> Self::Kind {}
    }

    #[test]
    fn clients_are_redirected_to_an_address_that_they_reach() {
        for (texts, expected) in [
            (&["127.0.0.1:1", "0.0.0.0:2", "[::]:3"][..], Some(2)),
            (&["127.0.0.1:1", "[::1]:2"], Some(1)),
            (&["unix:/run/a", "10.0.0.1:4"], Some(4)),
            (&["unix:/run/a"], None),
            (&[], None),
        ] {
            let listen = texts.iter().map(|text| text.parse::<Listen<Tcp>>().unwrap());
            assert_eq!(redirect_port(listen.map(|listen| listen.address)), expected, "{texts:?}");
        }
    }

    #[test]
    fn addresses_overlap() {
        let address = |text: &str| ListenAddress::parse(text, true).unwrap();
        for (first, other, overlap) in [
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("[::]:1", "127.0.0.1:1", true),
            ("[::]:1", "0.0.0.0:1", true),
            ("[::]:1", "[::1]:1", true),
            ("0.0.0.0:1", "[::1]:1", false),
            ("0.0.0.0:1", "127.0.0.1:2", false),
            ("0.0.0.0:0", "127.0.0.1:0", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("unix:/a", "0.0.0.0:1", false),
        ] {
            assert_eq!(address(first).overlaps(address(other)), overlap, "{first} {other}");
            assert_eq!(address(other).overlaps(address(first)), overlap, "{other} {first}");
        }
    }
}
