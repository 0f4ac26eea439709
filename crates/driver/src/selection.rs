//! The choice of a driver for the process.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::{Config, Driver, poll};

/// The operator's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring if it is available, otherwise epoll or kqueue.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll or kqueue.
    Poll,
}

/// An available driver.
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
            _ => {
                let suggestion = match text {
                    "io_uring" => " (io_uring is uring)",
                    "epoll" => " (epoll is poll)",
                    "kqueue" => " (kqueue is poll)",
                    _ => "",
                };
                Err(format!("unknown driver {text:?}; use auto, uring or poll{suggestion}"))
            }
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

/// Selects the driver for a process with one driver of the default [`Config`], like [`choose_for`].
///
/// # Errors
/// The errors of [`choose_for`].
pub fn choose(choice: DriverChoice) -> io::Result<(DriverKind, Option<String>)> {
    choose_for(choice, &Config::default(), 1)
}

/// Selects the driver for the whole process, which opens `drivers` drivers with this `config`. It opens that many
/// rings at the same time, uses each, and closes them, because some may fail although one succeeds. With [`DriverChoice::Auto`],
/// the string, if any, is a log line that explains why io_uring is not used.
///
/// # Errors
/// With [`DriverChoice::Uring`] if io_uring is not available; the message contains a remedy. With
/// [`DriverChoice::Auto`] if creating a ring failed for another reason, such as too many open files; then the
/// poll driver would fail as well.
pub fn choose_for(
    choice: DriverChoice,
    config: &Config,
    drivers: usize,
) -> io::Result<(DriverKind, Option<String>)> {
    if choice == DriverChoice::Poll {
        return Ok((DriverKind::Poll, None));
    }
    match probe(config, drivers) {
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
/// The kernel's error; `Unsupported` for [`DriverKind::Uring`] on systems other than Linux.
pub fn open(kind: DriverKind, config: &Config) -> io::Result<Box<dyn Driver>> {
    match kind {
        DriverKind::Poll => Ok(Box::new(poll::Poll::open(config)?)),
        #[cfg(target_os = "linux")]
        DriverKind::Uring => Ok(Box::new(crate::uring::Uring::open(config)?)),
        #[cfg(not(target_os = "linux"))]
        DriverKind::Uring => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is available only on Linux"))
        }
    }
}

/// Opens drivers, makes a system call with each, and drops them.
#[cfg(target_os = "linux")]
fn probe(config: &Config, drivers: usize) -> io::Result<()> {
    let open = |_| {
        let mut driver = crate::uring::Uring::open(config)?;
        driver.submit()?;
        Ok(driver)
    };
    (0..drivers).map(open).collect::<io::Result<Vec<_>>>().map(drop)
}

#[cfg(not(target_os = "linux"))]
fn probe(_: &Config, _: usize) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Whether `error` means that io_uring is not available here, rather than that it failed.
fn unavailable(error: &io::Error) -> bool {
    let unavailable = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EINVAL, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| unavailable.contains(&code))
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this system has no io_uring; use the poll driver",
        Some(libc::EPERM | libc::EACCES) => {
            "allow it in the container's seccomp profile and in sysctl kernel.io_uring_disabled"
        }
        Some(libc::EINVAL) => "it requires Linux 6.0 or later",
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
        for (text, suggestion) in [("io_uring", "uring"), ("epoll", "poll"), ("kqueue", "poll")] {
            let error = text.parse::<DriverChoice>().unwrap_err();
            assert!(
                error.ends_with(&format!("auto, uring or poll ({text} is {suggestion})")),
                "{error}"
            );
        }
        assert!("x".parse::<DriverChoice>().unwrap_err().ends_with("auto, uring or poll"));
    }

    #[test]
    fn auto_falls_back_only_if_io_uring_is_unavailable() {
        assert!(unavailable(&io::Error::from_raw_os_error(libc::EPERM)));
        assert!(!unavailable(&io::Error::from_raw_os_error(libc::EMFILE)));
    }

    /// The kernel may refuse a large ring and grant a small one, and a sandbox may refuse only the use of a ring.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no seccomp")]
    fn auto_falls_back_if_the_rings_of_the_process_are_refused() {
        use crate::process::sandbox::{refuse, refuse_above};

        let chosen = |sandbox: fn()| {
            let choose = || choose_for(DriverChoice::Auto, &Config::default(), 2).unwrap();
            std::thread::spawn(move || (sandbox(), choose()).1).join().unwrap()
        };
        let large = chosen(|| refuse_above(libc::SYS_io_uring_setup, 16, libc::ENOMEM));
        let enter_denied = chosen(|| refuse(libc::SYS_io_uring_enter, libc::EPERM));
        for (kind, reason) in [large, enter_denied] {
            assert_eq!((kind, reason.is_some()), (DriverKind::Poll, true));
        }
    }

    #[test]
    fn poll_is_always_available() {
        assert_eq!(choose(DriverChoice::Poll).unwrap(), (DriverKind::Poll, None));
        assert_eq!(open(DriverKind::Poll, &Config::default()).unwrap().name(), "poll");
        let (kind, reason) = choose(DriverChoice::Auto).unwrap();
        assert_eq!(kind == DriverKind::Uring, reason.is_none() && cfg!(target_os = "linux"));
    }
}
