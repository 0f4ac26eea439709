//! Basic authentication (RFC 7617) with password files in `htpasswd` format, which `phalanx_access` reads.
//!
//! | file | idea |
//! |---|---|
//! | `credentials` | the name and password in a request |
//! | `passwords` | verification, and a cache of verified credentials |
//! | `checks` | the verification of a request's credentials, in the queue of `phalanx_access` |
//! | `files` | loading the files named in a configuration |
//!
//! A strong password hash takes tens of milliseconds to compute. The blocking stage `passwords` computes it on separate
//! threads. Verified credentials are cached for some minutes.

pub(crate) mod checks;
pub(crate) mod credentials;
pub(crate) mod files;
pub(crate) mod passwords;
