//! Authentication and authorization by the users and the access list in force. A reload replaces both.
//!
//! Each policy has a version. A subscription whose messages may all be received stores the version for which that was
//! determined, so its messages are checked again only after the rules change.

pub(crate) mod bans;
pub(crate) mod permissions;
pub(crate) mod scram;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Cache};

use phalanx_access::{
    Attempt, CallOuts, Candidate, Coverage, Fetcher, FileError, Jwt, KEYS_MISSING, Passwords,
    Permissions, Rules, Subject, Token, Undecided, Users,
};
use phalanx_guard::Refusal;
use phalanx_mqtt::Reason;
use phalanx_service::ListenAddress;

use crate::config::{AuthHttp, Config, Security, weak_passwords};
use crate::events::Origin;
use crate::events::drops::Dropped;

/// The prefix of the client identifiers of bridges. No other client may have such an identifier.
pub(crate) const BRIDGE_CLIENTS: &str = "$bridge/";

/// The prefix of the client identifiers of other nodes of the cluster. No client may have such an identifier.
pub(crate) const NODE_CLIENTS: &str = "$cluster/";

/// Whether an identifier is that of a bridge or of another node.
pub(crate) fn is_reserved(client: &str) -> bool {
    client.starts_with(BRIDGE_CLIENTS) || client.starts_with(NODE_CLIENTS)
}

/// The stages that verify credentials.
#[derive(Clone)]
pub(crate) struct Verifiers {
    /// If there is a password file.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) fetcher: Fetcher,
    /// The same stages, with the counters of call-outs.
    pub(crate) callouts: Fetcher,
}

/// The owner of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// The authenticated user; `None` for an anonymous client.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) client: Arc<str>,
}

impl Identity {
    /// The client as the publisher of dropped messages.
    pub(crate) fn as_publisher<'a>(
        &'a self,
        topic: Option<&'a str>,
        origin: Origin,
    ) -> Dropped<'a> {
        let (client, user) = (Some(&*self.client), self.user.as_deref());
        Dropped { topic, client, user, is_publisher: true, origin: Some(origin) }
    }

    /// Whether this is another node of the cluster.
    pub(crate) fn is_node(&self) -> bool {
        self.client.starts_with(NODE_CLIENTS)
    }

    /// Whether this is a bridge of this broker or another node, which access rules do not restrict.
    fn is_internal(&self) -> bool {
        is_reserved(&self.client)
    }

    fn subject(&self) -> Subject<'_> {
        Subject { user: self.user.as_deref(), client: &self.client }
    }
}

/// The users and rules of one reading of their files.
pub(crate) struct Policy {
    /// Increases with each reading; never 0.
    generation: u32,
    /// The generation; 0 if there are no rules, so that everything is allowed.
    version: u32,
    /// At addresses without settings of their own.
    logins: Logins,
    /// At addresses with settings of their own.
    at: Vec<(ListenAddress, Logins)>,
    jwt: Option<Jwt>,
    callouts: Option<CallOuts>,
    permissions: Option<Permissions>,
    rules: Option<Rules>,
    admin_token: Option<Token>,
}

/// The ways to log in at an address.
struct Logins {
    /// The users of the password file, and the file.
    users: Option<Arc<Users>>,
    file: Option<PathBuf>,
    jwt: bool,
    http: bool,
    anonymous: bool,
}

impl Logins {
    fn open(security: &Security) -> Result<Self, FileError> {
        let file = security.password_file.clone();
        let users = file.as_deref().map(Users::open).transpose()?.map(Arc::new);
        let (jwt, http) = (security.jwt.is_some(), security.has_login_service());
        let anonymous = security.allow_anonymous || !security.has_logins();
        Ok(Self { users, file, jwt, http, anonymous })
    }
}

/// The version of the rules by which all messages of a subscription may be received; 0 if each message has to be
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered(u32);

impl Covered {
    /// Not determined: each message is checked if there are rules.
    pub(crate) const UNKNOWN: Self = Self(0);
}

impl Policy {
    fn read(
        config: &Config,
        (generation, earlier): (u32, Option<&Self>),
    ) -> Result<Self, FileError> {
        let security = &config.security;
        let logins = Logins::open(&config.elsewhere().security)?;
        let at = config.listeners.iter().map(|own| {
            let address = own.address.address;
            let mut logins = Logins::open(&config.at(address).security)?;
            // Also without a way to log in.
            logins.anonymous &= own.allow_anonymous != Some(false);
            Ok((address, logins))
        });
        let at = at.collect::<Result<_, FileError>>()?;
        let rules = security.acl_file.as_deref().map(Rules::open).transpose()?;
        let earlier = earlier.and_then(|earlier| earlier.jwt.as_ref());
        let jwt = security.jwt.as_ref().map(|jwt| jwt.open(earlier)).transpose()?;
        let services = security.auth_http.as_ref().map(AuthHttp::open).transpose()?;
        let (callouts, permissions) = services.unwrap_or_default();
        let admin_token = security.admin_token_file.as_deref().map(Token::open).transpose()?;
        let version = if rules.is_some() { generation } else { 0 };
        Ok(Self { generation, version, logins, at, jwt, callouts, permissions, rules, admin_token })
    }

