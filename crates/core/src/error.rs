//! Errors of invocations and of moving partitions.

use std::fmt;

use thiserror::Error;

/// The reason why an invocation was rejected. It consists of two plain words because it is part of every
/// [`Call`](crate::Call).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rejection {
    /// The stage's number, or one of the constants `PROCESSOR` and `NO_OWNER`.
    owner: u32,
    bound: u32,
}

impl Rejection {
    const PROCESSOR: u32 = u32::MAX - 1;
    const NO_OWNER: u32 = u32::MAX;

    /// The session has ended, or the processor has shut down.
    pub(crate) const CANCELLED: Self = Self { owner: Self::NO_OWNER, bound: 0 };

    /// The processor already has `bound` operations.
    pub(crate) fn full(bound: usize) -> Self {
        Self { owner: Self::PROCESSOR, bound: bound.try_into().unwrap_or(u32::MAX) }
    }

    /// The queue of the stage already contains `bound` operations.
    pub(crate) fn stage_full(stage: u8, bound: usize) -> Self {
        Self { owner: stage.into(), bound: bound.try_into().unwrap_or(u32::MAX) }
    }

    /// Whether the reason is that a bound was reached.
    pub(crate) fn is_full(self) -> bool {
        self.owner != Self::NO_OWNER
    }

    /// Converts the reason to an error. `stage_name` returns the name of a stage of the processor that
    /// rejected the invocation.
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

/// The error of a call that returned no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The operation panicked. Other operations of its stage are not affected.
    #[error("an operation of stage \"{stage}\" panicked: {message}")]
    Panicked {
        /// The stage's name.
        stage: &'static str,
        /// The panic message, or a fixed text if the payload is not text.
        message: Box<str>,
    },
    /// The operation was cancelled ([`Call::cancel`](crate::Call::cancel)), its session ended, or its
    /// processor shut down, before the operation completed.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The deadline of the operation's session
    /// ([`Session::set_deadline`](crate::Session::set_deadline)) passed before the operation started.
    /// The operation did not run.
    #[error("the deadline passed before the operation started")]
    DeadlinePassed,
    /// A bound was reached, and the operation was not started. It is the capacity of the stage
    /// ([`StageOptions::capacity`](crate::StageOptions::capacity)) or the maximum of the processor
    /// ([`Graph::max_operations`](crate::Graph::max_operations)).
    #[error("{} is full (capacity {bound}); retry later or raise the capacity", BoundOwner(*.stage))]
    Full {
        /// The stage whose queue is full; `None` if the processor is full.
        stage: Option<&'static str>,
        /// The bound, in operations.
        bound: usize,
    },
    /// The call was awaited on a processor other than the one that created it. The operation continues, and its result
    /// is dropped.
    #[error(
        "the call was awaited on a processor other than the one that created it; await it there"
    )]
    WrongProcessor,
    /// The handler of a cohort operation dropped the reply without sending it ([`CohortStage`](crate::CohortStage)).
    #[error("the handler of stage \"{stage}\" dropped the reply without sending it")]
    ReplyDropped {
        /// The stage's name.
        stage: &'static str,
    },
}

/// Displays the owner of a bound.
struct BoundOwner(Option<&'static str>);

impl fmt::Display for BoundOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(stage) => write!(f, "the queue of stage \"{stage}\""),
            None => f.write_str("the processor"),
        }
    }
}

/// The error of moving a partition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MoveError {
    /// Operations on the partition did not complete in time, or another move is in progress.
    #[error(
        "the partition is busy: its operations did not finish in time, or another move is in progress"
    )]
    Busy,
    /// The request to the partition's owner failed.
    #[error(transparent)]
    Call(CallError),
}
