//! Watching over a program's life, on the thread that runs it: the start of all processors, requests
//! to finish, the deadline, and the end of all.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Phase};

use crate::error::RunError;

/// After the deadline everything is ended, which takes as long as the kernel needs.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the supervisor hears.
pub(crate) enum Event {
    Started,
    Exited(Result<(), RunError>),
    Signal,
}

/// What there is to watch over.
pub(crate) struct Watched {
    /// Processors that must start before the program is ready.
    pub(crate) starting: usize,
    /// Processors whose end is waited for.
    pub(crate) running: usize,
    /// How long the program may drain.
    pub(crate) drain: Duration,
}

/// Waits for the start of all processors, then for the end of all.
pub(crate) fn supervise(
    watched: Watched,
    inbox: &Receiver<Event>,
    control: &Control,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let Watched { mut starting, mut running, drain } = watched;
    let mut ready = Some(ready);
    let mut deadline: Option<Instant> = None;
    let mut result = Ok(());
    while running > 0 {
        if deadline.is_none() && control.phase() > Phase::Running {
            deadline = Some(Instant::now() + drain);
        }
        // Without a signal the drain may be asked for by an operation: look now and then.
        let wait = deadline.map_or(Duration::from_millis(100), |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        match inbox.recv_timeout(wait) {
            Ok(Event::Started) => {
                starting -= 1;
                if starting == 0
                    && let Some(ready) = ready.take()
                {
                    ready();
                }
            }
            Ok(Event::Exited(outcome)) => {
                running -= 1;
                if let Err(error) = outcome {
                    control.end();
                    result = result.and(Err(error));
                }
            }
            Ok(Event::Signal) if control.phase() == Phase::Running => control.drain(),
            Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) if deadline.is_some() => {
                control.end();
                deadline = Some(Instant::now() + FOR_EVER);
            }
            Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    result
}
