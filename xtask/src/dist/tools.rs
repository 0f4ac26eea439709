//! Runs external programs and reports their errors.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::Command;

/// Debian packages of the programs that are called here.
const PACKAGES: [(&str, &str); 4] =
    [("dpkg-deb", "dpkg"), ("strip", "binutils"), ("musl-gcc", "musl-tools"), ("git", "git")];

/// Runs `command` and returns its standard output.
///
/// # Errors
/// When the program is not installed (with the package that contains it) or fails (with its standard error).
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let package = PACKAGES.iter().find(|(program, _)| *program == name);
            let hint = package.map_or(String::new(), |(_, package_name)| {
                format!("; try `apt-get install {package_name}`")
            });
            format!("{name} is not installed{hint}")
        }
        _ => format!("{name}: {error}"),
    })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Compresses a file in place, without name and time in the header.
pub(super) fn gzip(path: &Path) -> Result<(), String> {
    run(Command::new("gzip").args(["-9n", "--force"]).arg(path)).map(drop)
}

/// Prefixes an error with `path`.
pub(super) fn with_path<E: Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_reported() {
        assert_eq!(run(Command::new("echo").arg("well")).unwrap(), "well");
        let failed = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert_eq!(failed, "sh failed: why");
        assert!(
            run(&mut Command::new("no-such-program")).unwrap_err().contains("is not installed")
        );
    }
}
