//! An access list, and what it allows.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{FileError, LineError};
use crate::parse;
use crate::pattern::Pattern;
use crate::subject::Subject;

/// An access list: who may publish and receive what.
///
/// Its lines are those of mosquitto's `acl_file`, and `client` sections beside them:
///
/// ```
/// use phalanx_access::{Coverage, Rules, Subject};
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
/// let eve = Subject { user: Some("eve"), client: "c1" };
/// assert!(rules.may_publish(eve, "garden/tree") && !rules.may_publish(eve, "garden/snake/says"));
/// assert!(rules.may_receive(eve, "inbox/eve/new") && !rules.may_receive(eve, "inbox/adam/new"));
/// assert_eq!(rules.may_subscribe(eve, "inbox/eve/#"), Coverage::All);
/// assert_eq!(rules.may_subscribe(eve, "#"), Coverage::Some);
/// assert_eq!(rules.may_subscribe(eve, "weather/#"), Coverage::None);
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

/// How much of what a filter matches somebody may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
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
        Self::parse(&text).map_err(|wrong| FileError::Invalid { path: path.into(), errors: wrong })
    }

    /// Reads an access list.
    ///
    /// # Errors
    /// All that is wrong with it, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<LineError>> {
        parse::parse(text)
    }

    /// Whether a message may be published to a topic.
    pub fn may_publish(&self, subject: Subject<'_>, topic: &str) -> bool {
        self.allows(subject, topic, |access| matches!(access, Access::Write | Access::ReadWrite))
    }

    /// Whether a topic's messages may be received.
    pub fn may_receive(&self, subject: Subject<'_>, topic: &str) -> bool {
        self.allows(subject, topic, |access| matches!(access, Access::Read | Access::ReadWrite))
    }

    /// How much of what `filter` matches may be received. For a shared subscription, the filter is what stands
    /// behind the group's name.
    pub fn may_subscribe(&self, subject: Subject<'_>, filter: &str) -> Coverage {
        let (mut all, mut some, mut denied) = (false, false, false);
        for rule in self.of(subject) {
            match rule.access {
                Access::Write => (),
                Access::Deny => {
                    if rule.pattern.covers(filter, subject) {
                        return Coverage::None;
                    }
                    denied = denied || rule.pattern.meets(filter, subject);
                }
                Access::Read | Access::ReadWrite => {
                    all = all || rule.pattern.covers(filter, subject);
                    some = some || rule.pattern.meets(filter, subject);
                }
            }
        }
        match () {
            () if all && !denied => Coverage::All,
            () if all || some => Coverage::Some,
            () => Coverage::None,
        }
    }

    fn allows(&self, subject: Subject<'_>, topic: &str, wanted: fn(Access) -> bool) -> bool {
        let mut allowed = false;
        for rule in self.of(subject) {
            let counts = rule.access == Access::Deny || !allowed && wanted(rule.access);
            if counts && rule.pattern.fits(topic, subject) {
                if rule.access == Access::Deny {
                    return false;
                }
                allowed = true;
            }
        }
        allowed
    }

    /// The lines for somebody.
    fn of(&self, subject: Subject<'_>) -> impl Iterator<Item = &Rule> {
        let own = match subject.user {
            Some(user) => self.users.get(user),
            None => Some(&self.anonymous),
        };
        let client = self.clients.get(subject.client);
        own.into_iter().chain(client).chain([&self.everybody]).flatten()
    }
}
