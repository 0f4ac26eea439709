//! `cargo xtask template`: a project from the folder `template`, which `cargo generate` takes as well.

use std::fs;
use std::path::Path;

use crate::task::{Outcome, cargo, succeed, target};

/// Name of the project whose tests run.
const NAME: &str = "counter-service";
/// The crates of a project, which it takes from this workspace.
const CRATES: &[&str] = &["axum", "compat", "core", "driver", "fibre", "macros", "phalanx"];

/// Makes the project in a folder, or makes one in `target/template` and tests it.
pub(crate) fn run(root: &Path, folder: Option<&Path>) -> Outcome {
    match folder {
        Some(folder) => instantiate(root, folder)?,
        None => {
            let folder = root.join("target/template").join(NAME);
            let _ = fs::remove_dir_all(&folder);
            instantiate(root, &folder)?;
            test(root, &folder)?;
        }
    }
    Ok(true)
}

/// Makes the project. Its crates are those of this workspace, because none is released yet.
fn instantiate(root: &Path, folder: &Path) -> Result<(), String> {
    if folder.exists() {
        return Err(format!("{} exists; name a new folder", folder.display()));
    }
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(is_name) {
        let rule = "use lowercase letters, digits and hyphens, with a letter first";
        return Err(format!("`{name}` is no name of a project; {rule}"));
    }
    let failed = |error| format!("cannot write {}: {error}", folder.display());
    copy(&root.join("template"), folder, name).map_err(failed)?;
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(failed)?;
    fs::write(&manifest, text + &patch(root)).map_err(failed)?;
    // The versions of this workspace, so that a build needs no network.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    Ok(())
}

/// Replaces the released crates by those of this workspace.
fn patch(root: &Path) -> String {
    let mut text = "\n[workspace]\n\n[patch.crates-io]\n".to_owned();
    for crate_name in CRATES {
        let package = match *crate_name {
            "phalanx" => "phalanx".to_owned(),
            other => format!("phalanx-{other}"),
        };
        let path = root.join("crates").join(crate_name);
        text += &format!("{package} = {{ path = {:?} }}\n", path.display().to_string());
    }
    text
}

/// Copies a folder, with the placeholders of `cargo generate` replaced in names and contents.
fn copy(from: &Path, to: &Path, name: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(replaced(&entry.file_name().to_string_lossy(), name));
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, name)?;
        } else {
            let text = replaced(&fs::read_to_string(entry.path())?, name);
            assert!(!text.contains("{{"), "{}: unknown placeholder", entry.path().display());
            fs::write(target, text)?;
        }
    }
    Ok(())
}

fn replaced(text: &str, name: &str) -> String {
    text.replace("{{project-name}}", name).replace("{{crate_name}}", &name.replace('-', "_"))
}

/// Builds the project and runs its tests, without a network. It shares dependencies that the workspace
/// has built with the same options.
fn test(root: &Path, folder: &Path) -> Result<(), String> {
    let mut cargo = cargo(folder);
    cargo.args(["test", "--offline"]).env("CARGO_TARGET_DIR", target(root));
    succeed(&mut cargo, &format!("the tests in {} failed", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let text = "{{project-name}}.service uses {{crate_name}}";
        assert_eq!(replaced(text, "my-shop"), "my-shop.service uses my_shop");
    }
}
