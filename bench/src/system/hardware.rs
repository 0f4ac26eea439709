//! Hardware counters of processes: instructions, cycles, and misses of caches and branches.
//!
//! The kernel offers them by `perf_event_open`. Virtual machines often have none.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};
use perf_event::{Builder, Counter};
use serde::{Deserialize, Serialize};

const ESRCH: i32 = 3;

/// Declares the events: the fields of [`Events`], their names in text, and the counter of each, if the processor has it.
macro_rules! events {
    ($($(#[$meta:meta])* $event:ident: $name:literal, $counter:expr;)*) => {
        /// Numbers of events; those that the processor does not count are `None`.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Events {
            $($(#[$meta])* pub $event: Option<f64>,)*
        }

        /// Number of events. More than the processor counts at once are counted in turn, and scaled.
        pub(crate) const EVENTS: usize = [$($name),*].len();
        /// Their names.
        const NAMES: [&str; EVENTS] = [$($name),*];

        impl Events {
            pub(crate) fn from_array([$($event),*]: [Option<f64>; EVENTS]) -> Self {
                Self { $($event),* }
            }

            fn to_array(self) -> [Option<f64>; EVENTS] {
                [$(self.$event),*]
            }
        }

        /// The counter of each event.
        fn builders() -> [Option<Builder<'static>>; EVENTS] {
            [$($counter),*]
        }
    };
}

events! {
    /// Executed instructions.
    instructions: "instructions", Some(Builder::new(Hardware::INSTRUCTIONS));
    /// Cycles in which the threads ran.
    cycles: "cycles", Some(Builder::new(Hardware::CPU_CYCLES));
    /// Misses of the first-level instruction cache.
    l1_instruction_misses: "L1 instruction misses", read_misses(CacheId::L1I);
    /// Read misses of the first-level data cache.
    l1_data_misses: "L1 data misses", read_misses(CacheId::L1D);
    /// Misses of the second-level cache, by instructions and data, on processors of Intel and AMD. The kernel has no event
    /// for it that is the same on all processors.
    l2_misses: "L2 misses", second_level();
    /// Read misses of the last-level cache.
    last_level_misses: "last-level misses", read_misses(CacheId::LL);
    /// Mispredicted branches.
    branch_misses: "branch misses", Some(Builder::new(Hardware::BRANCH_MISSES));
    /// Cycles in which no instruction could be issued for lack of fetched ones.
    stalled_cycles_frontend: "stalled cycles (frontend)", Some(Builder::new(Hardware::STALLED_CYCLES_FRONTEND));
    /// Cycles in which no instruction could be issued for lack of data or units.
    stalled_cycles_backend: "stalled cycles (backend)", Some(Builder::new(Hardware::STALLED_CYCLES_BACKEND));
}

impl Events {
    /// Cycles of an instruction.
    pub(crate) fn cycles_per_instruction(self) -> Option<f64> {
        Some(self.cycles? / self.instructions?)
    }

    /// Each number divided by `divisor`.
    pub(crate) fn divided_by(self, divisor: f64) -> Self {
        Self::from_array(self.to_array().map(|count| Some(count? / divisor)))
    }

    /// The events since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let (now, before) = (self.to_array(), before.to_array());
        Self::from_array(std::array::from_fn(|event| Some(now[event]? - before[event]?)))
    }

    /// Combines the same events of several measurements, which count the same ones.
    pub(crate) fn combine(all: &[Self], with: impl Fn(&[f64]) -> f64) -> Self {
        Self::from_array(std::array::from_fn(|event| {
            let counts: Option<Vec<f64>> = all.iter().map(|one| one.to_array()[event]).collect();
            counts.filter(|counts| !counts.is_empty()).map(|counts| with(&counts))
        }))
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = NAMES.into_iter().zip(self.to_array());
        let counted = counted.filter_map(|(name, count)| Some(format!("{:.1} {name}", count?)));
        f.write_str(&counted.collect::<Vec<_>>().join(", "))
    }
}

/// Which part of the threads is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The kernel and the program.
    All,
    /// The program outside the kernel.
    User,
    /// The kernel alone.
    Kernel,
}

impl Part {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

/// Running counters of the threads of processes.
pub(crate) struct HardwareCounters([Vec<Counter>; EVENTS]);

impl HardwareCounters {
    /// Starts the counters of all threads that these processes have now.
    pub(crate) fn start(processes: &[u32], part: Part) -> io::Result<Self> {
        Self::start_events(&threads(processes)?, part, false, builders())
    }

    /// Starts the counters of the calling thread alone.
    pub(crate) fn start_here(part: Part) -> io::Result<Self> {
        Self::start_events(&[this_thread()], part, false, builders())
    }

    /// Starts the counters of the calling thread, and of the threads and processes that it starts from now on.
    pub(crate) fn start_from_here(part: Part) -> io::Result<Self> {
        Self::start_events(&[this_thread()], part, true, builders())
    }

    /// Starts the counters of the other threads of this process, and of those that they start from now on.
    pub(crate) fn start_elsewhere(part: Part) -> io::Result<Self> {
        Self::start_events(&other_threads()?, part, true, builders())
    }

    fn start_events(
        threads: &[i32],
        part: Part,
        inherit: bool,
        builders: [Option<Builder<'static>>; EVENTS],
    ) -> io::Result<Self> {
        let mut counters = [const { Vec::new() }; EVENTS];
        for (event, builder) in builders.into_iter().enumerate() {
            let Some(mut builder) = builder else { continue };
            builder.enabled(true).inherit(inherit);
            builder.exclude_kernel(part == Part::User).exclude_user(part == Part::Kernel);
            // A thread may have exited.
            let start = |thread: &i32| match builder.observe_pid(*thread).build() {
                Err(error) if error.raw_os_error() == Some(ESRCH) => None,
                started => Some(started),
            };
            match threads.iter().filter_map(start).collect::<io::Result<Vec<_>>>() {
                Ok(started) => counters[event] = started,
                Err(error) if event == 0 => return Err(error),
                // This processor does not count the event.
                Err(_) => (),
            }
        }
        Ok(Self(counters))
    }

    /// The numbers of events since the start. Those of threads that have exited since are included.
    pub(crate) fn read(&mut self) -> io::Result<Events> {
        let mut counts = [None; EVENTS];
        for (count, counters) in counts.iter_mut().zip(&mut self.0) {
            for counter in counters {
                let read = counter.read_count_and_time()?;
                let scale = read.time_enabled as f64 / read.time_running.max(1) as f64;
                *count = Some(count.unwrap_or(0.0) + read.count as f64 * scale);
            }
        }
        Ok(Events::from_array(counts))
    }
}

/// Whether this processor has counters that this process may read.
pub(crate) fn are_available() -> bool {
    HardwareCounters::start(&[std::process::id()], Part::All).is_ok()
}

fn threads(processes: &[u32]) -> io::Result<Vec<i32>> {
    let mut threads = Vec::new();
    for process in processes {
        for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
            threads.extend(thread?.file_name().to_str().and_then(|id| id.parse::<i32>().ok()));
        }
    }
    Ok(threads)
}

fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn other_threads() -> io::Result<Vec<i32>> {
    let here = this_thread();
    Ok(threads(&[std::process::id()])?.into_iter().filter(|thread| *thread != here).collect())
}

fn read_misses(which: CacheId) -> Option<Builder<'static>> {
    Some(Builder::new(Cache { which, operation: CacheOp::READ, result: CacheResult::MISS }))
}

fn second_level() -> Option<Builder<'static>> {
    static CONFIG: OnceLock<Option<u64>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        l2_misses(&cpuinfo)
    });
    config.map(|config| Builder::new(Raw::new(config)))
}

