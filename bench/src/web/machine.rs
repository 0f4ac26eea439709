//! The machine of a measurement.

use std::fs;

use serde::Serialize;

use super::cores::Cores;

/// Properties of a machine that affect figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: Option<String>,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Congestion control algorithm of TCP.
    pub congestion_control: Option<String>,
    /// Core of the servers.
    pub server_core: usize,
    /// Core of the load.
    pub load_core: usize,
}

impl Machine {
    /// The current machine.
    pub(crate) fn here(allowed: usize, cores: Cores) -> Self {
        let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        Self {
            processor: processor(),
            cores: allowed,
            kernel: kernel(),
            congestion_control: congestion.ok().map(|text| text.trim().to_owned()),
            server_core: cores.server,
            load_core: cores.load,
        }
    }
}

/// Name of the processor.
pub(crate) fn processor() -> Option<String> {
    fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(model)
}

/// Name and release of the kernel.
pub(crate) fn kernel() -> String {
    let name = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    format!("{} {}", text(name.sysname()), text(name.release()))
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
