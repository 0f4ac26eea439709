//! The start of a connection: the server's INFO, TLS, the client's CONNECT, and the first PING and PONG.

use std::io;
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::time::now;
use phalanx_tls::{Wire, dial};
use serde::{Deserialize, Serialize};

use crate::address::ServerAddress;
use crate::codec::{Bounds, Frame};
use crate::options::{Access, Credentials, Options};

/// The part of INFO that a client uses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Info {
    pub(crate) version: String,
    pub(crate) headers: bool,
    pub(crate) max_payload: usize,
    pub(crate) tls_required: bool,
    pub(crate) auth_required: bool,
    pub(crate) cluster: Option<String>,
}

/// The properties of a client.
#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    lang: &'a str,
    version: &'a str,
    name: &'a str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
}

/// A connection that the server has accepted.
pub(crate) struct Session {
    pub(crate) wire: Wire,
    pub(crate) info: Info,
    /// Input that followed the first PONG.
    pub(crate) rest: Vec<u8>,
}

/// Maximum length of INFO, which comes before the server's own bound is known.
const FIRST: Bounds = Bounds { line: 256 * 1024, payload: 0 };

/// Upper bound of the maximum size of a message, in bytes, even if the server allows more; this is NATS's own limit.
const MAX_PAYLOAD: usize = 64 << 20;

/// Connects to a server.
///
/// # Errors
/// A description of the error.
pub(crate) async fn login(
    resolver: &Resolver,
    server: &ServerAddress,
    access: &Access,
    options: &Options,
) -> Result<Session, String> {
    let (start, limit) = (now(), options.connect_timeout);
    let host = (&*server.host, server.port);
    let connection = dial(resolver, host, None, IoTimeout::after(limit).until_shutdown()).await;
    let (wire, _) = connection.map_err(|error| error.to_string())?;
    let mut handshake = Handshake { wire, input: Vec::new(), start, limit };
    let mut info: Info = loop {
        let info = handshake.next(FIRST, |frame| match frame {
            Frame::Info(json) => Ok(Some(serde_json::from_str(json))),
            Frame::Error(message) => Err(message.to_owned()),
            _ => Ok(None),
        });
        if let Some(info) = info.await? {
            break info.map_err(|error| format!("its INFO is not JSON: {error}"))?;
        }
    };
    info.max_payload = info.max_payload.min(MAX_PAYLOAD);
    if server.is_tls || info.tls_required {
        handshake = handshake.encrypt(server, access).await?;
    }
    let (user, pass, token) = access.credentials.for_server(server);
    let connect = Connect {
        verbose: false,
        pedantic: false,
        tls_required: server.is_tls,
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        name: &options.name,
        protocol: 1,
        echo: true,
        headers: info.headers,
        // This option requires headers.
        no_responders: info.headers,
        user,
        pass,
        auth_token: token,
    };
    let json = serde_json::to_string(&connect).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    Frame::Connect(&json).encode(&mut out);
    Frame::Ping.encode(&mut out);
    handshake.wire.write(out, handshake.timeout()).await.map_err(|error| error.to_string())?;
    loop {
        let pong = handshake.next(Bounds::of_payload(info.max_payload), |frame| match frame {
            Frame::Pong => Ok(Some(())),
            Frame::Error(message) => Err(message.to_owned()),
            _ => Ok(None),
        });
        if pong.await?.is_some() {
            return Ok(Session { wire: handshake.wire, info, rest: handshake.input });
        }
    }
}

/// A connection that is being established.
struct Handshake {
    wire: Wire,
    input: Vec<u8>,
    start: Duration,
    limit: Duration,
}

impl Handshake {
    fn timeout(&self) -> IoTimeout {
        IoTimeout::after(self.limit).remaining(now() - self.start).until_shutdown()
    }

    /// Waits for the next frame, and returns what `take` makes of it.
    async fn next<T>(
        &mut self,
        bounds: Bounds,
        take: impl FnOnce(Frame<'_>) -> Result<Option<T>, String>,
    ) -> Result<Option<T>, String> {
        loop {
            let decoded = Frame::decode(&self.input, bounds).map_err(|error| error.to_string())?;
            if let Some((frame, length)) = decoded {
                let result = take(frame);
                self.input.drain(..length);
                return result;
            }
            let timeout = self.timeout();
            match self.wire.read(&mut self.input, timeout).await {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err("the server does not answer".into());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn encrypt(self, server: &ServerAddress, access: &Access) -> Result<Self, String> {
        let timeout = self.timeout();
        let Self { wire, input, start, limit } = self;
        let connector = access.connector.as_ref().ok_or("the server requires TLS")?;
        if !input.is_empty() {
            return Err("the server sent data before TLS".into());
        }
        let Wire::Plain(stream) = wire else { return Err("TLS in TLS".into()) };
        let result = connector.connect(stream, &server.host, timeout).await;
        let wire = Wire::Tls(result.map_err(|error| format!("TLS: {error}"))?);
        Ok(Self { wire, input, start, limit })
    }
}

impl Credentials {
    /// User, password and token for a server; those in its URL take precedence.
    fn for_server<'a>(
        &'a self,
        server: &'a ServerAddress,
    ) -> (Option<&'a str>, Option<&'a str>, Option<&'a str>) {
        match (&server.login, self) {
            (Some((user, Some(password))), _) | (None, Self::User(user, password)) => {
                (Some(user), Some(password), None)
            }
            (Some((token, None)), _) | (None, Self::Token(token)) => (None, None, Some(token)),
            (None, Self::None) => (None, None, None),
        }
    }
}
