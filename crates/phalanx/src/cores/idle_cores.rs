//! Measurement of the idle time of this process's cores.
//!
//! Linux reports it in `/proc/stat`, in hundredths of a second. Reading the file may take some 100 µs on a machine with
//! many cores, so it is read rarely.

use std::time::Duration;

/// The time between two readings.
const INTERVAL: Duration = Duration::from_millis(100);
/// A measurement over a longer time says nothing about the current state.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// The value before the first measurement. It means neither that all cores are in use nor that one is idle.
const UNKNOWN: u32 = 300;
/// Length of a unit of `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

/// The idle time of a set of cores.
#[derive(Default)]
pub(crate) struct IdleCores {
    /// The time of the last reading, and the idle ticks since the start of the machine.
    last: Option<(Duration, u64)>,
    /// The number of cores at that time.
    number: usize,
    idle: Option<u32>,
}

impl IdleCores {
    /// The total idle time of these cores in the recent past, in thousandths of one core. If the system does not report
    /// it, returns the value for one idle core. A set with the same number of cores must always be the same set.
    pub(crate) fn at(&mut self, now: Duration, cores: &[usize]) -> u32 {
        self.at_reading(now, cores.len(), || read(cores))
    }

    fn at_reading(
        &mut self,
        now: Duration,
        number: usize,
        read: impl FnOnce() -> Option<u64>,
    ) -> u32 {
        if std::mem::replace(&mut self.number, number) != number {
            (self.last, self.idle) = (None, None);
        }
        let age = self.last.map(|(at, _)| now.saturating_sub(at));
        if age.is_some_and(|age| age < INTERVAL) {
            return self.idle.unwrap_or(UNKNOWN);
        }
        let Some(ticks) = read() else { return 1_000 };
        let before = self.last.replace((now, ticks));
        self.idle = match (before, age) {
            (Some((_, before)), Some(age)) if age <= MAX_INTERVAL => {
                let idle = TICK.as_nanos() * u128::from(ticks.saturating_sub(before));
                u32::try_from(1_000 * idle / age.as_nanos()).ok()
            }
            _ => None,
        };
        self.idle.unwrap_or(UNKNOWN)
    }
}

/// The idle ticks of these cores.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn read(cores: &[usize]) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    sum(&text, |core| cores.contains(&core))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read(_: &[usize]) -> Option<u64> {
    None
}

/// The sum over some cores of the fields `idle` and `iowait`.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), expect(dead_code))]
fn sum(text: &str, is_one: impl Fn(usize) -> bool) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let name = fields.next().unwrap_or_default();
        let Some(Ok(core)) = name.strip_prefix("cpu").map(str::parse) else { continue };
        if is_one(core) {
            let ticks: u64 =
                fields.skip(3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
            *sum.get_or_insert(0) += ticks;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  9 9 9 999 9 0 0 0 0 0\ncpu0 1 2 3 40 5 6 7 8 9 0\n\
                        cpu1 1 2 3 400 50 6 7 8 9 0\ncpu12 1 2 3 7000 0 0 0 0 0 0\nintr 5 4\n";

    #[test]
    fn idle_ticks_of_some_cores_are_summed() {
        assert_eq!(sum(TEXT, |_| true), Some(45 + 450 + 7_000));
        assert_eq!(sum(TEXT, |core| core == 1), Some(450));
        assert_eq!(sum("intr 5\n", |_| true), None);
        #[cfg(all(target_os = "linux", not(miri)))]
        assert!(read(&[0]).is_some() && read(&[]).is_none());
    }

    #[test]
    fn idle_time_is_measured_between_two_readings() {
        let mut cores = IdleCores::default();
        let mut at = |ms, ticks| cores.at_reading(Duration::from_millis(ms), 4, || ticks);
        assert_eq!(at(5_000, Some(700)), UNKNOWN);
        assert_eq!(at(5_050, Some(999)), UNKNOWN, "not read again so soon");
        assert_eq!(at(5_200, Some(730)), 1_500, "300 of 200 ms");
        assert_eq!(at(5_250, None), 1_500);
        assert_eq!(at(5_400, Some(730)), 0);
        assert_eq!(at(9_000, Some(900)), UNKNOWN, "long ago");
        assert_eq!(at(9_200, None), 1_000);
    }

    #[test]
    fn ticks_of_other_cores_are_not_compared() {
        let mut idle = IdleCores::default();
        let mut at =
            |ms, cores, ticks| idle.at_reading(Duration::from_millis(ms), cores, || Some(ticks));
        assert_eq!(at(0, 4, 100), UNKNOWN);
        assert_eq!(at(200, 4, 130), 1_500);
        assert_eq!(at(250, 1, 50), UNKNOWN, "one core has fewer idle ticks than four");
        assert_eq!(at(450, 1, 60), 500);
    }
}
