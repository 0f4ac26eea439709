//! The reasons for which a program is refused.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::elf::Elf;

/// The dynamic linker of glibc for x86-64.
pub(super) const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The first version of glibc (2.N) that contains the thread functions in libc.so.6 itself.
const OLDEST_GLIBC: u32 = 34;

/// Bit of the second word of hardware capabilities: user code may set its FS base (`HWCAP2_FSGSBASE`).
const HWCAP2_FSGSBASE: usize = 1 << 1;

/// Reasons in a program's contents, without its libraries.
pub(super) fn of_program(elf: &Elf) -> Vec<String> {
    let mut reasons = Vec::new();
    if elf.is_go {
        reasons.push("Go programs have their own N-to-M threads");
    }
    match elf.interpreter.as_deref() {
        None => reasons.push("statically linked: no library can be preloaded"),
        Some(path) if path.contains("ld-musl") => {
            reasons.push("linked with musl; only glibc is supported");
        }
        Some(path) if !same_file(path, LINKER) => {
            reasons.push("its dynamic linker is not that of the installed glibc");
        }
        Some(_) => {}
    }
    reasons.into_iter().map(str::to_owned).collect()
}

/// Reasons in the owner and mode of a program's file: the dynamic linker ignores preloaded libraries.
pub(super) fn of_file(path: &Path, metadata: &Metadata) -> Vec<String> {
    let mut reasons = Vec::new();
    if metadata.mode() & 0o6000 != 0 {
        reasons.push("setuid or setgid".to_owned());
    }
    if rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok() {
        reasons.push("has file capabilities".to_owned());
    }
    reasons
}

/// Sanitizers whose records of threads would be wrong.
pub(super) fn of_sanitizers(elf: &Elf) -> Option<String> {
    let tools = [("__asan_init", "AddressSanitizer"), ("__tsan_init", "ThreadSanitizer")];
    let names = || elf.imports.iter().chain(&elf.exports);
    let (_, tool) = tools.iter().find(|(symbol, _)| names().any(|name| name == symbol))?;
    Some(format!("compiled with {tool}"))
}

/// The reason in the version of glibc, 2.N.
pub(super) fn of_glibc(version: Option<u32>) -> Option<String> {
    match version {
        Some(OLDEST_GLIBC..) => None,
        Some(old) => Some(format!("glibc 2.{old} is older than 2.{OLDEST_GLIBC}")),
        None => Some("not linked with glibc".to_owned()),
    }
}

/// The reason in this machine.
pub(super) fn of_machine() -> Option<String> {
    let (_, second) = rustix::param::linux_hwcap();
    let supported = cfg!(target_arch = "x86_64") && second & HWCAP2_FSGSBASE != 0;
    (!supported).then(|| "this machine or kernel lacks FSGSBASE".to_owned())
}

fn same_file(one: &str, other: &str) -> bool {
    let resolved = |path: &str| std::fs::canonicalize(path).ok();
    resolved(one).is_some_and(|one| Some(one) == resolved(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_missing_versions_of_glibc_are_refused() {
        assert_eq!(of_glibc(Some(34)), None);
        assert!(of_glibc(Some(33)).unwrap().contains("2.33"));
        assert!(of_glibc(None).is_some());
    }

    #[test]
    fn programs_are_refused_by_their_contents() {
        let elf_with = |interpreter: Option<&str>, is_go| {
            let interpreter = interpreter.map(str::to_owned);
            of_program(&Elf { interpreter, is_go, ..Elf::default() }).join("; ")
        };
        assert!(elf_with(None, false).contains("statically linked"));
        assert!(elf_with(Some("/lib/ld-musl-x86_64.so.1"), false).contains("musl"));
        assert!(elf_with(Some("/bin/false"), false).contains("dynamic linker"));
        assert!(elf_with(None, true).contains("Go"));
        let sanitized = Elf { exports: vec!["__tsan_init".to_owned()], ..Elf::default() };
        assert!(of_sanitizers(&sanitized).unwrap().contains("ThreadSanitizer"));
        assert_eq!(of_sanitizers(&Elf::default()), None);
    }
}
