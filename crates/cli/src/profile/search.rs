//! Which settings are measured, and how often.

use std::ffi::OsString;
use std::time::Duration;

use phalanx::runtime::{Indicators, Measured, Mix, Point, Setting, TrafficProfile, pareto};

use super::program::{Program, Sample};
use super::progress::Progress;

/// The coalescing times to measure in addition to the program's default.
const COALESCE: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(1)];

/// The values of each part of the settings to measure; an empty list means the usual ones.
pub(super) struct SettingValues {
    pub(super) active: Vec<usize>,
    pub(super) spin: Vec<Duration>,
    pub(super) coalesce: Vec<Duration>,
}

impl SettingValues {
    /// All combinations, the peak first.
    ///
    /// # Errors
    /// If the program does not have that many processors.
    fn settings(&self, peak: Setting) -> Result<Vec<Setting>, String> {
        let range = 1..=peak.active;
        if let Some(active) = self.active.iter().find(|active| !range.contains(active)) {
            return Err(format!(
                "--active {active} is out of range: the program has 1 to {} processors",
                peak.active
            ));
        }
        let nanos = |times: &[Duration]| -> Vec<u64> {
            times.iter().map(|time| time.as_nanos() as u64).collect()
        };
        let powers = std::iter::successors(Some(1), |active| Some(2 * active));
        let default_active = powers.take_while(|active| *active < peak.active).chain([peak.active]);
        let active =
            if self.active.is_empty() { default_active.collect() } else { self.active.clone() };
        let spin = match &self.spin[..] {
            [] => vec![0, peak.spin_ns],
            given => nanos(given),
        };
        let coalesce = match &self.coalesce[..] {
            [] => [vec![peak.coalesce_ns], nanos(&COALESCE)].concat(),
            values => nanos(values),
        };
        let mut settings = vec![peak];
        for active in active {
            for &spin_ns in &spin {
                for &coalesce_ns in &coalesce {
                    let setting = Setting { active, spin_ns, coalesce_ns };
                    if !settings.contains(&setting) {
                        settings.push(setting);
                    }
                }
            }
        }
        Ok(settings)
    }
}

/// A setting with its measurements, one for each round.
struct Candidate {
    setting: Setting,
    samples: Vec<Sample>,
}

impl Candidate {
    /// The medians of all rounds.
    fn point(&self) -> Point {
        let median = |figure: &dyn Fn(&Sample) -> f64| {
            let mut values: Vec<f64> = self.samples.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            match values.len() % 2 {
                0 => f64::midpoint(values[middle - 1], values[middle]),
                _ => values[middle],
            }
        };
        let indicator = |get: fn(&Indicators) -> f64| median(&|sample| get(&sample.indicators));
        Point {
            setting: self.setting,
            indicators: Indicators {
                operations_per_second: indicator(|indicators| indicators.operations_per_second),
                bytes_in_per_operation: indicator(|indicators| indicators.bytes_in_per_operation),
                bytes_out_per_operation: indicator(|indicators| indicators.bytes_out_per_operation),
                bytes_per_receive: indicator(|indicators| indicators.bytes_per_receive),
                typical_bytes_per_send: indicator(|indicators| indicators.typical_bytes_per_send),
                opens_per_operation: indicator(|indicators| indicators.opens_per_operation),
                sockets: indicator(|indicators| indicators.sockets),
            },
            measured: Measured {
                cost_ns: median(&|sample| sample.measured.cost_ns),
                p99_ns: median(&|sample| sample.measured.p99_ns),
            },
        }
    }
}

/// Keeps the first candidate, the Pareto set, and the cheapest of the others. At most half remain, unless the Pareto
/// set is larger.
fn halve(candidates: &mut Vec<Candidate>) {
    let points: Vec<Point> = candidates.iter().map(Candidate::point).collect();
    let best = pareto(&points);
    let is_best = |setting| best.iter().any(|point| point.setting == setting);
    let peak = candidates[0].setting;
    let half = candidates.len().div_ceil(2);
    candidates.sort_by(|a, b| {
        let rank = |candidate: &Candidate| (candidate.setting != peak, !is_best(candidate.setting));
        let cost = |candidate: &Candidate| candidate.point().measured.cost_ns;
        rank(a).cmp(&rank(b)).then(cost(a).total_cmp(&cost(b)))
    });
    let best = candidates
        .iter()
        .filter(|candidate| candidate.setting == peak || is_best(candidate.setting))
        .count();
    candidates.truncate(half.max(best));
}

/// A load of the user.
pub(super) struct Load<'a> {
    /// The name of its mix.
    pub(super) name: String,
    pub(super) command: &'a str,
}

