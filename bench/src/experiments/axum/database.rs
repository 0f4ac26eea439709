//! The database of all servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use phalanx_testkit::postgres::PostgresServer;

use crate::error::Error;
use crate::system::procfs;

/// A temporary PostgreSQL server with the table of the servers' program.
pub(super) struct Database(PostgresServer);

impl Database {
    /// Starts the server. `program` creates the table.
    pub(super) fn start(program: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::server("PostgreSQL", why);
        // Rows are not vacuumed meanwhile, since that would be counted for one of the servers.
        let settings = ["max_connections = 100", "shared_buffers = 128MB", "autovacuum = off"];
        let server = PostgresServer::start(&settings)?.ok_or_else(|| {
            failed(
                "it is not installed; get it by apt-get install postgresql, or leave out the scenes select and insert"
                    .to_owned(),
            )
        })?;
        let prepared = Command::new(program).arg("prepare").arg(server.socket()).status()?;
        match prepared.success() {
            true => Ok(Self(server)),
            false => Err(failed(format!("its table was not created: {prepared}"))),
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    /// Processor time of its processes in seconds, without that of processes that have exited.
    pub(super) fn run_time(&self) -> Result<f64, Error> {
        let processes = procfs::family(self.0.process()?)?;
        // A process may exit between the two looks.
        Ok(processes.iter().filter_map(|process| procfs::run_time(&[*process]).ok()).sum())
    }
}
