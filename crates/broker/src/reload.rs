//! The thread that hears SIGHUP: it has the files of users and rules read again.

use std::thread::JoinHandle;

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};

use crate::access::Access;

/// Listens until dropped.
pub(crate) struct Hangups {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Hangups {
    /// Reads the files of `access` again at each SIGHUP, and tells on stderr how that went. None where the system
    /// gives no thread for it: then the broker runs without.
    pub(crate) fn hear(access: Access) -> Option<Self> {
        let mut signals = Signals::new([SIGHUP]).ok()?;
        let handle = signals.handle();
        let hear = move || signals.forever().for_each(|_| reread(&access));
        let thread = std::thread::Builder::new().name("reload".into()).spawn(hear).ok()?;
        Some(Self { handle, thread: Some(thread) })
    }
}

fn reread(access: &Access) {
    let files: Vec<_> = access.files().map(|path| path.display().to_string()).collect();
    match access.reread() {
        Ok(()) if files.is_empty() => eprintln!("phalanx: there is nothing to read again"),
        Ok(()) => eprintln!("phalanx: read again: {}", files.join(", ")),
        Err(error) => {
            error.to_string().lines().for_each(|line| eprintln!("phalanx: {line}"));
            eprintln!("phalanx: not read again: what was there before stays");
        }
    }
}

impl Drop for Hangups {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
