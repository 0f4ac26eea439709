//! Development tasks, run as `cargo xtask <task>`.
//!
//! They check the rules of this workspace that the compiler does not check. They have few
//! dependencies, so that the tasks build quickly.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod axum_suite;
mod book;
mod cluster;
mod counting;
mod dist;
mod gates;
mod hostile;
mod live;
mod loom;
mod peers;
mod posix;
mod task;
mod template;
mod tidy;

/// Usage, printed without arguments and for unknown ones.
const HELP: &str = "\
Development tasks of this workspace.

Usage: cargo xtask <task>

Tasks:
  tidy            check the repository's rules: purity of core, dependencies between
                  crates and between the layers of core, retired names, file sizes,
                  `unsafe`, unfinished work, links and paths in the documents, crate
                  documentation, trailing whitespace.
                  Prints one line per fault, `path:line: problem; remedy`, and exits
                  with 1 if there are any
  imports         draw the imports between the files of core in docs/plots
  loom [FILTER..] run the loom models, in release mode and a separate target folder.
                  LOOM_MAX_PREEMPTIONS (default 2) bounds the search: 3 covers more
                  and takes much longer
  hostile [miri] [miri-sim] [asan] [valgrind]
                  run the hostile programs of core and phalanx under these tools, by
                  default all but miri-sim, which is slow. Miri and AddressSanitizer
                  require a nightly toolchain, which rustup installs. Missing tools
                  are skipped with a message
  cost-of-counting [PAIRS]
                  build `phalanx-bench op` with and without core's counters, run both in
                  alternation, and print the cost of counting
  axum-suite      run axum's own tests, from its package, against servers of phalanx-axum
  book            build the pages under docs as a book in target/book. Requires mdbook
  dist [deb] [static]
                  build the release files in target/dist: a Debian package, an archive
                  with a static program, and checksums
  gates [--update] [NAME..]
                  count the cost of an operation, an event and a request (instructions,
                  allocations, misses, system calls) and compare it with
                  xtask/gates.txt; --update writes the results. Requires valgrind
  peers           install the programs that benchmarks compare with in target/peers:
                  static-web-server, rumqttd, mochi-mqtt, phalanx-runtimes and
                  phalanx-axum-arms. Requires go for mochi-mqtt, and names the missing
                  packages of Debian
  posix DIR [--carriers N] [--jobs N] [TEST..]
                  compile the Open POSIX Test Suite in DIR, the folder open_posix_testsuite
                  of the Linux Test Project, run its tests natively and under `phalanx
                  threads` with N (2) carriers, and print a table of different verdicts.
                  TEST is the beginning of a name, such as pthread_ or sem_wait/1. Tests
                  that set the clock are left out. Exits with 1 if a test always differs
  template [FOLDER]
                  make a project from the folder `template`, with the crates of this
                  workspace; without FOLDER in target/template, and run its tests
  idle [--connections N]
                  open N (100000) connections, as far as the machine allows, and print
                  the server's memory per idle connection
  slow [--connections N] [--seconds N]
                  run N (1000) slow clients of each of slowhttptest's modes next to a
                  normal client, and check its p99 (at most doubled) and the memory
  soak [--minutes N]
                  run mixed load for N (10) minutes: clients that disconnect or are killed,
                  files that change, a cache that is too small, reloads. Checks every
                  answer, and at the end operations, descriptors and memory
  cluster up [--nodes N]
                  run nats-server and N (3) brokers on free ports, print their addresses,
                  and stop all at Ctrl-C
  cluster check [--seconds N] [--nemesis LIST] [--rate N] [--seed N]
                  run three brokers under load for N (60) seconds, with faults of LIST
                  (kill,stop,cut,nats-kill,restart, by default all; or none), and compare
                  what arrives with the guarantees of docs/broker/cluster.md. Ends with
                  lost, twice, reordered, stuck, and the failover's p50 and p99
  help            print this

.ci/run runs every check that a change must pass, including these tasks.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        None => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Some((task, rest)) => {
            let root = &root();
            let outcome = match (task.as_str(), rest) {
                ("tidy", []) => tidy::run(root),
                ("imports", []) => tidy::import_picture::run(root),
                ("cost-of-counting", arguments) => counting::run(root, arguments),
                ("axum-suite", []) => axum_suite::run(root),
                ("book", []) => book::run(root),
                ("dist", arguments) => dist::run(root, arguments),
                ("gates", arguments) => gates::run(root, arguments),
                ("cluster", arguments) => cluster::run(root, arguments),
                ("posix", arguments) => posix::run(root, arguments),
                ("peers", []) => peers::run(root),
                ("template", arguments) => template::run(root, arguments),
                ("idle", arguments) => live::idle::run(root, arguments),
                ("slow", arguments) => live::slow::run(root, arguments),
                ("soak", arguments) => live::soak::run(root, arguments),
                ("loom", filters) => loom::run(root, filters),
                ("hostile", tools) => hostile::run(root, tools),
                ("help" | "-h" | "--help", _) => {
                    print!("{HELP}");
                    Ok(true)
                }
                _ => {
                    eprintln!("xtask: unknown task `{}`\n\n{HELP}", arguments.join(" "));
                    return ExitCode::from(2);
                }
            };
            task::finish(task, outcome)
        }
    }
}

/// The workspace root: the parent of this crate's folder, whatever the current directory is.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate is in the workspace").to_owned()
}
