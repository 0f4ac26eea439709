//! The event log, shared by all processors.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use phalanx::time::now;
use time::OffsetDateTime;

use crate::events::class::{EventClass, LogFormat};
use crate::events::line::Line;
use crate::events::rate_window::RateWindow;
use crate::events::traces::Traces;
use crate::events::writer::Writer;

/// The log. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// A bit for each enabled class.
    enabled: AtomicU8,
    is_json: AtomicBool,
    /// Maximum number of lines of each class per second.
    rate: AtomicU32,
    windows: [Mutex<RateWindow>; EventClass::ALL.len()],
    writer: Writer,
    traces: Traces,
}

impl EventLog {
    /// Applies the configuration: the classes, the format, and the maximum number of lines of each class per second.
    pub(crate) fn configure(&self, classes: &[EventClass], format: LogFormat, rate: u32) {
        let bits = classes.iter().fold(0, |bits, class| bits | class.bit());
        self.0.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
        self.0.rate.store(rate, Ordering::Relaxed);
        self.0.enabled.store(bits, Ordering::Relaxed);
    }

    /// The traces of operators, which record the same events in more detail.
    pub(crate) fn traces(&self) -> &Traces {
        &self.0.traces
    }

    /// Whether events of this class are logged: one atomic load.
    #[inline]
    pub(crate) fn is_on(&self, class: EventClass) -> bool {
        self.0.enabled.load(Ordering::Relaxed) & class.bit() != 0
    }

    /// Logs an event. `fields` adds its fields, and is called only if the event is logged.
    #[inline]
    pub(crate) fn log(
        &self,
        class: EventClass,
        event: &'static str,
        fields: impl FnOnce(&mut Line),
    ) {
        if self.is_on(class) {
            self.write(class, event, fields);
        }
    }

    #[cold]
    fn write(&self, class: EventClass, event: &str, fields: impl FnOnce(&mut Line)) {
        self.write_suppressed(class, now());
        let is_admitted =
            self.window(class, |window| window.admit(now(), self.0.rate.load(Ordering::Relaxed)));
        if is_admitted {
            let mut line = self.line(event);
            fields(&mut line);
            self.put(class, line);
        }
    }

    /// Reports suppressed events. Called at intervals, and before the next event of the class.
    pub(crate) fn report_suppressed(&self) {
        EventClass::ALL.into_iter().for_each(|class| self.write_suppressed(class, now()));
    }

    /// Writes the queued lines when the broker ends.
    pub(crate) fn close(&self) {
        self.0.writer.close();
    }

    fn write_suppressed(&self, class: EventClass, now: Duration) {
        if let Some(count) = self.window(class, |window| window.take_suppressed(now)) {
            let mut line = self.line("suppressed");
            line.plain("class", class.name());
            line.number("count", count);
            self.put(class, line);
        }
    }

    fn line(&self, event: &str) -> Line {
        let time = rfc3339(OffsetDateTime::now_utc());
        Line::new(event, &time, self.0.is_json.load(Ordering::Relaxed))
    }

    fn put(&self, class: EventClass, line: Line) {
        if !self.0.writer.write(line.finish()) {
            self.window(class, RateWindow::count_lost);
        }
    }

    fn window<R>(&self, class: EventClass, apply: impl FnOnce(&mut RateWindow) -> R) -> R {
        let window = &self.0.windows[class as usize];
        apply(&mut window.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A time in the form of RFC 3339, with milliseconds.
fn rfc3339(time: OffsetDateTime) -> String {
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second, ms) = time.to_hms_milli();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_fixed_length() {
        let time = OffsetDateTime::from_unix_timestamp(1_709_164_800).unwrap();
        assert_eq!(rfc3339(time), "2024-02-29T00:00:00.000Z");
    }
}
