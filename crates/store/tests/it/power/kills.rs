//! Kills: the page cache survives them, and a later power cut may lose what was not synced in the previous life.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use phalanx::sim;
use phalanx_store::{OpenError, Recovered, Source, Store, recover};

use crate::power::model::Model;
use crate::power::{Files, Life, agrees, live, of, options};

/// A disk after a kill.
struct AfterKill {
    /// The content of the page cache.
    cached: Files,
    /// The part that would survive a power cut.
    durable: Mutex<Files>,
}

impl Source for AfterKill {
    fn names(&self) -> io::Result<Vec<String>> {
        self.cached.names()
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.cached.read(name, limit)
    }

    fn write_again(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        let range = at..at + bytes.len();
        assert_eq!(&self.cached[name][range.clone()], bytes);
        let mut durable = self.durable.lock().unwrap();
        let file = durable.entry(name.to_owned()).or_default();
        file.resize(file.len().max(range.end), 0);
        file[range].copy_from_slice(bytes);
        Ok(())
    }
}

impl AfterKill {
    /// The files after a power cut at the end of the next life, which left the files `left`. A life never writes to
    /// earlier segments.
    fn after(self, mut left: Files) -> Files {
        let durable = self.durable.into_inner().unwrap();
        for name in self.cached.keys().filter(|name| name.ends_with(".journal")) {
            if left.remove(name).is_some()
                && let Some(bytes) = durable.get(name)
            {
                left.insert(name.clone(), bytes.clone());
            }
        }
        left
    }
}

fn check(seed: u64, life: &Life, recovered: Result<Recovered, OpenError>) -> Recovered {
    let recovered = recovered.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    for (user, (begin, results)) in life.begin.iter().zip(&life.results).enumerate() {
        let found = Model::recovered(&recovered, of(user));
        assert!(agrees(begin, &results.borrow(), &found), "seed {seed}, user {user}: {found:#?}");
    }
    recovered
}

#[test]
fn acknowledged_entries_survive_a_power_cut_after_a_kill() {
    let unsynced = Cell::new(0);
    sim::explore_each(20, |seed| {
        let (options, path) = (options(seed), Path::new("/"));
        let mut files = Files::new();
        for round in 0..2 {
            let recovered = recover(&files, path).unwrap();
            let source = files.clone();
            let killed = live(seed * 4 + 2 * round, files, &recovered, None, |root| {
                Store::open_in(&source, root, path, options).unwrap().0
            });
            let recovered = check(seed, &killed, recover(&killed.cached, path));
            unsynced.set(
                unsynced.get() + usize::from(recover(&killed.left, path).unwrap() != recovered),
            );
            let Life { left, cached, .. } = killed;
            let source = AfterKill { cached: cached.clone(), durable: Mutex::new(left) };
            let cut = live(seed * 4 + 2 * round + 1, cached, &recovered, None, |root| {
                Store::open_in(&source, root, path, options).unwrap().0
            });
            files = source.after(cut.left.clone());
            check(seed, &cut, recover(&files, path));
        }
    });
    // The test reached the intended situation.
    assert!(unsynced.get() > 0);
}
