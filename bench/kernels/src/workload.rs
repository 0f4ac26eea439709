//! The workloads W0 to W5: filters and events generated from a seed.
//!
//! W0 is that of Fabret et al. (2001). The 2002 paper used "the Fabret workload" (§5.2) and gives no other
//! parameter than its size. The other workloads vary the properties that matter to an index: fixed attributes,
//! intervals, skew. All have 32 attributes, and an event has all of them.

use std::fmt::Write;

use clap::ValueEnum;
use fastrand::Rng;
use phalanx_matcher::{Attribute, Event, Filter, Snapshot, Value};

/// Distribution of filters and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum Workload {
    /// 5 equalities, 2 of them on fixed attributes, 35 values
    W0,
    /// 5 equalities on any attributes, 35 values
    W1,
    /// 2 equalities, one on a fixed attribute, and 3 one-sided ranges, 35 values
    W2,
    /// 5 intervals of 6 to 14 % of 250 values, no equality
    W3,
    /// W0 with Zipf-distributed values in filters and events
    W4,
    /// An equality on a fixed attribute of 200 values and 4 intervals of 25 to 35 % of 250
    W5,
}

const ATTRIBUTES: usize = 32;

/// Generator of filters and events.
pub struct Generator {
    workload: Workload,
    rng: Rng,
    /// Cumulative weights of 35 values.
    zipf: Vec<f64>,
    text: String,
}

impl Generator {
    /// A generator that repeats itself with the same seed.
    pub fn new(workload: Workload, seed: u64) -> Generator {
        let mut sum = 0.0;
        let zipf = (1..=35).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Generator { workload, rng: Rng::with_seed(seed), zipf: zipf.collect(), text: String::new() }
    }

    /// One of 35 values.
    fn value(&mut self) -> i64 {
        if self.workload != Workload::W4 {
            return self.rng.i64(1..=35);
        }
        let at = self.rng.f64() * self.zipf[34];
        1 + self.zipf.partition_point(|sum| *sum <= at).min(34) as i64
    }

    /// `count` distinct attributes from `from` on.
    fn attributes(&mut self, from: usize, count: usize) -> Vec<usize> {
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count {
            let attribute = self.rng.usize(from..ATTRIBUTES);
            if !chosen.contains(&attribute) {
                chosen.push(attribute);
            }
        }
        chosen
    }

    fn condition(&mut self, attribute: usize, operator: &str, value: i64) {
        let and = if self.text.is_empty() { "" } else { " AND " };
        let _ = write!(self.text, "{and}a{attribute} {operator} {value}");
    }

    fn equality(&mut self, attribute: usize) {
        let value = self.value();
        self.condition(attribute, "=", value);
    }

    /// An interval of `from` to `to` percent of 250 values.
    fn interval(&mut self, attribute: usize, from: i64, to: i64) {
        let width = 250 * self.rng.i64(from..=to) / 100;
        let low = self.rng.i64(0..=250 - width);
        self.condition(attribute, ">=", low);
        self.condition(attribute, "<", low + width);
    }

    /// The text of the next filter.
    pub fn text(&mut self) -> &str {
        self.text.clear();
        match self.workload {
            Workload::W0 | Workload::W4 => {
                self.equality(0);
                self.equality(1);
                self.attributes(2, 3).into_iter().for_each(|at| self.equality(at));
            }
            Workload::W1 => self.attributes(0, 5).into_iter().for_each(|at| self.equality(at)),
            Workload::W2 => {
                self.equality(0);
                let chosen = self.attributes(1, 4);
                self.equality(chosen[0]);
                for attribute in &chosen[1..] {
                    let operator = if self.rng.bool() { "<=" } else { ">=" };
                    let value = self.value();
                    self.condition(*attribute, operator, value);
                }
            }
            Workload::W3 => {
                self.attributes(0, 5).into_iter().for_each(|at| self.interval(at, 6, 14));
            }
            Workload::W5 => {
                let symbol = self.rng.i64(0..200);
                self.condition(0, "=", symbol);
                self.attributes(1, 4).into_iter().for_each(|at| self.interval(at, 25, 35));
            }
        }
        &self.text
    }

    /// The next filter.
    pub fn filter(&mut self) -> Filter {
        Filter::parse(self.text()).expect("generated filters are valid")
    }

    /// The values of the next event.
    pub fn values(&mut self) -> [i64; ATTRIBUTES] {
        std::array::from_fn(|attribute| match self.workload {
            Workload::W3 => self.rng.i64(0..250),
            Workload::W5 if attribute == 0 => self.rng.i64(0..200),
            Workload::W5 => self.rng.i64(0..250),
            _ => self.value(),
        })
    }
}

/// The attributes of a snapshot, by number.
pub fn attributes(snapshot: &Snapshot) -> Vec<Option<Attribute>> {
    (0..ATTRIBUTES).map(|at| snapshot.attribute(&format!("a{at}"))).collect()
}

/// Codes an event.
pub fn code(
    snapshot: &Snapshot,
    attributes: &[Option<Attribute>],
    values: &[i64; ATTRIBUTES],
) -> Event {
    let known = attributes.iter().zip(values);
    snapshot.event_of(known.filter_map(|(at, value)| Some(((*at)?, Value::from(*value)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_their_workload_and_seed() {
        for workload in Workload::value_variants() {
            let texts = |seed| {
                let mut generator = Generator::new(*workload, seed);
                (0..50).map(|_| generator.text().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(texts(42), texts(42));
            assert_ne!(texts(42), texts(43));
            for text in texts(42) {
                assert_eq!(Filter::parse(&text).unwrap().alternatives(), 1, "{text}");
                let equalities = text.matches(" = ").count();
                let wanted = match workload {
                    Workload::W0 | Workload::W1 | Workload::W4 => 5,
                    Workload::W2 => 2,
                    Workload::W3 => 0,
                    Workload::W5 => 1,
                };
                assert_eq!(equalities, wanted, "{text}");
            }
        }
    }
}
