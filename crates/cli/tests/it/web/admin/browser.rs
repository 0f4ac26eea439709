//! The site and the admin page in a real browser, if installed.

use std::process::Command;

use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;
use serde_json::json;

use crate::chromium::{Browser, installed};
use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(a_page_with_all_its_resources, the_admin_page);

/// The page's title lists the loaded resources; only a script can have written it.
fn a_page_with_all_its_resources(driver: &'static str) {
    let Some(browser) = installed() else { return };
    let site = Site::new();
    site.file(
        "index.html",
        "<!doctype html><meta charset=utf-8><link rel=stylesheet href='style sheet.css'>\
         <body><img id=image src=image.svg><script type=module src=deep/main.mjs></script>",
    );
    site.file("style sheet.css", "body { color: rgb(1, 2, 3) }");
    site.file("image.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='17' height='9'/>");
    site.file("deep/data.json", "{\"answer\": 42}");
    // A module only runs with the right media type, and a style sheet is only applied with its.
    site.file(
        "deep/main.mjs",
        "const data = await (await fetch('deep/data.json')).json();\
         await document.getElementById('image').decode();\
         const width = document.getElementById('image').naturalWidth;\
         document.title = [data.answer, width, getComputedStyle(document.body).color].join(';');",
    );
    let server = Server::start(driver, &site.root());
    let profile = format!("--user-data-dir={}", site.outside().join("profile").display());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server", &profile])
        .args(["--virtual-time-budget=10000", "--dump-dom", &format!("http://{}/", server.address)])
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("<title>42;17;rgb(1, 2, 3)</title>"), "{page}\n{output:?}");
}

/// The admin page on a phone and on a desktop, light and dark: the figures for operators come first and follow the
/// traffic, everything fits, and all text can be read.
fn the_admin_page(driver: &'static str) {
    let Some(program) = installed() else { return };
    let site = Site::new();
    site.file("page", "12345");
    let server = Server::start_with(driver, &site.root(), &["--admin", "127.0.0.1:0"]);
    let mut client = Client::connect(server.address);
    let mut browser = Browser::start(program, site.outside());
    browser.call("Log.enable", json!({}));
    for (size, dark) in
        [((390, 844), false), ((390, 844), true), ((1280, 900), false), ((1280, 900), true)]
    {
        let case = format!("{size:?}, dark {dark}");
        let url = format!("http://{}/?ms=50&{}{dark}", server.admin(), size.0);
        browser.show(&url, size, dark, ".headline");
        let titles = browser.evaluate(
            "[...document.querySelectorAll('.headline dt')].map(e => e.textContent).join()",
        );
        assert_eq!(
            titles, "requests,sent,open connections,cache hits,TLS errors,latency",
            "{case}"
        );
        let fits = browser.evaluate("document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(fits, true, "{case}: no horizontal scrolling");
        let first = "document.querySelector('.headline').getBoundingClientRect().bottom";
        let stages = "Math.min(...[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect()).filter(r => r.height).map(r => r.top))";
        assert_eq!(browser.evaluate(&format!("{first} < {stages}")), true, "{case}");
        let shown = "[...document.querySelectorAll('svg')].filter(e => e.getBoundingClientRect().height).map(e => e.classList[1]).join()";
        assert_eq!(browser.evaluate(shown), if size.0 < 700 { "narrow" } else { "wide" }, "{case}");
        let [least, page] =
            [CONTRAST, "luminance(getComputedStyle(document.body).backgroundColor)"].map(|value| {
                browser
                    .evaluate(&format!("(() => {{ {COLORS}; return {value} }})()"))
                    .as_f64()
                    .expect("a number")
            });
        assert!(least >= 4.5, "{case}: the contrast of a text is {least}");
        assert_eq!(page < 0.2, dark, "{case}: a background of luminance {page}");
        // The script shows the next figures.
        let requests = "document.querySelector('.headline .more').textContent";
        eventually("requests on the page", || {
            assert_eq!((client.get("/page").status, client.get("/missing").status), (200, 404));
            let text = browser.evaluate(requests);
            let text = text.as_str().expect("text");
            let busy =
                |class: &str| text.contains(class) && !text.contains(&format!("{class} 0/s"));
            (busy("2xx") && busy("4xx") && !busy("5xx")).then_some(())
        });
    }
}

/// Relative luminance of a colour, and the contrast of two (WCAG 2.2).
const COLORS: &str = "const luminance = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(value => {\
    const part = value / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4 });\
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };\
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)";

/// The lowest contrast of a text outside of the drawing with the background behind it.
const CONTRAST: &str = "Math.min(...[...document.querySelectorAll('h1,button,a,dt,dd,span,b,p')]\
    .filter(e => e.textContent.trim() && e.getBoundingClientRect().height).map(e => {\
    let behind = e; while (behind.parentElement && /, 0\\)$|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;\
    return contrast(luminance(getComputedStyle(e).color), luminance(getComputedStyle(behind).backgroundColor)) }))";
