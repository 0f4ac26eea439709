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
        let read = |path: &str| fs::read_to_string(path).ok();
        let name = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Self {
            processor: read("/proc/cpuinfo").as_deref().and_then(model),
            cores: allowed,
            kernel: format!("{} {}", text(name.sysname()), text(name.release())),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")
                .map(|text| text.trim().to_owned()),
            server_core: cores.server,
            load_core: cores.load,
        }
    }
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
