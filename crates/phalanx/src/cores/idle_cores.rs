//! How much time the cores of this process were idle.
//!
//! Linux says so in `/proc/stat`, in hundredths of a second. Reading it may take some 100 µs on a machine with many
//! cores, so it is read rarely.

use std::time::Duration;

/// The time between two readings.
const INTERVAL: Duration = Duration::from_millis(100);
/// A measurement over more time does not tell the present state.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// The answer before the first measurement: neither no core is idle nor one.
const UNKNOWN: u32 = 300;
/// Length of a unit of `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

/// The idle time of all cores that the process may use.
#[derive(Default)]
pub(crate) struct IdleCores {
    /// The time of the last reading, and the idle ticks since the start of the machine.
    last: Option<(Duration, u64)>,
    idle: Option<u32>,
}

impl IdleCores {
    /// The idle time in the recent past, in thousandths of one core. At least one core is idle where the system does
    /// not say.
    pub(crate) fn at(&mut self, now: Duration) -> u32 {
        self.at_reading(now, read)
    }

    fn at_reading(&mut self, now: Duration, read: impl FnOnce() -> Option<u64>) -> u32 {
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

/// The idle ticks of the cores that the process may use.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn read() -> Option<u64> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    sum(&text, |core| core < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(core))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read() -> Option<u64> {
    None
}

/// The sum over the allowed cores of the fields `idle` and `iowait`.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), expect(dead_code))]
fn sum(text: &str, is_allowed: impl Fn(usize) -> bool) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let name = fields.next().unwrap_or_default();
        let Some(Ok(core)) = name.strip_prefix("cpu").map(str::parse) else { continue };
        if is_allowed(core) {
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
    fn idle_ticks_of_the_allowed_cores_are_summed() {
        assert_eq!(sum(TEXT, |_| true), Some(45 + 450 + 7_000));
        assert_eq!(sum(TEXT, |core| core == 1), Some(450));
        assert_eq!(sum("intr 5\n", |_| true), None);
        #[cfg(all(target_os = "linux", not(miri)))]
        assert!(read().is_some());
    }

    #[test]
    fn idle_time_is_measured_between_two_readings() {
        let mut cores = IdleCores::default();
        let mut at = |ms, ticks| cores.at_reading(Duration::from_millis(ms), || ticks);
        assert_eq!(at(5_000, Some(700)), UNKNOWN);
        assert_eq!(at(5_050, Some(999)), UNKNOWN, "not read again so soon");
        assert_eq!(at(5_200, Some(730)), 1_500, "300 of 200 ms");
        assert_eq!(at(5_250, None), 1_500);
        assert_eq!(at(5_400, Some(730)), 0);
        assert_eq!(at(9_000, Some(900)), UNKNOWN, "long ago");
        assert_eq!(at(9_200, None), 1_000);
    }
}
