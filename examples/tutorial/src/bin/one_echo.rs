//! Step one: an echo server. One stage, with an operation per connection.

use std::io;

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::{Graph, Runtime};

/// Serves one connection.
async fn echo(stream: Stream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await? > 0 {
        bytes = stream.write(bytes, IoTimeout::NONE).await?;
    }
    Ok(())
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
                let _ = clients.dispatch(move |_| async move {
                    let _ = echo(stream).await;
                });
            })
        })?;
        Ok(())
    })?;
    Ok(())
}
