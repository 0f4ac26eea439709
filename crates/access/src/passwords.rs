//! The stage that verifies passwords: tens of milliseconds each, on threads of its own, in the order of
//! [`Logins`].

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::blocking::{BlockingError, BlockingStage, blocking};
use phalanx::stage::Handles;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Graph, select, timeout};
use phalanx_guard::{Login, Logins, Refusal, network};

use crate::memory_pool::MemoryPool;
use crate::users::Users;

/// Passwords verified concurrently; each takes 19 MiB of memory.
const THREADS: usize = 2;

/// Longest wait for the result of a check. Clients give up later, and do better to try again: the newest logins come
/// first.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Each waiting login has a waiting call; [`Logins`] limits them.
const QUEUE: usize = 4096;

/// A handle to the stage `passwords`. Clones are equivalent.
#[derive(Clone, Handles)]
pub struct Passwords {
    stage: BlockingStage<()>,
    #[handles(skip)]
    queue: Arc<LoginQueue>,
}

/// The credentials of a login.
#[derive(Clone)]
pub struct Attempt {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: Vec<u8>,
    /// The client's address as a key: see [`phalanx_guard::client`].
    pub client: u64,
}

#[derive(Default)]
struct LoginQueue {
    logins: Logins<Job>,
    keys: RandomState,
    pool: MemoryPool,
    /// The latest time of a login in nanoseconds: threads have no access to the program's clock.
    latest: AtomicU64,
}

/// A waiting login.
struct Job {
    users: Arc<Users>,
    attempt: Attempt,
    reply: oneshot::Sender<Result<bool, Refusal>>,
}

impl Passwords {
    /// Declares the stage.
    pub fn declare(graph: &mut Graph) -> Self {
        let stage = blocking(graph, "passwords").threads(THREADS).queue(QUEUE).state(());
        Self { stage, queue: Arc::default() }
    }

    /// Verifies a user's password, without blocking the processor, within 10 s.
    ///
    /// # Errors
    /// The reason why it was not verified: the client should try again later.
    pub async fn verify(&self, users: &Arc<Users>, attempt: Attempt) -> Result<bool, Refusal> {
        let (reply, answer) = oneshot::shared();
        let (at, login) = (now(), self.queue.login(&attempt));
        let job = Job { users: users.clone(), attempt, reply };
        self.queue.latest.fetch_max(at.as_nanos() as u64, Ordering::Relaxed);
        refuse(self.queue.logins.enter(login, job, at));
        // The check of a login that nobody awaits any more is skipped.
        timeout(MAX_WAIT, self.answer(answer)).await.unwrap_or(Err(Refusal::Busy))
    }

    /// Verifies passwords until there is an answer.
    async fn answer(
        &self,
        answer: oneshot::Receiver<Result<bool, Refusal>>,
    ) -> Result<bool, Refusal> {
        let mut answer = pin!(answer);
        // There are as many calls as waiting logins; each verifies whichever login is next.
        loop {
            let queue = self.queue.clone();
            let look = self.stage.call(move |()| queue.verify_next());
            match select(answer.as_mut(), look).await {
                Either::Left(answer) => return answer.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Ok(true) | Err(BlockingError::Panicked { .. })) => (),
                // Another call verifies the login, since none is waiting.
                Either::Right(Ok(false)) => return answer.await.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Err(_)) => return Err(Refusal::Busy),
            }
        }
    }

    /// Judges a login whose proof was verified elsewhere, in microseconds: it does not wait, and lockouts apply as
    /// to [`verify`](Self::verify). The password in `attempt` may be any secret that only the right password produces.
    ///
    /// # Errors
    /// [`Refusal::LockedOut`].
    pub fn judge(&self, attempt: &Attempt, is_right: bool) -> Result<bool, Refusal> {
        let (login, at) = (self.queue.login(attempt), now());
        self.queue.latest.fetch_max(at.as_nanos() as u64, Ordering::Relaxed);
        let (judged, refused) = self.queue.logins.judge(login, is_right, at);
        refuse(refused);
        judged.map(|()| is_right)
    }
}

impl LoginQueue {
    fn login(&self, Attempt { name, password, client }: &Attempt) -> Login {
        Login {
            network: self.keys.hash_one(("network", network(*client))),
            client: self.keys.hash_one(client),
            pair: self.keys.hash_one((client, name)),
            secret: self.keys.hash_one((client, name, password)),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// Verifies one password. Returns whether one was waiting. Runs on a blocking thread.
    fn verify_next(&self) -> bool {
        while let Some((login, job)) = self.logins.next(self.now()) {
            let Job { users, attempt, reply } = job;
            // The client has disconnected.
            if reply.is_closed() {
                continue;
            }
            let mut memory = self.pool.take();
            let is_right = users.verify_in(&attempt.name, &attempt.password, &mut memory);
            self.pool.give_back(memory, !self.logins.is_empty());
            refuse(self.logins.record_result(login, is_right, self.now()));
            reply.send(Ok(is_right));
            return true;
        }
        false
    }
}

fn refuse(refused: Vec<(Job, Refusal)>) {
    refused.into_iter().for_each(|(job, why)| job.reply.send(Err(why)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that finds no login must not be repeated until another thread has verified the last one.
    #[test]
    fn a_login_is_verified_once() {
        let queue = LoginQueue::default();
        // Mosquitto's salted SHA-512, which takes microseconds.
        let users = format!("eve:$6$c2FsdA==${}==\n", "A".repeat(86));
        let users = Arc::new(Users::parse(&users).unwrap());
        let attempt = Attempt { name: "eve".into(), password: b"pear".into(), client: 1 };
        assert!(!queue.verify_next(), "none is waiting");
        let mut answers = Vec::new();
        for is_awaited in [false, true] {
            let (reply, answer) = oneshot::shared();
            answers.extend(is_awaited.then_some(answer));
            let login = queue.login(&attempt);
            let job = Job { users: users.clone(), attempt: attempt.clone(), reply };
            assert!(queue.logins.enter(login, job, Duration::ZERO).is_empty());
        }
        assert!(queue.verify_next() && !queue.verify_next());
    }
}
