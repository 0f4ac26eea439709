//! Configuration files: errors are reported with their position, and printed configurations read back the
//! same.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_web::{
    AccessLog, Alias, CachePreset, CacheRule, Config, ConfigError, Cors, HeaderRule, HostConfig,
    LogFormat, LogTarget, Origins, Redirect, RedirectStatus, Rewrite, Scheme, SecurityHeaders,
    Symlinks, Tls, UnknownHost,
};
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
    // (text, start of the message, another part of it)
    let table: &[(&str, &str, &str)] = &[
        ("listen = ", "1:", ""),
        ("a = 1\nb = ]", "2:", ""),
        ("listn = 'x'", "1:1: listn: ", "did you mean `listen`?"),
        ("zzzzzz = 1", "1:1: zzzzzz: ", "expected one of listen, include, h2c,"),
        ("listen = 'x'", "1:10: listen: found 'x', expected an address", "127.0.0.1:8080"),
        ("listen = [':80']", "1:10: listen: found [':80'], expected an address", "\"8080\""),
        ("listen = []", "1:10: listen: ", "at least one address"),
        ("cache = '1T'", "1:9: cache: found '1T' (unknown unit \"T\"", "256M"),
        ("cache = -1", "1:9: cache: found -1, expected", ""),
        ("\n\n  idle-timeout = 5", "3:18: idle-timeout: found 5, expected", "30s"),
        ("idle-timeout = '5 s'", "1:16: idle-timeout: ", ""),
        ("idle-timeout = '0s'", "1:16: idle-timeout: found \"0s\", expected 1ms to 86400s", ""),
        ("idel-timeout = '5s'", "1:1: idel-timeout: ", "`idle-timeout`"),
        ("cache = '1M'\ncache = '2M'", "2:1: cache: duplicate key", ""),
        ("access-log = 'x'", "1:14: access-log: found 'x', expected true, false or a table", ""),
        ("runtime = 5", "1:11: runtime: found 5, expected a table", ""),
        ("max-queue-delay = false", "1:19: max-queue-delay: found false, expected a time", "60s"),
        ("[runtime]\nworkers = 0", "2:11: runtime.workers: ", "1 to 1024"),
        ("[runtime]\ndriver = 'epoll'", "2:10: runtime.driver: ", "(did you mean \"poll\"?)"),
        ("runtime.driver = 'io_uring'", "1:18: runtime.driver: ", "(did you mean \"uring\"?)"),
        ("runtime.placement = 'no'", "1:21: runtime.placement: found 'no', expected", ""),
        ("access-log.format = 'combine'", "1:21: ", "(did you mean \"combined\"?)"),
        ("[runtime]\nadmin = '0.0.0.0:1'", "2:9: runtime.admin: ", "admin-public"),
        ("[runtime]\nadmin-hosts = ['a:1']", "2:15: runtime.admin-hosts: ", "without a port"),
        ("max-connections = 0", "1:19: max-connections: ", "at least 1"),
        ("max-request-line = 0", "1:20: max-request-line: ", "at least 1"),
        ("max-request-head = 0", "1:20: max-request-head: ", "at least 1"),
        ("max-headers = 0", "1:15: max-headers: ", "1 to 128"),
        ("max-headers = 129", "1:15: max-headers: ", "1 to 128"),
        ("max-connections-per-address = 0", "1:31: max-connections-per-address: ", "at least 1"),
        ("max-request-rate = 0", "1:20: max-request-rate: found 0.0, expected at least 0.001", ""),
        (
            "listen = ['[::1]:80', '127.0.0.1:80', 'https://127.0.0.1:80']\n\
             host.tls = { certificate = 'c', key = 'k' }",
            "1:10: listen: 127.0.0.1:80 is listed twice",
            "",
        ),
        (
            "listen = ['127.0.0.1:80', '127.0.0.1', '127.0.0.1:81']",
            "1:10: listen: found ['127.0.0.1:80', '127.0.0.1', '127.0.0.1… (not \"127.0.0.1\"), ",
            "as a list in brackets",
        ),
        ("allow = '10.0.0.1/8'", "1:9: allow: ", "did you mean \"10.0.0.0/8\"?"),
        ("deny = ['::1', 'example.org']", "1:8: deny: ", "\"example.org\" is not an IP address"),
        ("real-ip-from = '10.0.0.1/8'", "1:16: real-ip-from: ", "did you mean"),
        ("real-ip-field = 'via'", "1:17: real-ip-field: ", "\"forwarded\""),
        ("listen = 'proxy+http://[::]:80'", "1:10: listen: ", "set real-ip-from"),
        ("health = 'up'", "1:10: health: ", "slash"),
        ("[host]\nlisting = 'yes'", "2:11: host.listing: ", "true or false"),
        ("[host]\nerror-pages = '200=a'", "2:15: host.error-pages: ", "200"),
        ("[host]\nerror-pages = '418=a'", "2:15: host.error-pages: ", "502, 503, 504"),
        (
            "[[host]]\nserver-names = 'a.'",
            "2:16: host[0].server-names: found \"a.\"",
            "a dot at the end",
        ),
        ("[[host]]\nserver-names = 'a'\n[x]", "3:2: x: unknown key", ""),
        ("[host]\nroot = ''", "2:8: host.root: ", ""),
        ("[[host]]\nserver-names = ['a:80']", "2:16: host[0].server-names: ", "without a port"),
        ("[[host]]\n[[host]]", "2:1: host[1].server-names: ", "host 1"),
        (
            "[[host]]\nserver-names = ['a']\n[[host]]\nserver-names = 'A'",
            "4:16: host[1].server-names: \"A\" is also a name of host 1",
            "",
        ),
        (
            "[[host.proxy]]\nprefix = '/a'\nto = '127.0.0.1:1'",
            "3:6: host.proxy[0].to: found '127.0.0.1:1', expected a URL",
            "http://127.0.0.1:3000",
        ),
        ("[[host.redirect]]\nfrom = '/a'", "1:1: host.redirect[0]: `to` is missing", ""),
        (
            "[[host.redirect]]\nfrom = '/a'\nto = 'b'",
            "3:6: host.redirect[0].to: ",
            "expected a path",
        ),
        (
            "[[host.redirect]]\nfrom = '/a'\nto = '/b'\nstatus = 303",
            "4:10: host.redirect[0].status: ",
            "307",
        ),
        ("[[host.rewrite]]\nfrom = 'a/b'\nto = '/b'", "2:8: host.rewrite[0].from: ", ""),
        (
            "[[host.header]]\npath = '*'\nname = 'Date'\nvalue = 'x'",
            "3:8: host.header[0].name: ",
            "the server itself",
        ),
        (
            "[[host.header]]\npath = '*'\nname = 'Server'\nvalue = 'x'",
            "3:8: host.header[0].name: ",
            "the server itself",
        ),
        (
            "[[host.header]]\npath = '*'\nname = 'accept-ranges'\nvalue = 'none'",
            "3:8: host.header[0].name: ",
            "the server itself",
        ),
        (
            "[host]\nsecurity-headers.strict-transport-security = 'max-age=1'\n\
             header = [{ path = '*', name = 'Strict-Transport-Security', value = 'max-age=2' }]",
            "3:",
            "remove this rule",
        ),
        (
            "[[host.cache-control]]\npath = '['\nvalue = 'x'",
            "2:8: host.cache-control[0].path: ",
            "glob",
        ),
        (
            "[[host.cache-control]]\npath = '*'\nvalue = 'no-cache'\npreset = 'day'",
            "4:10: host.cache-control[0].preset: ",
            "`value` is set as well",
        ),
        ("[[host.cache-control]]\npath = '*'", "1:1: host.cache-control[0].value: ", "field value"),
        ("[[host.alias]]\npath = 'a'\nroot = 'b'", "2:8: host.alias[0].path: ", "\"/images\""),
        ("[[host.alias]]\npath = '/.a'\nroot = 'b'", "2:8: host.alias[0].path: ", "a dot"),
        (
            "[[host.alias]]\npath = '/a//b'\nroot = 'b'",
            "2:8: host.alias[0].path: ",
            "empty segments",
        ),
        (
            "[host]\nalias = [{ path = '/a', root = 'b' }, { path = '/a/', root = 'c' }]",
            "2:",
            "\"/a/\" is listed twice",
        ),
        (
            "host.proxy = ['/a=http://b', '/c']",
            "1:30: host.proxy: found '/c' (a path without a server)",
            "URL",
        ),
        ("host.proxy = ['/a=http://b', {}]", "1:30: host.proxy: found {}, expected a path", ""),
        (
            "[[host.proxy]]\nprefix = '/'\nto = 'http://a'\nhealth.path = 'up'",
            "4:15: host.proxy[0].health.path: found \"up\"",
            "\"/health\"",
        ),
        (
            "[[host.proxy]]\nprefix = '/'\nto = 'http://a'\nhealth.unhealthy = 0",
            "4:20: host.proxy[0].health.unhealthy: ",
            "at least 1",
        ),
        ("host.proxy = [{}]", "1:15: host.proxy[0]: `prefix` is missing", ""),
        ("[host.cors]\norigins = []", "1:1: host.cors: `origins` is missing", ""),
        (
            "[host.cors]\norigins = '*'\ncredentials = true",
            "3:15: host.cors.credentials: ",
            "list the origins",
        ),
        ("listen = 'https://[::]:443'", "1:10: listen: ", "no host has a certificate"),
        ("listen = 'redirect-https://[::]:80'", "1:10: listen: ", "network uses TLS"),
        ("listen = 'unix:s'", "1:10: listen: ", "unix:/path"),
        ("[host]\ntls = true", "2:7: host.tls: `certificate` is missing", ""),
        ("[host.tls]\nkey = 'k'", "1:1: host.tls: `certificate` is missing", ""),
        ("[access-log]\ntarget = 'log'", "2:10: access-log.target: ", "slash"),
    ];
    servers::errors_are_reported::<Config>(table);
    let all = Config::parse("listn = 1\ncache = 'x'\n[host]\nlisting = 3\nrot = 'x'").unwrap_err();
    assert_eq!(all.len(), 4, "all at once: {all:?}");
}

