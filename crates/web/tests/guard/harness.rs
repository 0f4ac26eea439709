//! Two processors that serve a small and a large file, with something changed.

use std::path::Path;

use phalanx_web::Config;

pub(crate) use crate::common::{LONG, Server, all, connect, eventually, get, rest, until};

/// Runs `test` against such a server on each driver. `change` makes the configuration; the directory
/// beside which the served one lies has room for more.
pub(crate) fn on_each_driver(change: impl Fn(&mut Config, &Path), test: impl Fn(&Server, &Path)) {
    let configure = |home: &Path| {
        let mut config = crate::common::small_and_large(home);
        config.runtime.workers = 2;
        change(&mut config, home);
        config
    };
    crate::common::on_each_driver(configure, test);
}
