//! Who operates a broker.

use std::sync::Arc;

use phalanx_service::Hangups;

use crate::config::Config;
use crate::reload::Reloader;
use crate::serve::{ServeError, Serving, run};

/// Told of a broker's life, and asked for a new configuration when it gets SIGHUP. None of this is called on a
/// processor, so all of it may block.
pub trait Operator: Send + Sync + 'static {
    /// Connections are accepted.
    fn ready(&self, serving: &Serving<'_>);

    /// SIGHUP has come: time to read the configuration again, hand it to [`Reloader::reload`], and tell what came of
    /// it. The next SIGHUP waits until this has returned.
    fn reload(&self, reloader: &mut Reloader);

    /// The broker finishes what is under way, and lets nobody in.
    fn stopping(&self) {}
}

/// As [`serve`](crate::serve), for somebody who operates the broker while it runs.
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
        let hear =
            || Hangups::hear(move || operator.reload(&mut reloader), move || stopping.stopping());
        signals.then(hear).flatten()
    };
    run(config, on_reload, |serving| ready.ready(serving))
}
