//! The effects of a reload on connections that are open, and on a server without any.

use std::collections::VecDeque;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::http::Client;
use phalanx_testkit::http2::Connection;
use phalanx_testkit::{TIMEOUT, eventually, tcp};
use phalanx_web::{
    AccessLog, Config, HealthCheck, HostConfig, Inherited, LogTarget, Scheme, Tls, operate,
};
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::raise;
use tokio::sync::Notify;

use crate::common::{
    RELOADING, Reloads, Server, connect, metric, read_until, run, small_and_large,
};
use crate::proxy::backend::{Backend, passing};
use crate::proxy::multiplexed::server::{Call, H2Server, Served, head, send};

/// Runs `test` on each driver with a server that `before` describes, and the function that makes it use another
/// configuration, which `after` makes of the first.
fn reloading(
    before: impl Fn(&Path) -> Config,
    after: impl Fn(&mut Config, &Path),
    test: impl Fn(&Server, &Path, &dyn Fn()),
) {
    trying_to_reload(before, after, |server, home, reload| {
        test(server, home, &|| reload().unwrap());
    });
}

/// Like [`reloading`], with a function that returns the errors of the reload.
fn trying_to_reload(
    before: impl Fn(&Path) -> Config,
    after: impl Fn(&mut Config, &Path),
    test: impl Fn(&Server, &Path, &dyn Fn() -> Result<(), String>),
) {
    let _alone = RELOADING.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let home = tempfile::tempdir().unwrap();
        let mut config = before(home.path());
        config.listen = vec![Scheme::Http.at((tcp::unique_loopback(), 0))];
        config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
        (config.runtime.driver, config.runtime.signals) = (driver, false);
        config.max_queue_delay = None;
        let mut next = config.clone();
        after(&mut next, home.path());
        let (reloaded, is_reloaded) = channel();
        let mut started = None;
        let start = || {
            let serve = |up| {
                let operator = Reloads { up, next: VecDeque::from([next]).into(), reloaded };
                operate(config, Inherited::default(), Arc::new(operator))
            };
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        test(&server, home.path(), &|| {
            raise(SIGHUP).unwrap();
            is_reloaded.recv_timeout(TIMEOUT).unwrap()
        });
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}

fn two_workers(home: &Path) -> Config {
    let mut config = small_and_large(home);
    config.runtime.workers = 2;
    config
}

/// It reports the errors that `--check` reports, and the previous configuration stays in use.
#[test]
fn a_reload_reports_all_errors() {
    trying_to_reload(
        two_workers,
        |next, home| {
            next.hosts[0].fallback = Some("no-page.html".into());
            next.hosts[0].server_names = vec!["a".into()];
            next.hosts.push(HostConfig::new(home.join("no-root")));
            let target = LogTarget::File(home.join("no-folder/log"));
            next.hosts[1].access_log = Some(AccessLog { target, ..AccessLog::default() });
            next.listen.push(Scheme::Http.at(([192, 0, 2, 1], 1)));
            let file = |name| home.join(name);
            next.hosts[0].tls = Some(Tls { certificate: file("no-cert"), key: file("no-key") });
        },
        |server, _, reload| {
            let errors = reload().unwrap_err();
            for name in ["no-page.html", "no-root", "no-cert", "192.0.2.1:1"] {
                assert!(errors.lines().any(|line| line.contains(name)), "{name}: {errors}");
            }
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/small").status, 200);
            assert_eq!(client.get("/missing").status, 404);
        },
    );
}

/// Files and directories that this process has open.
fn open_paths() -> Vec<PathBuf> {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect()
}

/// No client connects, so no operation loads the new configuration.
#[test]
#[cfg(target_os = "linux")]
fn an_idle_server_closes_what_only_the_old_configuration_has() {
    let other = |home: &Path| home.join("other");
    reloading(
        |home| {
            std::fs::create_dir(other(home)).unwrap();
            two_workers(home)
        },
        |next, home| next.hosts[0].root = other(home),
        |_, home, reload| {
            let has = |path: PathBuf| open_paths().contains(&path.canonicalize().unwrap());
            assert!(has(home.join("root")));
            reload();
            assert!(has(other(home)));
            eventually("the old root is closed", || (!has(home.join("root"))).then_some(()));
        },
    );
}

/// The health checks end immediately, although the next one is due in an hour and a request still uses the server.
#[test]
fn checks_of_removed_servers_end() {
    let up = Backend::new(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /api/events ") {
                peer.say("HTTP/1.1 200 OK\r\n\r\nbegun");
                return peer.drain();
            }
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let hourly = || HealthCheck { interval: Duration::from_secs(3600), ..HealthCheck::default() };
    let name = format!("http_upstream_up{{server=\"http://{}\"}}", up.address);
    reloading(
        |_| passing(up.address, |proxy| proxy.health = Some(hourly())),
        |next, _| next.hosts[0].proxies.clear(),
        |server, _, reload| {
            let mut client = connect(server);
            client.write_all(b"GET /api/events HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            read_until(&mut client, "begun\r\n");
            eventually(&name, || metric(server, &name).filter(|up| *up == 1));
            reload();
            eventually("no result", || metric(server, &name).is_none().then_some(()));
        },
    );
}

/// A request over HTTP/2 continues at the server that the configuration no longer has, and the next one of its client goes
/// to the other server. Then the connection to the first server ends.
#[test]
fn requests_over_http2_continue_at_removed_servers() {
    let released = Arc::new(Notify::new());
    let start_server = |name: &'static str| {
        let released = released.clone();
        H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
            let released = released.clone();
            Box::pin(async move {
                let mut answer = respond.send_response(head(200), false).unwrap();
                send(&mut answer, name.into(), false).await;
                if request.method() == "POST" {
                    released.notified().await;
                }
                send(&mut answer, ".".into(), true).await;
            })
        })
    };
    let url = |server: &H2Server| vec![format!("h2c://{}", server.address).parse().unwrap()];
    let (first, second) = (start_server("first"), start_server("second"));
    reloading(
        |_| {
            let mut config = passing(first.address, |proxy| proxy.to = url(&first));
            config.h2c = true;
            config
        },
        |next, _| next.hosts[0].proxies[0].to = url(&second),
        |server, _, reload| {
            let mut client = Connection::open(server.address, &[]);
            client.post(1, "/api/x");
            client.data(1, true, b"");
            client.read_until(|client| client.content(1) == b"first");
            reload();
            client.get(3, "/api/x");
            assert_eq!(client.answer(3), (200, b"second.".to_vec()));
            released.notify_one();
            assert_eq!(client.answer(1), (200, b"first.".to_vec()));
            eventually("it ends", || (first.ended() == first.accepted()).then_some(()));
        },
    );
}

