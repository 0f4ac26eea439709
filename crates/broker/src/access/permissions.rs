//! Access to topics that the service of `auth-http.access-url` decides, in addition to the access list.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use phalanx::time::now;
use phalanx_access::{Action, Permission, Permissions};

use crate::access::{Identity, Policy, Verifiers};

/// Topics whose decisions a connection keeps. Beyond, it forgets all of them.
const MAX_TOPICS: usize = 128;

/// The decision of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Denied,
    /// The service did not answer in time, or not as expected.
    Undecided,
}

impl Policy {
    /// The service that decides about the topics of a client, if there is one. Bridges and nodes are not restricted.
    #[inline]
    pub(crate) fn permissions(&self, identity: &Identity) -> Option<&Permissions> {
        self.permissions.as_ref().filter(|_| !identity.is_internal())
    }

    /// Asks the service about a topic or a filter; without a service everything is allowed.
    pub(crate) async fn decide(
        &self,
        verifiers: &Verifiers,
        (identity, address): (&Identity, Option<IpAddr>),
        (action, topic): (Action, &str),
    ) -> Verdict {
        let Some(permissions) = self.permissions(identity) else { return Verdict::Allowed };
        let (user, client_id) = (identity.user.as_deref(), &*identity.client);
        let permission = Permission { user, client_id, address, action, topic };
        match permissions.ask(permission, &verifiers.callouts).await {
            Ok(true) => Verdict::Allowed,
            Ok(false) => Verdict::Denied,
            Err(_) => Verdict::Undecided,
        }
    }
}

/// Decisions about the topics to which a connection publishes, so that most messages take no lock.
#[derive(Default)]
pub(crate) struct KnownTopics {
    /// The policy that they are of.
    generation: u32,
    topics: HashMap<Box<str>, (bool, Duration), foldhash::fast::RandomState>,
}

impl KnownTopics {
    /// A decision that is still valid.
    pub(crate) fn get(&self, policy: &Policy, topic: &str) -> Option<Verdict> {
        let (allowed, end) = self.topics.get(topic)?;
        let is_valid = self.generation == policy.generation && now() < *end;
        is_valid.then_some(if *allowed { Verdict::Allowed } else { Verdict::Denied })
    }

    /// Keeps a decision, unless there is none.
    pub(crate) fn keep(&mut self, policy: &Policy, topic: &str, verdict: Verdict) {
        let Some(permissions) = &policy.permissions else { return };
        if self.generation != policy.generation || self.topics.len() >= MAX_TOPICS {
            self.topics.clear();
            self.generation = policy.generation;
        }
        if verdict != Verdict::Undecided {
            let allowed = verdict == Verdict::Allowed;
            let end = now() + permissions.lifetime(allowed);
            self.topics.insert(topic.into(), (allowed, end));
        }
    }
}
