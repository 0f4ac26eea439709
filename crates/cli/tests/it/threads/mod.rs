//! `phalanx threads` with real programs. Tests whose programs or compilers are missing are skipped.

mod check;
mod debugger;
mod run;
mod schedule;
mod start;

/// Whether this machine is suitable at all.
fn machine_is_suitable() -> bool {
    let (_, second) = rustix::param::linux_hwcap();
    let suitable = cfg!(target_arch = "x86_64") && second & 2 != 0;
    if !suitable {
        eprintln!("SKIPPED: this machine lacks FSGSBASE");
    }
    suitable
}
