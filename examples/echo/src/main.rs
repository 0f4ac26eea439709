//! An echo server: what a client sends comes back. `echo [ADDR:PORT]`, 127.0.0.1:7007 if not said;
//! SIGINT or SIGTERM ends it.
//!
//! One stage, whose operations are the connections. Sixty-four of them make a cohort, so the answers
//! of sixty-four clients go to the kernel together.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream, bind};
use phalanx::shutdown::is_draining;
use phalanx::{Graph, Runtime, sleep};

/// A client that is silent for so long is gone.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(60));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7007".to_owned()).parse()?;
    let processors = std::thread::available_parallelism()?.get();
    let sockets = Mutex::new(bind(address, processors)?);
    let listening = sockets.lock().unwrap()[0].local_addr()?;

    let mut graph = Graph::new();
    let clients = graph.stage("clients").max_cohort(64).shared(());
    let start = |_: &phalanx::runtime::StartContext| {
        let socket = sockets.lock().unwrap().pop().expect("one for each processor");
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

/// The next connection; none when the program is asked to finish.
async fn next(listener: &Listener) -> Option<Stream> {
    while !is_draining() {
        match listener.accept().await {
            Ok(stream) => return Some(stream),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
    None
}

/// A connection's whole life.
async fn echo(stream: Stream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, IDLE_TIMEOUT.until_shutdown()).await? > 0 {
        let payload = phalanx::net::Payload { head: bytes, ..Default::default() };
        bytes = stream.write(payload, IDLE_TIMEOUT).await?;
    }
    Ok(())
}
