//! The operator's interface to a running server.

use std::sync::Arc;

use phalanx_service::SighupHandler;

use crate::config::Config;
use crate::error::ServeError;
use crate::reload::Reloader;
use crate::reload::inherited::Inherited;
use crate::serve::{Serving, run};

/// Observer of a server's life, which supplies a new configuration at SIGHUP. Its methods are not called on a
/// processor and may block.
pub trait Operator: Send + Sync + 'static {
    /// The server accepts connections.
    fn ready(&self, serving: &Serving<'_>);

    /// SIGHUP was received: read the configuration again, pass it to [`Reloader::reload`], and report the
    /// result. A further SIGHUP waits until this returns.
    fn reload(&self, reloader: &mut Reloader);

    /// The server is shutting down: it finishes requests in progress and accepts no more.
    fn stopping(&self) {}
}

/// As [`serve`](crate::serve), with an operator that observes the server and reloads its configuration. A
/// socket in `inherited` is used for the address of `config` that it is bound to.
///
/// ```no_run
/// use std::sync::Arc;
/// use phalanx_web::{Config, Inherited, Operator, Reloader, Serving, operate};
///
/// struct Root;
///
/// impl Operator for Root {
///     fn ready(&self, serving: &Serving<'_>) {
///         serving.urls().for_each(|url| println!("listening on {url}"));
///     }
///
///     fn reload(&self, reloader: &mut Reloader) {
///         if let Err(error) = reloader.reload(Config::of("/srv/www")) {
///             eprintln!("{error}");
///         }
///     }
/// }
///
/// let inherited = Inherited::default();
/// operate(Config::of("/srv/www"), inherited, Arc::new(Root))?;
/// # Ok::<(), phalanx_web::ServeError>(())
/// ```
///
/// # Errors
/// As [`serve`](crate::serve).
pub fn operate<O: Operator>(
    config: Config,
    inherited: Inherited,
    operator: Arc<O>,
) -> Result<(), ServeError> {
    let ready = operator.clone();
    run(
        config,
        inherited,
        |mut reloader| {
            let stopping = operator.clone();
            SighupHandler::spawn(
                move || operator.reload(&mut reloader),
                move || stopping.stopping(),
            )
        },
        |serving| ready.ready(serving),
    )
}
