//! The stage in which hands are shaken.
//!
//! A handshake costs as much as some ten to some hundred answers, nearly all of it one signature. So it
//! has a stage of its own whose cohorts are small: requests of connections that exist do not wait for
//! more than a few signatures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::net::{IoTimeout, Stream};
use phalanx::time::{now, time_of_day};
use phalanx::{Graph, SharedStage};
use rustls::ServerConfig;
use rustls::crypto::ring;

use crate::certificates::{Certificates, LOOK};
use crate::clients::Clients;
use crate::session::{Failed, TlsStream};

/// A cohort of handshakes: some milliseconds of work where keys are RSA.
const COHORT: usize = 4;
/// Connections that may wait to be shaken hands with on one processor: beyond this the wait would be
/// longer than clients', and they are closed.
const QUEUE: usize = 1024;
/// Handles on the stages of TLS.
#[derive(Clone, Copy)]
pub struct TlsStages {
    handshakes: SharedStage<Handshakes>,
    looks: BlockingStage<Files>,
}

/// What is looked at again.
#[derive(Clone)]
struct Files {
    certificates: Arc<Certificates>,
    clients: Option<Clients>,
}

/// What handshakes share.
struct Handshakes {
    files: Files,
    protocols: Vec<Vec<u8>>,
    /// What was made of them, and of which change of the authorities.
    made: RwLock<(u32, Arc<ServerConfig>)>,
    /// When somebody last asked for a look at the files, in milliseconds of [`now`].
    looked: AtomicU64,
}

impl TlsStages {
    /// Declares them as the next stages of `graph`. What is spoken over TLS is one of `protocols` (ALPN, RFC 7301), the
    /// better first, or whatever the client takes it for. With `clients`, each must have a certificate of its own.
    pub fn declare(
        graph: &mut Graph,
        certificates: Arc<Certificates>,
        protocols: &[&[u8]],
        clients: Option<Clients>,
    ) -> Self {
        let protocols: Vec<_> = protocols.iter().map(|name| name.to_vec()).collect();
        let files = Files { certificates, clients };
        let made = RwLock::new(config(&files, &protocols));
        let handshakes =
            Handshakes { files: files.clone(), protocols, made, looked: AtomicU64::new(0) };
        Self {
            handshakes: graph
                .stage("handshakes")
                .max_cohort(COHORT)
                .capacity(QUEUE)
                .shared(handshakes),
            // One thread: looks are rare.
            looks: blocking(graph, "certificates").threads(1).state(files),
        }
    }

    /// Shakes hands. `timeout` is for all of it.
    ///
    /// # Errors
    /// When that came to nothing; nothing is left of the socket where the program had no room for it, or ends.
    pub async fn shake(
        self,
        stream: Stream,
        timeout: IoTimeout,
    ) -> Result<Box<TlsStream>, Option<Failed>> {
        let call = self.handshakes.call(move |handshakes| async move {
            if handshakes.is_look_due(now()) {
                self.look().await;
            }
            let config = handshakes.config();
            TlsStream::accept(stream, config, timeout).await.map(Box::new)
        });
        // Refused at a bound, or ended: the stream is gone with it.
        call.await.map_err(|_| None)?.map_err(Some)
    }

    /// Looks whether certificates or authorities have changed, and tells on stderr if so.
    async fn look(self) {
        let time = SystemTime::UNIX_EPOCH + time_of_day();
        let looked = self.looks.call(move |files| files.look(time)).await;
        // Not looked, since the program is full or ends: the next handshake asks again.
        for line in looked.unwrap_or_default() {
            eprintln!("phalanx: {line}");
        }
    }
}

impl Files {
    fn look(&self, now: SystemTime) -> Vec<String> {
        let mut told = self.certificates.look(now);
        told.extend(self.clients.as_ref().and_then(Clients::look));
        told
    }
}

impl Handshakes {
    /// How hands are shaken now.
    fn config(&self) -> Arc<ServerConfig> {
        let (number, config) = self.made.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &self.files.clients {
            Some(clients) if clients.number() != number => self.make(),
            _ => config,
        }
    }

    /// Authorities are others. All is made anew, the keys of tickets too: whoever was let in by those from before
    /// is looked at once more.
    #[cold]
    fn make(&self) -> Arc<ServerConfig> {
        let made = config(&self.files, &self.protocols);
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = made.clone();
        made.1
    }

    /// True for one of those who ask within [`LOOK`].
    fn is_look_due(&self, now: Duration) -> bool {
        let (now, looked) = (now.as_millis() as u64, self.looked.load(Ordering::Relaxed));
        now.saturating_sub(looked) >= LOOK.as_millis() as u64
            && self
                .looked
                .compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// TLS 1.2 and 1.3, with the cipher suites that rustls has: all of them seal and have forward secrecy.
fn config(files: &Files, protocols: &[Vec<u8>]) -> (u32, Arc<ServerConfig>) {
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let (number, builder) = match files.clients.as_ref().map(Clients::verifier) {
        Some((number, verifier)) => (number, builder.with_client_cert_verifier(verifier)),
        None => (0, builder.with_no_client_auth()),
    };
    let mut config = builder.with_cert_resolver(files.certificates.clone());
    config.alpn_protocols = protocols.to_vec();
    // Who comes again is spared the signature. Its keys are drawn here and changed by themselves;
    // without chance for them, the memory of the last few hundred sessions does instead.
    if let Ok(tickets) = ring::Ticketer::new() {
        config.ticketer = tickets;
    }
    (number, Arc::new(config))
}
