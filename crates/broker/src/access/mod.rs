//! Authentication and authorization by the users and the access list in force. A reload replaces both.
//!
//! Each policy has a version. If the rules allow all messages of a subscription, the subscription stores the version for
//! which this was determined. Its messages are then checked again only after the rules change.

pub(crate) mod bans;
pub(crate) mod login;
pub(crate) mod permissions;
pub(crate) mod scram;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use phalanx_access::{
    CallOuts, Coverage, Fetcher, FileError, Jwt, Passwords, Permissions, Rules, Subject, Token,
};
use phalanx_service::ListenAddress;

use crate::access::login::{Logins, UserFiles};
use crate::config::{AuthHttp, Config};
use crate::events::Origin;
use crate::events::drops::Dropped;

/// The prefix of the client identifiers of bridges. No other client may have such an identifier.
pub(crate) const BRIDGE_CLIENTS: &str = "$bridge/";

/// The prefix of the client identifiers of other nodes of the cluster. No client may have such an identifier.
pub(crate) const NODE_CLIENTS: &str = "$cluster/";

/// The prefix of the sessions that represent handovers: see `peers/handovers.rs`. No client may have such an identifier.
pub(crate) const ADOPTED_CLIENTS: &str = "$adopted/";

/// Whether an identifier is that of a bridge, of another node, or of a handover.
pub(crate) fn is_reserved(client: &str) -> bool {
    [BRIDGE_CLIENTS, NODE_CLIENTS, ADOPTED_CLIENTS].iter().any(|prefix| client.starts_with(prefix))
}

/// Whether an identifier is that of a session with messages for another node. The router knows such a session even if it
/// has no subscriptions.
pub(crate) fn is_of_node(client: &str) -> bool {
    client.starts_with(NODE_CLIENTS) || client.starts_with(ADOPTED_CLIENTS)
}

/// The stages that verify credentials.
#[derive(Clone)]
pub(crate) struct Verifiers {
    /// `None` without a password file.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) fetcher: Fetcher,
    /// The same stages as `fetcher`, with the counters of call-outs.
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
    /// Describes the client as the publisher of dropped messages.
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

/// The users and rules as read from their files at one time.
pub(crate) struct Policy {
    /// Increases each time the files are read; never 0.
    generation: u32,
    /// The generation; 0 if there are no rules and everything is allowed.
    version: u32,
    /// The ways to log in at addresses without their own settings.
    logins: Logins,
    /// The ways to log in at addresses with their own settings.
    at: Vec<(ListenAddress, Logins)>,
    files: UserFiles,
    jwt: Option<Jwt>,
    callouts: Option<CallOuts>,
    permissions: Option<Permissions>,
    rules: Option<Rules>,
    admin_token: Option<Token>,
}

/// The version of the rules that allow all messages of a subscription; 0 if each message has to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered(u32);

impl Covered {
    /// Not determined, so each message is checked if there are rules.
    pub(crate) const UNKNOWN: Self = Self(0);
}

impl Policy {
    fn read(
        config: &Config,
        (generation, earlier): (u32, Option<&Self>),
    ) -> Result<Self, FileError> {
        let (security, mut files) = (&config.security, UserFiles::default());
        let logins = Logins::open(&config.at_other_addresses().security, &mut files)?;
        let at = config.listeners.iter().map(|listener| {
            let address = listener.address.address;
            let mut logins = Logins::open(&config.at(address).security, &mut files)?;
            // Applies even without a way to log in.
            logins.anonymous &= listener.allow_anonymous != Some(false);
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
        Ok(Self {
            generation,
            version,
            logins,
            at,
            files,
            jwt,
            callouts,
            permissions,
            rules,
            admin_token,
        })
    }

    /// Whether an admin token is configured. Without one the admin API cannot be used.
    pub(crate) fn has_admin_token(&self) -> bool {
        self.admin_token.is_some()
    }

    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        self.admin_token.as_ref().is_some_and(|expected| expected.is(token))
    }

    /// Warnings about weak password hashes.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.files.warnings()
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

    /// Whether a client may subscribe to `filter`: `None` if the client may receive no matching message.
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

    /// Fetches the keys that are configured by URL, so that the first login does not wait for them.
    pub(crate) async fn fetch(&self, verifiers: &Verifiers) {
        if let Some(jwt) = &self.jwt {
            jwt.fetch(&verifiers.fetcher).await;
        }
    }
}

/// An address as a key: see [`phalanx_guard::client`].
pub(crate) fn address_key(address: Option<IpAddr>) -> u64 {
    address.map_or(0, phalanx_guard::client)
}

/// Whether only the broker publishes to a topic.
pub(crate) fn is_system(topic: &str) -> bool {
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
