//! The crate a-tree as a peer of our matcher; started by `phalanx-bench match --a-tree
//! target/release/phalanx-peer-a-tree`.
//!
//! Standard input contains the numbers of filters and events, the filters, one per line, and the events' values
//! of the attributes `a0` to `a31`, one event per line. The output is a line of JSON: speed of insertion, speed
//! of matching the events one by one, number of matches, and memory of the filters.

use std::io::{self, BufRead};
use std::time::Instant;

use a_tree::{ATree, AttributeDefinition};

const ATTRIBUTES: usize = 32;

fn main() -> io::Result<()> {
    let names: Vec<String> = (0..ATTRIBUTES).map(|at| format!("a{at}")).collect();
    let definitions: Vec<_> = names.iter().map(|name| AttributeDefinition::integer(name)).collect();
    let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut tree: ATree<u64> =
        ATree::new(&definitions).map_err(|error| wrong(format!("{error:?}")))?;
    let mut lines = io::stdin().lock().lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(wrong("it ends early".to_owned())));
    let head = line()?;
    let counts: Option<Vec<usize>> = head.split(' ').map(|word| word.parse().ok()).collect();
    let Some([filters, events]) = counts.as_deref() else {
        return Err(wrong(format!("two numbers, and not {head}")));
    };
    let texts: Vec<String> = (0..*filters).map(|_| line()).collect::<Result<_, _>>()?;
    let before = resident();
    let start = Instant::now();
    for (id, text) in texts.iter().enumerate() {
        tree.insert(&(id as u64), text).map_err(|error| wrong(format!("{text}: {error:?}")))?;
    }
    let insert_per_s = *filters as f64 / start.elapsed().as_secs_f64();
    let bytes = resident().saturating_sub(before);
    let mut built = Vec::with_capacity(*events);
    for _ in 0..*events {
        let mut event = tree.make_event();
        for (name, value) in names.iter().zip(line()?.split(' ')) {
            let value = value.parse().map_err(|error| wrong(format!("{value}: {error}")))?;
            event.with_integer(name, value).map_err(|error| wrong(format!("{error:?}")))?;
        }
        built.push(event.build().map_err(|error| wrong(format!("{error:?}")))?);
    }
    let (mut matches, mut done) = (0, 0);
    let start = Instant::now();
    // Half a second is enough at any speed.
    for event in &built {
        let found = tree.search(event).map_err(|error| wrong(format!("{error:?}")))?;
        matches += found.matches().len();
        done += 1;
        if start.elapsed().as_millis() > 500 {
            break;
        }
    }
    let events_per_s = done as f64 / start.elapsed().as_secs_f64();
    println!(
        "{{\"insert_per_s\":{insert_per_s:.1},\"events_per_s\":{events_per_s:.1},\"events\":{done},\
         \"matches\":{matches},\"bytes\":{bytes}}}"
    );
    Ok(())
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
