//! After the lower part of the figure: instructions, misses and cycles of the servers, as processes of their own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::arm::Arm;
use super::clients::{Found, load};
use super::{EVENT, Options};
use crate::error::Error;
use crate::measure::cycles;
use crate::measure::partial::{Partial, measure_each};
use crate::measure::record::record;
use crate::measure::sample::Misses;
use crate::system::cachegrind::{self, Counts};
use crate::system::cores::Cores;
use crate::system::interrupt::interrupted;
use crate::system::process::{Process, listens};
use crate::system::procfs::user_and_system;
use crate::system::programs;

/// Number of clients, as for the paper's cycles per instruction.
const CLIENTS: usize = 16;
/// Lengths of the two loads under valgrind, in seconds; their difference is counted. The load without valgrind is as long
/// as the first.
const SECONDS: [u32; 2] = [2, 10];
/// The same in a quick run.
const QUICK: [u32; 2] = [1, 2];
/// Time for a server to build its index under valgrind.
const CONSTRUCTION: Duration = Duration::from_secs(1800);

record! {
    /// The cost of a phase of a server, outside the kernel.
    pub struct Cost {
        /// `twin`, `staged` or `divided`.
        server: String => "server", 0;
        /// `construction` of the index, for a filter, or `matching`, for an event.
        phase: &'static str => "phase", 0;
        /// Its instructions and misses.
        each: Misses, flatten;
        /// Cycles of processor time, as accounted by the kernel.
        own_cycles: f64 => "cycles", 0;
        /// `own_cycles` per instruction.
        own_cycles_per_instruction: f64 => "cycles/instruction", 2;
    }
}

impl Cost {
    fn new(arm: Arm, phase: &'static str, each: Counts, cycles: f64) -> Self {
        Self {
            server: arm.to_string(),
            phase,
            each: each.into(),
            own_cycles: cycles,
            own_cycles_per_instruction: cycles / each.instructions,
        }
    }
}

/// A server as a process.
struct Child<'a> {
    options: &'a Options,
    arm: Arm,
    cores: &'a Cores,
    events: &'static [[u8; EVENT]],
}

/// Measures each arm.
pub(super) fn measure(
    options: &Options,
    arms: &[Arm],
    cores: &Cores,
    events: &'static [[u8; EVENT]],
) -> Result<(Vec<Cost>, Option<Partial>), Error> {
    let per_us = cycles::per_microsecond();
    let (costs, partial) = measure_each(arms, 1, |arm, _| {
        eprintln!("{arm}, {CLIENTS} clients, without and under valgrind");
        Child { options, arm: *arm, cores, events }.costs(per_us)
    })?;
    Ok((costs.into_iter().flatten().flatten().collect(), partial))
}

impl Child<'_> {
    fn costs(&self, per_us: f64) -> Result<[Cost; 2], Error> {
        let seconds = if self.options.quick { QUICK } else { SECONDS };
        let directory = tempfile::tempdir()?;
        let name = self.arm.to_string();
        let [built, matched] = {
            let server = self.start(self.command()?, directory.path())?;
            let user = || Ok::<_, Error>(user_and_system(&server.family)?.0 * 1e6 * per_us);
            let built = user()?;
            let count = self.load(&server, Duration::from_secs(seconds[0].into()))?;
            [built / self.options.subscriptions as f64, (user()? - built) / count as f64]
        };
        let counts = cachegrind::server(&name, seconds, |seconds| {
            let server = self.start(cachegrind::under(&self.command()?), directory.path())?;
            let count = self.load(&server, Duration::from_secs(seconds.into()))?;
            let errors = directory.path().join(format!("{name}.err"));
            Ok((cachegrind::exit(&name, &server, &errors)?, count))
        })?;
        let filter = counts.once.divided_by(self.options.subscriptions);
        Ok([
            Cost::new(self.arm, "construction", filter, built),
            Cost::new(self.arm, "matching", counts.request, matched),
        ])
    }

    fn command(&self) -> Result<Command, Error> {
        let Options { subscriptions, workload, chosen, processors, seed, .. } = self.options;
        let mut command = Command::new(programs::own()?);
        command.arg("figure8").arg(format!("--serve={}", self.arm));
        command.arg(format!("--subscriptions={subscriptions}"));
        command.arg(format!("--workload={workload:?}"));
        command.arg(format!("--processors={processors}")).arg(format!("--seed={seed}"));
        command.args(chosen.then_some("--chosen"));
        Ok(command)
    }

    fn start(&self, command: Command, directory: &Path) -> Result<Process, Error> {
        let program = (&*self.arm.to_string(), command, None);
        Process::start_within(CONSTRUCTION, program, &self.cores.server, directory, listens)
    }

    /// The number of answered events.
    fn load(&self, server: &Process, length: Duration) -> Result<usize, Error> {
        let found: Found = load(&self.cores.load, server.address, CLIENTS, self.events, length)?;
        interrupted()?;
        Ok(found.count())
    }
}
