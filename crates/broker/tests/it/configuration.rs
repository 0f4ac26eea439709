//! The configuration as text. Errors name their position, and the printed configuration reads back as the same values.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_broker::{Config, ConfigError, Origins, Scheme, Tls, WhenFull};
use proptest::prelude::*;

use servers::Server;

#[path = "../../../config/tests/servers/mod.rs"]
mod servers;

impl Server for Config {
    fn check(&self) -> Vec<ConfigError> {
        self.check()
    }
}

#[test]
fn errors_name_their_position() {
    // (text, the beginning of the message, a part of the rest)
    let table: &[(&str, &str, &str)] = &[
        ("listen = ", "1:", ""),
        (
            "max-queued-mesages = 1",
            "1:1: max-queued-mesages: ",
            "did you mean `max-queued-messages`?",
        ),
        ("zzzzzzzzz = 1", "1:1: zzzzzzzzz: ", "expected one of listen, include,"),
        ("listen = 'x'", "1:10: listen: found 'x', expected an address", "mqtts://"),
        ("listen = 'http://127.0.0.1:1'", "1:10: listen: ", "wss://"),
        ("listen = []", "1:10: listen: ", "no listen address"),
        (
            "listen = ['127.0.0.1:1883', 'ws://[::1]:1883', 'ws://127.0.0.1:1883']",
            "1:10: listen: 127.0.0.1:1883 is listed twice",
            "",
        ),
        (
            "allowed-origins = 'example.org'",
            "1:19: allowed-origins: found \"example.org\", ",
            "https://",
        ),
        (
            "allowed-origins = ['*', 'https://a/']",
            "1:19: allowed-origins: found \"https://a/\", ",
            "",
        ),
        ("listen = '0.0.0.0:1883'", "1:10: listen: 0.0.0.0:1883 ", "--allow-anonymous"),
        ("logins = 'jwt'\npassword-file = 'u'", "1:10: logins: ", "127.0.0.1:1883"),
        (
            "password-file = 'u'\n[[listener]]\naddress = 'mqtt://127.0.0.1:1883'\nlogins = []",
            "4:10: listener[0].logins: ",
            "allow-anonymous",
        ),
        (
            "[[listener]]\naddress = 'mqtt://127.0.0.1:1883'\nallowed-origins = 'example.org'",
            "3:19: listener[0].allowed-origins: found \"example.org\", ",
            "https://",
        ),
        (
            "persistence-dir = 'd'\n[[listener]]\naddress = 'mqtt://127.0.0.1:1883'\nmax-packet-size = '129M'",
            "4:19: listener[0].max-packet-size: ",
            "with persistence-dir",
        ),
        ("listen = 'mqtts://127.0.0.1:8883'", "1:10: listen: ", "tls.certificate"),
        ("\n[tls]\nkey = 'k'", "2:1: tls: `certificate` is missing", ""),
        ("tls = { certificate = 'c' }", "1:7: tls: `key` is missing", ""),
        ("tls.certificat = 'c'", "1:5: tls.certificat: ", "did you mean `certificate`?"),
        ("persistence-dir = 'd'\nephemeral = true", "2:13: ephemeral: ", "`persistence-dir`"),
        (
            "persistence-dir = ''",
            "1:19: persistence-dir: found '', expected a quoted path",
            "false for none",
        ),
        ("password-file = 1", "1:17: password-file: found 1, expected a quoted path", ""),
        ("allow-anonymous = 'no'", "1:19: allow-anonymous: ", "true or false"),
        ("max-packet-size = '1X'", "1:19: max-packet-size: found '1X'", "unknown unit"),
        (
            "max-packet-size = 127",
            "1:19: max-packet-size: found 127, expected 128 to 268435455",
            "",
        ),
        ("max-connections = 0", "1:19: max-connections: ", "at least 1"),
        ("max-sessions = 0", "1:16: max-sessions: ", "at least 1"),
        ("max-message-rate = 0", "1:20: max-message-rate: ", "false for none"),
        ("max-connection-rate = 0", "1:23: max-connection-rate: ", "false for none"),
        ("receive-maximum = 0", "1:19: receive-maximum: ", "at least 1"),
        ("receive-maximum = 70000", "1:19: receive-maximum: ", "0 to 65535"),
        ("drop-oldest = 1", "1:15: drop-oldest: found 1, expected true or false", ""),
        ("max-keep-alive = 60", "1:18: max-keep-alive: found 60, expected", "\"1s\""),
        ("max-keep-alive = '1d'", "1:18: max-keep-alive: ", "\"65535s\""),
        ("max-keep-alive = '0s'", "1:18: max-keep-alive: ", "\"1s\""),
        ("max-session-expiry = '10ms'", "1:22: max-session-expiry: ", "whole seconds"),
        ("max-persistence-bytes = 'much'", "1:25: max-persistence-bytes: ", "64K"),
        ("connect-timeout = '0s'", "1:19: connect-timeout: ", "1ms to 86400s"),
        ("send-timeout = 5", "1:16: send-timeout: found 5, expected", "30s"),
        ("sys-interval = '10'", "1:16: sys-interval: ", "30s"),
        ("[runtime]\nworkers = 0", "2:11: runtime.workers: ", "1 to 1024"),
        ("[runtime]\ndriver = 'epoll'", "2:10: runtime.driver: ", "\"poll\""),
        ("[runtime]\nadmin = '0.0.0.0:1'", "2:9: runtime.admin: ", "admin-public"),
        ("[runtime]\nadmin-hosts = ['a:1']", "2:15: runtime.admin-hosts: ", "without a port"),
    ];
    servers::errors_are_reported::<Config>(table);
    let all = Config::parse("listn = 1\nmax-queued-messages = 'x'\n[tls]\ncert = 3").unwrap_err();
    assert_eq!(all.len(), 3, "all errors at once: {all:?}");
}

