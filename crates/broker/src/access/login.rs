//! Logins: by the password file, by tokens, and by an HTTP service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx::time::time_of_day;
use phalanx_access::{
    Attempt, CallOutError, CallOuts, Candidate, Fetcher, FileError, Jwt, KEYS_MISSING, Passwords,
    Users,
};
use phalanx_guard::Refusal;
use phalanx_mqtt::Reason;
use phalanx_service::ListenAddress;

use crate::access::{Policy, Verifiers, address_key};
use crate::config::{Security, weak_passwords};

/// The ways to log in at an address.
pub(super) struct Logins {
    /// The users of the password file.
    pub(super) users: Option<Arc<Users>>,
    jwt: bool,
    http: bool,
    pub(super) anonymous: bool,
}

impl Logins {
    pub(super) fn open(security: &Security, files: &mut UserFiles) -> Result<Self, FileError> {
        let users = security.password_file.as_deref().map(|path| files.open(path)).transpose()?;
        let (jwt, http) = (security.jwt.is_some(), security.has_login_service());
        let anonymous = security.allow_anonymous || !security.has_logins();
        Ok(Self { users, jwt, http, anonymous })
    }
}

/// The password files. Each is read once, although several addresses may use it.
#[derive(Default)]
pub(super) struct UserFiles(BTreeMap<PathBuf, Arc<Users>>);

impl UserFiles {
    fn open(&mut self, path: &Path) -> Result<Arc<Users>, FileError> {
        if let Some(known) = self.0.get(path) {
            return Ok(known.clone());
        }
        let users = Arc::new(Users::open(path)?);
        self.0.insert(path.into(), users.clone());
        Ok(users)
    }

    /// Warnings about weak password hashes.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(path, users)| weak_passwords(users, path))
    }
}

impl Policy {
    /// The ways to log in at an address: those of its own settings if it has any, otherwise the common ones.
    ///
    /// # Errors
    /// If a reload has removed the address or its settings after the client connected.
    pub(super) fn logins(
        &self,
        at: Option<ListenAddress>,
    ) -> Result<&Logins, (Reason, &'static str)> {
        let Some(address) = at else { return Ok(&self.logins) };
        let own = self.at.iter().find(|(known, _)| *known == address);
        let error = (Reason::SERVER_BUSY, "a reload has changed this address; connect again");
        own.map(|(_, logins)| logins).ok_or(error)
    }

    /// Authenticates a client of an address by the user name and password of its CONNECT. Returns `None` for a client
    /// without a user name, if anonymous clients are allowed.
    ///
    /// # Errors
    /// The reason code of the rejection, and its explanation.
    pub(crate) async fn authenticate(
        &self,
        verifiers: &Verifiers,
        login: Login,
        at: Option<ListenAddress>,
    ) -> Result<Option<Arc<str>>, (Reason, &'static str)> {
        let logins = self.logins(at)?;
        match &self.jwt {
            Some(jwt) if logins.jwt && Jwt::is_token(&login.password) => {
                by_token(jwt, &verifiers.fetcher, &login).await.map(Some)
            }
            _ => match (&self.callouts, login.name.clone()) {
                (Some(callouts), Some(name)) if logins.http => {
                    by_service(callouts, &verifiers.callouts, &name, login).await.map(Some)
                }
                _ => by_password(logins, verifiers.passwords.as_ref(), login).await,
            },
        }
    }
}

async fn by_password(
    logins: &Logins,
    passwords: Option<&Passwords>,
    login: Login,
) -> Result<Option<Arc<str>>, (Reason, &'static str)> {
    let client = login.address_key();
    let has_login = login.name.is_some() || !login.password.is_empty();
    if logins.users.is_none() && logins.jwt && has_login {
        return Err((Reason::BAD_USER_NAME_OR_PASSWORD, "the password is not a token"));
    }
    let (Some(name), Some(users), Some(passwords)) = (login.name, &logins.users, passwords) else {
        return match logins.anonymous {
            true => Ok(None),
            false => Err((Reason::NOT_AUTHORIZED, "no user name")),
        };
    };
    let user: Arc<str> = name.as_str().into();
    let attempt = Attempt { name, password: login.password, client };
    match passwords.verify(users, attempt).await {
        Ok(true) => Ok(Some(user)),
        Ok(false) => Err((Reason::BAD_USER_NAME_OR_PASSWORD, "")),
        Err(Refusal::Busy) => Err((Reason::SERVER_BUSY, "too many logins wait")),
        Err(Refusal::LockedOut(_)) => Err(locked_out()),
    }
}

pub(super) fn locked_out() -> (Reason, &'static str) {
    (Reason::CONNECTION_RATE_EXCEEDED, "locked out after wrong passwords")
}

/// The user of a token. CONNECT must have the same user name, or none.
async fn by_token(
    jwt: &Jwt,
    fetcher: &Fetcher,
    login: &Login,
) -> Result<Arc<str>, (Reason, &'static str)> {
    let refused = |reason| match reason {
        KEYS_MISSING => (Reason::SERVER_UNAVAILABLE, reason),
        _ => (Reason::BAD_USER_NAME_OR_PASSWORD, reason),
    };
    let now = time_of_day().as_secs();
    let user = jwt.verify_with(fetcher, &login.password, now).await.map_err(refused)?;
    match login.name.as_deref() {
        Some(name) if !name.is_empty() && name != user => {
            Err(refused("the token is for another user name"))
        }
        _ => Ok(user.into()),
    }
}

