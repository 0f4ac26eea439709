//! A setting of a running program.

use std::fmt;
use std::str::FromStr;

/// The steps of polling and coalescing times between neighbouring settings, in nanoseconds.
const SPINS: [u64; 3] = [0, 20_000, 50_000];
const COALESCINGS: [u64; 4] = [0, 200_000, 500_000, 1_000_000];
/// The number of neighbours that [`Setting::neighbour`] distinguishes.
pub(super) const DIRECTIONS: usize = 6;
/// The maximum times accepted from text, in nanoseconds.
const MAX_SPIN: u64 = 1_000_000_000;
const MAX_COALESCING: u64 = 10_000_000;

/// A setting of a running program: the number of active processors and the limits of spinning and coalescing.
///
/// ```
/// use phalanx_core::Setting;
///
/// let setting: Setting = "active=2 spin=20000 coalesce=0".parse().unwrap();
/// assert_eq!(setting, Setting { active: 2, spin_ns: 20_000, coalesce_ns: 0 });
/// assert_eq!(setting.to_string().parse(), Ok(setting));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    /// The number of active processors, at least 1.
    pub active: usize,
    /// The maximum time for which an idle processor polls before it sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// The maximum time for which an idle processor waits to batch completions, in nanoseconds.
    pub coalesce_ns: u64,
}

impl Setting {
    /// The setting with one parameter changed by one step, in one of the [`DIRECTIONS`]. Returns `None` if there is no
    /// further step, or if the result has fewer than `min` or more than `max` active processors.
    pub(super) fn neighbour(self, direction: usize, min: usize, max: usize) -> Option<Self> {
        let above = |steps: &[u64], value| steps.iter().copied().find(|step| *step > value);
        let below = |steps: &[u64], value| steps.iter().copied().rfind(|step| *step < value);
        let active = |active| (min..=max).contains(&active).then_some(Self { active, ..self });
        let spin = |spin_ns| Self { spin_ns, ..self };
        let coalesce = |coalesce_ns| Self { coalesce_ns, ..self };
        match direction {
            0 => active(self.active.saturating_sub(1)),
            1 => above(&COALESCINGS, self.coalesce_ns).map(coalesce),
            2 => below(&SPINS, self.spin_ns).map(spin),
            3 => active(self.active + 1),
            4 => below(&COALESCINGS, self.coalesce_ns).map(coalesce),
            _ => above(&SPINS, self.spin_ns).map(spin),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { active, spin_ns, coalesce_ns } = self;
        write!(f, "active={active} spin={spin_ns} coalesce={coalesce_ns}")
    }
}

impl FromStr for Setting {
    type Err = String;

    /// Parses the output of [`Display`](fmt::Display). Times are in nanoseconds.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |name: &str, max: u64| {
            let mut parts = text.split_whitespace();
            let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            let number =
                value.and_then(|value| value.parse::<u64>().ok()).filter(|value| *value <= max);
            number.ok_or_else(|| {
                format!("{text:?} does not contain {name}=NUMBER with a number of at most {max}")
            })
        };
        let active = number("active", 1024)?.max(1) as usize;
        let spin_ns = number("spin", MAX_SPIN)?;
        Ok(Self { active, spin_ns, coalesce_ns: number("coalesce", MAX_COALESCING)? })
    }
}
