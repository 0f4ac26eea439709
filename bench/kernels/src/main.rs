//! Runs one kernel, so that a simulator can count it.

#![forbid(unsafe_code)]

use clap::Parser;
use phalanx_kernels::Kernel;

/// Fixed workloads that `cargo xtask gates` counts.
#[derive(Parser)]
struct Arguments {
    kernel: Kernel,
    /// Number of operations, requests or events
    #[arg(long, default_value_t = 64)]
    count: usize,
    /// Bytes of the heap that stay unused, so that the kernel's data is elsewhere
    #[arg(long, default_value_t = 0)]
    heap_shift: usize,
}

fn main() {
    let arguments = Arguments::parse();
    let _unused = std::hint::black_box(vec![0_u8; arguments.heap_shift]);
    phalanx_kernels::run(arguments.kernel, arguments.count);
}