/// The event and its mask of the processor's second-level misses.
fn l2_misses(cpuinfo: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let family: u32 = value("cpu family")?.parse().ok()?;
    match (value("vendor_id")?, family) {
        // L2_RQSTS.MISS.
        ("GenuineIntel", 6) => Some(0x3f24),
        // L2CacheReqStat: misses of instructions and of loads, since Zen.
        ("AuthenticAMD", 23..) => Some(0x0964),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    /// The size of a block that is mapped for each allocation, in bytes. A smaller one may be memory that an earlier test
    /// has touched.
    const FRESH: usize = 64 << 20;

    /// Where the processor counts nothing, the kernel still counts events of its own.
    fn started(threads: &[i32], inherit: bool) -> Option<HardwareCounters> {
        let software = |event| Some(Builder::new(event));
        let builders = [
            software(Software::TASK_CLOCK),
            software(Software::PAGE_FAULTS),
            Some(Builder::new(Cache {
                which: CacheId::NODE,
                operation: CacheOp::PREFETCH,
                result: CacheResult::MISS,
            })),
            software(Software::DUMMY),
            None,
            software(Software::CONTEXT_SWITCHES),
            software(Software::TASK_CLOCK),
            software(Software::TASK_CLOCK),
            software(Software::TASK_CLOCK),
        ];
        let start = |part| HardwareCounters::start_events(threads, part, inherit, builders.clone());
        let started = start(Part::All).or_else(|_| start(Part::User));
        started.map_err(|error| println!("skipped: no counters are permitted: {error}")).ok()
    }

    #[test]
    fn counters_count_the_threads_of_a_process() {
        let threads = threads(&[std::process::id()]).unwrap();
        assert!(threads.len() > 1, "the test's own and the main one: {threads:?}");
        let Some(mut counters) = started(&threads, false) else { return };
        let touched = vec![1_u8; FRESH];
        let counted = counters.read().unwrap();
        assert!(!std::hint::black_box(touched).is_empty());
        assert!(counted.instructions.is_some_and(|nanos| nanos > 0.0), "{counted:?}");
        assert!(counted.cycles.is_some_and(|faults| faults > 0.0), "{counted:?}");
        assert_eq!(counted.l1_data_misses, Some(0.0));
        let half = counted.divided_by(2.0);
        assert_eq!(half.cycles.map(|cycles| 2.0 * cycles), counted.cycles);
        let both = Events::combine(&[half, half], |counts| counts.iter().sum());
        assert_eq!(both.cycles, counted.cycles);
    }

    #[test]
    fn threads_and_processes_that_start_later_are_counted() {
        let touch = || std::hint::black_box(vec![1_u8; FRESH]).len();
        let Some(mut counters) = started(&[this_thread()], true) else { return };
        let faults = |counters: &mut HardwareCounters| counters.read().unwrap().cycles.unwrap();
        let before = faults(&mut counters);
        std::thread::spawn(touch).join().unwrap();
        let after = faults(&mut counters);
        // At least one for 2 MiB.
        assert!(after - before > 20.0, "faults of the thread: {before} {after}");
        assert!(std::process::Command::new("true").status().unwrap().success());
        assert!(faults(&mut counters) - after > 20.0, "faults of the process");
        // This thread is none of the others.
        assert!(!other_threads().unwrap().contains(&this_thread()));
    }

    #[test]
    fn the_second_level_has_an_event_of_the_vendor() {
        let of = |vendor: &str, family: u32| {
            l2_misses(&format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\n"))
        };
        assert_eq!(of("AuthenticAMD", 25), Some(0x0964));
        assert_eq!(of("AuthenticAMD", 21), None);
        assert_eq!(of("GenuineIntel", 6), Some(0x3f24));
        assert_eq!((of("Other", 6), l2_misses("")), (None, None));
    }

    #[test]
    fn instructions_are_counted() {
        match HardwareCounters::start(&[std::process::id()], Part::User) {
            Ok(mut counters) => assert!(counters.read().unwrap().instructions > Some(0.0)),
            Err(error) => println!("skipped: no counters are permitted: {error}"),
        }
    }
}
