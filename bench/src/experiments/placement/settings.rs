//! The settings, and servers that keep one.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use phalanx::runtime::{DEFAULT_SPIN, PROFILE_VARIABLE, Setting};

use super::Options;
use crate::error::Error;
use crate::runner::{Runner, ServerSpec, Site, ours};
use crate::system::ReservedPort;

/// Batching delays, the first one of the peak.
const DELAYS: [Duration; 3] =
    [Duration::ZERO, Duration::from_micros(200), Duration::from_millis(1)];

/// All settings of a server with this many processors, the peak first: all active, without a delay.
pub(super) fn settings(processors: usize) -> Vec<Setting> {
    let halved = std::iter::successors(Some(processors), |active| Some(active / 2));
    let active = halved.take_while(|active| *active > 0);
    active.flat_map(|active| DELAYS.map(|delay| setting(active, delay))).collect()
}

pub(super) fn setting(active: usize, delay: Duration) -> Setting {
    let spin_ns = DEFAULT_SPIN.as_nanos() as u64;
    Setting { active, spin_ns, coalesce_ns: delay.as_nanos() as u64 }
}

/// A runner with a server for each of `settings`.
pub(super) fn start(options: &Options, settings: &[Setting]) -> Result<Runner, Error> {
    let (driver, _) = ours();
    let (cores, processors) = options.runner.cores()?;
    let mut runner = Runner::prepare(&options.runner.setup, cores, &site, !options.quick)?;
    runner.machine.processors = processors;
    for setting in settings {
        let spec = runner.web(driver, &["--max-queue-delay", "0"]);
        let admin = ReservedPort::take()?.give_up();
        runner.add_spec(fixed(spec, *setting, admin))?;
    }
    Ok(runner)
}

/// The processors of a server.
pub(super) fn processors(options: &Options) -> Result<usize, Error> {
    Ok(options.runner.cores()?.1)
}

/// The server keeps the setting, as while `phalanx profile` measures it.
fn fixed(mut spec: ServerSpec, setting: Setting, admin: u16) -> ServerSpec {
    spec.command.env(PROFILE_VARIABLE, format!("{setting} admin=127.0.0.1:{admin}"));
    spec
}

/// Sizes of the files in bytes: those of the paper, and one between them.
const SIZES: [usize; 5] = [10, 100_000, 1_000_000, 10_000_000, 2_000];
/// Connections, as in the paper.
pub(super) const CONNECTIONS: usize = 8;

/// A load: the files with these numbers, equally often.
#[derive(Clone, Copy)]
pub(super) struct FileLoad {
    pub(super) name: &'static str,
    files: &'static [usize],
}

/// The loads of the paper's figures.
pub(super) const PAPER: [FileLoad; 4] = [
    FileLoad { name: "10 B", files: &[0] },
    FileLoad { name: "100 KB", files: &[1] },
    FileLoad { name: "1 MB", files: &[2] },
    FileLoad { name: "10 MB", files: &[3] },
];
/// Those of them that are in the profile.
pub(super) const PROFILED: [FileLoad; 3] = [PAPER[0], PAPER[1], PAPER[3]];
/// Loads that are not.
pub(super) const UNSEEN: [FileLoad; 2] = [
    FileLoad { name: "2 KB", files: &[4] },
    FileLoad { name: "10 B and 1 MB", files: &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2] },
];

/// Creates all files in `directory`.
pub(super) fn site(directory: &Path) -> io::Result<Site> {
    Site::with_sizes(directory, &SIZES, 0.0)
}

impl FileLoad {
    /// Lets the clients of the next slices request these files.
    pub(super) fn select(self, site: &Site) -> io::Result<()> {
        fs::write(&site.paths, self.paths())
    }

    /// The paths, one per line.
    pub(super) fn paths(self) -> String {
        let mut list = String::new();
        for number in self.files {
            writeln!(list, "/file{number:03}.html").expect("writing to a string succeeds");
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_first() {
        let all = settings(4);
        assert_eq!(all.len(), 3 * 3);
        assert_eq!(all[0], setting(4, Duration::ZERO));
        assert_eq!(all[8], setting(1, Duration::from_millis(1)));
    }
}
