//! Authentication of a client: by its certificate, by user name and password, or by an exchange of AUTH packets (§4.12).

use std::io;
use std::sync::Arc;

use phalanx::net::IoTimeout;
use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{Frame, Kind, Packet, Reason, Version};

use crate::access::login::Login;
use crate::access::{Policy, address_key};
use crate::connection::auth_packet::{OTHER_USER, Rejection, data, with_auth};
use crate::connection::logging;
use crate::context::Context;
use crate::limits::peer::Peer;
use crate::transport::Transport;

/// Maximum size of an AUTH packet from an unauthenticated client, in bytes.
const MAX_AUTH_BYTES: usize = 8192;

/// The credentials in a CONNECT.
pub(super) struct Credentials {
    pub(super) login: Login,
    /// The authentication method and its data.
    pub(super) method: Option<(String, Vec<u8>)>,
    /// Maximum packet size of the client, in bytes.
    pub(super) most: usize,
}

/// An authenticated client.
pub(super) struct Authenticated {
    /// `None` for an anonymous client.
    pub(super) user: Option<Arc<str>>,
    /// The broker's proof for the client's authentication method.
    pub(super) proof: Option<(Mechanism, String)>,
}

/// A client that is being authenticated.
pub(super) struct Candidate<'a> {
    pub(super) stream: &'a Transport,
    pub(super) context: &'a Context,
    pub(super) policy: &'a Policy,
    pub(super) peer: &'a Peer,
}

impl Candidate<'_> {
    /// Authenticates the client. Stores the user that the client claims to be in `claimed`. `None` if the connection has
    /// ended.
    pub(super) async fn authenticate(
        &self,
        credentials: Credentials,
        claimed: &mut Option<String>,
        input: &mut Vec<u8>,
    ) -> Option<Result<Authenticated, Rejection>> {
        let Credentials { login, method, most } = credentials;
        claimed.clone_from(&login.name);
        let has_method = method.is_some();
        let of_user = |user| Authenticated { user, proof: None };
        let is_user = self.context.config.security.certificate_user;
        let name = self.stream.client_name().filter(|_| is_user);
        let found = match (name, self.asks_for_certificates() && is_user) {
            (Some(_), _) | (_, true) if has_method => {
                let why = "clients of this address authenticate with certificates";
                return Some(Err((Reason::BAD_AUTHENTICATION_METHOD, why)));
            }
            (Some(name), _) => return Some(Ok(of_user(Some(name)))),
            (None, true) => {
                let why = "the certificate has no common name";
                return Some(Err((Reason::NOT_AUTHORIZED, why)));
            }
            (None, false) => match method {
                Some(method) => self.exchange((method, most), (login.name, claimed), input).await?,
                None => {
                    let login = Login { address: self.peer.ip(), ..login };
                    let verifiers = &self.context.verifiers;
                    let at = self.context.listener;
                    self.policy.authenticate(verifiers, login, at).await.map(of_user)
                }
            },
        };
        if let Err((reason, _)) = found {
            let Context { refused_logins, stages, .. } = self.context;
            refused_logins.record(reason, (claimed.as_deref(), self.peer.ip()), stages.control);
        }
        Some(found)
    }

    /// Whether the client's address requires a certificate.
    fn asks_for_certificates(&self) -> bool {
        let tls = self.context.config.security.tls.as_ref();
        self.stream.is_tls() && tls.is_some_and(|tls| tls.client_authorities.is_some())
    }

    /// Exchanges AUTH packets, within the timeout for CONNECT.
    async fn exchange(
        &self,
        ((method, first), most): ((String, Vec<u8>), usize),
        (name, claimed): (Option<String>, &mut Option<String>),
        input: &mut Vec<u8>,
    ) -> Option<Result<Authenticated, Rejection>> {
        let login = match self.policy.begin_scram(self.context.listener, &method, &first) {
            Ok(login) => login,
            Err(rejection) => return Some(Err(rejection)),
        };
        *claimed = Some(login.user().to_owned());
        if name.is_some_and(|name| !name.is_empty() && name != login.user()) {
            return Some(Err((Reason::NOT_AUTHORIZED, OTHER_USER)));
        }
        let mut challenge = Vec::new();
        let (reason, data) = (Reason::CONTINUE_AUTHENTICATION, login.challenge());
        let encoded = with_auth(reason, (login.mechanism, data), |packet| {
            packet.encode_within(Version::V5, most, &mut challenge)
        });
        if encoded.is_err() {
            let why = "the maximum packet size is too small for AUTH";
            return Some(Err((Reason::IMPLEMENTATION_SPECIFIC_ERROR, why)));
        }
        self.stream.write(challenge, self.timeout()).await.ok()?;
        let last = match self.last_message(login.mechanism, input).await? {
            Ok(last) => last,
            Err(rejection) => return Some(Err(rejection)),
        };
        let (passwords, client) = (&self.context.verifiers.passwords, address_key(self.peer.ip()));
        let proof = login.finish(passwords.as_ref(), (&last, client));
        Some(proof.map(|proof| Authenticated {
            user: Some(login.user().into()),
            proof: Some((login.mechanism, proof)),
        }))
    }

    /// Waits for the client's AUTH. `None` if the client disconnects, or sends nothing in time.
    async fn last_message(
        &self,
        mechanism: Mechanism,
        input: &mut Vec<u8>,
    ) -> Option<Result<Vec<u8>, Rejection>> {
        loop {
            match Frame::split(input, MAX_AUTH_BYTES) {
                Ok(None) => (),
                Ok(Some(frame)) if frame.kind() == Kind::Disconnect => return None,
                Ok(Some(frame)) => {
                    let length = frame.length();
                    let data = match Packet::decode(frame, Version::V5) {
                        Ok(Packet::Auth(auth)) => {
                            let reason = Reason::CONTINUE_AUTHENTICATION;
                            data(&auth, mechanism, reason).map(<[u8]>::to_vec)
                        }
                        Ok(_) => Err((Reason::PROTOCOL_ERROR, "another packet instead of AUTH")),
                        Err(error) => Err((error.reason, error.message())),
                    };
                    input.drain(..length);
                    return Some(data);
                }
                Err(error) => return Some(Err((error.reason, error.message()))),
            }
            match self.stream.read(input, self.timeout()).await {
                Ok(1..) => (),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    let why = (Reason::MAXIMUM_CONNECT_TIME, "no AUTH within connect-timeout");
                    logging::refused(self.context, &self.peer.origin, (None, None), why);
                    return None;
                }
                _ => return None,
            }
        }
    }

    fn timeout(&self) -> IoTimeout {
        let left = self.peer.time_left(self.context.config.limits.connect);
        IoTimeout::after(left).until_shutdown()
    }
}
