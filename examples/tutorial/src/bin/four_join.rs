//! Step four: a command with many keys forks over the partitions and joins.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::rc::Rc;

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::{Call, CallError, Graph, PartitionedStage, Runtime, SharedStage, join};

/// Maximum length of a client's line in bytes.
const MAX_LINE: usize = 64 * 1024;

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

/// An operation of the network stage: sends the pending data, then waits for more input.
async fn exchange(
    network: SharedStage<()>,
    stream: &Rc<Stream>,
    mut buffers: Buffers,
) -> io::Result<Buffers> {
    let stream = stream.clone();
    let call = network.call(move |_| async move {
        if !buffers.out.is_empty() {
            buffers.out = stream.write(buffers.out, IoTimeout::NONE).await?;
        }
        match stream.read(&mut buffers.input, IoTimeout::NONE.until_shutdown()).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(buffers),
        }
    });
    call.await.map_err(io::Error::other)?
}

async fn serve(stages: Stages, hasher: &RandomState, stream: Stream) -> io::Result<()> {
    let (stream, mut buffers) = (Rc::new(stream), Buffers::default());
    loop {
        while let Some(end) = buffers.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffers.input.drain(..=end).collect();
            let answered = answer(stages, hasher, &String::from_utf8_lossy(&line)).await;
            let line = answered.unwrap_or_else(|error| format!("error: {error}"));
            buffers.out.extend(line.into_bytes());
            buffers.out.push(b'\n');
        }
        if buffers.input.len() > MAX_LINE {
            return Ok(()); // an incomplete line
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

fn set(stages: Stages, hasher: &RandomState, key: &str, value: &str) -> Call<()> {
    let (hash, key, value) = (hasher.hash_one(key), key.to_owned(), value.to_owned());
    stages.store.call(hash, move |partition| async move {
        partition.with(|table| drop(table.insert(key, value)));
    })
}

async fn answer(stages: Stages, hasher: &RandomState, line: &str) -> Result<String, CallError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let or_none = |value: Option<String>| value.unwrap_or("none".into());
    match words[..] {
        ["GET", key] => Ok(or_none(get(stages, hasher, key).await?)),
        ["SET", key, value] => {
            set(stages, hasher, key, value).await?;
            Ok("OK".into())
        }
        ["MGET", ref keys @ ..] => {
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
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7000".into()).parse()?;
    let mut graph = Graph::new();
    let stages = Stages {
        network: graph.stage("network").max_cohort(64).shared(()),
        clients: graph.shared("clients", RandomState::new()),
        store: graph.partitioned("store", |_partition| Table::new()),
    };
    let listeners = Listeners::bind(address, 2)?;
    println!("listening on {}", listeners.local_addr());
    Runtime::new().processors(2).run(graph, |start| {
        let listener = listeners.listener(start)?;
        stages.network.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let _ = stages.clients.dispatch(move |hasher| async move {
                    let _ = serve(stages, &hasher, stream).await;
                });
            })
        })?;
        Ok(())
    })?;
    Ok(())
}
