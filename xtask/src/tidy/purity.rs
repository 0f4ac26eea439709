//! Core is pure: it makes no system call, reads no clock, draws no random number and starts no thread.
//!
//! The caller passes all of these in, which makes simulation possible. Tests are exempt.

use super::read::crate_source::files;
use super::read::manifest::{self, Kind};
use super::read::source::{line_of, words};
use super::read::use_paths;
use super::{Fault, Tree};

/// The folder of core's source files.
const SOURCE: &str = "crates/core/src/";

/// The manifest of core.
const MANIFEST: &str = "crates/core/Cargo.toml";

/// Modules of the standard library that access the operating system.
const MODULES: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread"];

/// Crates that access the operating system.
const CRATES: &[&str] = &["io_uring", "libc", "mio", "rand", "rustix"];

/// Macros that write to the standard streams.
const MACROS: &[&str] = &["eprint", "eprintln", "print", "println"];

/// The remedy for each fault.
const REMEDY: &str = "core must be pure; let the caller pass it in";

/// Finds code in core that accesses the operating system, and dependencies that core may not have.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, code) in files(tree, SOURCE) {
        let accesses_found = accesses(&code).into_iter();
        faults.extend(
            accesses_found
                .map(|(line, message)| Fault::new(path, line, format!("{message}; {REMEDY}"))),
        );
    }
    faults.extend(tree.text(MANIFEST).map(dependencies).unwrap_or_default());
    faults
}

/// Each access to the operating system in `code`, with its line.
fn accesses(code: &str) -> Vec<(usize, String)> {
    let paths = use_paths::from_crate(code, "std").into_iter();
    let mut found: Vec<_> = paths
        .filter(|(_, path)| impure(path))
        .map(|(line, path)| (line, format!("`{path}` in core")))
        .collect();
    for (at, word) in words(code) {
        let before = code[..at].trim_end();
        let after = code[at + word.len()..].trim_start();
        let names_crate = after.starts_with("::") && !use_paths::continues(before)
            || before.ends_with("use")
            || before.ends_with("extern crate");
        let message = if CRATES.contains(&word) && names_crate {
            format!("the crate `{word}` in core")
        } else if MACROS.contains(&word) && after.starts_with('!') {
            format!("`{word}!` in core")
        } else if word == "extern" && after.starts_with('"') {
            "a foreign function in core".to_owned()
        } else {
            continue;
        };
        found.push((line_of(code, at), message));
    }
    found
}

/// Whether a path that begins with `std` accesses the operating system.
fn impure(path: &str) -> bool {
    let mut parts = path.split("::").skip(1);
    match (parts.next(), parts.next()) {
        (Some("time"), part) => part != Some("Duration"),
        (Some(module), _) => MODULES.contains(&module),
        (None, _) => false,
    }
}

/// The dependencies that core may not have.
fn dependencies(manifest: &str) -> Vec<Fault> {
    let allowed = |d: &manifest::Dependency| match (d.kind, d.target.as_deref()) {
        (Kind::Dev, _) => true,
        (Kind::Normal, None) => d.name == "thiserror",
        (Kind::Normal, Some("cfg(loom)")) => d.name == "loom",
        _ => false,
    };
    let refused = manifest::dependencies(manifest).into_iter().filter(|d| !allowed(d));
    let fault = |name: &str| {
        format!(
            "core depends on `{name}`; it may on `thiserror`, under cfg(loom) on `loom`, in tests on \
             anything: put the code that needs it in a crate above"
        )
    };
    refused.map(|d| Fault::new(MANIFEST, d.line, fault(&d.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::from_files(&[(path, text)])).into_iter().map(|f| (f.line, f.message)).collect()
    }

    fn in_lib(text: &str) -> Vec<(usize, String)> {
        faults("crates/core/src/lib.rs", text)
    }

    #[test]
    fn every_form_of_access_is_found() {
        let violations = [
            "use std::fs;",
            "use std::{cell::Cell, time::{Duration, Instant}};",
            "fn a() -> std::time::SystemTime { b() }",
            "use std::time;",
            "use ::std::os::fd::OwnedFd;",
            "use ::libc::c_int;",
            "use rustix;",
            "fn f() { rand::random() }",
            "extern \"C\" { fn getpid() -> i32; }",
            "fn f() { println!(\"x\") }",
            "#[cfg(not(test))]\nuse std::thread;",
        ];
        for text in violations {
            assert_eq!(in_lib(text).len(), 1, "{text}: {:?}", in_lib(text));
        }
        assert_eq!(in_lib("\nuse std::io;")[0].0, 2);
    }

    #[test]
    fn pure_code_is_not_reported() {
        let text = "//! Calls no std::fs, no libc::read.\n\
                    use std::{sync::Mutex, time::Duration};\n\
                    std::thread_local! { static A: u8 = 0; }\n\
                    fn f(rand: u64, io_uring: u8) -> &'static str { \"std::net\" }\n\
                    extern crate alloc;";
        assert_eq!(in_lib(text), []);
        assert_eq!(faults("crates/driver/src/lib.rs", "use std::net;"), []);
    }

    #[test]
    fn tests_are_exempt_wherever_they_stand() {
        let tests = "use std::thread;";
        assert_eq!(in_lib(&format!("#[cfg(test)] mod tests {{ {tests} }}")), []);
        assert_eq!(faults("crates/core/src/queue/tests.rs", tests), []);
        let tree = Tree::from_files(&[
            ("crates/core/src/queue.rs", "#[cfg(all(test, loom))]\nmod model;"),
            ("crates/core/src/queue/model.rs", tests),
            ("crates/core/src/queue/models.rs", tests),
        ]);
        let faults = check(&tree);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].path, "crates/core/src/queue/models.rs");
    }

    #[test]
    fn core_has_no_dependency_but_those_listed() {
        let text = "[dependencies]\nthiserror.workspace = true\nslab = \"0.4\"\n\
                    [target.'cfg(loom)'.dependencies]\nloom.workspace = true\n\
                    [dev-dependencies]\nproptest.workspace = true\n";
        let found = faults(MANIFEST, text);
        assert_eq!(found.len(), 1);
        assert!(found[0].0 == 3 && found[0].1.contains("`slab`"));
    }
}
