//! Servers under cachegrind, with the load in a separate process.

use std::time::Duration;

use super::server::{Server, ServerSpec};
use super::slice::{Load, Shot};
use super::{Plan, Runner};
use crate::error::Error;
use crate::system::cachegrind::Counts;
use crate::system::{cachegrind, interrupted};

impl Runner {
    /// The counts of a request to the server of this name with one processor, outside the kernel, from two loads of
    /// these lengths in seconds.
    pub(crate) fn simulated(
        &self,
        plan: &Plan<'_>,
        name: &str,
        shot: Shot,
        seconds: [u32; 2],
    ) -> Result<Counts, Error> {
        let run = |seconds| self.whole(plan, name, shot, seconds);
        Ok(cachegrind::server(name, seconds, run)?.request)
    }

    /// The counts of a run of the server from start to exit, and the number of answered requests. Each file is requested
    /// before them: without this, half of the requests of a short load would be the first ones of their file.
    fn whole(
        &self,
        plan: &Plan<'_>,
        name: &str,
        shot: Shot,
        seconds: u32,
    ) -> Result<(Counts, usize), Error> {
        let directory = tempfile::tempdir_in(self.directory.path())?;
        let plan = Plan { wants: &|other| other == name, ..*plan };
        let cores = &self.cores.server;
        let specs = self.specs(&plan, 1, cores.len(), directory.path())?;
        let spec = specs.0.into_iter().next_back().ok_or(Error::NoServers)?;
        let spec = ServerSpec { command: cachegrind::under(&spec.command), ..spec };
        let timeout = cachegrind::SERVER_TIMEOUT;
        let server = Server::start_within(timeout, spec, cores, directory.path(), &self.site)?;
        server.warm_up(&self.site)?;
        let load = Load {
            directory: directory.path(),
            site: &self.site,
            // All requests are counted.
            warmup: Duration::ZERO,
            slice: Duration::from_secs(seconds.into()),
            processes: 1,
        };
        let load = load.report(&server, shot)?;
        interrupted()?;
        if load.errors.total() > 0 || load.status.success < load.completed {
            let reason = format!("wrong answers: {:?} {:?}", load.status, load.errors);
            return Err(Error::load(name, reason));
        }
        let errors = directory.path().join(format!("{name}.err"));
        Ok((cachegrind::exit(name, &server.process, &errors)?, load.completed as usize))
    }
}