/// A measurement of all loads.
pub(super) struct Search<'a> {
    pub(super) program: &'a [OsString],
    pub(super) loads: &'a [Load<'a>],
    pub(super) rounds: u32,
    pub(super) start_timeout: Duration,
}

impl Search<'_> {
    /// # Errors
    /// If the program or a load fails.
    pub(super) fn run(&self, values: &SettingValues) -> Result<(TrafficProfile, String), String> {
        let probe =
            || self.start(None).and_then(|program| Ok((program.setting()?, program.driver()?)));
        let (peak, driver) = with_retry(probe, |_| ())?;
        let settings = values.settings(peak)?;
        let round_sizes =
            std::iter::successors(Some(settings.len()), |count| Some(count.div_ceil(2)));
        let total: usize = round_sizes.take(self.rounds as usize).sum();
        let progress = Progress::new(total * self.loads.len());
        let mixes = self.loads.iter().map(|load| self.mix(load, &settings, &progress));
        Ok((TrafficProfile { mixes: mixes.collect::<Result<_, _>>()? }, driver))
    }

    fn start(&self, setting: Option<Setting>) -> Result<Program, String> {
        Program::start(self.program, setting, self.start_timeout)
    }

    fn mix(
        &self,
        load: &Load<'_>,
        settings: &[Setting],
        progress: &Progress,
    ) -> Result<Mix, String> {
        let name = load.name.clone();
        let mut candidates: Vec<_> =
            settings.iter().map(|&setting| Candidate { setting, samples: Vec::new() }).collect();
        for round in 0..self.rounds {
            if round > 0 {
                halve(&mut candidates);
            }
            // Every other round goes backwards, so that drift of the machine favours no candidate.
            let mut order: Vec<usize> = (0..candidates.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                let setting = candidates[index].setting;
                progress.start_run(&format!("{name}, {setting}"));
                let sample = with_retry(
                    || self.start(Some(setting))?.measure(load.command),
                    |reason| progress.warn(&format!("{reason}\nrepeating this run")),
                )?;
                if round == 0 && setting == settings[0] && !sample.has_printed_p99 {
                    progress.warn(&format!(
                        "the load of mix {name:?} prints no p99 (wrk needs --latency); that of the waits in the \
                         program is used, which do not contain the network"
                    ));
                }
                candidates[index].samples.push(sample);
                progress.finish_run();
            }
        }
        let points: Vec<Point> = candidates.iter().map(Candidate::point).collect();
        Ok(Mix { name, peak: points[0], points: pareto(&points) })
    }
}

/// Runs `run`, and repeats it once if it fails, so that earlier measurements are not lost. A load may fail by chance,
/// or another process may take the port of the admin pages before the program does.
fn with_retry<T>(
    mut run: impl FnMut() -> Result<T, String>,
    warn: impl FnOnce(&str),
) -> Result<T, String> {
    run().or_else(|reason| {
        warn(&reason);
        run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEAK: Setting = Setting { active: 6, spin_ns: 20_000, coalesce_ns: 0 };

    #[test]
    fn all_combinations_are_measured() {
        let values = SettingValues { active: Vec::new(), spin: Vec::new(), coalesce: Vec::new() };
        let settings = values.settings(PEAK).unwrap();
        assert_eq!((settings[0], settings.len()), (PEAK, 4 * 2 * 3));
        let spin = vec![Duration::from_micros(5)];
        let mut values = SettingValues { active: vec![2], spin, coalesce: vec![Duration::ZERO] };
        let given = Setting { active: 2, spin_ns: 5_000, coalesce_ns: 0 };
        assert_eq!(values.settings(PEAK).unwrap(), [PEAK, given]);
        values.active.push(9);
        assert!(values.settings(PEAK).unwrap_err().contains("--active 9"));
    }

    #[test]
    fn the_worse_half_is_left_out() {
        let candidate = |active, cost_ns, p99_ns| {
            let sample = Sample {
                indicators: Indicators::default(),
                measured: Measured { cost_ns, p99_ns },
                has_printed_p99: true,
            };
            Candidate { setting: Setting { active, ..PEAK }, samples: vec![sample] }
        };
        let mut candidates = vec![
            candidate(6, 9.0, 9.0),
            candidate(1, 5.0, 8.0),
            candidate(2, 6.0, 8.5),
            candidate(3, 7.0, 4.0),
            candidate(4, 8.0, 8.6),
            candidate(5, 8.5, 8.7),
        ];
        halve(&mut candidates);
        let left: Vec<_> = candidates.iter().map(|of| of.setting.active).collect();
        assert_eq!(left, [6, 1, 3]);
    }
}
