//! Columns of a row: values that are given, or medians of the rounds with their quartiles.

use crate::measure::stats::{Spread, median, quartiles};

/// A source of the field `name` of a row.
pub(crate) trait Column<T> {
    /// The field. Its quartiles, if it has any, are added to `spread`.
    fn take(self, name: &str, spread: &mut Spread) -> T;
}

/// The value itself.
impl<T> Column<T> for T {
    fn take(self, _: &str, _: &mut Spread) -> T {
        self
    }
}

/// A figure of every round: the field is the median. Quartiles of figures that are not numbers are left out.
///
/// # Panics
/// If there are no rounds.
impl Column<f64> for Vec<f64> {
    fn take(self, name: &str, spread: &mut Spread) -> f64 {
        if self.iter().all(|value| value.is_finite()) {
            spread.insert(name.to_owned(), quartiles(&self));
        }
        median(&self)
    }
}

/// The same; `None` without rounds.
impl Column<Option<f64>> for Vec<f64> {
    fn take(self, name: &str, spread: &mut Spread) -> Option<f64> {
        (!self.is_empty()).then(|| Column::<f64>::take(self, name, spread))
    }
}

/// The quartiles of the fields before it.
pub(crate) struct Quartiles;

impl Column<Spread> for Quartiles {
    fn take(self, _: &str, spread: &mut Spread) -> Spread {
        std::mem::take(spread)
    }
}
