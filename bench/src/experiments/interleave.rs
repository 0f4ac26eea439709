//! `phalanx-bench interleave`: the gain from `prefetch(..).await`.
//!
//! Random lookups in a hash table of 256 MiB, far larger than any cache here. Each is an operation of one stage;
//! they run in cohorts of 64, with and without prefetches. A bucket holds the first entry of a chain, so a lookup
//! waits for memory two or three times, and each access depends on the previous one.

use std::cell::Cell;
use std::hint::black_box;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{Clock, Rounds as _, Stretch, median, minimum, record};
use crate::system::cores;
use clap::Args;
use phalanx_core::{Graph, Processor, SharedStage, prefetch};

/// Lookups per cohort.
const COHORT: usize = 64;
/// Bytes of table per entry: 16 of its own and four buckets of four, so that chains are short.
const BYTES_PER_ENTRY: usize = 32;
const END_OF_CHAIN: u32 = u32::MAX;

/// Measure the gain from `prefetch(..).await`: random lookups in a large hash table.
///
/// Each lookup is an operation of one stage on one processor; 64 are queued at a time. With prefetches, an
/// operation starts the load of a bucket or an entry and lets the next operation of its cohort run. Rounds with
/// and without take turns; `speedup` is the median of the rounds' ratios.
///
/// The table is in huge pages if the C library supports it (the program restarts itself for that). Otherwise
/// loads wait for address translation, whose latency a prefetch does not hide.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Size of the table
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number(1..=16_384))]
    pub(crate) mib: usize,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Lookups per round
    #[arg(long, value_name = "N", default_value_t = 256 * 1024, value_parser = number(64..))]
    pub(crate) lookups: usize,

    /// A small table and few lookups: only checks that it runs
    #[arg(long, conflicts_with_all = ["mib", "rounds", "lookups"])]
    pub(crate) quick: bool,
}

record! {
    /// The report.
    pub(crate) struct Report, fn new(plain: &[f64], prefetch: &[f64], table_mib: usize, lookups: usize, rounds: usize) {
        /// Nanoseconds per lookup without prefetches, the fastest round.
        plain_ns: f64 => "ns of a plain lookup", 1 = minimum(plain);
        /// Nanoseconds per lookup with prefetches, the fastest round.
        prefetch_ns: f64 => "with prefetches", 1 = minimum(prefetch);
        /// Median of the rounds' ratios; above 1, prefetches are faster.
        speedup: f64 => "speedup (median of the rounds)", 2 = median(&plain.over(prefetch, |ns| *ns));
        /// Size of the table in MiB.
        table_mib: usize => "MiB of the table", 0;
        /// Memory of this process in huge pages, in MiB; `None` where the kernel does not report it.
        huge_mib: Option<usize> => "MiB in huge pages", 0 = huge_mib();
        /// Lookups per round.
        lookups: usize;
        rounds: usize => "rounds", 0;
        cohort: usize => "lookups per cohort", 0 = COHORT;
    }
}

/// A hash table with chaining.
struct Table {
    buckets: Vec<u32>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    value: u32,
    next: u32,
    _more: u32,
}

