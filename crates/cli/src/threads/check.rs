//! Checks a program with the libraries that its dynamic linker loads at the start.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::elf::{self, Elf};
use super::imports::Treatment;
use super::{program, refusal};

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct CheckReport {
    /// The file that would be executed: for a script its interpreter.
    pub(super) executable: PathBuf,
    /// Reasons for which the program is refused; empty if it is suitable.
    pub(super) refusals: Vec<String>,
    /// `N` of glibc 2.N, if known.
    pub(super) glibc: Option<u32>,
    /// The imports by name, without those of the C library itself.
    pub(super) imports: BTreeMap<String, Import>,
}

/// A name that the program or its libraries import.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) treatment: Treatment,
    /// The importing files.
    pub(super) users: Vec<PathBuf>,
}

/// Checks a program. Refusals are results, not errors.
///
/// # Errors
///
/// The program or one of its libraries cannot be found or read.
pub(super) fn check(name: &Path) -> Result<CheckReport, String> {
    let executable = program::executable(name)?;
    let mut checked = CheckReport { executable: executable.clone(), ..CheckReport::default() };
    let bytes = read(&executable)?;
    if !bytes.starts_with(b"\x7fELF") {
        checked.refusals.push("neither an ELF program nor a script".to_owned());
        return Ok(checked);
    }
    let elf = match elf::parse(&bytes) {
        Ok(elf) => elf,
        Err(reason) => {
            checked.refusals.push(reason);
            return Ok(checked);
        }
    };
    checked.refusals = refusal::of_program(&elf);
    let metadata = std::fs::metadata(&executable);
    let metadata = metadata.map_err(|error| program::unreadable(&executable, &error))?;
    checked.refusals.extend(refusal::of_file(&executable, &metadata));
    checked.refusals.extend(refusal::of_machine());
    checked.refusals.extend(refusal::of_sanitizers(&elf));
    // Only the linker of the installed glibc may run: others could be any program.
    let has_known_linker = refusal::of_program(&elf).is_empty();
    checked.add(&executable, &elf);
    if has_known_linker {
        for library in libraries(&executable)? {
            checked.add_library(&library)?;
        }
        checked.refusals.extend(refusal::of_glibc(checked.glibc));
    }
    Ok(checked)
}

impl CheckReport {
    fn add(&mut self, path: &Path, elf: &Elf) {
        for name in &elf.imports {
            let treatment = Treatment::of(name);
            let import = self.imports.entry(name.clone());
            let import = import.or_insert_with(|| Import { treatment, users: Vec::new() });
            import.users.push(path.to_owned());
        }
    }

    fn add_library(&mut self, path: &Path) -> Result<(), String> {
        let elf =
            elf::parse(&read(path)?).map_err(|message| format!("{}: {message}", path.display()))?;
        if let Some(reason) = refusal::of_sanitizers(&elf) {
            self.refusals.push(format!("{}: {reason}", path.display()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "libc.so.6" {
            self.glibc = elf.newest_glibc;
        }
        // The parts of glibc call each other without the symbols that a preloaded library replaces.
        let of_glibc = ["ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so"];
        if !of_glibc.iter().any(|prefix| name.starts_with(prefix)) {
            self.add(path, &elf);
        }
        Ok(())
    }

    /// Whether the program or a library can create threads.
    pub(super) fn creates_threads(&self) -> bool {
        ["pthread_create", "thrd_create"].iter().any(|name| self.imports.contains_key(*name))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| program::unreadable(path, &error))
}

/// The libraries of a program, found by its dynamic linker. No code of the program runs.
fn libraries(executable: &Path) -> Result<Vec<PathBuf>, String> {
    // `$ORIGIN` in library paths is the folder of the file, not of a link to it.
    let file = std::fs::canonicalize(executable);
    let file = file.map_err(|error| program::unreadable(executable, &error))?;
    let mut command = Command::new(refusal::LINKER);
    command.arg("--list").arg(file).env_remove("LD_PRELOAD").env_remove("LD_AUDIT");
    let Listing { text, errors, has_failed } = run(&mut command)
        .map_err(|error| program::unreadable(Path::new(refusal::LINKER), &error))?;
    if let Some(line) = text.lines().find(|line| line.ends_with("not found")) {
        return Err(format!("{}: {}", executable.display(), line.trim()));
    }
    if has_failed || text.is_empty() {
        return Err(format!("cannot list the libraries: {}", errors.trim()));
    }
    // Lines have the form `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; the vDSO has no file.
    let paths = text.lines().filter_map(|line| {
        let path = line.rsplit(" => ").next()?.trim().rsplit_once(" (")?.0;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}

/// The output of a command.
struct Listing {
    text: String,
    errors: String,
    has_failed: bool,
}

/// Executes a command. If this process ignores SIGCHLD, the kernel waits for the command's end, but reports no exit code.
fn run(command: &mut Command) -> io::Result<Listing> {
    let file =
        || rustix::fs::memfd_create("phalanx-libraries", MemfdFlags::CLOEXEC).map(File::from);
    let (mut text, mut errors) = (file()?, file()?);
    command.stdin(Stdio::null()).stdout(text.try_clone()?).stderr(errors.try_clone()?);
    let has_failed = match command.status() {
        Ok(status) => !status.success(),
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => false,
        Err(error) => return Err(error),
    };
    Ok(Listing { text: content(&mut text)?, errors: content(&mut errors)?, has_failed })
}

fn content(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
