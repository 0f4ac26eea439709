//! Profiles, which record the settings of a program that suit each kind of traffic.
//!
//! A *setting* is a number of active processors and the limits of spinning and coalescing. *Indicators* describe the
//! traffic. For each measured *mix* of traffic, a *profile* lists the settings that are worth choosing: those for which
//! no other setting has both less CPU time and a lower 99th percentile. The [`Guide`] uses the profile to choose a
//! setting while the program runs, and corrects the profile by comparisons.
//!
//! The idea is from NewtOS (Hruby et al., SFMA 2013): measure the expected loads in advance, and at run time use the
//! setting that was best for the load with the nearest indicators. The paper specifies no control law; this one is
//! Phalanx's.
//!
//! | file | content |
//! |---|---|
//! | `setting` | a setting, its text, and its neighbours |
//! | `indicators` | the indicators and their distance |
//! | `mixes` | the measured mixes, their Pareto sets, and the choice from them |
//! | `sample` | the observations of one interval |
//! | `quiet` | too little traffic to compare costs |
//! | `trial` | one comparison of two settings, A-B-A |
//! | `guide` | the law |
//! | `reason` | the reasons for its decisions |

mod guide;
mod indicators;
mod mixes;
mod quiet;
mod reason;
mod sample;
mod setting;
mod trial;

pub use self::guide::{Guide, GuideStep, MAX_MIXES};
pub use self::indicators::Indicators;
pub use self::mixes::{Measured, Mix, Point, TrafficProfile, pareto};
pub use self::reason::GuideReason;
pub use self::sample::Sample;
pub use self::setting::Setting;

#[cfg(all(test, not(loom)))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
