//! Answers that do not depend on keys: requests of clients about the server when they connect.

use std::ops::Deref;

use crate::reply::Reply;
use crate::resp::Word;

/// HELLO: only version 2 of the protocol is supported.
///
/// # Errors
/// The error to answer.
pub(crate) fn hello(words: &[Word<'_>]) -> Result<Reply, Reply> {
    match words.first().map(Deref::deref) {
        None | Some(b"2") => Ok(Reply::Array(vec![
            Reply::bulk("server"),
            Reply::bulk("phalanx-kv"),
            Reply::bulk("version"),
            Reply::bulk(env!("CARGO_PKG_VERSION")),
            Reply::bulk("proto"),
            Reply::Integer(2),
            Reply::bulk("mode"),
            Reply::bulk("standalone"),
            Reply::bulk("role"),
            Reply::bulk("master"),
            Reply::bulk("modules"),
            Reply::Array(Vec::new()),
        ])),
        Some(_) => Err(Reply::error("NOPROTO unsupported protocol version")),
    }
}

/// CONFIG GET: there are no settings, which `redis-benchmark` interprets as "nothing is saved".
///
/// # Errors
/// The error to answer.
pub(crate) fn config(words: &[Word<'_>]) -> Result<Reply, Reply> {
    match words.split_first() {
        Some((get, [_, ..])) if get.eq_ignore_ascii_case(b"GET") => Ok(Reply::Array(Vec::new())),
        _ => Err(Reply::error("ERR only CONFIG GET is known here")),
    }
}

/// COMMAND and its subcommands: an empty list, so that clients use their built-in tables.
pub(crate) fn command(words: &[Word<'_>]) -> Reply {
    match words.first() {
        Some(word) if word.eq_ignore_ascii_case(b"COUNT") => Reply::Integer(0),
        _ => Reply::Array(Vec::new()),
    }
}

/// The text of INFO.
pub(crate) fn info(keys: i64, uptime: std::time::Duration) -> Reply {
    Reply::bulk(format!(
        "# Server\r\nserver:phalanx-kv\r\nversion:{}\r\nprocess_id:{}\r\nuptime_in_seconds:{}\r\n\
         \r\n# Keyspace\r\ndb0:keys={keys}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        uptime.as_secs(),
    ))
}
