//! Bounds the events for which a server waits, and the time.

use super::edits::Edits;
use crate::error::Error;
use crate::memwalk::events::{Action, events};
use crate::memwalk::program::{Program, whole};

/// Replaces the arguments that `stages.wait` names.
pub(super) fn bound(program: &Program<'_>, edits: &mut Edits) -> Result<(), Error> {
    for wait in &program.config.stages.wait {
        let mut is_found = false;
        for function in program.functions.all() {
            for event in events(&whole(function)) {
                let Action::Call { name, arguments } = &event.action else { continue };
                let bounds = [(Some(wait.events), "events"), (wait.timeout, "timeout")];
                let bounds = bounds.into_iter().filter(|_| *name == wait.function);
                for (index, by) in bounds {
                    let Some(&argument) = index.and_then(|index| arguments.get(index)) else {
                        continue;
                    };
                    let text = function.file.text_of(argument);
                    let call = format!("stingy_{by}({text})");
                    edits.replace(function.file, argument.byte_range(), call);
                    is_found |= by == "events";
                }
            }
        }
        if !is_found {
            let message = format!(
                "the sources contain no call of `{}` with an argument {}, which `wait` in `[stages]` names",
                wait.function, wait.events
            );
            return Err(Error::contents(&program.config.path, message));
        }
    }
    Ok(())
}
