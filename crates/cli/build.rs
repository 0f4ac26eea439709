//! Compiles the library that `phalanx threads` preloads, and embeds it. The library has no dependencies, so the compiler
//! is called directly. On other systems than Linux on x86-64 with glibc it is empty, and the command says so.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../threads/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=build.rs");
    order_functions(&variable);
    let library = PathBuf::from(variable("OUT_DIR")).join("libphalanx_threads.so");
    let is_linux =
        variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ARCH") == "x86_64";
    // A static `phalanx` starts programs that use glibc as well.
    if !is_linux || variable("HOST") != "x86_64-unknown-linux-gnu" {
        return std::fs::write(library, b"").expect("the output folder is writable");
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "--edition=2024",
            "--crate-name=phalanx_threads",
            "--crate-type=cdylib",
            "--cfg=phalanx_shim",
        ])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols"])
        // `site.rs` walks the frames.
        .arg("-Cforce-frame-pointers=yes")
        .arg(format!("--remap-path-prefix={}=threads", source.display()))
        .arg("-o")
        .arg(&library)
        .arg(source.join("lib.rs"));
    let status = rustc.status();
    assert!(status.is_ok_and(|status| status.success()), "the preloaded library does not compile");
}

/// Has the linker place the functions of a typical message next to each other. Other linkers than those of GNU and LLVM
/// do not know the command `INSERT`.
fn order_functions(variable: &dyn Fn(&str) -> String) {
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("hot.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_other = ["mold", "wild", "fuse-ld", "linker="].iter().any(|name| flags.contains(name));
    if variable("CARGO_CFG_TARGET_OS") == "linux" && !is_other {
        println!("cargo::rustc-link-arg-bin=phalanx=-Wl,-T,{}", script.display());
    }
}
