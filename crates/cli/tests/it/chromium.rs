//! A real browser without a window: Chromium, controlled over a pipe with the Chrome DevTools Protocol.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use phalanx_testkit::{TIMEOUT, eventually};
use serde_json::{Value, json};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"];

/// The installed browser. Without one, prints that the test is skipped.
pub(crate) fn installed() -> Option<&'static str> {
    let has = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let found = NAMES.iter().find(has).copied();
    if found.is_none() {
        println!("skipped: no Chromium is installed (Debian: apt-get install chromium)");
    }
    found
}

/// A browser with one page, killed at the end of the test.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    /// Messages of the browser.
    messages: Receiver<Value>,
    session: String,
    last: Cell<u64>,
}

impl Browser {
    /// Starts the browser with a new profile in `folder`.
    pub(crate) fn start(program: &str, folder: &Path) -> Self {
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server"]);
        command.args(["--hide-scrollbars", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, mut output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (send, messages) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let _ = send.send(serde_json::from_slice(&message).expect("JSON"));
                message.clear();
            }
        });
        let mut browser =
            Self { child, input, messages, session: String::new(), last: Cell::new(0) };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Runs a command of the protocol and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let text = [message.to_string().as_bytes(), b"\0"].concat();
        self.input.write_all(&text).expect("the browser reads");
        loop {
            let answer = self.messages.recv_timeout(TIMEOUT).expect("an answer of the browser");
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Evaluates an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Shows `url` on a screen of this size, with a dark or a light theme, and waits for the selected element.
    pub(crate) fn show(&mut self, url: &str, (width, height): (u32, u32), dark: bool, wait: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media);
        self.call("Page.navigate", json!({"url": url}));
        let found = format!(
            "location.href === {url:?} && document.readyState === 'complete' && !!document.querySelector({wait:?})"
        );
        eventually("the page", || (self.evaluate(&found) == true).then_some(()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