#[test]
fn keys_are_read() {
    let text = "
        listen = ['127.0.0.1:80', 'wss://[::1]:443']
        password-file = 'users'
        drop-oldest = true
        max-keep-alive = '1m'
        max-session-expiry = '2h'
        max-connection-rate = 7
        max-persistence-bytes = '2G'
        tls = { certificate = 'c.pem', key = '/k.pem' }
        runtime.admin = '127.0.0.1:1'
    ";
    let mut config = Config::new();
    let mut origins = Origins::default();
    config.over(text, "/etc/b", &mut origins).unwrap();
    assert_eq!(config.check(), []);
    let wss = "[::1]:443".parse::<std::net::SocketAddr>().unwrap();
    assert_eq!(config.listen[1], Scheme::Wss.at(wss));
    assert_eq!(config.security.password_file, Some("/etc/b/users".into()));
    let limits = &config.limits;
    assert_eq!((limits.when_full, limits.keep_alive), (WhenFull::DropOldest, 60));
    assert_eq!((limits.session_expiry, limits.persistence_bytes), (7200, 2 << 30));
    assert_eq!(limits.connection_rate, Some(7));
    let tls = config.security.tls.as_ref().unwrap();
    assert_eq!(tls.certificate, PathBuf::from("/etc/b/c.pem"));
    assert_eq!((&tls.key, &tls.client_authorities), (&PathBuf::from("/k.pem"), &None));
    // A layer on top: keys that it does not set keep their value.
    let over = "max-connection-rate = false\nmax-session-expiry = false\n[tls]\nclient-ca = 'a'";
    config.over(over, "", &mut origins).unwrap();
    assert_eq!((config.limits.connection_rate, config.limits.session_expiry), (None, u32::MAX));
    let tls = config.security.tls.as_ref().unwrap();
    assert_eq!(tls.client_authorities, Some("a".into()));
    assert_eq!(tls.certificate, PathBuf::from("/etc/b/c.pem"));
    config.over("tls = false\npassword-file = false", "", &mut origins).unwrap();
    assert_eq!((&config.security.tls, &config.security.password_file), (&None, &None));
}

