//! The command lines of `phalanx-bench`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use phalanx::runtime::DriverKind;

use crate::baselines::{floor, twin};
use crate::experiment::{INTERRUPTED, experiments};
use crate::experiments::{
    axum, batch_delay, broker, cluster, concurrency, crossing, failure, fibre, figure2, figure4,
    figure6, figure7, figure8, interleave, ladder, light, matching, op, overload, pipeline,
    placement, runtimes, scale, servlib, spread, state, stingy, web,
};
use crate::{load, report};

/// Benchmarks of Phalanx: each compares it with something else in one run.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "phalanx-bench",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "docs/bench/ describes the fields of the reports."
)]
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
    Op(op::Options) = "op", op::run;
    Crossing(crossing::Options) = "crossing", crossing::run;
    Fibre(fibre::Options) = "fibre", fibre::run;
    Runtimes(runtimes::Options) = "runtimes", runtimes::run;
    Axum(axum::Options) = "axum", axum::run;
    Web(web::Options) = "web", web::run;
    Broker(broker::Options) = "broker", broker::run;
    State(state::Options) = "state", state::run;
    Cluster(cluster::Options) = "cluster", cluster::run;
    Pipeline(pipeline::Options) = "pipeline", |options| match options.walk {
        Some(cohort) => {
            options.kib.iter().for_each(|kib| pipeline::walk(cohort, *kib, options.requests));
            Ok(None)
        }
        None => pipeline::run(options).map(Some),
    };
    Concurrency(concurrency::Options) = "concurrency", |options| {
        if let Some(requests) = options.walk {
            concurrency::walk(options, requests);
            return Ok(None);
        }
        concurrency::run(options).map(Some)
    };
    Failure(failure::Options) = "failure", failure::run;
    Ladder(ladder::Options) = "ladder", ladder::run;
    Interleave(interleave::Options) = "interleave", |options| {
        interleave::in_huge_pages()?;
        interleave::run(options)
    };
    Figure2(figure2::Options) = "figure2", figure2::run;
    Figure4(figure4::Options) = "figure4", figure4::run;
    Figure6(figure6::Options) = "figure6", figure6::run;
    Figure7(figure7::Options) = "figure7", figure7::run;
    Figure8(figure8::Options) = "figure8", figure8::run;
    BatchDelay(batch_delay::Options) = "batch-delay", batch_delay::run;
    Placement(placement::Options) = "placement", placement::run;
    Light(light::Options) = "light", light::run;
    Overload(overload::Options) = "overload", overload::run;
    Match(matching::Options) = "match", |options| {
        if !options.misses && options.walk.is_none() {
            interleave::in_huge_pages()?;
        }
        matching::run(options)
    };
    Scale(scale::Options) = "scale", scale::run;
    Spread(spread::Options) = "spread", spread::run;
    Servlib(servlib::Options) = "servlib", servlib::run;
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
        let mut report = match load::run(&self) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("phalanx-bench load: {error}");
                return ExitCode::from(error.exit_code());
            }
        };
        if self.json {
            report.raw.take_if(|_| !self.raw);
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
                for (name, reason) in &made.missing {
                    eprintln!("phalanx-bench report: {name} is missing: {reason}");
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
