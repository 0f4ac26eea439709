//! Properties of the process that the program inherits and that this command has changed: Rust's runtime changes some
//! before `main`, and the check executes the dynamic linker as a child.

#[cfg(target_arch = "x86_64")]
pub(super) use phalanx_threads::inherited::{ignored_pipe_signal, was_closed};

/// Other machines have no library to preload.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ignored_pipe_signal() -> bool {
    false
}

/// See [`ignored_pipe_signal`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn was_closed(_: usize) -> bool {
    false
}

const SIGCHLD: u32 = 17;

/// The changes that the library makes before the program begins, in words.
pub(super) fn signals(was_child_pending: bool) -> String {
    let take_child = !was_child_pending && is_child_pending();
    let changes = [(ignored_pipe_signal(), "ignore-pipe"), (take_child, "take-child")].map(
        |(is_needed, change)| {
            if is_needed { change } else { "" }
        },
    );
    changes.join(" ").trim().to_owned()
}

/// Whether SIGCHLD is pending, because the process blocks it.
pub(super) fn is_child_pending() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // Signals of the process, and of its only thread.
    ["ShdPnd:", "SigPnd:"].iter().any(|field| set(&status, field) & 1 << (SIGCHLD - 1) != 0)
}

/// A set of signals in the text of `/proc/PID/status`.
fn set(status: &str, field: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sets_of_signals() {
        let status = "Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000010000\n";
        assert_eq!((set(status, "ShdPnd:"), set(status, "SigPnd:")), (0x10000, 0));
        assert_eq!(set("", "ShdPnd:"), 0);
    }
}
