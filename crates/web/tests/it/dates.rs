//! Times in responses.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::common::{all, get, on_each_driver, small_and_large};

/// A machine whose clock was wrong has written the file.
#[test]
fn a_file_from_the_future() {
    let start = |home: &std::path::Path| {
        let config = small_and_large(home);
        // In the year 2106.
        let future = SystemTime::UNIX_EPOCH + Duration::from_secs(u32::MAX.into());
        File::options()
            .append(true)
            .open(home.join("root/small"))
            .and_then(|file| file.set_modified(future))
            .unwrap();
        config
    };
    on_each_driver(start, |server, _| {
        let response = get(server, "/small");
        let date = response.split("Last-Modified: ").nth(1).unwrap().split('\r').next().unwrap();
        assert!(!date.contains(" 2106 "), "{response}");
        let unchanged = all(
            server,
            &format!(
                "GET /small HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: {date}\r\nConnection: close\r\n\r\n"
            ),
        );
        assert!(unchanged.starts_with("HTTP/1.1 304 "), "{unchanged}");
    });
}
