//! Serves the application: `{{project-name}} [ADDRESS]`, on 127.0.0.1:3000 by default. The environment variable
//! `ADMIN_ADDRESS` adds the admin pages: a live view, and metrics for Prometheus.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::thread::available_parallelism;
use std::time::Duration;

use phalanx::net::Listeners;
use phalanx::runtime::raise_open_files;
use phalanx::{Graph, Runtime};
use phalanx_axum::Options;
use {{crate_name}}::{Counters, router};

/// Time in which a client must send the head of a request. Connections that are idle for so long are closed, too: a proxy
/// must keep its idle connections for a shorter time, or this must be longer. Many proxies keep them for 60 seconds.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which requests complete after SIGTERM or SIGINT.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of connections and calls of a processor. A further connection is closed, a further call is answered
/// with 503. An idle connection takes 21 KB.
const MAX_OPERATIONS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let admin = env::var("ADMIN_ADDRESS").ok().map(|address| address.parse()).transpose()?;
    let processors = available_parallelism()?.get();
    // Each connection is an open file; a shell usually grants 1,024.
    raise_open_files();
    let mut graph = Graph::new();
    graph.max_operations(MAX_OPERATIONS);
    let http = Options::new().header_timeout(HEADER_TIMEOUT).declare(&mut graph);
    let app = router(Counters::declare(&mut graph));
    let listeners = Listeners::bind(address.parse()?, processors)?;
    // An output without a reader does not end the server.
    let _ = writeln!(io::stdout(), "listening on http://{}", listeners.local_addr());
    let runtime = Runtime::new().processors(processors).admin(admin);
    let runtime = runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    runtime.run(graph, |start| {
        http.serve(listeners.listener(start)?, app.clone())?;
        Ok(())
    })?;
    Ok(())
}
