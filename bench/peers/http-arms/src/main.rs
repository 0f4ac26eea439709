//! The answer of `/json` of `bench/peers/axum-arms` by HTTP servers on other runtimes, for `phalanx-bench axum`.
//!
//! `phalanx-http-arms ARM PROCESSORS` serves until it is killed and prints `listening on http://ADDRESS`. The arms, each
//! with io_uring where the kernel has it (`may-minihttp` has epoll only):
//!
//! - `ntex`: a web application of ntex on its own runtime, with a worker for each core.
//! - `monoio`: monoio-http on a runtime of monoio for each core, with a listener for each.
//! - `may-minihttp`: coroutines of may on a thread for each core.

mod may_arm;
mod monoio_arm;
mod ntex_arm;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use serde::Serialize;
use socket2::{Domain, Socket, Type};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The answer of `/json`, as in the JSON test of TechEmpower.
#[derive(Serialize)]
struct Message {
    message: &'static str,
}

const MESSAGE: Message = Message { message: "Hello, World!" };

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: phalanx-http-arms ntex|monoio|may-minihttp PROCESSORS";
    let [arm, processors] = &arguments[..] else { return Err(usage.into()) };
    let processors = processors.parse()?;
    match arm.as_str() {
        "ntex" => ntex_arm::serve(processors),
        "monoio" => monoio_arm::serve(processors),
        "may-minihttp" => may_arm::serve(processors),
        _ => Err(usage.into()),
    }
}

/// Says where the server listens.
fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}

/// A socket that shares its port, by default a free one, with others. It does not listen yet.
fn bound(address: Option<SocketAddr>) -> io::Result<Socket> {
    let address = address.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP address"))
}
