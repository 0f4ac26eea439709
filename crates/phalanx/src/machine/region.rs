//! A processor's memory region, which is one mapping, in huge pages if the kernel provides them.
//!
//! Each page of 4 KiB needs an entry in the TLB; a huge page needs one for 2 MiB. This matters when
//! operations exceed the second-level cache.

use memmap2::MmapMut;
use phalanx_core::{ProcessorBuilder, Region};

/// Adds a region of this size to the processor, unless the kernel refuses the mapping.
pub(crate) fn with_region(bytes: usize, builder: ProcessorBuilder) -> ProcessorBuilder {
    let memory = if bytes > 0 { MmapMut::map_anon(bytes).ok() } else { None };
    let Some(memory) = memory else { return builder };
    // Without huge pages, ordinary pages are used.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    builder.with_region(Region::new(memory))
}
