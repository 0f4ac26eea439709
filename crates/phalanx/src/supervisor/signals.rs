//! Handling of SIGINT and SIGTERM.
//!
//! `signal-hook` calls the handler that a signal had before, but never removes its own handler. A signal with the
//! default action would therefore be ignored once no runtime handles it. So for such a signal, the first runtime also
//! registers the default action, on the condition that no runtime handles signals.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use phalanx_driver::has_default_action;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::{Handle, Signals as Iterator};

use super::Event;
use crate::cores::use_slow_cores;
use crate::diagnostics::stuck;
use crate::lock::lock;

/// The time that the supervisor has to exit the process before the signal thread does it.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(1);

/// The runtimes of this process that handle signals.
struct HandlerState {
    runtimes: usize,
    /// Whether no runtime handles signals, so that the default action applies.
    is_over: Arc<AtomicBool>,
    has_default: bool,
}

static HANDLER: LazyLock<Mutex<HandlerState>> = LazyLock::new(|| {
    let is_over = Arc::new(AtomicBool::new(true));
    Mutex::new(HandlerState { runtimes: 0, is_over, has_default: false })
});

impl HandlerState {
    fn lock() -> MutexGuard<'static, Self> {
        lock(&HANDLER)
    }

    /// Counts a runtime and registers its handlers. Until they exist, the default action applies.
    fn begin() -> io::Result<Iterator> {
        let mut this = Self::lock();
        if !this.has_default {
            for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| has_default_action(*signal))
            {
                register_conditional_default(signal, this.is_over.clone())?;
            }
            this.has_default = true;
        }
        let signals = Iterator::new([SIGINT, SIGTERM])?;
        this.runtimes += 1;
        this.is_over.store(false, Ordering::SeqCst);
        Ok(signals)
    }

    /// Stops counting a runtime. Call it before its handlers are removed.
    fn end() {
        let mut this = Self::lock();
        this.runtimes -= 1;
        this.is_over.store(this.runtimes == 0, Ordering::SeqCst);
    }
}

/// Handles signals until dropped.
pub(crate) struct Signals {
    handle: Option<Handle>,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    pub(crate) fn listen(events: Sender<Event>) -> io::Result<Self> {
        let mut signals = HandlerState::begin()?;
        let mut this = Self { handle: None, thread: None };
        let (handle, open) = (signals.handle(), signals.handle());
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            use_slow_cores();
            for (before, _) in signals.forever().enumerate() {
                if events.send(Event::Signal).is_err() {
                    break;
                }
                // The supervisor exits the process at the third signal, unless foreign code blocks it.
                if before >= 2 {
                    std::thread::sleep(SUPERVISOR_LIMIT);
                    if !open.is_closed() {
                        stuck::exit();
                    }
                }
            }
        })?;
        (this.handle, this.thread) = (Some(handle), Some(thread));
        Ok(this)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        HandlerState::end();
        self.handle.iter().for_each(Handle::close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
