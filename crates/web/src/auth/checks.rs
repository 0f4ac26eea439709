//! Password checks, on threads of their own, in the fair order of [`Logins`].
//!
//! Wrong passwords of one client therefore delay those of another by a few checks only, and a client that guesses is locked
//! out for a while.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::blocking::{BlockingError, BlockingStage};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, timeout};
use phalanx_guard::{Login, Logins, Refusal, client, network};

use crate::auth::credentials::Credentials;
use crate::auth::passwords::Passwords;

/// Longest wait for the result of a check. Clients give up later, and do better to try again: the newest address comes
/// first at every second turn.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The checks that wait.
#[derive(Default)]
pub(crate) struct PasswordChecks {
    logins: Logins<Job>,
    keys: RandomState,
    /// The latest time of a check in nanoseconds: threads have no access to the program's clock.
    latest: AtomicU64,
}

/// A check that waits.
struct Job {
    attempt: Attempt,
    reply: oneshot::Sender<Result<bool, Refusal>>,
}

/// Credentials that a client claims.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) passwords: Arc<Passwords>,
    pub(crate) credentials: Credentials,
    pub(crate) client: IpAddr,
}

impl PasswordChecks {
    /// Whether the credentials are right, within 10 s.
    ///
    /// # Errors
    /// The reason why they were not verified: the client should try again later.
    pub(crate) async fn verify(
        self: &Arc<Self>,
        stage: BlockingStage<()>,
        attempt: Attempt,
    ) -> Result<bool, Refusal> {
        let (reply, answer) = oneshot::shared();
        let (at, login) = (now(), self.login(&attempt));
        self.latest.fetch_max(at.as_nanos() as u64, Ordering::Relaxed);
        refuse(self.logins.enter(login, Job { attempt, reply }, at));
        // The check of credentials whose result nobody awaits any more is skipped.
        timeout(MAX_WAIT, self.answer(stage, answer)).await.unwrap_or(Err(Refusal::Busy))
    }

    /// Checks passwords until there is an answer.
    async fn answer(
        self: &Arc<Self>,
        stage: BlockingStage<()>,
        answer: oneshot::Receiver<Result<bool, Refusal>>,
    ) -> Result<bool, Refusal> {
        let mut answer = pin!(answer);
        // There are as many calls as waiting checks; each makes whichever is next.
        loop {
            let checks = self.clone();
            let look = stage.call(move |()| checks.verify_next());
            match select(answer.as_mut(), look).await {
                Either::Left(answer) => return answer.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Ok(true) | Err(BlockingError::Panicked { .. })) => (),
                // Another call makes the check, since none is waiting.
                Either::Right(Ok(false)) => return answer.await.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Err(_)) => return Err(Refusal::Busy),
            }
        }
    }

    fn login(&self, Attempt { passwords, credentials, client: address }: &Attempt) -> Login {
        let (client, file) = (client(*address), Arc::as_ptr(passwords).addr());
        Login {
            network: self.keys.hash_one(("network", network(client))),
            client: self.keys.hash_one(client),
            pair: self.keys.hash_one((client, file, credentials.name())),
            secret: self.keys.hash_one((client, file, credentials.as_bytes())),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// Checks one password. Returns whether one was waiting. Runs on a blocking thread.
    fn verify_next(&self) -> bool {
        while let Some((login, Job { attempt, reply })) = self.logins.next(self.now()) {
            // The client has disconnected, or has waited for too long.
            if reply.is_closed() {
                continue;
            }
            let is_right = attempt.passwords.verify(&attempt.credentials, self.now());
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
    use phalanx_access::Htpasswd;

    use super::*;

    /// A call that finds no check to make must not be repeated until another thread has made the last one.
    #[test]
    fn a_check_is_made_once() {
        let (checks, address) = (PasswordChecks::default(), [192, 0, 2, 1].into());
        // The password is "b".
        let line = "a:$2y$04$L4Fh0NN61XBvJ/sHDckBXuvFs1DAFBy9t0CWc1Vw4tbStH0R7hkIq";
        let users = Htpasswd::parse(line.as_bytes()).ok().unwrap();
        let passwords = Arc::new(Passwords::new(users));
        let credentials = Credentials::parse(b"Basic YTpi").unwrap();
        let attempt = Attempt { passwords, credentials, client: address };
        assert!(!checks.verify_next(), "none is waiting");
        let mut answers = Vec::new();
        for is_awaited in [false, true] {
            let (reply, answer) = oneshot::shared();
            answers.extend(is_awaited.then_some(answer));
            let login = checks.login(&attempt);
            let job = Job { attempt: attempt.clone(), reply };
            assert!(checks.logins.enter(login, job, Duration::ZERO).is_empty());
        }
        assert!(checks.verify_next() && !checks.verify_next());
    }
}
