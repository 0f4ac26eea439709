//! Logins decided by an HTTP service. They wait in a fair queue ([`Logins`]).

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::time::now;
use phalanx_guard::{Login, Logins, Refusal, network};

use super::answers::Answers;
use super::pool::{CallOutError, CallOutOptions, Field, Job, Pool, Queue, lock};
use super::{Endpoint, Fetcher};

/// A service that decides about logins. Clones share the queue, the workers and the cache.
#[derive(Clone)]
pub struct CallOuts(Arc<Pool<WaitingLogins>>);

#[derive(Default)]
struct WaitingLogins {
    logins: Logins<Job>,
    keys: RandomState,
    answers: Mutex<Answers>,
}

/// The credentials of a login, as sent to the service.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The user name.
    pub user: &'a str,
    /// The password.
    pub password: &'a [u8],
    /// The client identifier.
    pub client_id: &'a str,
    /// Whether the broker has assigned the client identifier. It then differs at each login, so the cache ignores it.
    pub is_assigned: bool,
    /// The client's address.
    pub address: Option<IpAddr>,
}

impl CallOuts {
    /// A service at this endpoint.
    pub fn new(endpoint: Endpoint, options: CallOutOptions) -> Self {
        Self(Pool::new(endpoint, options, WaitingLogins::default()))
    }

    /// Whether a client may log in. Wrong logins cause lockouts, as with the password file. `client` is the address as
    /// a key: see [`phalanx_guard::client`].
    ///
    /// # Errors
    /// The reason why the service has not decided.
    pub async fn verify(
        &self,
        candidate: Candidate<'_>,
        client: u64,
        fetcher: &Fetcher,
    ) -> Result<bool, CallOutError> {
        let (pool, queue, at) = (&self.0, &self.0.queue, now());
        let Candidate { user, password, client_id, is_assigned, address } = candidate;
        // The request contains the password as text, so it must be UTF-8.
        let Ok(text) = str::from_utf8(password) else { return Ok(false) };
        let host = address.map(|address| address.to_canonical().to_string()).unwrap_or_default();
        let fields = [
            ("username", Field::Text(user)),
            ("password", Field::Text(text)),
            ("clientid", Field::Text(client_id)),
            ("peerhost", Field::Text(&host)),
        ];
        let Some(body) = pool.body(&fields) else { return Ok(false) };
        let client_id = Some(client_id).filter(|_| !is_assigned);
        let answer = queue.keys.hash_one((address, user, password, client_id));
        let login = Login {
            network: queue.keys.hash_one(("network", network(client))),
            client: queue.keys.hash_one(client),
            pair: queue.keys.hash_one((client, user)),
            secret: queue.keys.hash_one((client, user, password, client_id)),
        };
        let known = lock(&queue.answers).get(answer, at);
        if let Some((allowed, _)) = known {
            let (recorded, refused) = queue.logins.record_verified(login, allowed, at);
            refuse(refused);
            return recorded.map(|()| allowed).map_err(CallOutError::Refused);
        }
        let enqueue = |queue: &WaitingLogins, job| refuse(queue.logins.enqueue(login, job, at));
        pool.ask((body, answer), fetcher, enqueue).await
    }
}

impl Queue for WaitingLogins {
    type Tag = Login;

    fn next(&self, at: Duration) -> Option<(Login, Job)> {
        self.logins.next(at)
    }

    fn is_empty(&self) -> bool {
        self.logins.is_empty()
    }

    fn record_decision(&self, login: Login, answer: u64, allowed: bool, options: &CallOutOptions) {
        let at = now();
        lock(&self.answers).insert_for(answer, allowed, at, options);
        refuse(self.logins.record_result(login, allowed, at));
    }
}

fn refuse(refused: Vec<(Job, Refusal)>) {
    refused
        .into_iter()
        .for_each(|(job, refusal)| job.reply.send(Err(CallOutError::Refused(refusal))));
}
