//! A server with two processors, a small and a large file, and a changed configuration.

use std::path::Path;

use phalanx_web::Config;

pub(crate) use crate::common::{Server, all, connect, get, read_to_end, read_until};

/// Runs `test` against such a server on each driver. `change` modifies the configuration; it may use the
/// directory next to the served one for further files.
pub(crate) fn on_each_driver(change: impl Fn(&mut Config, &Path), test: impl Fn(&Server, &Path)) {
    let configure = |home: &Path| {
        let mut config = crate::common::small_and_large(home);
        config.runtime.workers = 2;
        change(&mut config, home);
        config
    };
    crate::common::on_each_driver(configure, test);
}
