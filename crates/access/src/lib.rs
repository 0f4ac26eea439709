//! Subject may do what at a message broker: passwords in a file, and an access list by user, client and topic.
//!
//! | file | idea |
//! |---|---|
//! | `error` | what is wrong with a file, where, and what to do |
//! | `users` | a file's users and their passwords' hashes (Argon2id) |
//! | `passwords` | the stage that looks at passwords, on threads of its own |
//! | `memory_pool` | what they work in |
//! | `passwd` | setting a password in a file |
//! | `pattern` | patterns of topics, with `%u` and `%c` for the user and the client |
//! | `rules` | an access list, and what it allows |
//! | `parse` | an access list's lines |
//!
//! Nothing here knows packets or sockets, and nothing guesses: what a file does not allow is refused, and a
//! file that is not understood is an error.

#![forbid(unsafe_code)]

mod error;
mod memory_pool;
mod parse;
pub mod passwd;
mod passwords;
mod pattern;
mod rules;
mod subject;
mod users;

pub use error::{FileError, LineError};
pub use passwords::{Attempt, Passwords};
pub use rules::{Coverage, Rules};
pub use subject::Subject;
pub use users::Users;
