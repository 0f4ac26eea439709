//! A store in simulation, on a disk that gets full, fails and writes in pieces. After a power cut at any moment, and
//! after a second one, the recovered content consists of all acknowledged entries and a prefix of those with an unknown
//! result, in order, and contains no refused entry.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use phalanx::Graph;
use phalanx::fs::Dir;
use phalanx::shutdown::is_draining;
use phalanx::sim::{self, Faults};
use phalanx_store::{AppendError, Entry, MakeMirror, Options, Record, Recovered, Store, recover};

use client::{AppendOutcome, User};
use copies::{Copies, Stored, batches};
use model::Model;

mod behind;
mod client;
mod copies;
mod kills;
mod model;

const USERS: u64 = 3;

/// The files on a disk.
type Files = BTreeMap<String, Vec<u8>>;

/// A user's appends in order, with their results.
type Results = Rc<RefCell<Vec<(Entry, AppendOutcome)>>>;

/// The mirror's batches, whether it has lost all of them once, and whether it is complete.
type Copied = (Stored, (bool, bool));

/// The files after a power cut and after a kill, the mirror, and the results known to users at that moment.
type Cut = ((Files, Files), Copied, Vec<Vec<(Entry, AppendOutcome)>>);

/// One life of a store, from the files of the previous one to the next power cut or kill.
struct Life {
    /// The content for each user at the start.
    begin: Vec<Model>,
    results: Vec<Results>,
    left: Files,
    /// The files if the process is killed instead.
    cached: Files,
    copied: Copied,
    segments: u64,
}

fn options(seed: u64) -> Options {
    let segment_bytes = [300, 1000, 4000][seed as usize % 3];
    Options {
        segment_bytes,
        max_bytes: 1 << 20,
        max_pending_bytes: 1 << 20,
        reserve_bytes: [0, 3 * segment_bytes][seed as usize / 3 % 2],
        accept_loss: false,
        salt: Some(seed << 40 | 77),
    }
}

fn of(user: usize) -> impl Fn(&str) -> bool {
    move |name| name.starts_with(&format!("{user}:"))
}

/// Uses the store until the program shuts down.
async fn use_it(mut user: User, journal: phalanx_store::Journal, results: Results, mut rng: Rng) {
    while !is_draining() && results.borrow().len() < 400 {
        // Several concurrent appends, each started before the previous one ends. Only a new session is awaited.
        let (max_calls, mut calls) = (rng.usize(1..6), Vec::new());
        while calls.len() < max_calls {
            let (entry, place) = (user.entry(), results.borrow().len());
            results.borrow_mut().push((entry.clone(), AppendOutcome::Unknown));
            let puts_session = entry.records().any(|it| matches!(it, Record::Session { .. }));
            calls.push((place, journal.append(entry)));
            if puts_session {
                break;
            }
        }
        for (place, call) in calls {
            let outcome = match call.await {
                Ok(()) => AppendOutcome::Kept,
                Err(AppendError::Disk { .. } | AppendError::Full { .. }) => AppendOutcome::Refused,
                // The result is unknown, and the store accepts nothing more.
                Err(_) => return,
            };
            let (entry, place) = &mut results.borrow_mut()[place];
            *place = outcome;
            if outcome == AppendOutcome::Refused {
                user.refused(entry);
            }
        }
    }
}

