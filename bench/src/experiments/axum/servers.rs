//! The servers, each a process.

use std::path::{Path, PathBuf};
use std::process::Command;

use phalanx_testkit::postgres::PostgresServer;

use super::{Options, Scene};
use crate::error::Error;
use crate::system::{Process, process, procfs};

/// The program with the servers of the axum application.
const PROGRAM: &str = "phalanx-axum-arms";
/// Its servers; Phalanx is the first.
const ARMS: [&str; 3] = ["phalanx", "axum-serve", "tokio-cores"];
/// The program with the servers on other libraries.
const OTHERS: &str = "phalanx-http-arms";
/// Its servers, which have no database.
const OTHER_ARMS: [&str; 3] = ["ntex", "monoio", "may-minihttp"];

/// The installed servers.
pub(super) struct Servers {
    pub(super) program: PathBuf,
    others: Option<PathBuf>,
}

impl Servers {
    /// Finds the programs. Without that of the other libraries, only the axum application is measured.
    pub(super) fn find(options: &Options) -> Result<Self, Error> {
        let program = process::named(&options.program, PROGRAM)?;
        let others = options.others.clone().or_else(|| process::find(OTHERS));
        if others.is_none() && options.scenes.iter().any(|scene| !scene.needs_database()) {
            eprintln!(
                "{} are not measured: {OTHERS} was not found; run `cargo xtask peers`, or pass its path with --others",
                OTHER_ARMS.join(", ")
            );
        }
        Ok(Self { program, others })
    }

    /// Names of the servers in a scene, Phalanx first. Those of a scene with a database are the first of all scenes.
    pub(super) fn names(&self, scene: Scene) -> Vec<&'static str> {
        let others = self.others.iter().filter(|_| !scene.needs_database());
        ARMS.into_iter().chain(others.flat_map(|_| OTHER_ARMS)).collect()
    }

    /// Starts a server on `cores`.
    pub(super) fn start(
        &self,
        name: &str,
        processors: usize,
        database: Option<&Database>,
        cores: &[usize],
        folder: &Path,
    ) -> Result<Process, Error> {
        let others = self.others.as_ref().filter(|_| OTHER_ARMS.contains(&name));
        let mut command = Command::new(others.unwrap_or(&self.program));
        command.args([name, &processors.to_string()]);
        if others.is_none() {
            command.args(database.map(Database::socket));
        }
        Process::start(name, command, None, cores, folder, process::listens)
    }
}

/// A temporary PostgreSQL server with the table of the servers' program.
pub(super) struct Database(PostgresServer);

impl Database {
    /// Starts the server. `program` creates the table.
    pub(super) fn start(program: &Path) -> Result<Self, Error> {
        let failed = |reason: String| Error::server("PostgreSQL", reason);
        // Rows are not vacuumed meanwhile, since that would be counted for one of the servers.
        let settings = ["max_connections = 100", "shared_buffers = 128MB", "autovacuum = off"];
        let server = PostgresServer::start(&settings)?.ok_or_else(|| {
            failed(
                "it is not installed; run `apt-get install postgresql`, or leave out the scenes select and insert"
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
        // A process may exit between the two reads.
        Ok(processes.iter().filter_map(|process| procfs::run_time(&[*process]).ok()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_measured_without_a_database_only() {
        let found = |others: Option<&str>| Servers {
            program: PathBuf::from(PROGRAM),
            others: others.map(PathBuf::from),
        };
        let all = [ARMS, OTHER_ARMS].concat();
        assert_eq!(found(Some(OTHERS)).names(Scene::Json), all);
        assert_eq!(found(Some(OTHERS)).names(Scene::Light), all);
        assert_eq!(found(Some(OTHERS)).names(Scene::Insert), ARMS);
        assert_eq!(found(None).names(Scene::Json), ARMS);
    }
}
