//! Adaptors between Phalanx and code that was written for tokio, futures or hyper.
//!
//! | item | purpose | feature |
//! |---|---|---|
//! | [`Compat`] | a stream with the traits `AsyncRead` and `AsyncWrite` of tokio | `tokio` |
//! | | the traits of the same names of futures | `futures` |
//! | | the traits `Read` and `Write` of `hyper::rt` | `hyper` |
//! | [`StageExecutor`], [`Timer`] | an executor and a timer for hyper | `hyper` |
//! | [`portable`] | a stream that other threads may use | |
//! | [`local`] | a `Send` future around one that is not `Send` | |
//!
//! A read copies once, from the driver's buffer into the caller's; so does a write. Bytes that a write to a plain
//! stream has accepted are sent even if the stream is dropped immediately, for up to ten seconds. Flush or shut down an
//! encrypted stream before you drop it, because it may hold encrypted bytes for which the socket has no room.
//!
//! An echo server with the functions of tokio, but without its runtime:
//!
//! ```
//! # #[cfg(feature = "tokio")] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use phalanx::net::Listeners;
//! use phalanx::{Graph, Runtime};
//! use phalanx_compat::Compat;
//!
//! let mut graph = Graph::new();
//! let clients = graph.stage("clients").max_cohort(64).shared(());
//! let listeners = Listeners::bind("127.0.0.1:0".parse()?, 1)?;
//! # let address = listeners.local_addr();
//! # let client = std::thread::spawn(move || {
//! #     use std::io::{Read, Write};
//! #     let mut client = std::net::TcpStream::connect(address).unwrap();
//! #     client.write_all(b"hello").unwrap();
//! #     client.shutdown(std::net::Shutdown::Write).unwrap();
//! #     let mut answer = String::new();
//! #     client.read_to_string(&mut answer).unwrap();
//! #     assert_eq!(answer, "hello");
//! # });
//! Runtime::new().processors(1).run(graph, |start| {
//!     let listener = listeners.listener(start)?;
//!     # let control = start.control();
//!     clients.dispatch(move |_| listener.accept_each(move |stream| {
//!         # let control = control.clone();
//!         let _ = clients.dispatch(move |_| async move {
//!             let (mut read, mut write) = tokio::io::split(Compat::from(stream));
//!             let _ = tokio::io::copy(&mut read, &mut write).await;
//!             # control.drain();
//!         });
//!     }))?;
//!     Ok(())
//! })?;
//! # client.join().unwrap();
//! # Ok(()) }
//! # #[cfg(not(feature = "tokio"))] fn main() {}
//! ```

mod compat;
#[cfg(feature = "futures")]
mod futures;
#[cfg(feature = "hyper")]
mod hyper;
mod local;
mod portable;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "hyper")]
pub use self::hyper::{StageExecutor, Timer};
pub use compat::Compat;
pub use local::{Local, local};
pub use portable::{Closed, Portable, Relay, portable};
