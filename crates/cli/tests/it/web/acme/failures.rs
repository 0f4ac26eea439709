//! Failures of an authority, of the disk, and of stderr.

use std::fs;
use std::sync::atomic::Ordering;

use phalanx_testkit::eventually;
use phalanx_testkit::process::Signal;

use super::Setting;
use super::authorities::{Pebble, dns_authority, limiting_authority, pebble, refusing_authority};
use crate::on_one_driver;
use crate::server::{Server, without_stderr};

on_one_driver!(
    limits_are_respected,
    a_limit_of_orders,
    delays_are_forgotten,
    a_refused_challenge,
    a_challenge_that_is_not_offered,
    a_full_disk_orders_nothing,
    a_full_disk_loses_no_certificate,
    stderr_fails
);

/// The next attempt is at the time that the authority asked for, also after a restart and after SIGHUP.
fn limits_are_respected(driver: &'static str) {
    const STATUSES: [&str; 1] = ["429 Too Many Requests\r\nRetry-After: 7200"];
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let refused = refusing_authority(&setting.authority, setting.port, &STATUSES);
    setting.server.signal(Signal::HUP);
    setting.logged("too many accounts (urn:ietf:params:acme:error:rateLimited)");
    setting.logged("next attempt in 2 hours\n");
    setting.restart(driver);
    setting.logged("a.test, www.a.test: 2 failures; next attempt in");
    for n in [1, 2] {
        setting.reload(n);
        let waits = "a.test, www.a.test: 2 failures; next attempt in";
        eventually("no attempt", || {
            (setting.server.stderr().matches(waits).count() == n + 1).then_some(())
        });
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1);
}

/// If the authority has reached a limit, a refused order that replaces a certificate is not repeated as an ordinary
/// one.
fn a_limit_of_orders(driver: &'static str) {
    let setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    fs::write(setting.stored("a.test.pem"), due_certificate(&["a.test", "www.a.test"])).unwrap();
    let orders = limiting_authority(&setting.authority, setting.port);
    setting.reload(1);
    setting.logged("wait\\nphalanx: forged (urn:ietf:params:acme:error:rateLimited)");
    setting.logged("next attempt in 2 hours\n");
    assert_eq!(orders.load(Ordering::Relaxed), 1);
}

/// A delay that the authority asked for holds for the next attempt, not for later ones.
fn delays_are_forgotten(driver: &'static str) {
    const STATUSES: [&str; 2] =
        ["429 Too Many Requests\r\nRetry-After: 7200", "503 Service Unavailable"];
    let setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    // The certificate is due, so the server needs its account twice: for the advice on renewal, and for the order.
    let pair = due_certificate(&["a.test", "www.a.test"]);
    fs::write(setting.stored("a.test.pem"), pair).unwrap();
    let refused = refusing_authority(&setting.authority, setting.port, &STATUSES);
    setting.reload(1);
    eventually("another failure", || {
        let text = setting.server.stderr();
        (text.matches("; next attempt in ").count() == 2).then_some(())
    });
    assert_eq!(refused.load(Ordering::Relaxed), 2);
    setting.logged("next attempt in 10 minutes, or at SIGHUP");
}

/// A certificate with its key that ends in a day, after most of its lifetime.
fn due_certificate(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    let end = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), end.into());
    // Its identifier for the authority.
    params.use_authority_key_identifier_extension = true;
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem() + &key.serialize_pem()
}

/// No address has port 80, which may be that of a container. After a refused TLS-ALPN-01 challenge, the next order uses
/// HTTP-01.
fn a_refused_challenge(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let setting = Setting::new(driver, "auto");
    setting.logged("no certificate");
    let http = setting.http.expect("an address without TLS").port();
    let authority = Pebble::start(&program, &setting, 7_776_000, (http, 1));
    setting.reload(1);
    setting.logged("no certificate (tls-alpn-01): ");
    setting.logged("a.test: ");
    setting.logged("urn:ietf:params:acme:error:unauthorized");
    setting.logged("next attempt in 10 minutes, or at SIGHUP");
    setting.reload(2);
    setting.logged("certificate issued, valid for 89 days (http-01)");
    assert_eq!(authority.end(), 2, "orders");
}

/// Each attempt tries another challenge for the same order.
fn a_challenge_that_is_not_offered(driver: &'static str) {
    let setting = Setting::new(driver, "auto");
    setting.logged("no certificate");
    dns_authority(&setting.authority, setting.port);
    for (n, kind) in ["tls-alpn-01", "http-01"].into_iter().enumerate() {
        setting.reload(n + 1);
        setting.logged(&format!(
            "no certificate ({kind}): the authority offers no {kind} for a.test; next attempt in"
        ));
    }
}

/// If the key cannot be stored, no certificate is ordered.
fn a_full_disk_orders_nothing(driver: &'static str) {
    let setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let key = setting.stored("a.test.order");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    let requests = refusing_authority(&setting.authority, setting.port, &["403 Forbidden"]);
    setting.server.signal(Signal::HUP);
    setting.logged(&format!("cannot write {}", key.display()));
    assert_eq!(requests.load(Ordering::Relaxed), 0);
}

/// A certificate that cannot be stored is kept, and a restart gets it once more, without another order.
fn a_full_disk_loses_no_certificate(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let authority = setting.authority(&program, 7_776_000);
    let file = setting.stored("a.test.pem");
    fs::create_dir(&file).unwrap();
    setting.server.signal(Signal::HUP);
    setting.logged("a.test, www.a.test: the certificate is issued, but cannot write");
    setting.restart(driver);
    setting.logged("a.test, www.a.test: the certificate is issued, but cannot write");
    fs::remove_dir(&file).unwrap();
    setting.server.signal(Signal::HUP);
    setting.logged("a.test, www.a.test: certificate issued, valid for 89 days");
    assert_eq!(setting.metric("acme_orders_total{result=\"issued\"}"), "1");
    assert_eq!(setting.metric("acme_certificates_missing"), "0");
    assert_eq!(authority.end(), 1, "orders");
}

/// A server whose stderr accepts nothing gets its certificate after a failure.
fn stderr_fails(driver: &'static str) {
    let Some(program) = pebble().filter(|_| cfg!(target_os = "linux")) else { return };
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    setting.server.ends_well();
    fs::remove_file(setting.stored("a.test.failures")).unwrap();
    setting.server = Server::launch(without_stderr(&setting.command(driver)));
    eventually("the first failure", || setting.stored("a.test.failures").exists().then_some(()));
    let _authority = setting.authority(&program, 7_776_000);
    setting.server.signal(Signal::HUP);
    eventually("a certificate", || {
        setting.shown("a.test").contains("BEGIN CERTIFICATE").then_some(())
    });
}
