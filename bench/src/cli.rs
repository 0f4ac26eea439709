//! The command lines of `phalanx-bench`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use phalanx::runtime::DriverKind;

use crate::error::Error;
use crate::{
    broker, concurrency, dial, failure, figure2, figure4, figure6, figure7, figure8, floor,
    interleave, kernel, ladder, light, load, matching, op, overload, pipeline, report, runtimes,
    scale, twin, web,
};

/// Exit code of an interrupted command, as of a shell on SIGINT.
const INTERRUPTED: u8 = 130;

impl load::Options {
    /// Sends the load and prints the report. The exit code is 0; 1 if nothing was answered or the load could not
    /// be sent; 2 for bad arguments.
    fn execute(self) -> ExitCode {
        let report = match load::run(&self) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("phalanx-bench load: {error}");
                return ExitCode::from(error.exit_code());
            }
        };
        if self.json {
            println!("{}", report.to_json())
        } else {
            print!("{report}")
        }
        if report.completed == 0 && report.errors.total() > 0 {
            eprintln!("phalanx-bench load: no request was answered");
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}

/// Benchmarks of Phalanx: each compares it with something else in one run.
#[derive(Parser, Clone, Debug)]
#[command(name = "phalanx-bench", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: BenchCommand,
}

impl Cli {
    /// Runs the command. The exit code is 0; 1 if a measurement failed; 2 for bad arguments; 130 if interrupted.
    pub fn run(self) -> ExitCode {
        self.command.run()
    }
}

/// The commands.
#[derive(Subcommand, Clone, Debug)]
enum BenchCommand {
    /// The cost of an operation, a boxed closure and a spawned task
    Op(OpCommand),
    /// The same small tasks on Phalanx, tokio, glommio and monoio
    Runtimes(runtimes::Options),
    /// The web server compared with a bare loop, its threaded twin, nginx and others
    Web(web::Options),
    /// The MQTT broker compared with mosquitto
    Broker(broker::Options),
    /// When cohorts pay: stages of generated code compared with run to completion and threads
    Pipeline(pipeline::Options),
    /// The TUX paper's Figures 1 and 7: the cost of many concurrent requests
    Concurrency(concurrency::Options),
    /// The TUX paper's failure zone: the rate at which a server no longer recovers
    Failure(failure::Options),
    /// The tuned cohort size compared with a sweep over all sizes
    Ladder(ladder::Options),
    /// The gain from prefetching within a cohort: lookups in a large hash table
    Interleave(interleave::Options),
    /// The paper's Figure 2: cohorts of system calls with flushed caches
    Figure2(figure2::Options),
    /// The paper's Figure 4: a profile of the stages of the running web server
    Figure4(figure4::Options),
    /// The paper's Figure 6: servers under the load of users who read and think
    Figure6(figure6::Options),
    /// The paper's Figure 7: instructions, misses and cycles per request, staged and threaded
    Figure7(figure7::Options),
    /// The paper's Figure 8: duration of a publish, threaded and staged, by number of clients
    Figure8(figure8::Options),
    /// The web server's cost and latency by batching delay
    Dial(dial::Options),
    /// The web server's latency at light load compared with its threaded twin
    Light(light::Options),
    /// The web server's goodput under overload compared with the twin and nginx
    Overload(overload::Options),
    /// Matching events against a million filters, one at a time and in cohorts
    Match(matching::Options),
    /// Cost, throughput and latency of the servers by their number of processors
    Scale(scale::Options),
    /// All of these in one run, with a page of plots
    Report(report::Options),
    Load(load::Options),
    /// The threaded twin of the web server
    #[command(hide = true)]
    TwinServer(TwinServer),
    /// A bare loop on one driver, with a single answer
    #[command(hide = true)]
    FloorServer(FloorServer),
    /// A fixed workload that `cargo xtask gates` counts
    #[command(hide = true)]
    Kernel(KernelCommand),
}

/// `phalanx-bench op`.
#[derive(Args, Clone, Debug)]
struct OpCommand {
    /// Number of measurements per arm; at least 7
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Fewer operations: only checks that it runs
    #[arg(long)]
    quick: bool,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
}

/// `phalanx-bench kernel`.
#[derive(Args, Clone, Debug)]
struct KernelCommand {
    /// The kernel
    kernel: kernel::Kernel,
    /// Number of iterations
    #[arg(long, default_value_t = 64)]
    count: usize,
}