fn live(
    seed: u64,
    files: Files,
    recovered: &Recovered,
    copies: Option<Copies>,
    store: impl FnOnce(Dir) -> Store,
) -> Life {
    let begin: Vec<_> =
        (0..USERS as usize).map(|user| Model::recovered(recovered, of(user))).collect();
    let results: Vec<Results> = (0..USERS).map(|_| Results::default()).collect();
    let next = recovered.next_session.0.max(recovered.next_message.0);
    let highest = files.len() as u64;
    let cut: Rc<RefCell<Option<Cut>>> = Rc::default();
    let segments = Rc::new(Cell::new(0));
    sim::run(seed, |world| {
        files.into_iter().for_each(|(name, bytes)| world.file(&name, bytes));
        let Faults { disk, full, short, uncached, slow, retry, .. } = Faults::random(seed);
        let (disk, full) = (disk / 12, full / 4);
        world.set_faults(Faults { disk, full, short, uncached, slow, retry, ..Faults::NONE });
        let mut graph = Graph::new();
        let stage = graph.shared("users", ());
        let store = store(world.root());
        let mirror = copies.clone().map(|copies| -> MakeMirror { Box::new(|| Rc::new(copies)) });
        let journal = store.declare_mirrored(&mut graph, |_, _| mirror);
        let mut rng = Rng::with_seed(seed);
        let users = (0..USERS).map(|number| {
            let view = begin[number as usize].clone();
            (User::new(number, USERS, next, view, rng.fork()), rng.fork())
        });
        let users = RefCell::new(users.zip(results.clone()).collect::<Vec<_>>());
        let root = world.root();
        let (processors, observed) = (world.processors(), journal.clone());
        world.program(graph, move |start| {
            // Each user on its own worker.
            let mut users = users.borrow_mut();
            let all = std::mem::take(&mut *users);
            let (mine, rest) = all
                .into_iter()
                .enumerate()
                .partition::<Vec<_>, _>(|(n, _)| n % processors == start.processor() % processors);
            *users = rest.into_iter().map(|(_, user)| user).collect();
            for (_, ((user, rng), results)) in mine {
                let journal = journal.clone();
                stage.dispatch(move |_| use_it(user, journal, results, rng))?;
            }
            Ok(())
        });
        let (net, results, cut, segments) =
            (world.net(), results.clone(), cut.clone(), segments.clone());
        world.client(async move {
            let enough = net.draw(600) as usize;
            for _ in 0..2000 {
                if results.iter().map(|results| results.borrow().len()).sum::<usize>() >= enough {
                    break;
                }
                net.sleep(Duration::from_micros(100)).await;
            }
            // Segment numbers are consecutive.
            let name = |number| format!("{number:012}.journal");
            let names = (1..highest + 2000).map(name).chain(["position".to_owned()]);
            let names: Vec<_> = names.collect();
            let left = names
                .iter()
                .filter_map(|name| Some((name.clone(), net.content_after_power_cut(name)?)));
            let left = left.collect();
            let cached = names.iter().filter_map(|name| Some((name.clone(), cached(&root, name)?)));
            let files = (left, cached.collect());
            let results = results.iter().map(|results| results.borrow().clone()).collect();
            let copied = copies.map(|copies| (copies.stored(), copies.state())).unwrap_or_default();
            *cut.borrow_mut() = Some((files, copied, results));
            segments.set(observed.status().segments);
        });
    });
    let ((left, cached), copied, known) = cut.take().expect("the power cut happened");
    // Results after the power cut are discarded.
    results.iter().zip(known).for_each(|(results, known)| *results.borrow_mut() = known);
    Life { begin, results, left, cached, copied, segments: segments.get() }
}

/// The content of a file in the page cache.
fn cached(root: &Dir, name: &str) -> Option<Vec<u8>> {
    // The simulated disk is sometimes slow, or fails.
    let file = std::iter::repeat_with(|| root.open_file_blocking(name.as_bytes(), false))
        .find(|opened| {
            !opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        })?
        .ok()?;
    std::iter::repeat_with(|| file.read_at_blocking(0, 1 << 30)).find_map(Result::ok)
}

/// Whether the recovered content agrees with a user's results: everything acknowledged, nothing refused, and
/// a prefix of the rest.
fn agrees(begin: &Model, results: &[(Entry, AppendOutcome)], found: &Model) -> bool {
    let mut model = begin.clone();
    let last = results
        .iter()
        .rposition(|(_, outcome)| *outcome == AppendOutcome::Kept)
        .map_or(0, |last| last + 1);
    for (entry, outcome) in &results[..last] {
        // No entry with an unknown result precedes an acknowledged one.
        if *outcome != AppendOutcome::Refused {
            model.apply(entry.records());
        }
    }
    let mut rest = results[last..].iter().filter(|(_, outcome)| *outcome != AppendOutcome::Refused);
    loop {
        if model == *found {
            return true;
        }
        let Some((entry, _)) = rest.next() else { return false };
        model.apply(entry.records());
    }
}

