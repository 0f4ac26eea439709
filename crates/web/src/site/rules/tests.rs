use phalanx_http::Status;

use super::{Route, Rules};
use crate::config::{CacheRule, HeaderRule, HostConfig, Redirect, RedirectStatus, Rewrite};

fn redirects(
    rules: &[(&str, &str)],
    rewrites: &[(&str, &str)],
) -> Result<Rules, super::RuleErrors> {
    let mut host = HostConfig::new("/");
    host.redirects = rules
        .iter()
        .map(|(from, to)| Redirect {
            from: (*from).into(),
            to: (*to).into(),
            status: RedirectStatus::Found,
        })
        .collect();
    host.rewrites = rewrites
        .iter()
        .map(|(from, to)| Rewrite { from: (*from).into(), to: (*to).into() })
        .collect();
    Rules::new(&host)
}

#[test]
fn redirects_and_rewrites() {
    let rules = redirects(
        &[
            ("/old", "/new"),
            ("/docs/**", "https://docs.example/v2/$rest"),
            ("/q/**", "/to/$rest?fixed"),
            ("*.php", "/gone.html"),
        ],
        &[("/api/**", "/v1/api/$rest"), ("/app/**", "/app.html"), ("/d/**", "/x/$rest/")],
    );
    let rules = rules.unwrap();
    // (path, directory, query, location)
    let table: &[(&str, bool, Option<&str>, &str)] = &[
        ("old", false, None, "/new"),
        ("old", false, Some("a=b"), "/new?a=b"),
        ("docs", false, None, "https://docs.example/v2/"),
        ("docs/a b/c", true, None, "https://docs.example/v2/a%20b/c/"),
        ("docs/a", false, Some("x\r\ny"), "https://docs.example/v2/a?x%0D%0Ay"),
        ("q/x", false, Some("mine"), "/to/x?fixed"),
        ("x/y.php", false, None, "/gone.html"),
    ];
    for (path, directory, query, wanted) in table {
        let (mut path, mut directory) = (path.as_bytes().to_vec(), *directory);
        let route = rules.route(&mut path, &mut directory, *query);
        assert_eq!(route, Route::Redirect(Status::Found, wanted.as_bytes().to_vec()));
    }
    // (path, directory, new path, new directory)
    let table: &[(&str, bool, &str, bool)] = &[
        ("api/a/b", false, "v1/api/a/b", false),
        ("api", true, "v1/api", true),
        ("app/x/y", true, "app.html", false),
        ("d/a", false, "x/a", true),
    ];
    for (path, directory, wanted, wanted_directory) in table {
        let (mut path, mut directory) = (path.as_bytes().to_vec(), *directory);
        assert_eq!(rules.route(&mut path, &mut directory, None), Route::Rewritten);
        assert_eq!((&path[..], directory), (wanted.as_bytes(), *wanted_directory));
    }
    let (mut path, mut directory) = (b"other".to_vec(), false);
    assert_eq!(rules.route(&mut path, &mut directory, None), Route::Here);
    assert_eq!((&path[..], directory), (&b"other"[..], false));
}

#[test]
fn unsafe_targets_are_rejected() {
    for to in [
        "",
        "new",
        "//evil",
        "/\\evil",
        "$rest",
        "https://$rest",
        "https://a.$rest/",
        "ftp://x/",
        "javascript:x",
        "/a b",
        "/a\r\nX: y",
    ] {
        assert!(redirects(&[("/a/**", to)], &[]).is_err(), "{to:?}");
    }
    assert!(redirects(&[("/a", "/b/$rest")], &[]).is_err(), "no rest");
    for to in ["new", "/../x", "/x.$rest", "/.git/$rest", "/a?b", "/%41"] {
        assert!(redirects(&[], &[("/a/**", to)]).is_err(), "{to:?}");
    }
}

#[test]
fn fields_by_path() {
    let mut host = HostConfig::new("/");
    host.security_headers = Some(Default::default());
    let cache = |path: &str, value: &str| CacheRule {
        path: path.into(),
        value: value.into(),
        preset: None,
    };
    host.cache_control = vec![cache("/assets/**", "immutable"), cache("*.html", "no-cache")];
    let header = |path: &str, name: &str, value: &str| HeaderRule {
        errors: false,
        path: path.into(),
        name: name.into(),
        value: value.into(),
    };
    host.headers = vec![
        header("/**", "X-A", "1"),
        header("*.html", "X-A", "2"),
        header("*.html", "X-Frame-Options", "DENY"),
        header("*.html", "Link", "<a>"),
        header("/**", "Link", "<b>"),
    ];
    let rules = Rules::new(&host).unwrap();
    let has = |path: &str, name: &str| -> Vec<String> {
        let fields = rules.fields(path.as_bytes(), false);
        let values = fields.iter().filter(|(other, _)| *other == name);
        values.map(|(_, value)| value.to_string()).collect()
    };
    assert_eq!(has("assets/a.html", "Cache-Control"), ["immutable"], "the first that matches");
    assert_eq!(has("x/a.html", "Cache-Control"), ["no-cache"]);
    assert_eq!(has("a.txt", "Cache-Control"), [""; 0]);
    assert_eq!(has("a.txt", "X-A"), ["1"]);
    assert_eq!(has("a.html", "X-A"), ["2"], "the last");
    assert_eq!(has("a.txt", "X-Frame-Options"), ["SAMEORIGIN"]);
    assert_eq!(has("a.html", "X-Frame-Options"), ["DENY"]);
    assert_eq!(has("a.html", "Link"), ["<a>", "<b>"]);
    for (name, value) in
        [("", "x"), ("a b", "x"), ("Content-Length", "1"), ("X", "a\r\nb"), ("X", "")]
    {
        host.headers = vec![header("/**", name, value)];
        assert!(Rules::new(&host).is_err(), "{name:?} {value:?}");
    }
}
