//! The handshake stage.
//!
//! A handshake costs as much as ten to several hundred responses, nearly all of it for one signature. Handshakes have a
//! separate stage with small cohorts, so that requests on established connections wait for a few signatures at most.

use std::fmt::{self, Display, Formatter};
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
use rustls::server::NoServerSessionStorage;

use crate::certificates::clients::Clients;
use crate::certificates::{CHECK_INTERVAL, Certificates};
use crate::stream::session::{Failed, TlsStream};

/// Largest cohort of handshakes: some milliseconds of work with RSA keys.
const MAX_COHORT: usize = 4;
/// Connections per processor that may wait for a handshake. Further ones are closed, because they would wait longer
/// than clients do.
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

impl Display for HandshakeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failed) => failed.error.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

/// The certificates used at some addresses, and the authorities of their clients. Both are reloaded when their files
/// change.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The certificates.
    pub certificates: Arc<Certificates>,
    /// If set, each client must have a certificate.
    pub clients: Option<Clients>,
}

/// A TLS configuration, and the change number of its authorities.
type VersionedConfig = (u32, Arc<ServerConfig>);

/// State shared by handshakes.
struct Handshakes {
    profiles: Vec<(Profile, RwLock<VersionedConfig>)>,
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

    /// Like [`declare`](Self::declare), with several profiles for [`handshake_as`](Self::handshake_as).
    pub fn declare_all(graph: &mut Graph, profiles: Vec<Profile>, protocols: &[&[u8]]) -> Self {
        let protocols: Vec<_> = protocols.iter().map(|name| name.to_vec()).collect();
        let versioned =
            |profile: &Profile| (profile.clone(), RwLock::new(config(profile, &protocols)));
        let versioned = profiles.iter().map(versioned).collect();
        let handshakes = Handshakes { profiles: versioned, protocols, checked: AtomicU64::new(0) };
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

    /// Performs a handshake, for at most `timeout`. If the files cannot be checked in half of this time, the handshake
    /// uses those loaded before.
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

    /// Like [`handshake`](Self::handshake), with the profile at this position.
    ///
    /// # Errors
    /// Like [`handshake`](Self::handshake).
    pub async fn handshake_as(
        self,
        profile: usize,
        stream: Stream,
        timeout: IoTimeout,
    ) -> Result<Box<TlsStream>, HandshakeError> {
        let call = self.handshakes.call(move |handshakes| async move {
            let start = now();
            if handshakes.is_check_due(start) {
                let _ = phalanx::time::timeout(timeout.duration() / 2, self.check_files()).await;
            }
            let config = handshakes.config(profile);
            let remaining = timeout.remaining(now() - start);
            TlsStream::accept(stream, config, remaining).await.map(Box::new)
        });
        call.await.map_err(HandshakeError::Call)?.map_err(HandshakeError::Failed)
    }

    /// Starts a check for changed certificates, if the last check is old enough. For handshakes that these stages do
    /// not perform.
    pub fn check_if_due(self) {
        // If the stage is full, its handshakes request the check.
        let _ = self.handshakes.dispatch(move |handshakes| async move {
            if handshakes.is_check_due(now()) {
                self.check_files().await;
            }
        });
    }

    /// Checks whether certificates or authorities have changed, and reports changes on stderr.
    async fn check_files(self) {
        let time = SystemTime::UNIX_EPOCH + time_of_day();
        // An error means that the program is full or shutting down; the next handshake requests another check.
        let _ = self.checks.call(move |all| reload_changed(all, time)).await;
    }
}

/// Reloads changed files, and reports changes and errors. Reported here, because each error is returned only once, and
/// the caller may have stopped waiting.
fn reload_changed(profiles: &[Profile], now: SystemTime) {
    for Profile { certificates, clients } in profiles {
        certificates.reload_changed(now).into_iter().for_each(report);
        clients.as_ref().and_then(Clients::reload_changed).into_iter().for_each(report);
    }
}

impl Handshakes {
    /// The current TLS configuration of a profile.
    fn config(&self, profile: usize) -> Arc<ServerConfig> {
        let (own, versioned) = &self.profiles[profile];
        let (number, config) = versioned.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &own.clients {
            Some(clients) if clients.number() != number => self.make(profile),
            _ => config,
        }
    }

