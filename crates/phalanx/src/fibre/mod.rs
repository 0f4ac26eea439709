//! Fibres: operations written as blocking code.
//!
//! A fibre has its own stack and suspends inside ordinary function calls, such as `read` of [`std::io::Read`], instead
//! of at an `await`. Libraries for blocking streams therefore work in a fibre unchanged. The scheduler runs it like any
//! other operation: in the cohorts of its stage, in the session of its caller, with deadlines, counters and
//! [simulation](crate::sim).
//!
//! ```
//! use phalanx::fibre::{LocalFibres, net::Stream};
//! use phalanx::net::Listeners;
//! use phalanx::{Graph, Runtime};
//! use std::io::{BufRead, BufReader, Write};
//!
//! /// Answers each line, written like code for a thread.
//! fn serve(stream: &Stream) -> std::io::Result<()> {
//!     for line in BufReader::new(stream).lines() {
//!         writeln!(&mut &*stream, "{}", line?.len())?;
//!     }
//!     Ok(())
//! }
//!
//! let mut graph = Graph::new();
//! let clients = graph.shared("clients", ());
//! let listeners = Listeners::bind("127.0.0.1:0".parse()?, 1)?;
//! # let address = listeners.local_addr();
//! # let client = std::thread::spawn(move || {
//! #     let mut stream = std::net::TcpStream::connect(address).unwrap();
//! #     stream.write_all(b"hello\nfibre\n\n").unwrap();
//! #     let mut answer = [0; 6];
//! #     std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
//! #     assert_eq!(&answer, b"5\n5\n0\n");
//! # });
//! Runtime::new().processors(1).run(graph, |start| {
//!     let listener = listeners.listener(start)?;
//!     # let control = start.control();
//!     clients.dispatch(move |_| listener.accept_each(move |stream| {
//!         # let control = control.clone();
//!         let serving = clients.fibre(move |_, _| {
//!             let _ = serve(&stream.into());
//!             # control.drain();
//!         });
//!         let _ = serving.detach();
//!     }))?;
//!     Ok(())
//! })?;
//! # client.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | item | purpose |
//! |---|---|
//! | [`LocalFibres`], [`KeyedFibres`] | starting a fibre on a stage |
//! | [`Fibre`], [`wait`] | waiting for a future, sleeping, starting further fibres |
//! | [`net`] | streams and listeners with blocking calls |
//! | [`sync`] | locks, conditions and channels that suspend the fibre |
//! | [`FibreLocal`] | values of one fibre |
//! | [`StackSize`], [`set_stack_limit`] | stacks |
//!
//! The crate `phalanx-fibre` documents stacks and the rules for waiting.

pub mod net;

#[doc(inline)]
pub use phalanx_fibre::{
    Fibre, FibreLocal, KeyedFibres, LocalFibres, Scope, ScopedFibre, StackSize, set_stack_limit,
    sync, wait,
};
