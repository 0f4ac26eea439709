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
    let nothing = |name: &str, path: &str| {
        let answer = any(&[400, 403, 404]).without(SECRET);
        case(format!("path-{name}"), "RFC 9110, 17.3", get(path, ""), as_announced(answer))
    };
    let moved = |name: &str, path: &str, location: &str| {
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
        moved("directory-without-slash", "/dir", "/dir/"),
        moved("directory-with-query", "/dir?a=b", "/dir/?a=b"),
        moved("directory-within", "/dir/inner", "/dir/inner/"),
        moved("directory-encoded", "/%64ir", "/dir/"),
        moved("directory-behind-slashes", "//dir", "/dir/"),
        answer("missing", "RFC 9110, 15.5.5", "/missing", is(404)),
        answer("missing-directory", "RFC 9110, 15.5.5", "/missing/", is(404)),
        answer("beneath-a-file", "RFC 9110, 15.5.5", "/file.txt/x", is(404)),
        answer("file-with-slash", "RFC 9110, 15.5.5", "/file.txt/", is(404)),
        answer("case-matters", "RFC 9110, 4.2.3", "/FILE.TXT", is(404)),
        answer("decoded-once-only", "RFC 3986, 2.4", "/%2566ile.txt", is(404)),
        answer("plus-is-no-space", "RFC 3986, 2.2", "/a+b%20.txt", is(404)),
        answer("directory-without-index", "RFC 9110, 15.5.5", "/noindex/", any(&[403, 404])),
        answer("query-encoded-is-a-name", "RFC 3986, 2.2", "/file.txt%3Fa", is(404)),
        nothing("parent", "/../secret"),
        nothing("parents", "/../../../../../../etc/passwd"),
        nothing("parent-behind-directory", "/dir/../../secret"),
        nothing("parent-encoded", "/%2e%2e/secret"),
        nothing("parent-half-encoded", "/.%2e/secret"),
        nothing("parent-and-slash-encoded", "/%2e%2e%2fsecret"),
        nothing("slash-encoded", "/..%2fsecret"),
        nothing("slash-encoded-within", "/dir%2findex.html%2f..%2f..%2fsecret"),
        nothing("parent-double-encoded", "/%252e%252e%252fsecret"),
        nothing("parent-overlong-utf-8", "/%c0%ae%c0%ae%c0%afsecret"),
        nothing("parent-overlong-utf-8-3", "/%e0%80%ae%e0%80%ae/secret"),
        nothing("parent-in-utf-16", "/%u002e%u002e/secret"),
        nothing("backslash", "/..\\secret"),
        nothing("backslash-encoded", "/..%5csecret"),
        nothing("parent-with-parameter", "/..;/secret"),
        nothing("parent-with-nul", "/..%00/secret"),
        nothing("parent-dots-and-spaces", "/..%20/secret"),
        nothing("four-dots", "/..../secret"),
        nothing("parent-behind-query", "/file.txt/../../secret?a"),
        nothing("nul", "/file.txt%00"),
        nothing("nul-before-extension", "/file.txt%00.html"),
        nothing("new-line", "/file.txt%0a"),
        nothing("header-injection", "/dir%0d%0aX:%20y"),
        nothing("hidden", "/.hidden"),
        nothing("hidden-encoded", "/%2ehidden"),
        nothing("hidden-directory", "/.git/config"),
        nothing("hidden-behind-slashes", "//.git//config"),
        nothing("link-out-of-the-root", "/link-out"),
        nothing("link-up", "/link-up/secret"),
        nothing("link-up-and-back", "/link-up/root/file.txt"),
        nothing("link-away", "/link-away/passwd"),
        nothing("link-and-parent", "/link-away/../secret"),
        // The default of three policies.
        answer("link-within", "RFC 9110, 17.3", "/link-within.txt", is(200)),
        nothing("absolute-name", "//etc/passwd"),
        nothing("bad-escape", "/%zz"),
        nothing("cut-escape", "/file.txt%"),
        nothing("cut-escape-2", "/file.txt%2"),
        nothing("escape-with-sign", "/%+1"),
    ]
}
