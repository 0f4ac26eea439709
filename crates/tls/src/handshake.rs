//! The handshake stage.
//!
//! A handshake costs as much as ten to some hundred responses, nearly all of it for one signature. It has a
//! stage of its own with small cohorts, so that requests on established connections wait for a few signatures
//! at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::net::{IoTimeout, Stream};
use phalanx::runtime::report;
use phalanx::stage::Handles;
use phalanx::time::{now, time_of_day};
use phalanx::{CallError, Graph, SharedStage};
use rustls::ServerConfig;
use rustls::crypto::ring;

use crate::certificates::clients::Clients;
use crate::certificates::{CHECK_INTERVAL, Certificates};
use crate::stream::session::{Failed, TlsStream};

/// Largest cohort of handshakes: some milliseconds of work with RSA keys.
const MAX_COHORT: usize = 4;
/// Connections per processor that may wait for a handshake. More would wait longer than clients do; they are
/// closed.
const MAX_WAITING: usize = 1024;
/// Handles to the TLS stages.
#[derive(Clone, Copy, Handles)]
pub struct TlsStages {
    handshakes: SharedStage<Handshakes>,
    checks: BlockingStage<Vec<Profile>>,
}

/// Why there is no connection.
pub enum HandshakeError {
    /// The handshake failed.
    Failed(Failed),
    /// The operation was refused or terminated, which closes the socket. The stage is full if this is
    /// [`CallError::Full`] with the name of a stage.
    Call(CallError),
}

/// The certificates of some addresses, and the authorities of their clients. Both are reloaded when their files change.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The certificates.
    pub certificates: Arc<Certificates>,
    /// If set, each client must have a certificate.
    pub clients: Option<Clients>,
}

/// A TLS configuration, and the number of the change of the authorities that it includes.
type Made = (u32, Arc<ServerConfig>);

/// State shared by handshakes.
struct Handshakes {
    profiles: Vec<(Profile, RwLock<Made>)>,
    protocols: Vec<Vec<u8>>,
    /// Time of the last request for a check of the files, in milliseconds of [`now`].
    checked: AtomicU64,
}

impl TlsStages {
    /// Declares the stages as the next of `graph`. ALPN selects one of `protocols`, in order of preference
    /// (RFC 7301); a client without ALPN may speak any. With `clients`, each client must have a certificate.
    pub fn declare(
        graph: &mut Graph,
        certificates: Arc<Certificates>,
        protocols: &[&[u8]],
        clients: Option<Clients>,
    ) -> Self {
        Self::declare_all(graph, vec![Profile { certificates, clients }], protocols)
    }

    /// As [`declare`](Self::declare), with several profiles for [`handshake_as`](Self::handshake_as).
    pub fn declare_all(graph: &mut Graph, profiles: Vec<Profile>, protocols: &[&[u8]]) -> Self {
        let protocols: Vec<_> = protocols.iter().map(|name| name.to_vec()).collect();
        let made = |own: &Profile| (own.clone(), RwLock::new(config(own, &protocols)));
        let made = profiles.iter().map(made).collect();
        let handshakes = Handshakes { profiles: made, protocols, checked: AtomicU64::new(0) };
        let handshakes = graph
            .stage("handshakes")
            .max_cohort(MAX_COHORT)
            .capacity(MAX_WAITING)
            .shared(handshakes);
        // One thread: checks are rare.
        let checks = blocking(graph, "certificates").threads(1).state(profiles);
        graph.calls(handshakes, checks);
        Self { handshakes, checks }
    }

    /// Performs a handshake, for at most `timeout`.
    ///
    /// # Errors
    /// If the handshake failed, or its operation was refused or terminated.
    pub async fn handshake(
        self,
        stream: Stream,
        timeout: IoTimeout,
    ) -> Result<Box<TlsStream>, HandshakeError> {
        self.handshake_as(0, stream, timeout).await
    }

    /// As [`handshake`](Self::handshake), with the profile at this position.
    ///
    /// # Errors
    /// As [`handshake`](Self::handshake).
    pub async fn handshake_as(
        self,
        profile: usize,
        stream: Stream,
        timeout: IoTimeout,
    ) -> Result<Box<TlsStream>, HandshakeError> {
        let call = self.handshakes.call(move |handshakes| async move {
            if handshakes.is_check_due(now()) {
                self.check_files().await;
            }
            let config = handshakes.config(profile);
            TlsStream::accept(stream, config, timeout).await.map(Box::new)
        });
        call.await.map_err(HandshakeError::Call)?.map_err(HandshakeError::Failed)
    }

    /// Checks whether certificates have changed, if the last check is old enough, without waiting. For handshakes that
    /// these stages do not perform.
    pub fn check_if_due(self) {
        // If the stage is full, its own handshakes check.
        let _ = self.handshakes.dispatch(move |handshakes| async move {
            if handshakes.is_check_due(now()) {
                self.check_files().await;
            }
        });
    }

    /// Checks whether certificates or authorities have changed, and reports changes on stderr.
    async fn check_files(self) {
        let time = SystemTime::UNIX_EPOCH + time_of_day();
        let checked = self.checks.call(move |all| reload_changed(all, time)).await;
        // No result means that the program is full or shutting down; the next handshake requests another
        // check.
        for line in checked.unwrap_or_default() {
            report(line);
        }
    }
}

fn reload_changed(profiles: &[Profile], now: SystemTime) -> Vec<String> {
    let mut told = Vec::new();
    for Profile { certificates, clients } in profiles {
        told.extend(certificates.reload_changed(now));
        told.extend(clients.as_ref().and_then(Clients::reload_changed));
    }
    told
}

impl Handshakes {
    /// The current TLS configuration of a profile.
    fn config(&self, profile: usize) -> Arc<ServerConfig> {
        let (own, made) = &self.profiles[profile];
        let (number, config) = made.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &own.clients {
            Some(clients) if clients.number() != number => self.make(profile),
            _ => config,
        }
    }

    /// Rebuilds the configuration after a change of the authorities, including the keys of session tickets:
    /// clients admitted by the previous authorities are verified again.
    #[cold]
    fn make(&self, profile: usize) -> Arc<ServerConfig> {
        let (own, made) = &self.profiles[profile];
        let new = config(own, &self.protocols);
        *made.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        new.1
    }

    /// True for one caller per [`CHECK_INTERVAL`] interval.
    fn is_check_due(&self, now: Duration) -> bool {
        let (now, checked) = (now.as_millis() as u64, self.checked.load(Ordering::Relaxed));
        now.saturating_sub(checked) >= CHECK_INTERVAL.as_millis() as u64
            && self
                .checked
                .compare_exchange(checked, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// TLS 1.2 and 1.3 with rustls's cipher suites, all of which are authenticated and have forward secrecy.
fn config(files: &Profile, protocols: &[Vec<u8>]) -> Made {
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let (number, builder) = match files.clients.as_ref().map(Clients::verifier) {
        Some((number, verifier)) => (number, builder.with_client_cert_verifier(verifier)),
        None => (0, builder.with_no_client_auth()),
    };
    let mut config = builder.with_cert_resolver(files.certificates.clone());
    config.alpn_protocols = protocols.to_vec();
    // Resuming a session avoids the signature. The ticket keys are random and rotate; without randomness, the
    // last few hundred sessions are stored in memory instead.
    if let Ok(tickets) = ring::Ticketer::new() {
        config.ticketer = tickets;
    }
    (number, Arc::new(config))
}
