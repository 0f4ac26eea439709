//! Maps topics between this broker and the remote one.

use phalanx_mqtt::{QoS, Reason, SubAck, topic};

use crate::config::BridgeTopic;

/// The forwarded topics of a bridge, in the order of the configuration. The first match counts.
#[derive(Clone, Debug)]
pub(crate) struct TopicMap(Vec<Forwarded>);

/// Topics that are forwarded, with the filters of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Forwarded {
    pub(crate) topic: BridgeTopic,
    pub(crate) qos: QoS,
    pub(crate) local: String,
    pub(crate) remote: String,
}

impl TopicMap {
    pub(crate) fn new(topics: &[BridgeTopic]) -> Self {
        let forwarded = |topic: &BridgeTopic| {
            let qos = match topic.qos {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            };
            Forwarded { topic: topic.clone(), qos, local: topic.local(), remote: topic.remote() }
        };
        Self(topics.iter().map(forwarded).collect())
    }

    /// Topics forwarded to the remote broker, with their subscription identifiers at this broker.
    pub(crate) fn outgoing(&self) -> impl Iterator<Item = (u32, &Forwarded)> {
        let out =
            self.0.iter().enumerate().filter(|(_, forwarded)| forwarded.topic.direction.is_out());
        out.map(|(index, forwarded)| (index as u32 + 1, forwarded))
    }

    /// Topics forwarded from the remote broker.
    pub(crate) fn incoming(&self) -> impl Iterator<Item = &Forwarded> {
        self.0.iter().filter(|forwarded| forwarded.topic.direction.is_in())
    }

    /// Checks the answer of the remote broker to the subscriptions.
    ///
    /// # Errors
    /// A description of the first subscription that was refused.
    pub(crate) fn check(&self, ack: &SubAck<'_>) -> Result<(), String> {
        let refused = self.incoming().zip(ack.reasons);
        let mut refused = refused.map(|(forwarded, reason)| (forwarded, Reason(*reason)));
        match refused.find(|(_, reason)| reason.is_failure()) {
            Some((own, reason)) => {
                Err(format!("the subscription to {:?} was refused: {reason}", own.remote))
            }
            None => Ok(()),
        }
    }

    /// The remote topic of a message at this broker that was received for the subscriptions `ids`. Only these identifiers
    /// show which content filter the message has passed.
    pub(crate) fn to_remote(
        &self,
        topic: &str,
        ids: impl Iterator<Item = u32> + Clone,
    ) -> Option<String> {
        let matching =
            || self.outgoing().filter(|(_, forwarded)| topic::matches(&forwarded.local, topic));
        let subscribed = matching().find(|(id, _)| ids.clone().any(|other| other == *id));
        // A message that was queued before the configuration changed may have outdated identifiers.
        let (_, own) = subscribed.or_else(|| matching().next())?;
        replace_prefix(topic, &own.topic.local_prefix, &own.topic.remote_prefix)
    }

    /// The local topic of a message at the remote broker.
    pub(crate) fn to_local(&self, topic: &str) -> Option<String> {
        let own = self.incoming().find(|forwarded| topic::matches(&forwarded.remote, topic))?;
        replace_prefix(topic, &own.topic.remote_prefix, &own.topic.local_prefix)
    }

    /// Maximum number of bytes by which a topic grows on the way to the remote broker.
    pub(crate) fn growth_to_remote(&self) -> usize {
        let growth_of = |forwarded: &Forwarded| {
            growth(&forwarded.topic.local_prefix, &forwarded.topic.remote_prefix)
        };
        self.outgoing().map(|(_, forwarded)| growth_of(forwarded)).max().unwrap_or(0)
    }

    /// Maximum number of bytes by which a topic grows on the way from the remote broker.
    pub(crate) fn growth_to_local(&self) -> usize {
        let growth_of = |forwarded: &Forwarded| {
            growth(&forwarded.topic.remote_prefix, &forwarded.topic.local_prefix)
        };
        self.incoming().map(growth_of).max().unwrap_or(0)
    }
}

/// Replaces the prefix `from` with `to`.
fn replace_prefix(topic: &str, from: &str, to: &str) -> Option<String> {
    Some(format!("{to}{}", topic.strip_prefix(from)?))
}

/// Bytes by which the prefix `to` is longer than `from`.
fn growth(from: &str, to: &str) -> usize {
    to.len().saturating_sub(from.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Direction;

    fn topic(pattern: &str, direction: Direction, local: &str, remote: &str) -> BridgeTopic {
        let (local_prefix, remote_prefix) = (local.to_owned(), remote.to_owned());
        let pattern = pattern.to_owned();
        BridgeTopic { pattern, direction, local_prefix, remote_prefix, ..BridgeTopic::default() }
    }

    #[test]
    fn prefixes_are_exchanged() {
        let map = TopicMap::new(&[
            topic("#", Direction::Out, "site/", "all/1/"),
            topic("+/set", Direction::In, "", "all/1/"),
            topic("", Direction::Both, "here", "there/exactly"),
            topic("#", Direction::In, "rest/", ""),
        ]);
        let remote = |topic, id| map.to_remote(topic, [id].into_iter());
        assert_eq!(remote("site/a/b", 1).as_deref(), Some("all/1/a/b"));
        assert_eq!(remote("here", 3).as_deref(), Some("there/exactly"));
        assert_eq!(remote("here", 9).as_deref(), Some("there/exactly"), "an identifier of before");
        // Another direction, and another topic.
        assert_eq!((remote("a/set", 2), remote("b", 1)), (None, None));
        let two = [topic("#", Direction::Out, "", "x/"), topic("#", Direction::Out, "", "y/")];
        let two = TopicMap::new(&two);
        assert_eq!(two.to_remote("a", [2].into_iter()).as_deref(), Some("y/a"));
        assert_eq!(two.to_remote("a", [2, 1].into_iter()).as_deref(), Some("x/a"));
        let local = |topic| map.to_local(topic);
        assert_eq!(local("all/1/lamp/set").as_deref(), Some("lamp/set"));
        assert_eq!(local("there/exactly").as_deref(), Some("here"));
        assert_eq!(local("x").as_deref(), Some("rest/x"));
        assert_eq!(local("$SYS/x"), None);
        assert_eq!((map.growth_to_remote(), map.growth_to_local()), (9, 5));
    }
}
