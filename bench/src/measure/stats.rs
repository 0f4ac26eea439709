//! Robust statistics for a noisy machine: minimum, median and quartiles.

use std::collections::BTreeMap;

/// The median; for an even number of values, the mean of the middle two.
///
/// # Panics
/// If there are no values, or one is not a number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    }
}

/// The smallest value: the machine in its fast state.
///
/// # Panics
/// If there are no values.
pub(crate) fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).expect("at least one value")
}

/// The largest value.
///
/// # Panics
/// If there are no values.
pub(crate) fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).expect("at least one value")
}

/// The first and third quartile, by linear interpolation between adjacent values.
///
/// # Panics
/// If there are no values, or one is not a number.
pub(crate) fn quartiles(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    [0.25, 0.75].map(|part| {
        let place = part * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    })
}

/// The rounds of an arm, from which rows take their figures.
pub(crate) trait Rounds<T> {
    /// A figure of every round.
    fn each(&self, figure: impl Fn(&T) -> f64) -> Vec<f64>;

    fn median(&self, figure: impl Fn(&T) -> f64) -> f64 {
        median(&self.each(figure))
    }

    /// The ratios of a figure to that of another arm in the same round.
    fn over(&self, other: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64>;

    /// The differences of a figure to that of another arm in the same round.
    fn above(&self, other: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64>;
}

impl<T> Rounds<T> for [T] {
    fn each(&self, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.iter().map(figure).collect()
    }

    fn over(&self, other: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.iter().zip(other).map(|(this, other)| figure(this) / figure(other)).collect()
    }

    fn above(&self, other: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.iter().zip(other).map(|(this, other)| figure(this) - figure(other)).collect()
    }
}

/// A round, or a part of one.
pub(crate) trait Disturbed {
    /// Whether other processes used its cores.
    fn is_disturbed(&self) -> bool;
}

impl<T: Disturbed> Disturbed for &T {
    fn is_disturbed(&self) -> bool {
        (**self).is_disturbed()
    }
}

/// Two arms in the same round.
impl<T: Disturbed> Disturbed for (T, T) {
    fn is_disturbed(&self) -> bool {
        self.0.is_disturbed() || self.1.is_disturbed()
    }
}

/// The undisturbed rounds; all, if others used the cores in each.
pub(crate) fn undisturbed<T: Disturbed + Copy>(rounds: &[T]) -> Vec<T> {
    let quiet: Vec<T> = rounds.iter().copied().filter(|round| !round.is_disturbed()).collect();
    if quiet.is_empty() { rounds.to_vec() } else { quiet }
}

/// Quartiles of a row's figures over the rounds, by name.
pub(crate) type Spread = BTreeMap<String, [f64; 2]>;

/// Quartiles of all rounds' values, by name. Figures with a value that is not a number are left out.
pub(crate) fn spread<const N: usize>(figures: [(&str, Vec<f64>); N]) -> Spread {
    let known = figures
        .into_iter()
        .filter(|(_, values)| !values.is_empty() && values.iter().all(|value| value.is_finite()));
    known.map(|(name, values)| (name.to_owned(), quartiles(&values))).collect()
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

    #[test]
    fn ratios_are_of_the_same_round() {
        let (this, other) = ([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]);
        assert_eq!((this.over(&other, |x| *x), this.median(|x| *x)), (vec![2.0, 3.0, 1.0], 4.0));
    }

    #[test]
    fn half_of_the_values_lie_between_the_quartiles() {
        assert_eq!(quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 4.0]);
        assert_eq!(quartiles(&[1.0, 2.0]), [1.25, 1.75]);
        assert_eq!(quartiles(&[7.0]), [7.0, 7.0]);
        let spread = spread([("us", vec![1.0, 2.0]), ("gone", vec![f64::NAN]), ("none", vec![])]);
        assert_eq!(spread.into_iter().collect::<Vec<_>>(), [("us".to_owned(), [1.25, 1.75])]);
    }
}
