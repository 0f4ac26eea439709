//! The `phalanx-bench` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use phalanx_bench::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
