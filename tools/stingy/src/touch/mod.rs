//! `touch`: the cache lines that a request touches.

mod report;
mod symbols;
mod visits;

use std::ffi::OsString;
use std::path::Path;

use clap::Args;

use crate::error::Error;
use crate::lackey;
use symbols::Symbols;
use visits::Visits;

/// The function that executes any operation of a Phalanx program.
const OPERATION: &str = "phalanx_core::processor::operation::vtable::poll";

/// Count the cache lines that a program touches in each stage.
///
/// The program runs under valgrind, about a hundred times slower. A visit of a stage lasts from the call of its function
/// until the return. Lines touched by a nested stage are attributed to that stage. A request lasts from one visit of the first
/// stage to the next.
#[derive(Args)]
pub(crate) struct Touch {
    /// A stage: NAME=FUNCTION; FUNCTION may be a prefix matching several functions (as printed by `nm -C`). The first
    /// stage starts requests.
    #[arg(long = "stage", value_name = "NAME=FUNCTION", value_parser = stage)]
    stages: Vec<(String, String)>,
    /// Warm-up requests, not counted.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    skip: u64,
    /// Terminate the program after this number of counted requests.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn stage(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, function)) if !name.is_empty() && !function.is_empty() => {
            Ok((name.to_owned(), function.to_owned()))
        }
        _ => Err("expected NAME=FUNCTION, as in parse=my_server::parse".to_owned()),
    }
}

impl Touch {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let path = lackey::find(Path::new(&self.program[0]))?;
        let symbols = Symbols::load(&path)?;
        let mut stages = self.stages.clone();
        if stages.is_empty() {
            stages.push(("operations".to_owned(), OPERATION.to_owned()));
        }
        let patterns: Vec<&str> = stages.iter().map(|(_, function)| function.as_str()).collect();
        let entries =
            symbols.entries(&patterns).map_err(|message| Error::contents(&path, message))?;
        let mut visits = Visits::new(&symbols, entries, stages.len(), self.skip);
        let last = self.requests.map(|requests| requests.saturating_add(self.skip));
        let status = lackey::run(&path, &self.program[1..], &[], |event| {
            visits.event(event);
            // The last counted request ends where the next starts.
            last.is_none_or(|last| visits.started <= last)
        })?;
        let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
        if visits.stages.iter().all(|sums| sums.visits == 0) {
            let ended = status.map(|status| format!(" before the program ended ({status})"));
            let message = format!(
                "no visit of a stage ended after the first {} requests{}; send more requests, or reduce `--skip`",
                self.skip,
                ended.unwrap_or_default()
            );
            return Err(Error::contents(&path, message));
        }
        let mut text = String::new();
        if self.json {
            text = format!("{:#}\n", report::json(&names, &visits));
        } else {
            report::table(&names, &visits, &mut text).expect("writing to a string");
        }
        crate::print(&text)
    }
}
