//! The same axum `Router` on Phalanx and on tokio, for `phalanx-bench axum`.
//!
//! `phalanx-axum-arms ARM PROCESSORS` serves until it is killed and prints `listening on http://ADDRESS`. The arms:
//!
//! - `phalanx`: `phalanx_axum::serve`, with a processor for each core.
//! - `axum-serve`: `axum::serve` on tokio's work-stealing runtime, as in axum's examples.
//! - `tokio-cores`: `axum::serve` on a single-threaded runtime and a listener for each core.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use socket2::{Domain, Socket, Type};
use tokio::runtime::Builder;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The answer, as in the JSON test of TechEmpower.
#[derive(Serialize)]
struct Message {
    message: &'static str,
}

fn app() -> Router {
    Router::new().route("/json", get(|| async { Json(Message { message: "Hello, World!" }) }))
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: phalanx-axum-arms phalanx|axum-serve|tokio-cores PROCESSORS";
    let [arm, processors] = &arguments[..] else { return Err(usage.into()) };
    let processors = processors.parse()?;
    match arm.as_str() {
        "phalanx" => {
            let server = phalanx_axum::serve("127.0.0.1:0", app()).processors(processors);
            let address = server.local_addr()?;
            Ok(server.run_and(|_| announce(address))?)
        }
        "axum-serve" => {
            let runtime =
                Builder::new_multi_thread().worker_threads(processors).enable_all().build()?;
            runtime.block_on(serve(listen(None)?, true))
        }
        "tokio-cores" => tokio_cores(processors),
        _ => Err(usage.into()),
    }
}

fn tokio_cores(processors: usize) -> Outcome {
    let first = listen(None)?;
    let address = first.local_addr()?;
    let others = (1..processors).map(|_| listen(Some(address))).collect::<Result<Vec<_>, _>>()?;
    let each = |listener, announces| -> Outcome {
        Builder::new_current_thread().enable_all().build()?.block_on(serve(listener, announces))
    };
    for listener in others {
        std::thread::spawn(move || each(listener, false));
    }
    each(first, true)
}

async fn serve(listener: TcpListener, announces: bool) -> Outcome {
    let address = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    if announces {
        announce(address);
    }
    // As `phalanx-axum` and TechEmpower's entry set it.
    let listener =
        axum::serve::ListenerExt::tap_io(listener, |stream| _ = stream.set_nodelay(true));
    axum::serve(listener, app()).await?;
    Ok(())
}

/// A listener that shares its port with others.
fn listen(address: Option<SocketAddr>) -> std::io::Result<TcpListener> {
    let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}
