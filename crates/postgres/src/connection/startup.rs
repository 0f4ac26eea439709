//! The start of a connection: parameters and authentication.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::cancel::CancelKey;
use super::inbox::Frame;
use super::link::Link;
use super::prepared::{error_of, parse, unexpected};
use crate::config::Config;
use crate::error::Fault;

/// Starts the session and authenticates, until the server is ready for queries. Returns the key of its process.
pub(super) async fn authenticate(link: &Link, config: &Config) -> Result<Option<CancelKey>, Fault> {
    let mut startup = Startup {
        config,
        scram: None,
        is_accepted: false,
        key: None,
        ready: false,
        answer: BytesMut::new(),
    };
    let own = [("user", Some(&config.user)), ("database", config.database.as_ref())];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?.as_str())));
    let others = config.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let message = frontend::startup_message(own.chain(others), &mut startup.answer);
    message.map_err(not_valid("the user, the database or a parameter"))?;
    loop {
        if !startup.answer.is_empty() {
            link.send(startup.answer.split()).await?;
        }
        link.process(|frame| startup.handle(frame))?;
        if startup.ready {
            return Ok(startup.key);
        }
        if startup.answer.is_empty() {
            link.wait(config.connect_timeout).await?;
        }
    }
}

/// A part of the configuration that has a zero byte, for example.
fn not_valid(what: &'static str) -> impl Fn(std::io::Error) -> Fault {
    move |error| Fault::Protocol(format!("{what} of the configuration: {error}"))
}

struct Startup<'c> {
    config: &'c Config,
    /// An exchange in which the server has not proved that it knows the password.
    scram: Option<ScramSha256>,
    is_accepted: bool,
    key: Option<CancelKey>,
    ready: bool,
    /// Messages to send.
    answer: BytesMut,
}

impl<'c> Startup<'c> {
    fn handle(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        match frame.tag {
            b'E' => return error_of(frame).and_then(|error| Err(Fault::Fatal(error))),
            b'Z' if self.is_accepted => self.ready = true,
            b'K' => self.key = CancelKey::parse(frame.body()),
            // A negotiation of the protocol's version.
            b'v' => {}
            b'R' => self.authenticate(frame)?,
            _ => return Err(unexpected(frame)),
        }
        Ok(())
    }

    fn authenticate(&mut self, frame: Frame<'_>) -> Result<(), Fault> {
        match parse(frame)? {
            Message::AuthenticationOk if self.scram.is_some() => {
                let reason = "the server has not proved that it knows the password";
                return Err(Fault::Protocol(reason.to_owned()));
            }
            Message::AuthenticationOk => self.is_accepted = true,
            Message::AuthenticationCleartextPassword => {
                if !self.config.is_private() {
                    let reason = "the server asks for the password in clear text; it is not sent over TCP without \
                                TLS: let the server use scram-sha-256";
                    return Err(Fault::Protocol(reason.to_owned()));
                }
                let message =
                    frontend::password_message(self.password()?.as_bytes(), &mut self.answer);
                message.map_err(not_valid("the password"))?;
            }
            Message::AuthenticationMd5Password(body) => {
                let (user, password) = (self.config.user.as_bytes(), self.password()?.as_bytes());
                let hash = md5_hash(user, password, body.salt());
                frontend::password_message(hash.as_bytes(), &mut self.answer)?;
            }
            Message::AuthenticationSasl(body) => {
                let scram = body.mechanisms().any(|mechanism| Ok(mechanism == SCRAM_SHA_256))?;
                if !scram {
                    let reason = "the server offers no authentication by SCRAM-SHA-256";
                    return Err(Fault::Protocol(reason.to_owned()));
                }
                let password = self.password()?.as_bytes();
                let scram = ScramSha256::new(password, ChannelBinding::unsupported());
                frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.answer)?;
                self.scram = Some(scram);
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or_else(|| unexpected(frame))?;
                scram.update(body.data())?;
                frontend::sasl_response(scram.message(), &mut self.answer)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                let mut scram = self.scram.take().ok_or_else(|| unexpected(frame))?;
                scram.finish(body.data())?;
            }
            _ => {
                let reason =
                    "the server asks for an authentication other than SCRAM-SHA-256 or MD5";
                return Err(Fault::Protocol(reason.to_owned()));
            }
        }
        Ok(())
    }

    fn password(&self) -> Result<&'c str, Fault> {
        self.config.password.as_deref().ok_or_else(|| {
            let reason = "the server asks for a password; set it with `Config::password`";
            Fault::Protocol(reason.to_owned())
        })
    }
}
