//! Built test programs, from the messages of `cargo test --no-run --message-format=json`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::task::cargo;

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The package and the target, as `phalanx-broker it`.
    pub(crate) name: String,
    /// The folder of the package, in which cargo runs the program.
    pub(crate) folder: PathBuf,
    pub(crate) path: PathBuf,
}

/// Builds the test programs that `cargo test` with these arguments runs.
pub(crate) fn build(root: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Vec<Program>, String> {
    let mut command = cargo(root);
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(arguments);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not compile".into());
    }
    Ok(programs(&String::from_utf8_lossy(&output.stdout)))
}

/// The test programs in cargo's messages, without binaries and examples that were built beside them.
fn programs(messages: &str) -> Vec<Program> {
    messages.lines().filter_map(program).collect()
}

fn program(message: &str) -> Option<Program> {
    let path = field(message, "executable")?;
    if !message.contains("\"test\":true},\"features\"") {
        return None;
    }
    let manifest = Path::new(field(message, "manifest_path")?);
    // The first name is that of the target.
    let target = field(message, "name")?;
    // `path+file:///…/broker#phalanx-broker@0.1.0`, or `path+file:///…/xtask#0.1.0` if the folder has the same name.
    let (folder, version) = field(message, "package_id")?.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((package, _)) => package,
        None => folder.rsplit('/').next()?,
    };
    let name = format!("{package} {target}");
    Some(Program { name, folder: manifest.parent()?.into(), path: path.into() })
}

/// The first string of this name in a JSON object. No field that is read here contains an escaped quote.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("\"{name}\":\""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_messages() {
        let artifact = |package: &str, target: &str, test: bool, path: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/{package}\",\
                 \"manifest_path\":\"/w/crate/Cargo.toml\",\"target\":{{\"kind\":[\"test\"],\"name\":\"{target}\"}},\
                 \"profile\":{{\"opt_level\":\"0\",\"test\":{test}}},\"features\":[],\"executable\":{path}}}\n"
            )
        };
        let messages = [
            artifact("broker#phalanx-broker@0.1.0", "phalanx_broker", true, "null"),
            artifact("broker#phalanx-broker@0.1.0", "it", true, "\"/w/it-1\""),
            artifact("broker#phalanx-broker@0.1.0", "broker", false, "\"/w/broker\""),
            artifact("xtask#0.1.0", "xtask", true, "\"/w/xtask-2\""),
        ];
        let program = |name: &str, path: &str| Program {
            name: name.to_owned(),
            folder: "/w/crate".into(),
            path: path.into(),
        };
        let expected =
            [program("phalanx-broker it", "/w/it-1"), program("xtask xtask", "/w/xtask-2")];
        assert_eq!(programs(&messages.concat()), expected);
    }
}
