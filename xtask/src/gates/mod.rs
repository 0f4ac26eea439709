//! `cargo xtask gates`: what an operation, an event and a request cost, counted and not timed.
//!
//! Instructions, calls of the allocator, misses of simulated caches and system calls are the same on a busy
//! machine as on a calm one. So they are held against figures that are checked in: who makes them worse
//! says so, by a line in a diff.

mod baseline;
mod callgrind;
mod count;

use std::path::Path;
use std::process::{Command, ExitCode};

use baseline::{Baseline, Verdict, shown};

use crate::live;

/// The figures that are held.
const FILE: &str = "xtask/gates.txt";

/// Counts all that `arguments` name, or all there is, and compares; `--update` writes what it comes to.
pub(crate) fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let (update, only) = match arguments.split_first() {
        Some((first, rest)) if first == "--update" => (true, rest),
        _ => (false, arguments),
    };
    if let Some(unknown) = only.iter().find(|name| !count::names().any(|known| known == *name)) {
        let names: Vec<&str> = count::names().collect();
        eprintln!("xtask gates: nothing is called `{unknown}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    match gates(root, update, only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask gates: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing has become worse.
fn gates(root: &Path, update: bool, only: &[String]) -> Result<bool, String> {
    let valgrind = callgrind::version().ok_or("no valgrind; try `apt-get install valgrind`")?;
    let path = root.join(FILE);
    let mut held = match std::fs::read_to_string(&path) {
        Ok(text) => Baseline::read(&text).map_err(|why| format!("{FILE}: {why}"))?,
        Err(_) if update => Baseline::default(),
        Err(error) => {
            return Err(format!("{FILE}: {error}; `cargo xtask gates --update` writes it"));
        }
    };
    let made_by = format!("{}, {valgrind}, {}", compiler()?, std::env::consts::ARCH);
    if held.made_by != made_by && !update {
        println!("note: the baseline was made by {};\n      this is {made_by}\n", held.made_by);
    }
    let program = live::binary(root).map_err(|error| error.to_string())?;
    println!("{:<32}{:>12}{:>12}{:>9}", "", "baseline", "now", "change");
    let (mut worse, mut better, mut skipped) = (Vec::new(), 0, Vec::new());
    for name in count::names().filter(|name| only.is_empty() || only.iter().any(|it| it == name)) {
        let counted = count::count(name, &program, |why| skipped.push(why));
        for figure in counted.map_err(|why| format!("{name}: {why}"))? {
            let verdict = held.judge(&figure);
            let (name, now) = &figure;
            let before = held.value(name);
            println!("{}", line(name, before, *now, verdict));
            better += usize::from(verdict == Verdict::Better);
            if matches!(verdict, Verdict::Worse | Verdict::New) {
                worse.push(line(name, before, *now, verdict));
            }
            // What stays within its bounds is not written, so that a diff shows what has moved.
            match held.figures.iter_mut().find(|(held, _)| held == name) {
                Some(held) if verdict != Verdict::Same => held.1 = *now,
                Some(_) => {}
                None => held.figures.push(figure),
            }
        }
    }
    for why in &skipped {
        println!("\n!!! SKIPPED: {why}");
    }
    if update {
        held.made_by = made_by;
        std::fs::write(&path, held.write()).map_err(|error| format!("{FILE}: {error}"))?;
        println!("\n{FILE} is written; `git diff {FILE}` shows what has moved");
        return Ok(true);
    }
    if better > 0 {
        println!("\nbetter: {better}; hold them by `cargo xtask gates --update`");
    }
    if !worse.is_empty() {
        println!("\nworse, or without a baseline:\n{}", worse.join("\n"));
        println!(
            "\nmend it; or, if it is worth its price, `cargo xtask gates --update`, and say in the commit why"
        );
    }
    Ok(worse.is_empty())
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
    let before = before.map_or(String::new(), shown);
    format!("{name:<32}{before:>12}{:>12}{change:>9}{word}", shown(now))
}

/// The compiler's version, by which figures differ.
fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let output = output.map_err(|error| format!("rustc could not be started: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
