//! Authentication of a client: by its certificate, by user name and password, or by an exchange of AUTH packets (§4.12).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{
    Auth, Frame, Kind, Packet, Properties, Property, PropertyBuffer, Reason, Version,
};

use crate::access::login::Login;
use crate::access::scram::ScramLogin;
use crate::access::{Policy, address_key};
use crate::connection::client::Connection;
use crate::connection::end::End;
use crate::connection::logging;
use crate::context::Context;
use crate::limits::peer::Peer;
use crate::transport::Transport;

/// Maximum size of an AUTH packet of a client that is not authenticated, in bytes.
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

type Rejection = (Reason, &'static str);

/// The client that authenticates itself.
pub(super) struct Candidate<'a> {
    pub(super) stream: &'a Transport,
    pub(super) context: &'a Context,
    pub(super) policy: &'a Policy,
    pub(super) peer: &'a Peer,
}

impl Candidate<'_> {
    /// Authenticates the client. Stores the user that it claims to be in `claimed`. `None` if the connection has ended.
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
            refused_logins.refused(reason, (claimed.as_deref(), self.peer.ip()), stages.control);
        }
        Some(found)
    }

    /// Whether the client's address requires a certificate.
    fn asks_for_certificates(&self) -> bool {
        let tls = self.context.config.security.tls.as_ref();
        self.stream.is_tls() && tls.is_some_and(|tls| tls.client_authorities.is_some())
    }

    /// Exchanges AUTH packets, for at most the time of CONNECT.
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
                        Ok(Packet::Auth(auth)) => data(&auth, mechanism).map(<[u8]>::to_vec),
                        Ok(_) => Err((Reason::PROTOCOL_ERROR, "another packet instead of AUTH")),
                        Err(error) => Err((error.reason, error.what())),
                    };
                    input.drain(..length);
                    return Some(data);
                }
                Err(error) => return Some(Err((error.reason, error.what()))),
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
        let left = self.peer.left(self.context.config.limits.connect);
        IoTimeout::after(left).until_shutdown()
    }
}

/// The authentication method of an accepted client, which may authenticate again.
pub(super) struct Reauthentication {
    mechanism: Mechanism,
    /// The current exchange, and the time of its begin.
    exchange: Option<(ScramLogin, Duration)>,
}

impl Reauthentication {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        Self { mechanism, exchange: None }
    }
}

impl Connection {
    /// Processes AUTH: a step of an exchange that the client has begun (§4.12.1).
    pub(super) fn authenticate_again(&mut self, auth: &Auth<'_>) -> Result<(), End> {
        // Not by `self`, of which a part is borrowed.
        let shared = self.shared.clone();
        let (context, outbox) = (&shared.context, &shared.outbox);
        let Some(again) = &mut self.reauthentication else {
            let what = "AUTH of a client whose CONNECT had no authentication method";
            return Err(End::Because(Reason::PROTOCOL_ERROR, what));
        };
        let mechanism = again.mechanism;
        let data = data(auth, mechanism).map_err(|(reason, what)| End::Because(reason, what))?;
        let begins = auth.reason == Reason::RE_AUTHENTICATE;
        let address = shared.peer.ip();
        let (reason, answer) = match again.exchange.take() {
            None if begins => {
                let at = context.listener;
                let login = self.policy.load().begin_scram(at, mechanism.name(), data);
                let login = login.map_err(|why| refused(context, (None, address), why))?;
                if self.identity.user.as_deref() != Some(login.user()) {
                    let why = (Reason::NOT_AUTHORIZED, OTHER_USER);
                    return Err(refused(context, (Some(login.user()), address), why));
                }
                let challenge = login.challenge().to_owned();
                again.exchange = Some((login, now()));
                (Reason::CONTINUE_AUTHENTICATION, challenge)
            }
            Some((login, begun)) if !begins => {
                if now() - begun > context.config.limits.connect {
                    let what = "the exchange of AUTH took longer than connect-timeout";
                    return Err(End::Because(Reason::NOT_AUTHORIZED, what));
                }
                let client = address_key(address);
                let passwords = context.verifiers.passwords.as_ref();
                let proof = login.finish(passwords, (data, client));
                let who = (Some(login.user()), address);
                let proof = proof.map_err(|why| refused(context, who, why))?;
                (Reason::SUCCESS, proof)
            }
            _ => return Err(End::Because(Reason::PROTOCOL_ERROR, "AUTH at the wrong time")),
        };
        with_auth(reason, (mechanism, &answer), |packet| {
            if !outbox.takes(packet) {
                let what = "AUTH would exceed the client's maximum packet size";
                return Err(End::Because(Reason::PACKET_TOO_LARGE, what));
            }
            outbox.push(packet);
            Ok(())
        })
    }
}

const OTHER_USER: &str = "SCRAM authenticates another user";

/// Counts a refused login of an accepted client of this address, which ends its connection.
fn refused(
    context: &Context,
    (user, address): (Option<&str>, Option<IpAddr>),
    (reason, what): Rejection,
) -> End {
    context.refused_logins.refused(reason, (user, address), context.stages.control);
    // DISCONNECT has no reason code for wrong passwords.
    let is_wrong = reason == Reason::BAD_USER_NAME_OR_PASSWORD;
    End::Because(if is_wrong { Reason::NOT_AUTHORIZED } else { reason }, what)
}

/// The data of an AUTH packet. Its method must be that of CONNECT (MQTT-4.12.0-5).
fn data<'a>(auth: &Auth<'a>, mechanism: Mechanism) -> Result<&'a [u8], Rejection> {
    let (method, data) = method_and_data(auth.properties);
    let is_step = matches!(auth.reason, Reason::CONTINUE_AUTHENTICATION | Reason::RE_AUTHENTICATE);
    match data {
        Some(data) if is_step && method == Some(mechanism.name()) => Ok(data),
        _ => {
            let what =
                "AUTH needs the authentication method of CONNECT, data, and reason 0x18 or 0x19";
            Err((Reason::PROTOCOL_ERROR, what))
        }
    }
}

/// The authentication method and data of a packet.
pub(super) fn method_and_data(properties: Properties<'_>) -> (Option<&str>, Option<&[u8]>) {
    let (mut method, mut data) = (None, None);
    for property in properties {
        match property {
            Property::AuthenticationMethod(name) => method = Some(name),
            Property::AuthenticationData(bytes) => data = Some(bytes),
            _ => (),
        }
    }
    (method, data)
}

/// Calls `take` with an AUTH packet.
fn with_auth<T>(
    reason: Reason,
    (mechanism, data): (Mechanism, &str),
    take: impl FnOnce(&Packet<'_>) -> T,
) -> T {
    let mut properties = PropertyBuffer::new();
    for property in proof_properties(mechanism, data) {
        // Names and data are shorter than 64 KiB.
        let _ = properties.push(property);
    }
    take(&Packet::Auth(Auth { reason, properties: properties.get() }))
}

/// The properties of a method and its data.
pub(super) fn proof_properties(mechanism: Mechanism, data: &str) -> [Property<'_>; 2] {
    [
        Property::AuthenticationMethod(mechanism.name()),
        Property::AuthenticationData(data.as_bytes()),
    ]
}
