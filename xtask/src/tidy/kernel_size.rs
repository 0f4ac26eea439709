//! The kernel of core, the scheduler without optional mechanisms, has at most 5,000 lines of code.

use super::read::crate_source::files;
use super::{Fault, Tree};

/// Maximum number of lines, without comments, blank lines and tests.
const MAX_LINES: usize = 5_000;

/// The folders of the kernel.
const KERNEL: &[&str] = &[
    "handle",
    "mailbox",
    "memory",
    "operation",
    "processor",
    "program",
    "queue",
    "session",
    "state",
];

/// Files and folders within them that implement optional mechanisms and observation.
const OPTIONAL: &[&str] = &[
    "handle/policy/",
    "mailbox/fault_injection.rs",
    "mailbox/visit.rs",
    "memory/pool.rs",
    "memory/prefetch.rs",
    "processor/observe/",
    "processor/policy/",
    "state/policy/",
    "state/rebuildable.rs",
];

const SOURCE: &str = "crates/core/src/";

/// Finds a kernel that is too large, and optional parts that do not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let files = files(tree, SOURCE);
    let name = |path: &'static str| format!("{SOURCE}{path}");
    let exists = |path: &str| files.iter().any(|(file, _)| file.starts_with(path));
    let stale =
        OPTIONAL.iter().filter(|path| !files.is_empty() && !exists(&name(path))).map(|path| {
            Fault::new(
                "xtask/src/tidy/kernel_size.rs",
                1,
                format!("`{path}` does not exist; remove it"),
            )
        });
    let lines = files
        .iter()
        .filter(|(path, _)| is_kernel(path))
        .map(|(_, code)| code.lines().filter(|line| !line.trim().is_empty()).count());
    let lines: usize = lines.sum();
    let large = (lines > MAX_LINES).then(|| {
        let message = format!(
            "the kernel has {lines} lines of code, at most {MAX_LINES} are allowed; remove code, or move an \
             optional mechanism to `processor/policy`"
        );
        Fault::new("crates/core/src/lib.rs", 1, message)
    });
    stale.chain(large).collect()
}

fn is_kernel(path: &str) -> bool {
    let Some(path) = path.strip_prefix(SOURCE) else { return false };
    let folder = path.split('/').next().unwrap_or_default();
    KERNEL.contains(&folder) && !OPTIONAL.iter().any(|part| path.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_kernel_is_found() {
        let optional = OPTIONAL.iter().map(|part| match part.strip_suffix('/') {
            Some(folder) => format!("{SOURCE}{folder}/a.rs"),
            None => format!("{SOURCE}{part}"),
        });
        let optional: Vec<String> = optional.collect();
        let (fits, one) = ("fn f();\n".repeat(MAX_LINES), "fn g();\n// a comment\n\n");
        let with = |kernel: &[(&str, &str)]| {
            let mut files: Vec<(&str, &str)> = kernel.to_vec();
            files.extend(optional.iter().map(|path| (path.as_str(), fits.as_str())));
            check(&Tree::from_files(&files)).len()
        };
        assert_eq!(with(&[("crates/core/src/queue/a.rs", &fits)]), 0);
        assert_eq!(
            with(&[("crates/core/src/future/a.rs", &fits), ("crates/core/src/queue/a.rs", one)]),
            0
        );
        assert_eq!(
            with(&[("crates/core/src/queue/a.rs", &fits), ("crates/core/src/state/a.rs", one)]),
            1
        );
        assert_eq!(
            check(&Tree::from_files(&[("crates/core/src/queue/a.rs", one)])).len(),
            OPTIONAL.len()
        );
    }
}
