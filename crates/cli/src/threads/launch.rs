//! Executes a program with the preloaded library. The library is part of this program; the dynamic linker reads it from
//! a file in memory, so nothing needs to be installed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;

use super::{Order, check, inherited, program};

/// The library, empty on systems that it does not support.
pub(super) const LIBRARY: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/libphalanx_threads.so"));

/// Disabled features: restartable sequences and shadow stacks belong to a kernel thread, but threads move between
/// kernel threads.
const TUNABLES: &str = "glibc.pthread.rseq=0:glibc.cpu.x86_shstk=off";

/// How to run the threads.
pub(super) struct Settings {
    pub(super) carriers: u32,
    pub(super) order: Order,
    pub(super) large_io: bool,
    pub(super) admin: Option<SocketAddr>,
}

/// Replaces this process by `command`, and returns only if that fails: the reason.
pub(super) fn launch(command: &[OsString], settings: &Settings) -> String {
    let [program, arguments @ ..] = command else { return "no command is given".to_owned() };
    // `env` executes its argument with the library.
    let env_program = if program::is_env(program.as_ref()) {
        program::of_env(arguments.iter().map(OsString::as_os_str))
    } else {
        None
    };
    let was_child_pending = inherited::is_child_pending();
    for program in iter::once(program.as_os_str()).chain(env_program) {
        match check::check(program.as_ref()) {
            Ok(checked) if checked.refusals.is_empty() => {}
            Ok(checked) => {
                return format!(
                    "{}: refused: {}",
                    checked.executable.display(),
                    checked.refusals.join("; ")
                );
            }
            Err(error) => return error,
        }
    }
    let signals = inherited::signals(was_child_pending);
    let file = match library() {
        Ok(file) => file,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(address) = settings.admin {
        match listen(address) {
            Ok(listener) => command.env("PHALANX_THREADS_ADMIN", listener),
            Err(error) => return error,
        };
    }
    // The library restores the variables, so that programs executed by the program do not load it.
    let mut set_variable = |name: &str, value: &str, saved: &str| {
        let old = std::env::var_os(name).filter(|old| !old.is_empty());
        // Of several tunables with one name, the last one counts; of several libraries, the first one.
        let colon = OsStr::new(":");
        let joined = match &old {
            Some(old) if name == "GLIBC_TUNABLES" => [old, OsStr::new(value)].join(colon),
            Some(old) => [OsStr::new(value), old].join(colon),
            None => value.into(),
        };
        command.env(name, joined);
        if let Some(old) = old {
            command.env(saved, old);
        }
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    set_variable("LD_PRELOAD", &path, "PHALANX_THREADS_LD_PRELOAD");
    set_variable("GLIBC_TUNABLES", TUNABLES, "PHALANX_THREADS_GLIBC_TUNABLES");
    command.env("PHALANX_THREADS_LIBRARY", file.as_raw_fd().to_string());
    command.env("PHALANX_THREADS_CARRIERS", settings.carriers.to_string());
    if !signals.is_empty() {
        command.env("PHALANX_THREADS_SIGNALS", signals);
    }
    if settings.order == Order::Fifo {
        command.env("PHALANX_THREADS_ORDER", "fifo");
    }
    if !settings.large_io {
        command.env("PHALANX_THREADS_LARGE_IO", "no");
    }
    if let Err(error) = close_opened() {
        return format!("cannot close standard descriptors: {error}");
    }
    format!("cannot execute {}: {}", program.display(), command.exec())
}

/// Marks standard descriptors that Rust's runtime has opened to be closed in the program, if they were closed
/// originally.
fn close_opened() -> rustix::io::Result<()> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    for (number, descriptor) in [input.as_fd(), output.as_fd(), errors.as_fd()].iter().enumerate() {
        if inherited::was_closed(number) {
            rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

/// Listens on the admin address, and returns the descriptor, which the program inherits.
fn listen(address: SocketAddr) -> Result<String, String> {
    let failed = |error: std::io::Error| {
        format!("cannot listen on the admin address {address}: {error}; pass a free one to --admin")
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    rustix::io::fcntl_setfd(&listener, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    Ok(listener.into_raw_fd().to_string())
}

/// A file in memory with the library. It stays open in the program until the library closes it.
fn library() -> Result<File, String> {
    if LIBRARY.is_empty() {
        return Err("this build contains no library to preload".to_owned());
    }
    let file = rustix::fs::memfd_create("phalanx-threads", MemfdFlags::empty());
    let mut file =
        File::from(file.map_err(|error| format!("cannot create a file in memory: {error}"))?);
    file.write_all(LIBRARY).map_err(|error| format!("cannot write a file in memory: {error}"))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if !std::path::Path::new(&path).exists() {
        return Err(format!("{path} does not exist; /proc must be mounted"));
    }
    Ok(file)
}
