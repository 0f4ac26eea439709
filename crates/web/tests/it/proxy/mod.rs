//! The reverse proxy, with servers and clients that are driven by hand.

pub(crate) mod backend;
pub(crate) mod bodies;
mod disconnects;
mod failures;
mod heads;
mod health;
mod host_fields;
mod hostile;
mod http2;
pub(crate) mod multiplexed;
mod overload;
mod paths;
mod tls;
mod upgrade;

use std::sync::Mutex;

use backend::{Backend, passing};
use phalanx_web::Proxy;

use crate::common::{Server, on_each_driver};

/// Runs `test` with a proxy before each of the backends that `backend` makes, on each driver.
fn with(
    backend: impl Fn() -> Backend,
    change: impl Fn(&mut Proxy),
    test: impl Fn(&Server, &Backend),
) {
    let running = Mutex::new(None);
    on_each_driver(
        |_| {
            let backend = backend();
            let mut config = passing(backend.address, &change);
            config.h2c = true;
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            let backend = running.lock().unwrap().take().expect("it was started");
            test(server, &backend);
        },
    );
}
