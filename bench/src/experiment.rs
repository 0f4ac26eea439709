//! A benchmark as the command line runs it: measured, then printed as text or as JSON.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::measure::record::{Record, has_failed, is_partial, text};
use crate::measure::{StretchRow, record, stretch};
use crate::system::hardware;

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
            // The description of a machine says it already.
            let counters = json["machine"].is_null().then(hardware::are_available);
            let events = Stretches { hardware_events: stretch::take() };
            let has_events = !events.hardware_events.is_empty();
            let first = counters.map_or("", |counters| first_line(counters, has_events));
            let text = [first, &text(&events), &text(&report)].concat();
            let report = WithCounters { hardware_counters: counters, events, report };
            let json = serde_json::to_string_pretty(&report).expect("serializable values");
            Measured { text, json, exit_code }
        };
        Ok(self?.map(measured))
    }
}

/// A report without a description of the machine, as JSON.
#[derive(Serialize)]
struct WithCounters<R> {
    /// Whether the machine counts instructions, cycles and misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware_counters: Option<bool>,
    #[serde(flatten)]
    events: Stretches,
    #[serde(flatten)]
    report: R,
}

record! {
    /// The hardware events of a benchmark that measures stretches.
    struct Stretches {
        /// One for each kind of stretch.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        hardware_events: Vec<StretchRow> | "hardware events of an operation", 0;
    }
}

/// The first line of a report without a description of the machine.
fn first_line(counters: bool, has_events: bool) -> &'static str {
    match (counters, has_events) {
        (_, true) => "",
        (true, false) => "hardware counters: available, but this benchmark does not read them\n\n",
        (false, false) => "no hardware counters\n\n",
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Measured, Outcome as _};
    use crate::error::Error;
    use crate::measure::Run;
    use crate::measure::machine::Machine;
    use crate::measure::record::record;
    use crate::measure::stretch;
    use crate::system::hardware::{EVENTS, Events, Part};

    record! {
        /// A report.
        struct Report {
            /// A ratio.
            ratio: f64 => "ratio", 1;
            /// The machine.
            #[serde(skip_serializing_if = "Option::is_none")]
            machine: Option<Machine>;
        }
    }

    /// Where the processor counts nothing, only made-up events show that reports print them. This is one test with the
    /// other reports, because the events are of the process.
    #[test]
    fn every_report_says_whether_there_are_hardware_counters() {
        for machine in [None, Some(Machine::on_core(&[0]))] {
            let outcome: Result<_, Error> = Ok(Report { ratio: 0.5, machine });
            let Measured { text, json, .. } = outcome.measured().unwrap().unwrap();
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let at = if json["machine"].is_object() { &json["machine"] } else { &json };
            let counters = at["hardware_counters"].as_bool().unwrap();
            assert_eq!(
                text.matches("no hardware counters").count(),
                usize::from(!counters),
                "{text}"
            );
            assert!(text.contains("ratio") && json["ratio"] == 0.5, "{text}");
        }
        let all = |count: f64| Events::from_array([Some(count); EVENTS]);
        for count in [9.0, 1.0, 4.0] {
            stretch::add("a call", Part::User, all(count));
        }
        stretch::add("another", Part::All, Events { l2_misses: None, ..all(2.0) });
        // A run has a field of the same name.
        let run =
            Run::new(Report { ratio: 0.5, machine: None }, Machine::on_core(&[0]), None, true);
        let outcome: Result<_, Error> = Ok(run);
        let Measured { text, json, .. } = outcome.measured().unwrap().unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = &json[stretch::FIELD];
        assert_eq!((&rows[0]["of"], &rows[0]["part"]), (&"a call".into(), &"user".into()));
        let events = ["instructions", "cycles", "l1_data_misses", "l2_misses", "branch_misses"];
        for event in events {
            // The median.
            assert_eq!(rows[0][event], 4.0, "{event}: {json}");
        }
        assert_eq!((&rows[0]["stretches"], &rows[1]["l2_misses"]), (&3.into(), &Value::Null));
        assert!(text.starts_with("hardware events of an operation\n\n"), "{text}");
        assert!(text.contains("\n  another  all           1           2.0"), "{text}");
        // A process that has started the one which measured takes its rows over.
        stretch::add_rows(serde_json::from_value(rows.clone()).unwrap());
        assert_eq!(stretch::take().len(), 2);
    }
}
