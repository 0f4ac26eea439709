//! Passwords: basic authentication (RFC 7617) by files as `htpasswd` writes them.
//!
//! | file | idea |
//! |---|---|
//! | `users` | a file's users and their passwords' hashes |
//! | `credentials` | a name and a password, as a request says them |
//! | `passwords` | whether they belong together, and those of whom that is known |
//! | `files` | opening the files that a configuration names |
//!
//! A hash that is worth having takes tens of milliseconds to compute. That is done on threads of its
//! own, in the blocking stage `passwords`, and once in a while for each client: what was right is
//! remembered for some minutes.

pub(crate) mod credentials;
pub(crate) mod files;
pub(crate) mod passwords;
pub(crate) mod users;
