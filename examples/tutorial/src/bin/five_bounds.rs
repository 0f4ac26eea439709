//! Step five: bounds, graceful shutdown, and metrics.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::runtime::{StartContext, raise_open_files};
use phalanx::{Call, CallError, Graph, PartitionedStage, Runtime, SharedStage, join};

/// Maximum length of a client's line in bytes.
const MAX_LINE: usize = 64 * 1024;

/// Idle timeout of a client, which does not delay a shutdown.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(300)).until_shutdown();
/// Timeout for a client to accept its answers.
const SEND_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(10));
/// Maximum number of clients per processor; further ones are rejected.
const MAX_CLIENTS: usize = 10_000;
/// Maximum number of keys in a command, each of which becomes an operation and a part of the answer.
const MAX_KEYS: usize = 100;
/// Bytes of answers above which the server answers no further line until it has sent them.
const MAX_ANSWERS: usize = 64 * 1024;
/// Maximum number of keys in a partition.
const MAX_ENTRIES: usize = 2_000;

/// The keys of one partition.
type Table = HashMap<String, String>;

/// Handles of the stages.
#[derive(Clone, Copy)]
struct Stages {
    network: SharedStage<()>,
    clients: SharedStage<RandomState>,
    store: PartitionedStage<Table>,
}

/// Buffers of a client: data to send, and received data.
#[derive(Default)]
struct Buffers {
    out: Vec<u8>,
    input: Vec<u8>,
}

/// An operation of the network stage: sends the pending data, then waits for more input unless a line is left.
async fn exchange(
    network: SharedStage<()>,
    stream: &Rc<Stream>,
    mut buffers: Buffers,
) -> io::Result<Buffers> {
    let stream = stream.clone();
    let call = network.call(move |_| async move {
        if !buffers.out.is_empty() {
            buffers.out = stream.write(buffers.out, SEND_TIMEOUT).await?;
        }
        if buffers.input.contains(&b'\n') {
            return Ok(buffers);
        }
        match stream.read(&mut buffers.input, IDLE_TIMEOUT).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(buffers),
        }
    });
    call.await.map_err(io::Error::other)?
}

async fn serve(stages: Stages, hasher: &RandomState, stream: Stream) -> io::Result<()> {
    let (stream, mut buffers) = (Rc::new(stream), Buffers::default());
    loop {
        while buffers.out.len() <= MAX_ANSWERS
            && let Some(end) = buffers.input.iter().position(|byte| *byte == b'\n')
        {
            let line: Vec<u8> = buffers.input.drain(..=end).collect();
            let answered = answer(stages, hasher, &String::from_utf8_lossy(&line)).await;
            let line = answered.unwrap_or_else(|error| format!("error: {error}"));
            buffers.out.extend(line.into_bytes());
            buffers.out.push(b'\n');
        }
        if buffers.input.len() > MAX_LINE && !buffers.input.contains(&b'\n') {
            return Ok(());
        }
        buffers = exchange(stages.network, &stream, buffers).await?;
    }
}

/// Calls the partition of `key`. The operation is queued here and runs when the caller awaits.
fn get(stages: Stages, hasher: &RandomState, key: &str) -> Call<Option<String>> {
    let (hash, key) = (hasher.hash_one(key), key.to_owned());
    stages.store.call(hash, move |partition| async move {
        partition.with(|table| table.get(&key).cloned())
    })
}

/// Sets the value of `key`, unless the partition has room for no further key. Returns whether it did.
fn set(stages: Stages, hasher: &RandomState, key: &str, value: &str) -> Call<bool> {
    let (hash, key, value) = (hasher.hash_one(key), key.to_owned(), value.to_owned());
    stages.store.call(hash, move |partition| async move {
        partition.with(|table| {
            let fits = table.len() < MAX_ENTRIES || table.contains_key(&key);
            if fits {
                table.insert(key, value);
            }
            fits
        })
    })
}

async fn answer(stages: Stages, hasher: &RandomState, line: &str) -> Result<String, CallError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let or_none = |value: Option<String>| value.unwrap_or("none".into());
    match words[..] {
        ["GET", key] => Ok(or_none(get(stages, hasher, key).await?)),
        ["SET", key, value] => {
            let is_set = set(stages, hasher, key, value).await?;
            Ok(if is_set { "OK" } else { "full" }.into())
        }
        ["MGET", ref keys @ ..] if keys.len() <= MAX_KEYS => {
            let calls: Vec<_> = keys.iter().map(|key| get(stages, hasher, key)).collect();
            let values: Result<Vec<_>, _> = join(calls).await.into_iter().collect();
            Ok(values?.into_iter().map(or_none).collect::<Vec<_>>().join(" "))
        }
        ["COUNT"] => {
            let count = |n| {
                stages.store.call_partition(n, |partition| async move {
                    partition.with(|table| table.len())
                })
            };
            let calls: Vec<_> = (0..stages.store.partitions_count()).map(count).collect();
            let counts: Result<Vec<_>, _> = join(calls).await.into_iter().collect();
            Ok(counts?.into_iter().sum::<usize>().to_string())
        }
        _ => Ok("what?".into()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    raise_open_files();
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:7000".into()).parse()?;
    let admin = arguments.next().unwrap_or("127.0.0.1:7001".into()).parse()?;
    let mut graph = Graph::new();
    graph.max_operations(100_000);
    let stages = Stages {
        network: graph.stage("network").max_cohort(64).shared(()),
        clients: graph.shared("clients", RandomState::new()),
        store: graph.partitioned("store", |_partition| Table::new()),
    };
    let listeners = Listeners::bind(address, 2)?;
    let runtime =
        Runtime::new().processors(2).admin(Some(admin)).shutdown_timeout(Duration::from_secs(5));
    let start = |start: &StartContext| {
        let (listener, clients) = (listeners.listener(start)?, Rc::new(()));
        stages.network.dispatch(move |_| {
            listener.accept_each(move |stream| {
                if Rc::strong_count(&clients) > MAX_CLIENTS {
                    return; // the stream is dropped, and so closed
                }
                let present = clients.clone();
                let _ = stages.clients.dispatch(move |hasher| async move {
                    let _ = serve(stages, &hasher, stream).await;
                    drop(present);
                });
            })
        })?;
        Ok(())
    };
    runtime.run_with_ready(graph, start, |up| {
        println!("listening on {}", listeners.local_addr());
        println!("admin page at {}", up.admin.expect("asked for"));
    })?;
    Ok(())
}
