//! Protection against misbehaving clients: the access log, limits per address and for slow clients, and the
//! health check.

mod access;
mod addresses;
mod harness;
mod health;
mod log;
mod options;
mod passwords;
mod proxies;
mod redirects;
mod slow;
