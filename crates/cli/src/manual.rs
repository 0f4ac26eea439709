//! `phalanx completions` and `phalanx man`: shell completions and manual pages, generated from the definitions of
//! the command line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::stdout::finish;

/// Write shell completions to stdout.
///
/// bash: `phalanx completions bash > ~/.local/share/bash-completion/completions/phalanx`;
/// zsh: `… zsh > DIR/_phalanx`, with DIR in $fpath;
/// fish: `… fish > ~/.config/fish/completions/phalanx.fish`.
#[derive(Args)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: Command) -> ExitCode {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "phalanx", &mut text);
        finish(io::stdout().write_all(&text))
    }
}

/// Write the manual pages, phalanx.1 and one per command, to a directory.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory; created if missing. Show a page with `man -l DIR/phalanx-web.1`.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> ExitCode {
        let written = std::fs::create_dir_all(&self.directory)
            .and_then(|()| clap_mangen::generate_to(command, &self.directory));
        let with_path = |error| io::Error::other(format!("{}: {error}", self.directory.display()));
        finish(written.map_err(with_path))
    }
}
