//! Messages on stderr.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a message for the operator of a server to stderr, with the prefix `phalanx: ` on each line. Errors are
/// ignored, because the caller must not panic, as `eprintln` would, just because the reader of a pipe has exited.
pub fn report(message: impl Display) {
    let _ = io::stderr().write_all(lines(&message.to_string()).as_bytes());
}

fn lines(message: &str) -> String {
    message.lines().map(|line| format!("phalanx: {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_line_has_the_name_in_front() {
        assert_eq!(super::lines("a: b\nc"), "phalanx: a: b\nphalanx: c\n");
    }
}
