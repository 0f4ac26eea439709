//! The interface between a running broker and its operator.

use std::sync::Arc;

use phalanx_service::SighupHandler;

use crate::config::Config;
use crate::error::ServeError;
use crate::reload::Reloader;
use crate::serve::{Serving, run};

/// Callbacks during a broker's life. They are not called on processors, so they may block.
pub trait Operator: Send + Sync + 'static {
    /// Called when connections are accepted.
    fn ready(&self, serving: &Serving<'_>);

    /// Called on SIGHUP: reads the configuration, passes it to [`Reloader::reload`] and reports the result.
    /// The next SIGHUP is handled after the return.
    fn reload(&self, reloader: &mut Reloader);

    /// Called when the broker stops accepting and finishes its work.
    fn stopping(&self) {}
}

/// As [`serve`](crate::serve), with callbacks for the operator.
///
/// ```no_run
/// use std::sync::Arc;
/// use phalanx_broker::{Config, Operator, Reloader, Serving, operate};
///
/// struct Root;
///
/// impl Operator for Root {
///     fn ready(&self, serving: &Serving<'_>) {
///         serving.urls().for_each(|url| println!("listening on {url}"));
///     }
///
///     fn reload(&self, reloader: &mut Reloader) {
///         if let Err(error) = reloader.reload(Config::new()) {
///             eprintln!("{error}");
///         }
///     }
/// }
///
/// operate(Config::new(), Arc::new(Root))?;
/// # Ok::<(), phalanx_broker::ServeError>(())
/// ```
///
/// # Errors
/// As [`serve`](crate::serve).
pub fn operate<O: Operator>(config: Config, operator: Arc<O>) -> Result<(), ServeError> {
    let ready = operator.clone();
    let signals = config.runtime.signals;
    let on_reload = |mut reloader| {
        let stopping = operator.clone();
        let hear = || {
            SighupHandler::spawn(
                move || operator.reload(&mut reloader),
                move || stopping.stopping(),
            )
        };
        signals.then(hear).flatten()
    };
    run(config, on_reload, |serving| ready.ready(serving))
}
