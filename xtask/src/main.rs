//! Development tasks, run as `cargo xtask <task>`.
//!
//! They check the rules of this workspace that the compiler does not check, and run what is too large for a test.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};

mod artifacts;
mod axum_suite;
mod book;
mod cluster;
mod counting;
mod dist;
mod gates;
mod hostile;
mod live;
mod loom;
mod parallel;
mod peers;
mod posix;
mod task;
mod template;
mod test_runs;
mod tidy;

/// Development tasks of this workspace.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    disable_help_subcommand = true,
    after_help = ".ci/run runs every check that a change must pass, including these tasks."
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the repository.
    ///
    /// The rules concern the purity of core, dependencies between crates and between the layers of core, retired
    /// names, file sizes, `unsafe`, unfinished work, links and paths in the documents, the chart of README, crate
    /// documentation, and trailing whitespace. Prints one line per fault, `path:line: problem; remedy`, and exits with
    /// 1 if there are any.
    Tidy,
    /// Run the tests as `cargo test` does, with as many test programs at once as there are cores.
    ///
    /// All programs run, also after a failure. Their output is printed when they have ended. Without doctests.
    Test {
        /// Arguments of `cargo test`, such as `-p phalanx-core`; by default `--workspace`.
        ///
        /// Arguments after `--`, such as a part of the names of tests, are those of the test programs.
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
        #[arg(last = true, hide = true)]
        filters: Vec<String>,
    },
    /// Draw the imports between the files of core in docs/plots.
    Imports,
    /// Draw the ratios of README's table in docs/plots.
    Summary,
    /// Run the loom models, in release mode and a target folder of their own.
    ///
    /// LOOM_MAX_PREEMPTIONS (default 2) bounds the search: 3 covers more and takes much longer.
    Loom {
        /// Parts of the names of models; without one, all run.
        filters: Vec<String>,
    },
    /// Run the hostile programs of core and phalanx under tools that check memory.
    ///
    /// Miri and AddressSanitizer require a nightly toolchain, which rustup installs. Missing tools are skipped with
    /// a message.
    Hostile {
        /// The tools; by default all but miri-sim, which is slow.
        tools: Vec<hostile::Tool>,
    },
    /// Measure the cost of core's counters.
    ///
    /// Builds `phalanx-bench op` with and without counters, and runs both in turn.
    CostOfCounting {
        /// Pairs of runs.
        #[arg(default_value_t = 9, value_parser = value_parser!(u16).range(1..))]
        pairs: u16,
    },
    /// Run axum's own tests, from its package, against servers of phalanx-axum.
    AxumSuite,
    /// Build the pages under docs as a book in target/book. Requires mdbook.
    Book,
    /// Build the release files in target/dist, with checksums.
    Dist {
        /// The kinds of files; by default all.
        kinds: Vec<dist::Kind>,
    },
    /// Count the cost of an operation, an event and a request, and compare it with xtask/gates.txt.
    ///
    /// The counts are instructions, allocations, cache misses and system calls. Requires valgrind.
    Gates {
        /// Write the results to xtask/gates.txt.
        #[arg(long)]
        update: bool,
        /// Names of workloads; by default all.
        #[arg(value_parser = gates::workloads())]
        workloads: Vec<String>,
    },
    /// Install the programs that benchmarks compare with in target/peers.
    ///
    /// They are static-web-server, rumqttd, mochi-mqtt, phalanx-runtimes, phalanx-axum-arms and phalanx-http-arms.
    /// Requires go for mochi-mqtt, and names the missing packages of Debian.
    Peers,
    /// Compare the Open POSIX Test Suite natively and under `phalanx threads`.
    ///
    /// Compiles the tests, runs each both ways, and prints a table of different verdicts. Tests that set the clock
    /// are left out. Exits with 1 if a test always differs.
    Posix(posix::Options),
    /// Make a project from the folder `template`, with the crates of this workspace.
    Template {
        /// The new folder; without it, the project is made in target/template and its tests run.
        folder: Option<PathBuf>,
    },
    /// Print the web server's memory per idle connection.
    Idle {
        /// Connections to open, as far as the machine allows.
        #[arg(long, default_value_t = 100_000)]
        connections: u64,
    },
    /// Run slow clients of each of slowhttptest's modes next to a normal client.
    ///
    /// Checks the normal client's 99th percentile, which may double, and the memory.
    Slow {
        /// Slow clients.
        #[arg(long, default_value_t = 1000)]
        connections: u64,
        /// Duration of each mode, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Run mixed load: clients that disconnect or are killed, files that change, a cache that is too small, reloads.
    ///
    /// Checks every answer, and at the end operations, descriptors and memory.
    Soak {
        /// Duration, in minutes.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// Duration, in seconds instead.
        #[arg(long, conflicts_with = "minutes")]
        seconds: Option<u64>,
    },
    /// Run brokers on NATS as processes of this machine.
    #[command(subcommand)]
    Cluster(cluster::Task),
}

fn main() -> ExitCode {
    let Arguments { task } = Arguments::parse();
    let root = &root();
    task::exit_code(match task {
        Task::Tidy => tidy::run(root),
        Task::Test { arguments, filters } => test_runs::run(root, arguments, filters),
        Task::Imports => tidy::import_picture::run(root),
        Task::Summary => tidy::summary_chart::run(root),
        Task::Loom { filters } => loom::run(root, &filters),
        Task::Hostile { tools } => hostile::run(root, &tools),
        Task::CostOfCounting { pairs } => counting::run(root, pairs.into()),
        Task::AxumSuite => axum_suite::run(root),
        Task::Book => book::run(root),
        Task::Dist { kinds } => dist::run(root, &kinds),
        Task::Gates { update, workloads } => gates::run(root, update, &workloads),
        Task::Peers => peers::run(root),
        Task::Posix(options) => posix::run(root, &options),
        Task::Template { folder } => template::run(root, folder.as_deref()),
        Task::Idle { connections } => live::idle::run(root, connections),
        Task::Slow { connections, seconds } => live::slow::run(root, connections, seconds),
        Task::Soak { minutes, seconds } => live::soak::run(root, seconds.unwrap_or(60 * minutes)),
        Task::Cluster(task) => cluster::run(root, task),
    })
}

/// The workspace root: the parent of this crate's folder, whatever the current directory is.
fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().expect("the crate is in the workspace").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn arguments_of_tests_follow_two_hyphens() {
        let parsed = |arguments: &str| {
            let all = ["xtask", "test"].into_iter().chain(arguments.split_whitespace());
            let Task::Test { arguments, filters } = Arguments::parse_from(all).task else {
                panic!("another task");
            };
            let (arguments, filters) = test_runs::split(arguments, filters);
            (arguments.join(" "), filters.join(" "))
        };
        assert_eq!(parsed(""), ("--workspace".into(), String::new()));
        assert_eq!(parsed("-- a --skip=b"), ("--workspace".into(), "a --skip=b".into()));
        assert_eq!(parsed("-p c --lib"), ("-p c --lib".into(), String::new()));
        assert_eq!(parsed("-p c -- --exact a"), ("-p c".into(), "--exact a".into()));
    }
}
