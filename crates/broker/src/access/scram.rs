//! Logins by SCRAM, in an exchange of AUTH packets.

use phalanx_access::scram::{Exchange, Mechanism};
use phalanx_access::{Attempt, Passwords};
use phalanx_guard::Refusal;
use phalanx_mqtt::Reason;
use phalanx_service::ListenAddress;

use crate::access::Policy;
use crate::access::login::locked_out;

/// A login that waits for the client's proof.
pub(crate) struct ScramLogin {
    pub(crate) mechanism: Mechanism,
    exchange: Exchange,
}

impl Policy {
    /// Begins a login at an address with the client's first message.
    ///
    /// # Errors
    /// The reason code of the rejection, and its explanation.
    pub(crate) fn begin_scram(
        &self,
        at: Option<ListenAddress>,
        method: &str,
        first: &[u8],
    ) -> Result<ScramLogin, (Reason, &'static str)> {
        let mechanism = Mechanism::from_name(method);
        let offered = mechanism.zip(self.logins(at)?.users.as_ref());
        let Some((mechanism, users)) =
            offered.filter(|(mechanism, users)| users.offers(*mechanism))
        else {
            let reason = "no user has keys for this authentication method";
            return Err((Reason::BAD_AUTHENTICATION_METHOD, reason));
        };
        let exchange = Exchange::begin(users, mechanism, first);
        let exchange = exchange.map_err(|reason| (Reason::NOT_AUTHORIZED, reason))?;
        Ok(ScramLogin { mechanism, exchange })
    }
}

impl ScramLogin {
    /// The user that the client claims to be.
    pub(crate) fn user(&self) -> &str {
        self.exchange.user()
    }

    /// The message for the client.
    pub(crate) fn challenge(&self) -> &str {
        self.exchange.challenge()
    }

    /// Verifies the proof in the client's last message. Returns the broker's proof. `client` is the address as a key.
    ///
    /// # Errors
    /// Same as [`Policy::begin_scram`].
    pub(crate) fn finish(
        &self,
        passwords: Option<&Passwords>,
        (last, client): (&[u8], u64),
    ) -> Result<String, (Reason, &'static str)> {
        let proof =
            self.exchange.finish(last).map_err(|reason| (Reason::NOT_AUTHORIZED, reason))?;
        let attempt = Attempt { name: self.user().to_owned(), password: proof.key, client };
        let judged = passwords.map(|passwords| passwords.record_verified(&attempt, proof.is_valid));
        match judged {
            Some(Ok(true)) => Ok(proof.answer),
            Some(Ok(false)) => Err((Reason::BAD_USER_NAME_OR_PASSWORD, "")),
            Some(Err(Refusal::LockedOut(_))) => Err(locked_out()),
            // This check has no queue, so it is never busy.
            Some(Err(Refusal::Busy)) | None => Err((Reason::SERVER_BUSY, "")),
        }
    }
}
