//! The port of redirects to TLS.

use phalanx_web::{Scheme, Tls};

use crate::common::Server;
use crate::guard::harness::on_each_driver;
use crate::simulation::wire::IDENTITY;

#[test]
fn redirects_name_the_port_that_clients_use() {
    for (announced, shown) in [(None, None), (Some(8443), Some(":8443")), (Some(443), Some(""))] {
        on_each_driver(
            |config, _| {
                let [certificate, key] = IDENTITY.files();
                config.hosts[0].tls = Some(Tls { certificate, key });
                let at = |scheme: Scheme| scheme.at(([127, 0, 0, 1], 0));
                config.listen = vec![at(Scheme::RedirectHttps), at(Scheme::Https)];
                config.https_port = announced;
            },
            |server: &Server, _| {
                let port = format!(":{}", server.addresses[1].port());
                let text = crate::guard::harness::get(server, "/a");
                let wanted =
                    format!("\r\nLocation: https://localhost{}/a\r\n", shown.unwrap_or(&port));
                assert!(text.starts_with("HTTP/1.1 308 ") && text.contains(&wanted), "{text}");
            },
        );
    }
}
