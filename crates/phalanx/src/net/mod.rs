//! Networking for operations: TCP and Unix streams, listeners, and UDP sockets.
//!
//! | type | purpose |
//! |---|---|
//! | [`Stream`] | a TCP or Unix connection; [`Stream::into_split`] makes two owned halves of it |
//! | [`Listener`], [`Listeners`] | listening sockets of one processor, and of all |
//! | [`UdpSocket`] | datagrams |
//! | [`Resolver`] | addresses of host names |
//! | [`Polled`], [`PollStream`] | streams for poll functions, the base of adaptors such as `phalanx-compat` |
//!
//! Every socket belongs to the processor that created it; using it on another processor fails with [`OwnerError`].
//! Every wait takes an [`IoTimeout`]. The methods take `&self`: one operation may read a stream while another one
//! writes to it, but two reads or two writes at the same time fail with
//! [`ResourceBusy`](std::io::ErrorKind::ResourceBusy).

mod bind;
mod bind_unix;
mod listener;
mod listeners;
mod options;
mod poll;
mod resolver;
mod split;
mod stream;
mod transfer;
mod udp;
pub(crate) mod write_buffers;

pub use bytes::Bytes;
pub use phalanx_driver::{DatagramBatch, FileTransfer, Keepalive, Payload};

pub use self::bind::{bind, bind_quic, bind_udp};
pub use self::bind_unix::{bind_unix, bind_unix_with_mode};
pub use self::listener::Listener;
pub use self::listeners::Listeners;
#[cfg(feature = "sim")]
pub(crate) use self::listeners::take;
pub use self::poll::{PollStream, Polled};
pub use self::resolver::Resolver;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use self::stream::{SentFile, Stream};
pub use self::udp::{Received, UdpSocket};
pub use crate::io::{IoTimeout, OwnerError};
