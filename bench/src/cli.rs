//! The command lines of `phalanx-bench`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use phalanx::runtime::DriverKind;

use crate::baselines::{floor, twin};
use crate::experiment::{INTERRUPTED, experiments};
use crate::experiments::{
    axum, broker, cluster, concurrency, dial, failure, fibre, figure2, figure4, figure6, figure7,
    figure8, interleave, ladder, light, matching, op, overload, pipeline, placement, runtimes,
    scale, servlib, spread, state, stingy, web,
};
use crate::{load, report};

/// Benchmarks of Phalanx: each compares it with something else in one run.
#[derive(Parser, Clone, Debug)]
#[command(name = "phalanx-bench", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Runs the command. The exit code is 0; 1 if a measurement failed; 2 for bad arguments; 130 if
    /// interrupted.
    pub fn run(self) -> ExitCode {
        self.command.run()
    }
}

experiments! {
    measured {
    /// The cost of an operation, a boxed closure and a spawned task
    Op(op::Options) = "op", op::run;
    /// Fibres compared with async operations: suspending, starting, idle memory, an echo server
    Fibre(fibre::Options) = "fibre", fibre::run;
    /// The same small tasks on Phalanx, tokio, glommio and monoio
    Runtimes(runtimes::Options) = "runtimes", runtimes::run;
    /// An axum application on Phalanx, on axum::serve and on a tokio runtime per core
    Axum(axum::Options) = "axum", axum::run;
    /// The web server compared with a bare loop, its threaded twin, nginx and others
    Web(web::Options) = "web", web::run;
    /// The MQTT broker compared with mosquitto and others
    Broker(broker::Options) = "broker", broker::run;
    /// The memory of what brokers hold, and the time of a restart with it
    State(state::Options) = "state", state::run;
    /// Three brokers over NATS compared with one broker
    Cluster(cluster::Options) = "cluster", cluster::run;
    /// When cohorts pay: stages of generated code compared with run to completion and threads
    Pipeline(pipeline::Options) = "pipeline", |own| match own.walk {
        Some(cohort) => {
            own.kib.iter().for_each(|kib| pipeline::walk(cohort, *kib, own.requests));
            Ok(None)
        }
        None => pipeline::run(own).map(Some),
    };
    /// The cost of many concurrent requests, after the TUX paper's Figures 1 and 7
    Concurrency(concurrency::Options) = "concurrency", |own| {
        if let Some(requests) = own.walk {
            concurrency::walk(own, requests);
            return Ok(None);
        }
        concurrency::run(own).map(Some)
    };
    /// The highest rate that a server sustains, after the TUX paper's failure zone
    Failure(failure::Options) = "failure", failure::run;
    /// The tuned cohort size compared with a sweep over all sizes
    Ladder(ladder::Options) = "ladder", ladder::run;
    /// The gain from prefetching within a cohort: lookups in a large hash table
    Interleave(interleave::Options) = "interleave", |own| {
        interleave::in_huge_pages()?;
        interleave::run(own)
    };
    /// The 2002 paper's Figure 2: cohorts of system calls with flushed caches
    Figure2(figure2::Options) = "figure2", figure2::run;
    /// The 2002 paper's Figure 4: a profile of the stages of the running web server
    Figure4(figure4::Options) = "figure4", figure4::run;
    /// The 2002 paper's Figure 6: servers under the load of users who read and think
    Figure6(figure6::Options) = "figure6", figure6::run;
    /// The 2002 paper's Figure 7: instructions, misses and cycles per request, staged and threaded
    Figure7(figure7::Options) = "figure7", figure7::run;
    /// The 2002 paper's Figure 8: duration of a publish, threaded and staged, by number of clients
    Figure8(figure8::Options) = "figure8", figure8::run;
    /// The web server's cost and latency by batching delay
    Dial(dial::Options) = "dial", dial::run;
    /// The web server's cost and latency with as many active workers as the load needs
    Placement(placement::Options) = "placement", placement::run;
    /// The web server's latency at light load compared with its threaded twin
    Light(light::Options) = "light", light::run;
    /// The web server's goodput under overload compared with the twin and nginx
    Overload(overload::Options) = "overload", overload::run;
    /// Matching events against a million filters, one at a time and in cohorts
    Match(matching::Options) = "match", |own| {
        if !own.misses && own.walk.is_none() {
            interleave::in_huge_pages()?;
        }
        matching::run(own)
    };
    /// Cost, throughput and latency of the servers by their number of processors
    Scale(scale::Options) = "scale", scale::run;
    /// Balanced stages, cache affinity and moved partitions on two processors
    Spread(spread::Options) = "spread", spread::run;
    /// Programs with threads natively and under `phalanx threads`, after the figures of ServLib's slides
    Servlib(servlib::Options) = "servlib", servlib::run;
    /// C servers before and after `phalanx-stingy stingify`, after the figures of the LCN paper
    Stingy(stingy::Options) = "stingy", stingy::run;
    }
    others {
        /// All of these in one run, with a page of plots
        Report(report::Options),
        Load(load::Options),
        /// The threaded twin of the web server
        #[command(hide = true)]
        TwinServer(TwinServer),
        /// A bare loop on one driver, with a single answer
        #[command(hide = true)]
        FloorServer(FloorServer),
    }
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
    /// Serve on fibres, on this many processors, instead of threads
    #[arg(long, value_name = "N")]
    fibres: Option<usize>,
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

impl load::Options {
    /// Sends the load and prints the report. The exit code is 0; 1 if nothing was answered or the load could
    /// not be sent; 2 for bad arguments.
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

impl report::Options {
    /// Writes the report. The exit code is 0; 1 if an experiment failed; 2 for bad arguments; 130 if
    /// interrupted.
    fn execute(self) -> ExitCode {
        match report::run(&self) {
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
}

impl TwinServer {
    fn execute(self) -> ExitCode {
        finish(match self.fibres {
            Some(processors) => twin::run_on_fibres(&self.directory, self.listen, processors),
            None => twin::run(&self.directory, self.listen),
        })
    }
}

impl FloorServer {
    fn execute(self) -> ExitCode {
        finish(floor::run(self.driver, self.listen, self.processors))
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
