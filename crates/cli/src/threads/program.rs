//! Finds the file that the kernel would execute: names in `$PATH`, and interpreters of scripts.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Maximum length of a chain of scripts, as in the kernel (`BINPRM_MAX_RECURSION`).
const MAX_SCRIPTS: usize = 5;

/// Resolves a path, or a name without slashes in `$PATH`, and follows scripts to their interpreter.
///
/// # Errors
///
/// No such file, a file that cannot be read, and a chain of more than five scripts.
pub(super) fn executable(name: &Path) -> Result<PathBuf, String> {
    let mut path = find(name)?;
    for _ in 0..MAX_SCRIPTS {
        let mut start = Vec::new();
        std::fs::File::open(&path)
            .and_then(|file| file.take(4096).read_to_end(&mut start))
            .map_err(|error| unreadable(&path, &error))?;
        let Some(interpreter) = interpreter(&start) else { return Ok(path) };
        path = find(&interpreter)?;
    }
    Err(format!("{}: more than {MAX_SCRIPTS} scripts interpret each other", name.display()))
}

/// The message for a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn find(name: &Path) -> Result<PathBuf, String> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok())
        .ok_or_else(|| format!("{} is not in $PATH", name.display()))
}

/// The interpreter of a script's first line, or the program that it names for `env`.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(OsStr::new);
    let first = Path::new(words.next()?);
    if is_env(first) { of_env(words).map(PathBuf::from) } else { Some(first.to_owned()) }
}

/// Whether a program is `env`.
pub(super) fn is_env(program: &Path) -> bool {
    program.file_name() == Some(OsStr::new("env"))
}

/// The program that `env` executes: its first argument that is neither an option nor a variable.
pub(super) fn of_env<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Option<&'a OsStr> {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_bytes() {
            // The value of the option is the next argument.
            b"-u" | b"--unset" | b"-C" | b"--chdir" => _ = arguments.next(),
            bytes if bytes.starts_with(b"-") || bytes.contains(&b'=') => {}
            _ => return Some(argument),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let table = [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! /usr/bin/perl -w\n", Some("/usr/bin/perl")),
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S A=b python3 -u\n", Some("python3")),
            ("#!/usr/bin/env -S -u A python3\n", Some("python3")),
            ("#!\n", None),
            ("\x7fELF", None),
        ];
        for (start, expected) in table {
            assert_eq!(interpreter(start.as_bytes()), expected.map(PathBuf::from), "{start}");
        }
    }
}
