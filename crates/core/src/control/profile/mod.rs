//! Profiles: which setting of a program suits which traffic.
//!
//! A *setting* is a number of active processors, and the limits of spinning and of coalescing. *Indicators* describe the
//! traffic. A *profile* lists, for each *mix* of traffic that was measured, the settings that are worth choosing: those
//! for which no other setting takes less processor time with a lower 99th percentile. The [`Guide`] chooses by it while
//! the program runs, and corrects it by comparisons.
//!
//! The idea is that of NewtOS (Hruby et al., SFMA 2013): measure expected loads, and pick by indicators what was best
//! for the nearest. The paper states no law; the one here is ours.
//!
//! | file | content |
//! |---|---|
//! | `setting` | a setting, its text, and its neighbours |
//! | `indicators` | the indicators and their distance |
//! | `mixes` | the measured mixes, their Pareto sets, and the choice from them |
//! | `quiet` | too little traffic to compare costs |
//! | `trial` | one comparison of two settings, A-B-A |
//! | `guide` | the law |

mod guide;
mod indicators;
mod mixes;
mod quiet;
mod setting;
mod trial;

pub use self::guide::{Guide, GuideReason, GuideStep, MAX_MIXES, Sample};
pub use self::indicators::Indicators;
pub use self::mixes::{Measured, Mix, Point, TrafficProfile, pareto};
pub use self::setting::Setting;

#[cfg(all(test, not(loom)))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
