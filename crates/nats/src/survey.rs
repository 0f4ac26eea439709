//! The properties of servers, for checks before a start.

use std::time::Duration;

use phalanx::net::Resolver;
use phalanx::task::Either;
use phalanx::time::timeout;
use phalanx::{Runtime, select};

use crate::client::Client;
use crate::jetstream::{Account, JetStream, JetStreamError};
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
    /// `None` if the survey did not ask.
    pub jetstream: Option<Result<JetStreamUse, String>>,
}

/// The use of JetStream by the client's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JetStreamUse {
    /// Limits and use.
    pub account: Account,
    /// Whether a stream with the subjects of the question exists.
    pub has_stream: bool,
}

/// A question about the use of JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The prefix of a subject for answers.
    pub inbox: String,
    /// A filter for the subjects of streams.
    pub subjects: String,
}

/// Logs in to each server, with the time limit `limit` for each, and returns properties or errors in the same order.
/// With a `question`, it also requests the use of JetStream. Blocks.
pub fn survey(
    access: Access,
    limit: Duration,
    question: Option<Question>,
) -> Vec<Result<ServerInfo, String>> {
    let count = access.servers.len();
    let found =
        Runtime::new().signals(false).block_on(Resolver::declare, move |resolver| async move {
            let options = Options { connect_timeout: limit, ..Options::default() };
            let mut found = Vec::new();
            for server in &access.servers {
                let info = match Box::pin(login(&resolver, server, &access, &options)).await {
                    Ok(session) => session.info,
                    Err(reason) => {
                        found.push(Err(reason));
                        continue;
                    }
                };
                let jetstream = match &question {
                    Some(question) => {
                        let single = Access { servers: vec![server.clone()], ..access.clone() };
                        let options = Options { access: single, ..options.clone() };
                        Some(Box::pin(query_jetstream(options, resolver, question)).await)
                    }
                    None => None,
                };
                found.push(Ok(ServerInfo {
                    version: info.version,
                    max_payload: info.max_payload,
                    is_clustered: info.cluster.is_some_and(|name| !name.is_empty()),
                    jetstream,
                }));
            }
            found
        });
    found.unwrap_or_else(|error| vec![Err(error.to_string()); count])
}

/// Asks a server for the use of JetStream.
async fn query_jetstream(
    options: Options,
    resolver: Resolver,
    question: &Question,
) -> Result<JetStreamUse, String> {
    let limit = options.connect_timeout;
    let client = Client::new(options, resolver);
    let query = Box::pin(async {
        client.connected().await;
        let streams = JetStream::new(&client, &question.inbox, limit);
        let account = streams.account().await?;
        Ok(JetStreamUse { account, has_stream: streams.is_stored(&question.subjects).await? })
    });
    let running = Box::pin(client.run());
    match timeout(limit, Box::pin(select(query, running))).await {
        Ok(Either::Left(answer)) => answer.map_err(|error: JetStreamError| error.to_string()),
        _ => Err(format!("no answer within {limit:?}")),
    }
}