#[test]
fn acknowledged_entries_survive_power_cuts() {
    let (all, kept, refused, torn, moved) =
        (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let count = |cell: &Cell<usize>, n: usize| cell.set(cell.get() + n);
    sim::explore_each(40, |seed| {
        let mut files = Files::new();
        let mut recovered = Recovered::default();
        for cut in 0..3 {
            let options = options(seed);
            let source = files.clone();
            let life = live(seed * 3 + cut, files, &recovered, None, |root| {
                Store::open_in(&source, root, Path::new("/"), options).unwrap().0
            });
            files = life.left;
            recovered = recover(&files, Path::new("/"))
                .unwrap_or_else(|error| panic!("seed {seed}, cut {cut}: {error}"));
            for (user, (begin, results)) in life.begin.iter().zip(&life.results).enumerate() {
                let (results, found) = (results.borrow(), Model::recovered(&recovered, of(user)));
                assert!(
                    agrees(begin, &results, &found),
                    "seed {seed}, cut {cut}, user {user}: {found:#?}"
                );
                let with = |outcome| results.iter().filter(|(_, it)| *it == outcome).count();
                count(&all, results.len());
                count(&kept, with(AppendOutcome::Kept));
                count(&refused, with(AppendOutcome::Refused));
            }
            count(&torn, usize::from(recovered.torn.is_some()));
            count(
                &moved,
                usize::from(life.segments > 0 && !files.contains_key("000000000001.journal")),
            );
        }
    });
    let figures = [&all, &kept, &refused, &torn, &moved].map(Cell::get);
    println!("entries, kept, refused; torn and cleaned journals: {figures:?}");
    // The test reached the intended situations.
    assert!(figures.iter().all(|figure| *figure > 0), "{figures:?}");
}

/// The first cut comes before most of the disk's state exists, and the others after a start from that state.
#[test]
fn acknowledged_entries_are_on_the_disk_and_in_the_mirror() {
    let (differing, trimmed, lost) = (Cell::new(0), Cell::new(0), Cell::new(0));
    sim::explore_each(40, |seed| {
        let (mut files, mut copied, mut recovered) =
            (Files::new(), Stored::new(), Recovered::default());
        for cut in 0..3 {
            let options = options(seed);
            let loses_at = (seed % 2 == 1).then_some(seed % 30 + 100 * cut);
            let (source, copies) = (files.clone(), Some(Copies::of(copied, loses_at)));
            let life = live(seed * 3 + cut, files, &recovered, copies, |root| {
                Store::open_in(&source, root, Path::new("/"), options).unwrap().0
            });
            let (has_lost, is_complete);
            (files, (copied, (has_lost, is_complete))) = (life.left, life.copied);
            recovered = recover(&files, Path::new("/")).unwrap();
            lost.set(lost.get() + usize::from(loses_at.is_some() && has_lost && is_complete));
            let id = options.salt.unwrap_or_default();
            let mirrored = batches(id, &copied).recover(Path::new("mirror"));
            let mirrored =
                mirrored.unwrap_or_else(|error| panic!("seed {seed}, cut {cut}: {error}"));
            for (user, (begin, results)) in life.begin.iter().zip(&life.results).enumerate() {
                // Others rely on a complete mirror only.
                let mirrored = is_complete.then_some(("mirror", &mirrored));
                for (place, from) in [Some(("disk", &recovered)), mirrored].into_iter().flatten() {
                    let (results, found) = (results.borrow(), Model::recovered(from, of(user)));
                    assert!(
                        agrees(begin, &results, &found),
                        "seed {seed}, cut {cut}, user {user}, {place}: {found:#?}"
                    );
                }
            }
            let differs = recovered.sessions != mirrored.sessions;
            differing.set(differing.get() + usize::from(differs));
            let is_trimmed = copied.first().is_some_and(|(number, _)| *number > 1);
            trimmed.set(trimmed.get() + usize::from(is_trimmed));
        }
    });
    // The test reached the intended situations.
    let figures = [&differing, &trimmed, &lost].map(Cell::get);
    assert!(figures.iter().all(|figure| *figure > 0), "{figures:?}");
}
