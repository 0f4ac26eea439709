//! `OPTIONS` of paths that require a password.

use phalanx_testkit::http::Client;
use phalanx_web::{Auth, HeaderRule};

use crate::guard::harness::on_each_driver;

/// By `htpasswd -nbB`: the password is `apple`.
const USERS: &str = "eve:$2y$05$S/mVIKWr68CdjrqHTDjpi.6gEo.A9MT0cPoxs97RVEcxqRRom0j4e\n";

/// `eve:apple`.
const EVE: &str = "Authorization: Basic ZXZlOmFwcGxl\r\n";

/// A client without a password sees no fields that rules add to protected paths.
#[test]
fn fields_of_protected_paths_require_a_password() {
    on_each_driver(
        |config, home| {
            let users = home.join("users");
            std::fs::write(&users, USERS).unwrap();
            let path = "/private/**".to_owned();
            let field = |name: &str| HeaderRule {
                path: path.clone(),
                name: name.into(),
                value: "inside".into(),
                errors: false,
            };
            let host = &mut config.hosts[0];
            host.headers = vec![field("X-Inside"), field("Access-Control-Allow-Methods")];
            host.auth = vec![Auth { path, realm: "the garden".into(), users }];
        },
        |server, _| {
            let mut client = Client::connect(server.address);
            let mut ask = |path: &str, lines: &str| {
                client.send(format!("OPTIONS {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
                let response = client.response();
                let has = |name| response.field(name) == Some("inside");
                (response.status, has("X-Inside"), has("Access-Control-Allow-Methods"))
            };
            assert_eq!(ask("/private/file", ""), (401, false, false));
            assert_eq!(ask("/private/file", EVE), (204, true, true));
            for path in ["*", "/open"] {
                assert_eq!(ask(path, ""), (204, false, false), "{path}");
            }
            // Browsers send no password along with this.
            let preflight = "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n";
            assert_eq!(ask("/private/file", preflight), (204, false, true));
        },
    );
}
