//! `phalanx stingy` executes the program in its folder, with all arguments.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

#[test]
fn the_program_beside_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let phalanx = folder.path().join("phalanx");
    // The kernel resolves symbolic links to the running program, but not hard links.
    if std::fs::hard_link(env!("CARGO_BIN_EXE_phalanx"), &phalanx).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_phalanx"), &phalanx).unwrap();
    }
    let run = || {
        let mut command = Command::new(&phalanx);
        let command = command.env("PATH", folder.path().join("bin"));
        command.args(["stingy", "memwalk", "--help", "a b"]).output().unwrap()
    };
    let output = run();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("install it with"), "{errors}");

    let tool = folder.path().join("tool");
    std::fs::write(&tool, "#!/bin/sh\nfor i in \"$@\"; do echo \"<$i>\"; done\nexit 3\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&tool, folder.path().join("phalanx-stingy")).unwrap();
    let output = run();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "<memwalk>\n<--help>\n<a b>\n");
    assert_eq!(output.status.code(), Some(3));
}
