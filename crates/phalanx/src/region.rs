//! Memory for a processor to live in: one mapping, of huge pages where the kernel has them.
//!
//! A page of 4 KiB has a line in the table of translations each; what lives in one huge page has one
//! for all. It matters little while all fits the second-level cache and more beyond it.

use memmap2::MmapMut;
use phalanx_core::{Region, Seed};

/// The processor with a region of so many bytes, or without one where the kernel gives none.
pub(crate) fn lent(bytes: usize, seed: Seed) -> Seed {
    let memory = if bytes > 0 { MmapMut::map_anon(bytes).ok() } else { None };
    let Some(memory) = memory else { return seed };
    // Ordinary pages do where it will not.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    seed.live_in(Region::new(memory))
}
