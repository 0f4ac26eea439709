//! Step two: socket I/O in a stage of its own, so that it runs in its own cohorts.

use std::io;
use std::rc::Rc;

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::{Graph, Runtime, SharedStage};

/// Maximum length of a client's line in bytes.
const MAX_LINE: usize = 64 * 1024;

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

async fn serve(network: SharedStage<()>, stream: Stream) -> io::Result<()> {
    let (stream, mut buffers) = (Rc::new(stream), Buffers::default());
    loop {
        while let Some(end) = buffers.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffers.input.drain(..=end).collect();
            buffers.out.extend(answer(&String::from_utf8_lossy(&line)).into_bytes());
            buffers.out.push(b'\n');
        }
        if buffers.input.len() > MAX_LINE {
            return Ok(()); // an incomplete line
        }
        buffers = exchange(network, &stream, buffers).await?;
    }
}

fn answer(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["PING"] => "PONG".into(),
        ["ECHO", ref words @ ..] => words.join(" "),
        _ => "what?".into(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7000".into()).parse()?;
    let mut graph = Graph::new();
    let network = graph.stage("network").max_cohort(64).shared(());
    let clients = graph.shared("clients", ());
    let listeners = Listeners::bind(address, 2)?;
    println!("listening on {}", listeners.local_addr());
    Runtime::new().processors(2).run(graph, |start| {
        let listener = listeners.listener(start)?;
        network.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let _ = clients.dispatch(move |_| async move {
                    let _ = serve(network, stream).await;
                });
            })
        })?;
        Ok(())
    })?;
    Ok(())
}
