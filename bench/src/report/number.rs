//! Numbers for readers.

/// A number with three digits and a letter for thousands.
pub(super) fn number(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. | 0.0 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_three_digits() {
        let written = [0.0, 1.0, 0.0123, 0.5, 12.34, 1234.0, 12_345.0, 2.5e6, 7e9].map(number);
        assert_eq!(written, ["0", "1", "0.0123", "0.5", "12.3", "1234", "12.3 k", "2.5 M", "7 G"]);
    }
}
