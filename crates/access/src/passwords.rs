//! The stage that looks at passwords: tens of milliseconds each, on threads of its own, in the order of
//! [`Logins`].

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::blocking::{BlockingError, BlockingStage, blocking};
use phalanx::sync::{RemoteTrigger, remote_event};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Graph, select};
use phalanx_guard::{Login, Logins, Refusal};

use crate::memory_pool::MemoryPool;
use crate::users::Users;

/// So many passwords are looked at at once; each takes its memory (19 MiB).
const THREADS: usize = 2;

/// Each login that waits has a call that waits, and those are bounded by [`Logins`].
const QUEUE: usize = 4096;

/// A handle on the stage `passwords`. Clones are the same.
#[derive(Clone)]
pub struct Passwords {
    stage: BlockingStage<()>,
    queue: Arc<LoginQueue>,
}

/// What somebody says to log in.
#[derive(Clone)]
pub struct Attempt {
    /// The user's name.
    pub name: String,
    /// The password.
    pub password: Vec<u8>,
    /// What stands for the client's address: see [`phalanx_guard::client`].
    pub client: u64,
}

#[derive(Default)]
struct LoginQueue {
    logins: Logins<Job>,
    keys: RandomState,
    pool: MemoryPool,
    /// The newest time at which somebody has come, in nanoseconds: threads have no clock of the program.
    latest: AtomicU64,
}

/// A login that waits.
struct Job {
    users: Arc<Users>,
    attempt: Attempt,
    reply: RemoteTrigger<Result<bool, Refusal>>,
}

impl Passwords {
    /// Declares the stage.
    pub fn declare(graph: &mut Graph) -> Self {
        let stage = blocking(graph, "passwords").threads(THREADS).queue(QUEUE).state(());
        Self { stage, queue: Arc::default() }
    }

    /// Finds out whether this is the user's password; other work goes on meanwhile.
    ///
    /// # Errors
    /// Why it was not looked at: the client is to come again later.
    pub async fn verify(&self, users: &Arc<Users>, attempt: Attempt) -> Result<bool, Refusal> {
        let (reply, answer) = remote_event();
        let (at, login) = (now(), self.queue.login(&attempt));
        let job = Job { users: users.clone(), attempt, reply };
        self.queue.latest.fetch_max(at.as_nanos() as u64, Ordering::Relaxed);
        refuse(self.queue.logins.enter(login, job, at));
        let mut answer = pin!(answer);
        // As many calls wait for a thread as logins wait; each looks at whichever login is next.
        loop {
            let queue = self.queue.clone();
            let look = self.stage.call(move |()| queue.verify_next());
            match select(answer.as_mut(), look).await {
                Either::Left(answer) => return answer.unwrap_or(Err(Refusal::Busy)),
                Either::Right(Ok(()) | Err(BlockingError::Panicked { .. })) => (),
                Either::Right(Err(_)) => return Err(Refusal::Busy),
            }
        }
    }
}

impl LoginQueue {
    fn login(&self, Attempt { name, password, client }: &Attempt) -> Login {
        Login {
            client: self.keys.hash_one(client),
            pair: self.keys.hash_one((client, name)),
            secret: self.keys.hash_one((client, name, password)),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// Looks at one password, if any is waiting. For a thread that may take its time.
    fn verify_next(&self) {
        while let Some((login, job)) = self.logins.next(self.now()) {
            let Job { users, attempt, reply } = job;
            // Its client has gone.
            if reply.is_abandoned() {
                continue;
            }
            let mut memory = self.pool.take();
            let is_right = users.verify_in(&attempt.name, &attempt.password, &mut memory);
            self.pool.give_back(memory, !self.logins.is_empty());
            refuse(self.logins.looked_at(login, is_right, self.now()));
            return reply.fire(Ok(is_right));
        }
    }
}

fn refuse(refused: Vec<(Job, Refusal)>) {
    refused.into_iter().for_each(|(job, why)| job.reply.fire(Err(why)));
}
