//! The arm on ntex.

use ntex::SharedCfg;
use ntex::http::{HttpServiceConfig, KeepAlive};
use ntex::time::Seconds;
use ntex::web::{self, App, HttpResponse, HttpServer};

use crate::{MESSAGE, Outcome, announce, bound};

#[web::get("/json")]
async fn json() -> HttpResponse {
    HttpResponse::Ok().json(&MESSAGE)
}

/// Serves until the process is killed, without timeouts of connections, as in ntex's entry at TechEmpower.
#[ntex::main]
pub(crate) async fn serve(processors: usize) -> Outcome {
    let socket = bound(None)?;
    socket.listen(1024)?;
    let address = crate::address(&socket)?;
    let http = HttpServiceConfig::new();
    let http = http.set_keepalive(KeepAlive::Os).set_client_timeout(Seconds::ZERO);
    let server = HttpServer::new(async || App::new().service(json))
        .workers(processors)
        .config(SharedCfg::new("json").add(http))
        .listen(socket.into())?
        .run();
    announce(address);
    Ok(server.await?)
}
