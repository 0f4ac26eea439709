//! The source files of a crate that its rules apply to: every file under its `src` without its tests.

use super::source::{code, without_tests};
use super::tree::Tree;

/// Path and code (see [`code`]) of each file under `folder`, with test items blanked and test files left out.
/// `folder` ends with `/`.
pub(crate) fn files<'a>(tree: &'a Tree, folder: &str) -> Vec<(&'a str, String)> {
    let sources: Vec<_> = tree
        .rust()
        .filter(|(path, _)| path.starts_with(folder) && !is_named_as_test(path))
        .map(|(path, text)| (path, without_tests(&code(text))))
        .collect();
    let test_modules: Vec<String> = sources
        .iter()
        .flat_map(|(path, (_, modules))| modules.iter().map(|name| child(path, name)))
        .collect();
    let is_test = |path: &str| {
        let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
        test_modules.iter().any(|m| stem == m || stem.starts_with(&format!("{m}/")))
    };
    sources
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, (code, _))| (path, code))
        .collect()
}

/// Whether `path` names a file of tests.
fn is_named_as_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Path, without `.rs` or `/mod.rs`, of the module `name` declared in the file `path`.
fn child(path: &str, name: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let folder =
        ["lib", "main", "mod"].iter().find_map(|root| stem.strip_suffix(&format!("/{root}")));
    format!("{}/{name}", folder.unwrap_or(stem))
}
