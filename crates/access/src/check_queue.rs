//! Password checks, which take tens of milliseconds each, on separate threads, in the fair order of [`Logins`].

use std::hash::{BuildHasher, Hash, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::blocking::{BlockingError, BlockingStage, blocking};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Graph, select, timeout};
use phalanx_guard::{Login, Logins, Refusal, network};

/// Checks that run concurrently; one of Argon2id takes 19 MiB of memory.
const THREADS: usize = 2;

/// Longest wait for the result of a check. Most clients would wait longer, but the newest logins are checked first, so
/// it is better to try again.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Each waiting check has a waiting call; [`Logins`] limits them.
const QUEUE: usize = 4096;

/// A check of a password.
pub trait Check: Send + Sized + 'static {
    /// Whether the password is right. Runs on a blocking thread.
    fn check(self, queue: &CheckQueue<Self>) -> bool;
}

/// The checks that wait for a thread. Wrong passwords of one client delay checks of others only slightly, and a client
/// that guesses is locked out for a while.
pub struct CheckQueue<C> {
    logins: Logins<Job<C>>,
    keys: RandomState,
    /// The latest time of a login in nanoseconds, because threads have no access to the program's clock.
    latest: AtomicU64,
}

/// A check that waits.
struct Job<C> {
    check: C,
    reply: oneshot::Sender<Result<bool, Refusal>>,
}

/// Declares the stage `passwords`, which runs the checks of a [`CheckQueue`].
pub fn declare_checks(graph: &mut Graph) -> BlockingStage<()> {
    blocking(graph, "passwords").threads(THREADS).queue(QUEUE).state(())
}

impl<C> Default for CheckQueue<C> {
    fn default() -> Self {
        Self { logins: Logins::default(), keys: RandomState::new(), latest: AtomicU64::new(0) }
    }
}

impl<C: Check> CheckQueue<C> {
    /// The login of `user` with `secret` from an address, given as [`phalanx_guard::client`] returns it.
    pub fn login(&self, client: u64, user: impl Hash, secret: impl Hash) -> Login {
        Login {
            network: self.keys.hash_one(("network", network(client))),
            client: self.keys.hash_one(client),
            pair: self.keys.hash_one((client, &user)),
            secret: self.keys.hash_one((client, &user, secret)),
        }
    }

    /// Whether the password is right, without blocking the processor, within 10 s.
    ///
    /// # Errors
    /// The reason why it was not checked: the client should try again later.
    pub async fn verify(
        self: &Arc<Self>,
        stage: BlockingStage<()>,
        login: Login,
        check: C,
    ) -> Result<bool, Refusal> {
        let (reply, answer) = oneshot::shared();
        refuse(self.logins.enqueue(login, Job { check, reply }, self.advance()));
        // A check whose result is no longer awaited is skipped.
        timeout(MAX_WAIT, self.answer(stage, answer)).await.unwrap_or(Err(Refusal::Busy))
    }

    /// Runs checks until there is an answer.
    async fn answer(
        self: &Arc<Self>,
        stage: BlockingStage<()>,
        answer: oneshot::Receiver<Result<bool, Refusal>>,
    ) -> Result<bool, Refusal> {
        let mut answer = pin!(answer);
        // There are as many calls as waiting checks; each call runs the next check in the queue.
        loop {
            let queue = self.clone();
            let check = stage.call(move |()| queue.check_next());
            match select(answer.as_mut(), check).await {
                Either::Left(answer) => return answer.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Ok(true) | Err(BlockingError::Panicked { .. })) => (),
                // No check is waiting, so another call runs this one.
                Either::Right(Ok(false)) => {
                    return answer.await.unwrap_or(Err(Refusal::Busy));
                }
                Either::Right(Err(_)) => return Err(Refusal::Busy),
            }
        }
    }

    /// Records the result of a login whose proof was verified by the caller, in microseconds. It does not wait;
    /// lockouts apply as for [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`Refusal::LockedOut`].
    pub fn record_verified(&self, login: Login, is_valid: bool) -> Result<bool, Refusal> {
        let (recorded, refused) = self.logins.record_verified(login, is_valid, self.advance());
        refuse(refused);
        recorded.map(|()| is_valid)
    }

    /// The program's time, which is stored for the threads.
    fn advance(&self) -> Duration {
        let at = now();
        self.latest.fetch_max(at.as_nanos() as u64, Ordering::Relaxed);
        at
    }

    /// The time of the latest login.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// Whether no check waits.
    pub fn is_empty(&self) -> bool {
        self.logins.is_empty()
    }

    /// Runs one check. Returns whether one was waiting. Runs on a blocking thread.
    fn check_next(&self) -> bool {
        while let Some((login, Job { check, reply })) = self.logins.next(self.now()) {
            // The client has disconnected, or has waited for too long.
            if reply.is_closed() {
                continue;
            }
            let is_valid = check.check(self);
            refuse(self.logins.record_result(login, is_valid, self.now()));
            reply.send(Ok(is_valid));
            return true;
        }
        false
    }
}

fn refuse<C>(refused: Vec<(Job<C>, Refusal)>) {
    refused.into_iter().for_each(|(job, refusal)| job.reply.send(Err(refusal)));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct AlwaysValid;

    impl Check for AlwaysValid {
        fn check(self, _: &CheckQueue<Self>) -> bool {
            true
        }
    }

    /// A call that finds no check must not be repeated until another thread has run the last one.
    #[test]
    fn a_check_runs_once() {
        let queue = CheckQueue::<AlwaysValid>::default();
        assert!(!queue.check_next(), "none is waiting");
        let mut answers = Vec::new();
        for is_awaited in [false, true] {
            let (reply, answer) = oneshot::shared();
            answers.extend(is_awaited.then_some(answer));
            let login = queue.login(1, "eve", "pear");
            assert!(
                queue
                    .logins
                    .enqueue(login, Job { check: AlwaysValid, reply }, Duration::ZERO)
                    .is_empty()
            );
        }
        assert!(queue.check_next() && !queue.check_next());
    }
}
