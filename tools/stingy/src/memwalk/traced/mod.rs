//! Runs the program and finds the memory that requests really have at each stage.

mod code;
mod live;
mod tape;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use super::program::Program;
use crate::c::lines::Lines;
use crate::error::Error;
use crate::lackey;
use crate::model::{Analysis, Elsewhere, Traced, TracedObject};
use code::Code;
use live::{ENTRY_STAGE, Live};

/// The library that is preloaded.
const PRELOAD: &str = include_str!("preload.c");

/// Maximum number of places outside of the analysis that are listed.
const MAX_ELSEWHERE: usize = 10;

/// Adds to the analysis the maxima of a run. The run ends with the program, after `visits` of a stage, or by a signal.
pub(super) fn trace(
    program: &Program<'_>,
    analysis: &mut Analysis,
    command: &[OsString],
    visits: Option<u64>,
) -> Result<(), Error> {
    let path = lackey::find(Path::new(&command[0]))?;
    let code = Code::new(Lines::load(&path)?, program, analysis);
    let folder = tempfile::tempdir().map_err(Error::write(&std::env::temp_dir()))?;
    let library = compile(folder.path())?;
    let mut live = Live::new(&code, analysis.stages.len(), analysis.objects.len());
    // Functions of libraries are resolved at the start, so that stages need no stack for it.
    let environment = [("LD_PRELOAD", &*library), ("LD_BIND_NOW", OsStr::new("1"))];
    lackey::run(&path, &command[1..], &environment, |event| {
        live.event(event);
        visits.is_none_or(|visits| live.visits <= visits)
    })?;
    if live.allocations == 0 {
        let message = "no allocation was traced; link the program dynamically, and build it to use `malloc` of the C library";
        return Err(Error::contents(&path, message));
    }
    if !live.has_begun {
        let message = "no code of the stages was executed; the program must be that of the sources";
        return Err(Error::contents(&path, message));
    }
    for (n, (stage, peaks)) in analysis.stages.iter_mut().zip(&live.stages).enumerate() {
        let objects = analysis.objects.iter().zip(&peaks.objects).filter(|(_, bytes)| **bytes > 0);
        stage.traced = (peaks.visits > 0).then(|| Traced {
            visits: peaks.visits,
            bytes: peaks.bytes,
            elsewhere: peaks.elsewhere,
            // The function of the entry may be merged into its caller.
            stack: (n != ENTRY_STAGE).then_some(peaks.stack),
            objects: objects
                .map(|(object, &bytes)| TracedObject { name: object.name.clone(), bytes })
                .collect(),
        });
    }
    let elsewhere = live.elsewhere().into_iter().take(MAX_ELSEWHERE);
    analysis.elsewhere =
        elsewhere.map(|(at, bytes)| Elsewhere { at: at.cloned(), bytes }).collect();
    Ok(())
}

/// Compiles the library in a folder.
fn compile(folder: &Path) -> Result<OsString, Error> {
    let [source, library] = ["preload.c", "preload.so"].map(|name| folder.join(name));
    std::fs::write(&source, PRELOAD).map_err(Error::write(&source))?;
    let compiler = Path::new("gcc");
    let output = Command::new(compiler)
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .map_err(Error::read(compiler))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::contents(compiler, message));
    }
    Ok(library.into())
}
