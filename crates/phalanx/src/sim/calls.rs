//! The calls observed in many runs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::{World, run};

/// Simulates with these seeds, and returns the sorted list of [declared calls](crate::Graph::calls) that occurred in no
/// run. Each run also checks the converse, that no stage makes a call that it does not declare.
///
/// # Panics
/// Like [`run`], for the first seed that fails.
pub fn unobserved_calls(seeds: Range<u64>, build: impl Fn(&mut World)) -> Vec<String> {
    let sets = Rc::<RefCell<[BTreeSet<String>; 2]>>::default();
    for seed in seeds {
        let sets = sets.clone();
        run(seed, |world| {
            build(world);
            world.calls = Some(Box::new(move |calls| {
                let (all, without) = (calls.declared(), calls.unobserved_calls());
                let [declared, observed] = &mut *sets.borrow_mut();
                observed.extend(all.iter().filter(|call| !without.contains(call)).cloned());
                declared.extend(all);
            }));
        });
    }
    let [declared, observed] = &*sets.borrow();
    declared.difference(observed).cloned().collect()
}
