//! Signals that end a measurement.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Error;

/// The flag that the signals set.
fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// Makes SIGINT and SIGTERM end the run and all servers.
pub(crate) fn install_signal_handlers() -> io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag().clone())?;
    }
    Ok(())
}

/// Whether a signal was received.
pub(crate) fn is_interrupted() -> bool {
    flag().load(Ordering::Relaxed)
}

/// Returns an error once a signal was received.
pub(crate) fn interrupted() -> Result<(), Error> {
    match is_interrupted() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}
