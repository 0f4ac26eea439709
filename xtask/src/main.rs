//! The house's own chores, run as `cargo xtask <task>`.
//!
//! Whatever a program can check about this workspace and the compiler does not is checked here, so that
//! reviewers need not. It depends on nothing but the standard library: it is built before anything else.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod book;
mod counting;
mod dist;
mod gates;
mod hostile;
mod live;
mod loom;
mod tidy;

/// What `cargo xtask` says when it is asked nothing, or something it does not know.
const HELP: &str = "\
The house's own chores.

Usage: cargo xtask <task>

Tasks:
  tidy            check what the compiler does not: core's purity, crates that point
                  only downwards, core's layers, retired names, file sizes, where `unsafe` may stand, leftovers, links
                  and paths in the documents, crate docs, trailing whitespace.
                  Prints one line per fault, `path:line: what is wrong; what to do`,
                  and exits 1 if there are any
  loom [FILTER..] run core's loom models, in release mode and a target folder of their
                  own. LOOM_MAX_PREEMPTIONS (default 2) bounds the search: 3 sees more
                  and takes much longer
  hostile [miri] [miri-sim] [asan] [valgrind]
                  run the hostile programs of core and phalanx under these tools, or all
                  but miri-sim, which takes long. Miri and AddressSanitizer want a nightly toolchain, which
                  rustup installs; what cannot run here is skipped, and said
  cost-of-counting [PAIRS]
                  build `phalanx bench op` with and without core's counters, run both in
                  turn, and print what counting costs
  book            build the pages under docs as a book, in target/book. Wants mdbook
  dist [deb] [static]
                  make what users install, in target/dist: a Debian package, an archive
                  with a static program, and their sums
  gates [--update] [NAME..]
                  count what an operation, an event and a request cost (instructions,
                  allocations, misses, system calls) and hold it against xtask/gates.txt;
                  --update writes what it comes to. Wants valgrind
  idle [--connections N]
                  open N (100000) connections, as far as the machine allows, and print what
                  the server holds for each while it is idle
  slow [--connections N] [--seconds N]
                  N (1000) slow clients of each of slowhttptest's kinds beside a normal
                  one: its p99 is to stay within twice what it was, and memory bounded
  soak [--minutes N]
                  everything at once for N (10) minutes: load, clients that go away or are
                  killed, files that change, a cache too small, reloads. Every answer is checked, and at
                  the end operations, descriptors and memory must be back
  help            print this

Everything that a change must pass, these tasks included: .ci/run
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        None => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Some((task, rest)) => match (task.as_str(), rest) {
            ("tidy", []) => tidy::run(&root()),
            ("cost-of-counting", arguments) => counting::run(&root(), arguments),
            ("book", []) => book::run(&root()),
            ("dist", arguments) => dist::run(&root(), arguments),
            ("gates", arguments) => gates::run(&root(), arguments),
            ("idle", arguments) => live::idle::run(&root(), arguments),
            ("slow", arguments) => live::slow::run(&root(), arguments),
            ("soak", arguments) => live::soak::run(&root(), arguments),
            ("loom", filters) => loom::run(&root(), filters),
            ("hostile", tools) => hostile::run(&root(), tools),
            ("help" | "-h" | "--help", _) => {
                print!("{HELP}");
                ExitCode::SUCCESS
            }
            _ => {
                eprintln!("xtask: unknown task `{}`\n\n{HELP}", arguments.join(" "));
                ExitCode::from(2)
            }
        },
    }
}

/// The root of the workspace: the folder above this crate's, wherever the task was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate lies in a folder of the workspace").to_owned()
}
