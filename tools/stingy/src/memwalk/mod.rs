//! `memwalk`: the stages of a server, and the memory of a request at each.

pub(crate) mod analysis;
mod cases;
pub(crate) mod config;
pub(crate) mod events;
mod live;
mod macros;
mod memory;
pub(crate) mod program;
mod queues;
mod report;
mod stack;
mod tables;
mod traced;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::c::source;
use crate::error::Error;
use crate::model::Analysis;

/// Analyse a server: its stages, their transitions, and the memory of a request at each.
///
/// The sizes are those of the compiler, from the debugging information of the built program. All quantities are upper
/// bounds; warnings name the constructs that were not understood. With a PROGRAM, memwalk also runs it under valgrind, and
/// prints the memory that requests had in this run beside the bounds.
#[derive(Args)]
pub(crate) struct Memwalk {
    /// The description of the server.
    #[arg(default_value = "stingy.toml")]
    config: PathBuf,
    /// Print the analysis as JSON, the input of the other tools.
    #[arg(long, conflicts_with = "dot")]
    json: bool,
    /// Print the graph of stages for Graphviz.
    #[arg(long)]
    dot: bool,
    /// End the program after this number of visits of a stage. Without it, the program ends by itself, or by SIGINT or
    /// SIGTERM to phalanx-stingy.
    #[arg(long, value_name = "NUMBER", requires = "program", value_parser = clap::value_parser!(u64).range(1..))]
    visits: Option<u64>,
    /// The built program and its arguments, to trace a run. Let it serve one request at a time.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Memwalk {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let config = config::Config::load(&self.config)?;
        let files = source::load(&config.folder, &config.sources)?;
        let program = program::Program::new(&config, &files)?;
        let mut analysis = analysis::analyse(&program, &files)?;
        if !self.program.is_empty() {
            traced::trace(&program, &mut analysis, &self.program, self.visits)?;
        }
        let mut text = String::new();
        if self.json {
            text = serde_json::to_string_pretty(&analysis).expect("a tree of strings and numbers");
            text.push('\n');
        } else {
            let print: fn(&Analysis, &mut dyn std::fmt::Write) -> std::fmt::Result =
                if self.dot { report::dot } else { report::table };
            print(&analysis, &mut text).expect("writing to a string");
        }
        if self.json || self.dot {
            for warning in &analysis.warnings {
                eprintln!("{}: {}", warning.at, warning.what);
            }
        }
        crate::print(&text)
    }
}
