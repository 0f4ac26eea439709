//! Where something was measured.

use std::fs;

use serde::Serialize;

use super::cores::Cores;

/// A machine, as far as figures depend on it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub processor: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// How TCP decides how fast to send.
    pub congestion_control: Option<String>,
    /// The core of the servers.
    pub server_core: usize,
    /// The core of the load.
    pub load_core: usize,
}

impl Machine {
    /// This one.
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

/// The processor's own name.
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
