//! Which driver this process uses: one decision, made once, with its reason.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::{Config, Driver, poll};

/// What the operator asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where it can be had, else readiness.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll or kqueue.
    Poll,
}

/// A driver that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// io_uring.
    Uring,
    /// epoll or kqueue.
    Poll,
}

impl FromStr for DriverChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<DriverChoice, String> {
        match text {
            "auto" => Ok(DriverChoice::Auto),
            "uring" => Ok(DriverChoice::Uring),
            "poll" => Ok(DriverChoice::Poll),
            _ => Err(format!("{text:?} is none of auto, uring, poll")),
        }
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DriverChoice::Auto => "auto",
            DriverChoice::Uring => "uring",
            DriverChoice::Poll => "poll",
        })
    }
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DriverKind::Uring => "uring",
            DriverKind::Poll => "poll",
        })
    }
}

/// Decides for the whole process. With [`DriverChoice::Auto`] the string, if any, says in one line why
/// io_uring is not used; log it.
///
/// # Errors
/// With [`DriverChoice::Uring`] when there is no io_uring: the message says what to do. With
/// [`DriverChoice::Auto`] when a ring failed for another reason than being unavailable, such as too many
/// open files: then readiness would fail as well.
pub fn choose(choice: DriverChoice) -> io::Result<(DriverKind, Option<String>)> {
    if choice == DriverChoice::Poll {
        return Ok((DriverKind::Poll, None));
    }
    match probe() {
        Ok(()) => Ok((DriverKind::Uring, None)),
        Err(error) if choice == DriverChoice::Auto && unavailable(&error) => Ok((
            DriverKind::Poll,
            Some(format!("io_uring is not used: {error}: {}", advice(&error))),
        )),
        Err(error) => {
            let text = format!("io_uring cannot be used: {error}: {}", advice(&error));
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// Opens a driver for the calling thread.
///
/// # Errors
/// What the kernel says, and `Unsupported` for [`DriverKind::Uring`] where there is none.
pub fn open(kind: DriverKind, config: &Config) -> io::Result<Box<dyn Driver>> {
    match kind {
        DriverKind::Poll => Ok(Box::new(poll::Poll::open(config)?)),
        #[cfg(target_os = "linux")]
        DriverKind::Uring => Ok(Box::new(crate::uring::Uring::open(config)?)),
        #[cfg(not(target_os = "linux"))]
        DriverKind::Uring => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is of Linux"))
        }
    }
}

/// Sets up a small driver and drops it.
#[cfg(target_os = "linux")]
fn probe() -> io::Result<()> {
    let small = Config { entries: 4, buffers: 4, ..Config::default() };
    crate::uring::Uring::open(&small).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn probe() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Whether `error` says that io_uring cannot be had here, rather than that something went wrong.
fn unavailable(error: &io::Error) -> bool {
    let gone = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EINVAL, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this system has none; use the poll driver",
        Some(libc::EPERM | libc::EACCES) => {
            "allow it in the container's seccomp profile and in sysctl kernel.io_uring_disabled"
        }
        Some(libc::EINVAL) => "it needs Linux 6.0 or later",
        Some(libc::ENOMEM) => "raise the limit on locked memory (ulimit -l)",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (ulimit -n)",
        _ => "use the poll driver",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_read_as_they_are_written() {
        for choice in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Poll] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("epoll".parse::<DriverChoice>().is_err());
    }

    #[test]
    fn only_absence_makes_auto_fall_back() {
        assert!(unavailable(&io::Error::from_raw_os_error(libc::EPERM)));
        assert!(!unavailable(&io::Error::from_raw_os_error(libc::EMFILE)));
    }

    #[test]
    fn poll_can_always_be_had() {
        assert_eq!(choose(DriverChoice::Poll).unwrap(), (DriverKind::Poll, None));
        assert_eq!(open(DriverKind::Poll, &Config::default()).unwrap().name(), "poll");
        let (kind, reason) = choose(DriverChoice::Auto).unwrap();
        assert_eq!(kind == DriverKind::Uring, reason.is_none() && cfg!(target_os = "linux"));
    }
}
