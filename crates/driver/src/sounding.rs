//! How long what comes waits in the kernel before it is taken in.
//!
//! The kernel keeps what has come in line, but does not say since when. So now and then something is sent down the
//! same line, our own bell, and what it waits is what others wait.

use std::time::{Duration, Instant};

use crate::unpark::Wake;

/// What is in the line at present.
#[derive(Default)]
pub(crate) struct Sounding {
    /// Whether anything was left to the kernel since the last was sent.
    left: bool,
    line: Line,
}

#[derive(Default)]
enum Line {
    #[default]
    Empty,
    /// Since then.
    Under(Instant),
    /// It took so long.
    Through(Duration),
}

impl Sounding {
    /// Something has come, or may have, that is not taken in now.
    pub(crate) fn left_outside(&mut self) {
        self.left = true;
    }

    /// The bell was heard. It may have been rung by others, before ours: then a wait is found shorter than it is, once.
    pub(crate) fn came_by(&mut self) {
        if let Line::Under(since) = self.line {
            self.line = Line::Through(since.elapsed());
        }
    }

    /// The caller sleeps, since there is nothing to do: what was is no more.
    pub(crate) fn sleeps(&mut self) {
        self.left = false;
        if let Line::Through(_) = self.line {
            self.line = Line::Empty;
        }
    }

    /// How long the last one has waited, so far if it still does, and sends the next one if anything was left outside. Zero
    /// without one.
    pub(crate) fn waited(&mut self, bell: &impl Wake) -> Duration {
        let left = std::mem::take(&mut self.left);
        let wait = match self.line {
            // Still the same one.
            Line::Under(since) => return since.elapsed(),
            Line::Through(wait) => wait,
            Line::Empty => Duration::ZERO,
        };
        self.line = match left && bell.wake().is_ok() {
            true => Line::Under(Instant::now()),
            false => Line::Empty,
        };
        wait
    }
}
