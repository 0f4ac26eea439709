//! Maps values to positions: ranges, ticks, and number formats.

/// The range of an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// The range of `values`, from zero unless logarithmic; never empty.
    pub(super) fn over(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if logarithmic {
            let (low, high) = if low < high { (low, high) } else { (high / 2.0, high * 2.0) };
            return Self { low, high, logarithmic };
        }
        // Space above the topmost line.
        let high = if high > 0.0 { high * 1.05 } else { 1.0 };
        Self { low: low.min(0.0), high, logarithmic }
    }

    /// The same from the lowest to the highest value, for axes that need not begin at zero.
    pub(super) fn beginning_at(mut self, lowest: f64) -> Self {
        if !self.logarithmic && lowest < self.high {
            self.low = lowest;
        }
        self
    }

    /// Position of `value`: 0 is the low end, 1 the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high, value) = match self.logarithmic {
            true => (self.low.ln(), self.high.ln(), value.ln()),
            false => (self.low, self.high, value),
        };
        (value - low) / (high - low)
    }

    /// About `count` round values within the range.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.logarithmic { self.powers(count) } else { self.steps(count) }
    }

    fn steps(&self, count: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count as f64;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * unit);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    /// Powers of two over short ranges, of ten over long ones.
    fn powers(&self, count: usize) -> Vec<f64> {
        let doublings = (self.high / self.low).log2();
        let base: f64 = if doublings <= 2.0 * count as f64 { 2.0 } else { 10.0 };
        let (first, last) = (self.low.log(base) - 1e-9, self.high.log(base) + 1e-9);
        let all: Vec<i32> = (first.ceil() as i32..=last.floor() as i32).collect();
        let every = all.len().div_ceil(count).max(1);
        all.into_iter().step_by(every).map(|n| base.powi(n)).collect()
    }
}

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
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let written = [0.0, 1.0, 0.0123, 0.5, 12.34, 1234.0, 12_345.0, 2.5e6, 7e9].map(number);
        assert_eq!(written, ["0", "1", "0.0123", "0.5", "12.3", "1234", "12.3 k", "2.5 M", "7 G"]);
    }

    #[test]
    fn ticks_are_round_and_within() {
        let linear = Scale::over([0.0, 95.0].into_iter(), false);
        assert_eq!(linear.ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let doubling = Scale::over([1.0, 256.0].into_iter(), true);
        assert_eq!(doubling.ticks(5), [1.0, 4.0, 16.0, 64.0, 256.0]);
        let long = Scale::over([64.0, 1e6].into_iter(), true);
        assert_eq!(long.ticks(6), [100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!((doubling.place(16.0), linear.place(0.0)), (0.5, 0.0));
        let single = Scale::over([8.0].into_iter(), true);
        assert!(single.place(8.0) > 0.0 && single.place(8.0) < 1.0);
    }
}
