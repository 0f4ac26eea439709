//! Configuration files: errors are reported with their position, and printed configurations read back the
//! same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_web::{
    AccessLog, CacheRule, Config, ConfigError, Cors, HeaderRule, HostConfig, LogFormat, LogTarget,
    Origins, Redirect, RedirectStatus, Rewrite, Scheme, SecurityHeaders, Symlinks, Tls,
    UnknownHost,
};
use proptest::prelude::*;

#[path = "../../../config/tests/servers/mod.rs"]
mod servers;

/// Reads and checks, like `phalanx web --check`.
fn read(text: &str) -> Result<Config, Vec<ConfigError>> {
    let (mut config, mut origins) = (Config::new(), Origins::default());
    config.read(text, "web.toml", Path::new(""), &mut origins)?;
    let errors: Vec<_> = config.check().into_iter().map(|m| m.located(&origins)).collect();
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

#[test]
fn errors_name_their_position() {
    // (text, start of the message, another part of it)
    let table: &[(&str, &str, &str)] = &[
        ("listen = ", "web.toml:1:", ""),
        ("a = 1\nb = ]", "web.toml:2:", ""),
        ("listn = 'x'", "web.toml:1:1: listn: ", "did you mean `listen`?"),
        ("zzzzzz = 1", "web.toml:1:1: zzzzzz: ", "expected one of listen, h2c, unknown-host,"),
        ("listen = 'x'", "web.toml:1:10: listen: found 'x', expected a list", "127.0.0.1:8080"),
        ("listen = []", "web.toml:1:10: listen: ", "at least one address"),
        ("cache = '1T'", "web.toml:1:9: cache: found '1T' (unknown unit \"t\"", "256M"),
        ("cache = -1", "web.toml:1:9: cache: found -1, expected", ""),
        ("\n[timeouts]\n  idle = 5", "web.toml:3:10: timeouts.idle: found 5, expected", "30s"),
        ("[timeouts]\nidle = '5 s'", "web.toml:2:8: timeouts.idle: ", ""),
        ("[timeouts]\nidle = '0s'", "web.toml:2:8: timeouts.idle: ", "a positive time"),
        ("[timeouts]\nidel = '5s'", "web.toml:2:1: timeouts.idel: ", "`idle`"),
        ("timeouts = 5", "web.toml:1:12: timeouts: found 5, expected a table", ""),
        ("[runtime]\nworkers = 0", "web.toml:2:11: runtime.workers: ", "1 to 1024"),
        ("[runtime]\ndriver = 'epoll'", "web.toml:2:10: runtime.driver: ", "\"poll\""),
        ("[runtime]\nadmin = '0.0.0.0:1'", "web.toml:2:9: runtime.admin: ", "admin-public"),
        (
            "[runtime]\nadmin-hosts = ['a:1']",
            "web.toml:2:15: runtime.admin-hosts: ",
            "without a port",
        ),
        ("max-connections = 0", "web.toml:1:19: max-connections: ", "at least 1"),
        ("[limits]\nrequest-line = 0", "web.toml:2:16: limits.request-line: ", "at least 1"),
        ("[limits]\nhead = 0", "web.toml:2:8: limits.head: ", "at least 1"),
        ("[limits]\nheaders = 0", "web.toml:2:11: limits.headers: ", "at least 1"),
        ("[per-address]\nconnections = 0", "web.toml:2:15: per-address.connections: ", "false"),
        (
            "[per-address]\nrequests-per-second = 0",
            "web.toml:2:23: per-address.requests-per-second: ",
            "false",
        ),
        (
            "listen = ['[::1]:80', '127.0.0.1:80', 'https://127.0.0.1:80']\n\
             host.tls = { certificate = 'c', key = 'k' }",
            "web.toml:1:10: listen: 127.0.0.1:80 is listed twice",
            "",
        ),
        (
            "listen = ['127.0.0.1:80', '127.0.0.1', '127.0.0.1:81']",
            "web.toml:1:10: listen: found ['127.0.0.1:80', '127.0.0.1', '127.0.0.1… (not \"127.0.0.1\"), ",
            "expected a list",
        ),
        ("health = 'up'", "web.toml:1:10: health: ", "slash"),
        ("[host]\nlisting = 'yes'", "web.toml:2:11: host.listing: ", "true or false"),
        ("[host]\nerror-pages = { 200 = 'a' }", "web.toml:2:15: host.error-pages: ", "200"),
        ("[host]\nroot = ''", "web.toml:2:8: host.root: ", ""),
        (
            "[[host]]\nserver-names = ['a:80']",
            "web.toml:2:16: host[0].server-names: ",
            "without a port",
        ),
        ("[[host]]\n[[host]]", "web.toml:2:1: host[1].server-names: ", "host 1"),
        (
            "[[host]]\nserver-names = ['a']\n[[host]]\nserver-names = 'A'",
            "web.toml:4:16: host[1].server-names: \"A\" is also a name of host 1",
            "",
        ),
        ("[[host.redirect]]\nfrom = '/a'", "web.toml:2:1: host.redirect[0]: `to` is missing", ""),
        (
            "[[host.redirect]]\nfrom = '/a'\nto = 'b'",
            "web.toml:3:6: host.redirect[0].to: ",
            "expected a path",
        ),
        (
            "[[host.redirect]]\nfrom = '/a'\nto = '/b'\nstatus = 303",
            "web.toml:4:10: host.redirect[0].status: ",
            "307",
        ),
        ("[[host.rewrite]]\nfrom = 'a/b'\nto = '/b'", "web.toml:2:8: host.rewrite[0].from: ", ""),
        (
            "[[host.header]]\npath = '*'\nname = 'Date'\nvalue = 'x'",
            "web.toml:3:8: host.header[0].name: ",
            "the server itself",
        ),
        (
            "[[host.cache-control]]\npath = '['\nvalue = 'x'",
            "web.toml:2:8: host.cache-control[0].path: ",
            "glob",
        ),
        ("[host.cors]\norigins = []", "web.toml:2:11: host.cors.origins: ", ""),
        (
            "[host.cors]\norigins = '*'\ncredentials = true",
            "web.toml:3:15: host.cors.credentials: ",
            "list the origins",
        ),
        ("listen = 'https://[::]:443'", "web.toml:1:10: listen: ", "no host has a certificate"),
        ("listen = 'redirect-https://[::]:80'", "web.toml:1:10: listen: ", "no address uses TLS"),
        ("[host]\ntls = true", "web.toml:2:7: host.tls: `certificate` is missing", ""),
        ("[host.tls]\nkey = 'k'", "web.toml:2:1: host.tls: `certificate` is missing", ""),
        ("[access-log]\ntarget = 'log'", "web.toml:2:10: access-log.target: ", "slash"),
    ];
    servers::errors_are_reported(read, table);
    let all = read("listn = 1\ncache = 'x'\n[host]\nlisting = 3\nrot = 'x'").unwrap_err();
    assert_eq!(all.len(), 4, "all at once: {all:?}");
}

#[test]
fn keys_are_read() {
    let text = "
        listen = ['127.0.0.1:80', 'https://[::]:443']
        max-queue-delay = false
        [host]
        index = 'home.html'
        security-headers = true
        error-pages = { 404 = 'no.html', 500 = 'sorry.html' }
        tls = { certificate = 'c.pem', key = 'k.pem' }
        cache-control = [{ path = '*.css', value = 'no-cache' }]
    ";
    let config = read(text).unwrap();
    assert_eq!(config.listen[1], "https://[::]:443".parse().unwrap());
    assert_eq!(config.max_queue_delay, None);
    let host = &config.hosts[0];
    assert_eq!((&host.root, &host.index[..]), (&PathBuf::from("."), &["home.html".to_owned()][..]));
    assert_eq!(host.security_headers, Some(SecurityHeaders::default()));
    assert_eq!(host.error_pages[1], (500, "sorry.html".to_owned()));
    // Read over it: keys that are not given keep their values.
    let mut over = config.clone();
    let mut origins = Origins::default();
    over.read("[host]\nroot = 'x'", "b", "/srv".as_ref(), &mut origins).unwrap();
    assert_eq!(over.hosts[0].root, PathBuf::from("/srv/x"));
    assert_eq!(over.hosts[0].index, host.index);
    over.read("[host]\nsecurity-headers = false", "b", "".as_ref(), &mut origins).unwrap();
    assert_eq!(over.hosts[0].security_headers, None);
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../docs/web/configuration.md");
    let is_default = |text: &str| {
        let mut config = Config::new();
        config.read(text, text, "".as_ref(), &mut Origins::default()).expect(text);
        config == Config::new()
    };
    let tables =
        &["access-log.", "host.auth.", "host.cors.", "host.redirect.", "host.security-headers."];
    servers::check_page(page, &Config::keys(), tables, is_default);
    let config = read(servers::example(page)).expect("the example is right");
    assert_eq!((config.hosts.len(), config.hosts[0].redirects.len()), (2, 1));
}

fn text() -> impl Strategy<Value = String> {
    prop::string::string_regex("[a-zA-Z0-9 '\"\\\\/\u{e9}\n#=.-]{1,12}").unwrap()
}

fn host() -> impl Strategy<Value = HostConfig> {
    let rules = (
        prop::collection::vec((text(), text(), 0..4), 0..3),
        prop::option::of((prop::collection::vec(text(), 0..3), any::<bool>(), 0..1u64 << 30)),
        prop::option::of((any::<bool>(), prop::option::of(text()))),
        prop::option::of((text(), text())),
    );
    let own = (
        prop::collection::vec(text(), 0..3),
        (text(), prop::option::of(text())),
        any::<[bool; 3]>(),
        prop::collection::btree_map(400..600u16, text(), 0..3),
        0..3usize,
    );
    (own, rules).prop_map(|((names, (root, fallback), flags, errors, links), rules)| {
        let (paths, cors, security, tls) = rules;
        let status = |n| match n {
            0 => RedirectStatus::MovedPermanently,
            1 => RedirectStatus::Found,
            2 => RedirectStatus::Temporary,
            _ => RedirectStatus::Permanent,
        };
        let paths = || paths.clone().into_iter();
        HostConfig {
            server_names: names.clone(),
            root: root.into(),
            index: names,
            listing: flags[0],
            fallback,
            error_pages: errors.into_iter().collect(),
            symlinks: [Symlinks::Deny, Symlinks::OwnerMatches, Symlinks::Follow][links],
            precompressed: flags[1],
            compress: flags[2],
            headers: paths()
                .map(|(path, value, _)| HeaderRule { path, name: value.clone(), value })
                .collect(),
            cache_control: paths().map(|(path, value, _)| CacheRule { path, value }).collect(),
            cors: cors.map(|(origins, credentials, age)| Cors {
                origins: origins.clone(),
                expose: origins,
                credentials,
                max_age: Duration::from_micros(age),
                ..Cors::default()
            }),
            security_headers: security.map(|(nosniff, policy)| SecurityHeaders {
                nosniff,
                content_security_policy: policy.clone(),
                referrer_policy: policy,
                ..SecurityHeaders::default()
            }),
            redirects: paths()
                .map(|(from, to, n)| Redirect { from, to, status: status(n) })
                .collect(),
            rewrites: paths().map(|(from, to, _)| Rewrite { from, to }).collect(),
            tls: tls
                .map(|(certificate, key)| Tls { certificate: certificate.into(), key: key.into() }),
            ..HostConfig::new(".")
        }
    })
}

proptest! {
    #[test]
    fn printed_configurations_read_back(
        hosts in prop::collection::vec(host(), 0..3),
        port in any::<u16>(),
        tls in any::<bool>(),
        rate in prop::option::of(0.0..1e9f64),
        nanos in any::<u32>(),
        log in prop::option::of(prop::option::of(text())),
        unknown in 0..3usize,
    ) {
        let mut config = Config { hosts, ..Config::new() };
        let scheme = if tls { Scheme::Https } else { Scheme::RedirectHttps };
        config.listen = vec![scheme.at(([127, 0, 0, 1], port)); 2];
        config.per_address.requests_per_second = rate;
        config.timeouts.idle = Duration::from_nanos(nanos.into());
        config.max_queue_delay = (nanos % 2 == 0).then_some(Duration::from_millis(nanos.into()));
        config.unknown_host =
            [UnknownHost::First, UnknownHost::NotFound, UnknownHost::Misdirected][unknown];
        config.access_log = log.map(|path| AccessLog {
            format: LogFormat::Json,
            target: path.map_or(LogTarget::Stdout, |path| LogTarget::File(format!("/{path}").into())),
        });
        let text = config.to_toml();
        let mut again = Config::of("other");
        let read = again.read(&text, "printed", Path::new(""), &mut Origins::default());
        prop_assert!(read.is_ok(), "{text}\n{read:?}");
        prop_assert_eq!(again, config, "{}", text);
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn no_tables_break_the_reader(
        lines in prop::collection::vec("(\\[{1,2}(host|timeouts|host.cors|host.redirect|x)\\]{1,2}\n)?(names|root|from|to|idle|origins|errors|status) = (1|true|'a'|\\['a',2\\]|\\{a=1\\})", 0..6),
    ) {
        let _ = read(&lines.join("\n"));
    }
}