/// `phalanx-bench floor-server`.
#[derive(Args, Clone, Debug)]
struct FloorServer {
    /// Driver: uring or poll
    #[arg(long, value_parser = kind)]
    driver: DriverKind,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    processors: usize,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// `phalanx-bench twin-server`.
#[derive(Args, Clone, Debug)]
struct TwinServer {
    /// The folder to serve
    directory: PathBuf,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn kind(text: &str) -> Result<DriverKind, String> {
    match text {
        "uring" => Ok(DriverKind::Uring),
        "poll" => Ok(DriverKind::Poll),
        _ => Err("uring or poll".to_owned()),
    }
}

impl BenchCommand {
    fn run(self) -> ExitCode {
        match self {
            BenchCommand::Op(command) => command.run(),
            BenchCommand::Web(options) => {
                let is_partial = |report: &web::Report| !report.missing.is_empty();
                show_partial("web", options.json, web::run(&options), is_partial)
            }
            BenchCommand::Broker(options) => {
                let is_partial = |report: &broker::Report| report.interrupted;
                show_partial("broker", options.json, broker::run(&options), is_partial)
            }
            BenchCommand::Scale(options) => {
                let is_partial = |report: &scale::Report| report.interrupted;
                show_partial("scale", options.json, scale::run(&options), is_partial)
            }
            BenchCommand::Pipeline(options) => measure_pipeline(&options),
            BenchCommand::Concurrency(options) => match options.walk {
                Some(requests) => {
                    concurrency::walk(&options, requests);
                    ExitCode::SUCCESS
                }
                None => {
                    let is_partial = |report: &concurrency::Report| report.interrupted;
                    show_partial(
                        "concurrency",
                        options.json,
                        concurrency::run(&options),
                        is_partial,
                    )
                }
            },
            BenchCommand::Failure(options) => {
                print("failure", options.json, failure::run(&options))
            }
            BenchCommand::Ladder(options) => print("ladder", options.json, ladder::run(&options)),
            BenchCommand::Interleave(options) => {
                let measure = || interleave::run(&options);
                print(
                    "interleave",
                    options.json,
                    interleave::in_huge_pages().and_then(|()| measure()),
                )
            }
            BenchCommand::Figure2(options) => {
                print("figure2", options.json, figure2::run(&options))
            }
            BenchCommand::Figure4(options) => show("figure4", options.json, figure4::run(&options)),
            BenchCommand::Figure7(options) => show("figure7", options.json, figure7::run(&options)),
            BenchCommand::Figure6(options) => {
                let is_partial = |report: &figure6::Report| report.partial.is_some();
                show_partial("figure6", options.json, figure6::run(&options), is_partial)
            }
            BenchCommand::Figure8(options) => {
                print("figure8", options.json, figure8::run(&options))
            }
            BenchCommand::Dial(options) => {
                let is_partial = |report: &dial::Report| report.partial.is_some();
                show_partial("dial", options.json, dial::run(&options), is_partial)
            }
            BenchCommand::Runtimes(options) => {
                show("runtimes", options.json, runtimes::run(&options))
            }
            BenchCommand::Light(options) => {
                let is_partial = |report: &light::Report| report.partial.is_some();
                show_partial("light", options.json, light::run(&options), is_partial)
            }
            BenchCommand::Overload(options) => {
                let is_partial = |report: &overload::Report| report.partial.is_some();
                show_partial("overload", options.json, overload::run(&options), is_partial)
            }
            BenchCommand::Match(options) => {
                let simulated = options.misses || options.walk.is_some();
                let ready = if simulated { Ok(()) } else { interleave::in_huge_pages() };
                match ready.and_then(|()| matching::run(&options)) {
                    Ok(None) => ExitCode::SUCCESS,
                    Ok(Some(report)) => print("match", options.json, std::io::Result::Ok(report)),
                    Err(error) => finish(Err(error)),
                }
            }
            BenchCommand::Report(options) => write_report(&options),
            BenchCommand::Load(options) => options.execute(),
            BenchCommand::TwinServer(TwinServer { directory, listen }) => {
                finish(twin::run(&directory, listen))
            }
            BenchCommand::FloorServer(FloorServer { driver, listen, processors }) => {
                finish(floor::run(driver, listen, processors))
            }
            BenchCommand::Kernel(KernelCommand { kernel, count }) => {
                kernel::run(kernel, count);
                ExitCode::SUCCESS
            }
        }
    }
}

impl OpCommand {
    /// Measures and prints.
    fn run(self) -> ExitCode {
        let operations = if self.quick { 6_400 } else { 640_000 };
        let report = op::run(self.rounds, operations);
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report).expect("serializable values"));
            return ExitCode::SUCCESS;
        }
        let lines = [
            ("dispatched and run", report.dispatch_ns),
            ("called and awaited", report.call_ns),
            ("called on another processor and awaited", report.cross_ns),
            ("a boxed closure", report.boxed_fn_ns),
            ("a tokio task, spawned and awaited", report.tokio_spawn_ns),
        ];
        println!("an operation, in ns (medians of {} rounds)\n", report.rounds);
        for (name, ns) in lines {
            println!("  {name:<42}{ns:>10.1}");
        }
        println!("\n  dispatch over boxed closure {:>24.2}", report.dispatch_over_boxed_fn);
        println!("  tokio task over call {:>31.2}", report.tokio_over_call);
        ExitCode::SUCCESS
    }
}

