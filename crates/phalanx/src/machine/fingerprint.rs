//! The machine on which a profile was measured.

use std::fs;
use std::num::NonZero;

use super::cache::{cache_bytes, second_level_cache};

/// The properties of a machine that determine how a program performs. Measurements from a machine with other properties
/// may not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fingerprint {
    /// The model of the processor.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Bytes of second-level cache per core.
    pub l2_bytes: usize,
    /// Bytes of third-level cache.
    pub l3_bytes: usize,
    /// The release of the kernel.
    pub kernel: String,
}

impl Fingerprint {
    /// The fingerprint of this machine. A value is empty or zero if the system does not provide it.
    pub fn detect() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let information = read("/proc/cpuinfo");
        let mut lines = information.lines().filter_map(|line| line.split_once(':'));
        let names = ["model name", "CPU part", "cpu model", "uarch"];
        let cpu = lines.find(|(name, _)| names.contains(&name.trim()));
        Self {
            cpu: cpu.map(|(_, value)| value.trim().to_owned()).unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, NonZero::get),
            l2_bytes: second_level_cache(),
            l3_bytes: cache_bytes(3),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// The differences from `other`, each as a phrase.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = [
            ("cpu", self.cpu.clone(), other.cpu.clone()),
            ("cores", self.cores.to_string(), other.cores.to_string()),
            ("second-level cache", self.l2_bytes.to_string(), other.l2_bytes.to_string()),
            ("third-level cache", self.l3_bytes.to_string(), other.l3_bytes.to_string()),
            ("kernel", self.kernel.clone(), other.kernel.clone()),
        ];
        let differences = pairs.into_iter().filter(|(_, this, other)| this != other);
        differences.map(|(name, this, other)| format!("{name} {this:?}, here {other:?}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_described() {
        let here = Fingerprint::detect();
        assert_eq!(here.differences(&here), Vec::<String>::new());
        let other = Fingerprint { cores: here.cores + 1, ..here.clone() };
        let differences = other.differences(&here);
        assert_eq!(differences, [format!("cores \"{}\", here \"{}\"", here.cores + 1, here.cores)]);
    }
}
