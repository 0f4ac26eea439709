//! Authentication and authorization: password files of both servers, and the broker's access list by user, client
//! and topic.
//!
//! | file | idea |
//! |---|---|
//! | `error` | errors in files, with position and remedy |
//! | `users` | the broker's users |
//! | `stored_hash` | their password hashes: Argon2id, those of mosquitto, and keys of SCRAM |
//! | `scram/` | SCRAM: clients prove that they know a password |
//! | `htpasswd` | the web server's users and their password hashes (bcrypt) |
//! | `check_queue` | checks of passwords, in fair order, on separate threads |
//! | `passwords` | password checks of the broker's users |
//! | `memory_pool` | working memory of password checks |
//! | `token` | the token of operators |
//! | `jwt/` | JSON Web Tokens as passwords, and the keys that sign them |
//! | `http/` | requests to HTTP services, and logins and access that they decide |
//! | `passwd` | sets passwords in a file |
//! | `subject` | the client that requests access |
//! | `pattern` | topic patterns, with `%u` and `%c` for the user and the client |
//! | `rules` | access lists |
//! | `parse` | parses access lists |
//!
//! This crate is independent of packets and sockets. Access that no rule allows is refused, and a file with
//! an unknown line is an error.

#![forbid(unsafe_code)]

mod check_queue;
mod error;
mod htpasswd;
mod http;
mod jwt;
mod memory_pool;
mod parse;
pub mod passwd;
mod passwords;
mod pattern;
mod rules;
pub mod scram;
mod stored_hash;
mod subject;
mod token;
mod users;

pub use check_queue::{Check, CheckQueue, declare_checks};
pub use error::{FileError, LineError};
pub use htpasswd::Htpasswd;
pub use http::{
    Action, CallOutError, CallOutOptions, CallOuts, Candidate, Endpoint, Fetcher, Permission,
    Permissions,
};
pub use jwt::{Claims, Jwt, KEYS_MISSING, RemoteKeys};
pub use passwords::{Attempt, Passwords};
pub use rules::{Coverage, Rules};
pub use subject::Subject;
pub use token::Token;
pub use users::Users;
