//! Setting a ring up, with the best flags that this kernel has.

use std::io;

use io_uring::{Builder, IoUring, Probe, opcode};

use super::ring::Ring;
use crate::Config;

/// Completions that fit per submission before the kernel must keep them aside: multishot
/// operations complete more often than they are submitted.
const COMPLETIONS_PER_ENTRY: u32 = 8;

/// Which flags are asked for, best first. Measured (64 connections): with none a request costs a
/// fifth more, as much as with epoll.
const FLAG_SETS: [fn(&mut Builder); 3] = [
    |ring| {
        ring.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    |ring| {
        ring.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    |_| {},
];

/// A ring whose kernel has all that the driver uses.
///
/// # Errors
/// `EINVAL` when the kernel is too old, else what it says.
pub(super) fn set_up(config: &Config) -> io::Result<Ring> {
    let mut calls = 0;
    let ring = open_ring(config, &mut calls)?;
    // Multishot receive has no probe of its own; SEND_ZC came with the same release, 6.0.
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
    // Saves a lookup per call (1 to 7 % of a request); without it everything works as well.
    let _ = ring.submitter().register_ring_fd();
    Ok(Ring::new(ring, calls + 2))
}

fn open_ring(config: &Config, calls: &mut u64) -> io::Result<IoUring> {
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for flags in FLAG_SETS {
        let mut builder = IoUring::builder();
        let completions = config.entries.next_power_of_two() * COMPLETIONS_PER_ENTRY;
        builder.setup_clamp().setup_cqsize(completions).dontfork();
        flags(&mut builder);
        *calls += 1;
        match builder.build(config.entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            done => return done,
        }
    }
    Err(refused)
}
