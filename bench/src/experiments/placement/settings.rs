//! The settings, and servers that keep one.

use std::time::Duration;

use phalanx::runtime::{DEFAULT_SPIN, PROFILE_VARIABLE, Setting};

use crate::error::Error;
use crate::runner::{Runner, ServerSpec, ours};
use crate::system::ReservedPort;

use super::Options;
use super::files::site;

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
