//! Why an invocation has no result.

use thiserror::Error;

/// Why an invocation was refused, in one word: it is returned from where every cycle counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    Full { bound: u32 },
    Ended,
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full { bound } => Self::Full { bound: bound as usize },
            Refused::Ended => Self::Ended,
        }
    }
}

/// Why a called operation returned no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The operation panicked. It ended alone: its stage goes on.
    #[error("an operation of stage \"{stage}\" panicked: {message}")]
    Panicked {
        /// The stage's name.
        stage: &'static str,
        /// What the panic said, as far as it was text.
        message: Box<str>,
    },
    /// The operation's session was ended before the operation was done.
    #[error("the operation was ended with its session")]
    Ended,
    /// The deadline of the operation's session had passed before the operation was started
    /// ([`Session::set_deadline`](crate::Session::set_deadline)); it was not.
    #[error("the deadline passed before the operation was started")]
    DeadlinePassed,
    /// The processor already holds as many operations as it may
    /// ([`Graph::max_operations`](crate::Graph::max_operations)); the operation was not started.
    #[error("the processor holds its bound of {bound} operations")]
    Full {
        /// The bound.
        bound: usize,
    },
}

/// Why a partition was not moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MoveError {
    /// Operations that had started were not over in time, or another move is under way.
    #[error("the partition is busy")]
    Busy,
    /// The owner could not be asked.
    #[error(transparent)]
    Call(CallError),
}