/// Sends requests over HTTP/1.1 and HTTP/2 before and after a reload between these limits.
fn rates(before: Option<f64>, after: Option<f64>, wanted: [u16; 3]) {
    let change = |config: &mut Config, rate| {
        let limits = &mut config.per_address;
        (limits.requests_per_second, limits.burst) = (rate, 1);
    };
    reloading(
        |home| {
            let mut config = two_workers(home);
            config.h2c = true;
            change(&mut config, before);
            config
        },
        |next, _| change(next, after),
        |server, _, reload| {
            let mut client = Client::connect(server.address);
            let mut other = Connection::open(server.address, &[]);
            let mut ask = |stream| {
                other.get(stream, "/none");
                [client.get("/none").status, other.answer(stream).0]
            };
            assert_eq!(ask(1), [wanted[0]; 2]);
            reload();
            assert_eq!(ask(3), [wanted[1]; 2]);
            assert_eq!(ask(5), [wanted[2]; 2]);
        },
    );
}

#[test]
fn a_rate_applies_to_open_connections() {
    rates(None, Some(0.001), [404, 404, 429]);
}

#[test]
fn another_rate_applies_to_open_connections() {
    rates(Some(0.001), Some(0.002), [404, 404, 429]);
}

#[test]
fn a_removed_rate_limits_no_open_connections() {
    rates(Some(0.001), None, [404, 404, 404]);
}

/// The limit of a body that is read and discarded.
#[test]
fn a_smaller_body_applies_to_open_connections() {
    reloading(
        |home| Config { h2c: true, ..two_workers(home) },
        |next, _| next.limits.body = 10,
        |server, _, reload| {
            let mut client = Connection::open(server.address, &[]);
            let mut ask = |stream| {
                client.post(stream, "/none");
                client.data(stream, true, &[0; 11]);
                client.answer(stream).0
            };
            assert_eq!(ask(1), 405);
            reload();
            assert_eq!(ask(3), 413);
        },
    );
}
