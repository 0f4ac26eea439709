//! `cargo xtask cost-of-counting`: measures the cost of the counters in core.
//!
//! `phalanx-bench op` is built twice, once with `--cfg uncounted`, which compiles core's counters out. The two
//! programs run in alternation. Ratios are computed per pair of runs, since the speed of the machine changes; the
//! result is the median of the ratios.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::task::{Outcome, cargo, median, succeed, target};

/// The figures of `phalanx-bench op` that are compared.
const FIGURES: [&str; 3] = ["dispatch_ns", "call_ns", "cross_ns"];

/// Builds both programs and compares them over a number of pairs of runs.
pub(crate) fn run(root: &Path, pairs: usize) -> Outcome {
    let (counted, uncounted) =
        (build(root, "counted", "")?, build(root, "uncounted", "--cfg uncounted")?);
    let mut runs = Vec::new();
    for pair in 0..pairs {
        // Alternate which program runs first.
        let (counted_cost, uncounted_cost) = if pair % 2 == 0 {
            let counted_cost = measure(&counted)?;
            (counted_cost, measure(&uncounted)?)
        } else {
            let uncounted_cost = measure(&uncounted)?;
            (measure(&counted)?, uncounted_cost)
        };
        runs.push((counted_cost, uncounted_cost));
    }
    println!("{:<12} {:>10} {:>10} {:>8}  {pairs} pairs", "", "counted", "uncounted", "ratio");
    for (at, name) in FIGURES.iter().enumerate() {
        let counted_cost = median(runs.iter().map(|run| run.0[at]));
        let uncounted_cost = median(runs.iter().map(|run| run.1[at]));
        let ratio = median(runs.iter().map(|run| run.0[at] / run.1[at]));
        println!("{name:<12} {counted_cost:>10.2} {uncounted_cost:>10.2} {ratio:>8.3}");
    }
    Ok(true)
}

/// Builds the program in a separate target folder, since the flags rebuild every crate.
fn build(root: &Path, name: &str, flags: &str) -> Result<PathBuf, String> {
    let target = target(root).join(name);
    let mut cargo = cargo(root);
    cargo.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", &target);
    cargo.args(["build", "--release", "--package", "phalanx-bench"]);
    succeed(&mut cargo, "the program does not compile")?;
    Ok(target.join("release/phalanx-bench"))
}

/// The figures of one run, in nanoseconds.
fn measure(program: &Path) -> Result<[f64; 3], String> {
    let output = Command::new(program).args(["op", "--rounds", "7", "--json"]).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut figures = [0.0; 3];
    for (figure, name) in figures.iter_mut().zip(FIGURES) {
        *figure = number(&text, name).ok_or_else(|| format!("no {name} in its output: {text}"))?;
    }
    Ok(figures)
}

/// The value of the field `name` in a flat JSON object.
fn number(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    value.split([',', '}', '\n']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn figures_are_found() {
        let text = "{\n  \"dispatch_ns\": 10.25,\n  \"call_ns\": 3\n}";
        assert_eq!(number(text, "dispatch_ns"), Some(10.25));
        assert_eq!(number(text, "call_ns"), Some(3.0));
        assert_eq!(number(text, "cross_ns"), None);
    }
}