#[test]
fn keys_are_read() {
    let text = "
        listen = ['127.0.0.1:80', 'proxy+https://[::]:443']
        max-queue-delay = '0'
        allow = '10.0.0.0/8'
        deny = ['10.0.0.1', '2001:db8::/32']
        real-ip-from = '10.0.0.0/8'
        [host]
        index = 'home.html'
        security-headers = true
        error-pages = ['404=no.html', '500=sorry.html']
        tls = { certificate = 'c.pem', key = 'k.pem' }
        cache-control = [{ path = '*.css', value = 'no-cache' }]
    ";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.listen[1], "proxy+https://[::]:443".parse().unwrap());
    assert!(config.listen[1].proxied && config.listen[1].is_tls());
    assert_eq!(config.max_queue_delay, None);
    assert_eq!((config.allow.len(), config.deny[1].to_string()), (1, "2001:db8::/32".into()));
    let host = &config.hosts[0];
    assert_eq!((&host.root, &host.index[..]), (&PathBuf::from("."), &["home.html".to_owned()][..]));
    assert_eq!(host.security_headers, Some(SecurityHeaders::default()));
    assert_eq!(host.error_pages[1], (500, "sorry.html".to_owned()));
    // A configuration that is read over it keeps the values of keys that the new text does not set.
    let mut over = config.clone();
    let mut origins = Origins::default();
    over.over("[host]\nroot = 'x'", "/srv", &mut origins).unwrap();
    assert_eq!(over.hosts[0].root, PathBuf::from("/srv/x"));
    assert_eq!(over.hosts[0].index, host.index);
    over.over("[host]\nsecurity-headers = false", "", &mut origins).unwrap();
    assert_eq!(over.hosts[0].security_headers, None);
}

