//! The ways to run a program: natively, and with N-to-M threads by several settings.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    Native,
    Shim,
    Fifo,
    NoLargeIo,
}

impl Arm {
    pub(super) const ALL: [Self; 4] = [Self::Native, Self::Shim, Self::Fifo, Self::NoLargeIo];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Shim => "shim",
            Self::Fifo => "shim, FIFO",
            Self::NoLargeIo => "shim, no large I/O",
        }
    }

    /// The command of a program with arguments.
    pub(super) fn command(self, phalanx: &Path, carriers: usize, program: &Path) -> Command {
        let options: &[&str] = match self {
            Self::Native => return Command::new(program),
            Self::Shim => &[],
            Self::Fifo => &["--order", "fifo"],
            Self::NoLargeIo => &["--no-large-io"],
        };
        let mut command = Command::new(phalanx);
        command.args(["threads", "--carriers", &carriers.to_string()]).args(options);
        command.arg("--").arg(program);
        command
    }
}

/// The environment of the arms.
pub(super) struct Setting {
    /// The program `phalanx`.
    pub(super) phalanx: PathBuf,
    /// The compiled programs of `programs.c`.
    pub(super) programs: PathBuf,
    /// Where servers may write.
    pub(super) directory: PathBuf,
    pub(super) cores: crate::system::cores::Cores,
    pub(super) rounds: usize,
    pub(super) quick: bool,
}

impl Setting {
    /// As many carriers as the servers have cores.
    pub(super) fn carriers(&self) -> usize {
        self.cores.server.len()
    }

    /// A number of repetitions, or few in a quick run.
    pub(super) fn count(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}
