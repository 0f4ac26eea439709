//! Zipf-distributed numbers, drawn in constant time.

/// Draws numbers below `n`, the first most often: the `i`th with a weight of `1 / (i + 1)^alpha`.
///
/// Walker's alias method in Vose's form: a column is chosen at random, then one of the two numbers
/// in it. ("A linear algorithm for generating random numbers with a given distribution", 1991.)
#[derive(Clone, Debug)]
pub struct Zipf {
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Share of the column's own number, of 2³².
    own: u64,
    other: u32,
}

impl Zipf {
    /// # Panics
    /// If `n` is zero or above 2³², or `alpha` is not a finite number.
    pub fn new(n: usize, alpha: f64) -> Self {
        assert!(n > 0 && alpha.is_finite() && u32::try_from(n).is_ok());
        let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-alpha)).collect();
        let mean = weights.iter().sum::<f64>() / n as f64;
        let mut heights: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let (mut low, mut high): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&at| heights[at] < 1.0);
        // The remaining columns are full but for rounding errors.
        let mut columns: Vec<Column> =
            (0..n).map(|at| Column { own: 1 << 32, other: at as u32 }).collect();
        while let (Some(&small), Some(&large)) = (low.last(), high.last()) {
            low.pop();
            let own = (heights[small] * (1u64 << 32) as f64) as u64;
            columns[small] = Column { own, other: large as u32 };
            heights[large] -= 1.0 - heights[small];
            if heights[large] < 1.0 {
                high.pop();
                low.push(large);
            }
        }
        Self { columns }
    }

    /// Draws a number.
    #[inline]
    pub fn draw(&self, random: &mut fastrand::Rng) -> usize {
        // One draw selects both: the high half the column, the low half the position within it.
        let bits = random.u64(..);
        let at = (((bits >> 32) * self.columns.len() as u64) >> 32) as usize;
        let column = self.columns[at];
        if bits & 0xffff_ffff < column.own { at } else { column.other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(n: usize, alpha: f64, draws: usize) -> Vec<f64> {
        let (zipf, mut random) = (Zipf::new(n, alpha), fastrand::Rng::with_seed(7));
        let mut counts = vec![0.0; n];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random)] += 1.0);
        counts
    }

    /// Pearson's statistic against its expectation: n - 1, with a variance of 2 (n - 1).
    #[test]
    fn samples_follow_the_distribution() {
        for (n, alpha) in [(1, 1.0), (2, 0.0), (10, 1.0), (1000, 1.0), (1000, 0.7), (300, 1.4)] {
            let draws = 1_000_000;
            let total: f64 = (1..=n).map(|rank| (rank as f64).powf(-alpha)).sum();
            let statistic: f64 = counts(n, alpha, draws)
                .iter()
                .enumerate()
                .map(|(at, count)| {
                    let expected = draws as f64 * ((at + 1) as f64).powf(-alpha) / total;
                    (count - expected).powi(2) / expected
                })
                .sum();
            let freedom = (n - 1) as f64;
            let bound = freedom + 5.0 * (2.0 * freedom).sqrt() + 1e-6;
            assert!(statistic < bound, "{n} {alpha}: {statistic} of at most {bound}");
        }
    }
}
