//! A benchmark as the command line runs it: measured, then printed as text or as JSON.

use std::process::ExitCode;

use clap::Args;

use crate::error::Error;
use crate::measure::record::{Record, has_failed, is_partial, text};

/// Exit code of an interrupted command, as a shell reports SIGINT (128 + 2).
pub(crate) const INTERRUPTED: u8 = 130;

// The arguments of a benchmark. The doc comments of its options are the `--help` text.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments<O: Args> {
    #[command(flatten)]
    own: O,

    /// Write the report as JSON
    #[arg(long)]
    json: bool,
}

/// The options of a benchmark, which runs it.
pub(crate) trait Experiment: Args {
    /// The command.
    const NAME: &'static str;

    /// Measures; `None` if there is nothing to print.
    ///
    /// # Errors
    /// When a measurement fails, or on a signal before the first result.
    fn measure(&self) -> Result<Option<Measured>, Error>;
}

impl<O: Experiment> Arguments<O> {
    /// Measures and prints. The exit code is 0; 1 if a measurement failed; 2 for bad arguments; 130 if it was interrupted.
    pub(crate) fn execute(&self) -> ExitCode {
        match self.own.measure() {
            Ok(None) => ExitCode::SUCCESS,
            Ok(Some(Measured { text, json, exit_code })) => {
                if self.json {
                    println!("{json}");
                } else {
                    print!("{text}");
                }
                ExitCode::from(exit_code)
            }
            Err(error) => {
                eprintln!("phalanx-bench {}: {error}", O::NAME);
                ExitCode::from(match error {
                    Error::NoServers => 2,
                    Error::Interrupted => INTERRUPTED,
                    _ => 1,
                })
            }
        }
    }
}

/// A report to print.
pub(crate) struct Measured {
    text: String,
    json: String,
    exit_code: u8,
}

/// Results of functions that measure.
pub(crate) trait Outcome {
    /// The report to print, if there is one.
    fn measured(self) -> Result<Option<Measured>, Error>;
}

impl<R: Record> Outcome for Result<R, Error> {
    fn measured(self) -> Result<Option<Measured>, Error> {
        self.map(Some).measured()
    }
}

impl<R: Record> Outcome for Result<Option<R>, Error> {
    fn measured(self) -> Result<Option<Measured>, Error> {
        let measured = |report: R| {
            let json = serde_json::to_value(&report).expect("serializable values");
            let exit_code = if is_partial(&json) { INTERRUPTED } else { has_failed(&json).into() };
            let json = serde_json::to_string_pretty(&report).expect("serializable values");
            Measured { text: text(&report), json, exit_code }
        };
        Ok(self?.map(measured))
    }
}

/// Declares the commands of benchmarks: the variant, the options with the help, the name, and how to measure.
macro_rules! experiments {
    (measured { $($variant:ident($options:ty) = $name:literal, $measure:expr;)* }
     others { $($(#[$other_help:meta])* $other:ident($other_options:ty),)* }) => {
        /// The commands.
        #[derive(clap::Subcommand, Clone, Debug)]
        enum Command {
            $(#[command(name = $name)] $variant($crate::experiment::Arguments<$options>),)*
            $($(#[$other_help])* $other($other_options),)*
        }

        $(impl $crate::experiment::Experiment for $options {
            const NAME: &'static str = $name;

            fn measure(&self) -> Result<Option<$crate::experiment::Measured>, $crate::error::Error> {
                let measure: fn(&Self) -> _ = $measure;
                $crate::experiment::Outcome::measured(measure(self))
            }
        })*

        impl Command {
            fn run(self) -> std::process::ExitCode {
                match self {
                    $(Self::$variant(arguments) => arguments.execute(),)*
                    $(Self::$other(options) => options.execute(),)*
                }
            }
        }
    };
}
pub(crate) use experiments;
