//! Sizes and durations, in files, flags and environment variables.

use std::time::Duration;

/// The number and the unit of a text.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((plain.then(|| digits.parse().ok())??, &text[digits.len()..]))
}

/// Parses a size in bytes: `65536`, `64K`, `256M`, `2G`, optionally followed by `B` or `iB`; each unit is
/// 1024 times the previous one.
///
/// # Errors
/// If the text is not a number with such a unit, or exceeds 64 bits.
///
/// # Examples
/// ```
/// assert_eq!(phalanx_config::size("64K"), Ok(65_536));
/// assert!(phalanx_config::size("1.5M").is_err());
/// ```
pub fn size(text: &str) -> Result<u64, String> {
    let (count, unit) =
        split(text).ok_or_else(|| format!("{text:?} is not a size such as 64K or 256M"))?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("unknown unit {unit:?}; use K, M or G")),
    };
    count.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too large"))
}

/// Parses a duration: `500ms`, `30s`, with one of the units ns, us, ms, s, m, h and d; or `0`.
///
/// # Errors
/// If the text is not a number with such a unit, or exceeds 64 bits.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// assert_eq!(phalanx_config::duration("2m"), Ok(Duration::from_secs(120)));
/// assert!(phalanx_config::duration("5").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a time such as 500ms or 30s");
    let (count, unit) = split(text).ok_or_else(invalid)?;
    let seconds = |unit| count.checked_mul(unit).map(Duration::from_secs).ok_or_else(invalid);
    match unit {
        "" if count == 0 => Ok(Duration::ZERO),
        "ns" => Ok(Duration::from_nanos(count)),
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(86_400),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("10"), Ok(10));
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("3MiB"), Ok(3 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        for invalid in
            ["", "x", "-1", "+1", "1T", "1.5M", "99999999999999999999", "18446744073709551615G"]
        {
            assert!(size(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for invalid in ["", "5", "s", "-1s", "1.5s", "5 s", "1w", "99999999999999999999s"] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }
}
