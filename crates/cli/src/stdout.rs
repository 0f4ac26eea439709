//! Output of commands on stdout and stderr.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use phalanx::runtime::report;

/// Prints a text. Returns exit code 1 if it cannot be written.
pub(crate) fn print(text: impl Display) -> ExitCode {
    let mut stdout = io::stdout().lock();
    finish(write!(stdout, "{text}").and_then(|()| stdout.flush()))
}

/// Prints a line to stderr. Errors are ignored, because a closed stderr should not end a command.
pub(crate) fn complain(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The exit code of a command that has written its output.
pub(crate) fn finish(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe: `phalanx completions bash | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            report(format_args!("cannot print: {error}"));
            ExitCode::FAILURE
        }
    }
}
