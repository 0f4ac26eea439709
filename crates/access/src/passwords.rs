//! The stage that looks at passwords: tens of milliseconds each, on threads of its own.

use std::sync::Arc;

use phalanx::{BlockingError, BlockingStage, Graph, blocking};

use crate::users::Users;

/// So many passwords are looked at at once; each takes its memory (19 MiB).
const THREADS: usize = 2;
/// So many may wait; then they are refused.
const QUEUE: usize = 1000;

/// A handle on the stage `passwords`.
#[derive(Clone, Copy)]
pub struct Passwords(BlockingStage<()>);

impl Passwords {
    /// Declares the stage.
    pub fn declare(graph: &mut Graph) -> Self {
        Self(blocking(graph, "passwords").threads(THREADS).queue(QUEUE).state(()))
    }

    /// Finds out whether this is the user's password; other work goes on meanwhile.
    ///
    /// # Errors
    /// [`BlockingError::Full`] when too many wait already: the client is to come again later.
    pub async fn verify(
        &self,
        users: &Arc<Users>,
        name: String,
        password: Vec<u8>,
    ) -> Result<bool, BlockingError> {
        let users = users.clone();
        self.0.call(move |()| users.verify(&name, &password)).await
    }
}
