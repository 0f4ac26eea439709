//! Errors of queries.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use phalanx::CallError;
use thiserror::Error;

use crate::database_error::DatabaseError;

/// Why a query has no result.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server rejected or failed to execute the statement. It had no effect, unless it is a procedure that has
    /// committed before.
    #[error(transparent)]
    Database(#[from] Arc<DatabaseError>),
    /// The number of parameters differs from that of the declared types.
    #[error("the statement declares {expected} parameters, and {given} were passed")]
    ParameterCount {
        /// The number of declared types.
        expected: usize,
        /// The number of values.
        given: usize,
    },
    /// A parameter does not have its declared type.
    #[error("parameter ${index} cannot be encoded: {source}")]
    Parameter {
        /// Its number, from 1.
        index: usize,
        /// The reason.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The statement or its parameters do not fit in a message: a text has a zero byte, or something is too long.
    #[error("the statement cannot be encoded: {0}")]
    Encoding(Arc<io::Error>),
    /// The statement cannot be executed on a shared connection, or not in the way that it declares.
    #[error("{word} is not supported here: {reason}")]
    Unsupported {
        /// The statement's first word.
        word: String,
        /// The reason, and what to do instead.
        reason: &'static str,
    },
    /// The query is longer than a connection's queue.
    #[error("the query has {bytes} bytes, and the queue {max} bytes; raise `max_queued_bytes`")]
    TooLong {
        /// The length of its messages.
        bytes: usize,
        /// [`Config::max_queued_bytes`](crate::Config::max_queued_bytes).
        max: usize,
    },
    /// The queue of this processor is full. The query was not sent; it may be repeated later.
    #[error("{queries} queries with {bytes} bytes are queued, the most allowed; retry later")]
    Busy {
        /// The number of queued queries.
        queries: usize,
        /// Their bytes; zero if the queries of one sweep were too many.
        bytes: usize,
    },
    /// No connection could execute the query in time. It had no effect and may be repeated later, unless its statement is
    /// [idempotent](crate::Statement::idempotent): an earlier connection may have executed that before it was lost.
    #[error("no connection to the database could execute the query within {waited:?}: {reason}")]
    Unavailable {
        /// How long the query waited.
        waited: Duration,
        /// The last failure.
        reason: Arc<str>,
    },
    /// The connection was lost after the query was sent and before its outcome was known. It may have been executed or
    /// not. An [idempotent](crate::Statement::idempotent) statement is repeated instead.
    #[error(
        "the connection was lost, and the statement may or may not have been executed: {reason}"
    )]
    ConnectionLost {
        /// The reason why the connection ended.
        reason: Arc<str>,
    },
    /// The result was larger than [`Config::max_result_bytes`](crate::Config::max_result_bytes) and was dropped. The
    /// statement was executed.
    #[error("the result has more than {max} bytes; select less or raise `max_result_bytes`")]
    ResultTooLarge {
        /// The limit.
        max: usize,
    },
    /// The results of a transaction that several queries share were larger than
    /// [`Config::max_shared_result_bytes`](crate::Config::max_shared_result_bytes), and this one was dropped. The statement
    /// was executed. An [idempotent](crate::Statement::idempotent) statement is executed again instead.
    #[error(
        "the results of the queries that share a transaction have more than {max} bytes, and this one was dropped; raise \
         `max_shared_result_bytes`, or declare the statement idempotent or not batchable"
    )]
    NoSpaceForResult {
        /// The limit.
        max: usize,
    },
    /// The statement returned another number of rows than the method expects. It was executed.
    #[error("expected {expected}, and the statement returned {rows}")]
    RowCount {
        /// The expected rows.
        expected: &'static str,
        /// The number of rows.
        rows: usize,
    },
    /// The runtime has rejected or cancelled the call.
    #[error(transparent)]
    Call(CallError),
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Full { stage: Some(_), bound } => Self::Busy { queries: bound, bytes: 0 },
            error => Self::Call(error),
        }
    }
}

impl Error {
    /// The server's error, if the server has rejected the statement.
    pub fn database(&self) -> Option<&DatabaseError> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn encoding(error: io::Error) -> Self {
        Self::Encoding(Arc::new(error))
    }
}

/// Why a connection could not be opened, or has ended.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The socket failed.
    Io(io::Error),
    /// The server closed the connection.
    Closed,
    /// The server has ended the connection with an error.
    Fatal(Arc<DatabaseError>),
    /// The server did not answer in time.
    TimedOut(Duration),
    /// The server's messages make no sense here.
    Protocol(String),
}

impl Fault {
    /// Whether another attempt to connect must fail, too. If the connection `was_ready` for queries, a message that makes
    /// no sense concerns the query that it answers.
    pub(crate) fn is_permanent(&self, was_ready: bool) -> bool {
        match self {
            // A wrong password or user; no such database.
            Self::Fatal(error) => error.code().starts_with("28") || error.code() == "3D000",
            Self::Protocol(_) => !was_ready,
            _ => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Closed => f.write_str("the server closed the connection"),
            Self::Fatal(error) => error.fmt(f),
            Self::TimedOut(limit) => write!(f, "no answer within {limit:?}"),
            Self::Protocol(reason) => write!(f, "protocol error: {reason}"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
