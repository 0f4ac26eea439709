//! The site in a real browser, if installed.

use std::process::Command;

use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(a_page_with_all_its_resources);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"];

/// The page's title lists the loaded resources; only a script can have written it.
fn a_page_with_all_its_resources(driver: &'static str) {
    let has = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = NAMES.iter().find(has) else {
        println!("skipped: no Chromium is installed");
        return;
    };
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
