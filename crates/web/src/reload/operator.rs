//! Who operates a server.

use std::sync::Arc;

use phalanx_service::Hangups;

use crate::config::Config;
use crate::reload::Reloader;
use crate::reload::inherited::Inherited;
use crate::serve::{ServeError, Serving, run};

/// Told of a server's life, and asked for a new configuration when it gets SIGHUP. None of this is
/// called on a processor, so all of it may block.
pub trait Operator: Send + Sync + 'static {
    /// Connections are accepted.
    fn ready(&self, serving: &Serving<'_>);

    /// SIGHUP has come: time to read the configuration again, hand it to [`Reloader::reload`], and
    /// tell what came of it. The next SIGHUP waits until this has returned.
    fn reload(&self, reloader: &mut Reloader);

    /// The server finishes what is under way, and takes nothing new.
    fn stopping(&self) {}
}

/// As [`serve`](crate::serve), for somebody who operates the server while it runs. Where `config`
/// listens at the address of one of the `inherited` sockets, that socket is used.
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
            Hangups::hear(move || operator.reload(&mut reloader), move || stopping.stopping())
        },
        |serving| ready.ready(serving),
    )
}
