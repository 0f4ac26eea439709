//! Topic aliases in both directions of a link.

use std::collections::HashMap;

use crate::model::topic_aliases::may_have_alias;

/// The aliases that the remote broker defines.
#[derive(Debug, Default)]
pub(super) struct IncomingAliases {
    topics: Vec<Option<Box<str>>>,
    max: usize,
}

impl IncomingAliases {
    /// Creates the aliases of a remote broker that may define aliases up to `max`.
    pub(super) fn new(max: u16) -> Self {
        Self { topics: Vec::new(), max: max.into() }
    }

    /// Resolves the topic of a message from its topic, which may be empty, and its alias. `None` if the alias is invalid
    /// or undefined.
    pub(super) fn resolve<'a>(&'a mut self, topic: &'a str, alias: u16) -> Option<&'a str> {
        let index = usize::from(alias).checked_sub(1).filter(|index| *index < self.max)?;
        if self.topics.len() <= index {
            self.topics.resize(index + 1, None);
        }
        let known = &mut self.topics[index];
        if !topic.is_empty() {
            *known = Some(topic.into());
        }
        known.as_deref()
    }
}

/// The aliases that this broker defines. The first topics get aliases.
#[derive(Debug, Default)]
pub(super) struct OutgoingAliases {
    topics: HashMap<String, u16>,
    /// The size of the topics in bytes. It is limited, because the remote broker may limit it, as this one does.
    bytes: usize,
    max: u16,
}

impl OutgoingAliases {
    /// Creates the aliases for a remote broker that accepts aliases up to `max`.
    pub(super) fn new(max: u16) -> Self {
        Self { topics: HashMap::new(), bytes: 0, max }
    }

    /// The alias of a topic, and whether the remote broker does not know it yet.
    pub(super) fn assign(&mut self, topic: &str) -> Option<(u16, bool)> {
        if let Some(alias) = self.topics.get(topic) {
            return Some((*alias, false));
        }
        let alias = u16::try_from(self.topics.len()).ok().filter(|count| *count < self.max)? + 1;
        if !may_have_alias(self.max, self.bytes + topic.len()) {
            return None;
        }
        self.topics.insert(topic.to_owned(), alias);
        self.bytes += topic.len();
        Some((alias, true))
    }

    /// Forgets the last assigned alias, because its message was not sent.
    pub(super) fn forget(&mut self, topic: &str) {
        if self.topics.remove(topic).is_some() {
            self.bytes -= topic.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_defined_and_used() {
        let mut incoming = IncomingAliases::new(2);
        assert_eq!(incoming.resolve("", 1), None, "undefined");
        assert_eq!(incoming.resolve("a", 2), Some("a"));
        assert_eq!(incoming.resolve("", 2), Some("a"));
        assert_eq!(incoming.resolve("b", 2), Some("b"));
        assert_eq!(incoming.resolve("c", 3), None);
        assert_eq!(incoming.resolve("c", 0), None);
        let mut outgoing = OutgoingAliases::new(2);
        assert_eq!(
            (outgoing.assign("a"), outgoing.assign("a")),
            (Some((1, true)), Some((1, false)))
        );
        assert_eq!(outgoing.assign("b"), Some((2, true)));
        assert_eq!(outgoing.assign("c"), None);
        outgoing.forget("b");
        assert_eq!(outgoing.assign("c"), Some((2, true)));
        assert_eq!(OutgoingAliases::new(0).assign("a"), None);
    }

    #[test]
    fn long_topics_have_few_aliases() {
        let mut outgoing = OutgoingAliases::new(100);
        let long = |n: u8| format!("{n}{}", "x".repeat(60_000));
        assert_eq!([outgoing.assign(&long(1)), outgoing.assign(&long(2))], [Some((1, true)), None]);
        outgoing.forget(&long(1));
        assert_eq!(outgoing.assign(&long(2)), Some((1, true)));
    }
}
