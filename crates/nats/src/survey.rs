//! The properties of servers, for checks before a start.

use std::time::Duration;

use phalanx::Runtime;
use phalanx::net::Resolver;

use crate::login::login;
use crate::options::{Access, Options};

/// The properties of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its version, such as `2.9.10`.
    pub version: String,
    /// Maximum size of a message, in bytes.
    pub max_payload: usize,
}

/// Logs in at each server, within `timeout` for each, and returns their properties or errors in their order. Blocks.
pub fn survey(access: Access, timeout: Duration) -> Vec<Result<ServerInfo, String>> {
    let count = access.servers.len();
    let found =
        Runtime::new().signals(false).block_on(Resolver::declare, move |resolver| async move {
            let options = Options { connect_timeout: timeout, ..Options::default() };
            let mut found = Vec::new();
            for server in &access.servers {
                let session = Box::pin(login(&resolver, server, &access, &options)).await;
                found.push(session.map(|session| ServerInfo {
                    version: session.info.version,
                    max_payload: session.info.max_payload,
                }));
            }
            found
        });
    found.unwrap_or_else(|error| vec![Err(error.to_string()); count])
}
