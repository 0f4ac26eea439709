//! The progress bar.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The width of the bar in characters.
const WIDTH: usize = 24;

/// Progress on stderr: a bar in a terminal, else a line for each run.
pub(super) struct Progress {
    total: usize,
    done: usize,
    begin: Instant,
    in_terminal: bool,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        let in_terminal = std::io::stderr().is_terminal();
        Self { total, done: 0, begin: Instant::now(), in_terminal }
    }

    /// Shows what is measured now.
    pub(super) fn begin(&self, what: &str) {
        let line = line(self.done, self.total, self.begin.elapsed(), what);
        // stderr may be closed.
        let _ = match self.in_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K{line}"),
            false => writeln!(std::io::stderr(), "{line}"),
        };
    }

    pub(super) fn done(&mut self) {
        self.done += 1;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.in_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: usize, total: usize, elapsed: Duration, what: &str) -> String {
    let full = WIDTH * done / total.max(1);
    let left = match done {
        0 => String::new(),
        _ => {
            let seconds = elapsed.as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
            format!(", {}:{:02} left", seconds as u64 / 60, seconds as u64 % 60)
        }
    };
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full));
    format!("[{bar}] {} of {total}{left}: {what}", done + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_the_part_and_the_time_left() {
        let first = line(0, 8, Duration::ZERO, "a");
        assert_eq!(first, format!("[{}] 1 of 8: a", ".".repeat(24)));
        let half = line(4, 8, Duration::from_secs(100), "b");
        assert_eq!(half, format!("[{}{}] 5 of 8, 1:40 left: b", "#".repeat(12), ".".repeat(12)));
    }
}
