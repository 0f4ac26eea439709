//! `stingify`: a patch that makes a server use its generated allocator and scheduler.

mod active;
mod aliases;
mod edits;
mod memory;
mod scheduler;
mod uses;
mod wait;
mod words;

use std::path::PathBuf;

use clap::Args;

use crate::c::source;
use crate::error::Error;
use crate::memwalk::analysis::{SYNTAX, analyse};
use crate::memwalk::config::Config;
use crate::memwalk::program::Program;
use crate::model::Place;

/// Print a patch that makes a server use its generated allocator and scheduler.
///
/// Allocations and deallocations of the objects that stages allocate become those of `stingy.h`. If stages are
/// functions, the event loop accepts as many requests as fit the cache, and executes batches of one stage. Review the
/// patch, and apply it with `patch -p1` in the folder of the description. Notes on what was not replaced go to standard
/// error.
#[derive(Args)]
pub(crate) struct Stingify {
    /// The description of the server.
    #[arg(default_value = "stingy.toml")]
    config: PathBuf,
    /// Do not change the event loop.
    #[arg(long)]
    memory_only: bool,
}

impl Stingify {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let config = Config::load(&self.config)?;
        let files = source::load(&config.folder, &config.sources)?;
        let program = Program::new(&config, &files)?;
        let analysis = analyse(&program, &files)?;
        let mut edits = edits::Edits::default();
        let texts = uses::Texts::load(&config.folder, &files);
        let mut memory = memory::Memory::new(&program, &analysis, &texts);
        memory.replace(&mut edits);
        let mut notes = memory.notes;
        if !self.memory_only {
            wait::bound(&program, &mut edits)?;
            let waits = &config.stages.wait;
            let is_bounded = !waits.is_empty() && waits.iter().all(|wait| wait.timeout.is_none());
            match config.stages.queue.as_slice() {
                _ if is_bounded => (),
                _ if config.stages.states.is_some() => {
                    eprintln!("the event loop is not changed, because the stages are enumerators");
                }
                _ if !config.stages.handlers.is_empty() => {
                    eprintln!("the event loop is not changed, because members contain the stages");
                }
                [queue] => {
                    let others = scheduler::replace(&program, &analysis, &texts, queue, &mut edits);
                    notes.extend(others.map_err(refused)?);
                }
                _ => eprintln!(
                    "the event loop is not changed, because several functions queue requests"
                ),
            }
        }
        // Code that was not parsed may free objects.
        for warning in analysis.warnings.iter().filter(|warning| warning.what.starts_with(SYNTAX)) {
            eprintln!("{}: {}", warning.at, warning.what);
        }
        for (at, message) in notes {
            eprintln!("{at}: {message}");
        }
        if edits.is_empty() {
            let message = "nothing to replace: no stage allocates an object of known size";
            return Err(Error::contents(&self.config, message));
        }
        crate::print(&edits.patch(&config.folder, &files)?)
    }
}

fn refused((at, message): (Place, String)) -> Error {
    Error::contents(&PathBuf::from(at.to_string()), format!("{message}; or use `--memory-only`"))
}