#[test]
fn the_reference_is_current() {
    servers::reference_is_current::<Config>("web");
    let page = include_str!("../../../../docs/web/configuration.md");
    let config = Config::parse(servers::example(page)).expect("the example is right");
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
        prop::collection::btree_map(
            prop::sample::select(vec![400_u16, 404, 413, 502]),
            text(),
            0..3,
        ),
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
                .map(|(path, value, _)| HeaderRule {
                    path,
                    name: value.clone(),
                    value,
                    errors: false,
                })
                .collect(),
            cache_control: paths()
                .map(|(path, value, n)| CacheRule {
                    path,
                    value,
                    preset: (n > 1).then_some(CachePreset::Immutable),
                })
                .collect(),
            aliases: paths().map(|(path, root, _)| Alias { path, root: root.into() }).collect(),
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
        config.deny = rate.map(|_| "10.0.0.0/8".parse().unwrap()).into_iter().collect();
        config.timeouts.idle = Duration::from_nanos(nanos.into());
        config.max_queue_delay = (nanos % 2 == 0).then_some(Duration::from_millis(nanos.into()));
        config.unknown_host =
            [UnknownHost::First, UnknownHost::NotFound, UnknownHost::Misdirected][unknown];
        config.access_log = log.map(|path| AccessLog {
            format: LogFormat::Json,
            target: path.map_or(LogTarget::Stdout, |path| LogTarget::File(format!("/{path}").into())),
        });
        prop_assert_eq!(config.printed_over(Config::with_root("other")), config);
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,200}") {
        let _ = Config::parse(&text);
    }

    #[test]
    fn no_tables_break_the_reader(
        lines in prop::collection::vec("(\\[{1,2}(host|runtime|host.cors|host.redirect|x)\\]{1,2}\n)?(names|root|from|to|origins|errors|status|idle-timeout) = (1|true|'a'|\\['a',2\\]|\\{a=1\\})", 0..6),
    ) {
        let _ = Config::parse(&lines.join("\n"));
    }
}
