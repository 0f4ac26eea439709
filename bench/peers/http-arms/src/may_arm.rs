//! The arm on may.

use std::io;

use bytes::BufMut;
use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};

use crate::{MESSAGE, Outcome, announce, bound};

struct Json;

impl HttpService for Json {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        match request.path() {
            "/json" => {
                response.header("Content-Type: application/json");
                serde_json::to_writer(response.body_mut().writer(), &MESSAGE)?;
            }
            _ => _ = response.status_code(404, "Not Found"),
        }
        Ok(())
    }
}

/// A service for each connection, whose descriptor selects its thread.
struct Services;

impl HttpServiceFactory for Services {
    type Service = Json;

    fn new_service(&self, _descriptor: usize) -> Json {
        Json
    }
}

/// Serves until the process is killed, with the stacks of may_minihttp's entry at TechEmpower.
pub(crate) fn serve(processors: usize) -> Outcome {
    may::config().set_workers(processors).set_pool_capacity(1000).set_stack_size(0x1000);
    // may_minihttp does not tell its port. A socket that does not listen keeps a free one.
    let reserved = bound(None)?;
    let address = crate::address(&reserved)?;
    let server = Services.start(address)?;
    announce(address);
    server.join().map_err(|_| "the server panicked")?;
    Ok(())
}
