//! Who may come in, and what for: the users and the rules at hand. An operator may have their files read anew
//! while the broker runs.
//!
//! Rules have a version. A subscription of which all may be received remembers by which version that was found
//! out, so that its messages are looked at only once the rules are others.

use std::sync::Arc;

use phalanx_access::{Attempt, Covers, FileError, Passwords, Rules, Users, Who};
use phalanx_guard::Refusal;
use phalanx_mqtt::Reason;

use crate::config::Security;
use crate::newest::{Newest, Seen};

/// Who a session belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The user whose password was looked at, if anybody's was.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) client: Arc<str>,
}

impl Identity {
    fn who(&self) -> Who<'_> {
        Who { user: self.user.as_deref(), client: &self.client }
    }
}

/// One reading of the files.
pub(crate) struct Policy {
    /// 0 where there are no rules: everybody may do everything.
    version: u32,
    users: Option<Arc<Users>>,
    rules: Option<Rules>,
    anonymous: bool,
}

/// By which version of the rules all that a subscription matches may be received; 0 where its messages are to
/// be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered(u32);

impl Covered {
    /// Nobody has asked: to be found out for each message where there are rules.
    pub(crate) const UNKNOWN: Self = Self(0);
}

impl Policy {
    fn read(security: &Security, version: u32) -> Result<Self, FileError> {
        let users = security.password_file.as_deref().map(Users::open).transpose()?.map(Arc::new);
        let rules = security.acl_file.as_deref().map(Rules::open).transpose()?;
        let anonymous = security.allow_anonymous || users.is_none();
        Ok(Self { version: if rules.is_some() { version } else { 0 }, users, rules, anonymous })
    }

    /// Whether a message may be published to a topic. The system's own are the broker's.
    #[inline]
    pub(crate) fn may_publish(&self, identity: &Identity, topic: &str) -> bool {
        if topic.starts_with('$') && is_system(topic) {
            return false;
        }
        match &self.rules {
            None => true,
            Some(rules) => rules.may_publish(identity.who(), topic),
        }
    }

    /// How much of what `filter` matches may be received; none for nothing.
    pub(crate) fn may_subscribe(&self, identity: &Identity, filter: &str) -> Option<Covered> {
        let Some(rules) = &self.rules else { return Some(Covered(0)) };
        match rules.may_subscribe(identity.who(), filter) {
            Covers::All => Some(Covered(self.version)),
            Covers::Some => Some(Covered::UNKNOWN),
            Covers::None => None,
        }
    }

    /// Whether a message to `topic` may be received through a subscription that was covered so.
    #[inline]
    pub(crate) fn may_receive(&self, covered: Covered, identity: &Identity, topic: &str) -> bool {
        covered.0 == self.version || self.look(identity, topic)
    }

    #[cold]
    fn look(&self, identity: &Identity, topic: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_receive(identity.who(), topic))
    }

    /// The user that a client is, by the name and the password of its CONNECT; none for somebody without a
    /// name, where those are let in.
    ///
    /// # Errors
    /// The reason with which it is refused.
    pub(crate) async fn authenticate(
        &self,
        passwords: Option<&Passwords>,
        login: Login,
    ) -> Result<Option<Arc<str>>, Reason> {
        let (Some(name), Some(users), Some(passwords)) = (login.name, &self.users, passwords)
        else {
            return if self.anonymous { Ok(None) } else { Err(Reason::NOT_AUTHORIZED) };
        };
        let user: Arc<str> = name.as_str().into();
        let attempt = Attempt { name, password: login.password, client: login.client };
        match passwords.verify(users, attempt).await {
            Ok(true) => Ok(Some(user)),
            Ok(false) => Err(Reason::BAD_USER_NAME_OR_PASSWORD),
            Err(Refusal::Busy) => Err(Reason::SERVER_BUSY),
            Err(Refusal::LockedOut) => Err(Reason::CONNECTION_RATE_EXCEEDED),
        }
    }
}

/// What a CONNECT says of who it is.
pub(crate) struct Login {
    pub(crate) name: Option<String>,
    pub(crate) password: Vec<u8>,
    /// What stands for the client's address.
    pub(crate) client: u64,
}

/// Whether a topic is one of those that the broker itself publishes to.
fn is_system(topic: &str) -> bool {
    topic == "$SYS" || topic.starts_with("$SYS/")
}

/// The newest policy.
pub(crate) type Access = Newest<Policy>;

/// A policy in somebody's hands.
pub(crate) type Current = Seen<Policy>;

impl Access {
    /// Reads the files. May block.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn open(security: &Security) -> Result<Self, FileError> {
        Policy::read(security, 1).map(Self::new)
    }

    /// Reads files for the policy that is to be [put](Newest::put) in place next. May block.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn prepare(&self, security: &Security) -> Result<Policy, FileError> {
        Policy::read(security, self.next())
    }
}
