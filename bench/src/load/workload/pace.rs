//! Intended start times of requests in open loop.

/// Distribution of the intervals between intended starts, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    mean: f64,
    constant: bool,
}

impl Pace {
    /// `rate` is in requests per second and positive.
    pub(crate) fn new(rate: f64, constant: bool) -> Self {
        Self { mean: 1e9 / rate, constant }
    }

    /// The interval to the next start. Intervals are exponential unless constant: Poisson arrivals model many
    /// independent users.
    #[inline]
    pub(crate) fn gap(self, random: &mut fastrand::Rng) -> f64 {
        if self.constant { self.mean } else { -(1.0 - random.f64()).ln() * self.mean }
    }
}

/// The sequence of intended starts.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    pace: Pace,
    random: fastrand::Rng,
    /// In nanoseconds; `None` before the start of the run.
    next: Option<f64>,
}

impl Arrivals {
    pub(crate) fn new(pace: Pace, random: fastrand::Rng) -> Self {
        Self { pace, random, next: None }
    }

    /// Starts the run at `now`, which may be earlier than this call: requests with an intended start between
    /// the two count. Has no effect after the first call.
    pub(crate) fn begin(&mut self, now: u64) {
        self.next.get_or_insert_with(|| now as f64 + self.pace.gap(&mut self.random));
    }

    /// Intended start of the next request; `None` before the start of the run.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next.map(|next| next as u64)
    }

    /// Advances to the following request.
    pub(crate) fn step(&mut self) {
        if let Some(next) = &mut self.next {
            *next += self.pace.gap(&mut self.random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let (pace, mut random) = (Pace::new(50_000.0, false), fastrand::Rng::with_seed(3));
        let gaps: Vec<f64> = (0..200_000).map(|_| pace.gap(&mut random)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 20_000.0 - 1.0).abs() < 0.01, "{mean}");
        // The standard deviation equals the mean, and the share above t is e^(-t / mean).
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / 20_000.0 - 1.0).abs() < 0.02, "{variance}");
        for times in [0.5, 1.0, 3.0_f64] {
            let above = gaps.iter().filter(|gap| **gap > times * 20_000.0).count() as f64;
            let share = above / gaps.len() as f64;
            assert!((share - (-times).exp()).abs() < 0.005, "{times}: {share}");
        }
    }

    #[test]
    fn arrivals_in_a_window_are_poisson() {
        // The variance of the count equals its mean.
        let (pace, mut random) = (Pace::new(1e6, false), fastrand::Rng::with_seed(5));
        let (mut counts, mut next) = (vec![0.0_f64; 20_000], 0.0);
        while next < 20_000.0 * 10_000.0 {
            counts[(next / 10_000.0) as usize] += 1.0;
            next += pace.gap(&mut random);
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance =
            counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 10.0).abs() < 0.1 && (variance / mean - 1.0).abs() < 0.05);
    }

    #[test]
    fn constant_is_constant() {
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(Pace::new(1000.0, true).gap(&mut random), 1e6);
    }
}
