//! Access lists.

use std::collections::HashMap;

use crate::pattern::Pattern;
use crate::subject::Subject;

/// An access list: the topics that clients may publish to and receive.
///
/// The syntax is that of mosquitto's `acl_file`, with additional `client` sections:
///
/// ```
/// use phalanx_access::{Coverage, Rules, Subject};
///
/// let rules = Rules::parse("\
/// ## Before any section: anonymous clients.
/// topic read weather/#
///
/// user eve
/// topic readwrite garden/#
/// topic deny garden/snake/#
///
/// ## Any user with this client identifier.
/// client meter-7
/// topic write meters/7
///
/// ## For everybody; %u is the user name and %c the client identifier.
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
/// Access that no line allows is refused, and `deny` takes precedence over lines that allow. Clients choose
/// their identifiers, so `client` sections and `%c` give little protection unless the identifiers are
/// verified.
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

/// The access that a line allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    ReadWrite,
    Deny,
}

/// Which messages of a subscription may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All messages, without a check for each.
    All,
    /// Possibly some: [`Rules::may_receive`] has to check each message.
    Some,
    /// None: the subscription is refused.
    None,
}

impl Rules {
    /// Whether the client may publish to `topic`.
    pub fn may_publish(&self, subject: Subject<'_>, topic: &str) -> bool {
        self.allows(subject, topic, |access| matches!(access, Access::Write | Access::ReadWrite))
    }

    /// Whether the client may receive messages of `topic`.
    pub fn may_receive(&self, subject: Subject<'_>, topic: &str) -> bool {
        self.allows(subject, topic, |access| matches!(access, Access::Read | Access::ReadWrite))
    }

    /// Which messages matched by `filter` the client may receive. For a shared subscription, `filter` is the
    /// part after the group name.
    pub fn may_subscribe(&self, subject: Subject<'_>, filter: &str) -> Coverage {
        let (mut fully, mut partly, mut denied) = (false, false, false);
        for rule in self.of(subject) {
            match rule.access {
                Access::Write => (),
                Access::Deny => {
                    if rule.pattern.covers(filter, subject) {
                        return Coverage::None;
                    }
                    denied = denied || rule.pattern.overlaps(filter, subject);
                }
                Access::Read | Access::ReadWrite => {
                    fully = fully || rule.pattern.covers(filter, subject);
                    partly = partly || rule.pattern.overlaps(filter, subject);
                }
            }
        }
        match () {
            () if fully && !denied => Coverage::All,
            () if fully || partly => Coverage::Some,
            () => Coverage::None,
        }
    }

    fn allows(&self, subject: Subject<'_>, topic: &str, grants: fn(Access) -> bool) -> bool {
        let mut allowed = false;
        for rule in self.of(subject) {
            let is_relevant = rule.access == Access::Deny || !allowed && grants(rule.access);
            if is_relevant && rule.pattern.matches(topic, subject) {
                if rule.access == Access::Deny {
                    return false;
                }
                allowed = true;
            }
        }
        allowed
    }

    /// The lines that apply to a client.
    fn of(&self, subject: Subject<'_>) -> impl Iterator<Item = &Rule> {
        let own_rules = match subject.user {
            Some(user) => self.users.get(user),
            None => Some(&self.anonymous),
        };
        let client = self.clients.get(subject.client);
        own_rules.into_iter().chain(client).chain([&self.everybody]).flatten()
    }
}
