//! Times on command lines, in the syntax of the configuration files.

use std::ops::RangeInclusive;
use std::time::Duration;

use phalanx_config::duration;

/// Parses a time of up to a day, and at least `least`.
pub(crate) fn time(text: &str, min: Duration) -> Result<Duration, String> {
    match duration(text)? {
        time if (min..=Duration::from_secs(86_400)).contains(&time) => Ok(time),
        _ => Err(format!("expected a time from {min:?} to 1d")),
    }
}

/// Parses a time in whole seconds, as MQTT transmits it.
pub(crate) fn seconds(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let time = duration(text)?;
    let seconds = u32::try_from(time.as_secs()).ok().filter(|_| time.subsec_nanos() == 0);
    let (min, max) = (range.start(), range.end());
    seconds
        .filter(|seconds| range.contains(seconds))
        .ok_or_else(|| format!("expected whole seconds, from {min}s to {max}s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        let min = Duration::from_millis(50);
        assert_eq!(time("50ms", min), Ok(min));
        assert_eq!(seconds("2m", 5..=u32::MAX), Ok(120));
        for text in ["49ms", "2d", "1", "x"] {
            assert!(time(text, min).is_err(), "{text}");
        }
        for text in ["4s", "5500ms", "18h13m", "60"] {
            assert!(seconds(text, 5..=65_535).is_err(), "{text}");
        }
    }
}
