//! Options of automatic placement.

use phalanx_core::TrafficProfile;
use phalanx_driver::DriverKind;

use super::Runtime;
#[cfg(feature = "admin")]
use crate::diagnostics::report;
use crate::program::RunError;
use crate::scaling::{PlacementMode, Profiled};
#[cfg(feature = "admin")]
use crate::scaling::{ProfileError, ProfileFile};

impl Runtime {
    /// Sets whether the runtime adjusts the number of [active processors](super::ActiveProcessors) to their loads,
    /// between `min` and all. It adds processors within milliseconds if one is saturated, and removes processors when
    /// fewer have been enough for 4 s. The admin page `/placement.json` lists the last decisions. Off by default.
    ///
    /// New connections, and connections that the program [offers](crate::net::Stream::offer), are placed on active
    /// processors. Other connections stay on their processors.
    ///
    /// ```
    /// use phalanx::runtime::PlacementMode;
    /// use phalanx::{Graph, Runtime};
    ///
    /// let mut graph = Graph::new();
    /// let stage = graph.shared("stage", ());
    /// // Four processors, of which one to four are active.
    /// let runtime = Runtime::new().processors(4).placement(PlacementMode::On, 1);
    /// runtime.run(graph, move |start| {
    ///     start.control().drain();
    ///     stage.dispatch(|_| async {})?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), phalanx::runtime::RunError>(())
    /// ```
    #[must_use]
    pub fn placement(mut self, mode: PlacementMode, min: usize) -> Self {
        (self.placement, self.min_active) = (mode, min);
        self
    }

    /// Lets [automatic placement](Self::placement) choose the number of active processors, the spinning time and the
    /// coalescing limit from a file that `phalanx profile` has created. A line on stderr warns if the file was measured
    /// on another machine or kernel, or with another driver or number of processors.
    ///
    /// # Errors
    /// Running fails with [`RunError::Profile`] if the file cannot be read.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn profile(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.profile = Some(path.into());
        self
    }

    /// Allows `phalanx profile` to measure the program. If `phalanx profile` has started the program, the environment
    /// variable [`PROFILE_VARIABLE`](super::PROFILE_VARIABLE) overrides the address of the admin pages, the number of
    /// active processors, the spinning time and the coalescing limit. Automatic placement is then disabled, and the
    /// file of [`profile`](Self::profile) is not read.
    ///
    /// # Errors
    /// Running fails with [`RunError::Profile`] if the variable is malformed.
    #[must_use]
    pub fn profiled(mut self) -> Self {
        self.profiled = Profiled::of_environment();
        #[cfg(feature = "admin")]
        if let Some(Ok(profiled)) = &self.profiled {
            self.admin = Some(profiled.admin);
        }
        self
    }

    /// The setting that `phalanx profile` requests.
    pub(super) fn profiling_setting(&self) -> Result<Option<Profiled>, RunError> {
        let path = super::PROFILE_VARIABLE.to_owned();
        self.profiled.clone().transpose().map_err(|reason| RunError::Profile { path, reason })
    }

    /// Reads the profile, if there is one. Also returns the differences between this program, which uses `driver` on this
    /// machine, and the measured one.
    #[cfg(feature = "admin")]
    pub(super) fn read_profile(
        &self,
        driver: DriverKind,
    ) -> Result<Option<(TrafficProfile, Vec<String>)>, RunError> {
        let is_used = self.placement != PlacementMode::Off && self.profiled.is_none();
        let (Some(path), true) = (&self.profile, is_used) else { return Ok(None) };
        let path = path.display();
        let refused = |reason: ProfileError| RunError::Profile {
            path: path.to_string(),
            reason: reason.to_string(),
        };
        let file =
            ProfileFile::read(self.profile.as_deref().expect("matched above")).map_err(refused)?;
        let mut foreign = file.differences(driver);
        let profile = file.profile();
        foreign.extend(self.other_processors(&profile));
        if !foreign.is_empty() {
            let foreign = foreign.join("; ");
            report(format_args!(
                "the profile {path} was measured on another machine or kernel, or with another driver or other \
                 workers ({foreign}); measure it again here with `phalanx profile`"
            ));
        }
        Ok(Some((profile, foreign)))
    }

    /// A phrase with the number of processors with which the profile was measured, if it differs from that of this
    /// program.
    #[cfg(feature = "admin")]
    fn other_processors(&self, profile: &TrafficProfile) -> Option<String> {
        let peaks = profile.mixes.iter().map(|mix| mix.peak.setting.active);
        let other = peaks.max().filter(|peak| *peak != self.processors)?;
        Some(format!("{other} workers, here {}", self.processors))
    }

    #[cfg(not(feature = "admin"))]
    pub(super) fn read_profile(
        &self,
        _: DriverKind,
    ) -> Result<Option<(TrafficProfile, Vec<String>)>, RunError> {
        Ok(None)
    }
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use phalanx_core::{Mix, Point, Setting};

    use super::*;

    #[test]
    fn a_program_that_is_measured_again_does_not_read_its_old_profile() {
        let mut runtime = Runtime::new().placement(PlacementMode::On, 1).profile("/missing");
        assert!(runtime.read_profile(DriverKind::Poll).is_err());
        let admin = "127.0.0.1:9100".parse().unwrap();
        runtime.profiled = Some(Ok(Profiled { setting: None, admin }));
        assert!(runtime.read_profile(DriverKind::Poll).unwrap().is_none());
    }

    #[test]
    fn a_profile_of_another_driver_or_number_of_processors_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let setting = Setting { active: 2, spin_ns: 0, coalesce_ns: 0 };
        let (indicators, measured) = Default::default();
        let peak = Point { setting, indicators, measured };
        let mixes = vec![Mix { name: "a".into(), peak, points: Vec::new() }];
        ProfileFile::new(&TrafficProfile { mixes }, "poll").write(&path).unwrap();
        let foreign = |processors, driver| {
            let runtime = Runtime::new().processors(processors).placement(PlacementMode::On, 1);
            runtime.profile(&path).read_profile(driver).unwrap().unwrap().1
        };
        assert_eq!(foreign(2, DriverKind::Poll), [""; 0]);
        assert_eq!(foreign(3, DriverKind::Poll), ["2 workers, here 3"]);
        assert_eq!(foreign(2, DriverKind::Uring), ["driver \"poll\", here \"uring\""]);
    }
}
