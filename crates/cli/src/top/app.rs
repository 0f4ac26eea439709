//! State of the screen and its changes by keys, independent of the terminal.

use phalanx::metrics::{Interval, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::fetch::Failure;
use super::rows::{COLUMNS, Row, rows, sort};

/// Intervals in seconds that `+` and `-` select.
const RATES: [f64; 8] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0];

/// Action after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Leave,
}

/// State of the screen.
pub(super) struct App {
    pub(super) name: String,
    interval_seconds: f64,
    pub(super) is_summed: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) column: Option<usize>,
    pub(super) reversed: bool,
    /// Number of lines scrolled off the top.
    pub(super) scrolled: usize,
    pub(super) latest: Option<Snapshot>,
    pub(super) interval: Option<Interval>,
    pub(super) failure: Option<String>,
}

impl App {
    pub(super) fn new(name: String, interval_seconds: f64, is_summed: bool) -> Self {
        Self {
            name,
            interval_seconds,
            is_summed,
            paused: false,
            help: false,
            column: None,
            reversed: false,
            scrolled: 0,
            latest: None,
            interval: None,
            failure: None,
        }
    }

    /// Interval between snapshots in seconds.
    pub(super) fn interval_seconds(&self) -> f64 {
        self.interval_seconds
    }

    /// Handles the next snapshot, or a failure to get one.
    pub(super) fn take(&mut self, snapshot: Result<Snapshot, Failure>) {
        if self.paused {
            return;
        }
        match snapshot {
            Err(failure) => self.failure = Some(failure.to_string()),
            Ok(snapshot) => {
                self.failure = None;
                let before = self.latest.as_ref();
                self.interval = match before.and_then(|b| Interval::between(b, &snapshot)) {
                    // Rates need a positive interval.
                    Some(interval) if interval.seconds > 0.0 => Some(interval),
                    Some(_) => self.interval.take(),
                    None => Some(Interval::since_start(&snapshot)),
                };
                self.latest = Some(snapshot);
            }
        }
    }

    /// The rows in the selected order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let Some(interval) = &self.interval else { return Vec::new() };
        let mut rows = rows(interval, self.is_summed);
        sort(&mut rows, self.column, self.reversed);
        rows
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::Leave,
            // Any key closes the help.
            _ if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Next::Leave,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('a') => (self.is_summed, self.scrolled) = (!self.is_summed, 0),
            KeyCode::Char('s') | KeyCode::Right => self.column = self.step(1),
            KeyCode::Char('S') | KeyCode::Left => self.column = self.step(-1),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('w') => (self.column, self.reversed) = (None, false),
            KeyCode::Char('+' | '=') => self.interval_seconds = faster(self.interval_seconds),
            KeyCode::Char('-') => self.interval_seconds = slower(self.interval_seconds),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::PageDown => self.scroll(20),
            KeyCode::PageUp => self.scroll(-20),
            _ => (),
        }
        Next::Stay
    }

    /// The next sort column, including wavefront order.
    fn step(&self, by: isize) -> Option<usize> {
        let now = self.column.map_or(0, |column| column + 1) as isize;
        let next = (now + by).rem_euclid(COLUMNS.len() as isize + 1) as usize;
        next.checked_sub(1)
    }

    fn scroll(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.scrolled = self.scrolled.saturating_add_signed(by).min(last);
    }
}

fn faster(interval_seconds: f64) -> f64 {
    RATES.iter().rev().copied().find(|rate| *rate < interval_seconds).unwrap_or(interval_seconds)
}

fn slower(interval_seconds: f64) -> f64 {
    RATES.iter().copied().find(|rate| *rate > interval_seconds).unwrap_or(interval_seconds)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
