//! The progress bar.

use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress on stderr: a bar in a terminal, otherwise a line for each run.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        let style = ProgressStyle::with_template("[{bar:24}] {pos} of {len}, {eta} left: {msg}");
        Self(ProgressBar::new(total as u64).with_style(style.expect("a valid template")))
    }

    /// Shows what is measured now.
    pub(super) fn start_run(&self, message: &str) {
        self.0.set_message(message.to_owned());
        self.0.tick();
        if self.0.is_hidden() {
            let (run, total) = (self.0.position() + 1, self.0.length().unwrap_or_default());
            // stderr may be closed.
            let _ = writeln!(std::io::stderr(), "{run} of {total}: {message}");
        }
    }

    /// Prints a permanent line.
    pub(super) fn warn(&self, message: &str) {
        self.0.suspend(|| {
            // stderr may be closed.
            let _ = writeln!(std::io::stderr(), "phalanx profile: {message}");
        });
    }

    pub(super) fn finish_run(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
