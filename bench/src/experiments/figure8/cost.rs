//! After the lower part of the figure: instructions, misses and cycles of the servers, as processes of their own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::arm::Arm;
use super::clients::{Found, load};
use super::{EVENT, Options};
use crate::error::Error;
use crate::measure::{Misses, Partial, clock, measure_each, record};
use crate::system::cachegrind::Counts;
use crate::system::callgrind::Counted;
use crate::system::{
    Cores, Process, cachegrind, callgrind, interrupted, listens, process, user_and_system,
};

/// Number of clients with --misses, as for the paper's cycles per instruction.
const CLIENTS: usize = 16;
/// Lengths of the two loads under valgrind, in seconds. Under cachegrind their difference is counted, under callgrind the
/// second, which finds the caches as the first leaves them. The load without valgrind is as long as the first.
const SECONDS: [u32; 2] = [2, 10];
/// The same in a quick run.
const QUICK: [u32; 2] = [1, 2];
/// Time for a server to build its index under valgrind.
const CONSTRUCTION: Duration = Duration::from_secs(1800);

record! {
    /// The cost of a phase of a server, outside the kernel.
    pub(crate) struct Cost, fn new(arm: Arm, phase: &'static str, clients: usize, counts: Counts, cycles: f64) {
        /// `twin`, `staged` or `divided`.
        server: String => "server", 0 = arm.to_string();
        /// `construction` of the index, for a filter, or `matching`, for an event.
        phase: &'static str => "phase", 0;
        /// Number of concurrent publishers.
        clients: usize => "clients", 0;
        each: Misses, flatten = Misses::from(counts);
        /// Cycles of processor time, as accounted by the kernel.
        own_cycles: f64 => "cycles", 0 = cycles;
        own_cycles_per_instruction: f64 => "cycles/instruction", 2 = cycles / counts.instructions;
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
    let per_us = clock::cycles_per_microsecond();
    let (costs, partial) = measure_each(arms, 1, |arm, _| {
        eprintln!("{arm}, without and under valgrind");
        let child = Child { options, arm: *arm, cores, events };
        if options.matching_misses { child.matching(per_us) } else { child.costs(per_us) }
    })?;
    Ok((costs.into_iter().flatten().flatten().collect(), partial))
}

impl Child<'_> {
    /// The costs of an event, for each number of clients. The index is built before the caches are simulated.
    fn matching(&self, per_us: f64) -> Result<Vec<Cost>, Error> {
        let Options { clients, l2, .. } = self.options;
        let [warm, counted] = self.seconds().map(|seconds| Duration::from_secs(seconds.into()));
        let directory = tempfile::tempdir()?;
        let cycles: Vec<f64> = {
            let server = self.start(self.command()?, directory.path())?;
            let of = |clients: &usize| {
                let before = user_and_system(&server.family)?.0;
                let count = self.load(&server, *clients, warm)?;
                let user = user_and_system(&server.family)?.0 - before;
                Ok::<_, Error>(user * 1e6 * per_us / count as f64)
            };
            clients.iter().map(of).collect::<Result<_, Error>>()?
        };
        let command = callgrind::under(&self.command()?, l2 << 20, directory.path())?;
        let server = self.start(command, directory.path())?;
        let mut simulated = Counted::begin(&server, directory.path())?;
        let of = |(clients, cycles): (&usize, f64)| {
            self.load(&server, *clients, warm)?;
            let (counts, count) = simulated.during(|| self.load(&server, *clients, counted))?;
            Ok(Cost::new(self.arm, "matching", *clients, counts.divided_by(count), cycles))
        };
        clients.iter().zip(cycles).map(of).collect()
    }

    fn seconds(&self) -> [u32; 2] {
        if self.options.quick { QUICK } else { SECONDS }
    }

    /// The costs of a filter and of an event.
    fn costs(&self, per_us: f64) -> Result<Vec<Cost>, Error> {
        let seconds = self.seconds();
        let directory = tempfile::tempdir()?;
        let name = self.arm.to_string();
        let [built, matched] = {
            let server = self.start(self.command()?, directory.path())?;
            let user = || Ok::<_, Error>(user_and_system(&server.family)?.0 * 1e6 * per_us);
            let built = user()?;
            let count = self.load(&server, CLIENTS, Duration::from_secs(seconds[0].into()))?;
            [built / self.options.subscriptions as f64, (user()? - built) / count as f64]
        };
        let counts = cachegrind::server(&name, seconds, |seconds| {
            let server = self.start(cachegrind::under(&self.command()?), directory.path())?;
            let count = self.load(&server, CLIENTS, Duration::from_secs(seconds.into()))?;
            let errors = directory.path().join(format!("{name}.err"));
            Ok((cachegrind::exit(&name, &server, &errors)?, count))
        })?;
        let filter = counts.once.divided_by(self.options.subscriptions);
        Ok(vec![
            Cost::new(self.arm, "construction", 0, filter, built),
            Cost::new(self.arm, "matching", CLIENTS, counts.request, matched),
        ])
    }

    fn command(&self) -> Result<Command, Error> {
        let Options { subscriptions, workload, chosen, processors, seed, .. } = self.options;
        let mut command = Command::new(process::own()?);
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
    fn load(&self, server: &Process, clients: usize, length: Duration) -> Result<usize, Error> {
        let found: Found = load(&self.cores.load, server.address, clients, self.events, length)?;
        interrupted()?;
        Ok(found.count())
    }
}