    /// Rebuilds the configuration after a change of the authorities.
    #[cold]
    fn make(&self, profile: usize) -> Arc<ServerConfig> {
        let (own, versioned) = &self.profiles[profile];
        let new = config(own, &self.protocols);
        *versioned.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        new.1
    }

    /// Returns true to one caller per [`CHECK_INTERVAL`].
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
fn config(files: &Profile, protocols: &[Vec<u8>]) -> VersionedConfig {
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let (number, builder) = match files.clients.as_ref().map(Clients::verifier) {
        Some((number, verifier)) => (number, builder.with_client_cert_verifier(verifier)),
        None => (0, builder.with_no_client_auth()),
    };
    let mut config = builder.with_cert_resolver(files.certificates.clone());
    config.alpn_protocols = protocols.to_vec();
    if files.clients.is_some() {
        // Sessions are not resumed, because rustls would not verify the client's certificate again. An expired or
        // revoked certificate could then still be used.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        // Resuming a session avoids the signature.
        config.ticketer = files.certificates.tickets();
    }
    (number, Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::pki_types::ServerName;
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConnection};

    use super::*;
    use crate::certificates::Source;
    use crate::certificates::certificate::{chain, private_key};
    use crate::certificates::clients::authorities;

    /// The files `NAME.pem` and `NAME.key` of a certificate for `localhost` and for the user `NAME`.
    fn sign(folder: &Path, issuer: &Issuer<'_, KeyPair>, name: &str) {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        std::fs::write(folder.join(name).with_extension("pem"), certificate.pem()).unwrap();
        std::fs::write(folder.join(name).with_extension("key"), key.serialize_pem()).unwrap();
    }

    /// The kind of handshake that the client and the server perform.
    fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Option<HandshakeKind> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(client.clone(), name).unwrap();
        let mut server = ServerConnection::new(server.clone()).unwrap();
        while client.wants_write() || server.wants_write() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut bytes = io::Cursor::new(bytes);
            while server.read_tls(&mut bytes).unwrap() > 0 {
                server.process_new_packets().unwrap();
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut bytes = io::Cursor::new(bytes);
            while client.read_tls(&mut bytes).unwrap() > 0 {
                client.process_new_packets().unwrap();
            }
        }
        server.handshake_kind()
    }

    /// With a resumed session, a certificate could be used after its expiry or revocation.
    #[test]
    fn certificates_of_clients_are_verified_in_each_handshake() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        ["server", "eve"].iter().for_each(|name| sign(folder.path(), &issuer, name));
        let source = Source {
            names: Vec::new(),
            certificate: path("server.pem"),
            key: path("server.key"),
            is_awaited: false,
        };
        let (certificates, _) = Certificates::load(vec![source], SystemTime::now()).unwrap();
        let certificates = Arc::new(certificates);
        let clients = Clients::of_authorities(&path("ca.pem"), None).unwrap();
        for (clients, second) in
            [(None, HandshakeKind::Resumed), (Some(clients), HandshakeKind::Full)]
        {
            let profile = Profile { certificates: certificates.clone(), clients };
            let (_, server) = config(&profile, &[]);
            for version in [&TLS12, &TLS13] {
                let client = ClientConfig::builder_with_provider(ring::default_provider().into())
                    .with_protocol_versions(&[version])
                    .unwrap()
                    .with_root_certificates(authorities(&path("ca.pem")).unwrap())
                    .with_client_auth_cert(
                        chain(&path("eve.pem")).unwrap(),
                        private_key(&path("eve.key")).unwrap(),
                    );
                let client = Arc::new(client.unwrap());
                assert_eq!(handshake(&client, &server), Some(HandshakeKind::Full));
                assert_eq!(handshake(&client, &server), Some(second), "{version:?}");
            }
        }
    }
}
