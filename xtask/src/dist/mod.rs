//! `cargo xtask dist`: builds the release files in `target/dist`: a Debian package, an archive with a static
//! program, and checksums.
//!
//! Builds are reproducible: file times are the commit's time, and files are owned by root.

mod deb;
mod musl;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tools::{gzip, run as call, with_path};

use clap::ValueEnum;

use crate::task::{Outcome, target};

/// A kind of release file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A Debian package.
    Deb,
    /// An archive with a static program.
    Static,
}

/// Builds the files of these kinds, or of all.
pub(crate) fn run(root: &Path, kinds: &[Kind]) -> Outcome {
    let is_selected = |kind| kinds.is_empty() || kinds.contains(&kind);
    let dist = Dist::new(root)?;
    let mut version = String::new();
    if is_selected(Kind::Deb) {
        version = deb::build_package(&dist)?;
    }
    if is_selected(Kind::Static) {
        version = musl::build_package(&dist)?;
    }
    dist.sums(&version)?;
    Ok(true)
}

/// Paths and metadata shared by all kinds of packages.
struct Dist {
    root: PathBuf,
    /// `target/dist`.
    out: PathBuf,
    /// Time of the commit, in seconds since 1970.
    time: String,
}

impl Dist {
    fn new(root: &Path) -> Result<Self, String> {
        let out = target(root).join("dist");
        fs::create_dir_all(&out).map_err(with_path(&out))?;
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => {
                call(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?
            }
        };
        Ok(Self { root: root.to_owned(), out, time })
    }

    /// Creates an empty staging folder.
    fn stage(&self, name: &str) -> Result<PathBuf, String> {
        let stage = self.out.join(name);
        if stage.exists() {
            fs::remove_dir_all(&stage).map_err(with_path(&stage))?;
        }
        fs::create_dir_all(&stage).map_err(with_path(&stage))?;
        Ok(stage)
    }

    /// The version that `program` reports.
    fn version(&self, program: &Path) -> Result<String, String> {
        let version_line = call(Command::new(program).arg("--version"))?;
        version_line
            .split_whitespace()
            .nth(1)
            .map(str::to_owned)
            .ok_or(format!("no version in `{version_line}`"))
    }

    /// Installs the stripped program, its manual pages and its completions under `prefix`, following the
    /// Filesystem Hierarchy Standard.
    fn install(&self, program: &Path, prefix: &Path) -> Result<(), String> {
        let bin = prefix.join("bin");
        fs::create_dir_all(&bin).map_err(with_path(&bin))?;
        let installed = bin.join("phalanx");
        fs::copy(program, &installed).map_err(with_path(program))?;
        call(Command::new("strip").arg("--strip-debug").arg(&installed))?;
        let share = prefix.join("share");
        let pages = share.join("man/man1");
        call(Command::new(program).arg("man").arg(&pages))?;
        for page in fs::read_dir(&pages).map_err(with_path(&pages))? {
            gzip(&page.map_err(with_path(&pages))?.path())?;
        }
        for (shell, destination) in [
            ("bash", "bash-completion/completions/phalanx"),
            ("fish", "fish/vendor_completions.d/phalanx.fish"),
            ("zsh", "zsh/vendor-completions/_phalanx"),
        ] {
            let destination = share.join(destination);
            let text = call(Command::new(program).args(["completions", shell]))? + "\n";
            fs::create_dir_all(destination.parent().expect("within the prefix"))
                .map_err(with_path(&destination))?;
            fs::write(&destination, text).map_err(with_path(&destination))?;
        }
        Ok(())
    }

    /// Writes SHA256SUMS for the files of this version.
    fn sums(&self, version: &str) -> Result<(), String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.out).map_err(with_path(&self.out))? {
            let name =
                entry.map_err(with_path(&self.out))?.file_name().to_string_lossy().into_owned();
            if is_release(&name, version) {
                names.push(name);
            }
        }
        names.sort();
        let sums = call(Command::new("sha256sum").args(&names).current_dir(&self.out))? + "\n";
        let path = self.out.join("SHA256SUMS");
        fs::write(&path, &sums).map_err(with_path(&path))?;
        print!("{}:\n{sums}", self.out.display());
        Ok(())
    }
}

/// Whether a file of the folder is of this version. The folder keeps those of others.
fn is_release(name: &str, version: &str) -> bool {
    let is_package = name.starts_with(&format!("phalanx_{version}_")) && name.ends_with(".deb");
    let is_archive = name.starts_with(&format!("phalanx-{version}-")) && name.ends_with(".tar.gz");
    is_package || is_archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_of_one_version() {
        let archive = "phalanx-0.2.0-x86_64-unknown-linux-musl.tar.gz";
        for (name, is_built) in [
            ("phalanx_0.2.0_amd64.deb", true),
            (archive, true),
            ("phalanx_0.1.0_amd64.deb", false),
            ("phalanx_0.2.0-rc1_amd64.deb", false),
            ("SHA256SUMS", false),
        ] {
            assert_eq!(is_release(name, "0.2.0"), is_built, "{name}");
        }
    }
}
