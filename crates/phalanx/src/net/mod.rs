//! TCP: listeners and streams of operations.

mod bind;
mod listener;
mod listeners;
mod stream;

pub use bytes::Bytes;
pub use phalanx_driver::Payload;

pub use self::bind::bind;
pub use self::listener::Listener;
pub use self::listeners::Listeners;
pub use self::stream::{SentFile, Stream};
pub use crate::io::{Elsewhere, IoTimeout};
