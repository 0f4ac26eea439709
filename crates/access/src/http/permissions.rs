//! Access to topics that an HTTP service decides.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::time::now;
use phalanx_guard::Refusal;

use super::answers::Answers;
use super::pool::{CallOutError, CallOutOptions, Field, Job, Pool, Queue, lock};
use super::{Endpoint, Fetcher};

/// Requests that wait, beyond those that are being sent. Each client waits for at most one.
const MAX_WAITING: usize = 2000;

/// A service that decides about access to topics. Clones share the queue, the workers and the cache.
#[derive(Clone)]
pub struct Permissions(Arc<Pool<WaitingRequests>>);

#[derive(Default)]
struct WaitingRequests {
    jobs: Mutex<VecDeque<Job>>,
    keys: RandomState,
    answers: Mutex<Answers>,
}

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Publishing to a topic.
    Publish,
    /// Subscribing to a topic filter.
    Subscribe,
}

/// Access to a topic, as sent to the service.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Permission<'a> {
    /// The user name, if the client has one.
    pub user: Option<&'a str>,
    /// The client identifier.
    pub client_id: &'a str,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The kind of access.
    pub action: Action,
    /// The topic or the topic filter.
    pub topic: &'a str,
}

impl Permissions {
    /// A service at this endpoint.
    pub fn new(endpoint: Endpoint, options: CallOutOptions) -> Self {
        Self(Pool::new(endpoint, options, WaitingRequests::default()))
    }

    /// Whether the access is allowed, and until when this answer may be cached.
    ///
    /// # Errors
    /// The reason why the service has not decided.
    pub async fn ask(
        &self,
        permission: Permission<'_>,
        fetcher: &Fetcher,
    ) -> Result<(bool, Duration), CallOutError> {
        let (pool, queue, now) = (&self.0, &self.0.queue, now());
        let answer = queue.keys.hash_one(permission);
        let known = lock(&queue.answers).get(answer, now);
        if let Some(known) = known {
            return Ok(known);
        }
        let Permission { user, client_id, address, action, topic } = permission;
        let host = address.map(|address| address.to_canonical().to_string()).unwrap_or_default();
        // `acc` is the number that mosquitto's plugins use.
        let (action, acc) = match action {
            Action::Publish => ("publish", 2),
            Action::Subscribe => ("subscribe", 4),
        };
        let fields = [
            ("username", Field::Text(user.unwrap_or_default())),
            ("clientid", Field::Text(client_id)),
            ("peerhost", Field::Text(&host)),
            ("action", Field::Text(action)),
            ("acc", Field::Number(acc)),
            ("topic", Field::Text(topic)),
        ];
        let Some(body) = pool.body(&fields) else { return Ok((false, now)) };
        let enqueue = |queue: &WaitingRequests, job: Job| {
            let mut jobs = lock(&queue.jobs);
            match jobs.len() < MAX_WAITING {
                true => jobs.push_back(job),
                false => job.reply.send(Err(CallOutError::Refused(Refusal::Busy))),
            }
        };
        let allowed = pool.ask((body, answer), fetcher, enqueue).await?;
        Ok((allowed, now + pool.options.lifetime(allowed)))
    }
}

impl Queue for WaitingRequests {
    type Tag = ();

    fn next(&self, _: Duration) -> Option<((), Job)> {
        lock(&self.jobs).pop_front().map(|job| ((), job))
    }

    fn is_empty(&self) -> bool {
        lock(&self.jobs).is_empty()
    }

    fn record_decision(&self, (): (), answer: u64, allowed: bool, options: &CallOutOptions) {
        lock(&self.answers).insert_for(answer, allowed, now(), options);
    }
}
