//! The action of the process for a signal, which neither the standard library nor rustix returns.
//!
//! # Safety
//! `sigaction(2)` without a new action changes nothing, and writes the current action to memory of this function. A
//! zeroed action is valid.

/// Whether the process has the default action for `signal`. Returns `false` for an invalid signal.
#[must_use]
pub fn has_default_action(signal: i32) -> bool {
    // SAFETY: see the head of this file.
    let (result, action) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let result = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        (result, action)
    };
    result == 0 && action.sa_sigaction == libc::SIG_DFL
}

#[cfg(test)]
mod tests {
    use super::has_default_action;

    #[test]
    fn actions() {
        assert!(has_default_action(libc::SIGUSR2));
        // Rust's runtime ignores this signal.
        assert!(!has_default_action(libc::SIGPIPE));
        assert!(!has_default_action(100_000));
    }
}
