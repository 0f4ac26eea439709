//! The archive with a statically linked program, which runs on every Linux of its architecture.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Dist;
use super::tools::{run, with_path};
use crate::task::{cargo, succeed};

/// Builds the archive, and returns its version.
pub(super) fn build_package(dist: &Dist) -> Result<String, String> {
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    // The cryptography library contains C code.
    run(Command::new("musl-gcc").arg("--version"))?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = run(Command::new(rustc).args(["--print", "target-libdir", "--target", &triple]))?;
    if !PathBuf::from(library).exists() {
        return Err(format!(
            "the standard library for {triple} is missing; try `rustup target add {triple}`"
        ));
    }
    let mut cargo = cargo(&dist.root);
    cargo.args(["build", "--release", "--package", "phalanx-cli", "--target", &triple]);
    succeed(&mut cargo, "the static program does not compile")?;
    let program = dist.out.join("..").join(&triple).join("release/phalanx");
    let version = dist.version(&program)?;
    let name = format!("phalanx-{version}-{triple}");
    let stage = dist.stage(&name)?;
    dist.install(&program, &stage)?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"] {
        let from = dist.root.join(file);
        fs::copy(&from, stage.join(file)).map_err(with_path(&from))?;
    }
    run(Command::new("tar")
        .args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--use-compress-program=gzip -9n",
        ])
        .arg(format!("--mtime=@{}", dist.time))
        .args(["--create", &format!("--file={name}.tar.gz"), &name])
        .current_dir(&dist.out))?;
    fs::remove_dir_all(&stage).map_err(with_path(&stage))?;
    Ok(version)
}
