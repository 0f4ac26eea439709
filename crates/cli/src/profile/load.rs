//! The user's load.

use std::process::Command;

/// Bytes at the end of an output that an error message includes.
const MAX_SHOWN_BYTES: usize = 600;

/// Runs the command to its end. Returns the p99 that it printed, in nanoseconds.
///
/// # Errors
/// If the command fails.
pub(super) fn run(command: &str) -> Result<Option<f64>, String> {
    let output = Command::new("sh").args(["-c", command]).output();
    let output = output.map_err(|error| format!("cannot run the load with sh: {error}"))?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let text = if stderr.trim().is_empty() { &stdout } else { &stderr };
        return Err(format!(
            "the load `{command}` failed with {}; try it while the program runs. Its output:\n{}",
            output.status,
            tail(text)
        ));
    }
    Ok(p99(&stdout).or_else(|| p99(&stderr)))
}

/// The end of a text.
pub(super) fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let mut at = text.len().saturating_sub(MAX_SHOWN_BYTES);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
}

/// The p99 in the output of a load generator, in nanoseconds: the first number with a name such as `p99`, `99%` or
/// `99th`. Without a unit, in the name or after the number, it is milliseconds.
fn p99(text: &str) -> Option<f64> {
    let names = ["p99", "99%", "99.00%", "99th", "99.000%"];
    text.lines().find_map(|line| {
        let lower = line.to_ascii_lowercase();
        names.iter().find_map(|name| {
            lower.match_indices(name).find_map(|(at, _)| {
                let preceding = lower[..at].chars().next_back();
                if preceding.is_some_and(|before| before.is_ascii_digit() || before == '.') {
                    return None;
                }
                time(&lower[at + name.len()..])
            })
        })
    })
}

/// Whether a text begins with a comma and exactly three digits.
fn is_group(text: &str) -> bool {
    let digits = text.strip_prefix(',').unwrap_or_default();
    digits.find(|next: char| !next.is_ascii_digit()).unwrap_or(digits.len()) == 3
}

/// The first number of a text, with the unit after it or before it. Its thousands may be separated by commas.
fn time(text: &str) -> Option<f64> {
    // `p99.9` is another percentile.
    if text.starts_with(|next: char| next.is_ascii_digit() || next == '.') {
        return None;
    }
    let start = text.find(|next: char| next.is_ascii_digit())?;
    let (name, rest) = text.split_at(start);
    let mut length = rest.find(|next: char| !(next.is_ascii_digit() || ".e".contains(next)));
    // Thousands, as in `1,234 us`.
    while let Some(at) = length
        && is_group(&rest[at..])
    {
        length = Some(at + 4);
        if rest[at + 4..].starts_with('.') {
            let fraction = rest[at + 5..].find(|next: char| !next.is_ascii_digit());
            length = fraction.map(|fraction| at + 5 + fraction);
        }
    }
    let (number, rest) = rest.split_at(length.unwrap_or(rest.len()));
    let number: f64 = number.replace(',', "").parse().ok()?;
    let suffix: String =
        rest.trim_start().chars().take_while(|next| next.is_alphabetic()).collect();
    let before = name.trim_start_matches('_');
    let unit = |unit: &str| match unit {
        "ns" => Some(1.0),
        "us" | "µs" | "μs" => Some(1e3),
        "ms" => Some(1e6),
        "s" | "sec" | "secs" | "seconds" => Some(1e9),
        _ => None,
    };
    // wrk's minutes and hours. As a part of a name, such letters mean something else.
    let long = match &suffix[..] {
        "m" => Some(60e9),
        "h" => Some(3600e9),
        _ => None,
    };
    let named_unit = before.split(|next: char| !next.is_alphabetic()).find_map(unit);
    Some(number * long.or_else(|| unit(&suffix)).or(named_unit).unwrap_or(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_of_usual_load_generators_is_found() {
        for (text, expected) in [
            ("Latency Distribution\n     50%    635.91us\n     99%    1.23ms\n", Some(1.23e6)),
            ("  99.00% in 0.0012 secs\n", Some(1.2e6)),
            ("  99% in 0.0123 secs", Some(12.3e6)),
            ("  95%     11\n  99%     14\n 100%     20 (longest request)\n", Some(14e6)),
            ("{\"latency\":{\"p50_us\":10.0,\"p99_us\": 41.5,\"p99.9_us\":100}}", Some(41.5e3)),
            ("p99.9 = 5 ms, p99 = 2 ms", Some(2e6)),
            ("p99: 1,234 us", Some(1.234e6)),
            ("p99: 1,234,567.5 ns", Some(1_234_567.5)),
            ("p99: 2, p50: 1, unit ms", Some(2e6)),
            ("\"p99_us\":12,\"requests\":100", Some(12e3)),
            ("     99%    1.50m\n", Some(90e9)),
            ("99.9% 5ms\n", None),
            ("nothing", None),
        ] {
            let found = p99(text);
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-6 * expected,
                (found, expected) => found == expected,
            };
            assert!(is_same, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_load_that_fails_says_why() {
        assert_eq!(run("echo p99 3 ms"), Ok(Some(3e6)));
        assert_eq!(run("true"), Ok(None));
        let error = run("echo unreachable >&2; exit 3").unwrap_err();
        assert!(error.contains("unreachable") && error.contains('3'), "{error}");
    }
}
