//! The file of a profile.

use std::path::Path;
use std::{fs, io};

use phalanx_core::{Indicators, MAX_MIXES, Measured, Mix, Point, Setting, TrafficProfile};
use phalanx_driver::DriverKind;
use serde::{Deserialize, Serialize};

use crate::machine::Fingerprint;

/// The version of the format.
const VERSION: u32 = 2;

/// A profile with the machine on which it was measured, as `phalanx profile` writes it in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    version: u32,
    /// The machine.
    pub host: Fingerprint,
    /// The name of the driver. `None` in a file of an earlier release, which did not record it.
    #[serde(default)]
    driver: Option<String>,
    mixes: Vec<MixEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MixEntry {
    name: String,
    peak: PointEntry,
    points: Vec<PointEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointEntry {
    active: usize,
    spin_us: f64,
    batch_delay_us: f64,
    cpu_us_per_operation: f64,
    p99_us: f64,
    operations_per_second: f64,
    bytes_in_per_operation: f64,
    bytes_out_per_operation: f64,
    bytes_per_receive: f64,
    typical_bytes_per_send: f64,
    opens_per_operation: f64,
    sockets: f64,
}

/// The reason why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
    /// The file is not a profile.
    #[error("not a profile: {0}; create one with `phalanx profile`")]
    Format(#[from] serde_json::Error),
    /// Its version is not supported.
    #[error(
        "profile version {0} is not supported by this program; measure it again with `phalanx profile`"
    )]
    Version(u32),
    /// The profile has no mixes or too many.
    #[error("a profile must have 1 to {MAX_MIXES} mixes, not {0}")]
    Mixes(usize),
    /// A number is out of range.
    #[error("mix {0:?} has a value that is negative, too large or not a number; measure it again")]
    Figure(String),
}

impl ProfileFile {
    /// A profile that was measured on this machine, with the driver of this name, such as `"uring"`.
    pub fn new(profile: &TrafficProfile, driver: &str) -> Self {
        let mixes = profile.mixes.iter().map(MixEntry::from).collect();
        let (host, driver) = (Fingerprint::detect(), Some(driver.to_owned()));
        Self { version: VERSION, host, driver, mixes }
    }

    /// The differences from this machine and this driver, each as a phrase.
    pub(crate) fn differences(&self, driver: DriverKind) -> Vec<String> {
        let mut differences = self.host.differences(&Fingerprint::detect());
        let here = driver.to_string();
        let other = self.driver.iter().filter(|measured| **measured != here);
        differences.extend(other.map(|measured| format!("driver {measured:?}, here {here:?}")));
        differences
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file does not exist or is not a profile.
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        /// Contains only the version, because another version may have changed the other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let text = fs::read(path)?;
        let Versioned { version } = serde_json::from_slice(&text)?;
        if version != VERSION {
            return Err(ProfileError::Version(version));
        }
        let file: Self = serde_json::from_slice(&text)?;
        if !(1..=MAX_MIXES).contains(&file.mixes.len()) {
            return Err(ProfileError::Mixes(file.mixes.len()));
        }
        match file.mixes.iter().find(|mix| !mix.is_valid()) {
            Some(mix) => Err(ProfileError::Figure(mix.name.clone())),
            None => Ok(file),
        }
    }

    /// Writes a file. Replaces an existing file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ProfileError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        Ok(fs::rename(&new, path)?)
    }

    /// The profile.
    pub fn profile(&self) -> TrafficProfile {
        let mixes = self.mixes.iter().map(|mix| Mix {
            name: mix.name.clone(),
            peak: mix.peak.into(),
            points: mix.points.iter().map(|point| (*point).into()).collect(),
        });
        TrafficProfile { mixes: mixes.collect() }
    }
}

impl From<&Mix> for MixEntry {
    fn from(mix: &Mix) -> Self {
        let points = mix.points.iter().map(|point| (*point).into()).collect();
        Self { name: mix.name.clone(), peak: mix.peak.into(), points }
    }
}

