//! The Debian package: the program, manual pages, completions, and for each server a systemd unit and a
//! configuration file. The configuration is a conffile, so dpkg keeps the operator's changes.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::Dist;
use super::tools::{gzip, run, with_path};
use crate::live;

/// Destination and mode of each file of `packaging/debian`.
const FILES: [(&str, &str, u32); 8] = [
    ("phalanx-web.service", "usr/lib/systemd/system/phalanx-web.service", 0o644),
    ("phalanx-broker.service", "usr/lib/systemd/system/phalanx-broker.service", 0o644),
    ("phalanx.sysusers", "usr/lib/sysusers.d/phalanx.conf", 0o644),
    ("web.toml", "etc/phalanx/web.toml", 0o644),
    ("broker.toml", "etc/phalanx/broker.toml", 0o644),
    ("postinst", "DEBIAN/postinst", 0o755),
    ("prerm", "DEBIAN/prerm", 0o755),
    ("postrm", "DEBIAN/postrm", 0o755),
];

/// Files of `packaging` that operators copy where they need them.
const EXAMPLES: [&str; 3] =
    ["fail2ban/phalanx-broker.conf", "grafana/phalanx-broker.json", "nats/nats-server.conf"];

/// Builds the package, and returns its version.
pub(super) fn build_package(dist: &Dist) -> Result<String, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian packages for {other} are not supported")),
    };
    let program = live::binary(&dist.root).map_err(|error| error.to_string())?;
    let version = dist.version(&program)?;
    let stage = dist.stage("deb")?;
    dist.install(&program, &stage.join("usr"))?;
    for (name, to, mode) in FILES {
        install_file(&dist.root.join("packaging/debian").join(name), &stage.join(to), mode)?;
    }
    let documents = stage.join("usr/share/doc/phalanx");
    install_file(
        &dist.root.join("packaging/debian/copyright"),
        &documents.join("copyright"),
        0o644,
    )?;
    install_file(&dist.root.join("LICENSE-MIT"), &documents.join("LICENSE-MIT"), 0o644)?;
    install_file(&dist.root.join("CHANGELOG.md"), &documents.join("changelog"), 0o644)?;
    gzip(&documents.join("changelog"))?;
    for name in EXAMPLES {
        let to = documents.join("examples").join(name);
        install_file(&dist.root.join("packaging").join(name), &to, 0o644)?;
    }

    let bytes = fs::read(&program).map_err(with_path(&program))?;
    let library = newest_glibc(&bytes).ok_or("the program requires no version of glibc")?;
    let control = stage.join("DEBIAN/control");
    let text = control_file(&version, architecture, &library, kibibytes(&stage)?);
    fs::write(&control, text).map_err(with_path(&control))?;
    let conffiles = stage.join("DEBIAN/conffiles");
    let text = "/etc/phalanx/broker.toml\n/etc/phalanx/web.toml\n";
    fs::write(&conffiles, text).map_err(with_path(&conffiles))?;

    let package = dist.out.join(format!("phalanx_{version}_{architecture}.deb"));
    // 6 is the default of dpkg-deb; a check of the build alone may select a lower level.
    let level = std::env::var("PHALANX_DEB_LEVEL").unwrap_or_else(|_| "6".into());
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", &dist.time).args(["--root-owner-group", "-Zxz"]);
    build.args([&format!("-z{level}"), "--build"]);
    run(build.arg(&stage).arg(&package))?;
    fs::remove_dir_all(&stage).map_err(with_path(&stage))?;
    Ok(version)
}

fn install_file(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    fs::create_dir_all(to.parent().expect("within the staging folder")).map_err(with_path(to))?;
    fs::copy(from, to).map_err(with_path(from))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(with_path(to))
}

fn control_file(version: &str, architecture: &str, library: &str, kibibytes: u64) -> String {
    let mut text = String::new();
    let fields = [
        ("Package", "phalanx"),
        ("Version", version),
        ("Architecture", architecture),
        ("Maintainer", "The Phalanx contributors <phalanx@example.invalid>"),
        ("Section", "httpd"),
        ("Priority", "optional"),
    ];
    for (name, value) in fields {
        let _ = writeln!(text, "{name}: {value}");
    }
    let _ = writeln!(text, "Installed-Size: {kibibytes}");
    let _ = writeln!(text, "Depends: libc6 (>= {library}), libgcc-s1");
    text.push_str(
        "Description: servers that run similar work of different requests together\n \
         A static web server with HTTP/1.1, HTTP/2 and TLS, an MQTT broker whose subscriptions\n \
         may ask for content, a load generator, and the tools to look inside of them.\n \
         They stand on a runtime that runs whole cohorts of a stage's operations at a time.\n",
    );
    text
}

/// The newest glibc version that a program requires: `2.34` for `GLIBC_2.34`.
fn newest_glibc(program: &[u8]) -> Option<String> {
    const SYMBOL_PREFIX: &[u8] = b"GLIBC_2.";
    let minors = program
        .windows(SYMBOL_PREFIX.len())
        .enumerate()
        .filter(|(_, bytes)| *bytes == SYMBOL_PREFIX);
    let minor = minors.filter_map(|(at, _)| {
        let digits =
            program[at + SYMBOL_PREFIX.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.map(|digit| char::from(*digit)).collect::<String>().parse::<u32>().ok()
    });
    minor.max().map(|minor| format!("2.{minor}"))
}

/// Total size of the files in `folder`, in KiB.
fn kibibytes(folder: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(with_path(folder))? {
        let path = entry.map_err(with_path(folder))?.path();
        let kind = fs::symlink_metadata(&path).map_err(with_path(&path))?;
        sum += if kind.is_dir() { kibibytes(&path)? } else { kind.len().div_ceil(1024) };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::{EXAMPLES, FILES, control_file, newest_glibc};

    #[test]
    fn every_file_is_packed() {
        let folder = crate::root().join("packaging/debian");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name == "copyright" || FILES.iter().any(|(file, ..)| *file == name), "{name}");
        }
    }

    #[test]
    fn every_example_exists() {
        let folder = crate::root().join("packaging");
        EXAMPLES.iter().for_each(|name| assert!(folder.join(name).is_file(), "{name}"));
    }

    #[test]
    fn the_newest_library_is_required() {
        let program = b"..GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_2.x";
        assert_eq!(newest_glibc(program).unwrap(), "2.34");
        assert_eq!(newest_glibc(b"static"), None);
        let control = control_file("0.1.0", "amd64", "2.34", 7);
        assert!(control.contains("\nDepends: libc6 (>= 2.34), libgcc-s1\n"));
        // Each line of the description begins with a space, and the last one ends with a newline.
        assert!(control.ends_with("at a time.\n") && !control.contains("\n\n"));
    }
}
