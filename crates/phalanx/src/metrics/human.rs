//! Formatting of numbers for display, with three digits and a unit.

/// A time in nanoseconds: `870 ns`, `1.25 µs`, `13.0 ms`, `2.00 s`. Zero is `0`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns <= 0.0 => return "0".to_owned(),
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    if unit == "ns" { format!("{value:.0} ns") } else { format!("{} {unit}", digits(value)) }
}

/// A count or a rate: `0`, `7`, `12.5`, `1.25k`, `3.40M`.
pub fn count(n: f64) -> String {
    match n {
        n if n < 999.5 && (n - n.round()).abs() < 0.005 => format!("{n:.0}"),
        n if n < 999.5 => digits(n),
        n if n < 999.5e3 => digits(n / 1e3) + "k",
        n if n < 999.5e6 => digits(n / 1e6) + "M",
        n => digits(n / 1e9) + "G",
    }
}

/// A share of one: `37 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.95 => format!("{:.1} %", percent.max(0.1)),
        percent => format!("{percent:.0} %"),
    }
}

/// Formats the automatic cohort sizes: `cohorts 64`, `cohorts 8–64`, or `calls inside` if the size is one, so that
/// calls run inside their callers.
///
/// ```
/// assert_eq!(phalanx::metrics::human::cohorts((8, 64)), "cohorts 8–64");
/// ```
pub fn cohorts((min, max): (u64, u64)) -> String {
    match (min, max) {
        (1, 1) => "calls inside".to_owned(),
        _ if min == max => format!("cohorts {min}"),
        _ => format!("cohorts {min}–{max}"),
    }
}

/// Formats three significant digits.
fn digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let times = [0.0, 7.4, 999.4, 999.5, 12_345.0, 999_499.9, 999_500.0, 1e9, 123e9];
        let read =
            ["0", "7 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms", "1.00 s", "123 s"];
        assert_eq!(times.map(time), read);
        let counts = [0.0, 7.0, 0.25, 12.34, 999.4, 1250.0, 99_950.0, 3.4e6, 2e9];
        let read = ["0", "7", "0.25", "12.3", "999", "1.25k", "100k", "3.40M", "2.00G"];
        assert_eq!(counts.map(count), read);
        let found = [(1, 1), (64, 64), (1, 64)].map(cohorts);
        assert_eq!(found, ["calls inside", "cohorts 64", "cohorts 1–64"]);
        assert_eq!([0.0, 0.004, 0.37, 1.0].map(percent), ["0 %", "0.4 %", "37 %", "100 %"]);
    }
}
