//! Amounts of memory, on command lines and in configurations.

/// Parses an amount in bytes: `65536`, `64K`, `256M`, `2G`, optionally followed by `B` or `iB`; each unit is
/// 1024 times the previous one.
///
/// # Errors
/// If the text is not a number with such a unit, or exceeds a `usize`.
///
/// # Examples
/// ```
/// assert_eq!(phalanx_config::amount("64K"), Ok(65_536));
/// assert!(phalanx_config::amount("1.5M").is_err());
/// ```
pub fn amount(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        unit => return Err(format!("unknown unit {unit:?}; use K, M or G")),
    };
    let count: usize =
        digits.parse().map_err(|_| format!("{text:?} is not an amount such as 64K or 256M"))?;
    count.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn units() {
        assert_eq!(amount("10"), Ok(10));
        assert_eq!(amount("64K"), Ok(65_536));
        assert_eq!(amount("3MiB"), Ok(3 << 20));
        assert_eq!(amount("2g"), Ok(2 << 30));
        for wrong in ["", "x", "-1", "1T", "1.5M", "99999999999999999999", "18446744073709551615G"]
        {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }
}
