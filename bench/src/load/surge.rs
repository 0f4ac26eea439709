//! SURGE's model of web users: file sizes, objects per page, and think times.
//!
//! After Barford and Crovella, "Generating representative web workloads for network and server performance
//! evaluation", SIGMETRICS 1998. The 2002 paper's Figure 6 uses this load (§5.1). Times here are in units of the
//! minimum pause between two pages, which is a second in SURGE.

/// Body of the file sizes: lognormal.
const BODY: (f64, f64) = (9.357, 1.318);
/// Tail of the file sizes: Pareto from this size on, with this exponent.
const TAIL: (f64, f64) = (133_000.0, 1.1);
/// Share of files in the tail.
const TAIL_SHARE: f64 = 0.07;
/// Maximum file size, which bounds the tail.
const MAX_BODY: f64 = (16 << 20) as f64;
/// Objects per page, including embedded ones: Pareto from one on, with this exponent.
const OBJECTS_EXPONENT: f64 = 2.43;
/// Maximum number of objects per page.
const MAX_OBJECTS: f64 = 64.0;
/// Pauses between a page's objects: Weibull.
const OBJECT_PAUSE: (f64, f64) = (1.46, 0.382);
/// Pauses between pages: Pareto from one on, with this exponent.
const THINK_TIME_EXPONENT: f64 = 1.5;
/// Maximum pause between pages.
const MAX_THINK_TIME: f64 = 100.0;

/// The sizes of `files` files, in bytes.
pub(crate) fn sizes(files: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let size = |_| match uniform(random) < TAIL_SHARE {
        true => pareto(random, TAIL.0, TAIL.1).min(MAX_BODY) as usize,
        false => (BODY.0 + BODY.1 * normal(random)).exp().min(TAIL.0) as usize,
    };
    (0..files).map(size).collect()
}

/// Number of objects of a page.
pub(crate) fn objects(random: &mut fastrand::Rng) -> u32 {
    pareto(random, 1.0, OBJECTS_EXPONENT).min(MAX_OBJECTS) as u32
}

/// The pause before the next object of a page.
pub(crate) fn between(random: &mut fastrand::Rng) -> f64 {
    OBJECT_PAUSE.1 * (-uniform(random).ln()).powf(1.0 / OBJECT_PAUSE.0)
}

/// The pause before the next page.
pub(crate) fn thinking(random: &mut fastrand::Rng) -> f64 {
    pareto(random, 1.0, THINK_TIME_EXPONENT).min(MAX_THINK_TIME)
}

/// A uniform number above zero and up to one.
fn uniform(random: &mut fastrand::Rng) -> f64 {
    1.0 - random.f64()
}

fn pareto(random: &mut fastrand::Rng, smallest: f64, exponent: f64) -> f64 {
    smallest * uniform(random).powf(-1.0 / exponent)
}

/// A normal number, by Box and Muller.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::stats::median;

    fn drawn(of: impl Fn(&mut fastrand::Rng) -> f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..100_000).map(|_| of(&mut random)).collect()
    }

    fn near(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 0.03, "{found}, not {wanted}");
    }

    #[test]
    fn samples_follow_the_distributions() {
        // The median of a Pareto distribution is its minimum times 2^(1 / exponent).
        near(median(&drawn(thinking)), 2.0_f64.powf(1.0 / THINK_TIME_EXPONENT));
        near(median(&drawn(between)), 0.382 * 2.0_f64.ln().powf(1.0 / 1.46));
        let sizes = sizes(100_000, &mut fastrand::Rng::with_seed(7));
        near(sizes.iter().filter(|size| **size > 133_000).count() as f64, 7_000.0);
        // Half of the body is below its median.
        let below = sizes.iter().filter(|size| (**size as f64) < 9.357_f64.exp()).count();
        near(below as f64, 0.5 * 93_000.0);
        let pages = drawn(|random| f64::from(objects(random)));
        let single = pages.iter().filter(|objects| **objects < 2.0).count() as f64;
        near(single, 1e5 * (1.0 - 2.0_f64.powf(-2.43)));
    }
}
