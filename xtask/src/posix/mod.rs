//! `cargo xtask posix`: the Open POSIX Test Suite natively and under `phalanx threads`, with equal verdicts.
//!
//! The suite is part of the Linux Test Project and is not in this repository. Its tests are programs whose exit codes are
//! their verdicts. A test that has different verdicts is repeated, since some depend on the load of the machine.

mod programs;
mod verdict;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use clap::{Args, value_parser};
use programs::Program;
use verdict::Run;

use crate::parallel;
use crate::task::{Outcome, cargo, succeed, target};

/// A test whose verdicts differ has so many attempts in all.
const ATTEMPTS: usize = 3;

/// The arguments of `cargo xtask posix`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The folder `open_posix_testsuite` of the Linux Test Project.
    suite: PathBuf,
    /// Beginnings of names of tests, such as pthread_ or sem_wait/1; by default all.
    #[arg(value_name = "TEST")]
    filters: Vec<String>,
    /// Carriers of `phalanx threads`.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..))]
    carriers: u16,
    /// Tests that run at once; by default as many as processors.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

impl Options {
    fn jobs(&self) -> usize {
        self.jobs.map_or_else(parallel::cores, usize::from)
    }
}

/// A difference between the verdicts of a test.
struct Difference {
    name: String,
    native: Run,
    threads: Run,
    /// Whether the verdicts differed in all attempts.
    always: bool,
}

/// Compiles and runs the tests, and prints the differences.
pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let (count, differences) = compare(root, options)?;
    Ok(report(count, &differences))
}

fn compare(root: &Path, options: &Options) -> Result<(usize, Vec<Difference>), String> {
    let phalanx = build(root)?;
    let folder = target(root).join("posix");
    let programs = programs::compile(options, &folder)?;
    println!("{} tests, natively and with {} carriers", programs.len(), options.carriers);
    let differences = parallel::map(&programs, options.jobs(), |program| {
        let difference = compare_one(&phalanx, options, program)?;
        print_difference(&difference);
        Some(difference)
    });
    Ok((programs.len(), differences.into_iter().flatten().collect()))
}

/// Held while a test runs that creates thousands of threads: several at once would exhaust the machine.
static STRESS: Mutex<()> = Mutex::new(());

fn compare_one(phalanx: &Path, options: &Options, program: &Program) -> Option<Difference> {
    let mut first = None;
    let _alone = program.is_stress().then(|| STRESS.lock());
    for _ in 0..ATTEMPTS {
        let native = verdict::run(&mut Command::new(&program.path), program);
        let mut command = Command::new(phalanx);
        let carriers = options.carriers.to_string();
        command.args(["threads", "--carriers", &carriers, "--"]).arg(&program.path);
        let threads = verdict::run(&mut command, program);
        let is_equal = native.verdict == threads.verdict;
        if is_equal && first.is_none() {
            return None;
        }
        let name = program.name.clone();
        let difference = first.get_or_insert(Difference { name, native, threads, always: true });
        if is_equal {
            difference.always = false;
            break;
        }
    }
    first
}

fn print_difference(difference: &Difference) {
    // The lines of a difference follow each other.
    let _whole = std::io::stdout().lock();
    let Difference { name, native, threads, always } = difference;
    let kind = if *always { "differs" } else { "varies" };
    println!("{kind}  {name}: natively {}, with threads {}", native.verdict, threads.verdict);
    for line in threads.output.lines() {
        println!("    {line}");
    }
}

/// Prints the differences; true if no test always differs.
fn report(count: usize, differences: &[Difference]) -> bool {
    let failures = differences.iter().filter(|difference| difference.always).count();
    println!("\n| test | natively | phalanx threads | attempts that differ |\n|---|---|---|---|");
    for Difference { name, native, threads, always } in differences {
        let attempts = if *always { "all" } else { "some" };
        println!("| {name} | {} | {} | {attempts} |", native.verdict, threads.verdict);
    }
    println!("\n{count} tests, {failures} differ, {} vary", differences.len() - failures);
    failures == 0
}

/// Builds the command, and returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = cargo(root);
    cargo.args(["build", "-q", "-p", "phalanx-cli", "--bin", "phalanx"]);
    succeed(&mut cargo, "phalanx does not compile")?;
    Ok(target(root).join("debug/phalanx"))
}
