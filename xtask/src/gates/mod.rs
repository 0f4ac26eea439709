//! `cargo xtask gates`: the cost of an operation, an event and a request, counted rather than timed.
//!
//! Instructions, allocator calls, simulated cache misses and system calls do not depend on the load of the
//! machine. They are compared with stored figures, so a change that makes one worse appears as a line in a diff.

mod baseline;
mod callgrind;
mod count;

use std::path::Path;
use std::process::Command;

use clap::builder::PossibleValuesParser;

use baseline::{Baseline, Verdict, format_value};
use count::Programs;

use crate::live;
use crate::task::Outcome;

/// The file of stored figures.
const FILE: &str = "xtask/gates.txt";

/// The names of workloads.
pub(crate) fn workloads() -> PossibleValuesParser {
    PossibleValuesParser::new(count::names())
}

/// Counts the workloads named in `only`, or all, and compares them; true if none is worse. `update` writes the results.
pub(crate) fn run(root: &Path, update: bool, only: &[String]) -> Outcome {
    let valgrind =
        callgrind::version().ok_or("valgrind is not installed; try `apt-get install valgrind`")?;
    let path = root.join(FILE);
    let mut held = match std::fs::read_to_string(&path) {
        Ok(text) => Baseline::read(&text).map_err(|reason| format!("{FILE}: {reason}"))?,
        Err(_) if update => Baseline::default(),
        Err(error) => {
            return Err(format!("{FILE}: {error}; `cargo xtask gates --update` writes it").into());
        }
    };
    let made_by = format!("{}, {valgrind}, {}", compiler()?, std::env::consts::ARCH);
    if held.made_by != made_by && !update {
        println!(
            "note: the baseline was measured with {};\n      this is {made_by}\n",
            held.made_by
        );
    }
    let programs = Programs { phalanx: live::binary(root)?, kernels: live::kernels(root)? };
    println!("{:<32}{:>12}{:>12}{:>9}", "", "baseline", "now", "change");
    let (mut worse, mut better, mut skipped) = (Vec::new(), 0, Vec::new());
    let is_wanted = |name: &&str| only.is_empty() || only.iter().any(|it| it == name);
    let names: Vec<_> = count::names().filter(is_wanted).collect();
    for (name, counted) in names.iter().zip(count::count_all(&names, &programs)) {
        let (figures, missing) = counted.map_err(|reason| format!("{name}: {reason}"))?;
        skipped.extend(missing);
        for figure in figures {
            let verdict = held.compare(&figure);
            let (name, now) = &figure;
            let before = held.value(name);
            println!("{}", line(name, before, *now, verdict));
            better += usize::from(verdict == Verdict::Better);
            if matches!(verdict, Verdict::Worse | Verdict::New) {
                worse.push(line(name, before, *now, verdict));
            }
            // Figures within their tolerance are not rewritten, so that a diff shows only real changes.
            match held.figures.iter_mut().find(|(held, _)| held == name) {
                Some(held) if verdict != Verdict::Same => held.1 = *now,
                Some(_) => {}
                None => held.figures.push(figure),
            }
        }
    }
    for reason in &skipped {
        println!("\n!!! SKIPPED: {reason}");
    }
    let workloads: Vec<_> = count::names().collect();
    let stale_figures = held.stale_figures(&workloads);
    if update {
        held.figures.retain(|(name, _)| !stale_figures.contains(name));
        held.made_by = made_by;
        std::fs::write(&path, held.write()).map_err(|error| format!("{FILE}: {error}"))?;
        println!("\n{FILE} is written; `git diff {FILE}` shows the changes");
        return Ok(true);
    }
    if better > 0 {
        println!("\nbetter: {better}; store them with `cargo xtask gates --update`");
    }
    if !worse.is_empty() {
        println!("\nworse, or without a baseline:\n{}", worse.join("\n"));
        println!(
            "\ncorrect it; or, if the cost is justified, run `cargo xtask gates --update` and state the reason in the commit"
        );
    }
    if !stale_figures.is_empty() {
        let names = stale_figures.join("\n");
        println!(
            "\nno workload has these figures; `cargo xtask gates --update` removes them:\n{names}"
        );
    }
    Ok(worse.is_empty() && stale_figures.is_empty())
}

/// A line of the table.
fn line(name: &str, before: Option<f64>, now: f64, verdict: Verdict) -> String {
    let change = match before {
        Some(before) if before >= 0.0005 => format!("{:+.1} %", (now / before - 1.0) * 100.0),
        Some(_) => String::new(),
        None => "new".to_owned(),
    };
    let word = match verdict {
        Verdict::Same | Verdict::New => "",
        Verdict::Better => "  better",
        Verdict::Worse => "  WORSE",
    };
    let before = before.map_or(String::new(), format_value);
    format!("{name:<32}{before:>12}{:>12}{change:>9}{word}", format_value(now))
}

/// The version of the compiler, on which figures depend.
fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
