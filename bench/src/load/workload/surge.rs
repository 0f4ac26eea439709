//! SURGE's model of web users: file sizes, objects per page, and think times.
//!
//! After Barford and Crovella, "Generating representative web workloads for network and server performance
//! evaluation", SIGMETRICS 1998. The 2002 paper's Figure 6 uses this load (§5.1). `docs/bench/papers.md` compares the
//! constants with the sources that were available. Times here are in units of the minimum pause between two pages, which
//! is a second in SURGE.

/// Body of the file sizes: lognormal.
const BODY: (f64, f64) = (9.357, 1.318);
/// Tail of the file sizes: Pareto from this size on, with this exponent.
const TAIL: (f64, f64) = (133_000.0, 1.1);
/// Share of files in the tail.
const TAIL_SHARE: f64 = 0.07;
/// Maximum file size of a site that is cut, which bounds the tail.
pub(crate) const MAX_BODY: f64 = (16 << 20) as f64;
/// Distance of a request in the stack of files, counted from the last requested one: lognormal.
const DISTANCE: (f64, f64) = (1.5, 0.8);
/// Files beside a distance among which the next request is drawn.
const WINDOW: usize = 16;
/// Objects per page, including embedded ones: Pareto from one on, with this exponent.
const OBJECTS_EXPONENT: f64 = 2.43;
/// Maximum number of objects per page.
const MAX_OBJECTS: f64 = 64.0;
/// Pauses between a page's objects: Weibull, by shape and scale. The program SURGE has had none since its revision 1.1.
const OBJECT_PAUSE: (f64, f64) = (1.46, 0.382);
/// Pauses between pages: Pareto from one on, with this exponent.
const THINK_TIME_EXPONENT: f64 = 1.5;
/// Maximum pause between pages.
const MAX_THINK_TIME: f64 = 100.0;

/// The sizes of `files` files of at most `most`, in bytes.
pub(crate) fn sizes(files: usize, most: f64, random: &mut fastrand::Rng) -> Vec<usize> {
    let size = |_| match uniform(random) < TAIL_SHARE {
        true => pareto(random, TAIL.0, TAIL.1).min(most) as usize,
        false => (BODY.0 + BODY.1 * normal(random)).exp().min(TAIL.0) as usize,
    };
    (0..files).map(size).collect()
}

/// A reference stream with temporal locality: `requests` numbers of files, of which file `n` occurs in proportion to
/// 1/(n + 1), at least once. The distances in a stack of the files by their last request are lognormal, as far as the
/// numbers of requests permit.
pub(crate) fn stream(files: usize, requests: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let harmonic: f64 = (1..=files).map(|rank| 1.0 / rank as f64).sum();
    let share = |file: usize| requests as f64 / harmonic / (file + 1) as f64;
    let mut left: Vec<usize> = (0..files).map(|file| (share(file) as usize).max(1)).collect();
    // The top of the stack is at its end.
    let mut stack: Vec<usize> = (0..files).collect();
    random.shuffle(&mut stack);
    let mut stream = Vec::with_capacity(left.iter().sum());
    while let Some(last) = stack.len().checked_sub(1) {
        let distance = (DISTANCE.0 + DISTANCE.1 * normal(random)).exp() as usize;
        // Of the files near this distance, one with many requests left is more likely.
        let (near, far) = (distance.min(last), (distance + WINDOW).min(last));
        let total: usize = (near..=far).map(|at| left[stack[last - at]]).sum();
        let mut drawn = random.usize(..total);
        let mut at = near;
        while drawn >= left[stack[last - at]] {
            drawn -= left[stack[last - at]];
            at += 1;
        }
        let file = stack.remove(last - at);
        stream.push(file);
        left[file] -= 1;
        if left[file] > 0 {
            stack.push(file);
        }
    }
    stream
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
        let sizes = sizes(100_000, MAX_BODY, &mut fastrand::Rng::with_seed(7));
        near(sizes.iter().filter(|size| **size > 133_000).count() as f64, 7_000.0);
        // Half of the body is below its median.
        let below = sizes.iter().filter(|size| (**size as f64) < 9.357_f64.exp()).count();
        near(below as f64, 0.5 * 93_000.0);
        let pages = drawn(|random| f64::from(objects(random)));
        let single = pages.iter().filter(|objects| **objects < 2.0).count() as f64;
        near(single, 1e5 * (1.0 - 2.0_f64.powf(-2.43)));
    }

    #[test]
    fn a_stream_has_the_popularity_of_zipf_and_temporal_locality() {
        let mut random = fastrand::Rng::with_seed(7);
        let stream = stream(1000, 20_000, &mut random);
        let count = |file| stream.iter().filter(|each| **each == file).count() as f64;
        near(count(0) / count(9), 10.0);
        assert!((0..1000).all(|file| count(file) >= 1.0));
        // Half of the requests are for one of the files requested just before, in any other order for far fewer.
        let repeats = |stream: &[usize]| {
            let repeated = |at: &usize| stream[at.saturating_sub(16)..*at].contains(&stream[*at]);
            (0..stream.len()).filter(repeated).count() as f64 / stream.len() as f64
        };
        let mut shuffled = stream.clone();
        random.shuffle(&mut shuffled);
        let (close, without) = (repeats(&stream), repeats(&shuffled));
        assert!(close > 0.5 && close > 1.5 * without, "{close}, {without}");
    }
}
