//! Messages on stderr.

use std::io::{self, Write};

/// Writes a line to stderr. An error has no effect: `eprintln` would panic, and end the renewal of certificates because
/// the reader of a pipe has ended.
pub(crate) fn report(line: &str) {
    let _ = writeln!(io::stderr(), "phalanx: {line}");
}
