//! Checks of aliases.

use phalanx_http::path;

use crate::config::HostConfig;

/// Reports errors in the aliases of a host with `add_error`.
pub(super) fn check(host: &HostConfig, add_error: &mut impl FnMut(String, String)) {
    for (n, alias) in host.aliases.iter().enumerate() {
        let path = alias.path.trim_matches('/');
        let is_plain =
            alias.path.starts_with('/') && !path.is_empty() && !path.contains(['*', '%', '?', '#']);
        let mut resolved = Vec::new();
        let is_path = path::resolve(alias.path.as_bytes(), &mut resolved).is_ok();
        // Request paths are compared after empty segments and dots were removed.
        if !is_plain || !is_path || resolved != path.as_bytes() {
            let expected = "expected a path such as \"/images\", without a pattern, empty segments and names that begin with a dot";
            add_error(format!("alias[{n}].path"), format!("found {:?}, {expected}", alias.path));
        }
        if host.aliases[..n].iter().any(|other| other.path.trim_matches('/') == path) {
            add_error(format!("alias[{n}].path"), format!("{:?} is listed twice", alias.path));
        }
        if alias.root.as_os_str().is_empty() {
            add_error(format!("alias[{n}].root"), "expected the path of a directory".into());
        }
    }
}
