//! Operation of a server: reports readiness, and handles reloads and shutdown.

use phalanx::runtime::report;
use phalanx_service::{Listen, Operator, Reload, Serving};

use crate::options::Options;
use crate::server::Server;
use crate::status;

/// A server with the options that determine its configuration.
pub(crate) struct Service<C: Server> {
    options: Options<C>,
    /// The addresses of inherited sockets.
    inherited: Option<Vec<Listen<C::Scheme>>>,
}

impl<C: Server> Service<C> {
    pub(crate) fn new(options: Options<C>, inherited: Option<Vec<Listen<C::Scheme>>>) -> Self {
        Self { options, inherited }
    }
}

impl<R: Reload<Config: Server>> Operator<R> for Service<R::Config> {
    fn ready(&self, serving: &Serving<'_>) {
        status::ready(serving);
    }

    fn reload(&self, reloader: &mut R) {
        let config = self.options.file.config.as_deref();
        let piped = config.filter(|path| self.options.pipes.contains(path));
        if let Some(path) = piped {
            report(format_args!("{}: not read again, because it is a pipe", path.display()));
        }
        status::reload(config.filter(|_| piped.is_none()), || {
            let config = self.options.load(self.inherited.as_deref());
            reloader
                .reload(config.map_err(|errors| errors.iter().for_each(report))?)
                .map_err(report)
        });
    }

    fn stopping(&self) {
        status::stopping();
    }
}
