//! Decisions of the service at `auth-http.access-url` about topics, in addition to the access list.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use phalanx::time::now;
use phalanx_access::{Action, Permission, Permissions};

use crate::access::{Identity, Policy, Verifiers};

/// Maximum number of topics whose decisions a connection caches. When it is exceeded, the connection forgets all of them.
const MAX_TOPICS: usize = 128;

/// Maximum length of such a topic, in bytes. Decisions about longer topics are cached only in the cache that all
/// connections share.
const MAX_TOPIC_BYTES: usize = 512;

/// The decision of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Denied,
    /// The service did not answer in time, or gave an unexpected answer.
    Undecided,
}

impl Policy {
    /// The service that decides about the topics of a client, if there is one. Bridges and nodes are not restricted.
    #[inline]
    pub(crate) fn permissions(&self, identity: &Identity) -> Option<&Permissions> {
        self.permissions.as_ref().filter(|_| !identity.is_internal())
    }

    /// Asks the service about a topic or a filter. Without a service everything is allowed. Also returns the time until
    /// which the decision may be cached.
    pub(crate) async fn decide(
        &self,
        verifiers: &Verifiers,
        (identity, address): (&Identity, Option<IpAddr>),
        (action, topic): (Action, &str),
    ) -> (Verdict, Duration) {
        let Some(permissions) = self.permissions(identity) else {
            return (Verdict::Allowed, Duration::ZERO);
        };
        let (user, client_id) = (identity.user.as_deref(), &*identity.client);
        let permission = Permission { user, client_id, address, action, topic };
        match permissions.ask(permission, &verifiers.callouts).await {
            Ok((true, end)) => (Verdict::Allowed, end),
            Ok((false, end)) => (Verdict::Denied, end),
            Err(_) => (Verdict::Undecided, Duration::ZERO),
        }
    }
}

/// Cached decisions about the topics to which a connection publishes, so that most messages take no lock.
#[derive(Default)]
pub(crate) struct KnownTopics {
    /// The generation of the policy to which the decisions belong.
    generation: u32,
    topics: HashMap<Box<str>, (Verdict, Duration), foldhash::fast::RandomState>,
}

impl KnownTopics {
    /// A decision that is still valid.
    pub(crate) fn get(&self, policy: &Policy, topic: &str) -> Option<Verdict> {
        let (verdict, end) = self.topics.get(topic)?;
        (self.generation == policy.generation && now() < *end).then_some(*verdict)
    }

    /// Keeps a decision until its end.
    pub(crate) fn keep(
        &mut self,
        policy: &Policy,
        topic: &str,
        (verdict, end): (Verdict, Duration),
    ) {
        if now() >= end || topic.len() > MAX_TOPIC_BYTES {
            return;
        }
        if self.generation != policy.generation || self.topics.len() >= MAX_TOPICS {
            self.topics.clear();
            self.generation = policy.generation;
        }
        self.topics.insert(topic.into(), (verdict, end));
    }
}

#[cfg(test)]
mod tests {
    use phalanx::{sim, sleep};

    use super::*;
    use crate::config::Config;

    #[test]
    fn decisions_end_with_the_answer_and_the_policy() {
        let policies = [1, 2].map(|n| Policy::read(&Config::new(), (n, None)).unwrap());
        let test = move |()| async move {
            let ([policy, next], mut known) = (policies, KnownTopics::default());
            let (end, long) = (now() + Duration::from_secs(5), "x".repeat(MAX_TOPIC_BYTES + 1));
            known.keep(&policy, "a", (Verdict::Allowed, end));
            known.keep(&policy, "b", (Verdict::Denied, end));
            known.keep(&policy, "c", (Verdict::Undecided, Duration::ZERO));
            known.keep(&policy, &long, (Verdict::Allowed, end));
            let found = ["a", "b", "c", &long].map(|topic| known.get(&policy, topic));
            assert_eq!(found, [Some(Verdict::Allowed), Some(Verdict::Denied), None, None]);
            assert_eq!(known.get(&next, "a"), None);
            sleep(Duration::from_secs(5)).await;
            assert_eq!(known.get(&policy, "a"), None);
            for topic in 0..=MAX_TOPICS {
                known.keep(&policy, &topic.to_string(), (Verdict::Allowed, Duration::MAX));
            }
            assert!(known.topics.len() < 10, "the oldest are forgotten");
        };
        sim::block_on(0, None, |_| (), test);
    }
}