impl MixEntry {
    fn is_valid(&self) -> bool {
        self.points.iter().chain([&self.peak]).all(|point| {
            let Point { indicators, .. } = (*point).into();
            let figures = indicators.named().map(|(_, figure)| figure);
            let costs = [point.cpu_us_per_operation, point.p99_us];
            let is_number = |figure: &f64| figure.is_finite() && *figure >= 0.0;
            (1..=1024).contains(&point.active)
                && (0.0..=1e6).contains(&point.spin_us)
                && (0.0..=1e4).contains(&point.batch_delay_us)
                && figures.iter().chain(&costs).all(is_number)
        })
    }
}

impl From<Point> for PointEntry {
    fn from(Point { setting, indicators, measured }: Point) -> Self {
        Self {
            active: setting.active,
            spin_us: setting.spin_ns as f64 / 1e3,
            batch_delay_us: setting.coalesce_ns as f64 / 1e3,
            cpu_us_per_operation: measured.cost_ns / 1e3,
            p99_us: measured.p99_ns / 1e3,
            operations_per_second: indicators.operations_per_second,
            bytes_in_per_operation: indicators.bytes_in_per_operation,
            bytes_out_per_operation: indicators.bytes_out_per_operation,
            bytes_per_receive: indicators.bytes_per_receive,
            typical_bytes_per_send: indicators.typical_bytes_per_send,
            opens_per_operation: indicators.opens_per_operation,
            sockets: indicators.sockets,
        }
    }
}

impl From<PointEntry> for Point {
    fn from(entry: PointEntry) -> Self {
        let setting = Setting {
            active: entry.active,
            spin_ns: (entry.spin_us * 1e3) as u64,
            coalesce_ns: (entry.batch_delay_us * 1e3) as u64,
        };
        let indicators = Indicators {
            operations_per_second: entry.operations_per_second,
            bytes_in_per_operation: entry.bytes_in_per_operation,
            bytes_out_per_operation: entry.bytes_out_per_operation,
            bytes_per_receive: entry.bytes_per_receive,
            typical_bytes_per_send: entry.typical_bytes_per_send,
            opens_per_operation: entry.opens_per_operation,
            sockets: entry.sockets,
        };
        let measured =
            Measured { cost_ns: entry.cpu_us_per_operation * 1e3, p99_ns: entry.p99_us * 1e3 };
        Self { setting, indicators, measured }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> TrafficProfile {
        let point = |active, cost_ns| Point {
            setting: Setting { active, spin_ns: 20_000, coalesce_ns: 0 },
            indicators: Indicators { operations_per_second: 7.0, ..Indicators::default() },
            measured: Measured { cost_ns, p99_ns: 1_000_000.0 },
        };
        let mix = Mix { name: "a".into(), peak: point(4, 9e3), points: vec![point(1, 5e3)] };
        TrafficProfile { mixes: vec![mix] }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        ProfileFile::new(&profile(), "poll").write(&path).unwrap();
        let file = ProfileFile::read(&path).unwrap();
        assert_eq!(file.profile(), profile());
        assert_eq!(file.host, Fingerprint::detect());
        assert_eq!(file.differences(DriverKind::Poll), [""; 0]);
        assert_eq!(file.differences(DriverKind::Uring), ["driver \"poll\", here \"uring\""]);
        // Earlier versions did not record the driver.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"driver\": \"poll\",", "")).unwrap();
        assert_eq!(ProfileFile::read(&path).unwrap().differences(DriverKind::Uring), [""; 0]);
    }

    #[test]
    fn invalid_profiles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            ProfileFile::read(&path).unwrap_err().to_string()
        };
        assert!(ProfileFile::read(Path::new("/missing")).is_err());
        assert!(error("{}").contains("phalanx profile"));
        let valid = serde_json::to_string(&ProfileFile::new(&profile(), "poll")).unwrap();
        assert!(error(&valid.replace("\"version\":2", "\"version\":1")).contains("version 1"));
        assert!(error("{\"version\":3,\"new\":1}").contains("version 3"));
        let of = |mixes| {
            let mix = profile().mixes.remove(0);
            let profile = TrafficProfile { mixes: vec![mix; mixes] };
            serde_json::to_string(&ProfileFile::new(&profile, "poll")).unwrap()
        };
        assert!(error(&of(0)).contains("not 0") && error(&of(65)).contains("1 to 64"));
        assert!(error(&valid.replace("\"active\":1", "\"active\":0")).contains("mix \"a\""));
    }
}
