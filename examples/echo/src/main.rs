//! An echo server. `echo [ADDR:PORT]`, by default 127.0.0.1:7007; SIGINT or SIGTERM stops it.
//!
//! It has one stage, whose operations are the connections. A cohort is at most sixty-four of them, so the answers
//! of sixty-four clients are submitted to the kernel together.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream, bind};
use phalanx::shutdown::is_draining;
use phalanx::{Graph, Runtime, sleep};

/// Idle timeout of a client.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(60));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7007".to_owned()).parse()?;
    let processors = std::thread::available_parallelism()?.get();
    let sockets = Mutex::new(bind(address, processors)?);
    let listening = sockets.lock().unwrap()[0].local_addr()?;

    let mut graph = Graph::new();
    let clients = graph.stage("clients").max_cohort(64).shared(());
    let start = |_: &phalanx::runtime::StartContext| {
        let socket = sockets.lock().unwrap().pop().expect("one per processor");
        let listener = Listener::new(socket)?;
        clients.dispatch(move |_| async move {
            while let Some(stream) = next(&listener).await {
                let _ = clients.dispatch(move |_| async move { _ = echo(stream).await });
            }
        })?;
        Ok(())
    };
    let runtime = Runtime::new().processors(processors);
    runtime.run_and(graph, start, |_| println!("listening on {listening}"))?;
    Ok(())
}

/// The next connection; `None` when the program is asked to shut down.
async fn next(listener: &Listener) -> Option<Stream> {
    while !is_draining() {
        match listener.accept().await {
            Ok(stream) => return Some(stream),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
    None
}

/// Serves one connection.
async fn echo(stream: Stream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, IDLE_TIMEOUT.until_shutdown()).await? > 0 {
        let payload = phalanx::net::Payload { head: bytes, ..Default::default() };
        bytes = stream.write(payload, IDLE_TIMEOUT).await?;
    }
    Ok(())
}
