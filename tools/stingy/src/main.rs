//! Tools for the memory of event-driven servers, after the LCN paper of 2006 on cache misses in TUX: `memwalk` analyses
//! a C server, `stingygen` generates an allocator and a scheduler for it, and `stingify` makes the server use them.

#![forbid(unsafe_code)]

mod c;
mod error;
mod lackey;
mod memwalk;
mod model;
mod stingify;
mod stingygen;
mod touch;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Error;

/// Reduces the cache misses of event-driven servers.
#[derive(Parser)]
#[command(name = "phalanx-stingy", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Memwalk(memwalk::Memwalk),
    Stingygen(stingygen::Stingygen),
    Stingify(stingify::Stingify),
    Touch(touch::Touch),
}

/// Writes to standard output. A reader that has gone away, such as `head`, is no error.
fn print(text: &str) -> Result<(), Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::write(Path::new("standard output"))(error))
        }
        _ => Ok(()),
    }
}

/// Size of the stack: syntax trees are visited recursively, and chains of `else if` or of operators are deep.
const STACK_BYTES: usize = 1 << 30;

fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Memwalk(memwalk) => memwalk.run(),
        Command::Stingygen(stingygen) => stingygen.run(),
        Command::Stingify(stingify) => stingify.run(),
        Command::Touch(touch) => touch.run(),
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, || run(&command)) {
            Ok(worker) => worker.join(),
            // The system does not permit such a stack.
            Err(_) => Ok(run(&command)),
        }
    });
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // It has printed a message.
        Err(_panic) => ExitCode::FAILURE,
        Ok(Err(error)) => {
            eprintln!("phalanx-stingy: {error}");
            ExitCode::FAILURE
        }
    }
}