    /// Whether operators have a token, without which they cannot use the admin API.
    pub(crate) fn has_admin_token(&self) -> bool {
        self.admin_token.is_some()
    }

    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        self.admin_token.as_ref().is_some_and(|own| own.is(token))
    }

    /// Warnings about weak password hashes.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let all = std::iter::once(&self.logins).chain(self.at.iter().map(|(_, logins)| logins));
        all.filter_map(|own| weak_passwords(own.users.as_ref()?, own.file.as_ref()?))
    }

    /// The ways to log in at an address, if it has settings of its own, or at all others.
    ///
    /// # Errors
    /// If a reload has removed the address.
    fn logins(&self, at: Option<ListenAddress>) -> Result<&Logins, (Reason, &'static str)> {
        let Some(address) = at else { return Ok(&self.logins) };
        let own = self.at.iter().find(|(own, _)| *own == address);
        let gone = (Reason::SERVER_BUSY, "the address is being removed");
        own.map(|(_, logins)| logins).ok_or(gone)
    }

    /// Whether a client may publish to `topic`. Only the broker publishes below `$SYS`.
    #[inline]
    pub(crate) fn may_publish(&self, identity: &Identity, topic: &str) -> bool {
        if topic.starts_with('$') && is_system(topic) {
            return false;
        }
        match &self.rules {
            None => true,
            Some(rules) => rules.may_publish(identity.subject(), topic) || identity.is_internal(),
        }
    }

    /// Whether a client may subscribe to `filter`: `None` if no message that it matches may be received.
    pub(crate) fn may_subscribe(&self, identity: &Identity, filter: &str) -> Option<Covered> {
        let Some(rules) = &self.rules else { return Some(Covered(0)) };
        match rules.may_subscribe(identity.subject(), filter) {
            Coverage::All => Some(Covered(self.version)),
            _ if identity.is_internal() => Some(Covered(self.version)),
            Coverage::Some => Some(Covered::UNKNOWN),
            Coverage::None => None,
        }
    }

    /// Whether a message to `topic` may be received through a subscription with this coverage.
    #[inline]
    pub(crate) fn may_receive(&self, covered: Covered, identity: &Identity, topic: &str) -> bool {
        covered.0 == self.version || self.check_rules(identity, topic)
    }

    #[cold]
    fn check_rules(&self, identity: &Identity, topic: &str) -> bool {
        let may = |rules: &Rules| rules.may_receive(identity.subject(), topic);
        self.rules.as_ref().is_none_or(may) || identity.is_internal()
    }

    /// Authenticates a client of an address by the user name and password of its CONNECT. Returns `None` for a client without a user
    /// name, if anonymous clients are allowed.
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

    /// Fetches what is configured by URL, so that the first login does not wait for it.
    pub(crate) async fn fetch(&self, verifiers: &Verifiers) {
        if let Some(jwt) = &self.jwt {
            jwt.fetch(&verifiers.fetcher).await;
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
        Err(Refusal::LockedOut) => Err(locked_out()),
    }
}

fn locked_out() -> (Reason, &'static str) {
    (Reason::CONNECTION_RATE_EXCEEDED, "locked out after wrong passwords")
}

/// The user of a token. The user name of CONNECT may be left out, or must be the same.
async fn by_token(
    jwt: &Jwt,
    fetcher: &Fetcher,
    login: &Login,
) -> Result<Arc<str>, (Reason, &'static str)> {
    let refused = |why| match why {
        KEYS_MISSING => (Reason::SERVER_UNAVAILABLE, why),
        _ => (Reason::BAD_USER_NAME_OR_PASSWORD, why),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
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
        Err(Undecided::Refused(Refusal::LockedOut)) => Err(locked_out()),
        Err(Undecided::Refused(Refusal::Busy)) => {
            Err((Reason::SERVER_BUSY, "too many logins wait"))
        }
        Err(Undecided::Unavailable) => {
            Err((Reason::SERVER_UNAVAILABLE, "the service of auth-http does not decide"))
        }
    }
}

/// The credentials of a CONNECT.
pub(crate) struct Login {
    pub(crate) name: Option<String>,
    pub(crate) password: Vec<u8>,
    pub(crate) client_id: Arc<str>,
    /// Whether the broker has chosen the client identifier.
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

/// An address as a key: see [`phalanx_guard::client`].
pub(crate) fn address_key(address: Option<IpAddr>) -> u64 {
    address.map_or(0, phalanx_guard::client)
}

/// Whether only the broker publishes to a topic.
fn is_system(topic: &str) -> bool {
    topic == "$SYS" || topic.starts_with("$SYS/")
}

/// The policy in force, shared by all processors. A reload stores a new one.
pub(crate) type Access = Arc<ArcSwap<Policy>>;

/// The policy in force, cached by one connection or one stage.
pub(crate) type CachedPolicy = Cache<Access, Arc<Policy>>;

/// Reads the files. May block.
///
/// # Errors
/// If a file cannot be read or contains an error.
pub(crate) fn open(config: &Config) -> Result<Access, FileError> {
    Policy::read(config, (1, None)).map(|policy| Arc::new(ArcSwap::from_pointee(policy)))
}

/// Reads the files for the policy that will replace the one in force. May block.
///
/// # Errors
/// If a file cannot be read or contains an error.
pub(crate) fn prepare(access: &Access, config: &Config) -> Result<Policy, FileError> {
    let earlier = access.load();
    Policy::read(config, (earlier.generation.wrapping_add(1).max(1), Some(&earlier)))
}

#[cfg(test)]
mod tests {
    use phalanx::metrics::Counter;
    use phalanx::net::Resolver;
    use phalanx::sim;

    use super::*;
    use crate::config::JwtConfig;

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