/// Each of the two keys overrides the other one if that is from an earlier source.
#[test]
fn ephemeral_and_persistent() {
    let (mut config, mut origins) = (Config::new(), Origins::default());
    for (text, stored, ephemeral) in [
        ("persistence-dir = 'd'", Some("d"), false),
        ("ephemeral = true", None, true),
        ("max-sessions = 5", None, true),
        ("persistence-dir = 'e'", Some("e"), false),
        ("ephemeral = false", Some("e"), false),
    ] {
        config.over(text, "", &mut origins).unwrap();
        assert_eq!(config.persistence_dir, stored.map(PathBuf::from), "{text}");
        assert_eq!(config.ephemeral, ephemeral, "{text}");
    }
}

#[test]
fn the_reference_is_current() {
    servers::reference_is_current::<Config>("broker");
    let page = include_str!("../../../../docs/broker/configuration.md");
    let config = Config::parse(servers::example(page)).expect("the example is valid");
    assert_eq!((config.listen.len(), config.limits.queued_messages), (3, 1000));
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::string::string_regex("/[a-zA-Z0-9 '\"\\\\\u{e9}\n#=.-]{1,12}")
        .unwrap()
        .prop_map(PathBuf::from)
}

proptest! {
    #[test]
    fn printed_configurations_read_back(
        ports in prop::collection::vec((any::<u16>(), any::<bool>(), any::<bool>()), 0..4),
        (data, passwords, access) in (prop::option::of(path()), prop::option::of(path()), prop::option::of(path())),
        tls in prop::option::of((path(), path(), prop::option::of(path()))),
        origins in prop::collection::vec(".{0,9}", 0..3),
        rates in any::<[Option<u32>; 3]>(),
        amounts in any::<[u32; 10]>(),
        (keep_alive, expiry, receive, aliases) in any::<(u16, u32, u16, u16)>(),
        flags in any::<[bool; 4]>(),
        nanos in any::<[u32; 3]>(),
    ) {
        let mut config = Config::new();
        let scheme = |tls, websocket| match (tls, websocket) {
            (false, false) => Scheme::Mqtt,
            (true, false) => Scheme::Mqtts,
            (false, true) => Scheme::Ws,
            (true, true) => Scheme::Wss,
        };
        let listen = |(port, tls, websocket)| scheme(tls, websocket).at(([127, 0, 0, 1], port));
        config.listen = ports.into_iter().map(listen).collect();
        (config.persistence_dir, config.ephemeral) = (data, flags[0]);
        let security = &mut config.security;
        (security.password_file, security.acl_file, security.allowed_origins) = (passwords, access, origins);
        security.allow_anonymous = flags[1];
        security.tls = tls.map(|(certificate, key, client_authorities)| Tls { certificate, key, client_authorities, client_revoked: None });
        let limits = &mut config.limits;
        [limits.per_address, limits.connection_rate, limits.message_rate] = rates;
        let sizes = amounts.map(|amount| amount as usize);
        [limits.connections, limits.sessions, limits.subscriptions, limits.packet_size, limits.queued_messages, limits.queued_bytes, limits.retained, limits.retained_bytes, _, limits.inflight_deliveries] = sizes;
        limits.persistence_bytes = u64::from(amounts[8]) << 12;
        (limits.keep_alive, limits.session_expiry, limits.receive_maximum, limits.topic_alias) = (keep_alive, expiry, receive, aliases);
        if flags[2] {
            limits.when_full = WhenFull::DropOldest;
        }
        [limits.connect, limits.send, config.system_interval] = nanos.map(|nanos| Duration::from_nanos(nanos.into()));
        (config.runtime.pin, config.content_filters) = (flags[3], flags[2]);
        prop_assert_eq!(config.printed_over(Config::new()), config);
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,200}") {
        let _ = Config::parse(&text);
    }

    #[test]
    fn no_tables_break_the_reader(
        lines in prop::collection::vec("(\\[{1,2}(tls|runtime|listen|x)\\]{1,2}\n)?(listen|tls|persistence-dir|max-queued-messages|key|drain|drop-oldest) = (1|true|'a'|\\['a',2\\]|\\{a=1\\})", 0..6),
    ) {
        let _ = Config::parse(&lines.join("\n"));
    }
}
