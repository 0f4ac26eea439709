//! Logins, access rules and TLS.

mod listeners;
mod policy;
mod scram;
mod services;
mod tls;
