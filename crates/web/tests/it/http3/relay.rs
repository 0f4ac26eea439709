//! A path between a client and a server that loses all datagrams of the server for a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::UdpSocket;

/// Passes the datagrams of one client on.
pub(super) struct Relay {
    /// The address for the client.
    pub(super) address: SocketAddr,
    is_deaf: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// A path to `server`.
    pub(super) async fn to(server: SocketAddr) -> Self {
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        far.connect(server).await.unwrap();
        let (address, is_deaf) = (near.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let losing = is_deaf.clone();
        let task = tokio::spawn(async move {
            let (mut client, mut up, mut down) = (None, [0; 2048], [0; 2048]);
            loop {
                // Errors are losses.
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut up) => {
                        client = Some(from);
                        let _ = far.send(&up[..length]).await;
                    }
                    Ok(length) = far.recv(&mut down) => {
                        if let (Some(client), false) = (client, losing.load(Ordering::Relaxed)) {
                            let _ = near.send_to(&down[..length], client).await;
                        }
                    }
                }
            }
        });
        Self { address, is_deaf, task }
    }

    /// Sets whether the client receives nothing.
    pub(super) fn set_deaf(&self, is_deaf: bool) {
        self.is_deaf.store(is_deaf, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
