//! An access list, and what it allows.

use std::collections::HashMap;
use std::path::Path;

use crate::pattern::Pattern;
use crate::reading;
use crate::wrong::{FileError, Wrong};

/// An access list: who may publish and receive what.
///
/// Its lines are those of mosquitto's `acl_file`, and `client` sections beside them:
///
/// ```
/// use phalanx_access::{Covers, Rules, Who};
///
/// let rules = Rules::parse("\
/// ## Before any section: those without a user's name.
/// topic read weather/#
///
/// user eve
/// topic readwrite garden/#
/// topic deny garden/snake/#
///
/// ## Whatever user has this client identifier.
/// client meter-7
/// topic write meters/7
///
/// ## For everybody, %u the user and %c the client.
/// pattern readwrite inbox/%u/#
/// ").unwrap();
///
/// let eve = Who { user: Some("eve"), client: "c1" };
/// assert!(rules.may_publish(eve, "garden/tree") && !rules.may_publish(eve, "garden/snake/says"));
/// assert!(rules.may_receive(eve, "inbox/eve/new") && !rules.may_receive(eve, "inbox/adam/new"));
/// assert_eq!(rules.may_subscribe(eve, "inbox/eve/#"), Covers::All);
/// assert_eq!(rules.may_subscribe(eve, "#"), Covers::Some);
/// assert_eq!(rules.may_subscribe(eve, "weather/#"), Covers::None);
/// ```
///
/// What no line allows is refused, and `deny` is stronger than any line that allows. A client chooses its
/// identifier itself: a `client` section, and `%c`, say little unless a client's identifier is checked
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub(crate) anonymous: Vec<Rule>,
    pub(crate) users: HashMap<String, Vec<Rule>>,
    pub(crate) clients: HashMap<String, Vec<Rule>>,
    pub(crate) everybody: Vec<Rule>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) access: Access,
    pub(crate) pattern: Pattern,
}

/// What a line says of its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    ReadWrite,
    Deny,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// The user, whose password or certificate was looked at; none for those who came without.
    pub user: Option<&'a str>,
    /// The client's identifier.
    pub client: &'a str,
}

/// How much of what a filter matches somebody may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// All: nothing needs to be looked at when messages come.
    All,
    /// Some, perhaps: [`Rules::may_receive`] is to be asked for each message.
    Some,
    /// Nothing: the subscription is refused.
    None,
}

impl Rules {
    /// Reads an access list from a file. May block.
    ///
    /// # Errors
    /// [`FileError`] names lines and columns, and says what was expected there.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io("read", path))?;
        Self::parse(&text).map_err(|wrong| FileError::Wrong { path: path.into(), wrong })
    }

    /// Reads an access list.
    ///
    /// # Errors
    /// All that is wrong with it, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<Wrong>> {
        reading::parse(text)
    }

    /// Whether a message may be published to a topic.
    pub fn may_publish(&self, who: Who<'_>, topic: &str) -> bool {
        self.allows(who, topic, |access| matches!(access, Access::Write | Access::ReadWrite))
    }

    /// Whether a topic's messages may be received.
    pub fn may_receive(&self, who: Who<'_>, topic: &str) -> bool {
        self.allows(who, topic, |access| matches!(access, Access::Read | Access::ReadWrite))
    }

    /// How much of what `filter` matches may be received. For a shared subscription, the filter is what stands
    /// behind the group's name.
    pub fn may_subscribe(&self, who: Who<'_>, filter: &str) -> Covers {
        let (mut all, mut some, mut denied) = (false, false, false);
        for rule in self.of(who) {
            match rule.access {
                Access::Write => (),
                Access::Deny => {
                    if rule.pattern.covers(filter, who) {
                        return Covers::None;
                    }
                    denied = denied || rule.pattern.meets(filter, who);
                }
                Access::Read | Access::ReadWrite => {
                    all = all || rule.pattern.covers(filter, who);
                    some = some || rule.pattern.meets(filter, who);
                }
            }
        }
        match () {
            () if all && !denied => Covers::All,
            () if all || some => Covers::Some,
            () => Covers::None,
        }
    }

    fn allows(&self, who: Who<'_>, topic: &str, wanted: fn(Access) -> bool) -> bool {
        let mut allowed = false;
        for rule in self.of(who) {
            let counts = rule.access == Access::Deny || !allowed && wanted(rule.access);
            if counts && rule.pattern.fits(topic, who) {
                if rule.access == Access::Deny {
                    return false;
                }
                allowed = true;
            }
        }
        allowed
    }

    /// The lines for somebody.
    fn of(&self, who: Who<'_>) -> impl Iterator<Item = &Rule> {
        let own = match who.user {
            Some(user) => self.users.get(user),
            None => Some(&self.anonymous),
        };
        let client = self.clients.get(who.client);
        own.into_iter().chain(client).chain([&self.everybody]).flatten()
    }
}
