//! The machine of a measurement.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::system::cores::Cores;
use crate::system::hardware;

/// Properties of a machine that affect figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: Option<String>,
    /// Number of cores that this process may use.
    pub(crate) cores: usize,
    /// Name and release of the kernel.
    pub(crate) kernel: String,
    /// Congestion control algorithm of TCP.
    pub(crate) congestion_control: Option<String>,
    /// Processors of each server: workers of Phalanx and of its peers.
    pub(crate) processors: usize,
    pub(crate) server_cores: Vec<usize>,
    pub(crate) load_cores: Vec<usize>,
    /// Whether instructions, cycles and misses are counted.
    #[serde(default)]
    pub(crate) hardware_counters: bool,
}

impl Machine {
    /// The current machine.
    pub(crate) fn here(processors: usize, cores: &Cores) -> Self {
        let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        Self {
            processor: processor(),
            cores: allowed,
            kernel: kernel(),
            congestion_control: congestion.ok().map(|text| text.trim().to_owned()),
            processors,
            server_cores: cores.server.clone(),
            load_cores: cores.load.clone(),
            hardware_counters: hardware::are_available(),
        }
    }

    /// The current machine, for a measurement on one core, without servers.
    pub(crate) fn on_core(core: &[usize]) -> Self {
        Self::here(0, &Cores { server: core.to_vec(), load: Vec::new() })
    }
}

/// The first line of reports.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processor = self.processor.as_deref().unwrap_or("unknown processor");
        writeln!(f, "{processor}, {} cores, {}", self.cores, self.kernel)?;
        let Self { processors, server_cores, load_cores, .. } = self;
        let plural = if *processors == 1 { "" } else { "s" };
        match load_cores.is_empty() {
            true => write!(f, "on core {server_cores:?}")?,
            false => write!(
                f,
                "servers with {processors} processor{plural} on cores {server_cores:?}, load on {load_cores:?}"
            )?,
        }
        match self.hardware_counters {
            true => Ok(()),
            false => f.write_str("; no hardware counters"),
        }
    }
}

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
