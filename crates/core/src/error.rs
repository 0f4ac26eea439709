//! Why an invocation has no result.

use std::fmt;

use thiserror::Error;

use crate::processor::Processor;

/// Why an invocation was refused, in one word: it is returned from where every cycle counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    Full {
        bound: u32,
    },
    /// A stage's own bound.
    StageFull {
        stage: u8,
        bound: u32,
    },
    Ended,
}

impl Refused {
    /// The reason in full; the processor is the one that refused.
    #[cold]
    pub(crate) fn reason(self, processor: &Processor) -> CallError {
        match self {
            Self::Full { bound } => CallError::Full { stage: None, bound: bound as usize },
            Self::StageFull { stage, bound } => {
                CallError::Full { stage: Some(processor.stage_name(stage)), bound: bound as usize }
            }
            Self::Ended => CallError::Ended,
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
    /// A bound was reached; the operation was not started. It is the stage's
    /// ([`StageOptions::capacity`](crate::StageOptions::capacity)) or the processor's
    /// ([`Graph::max_operations`](crate::Graph::max_operations)).
    #[error("{} holds its bound of {bound} operations", Whose(*.stage))]
    Full {
        /// The stage whose queue is full; none if it is the processor that is.
        stage: Option<&'static str>,
        /// The bound.
        bound: usize,
    },
    /// A cohort operation gave no reply ([`CohortStage`](crate::CohortStage)).
    #[error("stage \"{stage}\" has dropped the reply")]
    Unanswered {
        /// The stage's name.
        stage: &'static str,
    },
}

/// Whose bound it is, in words.
struct Whose(Option<&'static str>);

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(stage) => write!(f, "the queue of stage \"{stage}\""),
            None => f.write_str("the processor"),
        }
    }
}
