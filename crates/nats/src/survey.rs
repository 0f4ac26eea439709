//! The properties of servers, for checks before a start.

use std::time::Duration;

use phalanx::net::Resolver;
use phalanx::task::Either;
use phalanx::time::timeout;
use phalanx::{Runtime, select};

use crate::client::Client;
use crate::jetstream::{Account, JetStream};
use crate::login::login;
use crate::options::{Access, Options};

/// The properties of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its version, such as `2.9.10`.
    pub version: String,
    /// Maximum size of a message, in bytes.
    pub max_payload: usize,
    /// Whether it is one of several servers of a NATS cluster.
    pub is_clustered: bool,
    /// The use of JetStream by the client's account; `None` if the survey did not ask.
    pub account: Option<Result<Account, String>>,
}

/// Logs in at each server, within `limit` for each, and returns their properties or errors in their order. With the prefix
/// of a subject for answers, it also asks for the use of JetStream. Blocks.
pub fn survey(
    access: Access,
    limit: Duration,
    inbox: Option<String>,
) -> Vec<Result<ServerInfo, String>> {
    let count = access.servers.len();
    let found =
        Runtime::new().signals(false).block_on(Resolver::declare, move |resolver| async move {
            let options = Options { connect_timeout: limit, ..Options::default() };
            let mut found = Vec::new();
            for server in &access.servers {
                let info = match Box::pin(login(&resolver, server, &access, &options)).await {
                    Ok(session) => session.info,
                    Err(why) => {
                        found.push(Err(why));
                        continue;
                    }
                };
                let account = match &inbox {
                    Some(inbox) => {
                        let only = Access { servers: vec![server.clone()], ..access.clone() };
                        let options = Options { access: only, ..options.clone() };
                        Some(Box::pin(account(options, resolver, inbox)).await)
                    }
                    None => None,
                };
                found.push(Ok(ServerInfo {
                    version: info.version,
                    max_payload: info.max_payload,
                    is_clustered: info.cluster.is_some_and(|name| !name.is_empty()),
                    account,
                }));
            }
            found
        });
    found.unwrap_or_else(|error| vec![Err(error.to_string()); count])
}

/// Asks a server for the use of JetStream.
async fn account(options: Options, resolver: Resolver, inbox: &str) -> Result<Account, String> {
    let limit = options.connect_timeout;
    let client = Client::new(options, resolver);
    let asked = Box::pin(async {
        client.connected().await;
        JetStream::new(&client, inbox, limit).account().await
    });
    let running = Box::pin(client.run());
    match timeout(limit, Box::pin(select(asked, running))).await {
        Ok(Either::Left(answer)) => answer.map_err(|error| error.to_string()),
        _ => Err(format!("no answer within {limit:?}")),
    }
}
