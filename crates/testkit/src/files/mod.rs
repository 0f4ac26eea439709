//! Files and contents: folders to serve, certificates, bytes.

#[cfg(feature = "tls")]
pub mod authority;
pub mod bytes;
pub mod site;
