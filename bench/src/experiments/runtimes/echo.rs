//! An echo server under load.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::load::exchange::{Exchange, Query};
use crate::measure::Stretch;
use crate::system::{Bound, Cores, Process, process, run_time};

/// Number of connections.
const CONNECTIONS: usize = 64;
/// A message, which the server sends back.
const ECHO: Query = Query { request: &[7; 64], reply: &[7; 64] };
/// Messages per round.
pub(super) const MESSAGES: usize = 60_000;

/// A running server.
pub(super) struct Server {
    name: &'static str,
    cores: Cores,
    process: Process,
}

impl Server {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        cores: Cores,
        directory: &Path,
    ) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(["echo", name]);
        let process =
            Process::start(name, command, None, &cores.server, directory, process::listens)?;
        Ok(Self { name, cores, process })
    }

    /// Microseconds of the server's processor time per message, of about this many messages.
    pub(super) fn measure(&self, messages: usize) -> Result<f64, Error> {
        let failed = |error| match error {
            Error::Interrupted => error,
            error => Error::load(self.name, error),
        };
        let _bound = Bound::to(&self.cores.load)?;
        let address = self.process.address;
        let mut clients = Exchange::connect(address, None, ECHO, None, CONNECTIONS)
            .map_err(|error| failed(error.into()))?;
        clients.run(|answered| answered >= messages / 10).map_err(failed)?;
        let before = run_time(&self.process.family)?;
        let stretch = Stretch::begin_of(&self.process.family);
        let answered = clients.run(|answered| answered >= messages).map_err(failed)?;
        stretch.end().of(format_args!("{}, echo", self.name), answered);
        let after = run_time(&self.process.family)?;
        Ok((after - before) * 1e6 / answered as f64)
    }
}
