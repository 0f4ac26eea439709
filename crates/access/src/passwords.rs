//! The stage that verifies the passwords of a broker's users.

use std::sync::Arc;

use phalanx::Graph;
use phalanx::blocking::BlockingStage;
use phalanx::stage::Handles;
use phalanx_guard::{Login, Refusal};

use crate::check_queue::{Check, CheckQueue, declare_checks};
use crate::memory_pool::MemoryPool;
use crate::users::Users;

/// A handle to the stage `passwords`. Clones are equivalent.
#[derive(Clone, Handles)]
pub struct Passwords {
    stage: BlockingStage<()>,
    #[handles(skip)]
    queue: Arc<CheckQueue<PasswordCheck>>,
    #[handles(skip)]
    pool: Arc<MemoryPool>,
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

struct PasswordCheck {
    users: Arc<Users>,
    attempt: Attempt,
    pool: Arc<MemoryPool>,
}

impl Check for PasswordCheck {
    fn check(self, queue: &CheckQueue<Self>) -> bool {
        let mut memory = self.pool.take();
        let Attempt { name, password, .. } = &self.attempt;
        let is_valid = self.users.verify_in(name, password, &mut memory);
        self.pool.give_back(memory, !queue.is_empty());
        is_valid
    }
}

impl Passwords {
    /// Declares the stage.
    pub fn declare(graph: &mut Graph) -> Self {
        Self { stage: declare_checks(graph), queue: Arc::default(), pool: Arc::default() }
    }

    /// Verifies a user's password, without blocking the processor, within 10 s.
    ///
    /// # Errors
    /// The reason why it was not verified: the client should try again later.
    pub async fn verify(&self, users: &Arc<Users>, attempt: Attempt) -> Result<bool, Refusal> {
        let login = self.login(&attempt);
        let check = PasswordCheck { users: users.clone(), attempt, pool: self.pool.clone() };
        self.queue.verify(self.stage, login, check).await
    }

    /// Records the result of a login whose proof was verified by the caller, in microseconds. It does not wait;
    /// lockouts apply as for [`verify`](Self::verify). The password in `attempt` may be any secret that only the right
    /// password produces.
    ///
    /// # Errors
    /// [`Refusal::LockedOut`].
    pub fn record_verified(&self, attempt: &Attempt, is_valid: bool) -> Result<bool, Refusal> {
        self.queue.record_verified(self.login(attempt), is_valid)
    }

    fn login(&self, Attempt { name, password, client }: &Attempt) -> Login {
        self.queue.login(*client, name, password)
    }
}
