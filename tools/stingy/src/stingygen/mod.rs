//! `stingygen`: the allocator and the scheduler of a server, in C11.

mod emit;
pub(crate) mod names;
mod pools;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::error::Error;
use crate::model::{Analysis, Object};

/// Maximum number of pools: their indexes are bytes, and one value ends lists.
const MAX_POOLS: usize = 255;

/// Generate an allocator and a scheduler for a server.
///
/// The result is `stingy.h` and `stingy.c`, which need a C11 compiler and mmap. Each object has a pool whose slots fit
/// the L2 cache together with those of the other objects; objects that are never live together share one.
#[derive(Args)]
pub(crate) struct Stingygen {
    /// The output of `memwalk --json`.
    analysis: PathBuf,
    /// The folder for `stingy.h` and `stingy.c`.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    out: PathBuf,
    /// Size of the L2 cache in bytes if the machine that executes the server does not state it; by default that of
    /// this machine.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<u64>::new().range(4096..))]
    l2: Option<u64>,
    /// The part of the L2 cache for the memory of requests, in percent.
    #[arg(long, default_value_t = 50, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    budget: u8,
    /// Maximum number of queued requests.
    #[arg(long, default_value_t = 1 << 20, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(64..))]
    max_requests: u32,
}

impl Stingygen {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let analysis = Analysis::load(&self.analysis)?;
        let expected = analysis.objects.iter().filter(|object| object.is_pooled);
        for object in expected.filter(|object| object.bytes.is_none()) {
            eprintln!("{}: no pool, because the size is determined at run time", object.name);
        }
        let objects = pooled(&analysis);
        let pools = pools::assign(&analysis, &objects);
        if pools.is_empty() || pools.len() > MAX_POOLS {
            let message = format!("{} pools; between 1 and {MAX_POOLS} are possible", pools.len());
            return Err(Error::contents(&self.analysis, message));
        }
        let named = objects.iter().map(|object| object.name.as_str());
        let stages = analysis.stages.iter().map(|stage| stage.name.as_str());
        if let Some((one, other)) = names::equal(named, stages) {
            let message = format!(
                "`{one}` and `{other}` have the same name in C; rename a variable or member"
            );
            return Err(Error::contents(&self.analysis, message));
        }
        let limits = emit::Limits {
            l2_bytes: self.l2.or_else(l2_bytes).unwrap_or(1 << 20),
            budget_percent: self.budget,
            max_requests: self.max_requests,
        };
        let header = emit::header(&analysis, &pools, limits).expect("writing to a string");
        let source = emit::source(&analysis, &pools).expect("writing to a string");
        for (name, text) in [("stingy.h", header), ("stingy.c", source)] {
            let path = self.out.join(name);
            std::fs::write(&path, text).map_err(Error::write(&path))?;
        }
        let request: u64 = pools.iter().map(|pool| pool.slot_bytes).sum();
        let requests = limits.l2_bytes / 100 * u64::from(self.budget) / request;
        crate::print(&format!(
            "{} objects in {} pools, {request} bytes for each request; {requests} requests fit {} % of {} KiB\n",
            objects.len(),
            pools.len(),
            self.budget,
            limits.l2_bytes >> 10,
        ))
    }
}

/// The objects that have a pool: those of known size that the description wants.
pub(crate) fn pooled(analysis: &Analysis) -> Vec<&Object> {
    analysis.objects.iter().filter(|object| object.is_pooled && object.bytes.is_some()).collect()
}

/// Size of the L2 cache of this machine.
fn l2_bytes() -> Option<u64> {
    let path = Path::new("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
}
