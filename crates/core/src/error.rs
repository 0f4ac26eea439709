//! Why an invocation has no result.

use std::fmt;

use thiserror::Error;

/// Why an invocation was refused, in two plain words: it is part of every [`Call`](crate::Call) that
/// is moved about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// A stage's number, or one of the two below.
    owner: u32,
    bound: u32,
}

impl Refused {
    const PROCESSOR: u32 = u32::MAX - 1;
    const NO_OWNER: u32 = u32::MAX;

    /// The session or the processor has ended.
    pub(crate) const ENDED: Self = Self { owner: Self::NO_OWNER, bound: 0 };

    /// The processor is full.
    pub(crate) fn full(bound: usize) -> Self {
        Self { owner: Self::PROCESSOR, bound: bound.try_into().unwrap_or(u32::MAX) }
    }

    /// The stage's queue is.
    pub(crate) fn stage_full(stage: u8, bound: usize) -> Self {
        Self { owner: stage.into(), bound: bound.try_into().unwrap_or(u32::MAX) }
    }

    /// The reason in full. `stage_name` returns the name of a stage of the processor that refused.
    #[cold]
    pub(crate) fn reason(self, stage_name: impl FnOnce(u8) -> &'static str) -> CallError {
        let bound = self.bound as usize;
        match self.owner {
            Self::NO_OWNER => CallError::Cancelled,
            Self::PROCESSOR => CallError::Full { stage: None, bound },
            stage => CallError::Full { stage: Some(stage_name(stage as u8)), bound },
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
    #[error("the operation was cancelled with its session")]
    Cancelled,
    /// The deadline of the operation's session had passed before the operation was started
    /// ([`Session::set_deadline`](crate::Session::set_deadline)); it was not.
    #[error("the deadline passed before the operation was started")]
    DeadlinePassed,
    /// A bound was reached; the operation was not started. It is the stage's
    /// ([`StageOptions::capacity`](crate::StageOptions::capacity)) or the processor's
    /// ([`Graph::max_operations`](crate::Graph::max_operations)).
    #[error("{} holds its bound of {bound} operations", BoundOwner(*.stage))]
    Full {
        /// The stage whose queue is full; none if it is the processor that is.
        stage: Option<&'static str>,
        /// The bound.
        bound: usize,
    },
    /// The call was awaited on another processor than the one that made it. Its operation goes on,
    /// and the result is dropped.
    #[error("a call was awaited away from the processor that made it; await it there")]
    Elsewhere,
    /// A cohort operation gave no reply ([`CohortStage`](crate::CohortStage)).
    #[error("stage \"{stage}\" has dropped the reply")]
    Unanswered {
        /// The stage's name.
        stage: &'static str,
    },
}

/// Whose bound it is, in words.
struct BoundOwner(Option<&'static str>);

impl fmt::Display for BoundOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(stage) => write!(f, "the queue of stage \"{stage}\""),
            None => f.write_str("the processor"),
        }
    }
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