/// The user that an HTTP service accepts.
async fn by_service(
    callouts: &CallOuts,
    fetcher: &Fetcher,
    name: &str,
    login: Login,
) -> Result<Arc<str>, (Reason, &'static str)> {
    let Login { password, client_id, is_assigned, address, .. } = &login;
    let (password, is_assigned, address) = (&password[..], *is_assigned, *address);
    let candidate = Candidate { user: name, password, client_id, is_assigned, address };
    match callouts.verify(candidate, login.address_key(), fetcher).await {
        Ok(true) => Ok(name.into()),
        Ok(false) => Err((Reason::BAD_USER_NAME_OR_PASSWORD, "")),
        Err(CallOutError::Refused(Refusal::LockedOut(_))) => Err(locked_out()),
        Err(CallOutError::Refused(Refusal::Busy)) => {
            Err((Reason::SERVER_BUSY, "too many logins wait"))
        }
        Err(CallOutError::Unavailable) => {
            Err((Reason::SERVER_UNAVAILABLE, "the service of auth-http does not decide"))
        }
    }
}

/// The credentials of a CONNECT.
pub(crate) struct Login {
    pub(crate) name: Option<String>,
    pub(crate) password: Vec<u8>,
    pub(crate) client_id: Arc<str>,
    /// Whether the broker chose the client identifier.
    pub(crate) is_assigned: bool,
    pub(crate) address: Option<IpAddr>,
}

impl Login {
    /// The credentials of a client whose address is not yet known.
    pub(crate) fn new(
        name: Option<&str>,
        password: Option<&[u8]>,
        (client_id, is_assigned): (&Arc<str>, bool),
    ) -> Self {
        let (name, password) = (name.map(str::to_owned), password.unwrap_or_default().to_vec());
        Self { name, password, client_id: client_id.clone(), is_assigned, address: None }
    }

    /// The client's address as a key.
    fn address_key(&self) -> u64 {
        address_key(self.address)
    }
}

#[cfg(test)]
mod tests {
    use phalanx::metrics::Counter;
    use phalanx::net::Resolver;
    use phalanx::sim;

    use super::*;
    use crate::config::{Config, JwtConfig, ListenerConfig};
    use crate::listen::Scheme;

    #[test]
    fn addresses_share_the_users_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        // Mosquitto's salted SHA-512, which the broker warns about.
        std::fs::write(&users, format!("eve:$6$c2FsdA==${}==\n", "A".repeat(86))).unwrap();
        let mut config = Config::new();
        config.security.password_file = Some(users);
        for port in [1, 2] {
            config.listeners.push(ListenerConfig::new(Scheme::Mqtt.at(([127, 0, 0, 1], port))));
        }
        let policy = Policy::read(&config, (1, None)).unwrap();
        let mut all = policy.at.iter().map(|(_, logins)| logins).chain([&policy.logins]);
        assert!(all.all(|logins| {
            policy
                .logins
                .users
                .as_ref()
                .is_some_and(|first| Arc::ptr_eq(first, logins.users.as_ref().unwrap()))
        }));
        assert_eq!(policy.warnings().count(), 1);
    }

    #[test]
    fn with_tokens_only_no_password_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let keys_file = folder.path().join("keys");
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let keys = format!(r#"{{"keys":[{{"kty":"oct","k":"{key}"}}]}}"#);
        std::fs::write(&keys_file, keys).unwrap();
        let jwt = Some(JwtConfig { keys_file: Some(keys_file), ..JwtConfig::default() });
        let mut config = Config::new();
        (config.security.jwt, config.security.allow_anonymous) = (jwt, true);
        let policy = Policy::read(&config, (1, None)).unwrap();
        let logins = [(None, ""), (Some("eve"), "apple"), (Some("eve"), ""), (None, "apple")];
        let mut anonymous = Vec::new();
        sim::block_on(
            0,
            None,
            |graph| {
                let stage = graph.shared("fetches", ());
                let resolver = Resolver::declare(graph);
                let counter = || Counter::new("fetches", "");
                let fetcher = Fetcher { stage, resolver, fetched: counter(), failed: counter() };
                Verifiers { passwords: None, callouts: fetcher.clone(), fetcher }
            },
            move |verifiers| async move {
                for (name, password) in logins {
                    let login = Login::new(name, Some(password.as_bytes()), (&"a".into(), false));
                    let result = policy.authenticate(&verifiers, login, None).await;
                    let is_anonymous = matches!(result, Ok(None));
                    let is_refused = result.is_err_and(|(reason, what)| {
                        reason == Reason::BAD_USER_NAME_OR_PASSWORD && what.contains("not a token")
                    });
                    assert!(is_anonymous || is_refused);
                    anonymous.push(is_anonymous);
                }
                assert_eq!(anonymous, [true, false, false, false]);
            },
        );
    }
}
