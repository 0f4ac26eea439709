//! Step six: the echo server with fibres, which run blocking code.

use std::io::{self, BufRead, BufReader, Read, Write};

use phalanx::fibre::LocalFibres;
use phalanx::fibre::net::Stream;
use phalanx::net::{IoTimeout, Listeners};
use phalanx::{Graph, Runtime};

/// Maximum length of a client's line in bytes, with its end.
const MAX_LINE: u64 = 64 * 1024;

/// Serves one connection: returns each line in upper case.
fn echo_upper(stream: &Stream) -> io::Result<()> {
    stream.set_read_timeout(IoTimeout::NONE.until_shutdown());
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut line = String::new();
        reader.by_ref().take(MAX_LINE).read_line(&mut line)?;
        // The end of the stream, or a line that is too long.
        let Some(line) = line.strip_suffix('\n') else { return Ok(()) };
        writeln!(writer, "{}", line.to_uppercase())?;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7000".into()).parse()?;
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let listeners = Listeners::bind(address, 2)?;
    println!("listening on {}", listeners.local_addr());
    Runtime::new().processors(2).run(graph, |start| {
        let listener = listeners.listener(start)?;
        clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let serving = clients.fibre(|_, _| {
                    let _ = echo_upper(&stream.into());
                });
                let _ = serving.detach();
            })
        })?;
        Ok(())
    })?;
    Ok(())
}
