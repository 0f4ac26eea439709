//! The cores that the processors' threads use, and the number of active processors.

mod active;
mod housekeeping;
mod idle_cores;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod seats;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod topology;

pub use self::active::ActiveProcessors;
#[cfg(feature = "admin")]
pub(crate) use self::housekeeping::has_slow_cores;
pub(crate) use self::housekeeping::keep_to_slow_cores;
pub use self::housekeeping::use_slow_cores;
pub(crate) use self::idle_cores::IdleCores;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use self::seats::Seats;

/// Does nothing: this system has no such calls.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) struct Seats;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Seats {
    pub(crate) fn new(_processors: usize, _pin: bool) -> Self {
        Self
    }

    pub(crate) fn cores(&self, _active: usize) -> &[usize] {
        &[]
    }

    pub(crate) fn enter(&self, _processor: usize, _active: impl Fn() -> usize) {}

    pub(crate) fn leave(&self, _processor: usize) {}

    pub(crate) fn assign(&self, _active: impl Fn() -> usize) {}
}
