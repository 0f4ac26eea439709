//! The error of I/O that a drain has ended.

use std::io;

/// The error of waiting I/O that a drain has ended: accepting connections, and I/O with
/// [`IoTimeout::until_shutdown`](crate::net::IoTimeout::until_shutdown).
///
/// Its kind is [`Other`](io::ErrorKind::Other), which the standard library never retries.
///
/// ```
/// use phalanx::net::{IoTimeout, Stream};
/// use phalanx::shutdown::Drained;
///
/// async fn serve(stream: Stream) -> std::io::Result<()> {
///     let mut bytes = Vec::new();
///     match stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await {
///         Err(error) if Drained::is_cause_of(&error) => Ok(()), // the program drains: finish
///         Err(error) => Err(error),
///         Ok(_) => Ok(()),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the I/O was cancelled because the program is shutting down")]
pub struct Drained;

impl Drained {
    /// Whether `error` is this error, or has it as a source.
    pub fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| {
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(inner);
            while let Some(error) = source {
                if error.is::<Self>() {
                    return true;
                }
                source = error.source();
            }
            false
        })
    }
}

impl From<Drained> for io::Error {
    fn from(error: Drained) -> Self {
        Self::other(error)
    }
}
