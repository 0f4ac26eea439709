//! The little statistics that a noisy machine allows: minimum and median.

/// The median; the mean of the middle two for an even number.
///
/// # Panics
/// If there are no values, or one is not a number.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    }
}

/// The smallest: the machine in its fast state.
///
/// # Panics
/// If there are no values.
pub fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).expect("at least one value")
}

/// The largest.
///
/// # Panics
/// If there are no values.
pub fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).expect("at least one value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), minimum(&[2.0, 1.0])),
            (2.0, 2.5, 1.0)
        );
    }
}
