//! The choice of access predicates: greedy, by estimated cost.
//!
//! An event pays one probe per schema and one check per subscription found there. A pair of attributes finds
//! fewer subscriptions than either attribute alone, but there are many pairs. The choice starts with no
//! schema, adds the one that saves most on a sample of subscriptions, and ends when no schema saves its own
//! cost. It proceeds in rounds, so that a caller with little time can run one round per call.

use std::collections::HashMap;

use crate::index::code::coded::Coded;
use crate::index::code::hashing::BuildMixHasher;
use crate::index::code::residual::Residual;
use crate::index::rows::statistics::Statistics;

/// Nanoseconds to look a key up and to visit its cluster.
const PROBE: f64 = 40.0;
/// Nanoseconds to check one subscription among 64.
const CHECK: f64 = 0.04;
/// Nanoseconds to check one subscription alone, as for codes wider than a byte.
const LOOSE_CHECK: f64 = 5.0;
/// Number of subscriptions up to which most have a unique shape and are checked alone.
const SMALL_INDEX: usize = 1024;
/// Maximum number of schemas chosen.
const SCHEMAS: usize = 96;
/// Maximum number of equalities in a subscription for which pairs are considered.
const EQUALS: usize = 16;
/// Maximum number of choices in the sample; it keeps a round at a few hundred microseconds.
const CHOICES: usize = 64 * 1024;

/// A choice in progress.
#[derive(Debug)]
pub(crate) struct Advice {
    subscriptions: usize,
    multiple: bool,
    numbers: HashMap<u128, u32, BuildMixHasher>,
    schemas: Vec<Vec<u32>>,
    /// The candidates of all sampled subscriptions, concatenated: a schema that could hold the subscription,
    /// and the likelihood that an event finds it there.
    choices: Vec<(u32, f64)>,
    sample: Vec<SampledRow>,
    chosen: Vec<u32>,
}

/// A subscription of the sample.
#[derive(Debug)]
struct SampledRow {
    /// End of its candidates in `choices`.
    end: usize,
    /// Nanoseconds to check it.
    check: f64,
    /// Likelihood that an event finds it under the schemas chosen so far.
    best: f64,
}

impl Advice {
    /// Starts a choice for this number of subscriptions; `multiple` allows schemas of two attributes.
    pub(crate) fn new(subscriptions: usize, multiple: bool) -> Advice {
        Advice {
            subscriptions,
            multiple,
            numbers: HashMap::default(),
            schemas: Vec::new(),
            choices: Vec::new(),
            sample: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Whether the sample is full.
    pub(crate) fn is_full(&self) -> bool {
        self.choices.len() >= CHOICES
    }

    /// Number of candidates a round examines.
    pub(crate) fn size(&self) -> usize {
        self.choices.len()
    }

    /// Adds a subscription to the sample.
    pub(crate) fn offer(&mut self, coded: &Coded, statistics: &Statistics) {
        let equals = &coded.equals;
        let likelihoods: Vec<(u32, f64)> =
            equals.iter().map(|(slot, id)| (*slot, statistics.likelihood(*slot, *id))).collect();
        for (at, &(slot, p)) in likelihoods.iter().enumerate() {
            self.choice(&[slot], p);
            if !self.multiple || likelihoods.len() > EQUALS {
                continue;
            }
            for &(other, q) in &likelihoods[at + 1..] {
                self.choice(&[slot.min(other), slot.max(other)], p * q);
            }
        }
        let wide = |residual: &Residual| matches!(residual, Residual::Wide { .. });
        let wide_equality =
            |(slot, id): &(u32, u32)| wide(&crate::index::code::coded::equality(*slot, *id));
        let is_loose = self.subscriptions <= SMALL_INDEX
            || equals.iter().any(wide_equality)
            || coded.rest.iter().any(wide);
        let check = if is_loose { LOOSE_CHECK } else { CHECK };
        self.sample.push(SampledRow { end: self.choices.len(), check, best: 1.0 });
    }

    fn choice(&mut self, slots: &[u32], likelihood: f64) {
        let key = slots.iter().fold(1u128, |key, slot| key << 32 | u128::from(*slot));
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.schemas.push(slots.to_vec());
            self.schemas.len() as u32 - 1
        });
        self.choices.push((number, likelihood));
    }

    /// Chooses one more schema; returns false if none saves its cost.
    pub(crate) fn choose_one(&mut self) -> bool {
        if self.chosen.len() == SCHEMAS {
            return false;
        }
        let each = self.subscriptions as f64 / self.sample.len().max(1) as f64;
        let mut saves = vec![-PROBE; self.schemas.len()];
        let mut from = 0;
        for SampledRow { end, check, best } in &self.sample {
            for (schema, likelihood) in &self.choices[from..*end] {
                saves[*schema as usize] += each * check * f64::max(0.0, best - likelihood);
            }
            from = *end;
        }
        let best_schema = (0..saves.len()).max_by(|a, b| saves[*a].total_cmp(&saves[*b]));
        let Some(best_schema) = best_schema.filter(|schema| saves[*schema] > 0.0) else {
            return false;
        };
        let best_schema = best_schema as u32;
        let mut from = 0;
        for SampledRow { end, best, .. } in &mut self.sample {
            let own = self.choices[from..*end].iter().find(|(schema, _)| *schema == best_schema);
            *best = own.map_or(*best, |(_, likelihood)| f64::min(*best, *likelihood));
            from = *end;
        }
        self.chosen.push(best_schema);
        true
    }

    /// The slots of the chosen schemas, without those that a later choice made useless.
    pub(crate) fn chosen(mut self) -> Vec<Vec<u32>> {
        let mut is_chosen = vec![false; self.schemas.len()];
        self.chosen.iter().for_each(|schema| is_chosen[*schema as usize] = true);
        let mut is_used = vec![false; self.schemas.len()];
        let mut from = 0;
        for SampledRow { end, .. } in &self.sample {
            let own = self.choices[from..*end].iter();
            let own = own.filter(|(schema, _)| is_chosen[*schema as usize]);
            if let Some((schema, _)) = own.min_by(|a, b| a.1.total_cmp(&b.1)) {
                is_used[*schema as usize] = true;
            }
            from = *end;
        }
        self.chosen.retain(|schema| is_used[*schema as usize]);
        let schemas = &mut self.schemas;
        self.chosen.iter().map(|schema| std::mem::take(&mut schemas[*schema as usize])).collect()
    }
}
