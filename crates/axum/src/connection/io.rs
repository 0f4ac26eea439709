//! A connection's bytes, plain or encrypted.

use crate::connection::offered::Offered;

#[cfg(feature = "tls")]
pub(crate) use encrypted::Io;
#[cfg(not(feature = "tls"))]
pub(crate) type Io = Offered;

/// The bytes of a connection without TLS.
#[cfg(feature = "tls")]
pub(crate) fn plain(stream: Offered) -> Io {
    Io::Plain(stream)
}

/// The bytes of a connection.
#[cfg(not(feature = "tls"))]
pub(crate) fn plain(stream: Offered) -> Io {
    stream
}

#[cfg(feature = "tls")]
mod encrypted {
    use std::io::{self, IoSlice};
    use std::task::{Context, Poll, ready};

    use phalanx::net::PollStream;
    use phalanx_tls::PolledTls;

    use crate::connection::offered::Offered;
    use crate::connection::progress::Progress;

    /// A plain or encrypted stream.
    #[allow(clippy::large_enum_variant, reason = "a plain stream, the usual one, needs no box")]
    pub(crate) enum Io {
        Plain(Offered),
        Tls(Box<PolledTls>, Progress),
    }

    impl Io {
        fn inner(&mut self) -> &mut dyn PollStream {
            match self {
                Self::Plain(stream) => stream,
                Self::Tls(stream, _) => &mut **stream,
            }
        }
    }

    impl PollStream for Io {
        fn is_home(&self) -> bool {
            match self {
                Self::Plain(stream) => stream.is_home(),
                Self::Tls(stream, _) => stream.is_home(),
            }
        }

        fn poll_read(
            &mut self,
            context: &mut Context<'_>,
            room: usize,
            put: &mut dyn FnMut(&[u8]),
        ) -> Poll<io::Result<usize>> {
            self.inner().poll_read(context, room, put)
        }

        fn poll_write(
            &mut self,
            context: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let written = self.inner().poll_write(context, parts);
            if let Self::Tls(_, progress) = self {
                progress.wrote(&written);
            }
            written
        }

        fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.inner().poll_flush(context))?;
            if let Self::Tls(stream, progress) = self {
                progress.flushed(stream.is_sending());
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.inner().poll_shutdown(context)
        }
    }
}
