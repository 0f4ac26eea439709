//! The UDP sockets for HTTP/3: one for each processor and each address with TLS.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::net::bind_quic;
use phalanx_http3::ALPN;
use phalanx_quic::{Config as QuicConfig, Limits};
use phalanx_service::BindError;
use phalanx_tls::Certificates;

use crate::config::{Config, Listen, has_http3};

/// The sockets for HTTP/3.
pub(super) struct QuicSockets {
    groups: Vec<Group>,
}

/// The sockets of one address.
struct Group {
    /// The address in the configuration.
    listen: Listen,
    /// The port over UDP.
    port: u16,
    /// The address over TCP.
    local: SocketAddr,
    /// Whether the address is still in the configuration.
    is_open: Arc<AtomicBool>,
    count: u16,
    /// By processor.
    sockets: Mutex<Vec<Option<UdpSocket>>>,
}

/// A processor's socket of one address.
pub(super) struct QuicSocket {
    pub(super) socket: UdpSocket,
    /// Sockets in its group.
    pub(super) count: u16,
    /// Its address over TCP.
    pub(super) local: SocketAddr,
    pub(super) is_open: Arc<AtomicBool>,
}

/// The configuration of QUIC for a server.
pub(super) fn quic_config(config: &Config, certificates: Arc<Certificates>) -> QuicConfig {
    let tickets = certificates.tickets();
    let quic = QuicConfig::new(certificates, tickets, ALPN, Limits::default());
    config.hash_seed.into_iter().fold(quic, QuicConfig::seeded)
}

impl QuicSockets {
    /// Binds the UDP ports of the addresses with TLS. `bound` contains the bound TCP addresses, in order. Returns
    /// `None` if HTTP/3 is off.
    ///
    /// # Errors
    /// If a port is unavailable.
    pub(super) fn bind(config: &Config, bound: &[SocketAddr]) -> Result<Option<Self>, BindError> {
        if !config.http3 {
            return Ok(None);
        }
        let of_network = config.listen.iter().filter(|listen| listen.address.ip().is_some());
        let mut groups = Vec::new();
        for (listen, address) in of_network.zip(bound).filter(|(listen, _)| has_http3(listen)) {
            let sockets =
                bind_near(*address, listen, config.runtime.workers).map_err(|source| {
                    let what = io::Error::new(source.kind(), format!("UDP, for HTTP/3: {source}"));
                    BindError { address: listen.address, source: what }
                })?;
            let failed = |source| BindError { address: listen.address, source };
            groups.push(Group {
                listen: *listen,
                port: sockets[0].local_addr().map_err(failed)?.port(),
                local: *address,
                is_open: Arc::new(AtomicBool::new(true)),
                count: sockets.len() as u16,
                sockets: Mutex::new(sockets.into_iter().map(Some).collect()),
            });
        }
        Ok(Some(Self { groups }))
    }

    /// Each address over TCP, with its port over UDP.
    pub(super) fn ports(&self) -> Vec<(SocketAddr, u16)> {
        self.groups.iter().map(|group| (group.local, group.port)).collect()
    }

    /// Takes the sockets of a processor.
    pub(super) fn take(&self, processor: usize) -> Vec<QuicSocket> {
        let take = |group: &Group| {
            let mut sockets = group.sockets.lock().unwrap_or_else(PoisonError::into_inner);
            let socket = sockets.get_mut(processor)?.take()?;
            let (local, is_open) = (group.local, group.is_open.clone());
            Some(QuicSocket { socket, count: group.count, local, is_open })
        };
        self.groups.iter().filter_map(take).collect()
    }

    /// Opens and closes the addresses according to a new configuration. Returns a warning for each address that needs a
    /// restart.
    pub(super) fn reload(&self, config: &Config) -> Vec<String> {
        for group in &self.groups {
            let is_listed = config
                .listen
                .iter()
                .any(|listen| has_http3(listen) && listen.address == group.listen.address);
            group.is_open.store(is_listed, Ordering::Relaxed);
        }
        let is_new = |listen: &&Listen| {
            has_http3(listen)
                && !self.groups.iter().any(|group| group.listen.address == listen.address)
        };
        let new = config.listen.iter().filter(is_new);
        new.map(|listen| format!("{listen} has no HTTP/3 until the server is restarted")).collect()
    }
}

/// Binds the UDP port with the number of a TCP port, or any UDP port if the system has chosen the TCP port.
fn bind_near(
    address: SocketAddr,
    listen: &Listen,
    processors: usize,
) -> io::Result<Vec<UdpSocket>> {
    let is_chosen = listen.address.port() == Some(0);
    match bind_quic(address, processors) {
        Err(error) if is_chosen && error.kind() == io::ErrorKind::AddrInUse => {
            bind_quic(SocketAddr::new(address.ip(), 0), processors)
        }
        bound => bound,
    }
}