/// Prints a report on servers.
fn show<R>(bench: &str, json: bool, report: Result<R, Error>) -> ExitCode
where
    R: serde::Serialize + std::fmt::Display,
{
    let code = match report {
        Err(Error::NoServers) => Some(2),
        // Interrupted before the first result.
        Err(Error::Interrupted) => Some(INTERRUPTED),
        _ => None,
    };
    let printed = print(bench, json, report);
    code.map_or(printed, ExitCode::from)
}

/// Prints a report on servers that may be partial, which the exit code reflects.
fn show_partial<R>(
    bench: &str,
    json: bool,
    report: Result<R, Error>,
    is_partial: impl Fn(&R) -> bool,
) -> ExitCode
where
    R: serde::Serialize + std::fmt::Display,
{
    let is_partial = report.as_ref().is_ok_and(is_partial);
    let printed = show(bench, json, report);
    if is_partial { ExitCode::from(INTERRUPTED) } else { printed }
}

/// Writes the report. The exit code is 0; 1 if an experiment failed; 2 for bad arguments; 130 if interrupted.
fn write_report(options: &report::Options) -> ExitCode {
    match report::run(options) {
        Ok(made) => {
            for (name, why) in &made.missing {
                eprintln!("phalanx-bench report: {name} is missing: {why}");
            }
            println!("{}", made.page.display());
            ExitCode::from(match (made.interrupted, made.missing.is_empty()) {
                (true, _) => INTERRUPTED,
                (false, false) => 1,
                (false, true) => 0,
            })
        }
        Err(error) => {
            eprintln!("phalanx-bench report: {error}");
            let of_arguments =
                matches!(error, report::Error::Unknown { .. } | report::Error::Baseline { .. });
            ExitCode::from(if of_arguments { 2 } else { 1 })
        }
    }
}

fn measure_pipeline(options: &pipeline::Options) -> ExitCode {
    if let Some(cohort) = options.walk {
        options.kib.iter().for_each(|kib| pipeline::walk(cohort, *kib, options.requests));
        return ExitCode::SUCCESS;
    }
    if options.misses {
        return print("pipeline", options.json, pipeline::misses(options));
    }
    print("pipeline", options.json, pipeline::run(options))
}

/// Prints the result of a benchmark as text or JSON.
fn print<R: std::fmt::Display + serde::Serialize, E: std::fmt::Display>(
    name: &str,
    json: bool,
    result: Result<R, E>,
) -> ExitCode {
    match result {
        Ok(report) if json => {
            println!("{}", serde_json::to_string_pretty(&report).expect("serializable values"));
            ExitCode::SUCCESS
        }
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("phalanx-bench {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn finish(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phalanx-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_sets_the_exit_code() {
        let code = |error| format!("{:?}", show::<String>("web", false, Err(error)));
        assert_eq!(code(Error::Interrupted), format!("{:?}", ExitCode::from(130)));
        assert_eq!(code(Error::NoServers), format!("{:?}", ExitCode::from(2)));
    }
}