/// A pseudo-random number derived from `n`.
fn mix(n: u64) -> u64 {
    let x = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

impl Table {
    /// A full table of about `mib` MiB, with the keys from 0.
    fn new(mib: usize) -> Self {
        let count = (mib << 20) / BYTES_PER_ENTRY;
        let mut buckets = vec![END_OF_CHAIN; 4 * count];
        let mut entries = vec![Entry { key: 0, value: 0, next: END_OF_CHAIN, _more: 0 }; count];
        // Scatter the entries, so that neighbouring keys are not adjacent.
        let step = (count / 2 + 1) | 1;
        let step = (step..).step_by(2).find(|step| gcd(*step, count) == 1).unwrap_or(1);
        for key in 0..count {
            let place = key * step % count;
            let bucket = &mut buckets[mix(key as u64) as usize % (4 * count)];
            let next = std::mem::replace(bucket, place as u32);
            entries[place] = Entry { key: key as u32, value: value_of(key as u32), next, _more: 0 };
        }
        Self { buckets, entries }
    }

    #[inline(always)]
    fn bucket(&self, key: u32) -> &u32 {
        &self.buckets[mix(u64::from(key)) as usize % self.buckets.len()]
    }

    /// The value of a key; stalls on memory.
    #[inline(always)]
    fn plain(&self, key: u32) -> Option<u32> {
        let mut next = *self.bucket(key);
        while let Some(entry) = self.entries.get(next as usize) {
            if entry.key == key {
                return Some(entry.value);
            }
            next = entry.next;
        }
        None
    }

    /// The value of a key; other operations run while memory is loaded.
    #[inline(always)]
    async fn interleaved(&self, key: u32) -> Option<u32> {
        let bucket = self.bucket(key);
        prefetch(bucket).await;
        let mut next = *bucket;
        while let Some(entry) = self.entries.get(next as usize) {
            prefetch(entry).await;
            if entry.key == key {
                return Some(entry.value);
            }
            next = entry.next;
        }
        None
    }
}

fn value_of(key: u32) -> u32 {
    key.wrapping_mul(2_654_435_761)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

struct Bench {
    processor: Processor,
    clock: Clock,
    stage: SharedStage<Table>,
    keys: u64,
    lookups: usize,
    /// Sum of all values found in a round.
    sum: Rc<Cell<u64>>,
}

/// Makes the allocator use huge pages. It reads that setting at process start, so this restarts the program; in
/// the restarted program, or if the user has tuned the allocator, it does nothing.
pub(crate) fn in_huge_pages() -> io::Result<()> {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    if !cfg!(all(target_os = "linux", target_env = "gnu")) || std::env::var_os(TUNABLES).is_some() {
        return Ok(());
    }
    let mut again = Command::new(crate::system::process::own()?);
    again.args(std::env::args_os().skip(1)).env(TUNABLES, "glibc.malloc.hugetlb=1");
    Err(again.exec())
}

fn huge_mib() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find(|line| line.starts_with("AnonHugePages:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib / 1024)
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let (mib, rounds, lookups) = match options.quick {
        true => (1, 3, 4 * 1024),
        false => (options.mib, options.rounds, options.lookups),
    };
    eprintln!("filling a hash table of {mib} MiB");
    let table = Table::new(mib);
    let keys = table.entries.len() as u64;
    let mut graph = Graph::new();
    let stage = graph.stage("lookup").max_cohort(COHORT).shared(table);
    let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    let clock = Clock::new();
    let bench = Bench { processor, clock, stage, keys, lookups, sum: Rc::default() };
    eprintln!("{rounds} rounds of {lookups} lookups with and without prefetches");
    let core = cores::first()?;
    let (plain, interleaved) = cores::bound(&core, || {
        let round = |n: usize| {
            let from = 2 * n * lookups;
            let plain = bench.time("plain", from, Bench::plain);
            let without = bench.sum.replace(0);
            let interleaved = bench.time("with prefetches", from, Bench::interleaved);
            assert_eq!(bench.sum.replace(0), without, "both find the same values");
            (plain, interleaved)
        };
        round(0); // warms up
        (1..=rounds).map(round).collect::<(Vec<f64>, Vec<f64>)>()
    })?;
    Ok(Report::new(&plain, &interleaved, mib, lookups, rounds))
}

impl Bench {
    /// Nanoseconds per lookup. Both variants look up keys that were not used before.
    fn time(&self, name: &str, from: usize, dispatch: impl Fn(&Self, u32)) -> f64 {
        let stretch = Stretch::begin();
        self.processor.enter(|| {
            for n in 0..self.lookups {
                dispatch(self, (mix((from + n) as u64) % self.keys) as u32);
                if n % COHORT == COHORT - 1 {
                    self.processor.turn(&self.clock);
                }
            }
            while self.processor.turn(&self.clock).ran > 0 {}
        });
        black_box(self.sum.get());
        stretch.end().of(name, self.lookups)
    }

    fn plain(&self, key: u32) {
        let sum = self.sum.clone();
        let taken = self.stage.dispatch(move |table| async move {
            let found = table.plain(key).expect("every key is present");
            sum.set(sum.get() + u64::from(found));
        });
        taken.expect("below the limit");
    }

    fn interleaved(&self, key: u32) {
        let sum = self.sum.clone();
        let taken = self.stage.dispatch(move |table| async move {
            let found = table.interleaved(key).await.expect("every key is present");
            sum.set(sum.get() + u64::from(found));
        });
        taken.expect("below the limit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_no_other() {
        let table = Table::new(1);
        let keys = table.entries.len() as u32;
        assert_eq!(keys as usize * BYTES_PER_ENTRY, 1 << 20);
        assert!((0..keys).all(|key| table.plain(key) == Some(value_of(key))));
        assert_eq!(table.plain(keys), None);
    }
}
