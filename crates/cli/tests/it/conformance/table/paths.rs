//! Resolution of paths, and confinement to the root (RFC 3986; RFC 9110, 17.3).

use crate::conformance::case::{Answer, Case, any, as_announced, case, get, is, open};
use crate::conformance::tree::{FILE, SECRET};

pub(crate) fn cases() -> Vec<Case> {
    let found = |name: &str, section, path: &str, body: &str| {
        let answer = is(200).body(body);
        case(format!("path-{name}"), section, get(path, ""), open([answer]))
    };
    let answer = |name: &str, section, path: &str, answer: Answer| {
        case(format!("path-{name}"), section, get(path, ""), open([answer]))
    };
    // A malformed path may end the connection, a missing file must not.
    let not_found = |name: &str, path: &str| {
        let answer = any(&[400, 403, 404]).without(SECRET);
        case(format!("path-{name}"), "RFC 9110, 17.3", get(path, ""), as_announced(answer))
    };
    let redirects = |name: &str, path: &str, location: &str| {
        let answer = any(&[301, 308]).field("Location", location);
        case(format!("path-{name}"), "RFC 9110, 10.2.2", get(path, ""), open([answer]))
    };
    vec![
        found("decoded", "RFC 3986, 6.2.2.2", "/%66ile.txt", FILE),
        found("decoded-lower-case", "RFC 3986, 6.2.2.1", "/file%2etxt", FILE),
        found("decoded-upper-case", "RFC 3986, 6.2.2.1", "/file%2Etxt", FILE),
        found("every-letter-encoded", "RFC 3986, 6.2.2.2", "/%66%69%6c%65%2e%74%78%74", FILE),
        found("space", "RFC 3986, 2.1", "/a%20b.txt", "space"),
        found("plus-is-a-plus", "RFC 3986, 2.2", "/a+b.txt", "plus"),
        found("plus-encoded", "RFC 3986, 2.2", "/a%2Bb.txt", "plus"),
        found("semicolon", "RFC 3986, 3.3", "/a;b.txt", "semicolon"),
        found("semicolon-encoded", "RFC 3986, 3.3", "/a%3Bb.txt", "semicolon"),
        found("utf-8", "RFC 3986, 2.5", "/%C3%A9.txt", "accent"),
        found("percent-sign", "RFC 3986, 2.4", "/100%25.txt", "percent"),
        found("dot-segment", "RFC 3986, 5.2.4", "/./file.txt", FILE),
        found("dot-segments-within", "RFC 3986, 5.2.4", "/dir/././inner/./file.txt", "inner"),
        found("dot-segment-encoded", "RFC 3986, 6.2.2.3", "/%2e/file.txt", FILE),
        found("double-slash", "RFC 9110, 4.2.3", "/dir//inner///file.txt", "inner"),
        found("double-slash-first", "RFC 9112, 3.2.1", "//file.txt", FILE),
        found("index", "RFC 9110, 4.2.3", "/", "<!doctype html>root"),
        found("index-of-directory", "RFC 9110, 4.2.3", "/dir/", "<!doctype html>dir"),
        found("index-by-name", "RFC 9110, 4.2.3", "/dir/index.html", "<!doctype html>dir"),
        found("index-with-query", "RFC 9110, 4.2.3", "/dir/?a=b", "<!doctype html>dir"),
        redirects("directory-without-slash", "/dir", "/dir/"),
        redirects("directory-with-query", "/dir?a=b", "/dir/?a=b"),
        redirects("directory-within", "/dir/inner", "/dir/inner/"),
        redirects("directory-encoded", "/%64ir", "/dir/"),
        redirects("directory-behind-slashes", "//dir", "/dir/"),
        answer("missing", "RFC 9110, 15.5.5", "/missing", is(404)),
        answer("missing-directory", "RFC 9110, 15.5.5", "/missing/", is(404)),
        answer("beneath-a-file", "RFC 9110, 15.5.5", "/file.txt/x", is(404)),
        answer("file-with-slash", "RFC 9110, 15.5.5", "/file.txt/", is(404)),
        answer("case-matters", "RFC 9110, 4.2.3", "/FILE.TXT", is(404)),
        answer("decoded-once-only", "RFC 3986, 2.4", "/%2566ile.txt", is(404)),
        answer("plus-is-no-space", "RFC 3986, 2.2", "/a+b%20.txt", is(404)),
        answer("directory-without-index", "RFC 9110, 15.5.5", "/noindex/", any(&[403, 404])),
        answer("query-encoded-is-a-name", "RFC 3986, 2.2", "/file.txt%3Fa", is(404)),
        not_found("parent", "/../secret"),
        not_found("parents", "/../../../../../../etc/passwd"),
        not_found("parent-behind-directory", "/dir/../../secret"),
        not_found("parent-encoded", "/%2e%2e/secret"),
        not_found("parent-half-encoded", "/.%2e/secret"),
        not_found("parent-and-slash-encoded", "/%2e%2e%2fsecret"),
        not_found("slash-encoded", "/..%2fsecret"),
        not_found("slash-encoded-within", "/dir%2findex.html%2f..%2f..%2fsecret"),
        not_found("parent-double-encoded", "/%252e%252e%252fsecret"),
        not_found("parent-overlong-utf-8", "/%c0%ae%c0%ae%c0%afsecret"),
        not_found("parent-overlong-utf-8-3", "/%e0%80%ae%e0%80%ae/secret"),
        not_found("parent-in-utf-16", "/%u002e%u002e/secret"),
        not_found("backslash", "/..\\secret"),
        not_found("backslash-encoded", "/..%5csecret"),
        not_found("parent-with-parameter", "/..;/secret"),
        not_found("parent-with-nul", "/..%00/secret"),
        not_found("parent-dots-and-spaces", "/..%20/secret"),
        not_found("four-dots", "/..../secret"),
        not_found("parent-behind-query", "/file.txt/../../secret?a"),
        not_found("nul", "/file.txt%00"),
        not_found("nul-before-extension", "/file.txt%00.html"),
        not_found("new-line", "/file.txt%0a"),
        not_found("header-injection", "/dir%0d%0aX:%20y"),
        not_found("hidden", "/.hidden"),
        not_found("hidden-encoded", "/%2ehidden"),
        not_found("hidden-directory", "/.git/config"),
        not_found("hidden-behind-slashes", "//.git//config"),
        not_found("link-out-of-the-root", "/link-out"),
        not_found("link-up", "/link-up/secret"),
        not_found("link-up-and-back", "/link-up/root/file.txt"),
        not_found("link-away", "/link-away/passwd"),
        not_found("link-and-parent", "/link-away/../secret"),
        // The default of three policies.
        answer("link-within", "RFC 9110, 17.3", "/link-within.txt", is(200)),
        not_found("absolute-name", "//etc/passwd"),
        not_found("bad-escape", "/%zz"),
        not_found("cut-escape", "/file.txt%"),
        not_found("cut-escape-2", "/file.txt%2"),
        not_found("escape-with-sign", "/%+1"),
    ]
}
