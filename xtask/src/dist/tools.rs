//! Other programs, which say what is wrong when something is.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::Command;

/// Packages of Debian that have the programs which are called here.
const PACKAGES: [(&str, &str); 4] =
    [("dpkg-deb", "dpkg"), ("strip", "binutils"), ("musl-gcc", "musl-tools"), ("git", "git")];

/// Runs it, and gives what it printed.
///
/// # Errors
/// When it is not there, with what has it, or when it failed, with what it said.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let package = PACKAGES.iter().find(|(program, _)| *program == name);
            let hint =
                package.map_or(String::new(), |(_, of)| format!("; try `apt-get install {of}`"));
            format!("there is no {name}{hint}")
        }
        _ => format!("{name}: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Compresses a file in its place, without name and time.
pub(super) fn gzip(path: &Path) -> Result<(), String> {
    run(Command::new("gzip").args(["-9n", "--force"]).arg(path)).map(drop)
}

/// Says of what an error is.
pub(super) fn say<E: Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(run(Command::new("echo").arg("well")).unwrap(), "well");
        let failed = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert_eq!(failed, "sh failed: why");
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().contains("there is no"));
    }
}
