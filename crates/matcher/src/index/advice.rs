//! Which access predicates are worth having: a greedy choice by cost.
//!
//! An event costs a probe for each schema, and a check for each subscription that it finds there. A pair of
//! attributes finds fewer than each of the two, but there are many pairs. So the choice begins with no schema,
//! adds the one that saves most on a sample of subscriptions, and ends when none saves what it costs.

use std::collections::HashMap;

use super::hashing::Mixing;
use super::statistics::Statistics;

/// Nanoseconds to look a key up and to visit its cluster.
const PROBE: f64 = 40.0;
/// Nanoseconds to check one subscription among 64.
const CHECK: f64 = 0.04;
/// The most schemas that are chosen.
const SCHEMAS: usize = 96;
/// Pairs are looked at for subscriptions of at most so many equalities.
const EQUALS: usize = 16;

/// The slots of the schemas worth having for so many subscriptions, of which `sample` are the equalities
/// of some.
pub(crate) fn advise(
    sample: &[Vec<(u32, u32)>],
    subscriptions: usize,
    statistics: &Statistics,
    multiple: bool,
) -> Vec<Vec<u32>> {
    let mut numbers: HashMap<u128, usize, Mixing> = HashMap::default();
    let mut schemas: Vec<Vec<u32>> = Vec::new();
    // For each subscription the schemas that could hold it, and how likely an event finds it there.
    let mut choices: Vec<Vec<(usize, f64)>> = Vec::new();
    for equals in sample {
        let mut of_this = Vec::new();
        let mut offer = |slots: Vec<u32>, likelihood: f64| {
            let key = slots.iter().fold(1u128, |key, slot| key << 32 | u128::from(*slot));
            let number = *numbers.entry(key).or_insert_with(|| {
                schemas.push(slots);
                schemas.len() - 1
            });
            of_this.push((number, likelihood));
        };
        let likely: Vec<(u32, f64)> =
            equals.iter().map(|(slot, id)| (*slot, statistics.likelihood(*slot, *id))).collect();
        for (at, &(slot, p)) in likely.iter().enumerate() {
            offer(vec![slot], p);
            if !multiple || likely.len() > EQUALS {
                continue;
            }
            for &(other, q) in &likely[at + 1..] {
                offer(vec![slot.min(other), slot.max(other)], p * q);
            }
        }
        choices.push(of_this);
    }
    let each = CHECK * subscriptions as f64 / sample.len().max(1) as f64;
    let mut best = vec![1.0; sample.len()];
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < SCHEMAS {
        let mut saves = vec![-PROBE; schemas.len()];
        for (choices, best) in choices.iter().zip(&best) {
            for (schema, likelihood) in choices {
                saves[*schema] += each * f64::max(0.0, best - likelihood);
            }
        }
        let most = (0..saves.len()).max_by(|a, b| saves[*a].total_cmp(&saves[*b]));
        let Some(most) = most.filter(|most| saves[*most] > 0.0) else { break };
        for (choices, best) in choices.iter().zip(&mut best) {
            for (_, likelihood) in choices.iter().filter(|(schema, _)| *schema == most) {
                *best = f64::min(*best, *likelihood);
            }
        }
        chosen.push(most);
    }
    // What another one has made useless goes again.
    let mut used = vec![false; schemas.len()];
    for choices in &choices {
        let here = choices.iter().filter(|(schema, _)| chosen.contains(schema));
        if let Some((schema, _)) = here.min_by(|a, b| a.1.total_cmp(&b.1)) {
            used[*schema] = true;
        }
    }
    chosen.retain(|schema| used[*schema]);
    chosen.into_iter().map(|schema| std::mem::take(&mut schemas[schema])).collect()
}
