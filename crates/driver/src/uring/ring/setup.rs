//! Opens a ring with the best flags that the kernel supports.

use std::io;

use io_uring::{Builder, IoUring, Probe, opcode};

use crate::Config;
use crate::uring::ring::queues::Ring;

/// Entries of the completion queue per submission entry, before the kernel must store completions elsewhere.
/// Multishot operations complete more often than they are submitted.
const COMPLETIONS_PER_ENTRY: u32 = 8;

/// The sets of flags, best first. With no flags a request costs 20 % more, as much as with epoll (measured
/// with 64 connections).
const FLAG_SETS: [fn(&mut Builder); 3] = [
    |ring| {
        ring.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    |ring| {
        ring.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    |_| {},
];

/// A ring of a kernel that has all features that the driver uses.
///
/// # Errors
/// `EINVAL` if the kernel is too old; otherwise the kernel's error.
pub(crate) fn set_up(config: &Config) -> io::Result<Ring> {
    let mut calls = 0;
    let ring = open_ring(config, &mut calls)?;
    // There is no probe for the multishot receive, but SEND_ZC was added in the same release, 6.0.
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let features = ring.params();
    let fits = probe.is_supported(opcode::SendZc::CODE)
        && features.is_feature_nodrop()
        && features.is_feature_ext_arg()
        && features.is_feature_submit_stable();
    if !fits {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // Saves a lookup per call, 1 to 7 % of a request. The driver works without it.
    let _ = ring.submitter().register_ring_fd();
    Ok(Ring::new(ring, calls + 2))
}

fn open_ring(config: &Config, calls: &mut u64) -> io::Result<IoUring> {
    let mut last_error = io::Error::from_raw_os_error(libc::EINVAL);
    for flags in FLAG_SETS {
        let mut builder = IoUring::builder();
        let completions = config.entries.next_power_of_two() * COMPLETIONS_PER_ENTRY;
        builder.setup_clamp().setup_cqsize(completions).dontfork();
        flags(&mut builder);
        *calls += 1;
        match builder.build(config.entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last_error = error,
            done => return done,
        }
    }
    Err(last_error)
}
